"""The task and the network as the paper defines them."""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.config import option
from stairwise.lab.contract.checks import at_most, equal, true
from stairwise.papers.composition import constructions, model
from stairwise.papers.composition import task as tasks
from stairwise.papers.composition.claims.ledger import LEDGER
from stairwise.papers.composition.claims.sizes import Listed, Sizes, doubling, hidden_of, random_sequences
from stairwise.papers.composition.config import Task
from stairwise.papers.composition.theory import inner, literal
from stairwise.train.draws import draws_of


def oracles(hidden: np.ndarray, sequences: np.ndarray, hops: int) -> tuple[np.ndarray, np.ndarray]:
    """hop_i^r(j) of every sequence by the task's two oracles."""
    both = _hops(jnp.asarray(hidden, dtype=jnp.int32), jnp.asarray(sequences, dtype=jnp.int32), hops)
    return np.asarray(both[0]), np.asarray(both[1])


@partial(jax.jit, static_argnames="hops")
def _hops(hidden, sequences, hops: int):
    task = tasks.Composition(hidden)
    return jax.vmap(lambda s: (task.hop(s, hops), task.hop_by_doubling(s, hops)))(sequences)


def one_by_one(hidden: np.ndarray, sequence: np.ndarray, start: int, x: int) -> int:
    """(sigma_{i+k-1} pi_{i+k-1} ... sigma_i pi_i)(x), one permutation after another."""
    k = len(sequence)
    for step in range(k):
        x = int(sequence[(start + step) % k][hidden[(start + step) % k][x]])
    return x


def oracles_compose(config: Listed, seed: int, cyclic: bool):
    """Both oracles against literal composition, for all sequences and letters."""
    hidden, k, N = hidden_of(config.task, seed), config.task.blocks, config.task.alphabet
    starts, sequences = range(k if cyclic else 1), inner.every_tuple(k, N)
    literally = np.array([[[one_by_one(hidden, s, i, x) for x in range(N)] for i in starts] for s in sequences])
    gathered, doubled = oracles(hidden, sequences, k)
    yield true("answers by one hop after another", gathered[:, : len(starts)] == literally)
    yield true("answers by doubling", doubled[:, : len(starts)] == literally)


LEDGER.family(
    oracles_compose,
    {
        "task-fold": {
            "statement": "Section 2.1",
            "says": (
                r"$f_\pi(\sigma, x) = \sigma_k\pi_k\cdots\sigma_1\pi_1(x)$: both oracles against literal composition, "
                r"all $\sigma$ and $x$"
            ),
            "cases": (Listed(Task(2, 3)), Listed(Task(4, 3)), Listed(Task(3, 3, any_blocks=True))),
            "given": {"cyclic": False},
        },
        "task-cyc": {
            "statement": "Section 2.1, cyclic task",
            "says": (
                r"$f_\pi^{cyc}(\sigma, i, x)$ starts at block $i$ and goes round: both oracles against literal "
                r"composition, all $i$"
            ),
            "cases": (Listed(Task(2, 3)), Listed(Task(4, 2)), Listed(Task(3, 3, any_blocks=True))),
            "given": {"cyclic": True},
        },
    },
    form="exact",
    of=(tasks.Composition.hop, tasks.Composition.hop_by_doubling),
    seeds=3,
)


@dataclass(frozen=True)
class Weights(Sizes):
    """Random weights on random sequences."""

    scale: float = option(1.0, "standard deviation of the weights", above=0.0, high=100.0)


def random_model(config: Weights, seed: int):
    """The structured network with Gaussian key-query matrices and readouts."""
    rng, task = draws_of(seed, "weights"), config.task
    start = model.untrained(task.plan, task.blocks, task.alphabet, 1.0, dtype="float64")
    normal = [jnp.asarray(config.scale * rng.standard_normal(W.shape)) for W in start.key_query]
    readout = jnp.asarray(rng.standard_normal(start.readout.shape))
    return model.AttentionOnly(tuple(normal), readout, plan=start.plan)


@LEDGER.exact(
    "def2",
    statement="Definition 2",
    says=r"a head is $X + W_{OV}X\,\mathcal{S}(X^\top W_{KQ}X)$, softmax over keys: the structured layer equals it",
    of=(literal.attention_head, literal.softmax),
    seeds=3,
    cases=(Weights(Task(2, 3)), Weights(Task(4, 3))),
)
def one_layer_is_the_head_as_defined(config: Weights, seed: int):
    network, task = random_model(config, seed), config.task
    sequence = random_sequences(task, 1, seed)[0]
    X, T = literal.embedding(sequence, task.layers), task.tokens
    W = literal.dense_key_query(np.asarray(network.key_query[0]), task.layers)
    defined = literal.attention_head(X, W, literal.copy_matrix(T, task.layers, 1)).reshape(-1, T, T)
    blocks = jax.jit(lambda s: network.stream(s, 1).blocks)(jnp.asarray(sequence, dtype=jnp.int32))
    yield equal("stream after one layer", np.stack(blocks), defined[:3])
    yield equal("blocks that no layer has written", defined[3:], 0.0)


