"""Definitions 1 to 6: the sequences, and the simplified transformer in its two forms."""

from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.lab.checks import exactly, identical
from stairwise.lab.config import Config, option, require
from stairwise.lab.contract import Verdict
from stairwise.papers.parity_cot import simplified
from stairwise.papers.parity_cot.claims.ledger import LEDGER
from stairwise.papers.parity_cot.claims.sizes import Drawn, complete, paper_layout, random_sequences, secret_of
from stairwise.papers.parity_cot.config.task import Task

# --- the sequences ----------------------------------------------------------------------------------------------------


@LEDGER.theory(
    "def1",
    kind="definition",
    says="without a chain: n uniform bits, a 0, and the parity of the secret bits",
    cases=(Drawn(Task(12, 3, cot=False)), Drawn(Task(5, 5, cot=False))),
)
def sequences_without_chain(config: Drawn, seed: int) -> Verdict:
    task = config.task
    plain = Task(task.inputs, task.size, cot=False, secret=task.secret, order=task.order)
    tokens, secret = random_sequences(plain, config.samples, seed), secret_of(plain, seed)
    n = task.inputs
    parity = np.bitwise_xor.reduce(tokens[:, secret], axis=1)
    return exactly(
        {
            "length n+2": tokens.shape[1] == n + 2,
            "token n+1 is 0": bool(np.all(tokens[:, n] == 0)),
            "token n+2 is the parity": bool(np.all(tokens[:, n + 1] == parity)),
            "k distinct secret positions": len(set(secret.tolist())) == task.size
            and 0 <= min(secret) <= max(secret) < n,
            "inputs are balanced (5 deviations)": bool(
                np.all(np.abs(tokens[:, :n].mean(axis=0) - 0.5) <= 2.5 / np.sqrt(config.samples))
            ),
        }
    )


@LEDGER.theory(
    "def2",
    kind="definition",
    says="with a chain: b[n+1] = 0, b[i+1] = b[i] xor b[S[i]], S any order of the secret; the last token is the parity",
    cases=(Drawn(), Drawn(Task(9, 9, order="random"))),
)
def sequences_with_chain(config: Drawn, seed: int) -> Verdict:
    task, n = config.task, config.task.inputs
    chained = Task(n, task.size, secret=task.secret, order=task.order)
    tokens, secret = random_sequences(chained, config.samples, seed), secret_of(chained, seed)
    steps = tokens[:, n:-1] ^ tokens[:, secret]
    worked = Task(5, 3, secret=(0, 1, 3))
    example = complete(worked, 0, np.array([[0, 1, 0, 1, 0]], dtype=np.int8))[0].tolist()
    return exactly(
        {
            "length n+k+1": tokens.shape[1] == n + task.size + 1,
            "token n+1 is 0": bool(np.all(tokens[:, n] == 0)),
            "each step adds one secret bit": bool(np.all(tokens[:, n + 1 :] == steps)),
            "the last token is the parity": bool(np.all(tokens[:, -1] == np.bitwise_xor.reduce(tokens[:, secret], 1))),
            "the paper's example": example == [0, 1, 0, 1, 0, 0, 0, 1, 0],
        }
    )


@LEDGER.theory(
    "loss-printed",
    kind="definition",
    says="as printed: the loss without a chain sums over the labels b[n+2..n+k+1], with a chain it has b[n+2] only",
    cases=Drawn(samples=16),
)
def losses_are_swapped(config: Drawn, seed: int) -> Verdict:
    task = config.task
    plain, chained = Task(task.inputs, task.size, cot=False), Task(task.inputs, task.size)
    have = {
        "without": random_sequences(plain, config.samples, seed).shape[1],
        "with": random_sequences(chained, config.samples, seed).shape[1],
    }
    needed = task.inputs + task.size + 1
    row = {"tokens without chain": have["without"], "tokens with chain": have["with"], "printed sum reaches": needed}
    return Verdict.at_most(
        needed,
        have["without"],
        otherwise="refuted",
        note="'with and without CoT respectively' is swapped: the sum over n+1..n+k is the loss with a chain",
        details=(row,),
    )


