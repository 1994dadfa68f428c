"""Learning the value matrix: Appendix E, and what an arbitrary value block does to the first signal."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.lab.config import option
from stairwise.lab.contract import Verdict
from stairwise.papers.composition import model
from stairwise.papers.composition.claims.ledger import LEDGER
from stairwise.papers.composition.claims.sizes import Start, hidden_of, with_fixed_points
from stairwise.papers.composition.config import Task
from stairwise.papers.composition.theory import descent, exact, inner, literal, population, values

ROUNDING = 1e-15


def value_gradient(task: Task, hidden: np.ndarray, W_OV: np.ndarray, readout: np.ndarray) -> np.ndarray:
    """The population gradient of loss^(1) in the whole W_OV^(1) at W_KQ = 0, over every sequence and query."""
    k, N = hidden.shape
    sequences = inner.every_tuple(k, N)
    X = jnp.asarray(np.stack([literal.embedding(sequence, task.layers) for sequence in sequences]))
    labels = np.take_along_axis(sequences, np.broadcast_to(hidden, sequences.shape), axis=2).reshape(len(sequences), -1)
    queries = jnp.arange(k * N, dtype=jnp.int32)

    def mean(W):
        each = jax.vmap(values.first_loss, in_axes=(None, None, None, 0, 0))
        return jnp.mean(jax.vmap(lambda x, y: each(W, jnp.asarray(readout), x, queries, y))(X, jnp.asarray(labels)))

    return np.asarray(jax.jit(jax.grad(mean))(jnp.asarray(W_OV)))


def supported(task: Task, blocks: list[int], rng: np.random.Generator) -> np.ndarray:
    """A random readout on some blocks (from 0) of the stream."""
    readout = np.zeros((task.layers + 2, task.tokens, task.alphabet))
    readout[blocks] = rng.standard_normal((len(blocks), task.tokens, task.alphabet))
    return readout.reshape(-1, task.alphabet)


@LEDGER.theory(
    "appE",
    kind="identity",
    says="Appendix E: the population gradient of W_OV^(1) vanishes at 0, for every Psi_1 supported on block 3",
    cases=(Start(Task(2, 3)), Start(Task(4, 2))),
)
def value_matrices_do_not_start(config: Start, seed: int) -> Verdict:
    task, hidden = config.task, with_fixed_points(config.task, seed)
    rng, d = np.random.default_rng([seed, 40]), task.tokens * (task.layers + 2)
    standard = np.asarray(descent.start(hidden, config.beta0).readout[0]).reshape(d, task.alphabet)
    cases = {
        "W_OV = 0, random Psi on block 3": (np.zeros((d, d)), supported(task, [2], rng)),
        "W_OV = 0, Psi at its start": (np.zeros((d, d)), standard),
        "identity block, Psi at its start": (literal.copy_matrix(task.tokens, task.layers, 1), standard),
        "W_OV = 0, Psi on blocks 1 to 3": (np.zeros((d, d)), supported(task, [0, 1, 2], rng)),
        "random W_OV, random Psi on block 3": (rng.standard_normal((d, d)), supported(task, [2], rng)),
    }
    found = {name: float(np.abs(value_gradient(task, hidden, *case)).max()) for name, case in cases.items()}
    rows = tuple({"case": name, "largest gradient": value} for name, value in found.items())
    zero = max(list(found.values())[:3])
    return Verdict.at_most(zero, ROUNDING, details=rows, note="the last two cases show where it does not vanish")


@dataclass(frozen=True)
class ValueBlock(Start):
    """A value block V = scale I + Gaussian."""

    scale: float = option(1.0, "c of V = c I + Gaussian", low=-10.0, high=10.0)
    noise: float = option(1.0, "standard deviation of V's entries, in units of 1/sqrt(kN)", low=0.0, high=100.0)


@LEDGER.theory(
    "value-signal",
    kind="identity",
    says="beyond the paper: a value block V multiplies the first signal of position i by a_i - b_i (up to constants)",
    cases=(ValueBlock(Task(2, 3)), ValueBlock(Task(2, 3), scale=0.0), ValueBlock(Task(2, 3), noise=0.0)),
)
def a_value_block_scales_the_signal(config: ValueBlock, seed: int) -> Verdict:
    task, hidden = config.task, hidden_of(config.task, seed)
    k, N, T = task.blocks, task.alphabet, task.tokens
    rng = np.random.default_rng([seed, 41])
    V = config.scale * np.eye(T) + config.noise / np.sqrt(T) * rng.standard_normal((T, T))
    start = descent.start(hidden, config.beta0)
    network = model.AttentionOnly(
        start.key_query, start.readout, tuple(jnp.asarray(V) for _ in task.plan), plan=start.plan
    )
    examples = exact.of_heads(exact.everything(hidden, task.layers), 1)
    found = np.asarray(exact.mean_gradient(network, examples).key_query[0])[0, 0].reshape(k, N, k, N)
    plain = population.key_query_gradient(hidden, 1, config.beta0)[0, 0].reshape(k, N, k, N)
    factors = values.signal_factors(V, k, N)
    # an arbitrary V makes the first outputs uneven, which adds a constant to all keys of a position
    own = [found[i, :, i, :] - found[i, :, i, :].mean() for i in range(k)]
    pairs = {f"position {i}": (own[i], factors[i] * plain[i, :, i, :]) for i in range(k)}
    scale = float(np.abs(plain).max())
    wrong = {name: float(np.abs(a - b).max() / scale) for name, (a, b) in pairs.items()}
    row = {"share of positions with the right sign": float(np.mean(factors > 0)), "factors": str(factors.round(3))}
    return Verdict.at_most(max(wrong.values()), 1e-12, details=(wrong, row))