@LEDGER.exact(
    "def3",
    statement="Definition 3",
    says=r"the transformer is $L$ heads in series, decoded by $\Psi^\top$: the structured network equals it",
    of=(literal.transformer, literal.embedding, literal.copy_matrix),
    seeds=3,
    cases=(Weights(Task(2, 3)), Weights(Task(4, 3))),
)
def the_network_is_heads_in_series(config: Weights, seed: int):
    network, task = random_model(config, seed), config.task
    L, T = task.layers, task.tokens
    sequence = random_sequences(task, 1, seed)[0]
    matrices = [literal.dense_key_query(np.asarray(W), L) for W in network.key_query]
    values = [literal.copy_matrix(T, L, layer) for layer in range(1, L + 1)]
    if doubling(task):  # an accumulation layer copies another block than the one before
        values = [_copies(layer.value, number, L, T) for number, layer in enumerate(task.plan)]
    X = literal.transformer(literal.embedding(sequence, L), matrices, values)
    readouts = np.asarray(network.readout).reshape(L, (L + 2) * T, task.alphabet)
    heads = jax.jit(lambda s: network.heads(s))(jnp.asarray(sequence, dtype=jnp.int32))
    yield equal("output", heads, np.einsum("hdn,dq->hqn", readouts, X))


def _copies(source: int, layer: int, layers: int, tokens: int) -> np.ndarray:
    unit = np.zeros((layers + 2, layers + 2))
    unit[layer + 2, source] = 1
    return np.kron(unit, np.eye(tokens))


@dataclass(frozen=True)
class SharpWeights(Sizes):
    """Theorem 4's weights on random sequences."""

    task: Task = option(Task(4, 5), "the composition")
    beta: float = option(40.0, "sharpness beta of attention", above=0.0, high=700.0)
    sequences: int = option(20, "random sequences", low=1, high=10_000)


@LEDGER.exact(
    "fig2",
    statement="Figure 2",
    says=(
        r"$X^{(0)}$ holds place and value; $(i,j)$ looks at $(i, \pi_i(j))$, later at $(i+r, \mathrm{hop}_i^r(j))$, "
        r"$r = 2^{\ell-2}$"
    ),
    of=(constructions.any_blocks, literal.embedding),
    free={"any_blocks": "its readouts, which no arrow of the figure shows"},
    seeds=3,
    cases=SharpWeights(),
)
def the_attention_pattern_is_the_one_drawn(config: SharpWeights, seed: int):
    task, hidden = config.task, hidden_of(config.task, seed)
    network = constructions.any_blocks(jnp.asarray(hidden, dtype=jnp.int32), config.beta, dtype="float64")
    sequences = random_sequences(task, config.sequences, seed)
    attention = jax.jit(jax.vmap(network.attention))(jnp.asarray(sequences, dtype=jnp.int32))
    T = task.tokens
    for number, weights in enumerate(map(np.asarray, attention), start=1):
        keys = _drawn_keys(hidden, sequences, 0 if number == 1 else _hops_before(task, number))
        mass = np.take_along_axis(weights, keys[:, None], axis=1)
        yield true(f"layer {number} looks where the arrows go", weights.argmax(axis=1) == keys)
        yield at_most(f"attention of layer {number} elsewhere", 1 - mass.min(), T * np.exp(-config.beta) + 1e-15)
    X = literal.embedding(sequences[0], task.layers).reshape(-1, T, T)
    values = (np.arange(task.blocks)[:, None] * task.alphabet + sequences[0]).reshape(-1)
    yield equal("blocks: place, value, and one for each layer", len(X), task.layers + 2)
    yield true("block 1 is the identity", X[0] == np.eye(T))
    yield true("block 2 shows the values", X[1] == np.eye(T)[:, values])
    yield true("the other blocks are empty", X[2:] == 0)


def _hops_before(task: Task, number: int) -> int:
    """Hops that the query block of a layer already holds."""
    query = task.plan[number - 1].query
    return task.plan[query - 2].hops


def _drawn_keys(hidden: np.ndarray, sequences: np.ndarray, reached: int) -> np.ndarray:
    """Where the figure's arrows go, as tokens: (count, kN)."""
    count, k, N = sequences.shape
    if reached == 0:
        letters, shift = np.broadcast_to(hidden, sequences.shape), 0
    else:
        letters, shift = oracles(hidden, sequences, reached)[0], reached
    rows = (np.arange(k)[:, None] + shift) % k
    return (rows * N + letters).reshape(count, k * N)