# --- the simplified transformer ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Network(Config):
    """A simplified transformer with random weights in the span of its embeddings."""

    task: Task = option(Task(6, 3), "the parity")
    width: int = option(40, "width d", low=1, high=4096)
    neurons: int = option(5, "m: half the number of hidden neurons", low=1, high=1000)
    samples: int = option(16, "sequences", low=1, high=1000)
    spread: float = option(2.0, "standard deviation of the coefficients of A", low=0.0)

    def check(self) -> None:
        paper_layout(self.task)
        require(self.task.inputs + self.task.size <= 64, f"task.inputs={self.task.inputs} must be at most 63")


@cache
def _coefficient_outputs():
    def run(weights, gram, readout, tokens, first):
        tables = weights.tables(gram)
        each = jax.vmap(lambda one: simplified.attention(tables.scores, one, first))(tokens)
        return each, jax.vmap(lambda one: simplified.outputs(tables, readout, one, first))(tokens)

    return jax.jit(run, static_argnums=4)


@cache
def _embeddings():
    def draw(key, atoms, width):
        signs = simplified.draw_signs(key, atoms, width)
        return simplified.vectors(signs, width), simplified.gram_of(signs, width)

    return jax.jit(draw, static_argnums=(1, 2))


def network(config: Network, seed: int):
    """Embeddings, Gram matrix, coefficients, readout and tokens of a random network."""
    tokens = random_sequences(config.task, config.samples, seed)
    atoms = 2 * (tokens.shape[1] - 1)
    random = np.random.default_rng(seed)
    E, gram = map(np.asarray, _embeddings()(jax.random.key(seed), atoms, config.width))
    first, second = random.standard_normal((2, 2 * config.neurons, atoms))
    weights = (first, second, config.spread * random.standard_normal((atoms, atoms)))
    return E, gram, weights, random.standard_normal(2 * config.neurons), tokens


def dense_forward(E, weights, readout, tokens, first):
    """Definitions 4 to 6 word by word: X, softmax(C + X'AX) over the keys of each column, h' ReLU(W [X; X P])."""
    A, W = E.T @ weights[2] @ E, np.concatenate([weights[0] @ E, weights[1] @ E], axis=1)
    attention, outputs = [], []
    for one in tokens:
        X = E[2 * np.arange(len(one)) + one].T
        C = np.where(np.tril(np.ones((len(one), len(one))), -1) > 0, -np.inf, 0.0)  # key below query: j > i
        Z = C + X.T @ A @ X
        P = np.exp(Z - Z.max(axis=0))
        P /= P.sum(axis=0)
        hidden = W @ np.concatenate([X, X @ P])
        attention.append(P.T[first:])
        outputs.append((readout @ np.maximum(hidden, 0))[first:])
    return np.stack(attention), np.stack(outputs)


@LEDGER.theory(
    "def3",
    kind="definition",
    says="embeddings are 2T frozen vectors with entries +-1/sqrt(d): of norm 1, and G = E E' by counting signs",
    cases=(Network(), Network(width=33)),
)
def embeddings_are_signs(config: Network, seed: int) -> Verdict:
    E, gram, *_ = network(config, seed)
    return Verdict.worst(
        {
            "entries": identical({"|entry| sqrt(d)": (np.abs(E) * np.sqrt(config.width), np.ones_like(E))}, 1e-14),
            "norms": identical({"norm^2": (np.sum(E**2, axis=1), np.ones(len(E)))}, 1e-14),
            "Gram matrix": identical({"E E'": (gram, E @ E.T)}, 1e-14),
        }
    )


