"""The task and the network as the paper defines them."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.lab.checks import exactly, identical
from stairwise.lab.config import option
from stairwise.lab.contract import Verdict
from stairwise.papers.composition import constructions, model
from stairwise.papers.composition import task as tasks
from stairwise.papers.composition.claims.ledger import LEDGER
from stairwise.papers.composition.claims.sizes import Listed, Sizes, doubling, hidden_of, random_sequences
from stairwise.papers.composition.config import Task
from stairwise.papers.composition.theory import inner, literal


def oracles(hidden: np.ndarray, sequences: np.ndarray, hops: int) -> tuple[np.ndarray, np.ndarray]:
    """hop_i^r(j) of every sequence by the task's two oracles."""
    task = tasks.composition(hidden)
    both = jax.jit(jax.vmap(lambda s: (task.hop(s, hops), task.hop_by_doubling(s, hops))))(
        jnp.asarray(sequences, dtype=jnp.int32)
    )
    return np.asarray(both[0]), np.asarray(both[1])


def one_by_one(hidden: np.ndarray, sequence: np.ndarray, start: int, x: int) -> int:
    """(sigma_{i+k-1} pi_{i+k-1} ... sigma_i pi_i)(x), one permutation after another."""
    k = len(sequence)
    for step in range(k):
        x = int(sequence[(start + step) % k][hidden[(start + step) % k][x]])
    return x


@LEDGER.theory(
    "task-fold",
    kind="definition",
    says="f_pi(sigma, x) = sigma_k pi_k ... sigma_1 pi_1 (x): both oracles against literal composition, all sigma, x",
    cases=(Listed(Task(2, 3)), Listed(Task(4, 3)), Listed(Task(3, 3, any_blocks=True))),
)
def the_oracles_compose_in_the_right_order(config: Listed, seed: int) -> Verdict:
    return _compared(config, seed, range(1))


@LEDGER.theory(
    "task-cyc",
    kind="definition",
    says="f_cyc(sigma, i, x) starts at block i and goes round: both oracles against literal composition, all i",
    cases=(Listed(Task(2, 3)), Listed(Task(4, 2)), Listed(Task(3, 3, any_blocks=True))),
)
def the_oracles_go_round(config: Listed, seed: int) -> Verdict:
    return _compared(config, seed, range(config.task.blocks))


def _compared(config: Listed, seed: int, starts: range) -> Verdict:
    hidden, k, N = hidden_of(config.task, seed), config.task.blocks, config.task.alphabet
    sequences = inner.every_tuple(k, N)
    literally = np.array([[[one_by_one(hidden, s, i, x) for x in range(N)] for i in starts] for s in sequences])
    gathered, doubled = oracles(hidden, sequences, k)
    wrong = int((gathered[:, : len(starts)] != literally).sum() + (doubled[:, : len(starts)] != literally).sum())
    return Verdict.at_most(wrong, 0, details=({"sequences": len(sequences), "starts": len(starts)},))


@dataclass(frozen=True)
class Weights(Sizes):
    """Random weights on random sequences."""

    scale: float = option(1.0, "standard deviation of the weights", above=0.0, high=100.0)


def random_model(config: Weights, seed: int):
    """The structured network with Gaussian key-query matrices and readouts."""
    rng, task = np.random.default_rng([seed, 1]), config.task
    start = model.untrained(task.plan, task.blocks, task.alphabet, 1.0, dtype="float64")
    normal = [jnp.asarray(config.scale * rng.standard_normal(W.shape)) for W in start.key_query]
    readout = jnp.asarray(rng.standard_normal(start.readout.shape))
    return model.AttentionOnly(tuple(normal), readout, plan=start.plan)


@LEDGER.theory(
    "def2",
    kind="definition",
    says="a head is X + W_OV X S(X^T W_KQ X), softmax over keys (Definition 2): the structured layer equals it",
    cases=(Weights(Task(2, 3)), Weights(Task(4, 3))),
)
def one_layer_is_the_head_as_defined(config: Weights, seed: int) -> Verdict:
    network, task = random_model(config, seed), config.task
    sequence = random_sequences(task, 1, seed)[0]
    X, T = literal.embedding(sequence, task.layers), task.tokens
    W = literal.dense_key_query(np.asarray(network.key_query[0]), task.layers)
    defined = literal.attention_head(X, W, literal.copy_matrix(T, task.layers, 1)).reshape(-1, T, T)
    blocks = jax.jit(lambda s: network.stream(s, 1).blocks)(jnp.asarray(sequence, dtype=jnp.int32))
    return identical({"stream after one layer": (np.stack(blocks), defined[:3])})


@LEDGER.theory(
    "def3",
    kind="definition",
    says="the transformer is L heads in series (Definition 3), decoded by Psi^T: the structured network equals it",
    cases=(Weights(Task(2, 3)), Weights(Task(4, 3))),
)
def the_network_is_heads_in_series(config: Weights, seed: int) -> Verdict:
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
    return identical({"output": (heads, np.einsum("hdn,dq->hqn", readouts, X))})


def _copies(source: int, layer: int, layers: int, tokens: int) -> np.ndarray:
    unit = np.zeros((layers + 2, layers + 2))
    unit[layer + 2, source] = 1
    return np.kron(unit, np.eye(tokens))


@dataclass(frozen=True)
class Sharp(Sizes):
    """Theorem 4's weights on random sequences."""

    task: Task = option(Task(4, 5), "the composition")
    beta: float = option(40.0, "sharpness beta of attention", above=0.0, high=700.0)
    sequences: int = option(20, "random sequences", low=1, high=10_000)


@LEDGER.theory(
    "fig2",
    kind="illustration",
    says="Figure 2: X^(0) holds place and value; (i,j) looks at (i, pi_i(j)), later at (i+r, hop_i^r(j)), r = 2^{l-2}",
    cases=Sharp(),
)
def the_attention_pattern_is_the_one_drawn(config: Sharp, seed: int) -> Verdict:
    task, hidden = config.task, hidden_of(config.task, seed)
    network = constructions.any_blocks(jnp.asarray(hidden, dtype=jnp.int32), config.beta, dtype="float64")
    sequences = random_sequences(task, config.sequences, seed)
    attention = jax.jit(jax.vmap(network.attention))(jnp.asarray(sequences, dtype=jnp.int32))
    facts, k, N = {}, task.blocks, task.alphabet
    for number, (layer, weights) in enumerate(zip(task.plan, attention, strict=True), start=1):
        reached = 0 if number == 1 else _hops_before(task, number)
        keys = _drawn_keys(hidden, sequences, reached)
        mass = np.take_along_axis(np.asarray(weights), keys[:, None], axis=1)
        facts[f"layer {number} ({layer.hops} hops) looks there"] = bool(
            (np.asarray(weights).argmax(axis=1) == keys).all()
        )
        facts[f"layer {number} with mass above 1 - kN e^-beta"] = bool((1 - mass <= k * N * np.exp(-config.beta)).all())
    X = literal.embedding(sequences[0], task.layers).reshape(-1, task.tokens, task.tokens)
    facts["block 1 is the identity"] = bool((X[0] == np.eye(task.tokens)).all())
    facts["block 2 is a permutation"] = bool((X[1].sum(axis=0) == 1).all() and (X[1].sum(axis=1) == 1).all())
    return exactly(facts)


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
