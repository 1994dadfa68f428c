"""Definitions 1 to 6: the sequences, and the simplified transformer in its two forms."""

from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.config import Config, option, require
from stairwise.lab.contract.checks import at_most, equal, true
from stairwise.papers.parity_cot import construction, dense, simplified
from stairwise.papers.parity_cot.claims.ledger import LEDGER
from stairwise.papers.parity_cot.claims.sizes import (
    RandomSequences,
    complete,
    cube,
    paper_layout,
    problem_of,
    random_sequences,
    secret_of,
)
from stairwise.papers.parity_cot.config.task import Task
from stairwise.papers.parity_cot.task import Problem
from stairwise.train.draws import draws_of
from stairwise.train.keys import role_key

# --- the sequences ----------------------------------------------------------------------------------------------------


def flipped_as_told(task: Task, tokens: np.ndarray, seed: int) -> np.ndarray:
    """Whether sequences with random wrong steps have the same inputs, and each step flipped once per error so far."""
    few, n = tokens[:64], task.bits
    wrong = draws_of(seed, "wrong steps").integers(0, 2, (len(few), tokens.shape[1] - n - 1)) == 1
    told = np.asarray(_completer_with_errors()(problem_of(task, seed), jnp.asarray(few[:, :n]), jnp.asarray(wrong)))
    errors = np.concatenate([np.zeros_like(few[:, : n + 1]), np.cumsum(wrong, axis=1) % 2], axis=1)
    return told == few ^ errors


@cache
def _completer_with_errors():
    return jax.jit(lambda problem, bits, wrong: jax.vmap(problem.tokens)(bits, wrong))


@LEDGER.exact(
    "def1",
    statement="Definition 1",
    says=r"without a chain: $n$ uniform bits, a 0, and the parity of the secret bits",
    of=(Problem.tokens,),
    cases=(RandomSequences(Task(12, 3, cot=False)), RandomSequences(Task(5, 5, cot=False))),
    seeds=3,
)
def sequences_without_chain(config: RandomSequences, seed: int):
    task = config.task
    plain = Task(task.bits, task.size, cot=False, secret=task.secret, order=task.order)
    tokens, secret = random_sequences(plain, config.samples, seed), secret_of(plain, seed)
    n = task.bits
    yield true("length n+2", tokens.shape[1] == n + 2)
    yield true("token n+1 is 0", tokens[:, n] == 0)
    yield true("token n+2 is the parity", tokens[:, n + 1] == np.bitwise_xor.reduce(tokens[:, secret], axis=1))
    yield true("a wrong step (label noise) and what builds on it are flipped", flipped_as_told(plain, tokens, seed))
    yield true(
        "k distinct secret positions", len(set(secret.tolist())) == task.size and 0 <= min(secret) <= max(secret) < n
    )
    off = np.abs(tokens[:, :n].mean(axis=0) - 0.5)
    yield at_most("|share of ones - 1/2| of an input (5 deviations)", off, 2.5 / np.sqrt(config.samples))


@LEDGER.exact(
    "def2",
    statement="Definition 2",
    says=r"with a chain: $b[n+1] = 0$, $b[i+1] = b[i] \oplus b[S[i]]$, $S$ any order of the secret; the last token is"
    " the parity",
    of=(Problem.tokens,),
    cases=(RandomSequences(), RandomSequences(Task(9, 9, order="random"))),
    seeds=3,
)
def sequences_with_chain(config: RandomSequences, seed: int):
    task, n = config.task, config.task.bits
    chained = Task(n, task.size, secret=task.secret, order=task.order)
    tokens, secret = random_sequences(chained, config.samples, seed), secret_of(chained, seed)
    worked = Task(5, 3, secret=(0, 1, 3))
    example = complete(worked, 0, np.array([[0, 1, 0, 1, 0]], dtype=np.int8))[0].tolist()
    yield true("length n+k+1", tokens.shape[1] == n + task.size + 1)
    yield true("token n+1 is 0", tokens[:, n] == 0)
    yield true("a wrong step (label noise) and what builds on it are flipped", flipped_as_told(chained, tokens, seed))
    yield true("each step adds one secret bit", tokens[:, n + 1 :] == tokens[:, n:-1] ^ tokens[:, secret])
    yield true("the last token is the parity", tokens[:, -1] == np.bitwise_xor.reduce(tokens[:, secret], axis=1))
    yield true("the paper's example", example == [0, 1, 0, 1, 0, 0, 0, 1, 0])