@LEDGER.theory(
    "def4",
    kind="definition",
    says="attention: softmax over the keys j <= i of query i (the columns of C + X'AX); later tokens change nothing",
    cases=Network(),
)
def attention_is_causal(config: Network, seed: int) -> Verdict:
    E, gram, weights, readout, tokens = network(config, seed)
    first = config.task.inputs
    run = _coefficient_outputs()
    arguments = (simplified.Coefficients(*map(jnp.asarray, weights)), jnp.asarray(gram), jnp.asarray(readout))
    attention, outputs = map(np.asarray, run(*arguments, tokens[:, :-1], first))
    flipped = tokens[:, :-1].copy()
    flipped[:, -1] ^= 1
    _, changed = map(np.asarray, run(*arguments, flipped, first))
    dense, _ = dense_forward(E, weights, readout, tokens[:, :-1], first)
    verdicts = {
        "attention": identical({"softmax(C + X'AX)": (attention, dense)}),
        "rows sum to 1": identical({"sum": (attention.sum(axis=-1), np.ones(attention.shape[:2]))}, 1e-14),
    }
    if outputs.shape[1] > 1:
        verdicts["outputs before a changed token"] = identical({"change": (changed[:, :-1], outputs[:, :-1])})
    return Verdict.worst(verdicts)


@LEDGER.theory(
    "def4-printed",
    kind="definition",
    says="as printed: C is -inf on the lower triangular matrix (its diagonal with it)",
    cases=Network(),
)
def the_diagonal_is_not_masked(config: Network, seed: int) -> Verdict:
    positions = config.task.inputs + config.task.size
    visible = np.sum(np.tril(np.ones((positions, positions))) == 0, axis=0)  # keys left to each query, by column
    row = {"keys that query 1 sees": int(visible[0]), "with the diagonal kept": 1}
    return Verdict.at_least(
        float(visible.min()),
        1,
        otherwise="refuted",
        note="-inf belongs strictly below the diagonal, rows being keys and columns queries",
        details=(row,),
    )


@LEDGER.theory(
    "def5",
    kind="definition",
    says="the FFN: h' ReLU(W X), no bias, h frozen; at Assumption 1's start h = +-1/(2m), A = 0, W[:, d:] = 0",
    cases=Network(),
)
def the_start_is_as_assumed(config: Network, seed: int) -> Verdict:
    k, positions = config.task.size, config.task.inputs + config.task.size
    positive = np.asarray(simplified.draw_start(jax.random.key(seed), config.neurons, k, False))
    start = simplified.start(jnp.asarray(positive), positions, jnp.asarray(3.0))
    first = np.asarray(start.first).reshape(2 * config.neurons, positions, 2)
    h = np.asarray(simplified.readout(config.neurons))
    m = config.neurons
    return exactly(
        {
            "h": bool(np.all(h * 2 * m == np.repeat([1, -1], m))),
            "A = 0": not np.any(np.asarray(start.attention)),
            "W[:, d:] = 0": not np.any(np.asarray(start.second)),
            "W[:, :d] in the last k positions": not np.any(first[:, : config.task.inputs]),
            "nu = +-eps": bool(np.all(first[:, config.task.inputs :] == np.where(positive, 3.0, -3.0))),
        }
    )


@LEDGER.theory(
    "def6",
    kind="definition",
    says="the block T(b) = FFN([E(b); A(E(b))]): in the span of the embeddings it equals the dense one",
    cases=(Network(), Network(Task(8, 2, cot=False), width=7)),
)
def coefficients_equal_the_dense_block(config: Network, seed: int) -> Verdict:
    E, gram, weights, readout, tokens = network(config, seed)
    first = config.task.inputs
    arguments = (simplified.Coefficients(*map(jnp.asarray, weights)), jnp.asarray(gram), jnp.asarray(readout))
    _, found = _coefficient_outputs()(*arguments, tokens[:, :-1], first)
    _, dense = dense_forward(E, weights, readout, tokens[:, :-1], first)
    return identical({"T(b) at the supervised positions": (found, dense)})