@LEDGER.misprint(
    "loss-printed",
    statement="Section 3.1",
    says=r"as printed: the loss without a chain sums over labels $b[n+2..n+k+1]$, with a chain it has $b[n+2]$ only",
    means='"with and without CoT respectively" is swapped: the sum over $n+1..n+k$ is the loss with a chain',
    of=(Problem.tokens,),
    corrected="eq2",
    cases=RandomSequences(samples=16),
    seeds=3,
)
def losses_are_swapped(config: RandomSequences, seed: int):
    plain = Task(config.task.bits, config.task.size, cot=False)
    have = random_sequences(plain, config.samples, seed).shape[1]
    yield at_most("last label of the sum, without a chain", config.task.bits + config.task.size + 1, have)


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
        require(self.task.bits + self.task.size <= 64, f"task.bits={self.task.bits} must be at most 63")


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
    random = draws_of(seed, "weights")
    E, gram = map(np.asarray, _embeddings()(role_key(seed, "embeddings"), atoms, config.width))
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


@LEDGER.exact(
    "def3",
    statement="Definition 3",
    says=r"embeddings are $2T$ frozen vectors with entries $\pm1/\sqrt{d}$: of norm 1, $G = EE^\top$ by counting signs",
    of=(simplified.vectors, simplified.gram_of),
    cases=(Network(), Network(width=33)),
    seeds=3,
)
def embeddings_are_signs(config: Network, seed: int):
    E, gram, *_ = network(config, seed)
    yield equal("|entries|", np.abs(E), np.full_like(E, config.width**-0.5), 1e-14)
    yield equal("squared norms", np.sum(E**2, axis=1), np.ones(len(E)), 1e-14)
    yield equal("Gram matrix", gram, E @ E.T, 1e-14)
    words = np.asarray(simplified.draw_signs(role_key(seed, "embeddings"), *E.shape)).astype("<u4")
    bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")[:, : config.width]
    yield true("a drawn bit is a minus", (E < 0) == (bits == 1))
    share = np.mean(E > 0)
    yield at_most("|share of positive entries - 1/2| (5 deviations)", abs(share - 0.5), 2.5 / np.sqrt(E.size))


@LEDGER.exact(
    "def4",
    statement="Definition 4",
    says=r"attention: softmax over the keys $j \le i$ of query $i$ (columns of $C + X^\top AX$); none of later tokens",
    of=(simplified.attention,),
    aliases=("def4-printed",),
    cases=Network(),
    seeds=3,
)
def attention_is_causal(config: Network, seed: int):
    E, gram, weights, readout, tokens = network(config, seed)
    first = config.task.bits
    run = _coefficient_outputs()
    arguments = (simplified.Coefficients(*map(jnp.asarray, weights)), jnp.asarray(gram), jnp.asarray(readout))
    attention, outputs = map(np.asarray, run(*arguments, tokens[:, :-1], first))
    flipped = tokens[:, :-1].copy()
    flipped[:, -1] ^= 1
    _, changed = map(np.asarray, run(*arguments, flipped, first))
    dense_attention, _ = dense_forward(E, weights, readout, tokens[:, :-1], first)
    yield equal("softmax(C + X'AX)", attention, dense_attention)
    if outputs.shape[1] > 1:
        yield true("outputs before a changed token stay", changed[:, :-1] == outputs[:, :-1])


@LEDGER.exact(
    "def5",
    statement=("Definition 5", "Assumption 1"),
    says=r"the start: $h = \pm1/(2m)$, $A = 0$, $W_{:,d+1:2d} = 0$, $W_{r,1:d} = \sum\nu_{r,i,b}e_{i,b}$ with"
    r" $\nu = \pm\epsilon$",
    of=(simplified.start, simplified.readout, simplified.draw_start),
    cases=(Network(), Network(neurons=200)),
    seeds=3,
)
def the_start_is_as_assumed(config: Network, seed: int):
    k, m, positions = config.task.size, config.neurons, config.task.bits + config.task.size
    positive = np.asarray(simplified.draw_start(role_key(seed, "signs of nu"), m, k, False))
    start = simplified.start(jnp.asarray(positive), positions, jnp.asarray(3.0))
    first = np.asarray(start.first).reshape(2 * m, positions, 2)
    yield equal("h", simplified.readout(m), np.repeat([1, -1], m) / (2 * m))
    yield true("A = 0", np.asarray(start.attention) == 0)
    yield true("W[:, d:] = 0", np.asarray(start.second) == 0)
    yield true("W[:, :d] is 0 at the inputs", first[:, : config.task.bits] == 0)
    yield true("nu = +-eps", first[:, config.task.bits :] == np.where(positive, 3.0, -3.0))
    yield at_most(
        "|share of positive nu - 1/2| (5 deviations)", abs(positive.mean() - 0.5), 2.5 / np.sqrt(positive.size)
    )
    paired = np.asarray(simplified.draw_start(role_key(seed, "signs of nu in pairs"), m, k, True))
    yield true("in pairs, neuron m+r is as neuron r", paired[m:] == paired[:m])


@LEDGER.exact(
    "def6",
    statement="Definition 6",
    says=r"the block $T(b) = \mathrm{FFN}([E(b); A(E(b))])$: in the span of the embeddings it equals the dense one",
    of=(simplified.outputs, simplified.preactivations, simplified.on_atoms, dense.SimplifiedTransformer.__call__),
    cases=(Network(), Network(Task(8, 2, cot=False), width=7)),
    seeds=3,
)
def coefficients_equal_the_dense_block(config: Network, seed: int):
    E, gram, weights, readout, tokens = network(config, seed)
    first = config.task.bits
    arguments = (simplified.Coefficients(*map(jnp.asarray, weights)), jnp.asarray(gram), jnp.asarray(readout))
    _, found = _coefficient_outputs()(*arguments, tokens[:, :-1], first)
    _, slow = dense_forward(E, weights, readout, tokens[:, :-1], first)
    yield equal("T(b) at the supervised positions", found, slow)
    A, W = E.T @ weights[2] @ E, np.concatenate([weights[0] @ E, weights[1] @ E], axis=1)
    model = dense.SimplifiedTransformer(*map(jnp.asarray, (E, A, W, readout)))
    yield equal("T(b) as a dense module", jax.jit(jax.vmap(model))(tokens[:, :-1].astype(np.int32))[:, first:], slow)


@dataclass(frozen=True)
class Deep(Network):
    """Several blocks with random weights."""

    layers: int = option(3, "blocks L", low=1, high=8)


def word_by_word(x, blocks):
    """Blocks of Definition 6, query by query: softmax over the keys j <= i, then H ReLU(W [x_i; sum P_j x_j])."""
    for A, W, H in blocks:
        rows = []
        for i, here in enumerate(x):
            scores = np.array([key @ A @ here for key in x[: i + 1]])
            P = np.exp(scores - scores.max())
            joint = np.concatenate([here, (P / P.sum()) @ x[: i + 1]])
            rows.append(H @ np.maximum(W @ joint, 0))
        x = np.array(rows)
    return x[:, 0]


@LEDGER.exact(
    "def6-layers",
    statement="Definition 6",
    says=r"$L$ layers are $L$ blocks, the embeddings in the first only, the width between them $d$ and at the end 1;"
    r" blocks of $2d$ neurons that hand their input on make the parity of Theorem 1 an $L$-layer network",
    of=(dense.Block.__call__, dense.DeepTransformer.__call__, dense.identity),
    cases=(Deep(width=200), Deep(Task(4, 2, cot=False), width=64, layers=2)),
    seeds=3,
)
def layers_are_composed(config: Deep, seed: int):
    E, *_, tokens = network(config, seed)
    d, m, random = config.width, config.neurons, draws_of(seed, "weights of the layers")
    outs = [d] * (config.layers - 1) + [1]
    drawn = [
        tuple(random.standard_normal(shape) / np.sqrt(d) for shape in ((d, d), (2 * m, 2 * d), (out, 2 * m)))
        for out in outs
    ]
    model = dense.DeepTransformer(jnp.asarray(E), tuple(dense.Block(*map(jnp.asarray, each)) for each in drawn))
    found = jax.jit(jax.vmap(model))(tokens[:, :-1].astype(np.int32))
    slow = [word_by_word(E[2 * np.arange(len(one)) + one], drawn) for one in tokens[:, :-1]]
    yield equal(f"{config.layers} random blocks, against loops", found, np.stack(slow))
    bits, secret = cube(config.task.bits), secret_of(config.task, seed)
    inputs = np.concatenate([bits, np.zeros((len(bits), 1), np.int8)], axis=1).astype(np.int32)
    E = E[: 2 * inputs.shape[1]]
    weights = construction.theorem1(E @ E.T, secret)
    first, second, attention = map(np.asarray, (weights.first, weights.second, weights.attention))
    last = E.T @ attention @ E, np.concatenate([first @ E, second @ E], axis=1)
    readout = construction.theorem1_readout(len(secret))[None]
    block = dense.Block(jnp.asarray(last[0]), jnp.asarray(last[1]), jnp.asarray(readout))
    handed = (dense.identity(d, jnp.float64),) * (config.layers - 1)
    out = jax.jit(jax.vmap(dense.DeepTransformer(jnp.asarray(E), (*handed, block))))(inputs)[:, -1]
    parity = np.bitwise_xor.reduce(bits[:, secret], axis=1)
    yield equal(f"the parity by {config.layers} layers, all inputs", out, 2.0 * parity - 1, 1e-6)
