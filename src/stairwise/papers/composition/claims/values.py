"""Learning the value matrix: Appendix E, and what an arbitrary value block does to the first signal."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.config import option, require
from stairwise.lab.contract.checks import at_least, equal, row
from stairwise.papers.composition import model
from stairwise.papers.composition.claims.ledger import LEDGER
from stairwise.papers.composition.claims.sizes import Start, doubling, hidden_of, with_fixed_points
from stairwise.papers.composition.config import Task
from stairwise.papers.composition.theory import descent, exact, inner, literal, population, values
from stairwise.train.draws import draws_of

ROUNDING = 1e-15


def value_gradient(task: Task, hidden: np.ndarray, W_OV: np.ndarray, readout: np.ndarray) -> np.ndarray:
    """The population gradient of loss^(1) in the whole W_OV^(1) at W_KQ = 0, over every sequence and query."""
    k, N = hidden.shape
    sequences = inner.every_tuple(k, N)
    X = jnp.asarray(np.stack([literal.embedding(sequence, task.layers) for sequence in sequences]))
    labels = np.take_along_axis(sequences, np.broadcast_to(hidden, sequences.shape), axis=2).reshape(len(sequences), -1)
    return np.asarray(_value_gradient(*map(jnp.asarray, (W_OV, readout, X, labels))))


@jax.jit
def _value_gradient(W_OV, readout, X, labels):
    queries = jnp.arange(X.shape[2], dtype=jnp.int32)

    def mean(W):
        each = jax.vmap(values.first_loss, in_axes=(None, None, None, 0, 0))
        return jnp.mean(jax.vmap(lambda x, y: each(W, readout, x, queries, y))(X, labels))

    return jax.grad(mean)(W_OV)


def _first_loss(W_OV: np.ndarray, readout: np.ndarray, X: np.ndarray, query: int) -> float:
    """loss^(1) at one token, for letter 1."""
    W, Psi, tokens = jnp.asarray(W_OV), jnp.asarray(readout), jnp.asarray(X)
    return float(values.first_loss(W, Psi, tokens, jnp.int32(query), jnp.int32(1)))


def supported(task: Task, blocks: list[int], rng: np.random.Generator) -> np.ndarray:
    """A random readout on some blocks (from 0) of the stream."""
    readout = np.zeros((task.layers + 2, task.tokens, task.alphabet))
    readout[blocks] = rng.standard_normal((len(blocks), task.tokens, task.alphabet))
    return readout.reshape(-1, task.alphabet)


@LEDGER.exact(
    "appE",
    statement="Appendix E",
    says=(
        r"the population gradient of $W_{OV}^{(1)}$ vanishes at 0 for every $\Psi_1$ supported on block 3, and not "
        r"for one that reads other blocks"
    ),
    of=(values.first_loss,),
    seeds=3,
    cases=(Start(Task(2, 3)), Start(Task(4, 2))),
)
def value_matrices_do_not_start(config: Start, seed: int):
    task, hidden = config.task, with_fixed_points(config.task, seed)
    rng, d = draws_of(seed, "readouts"), task.tokens * (task.layers + 2)
    standard = literal.first_readout(task.blocks, task.alphabet, task.layers, 1, config.beta0)
    none, one = np.zeros((d, d)), supported(task, [2], rng)
    for name, W_OV, psi in (
        ("W_OV = 0, random Psi on block 3", none, one),
        ("W_OV = 0, Psi at its start", none, standard),
        ("identity block, Psi at its start", literal.copy_matrix(task.tokens, task.layers, 1), standard),
    ):
        yield equal(name, value_gradient(task, hidden, W_OV, psi), 0.0, ROUNDING)
    for name, W_OV, psi in (
        ("W_OV = 0, Psi on blocks 1 to 3", none, supported(task, [0, 1, 2], rng)),
        ("random W_OV, random Psi on block 3", rng.standard_normal((d, d)), one),
    ):
        yield at_least(f"largest gradient, {name}", np.abs(value_gradient(task, hidden, W_OV, psi)).max(), 1e-4)
    # the loss itself against the transformer as written, one layer with W_KQ = 0
    X, W = literal.embedding(inner.every_tuple(*hidden.shape)[1], task.layers), rng.standard_normal((d, d))
    outputs = literal.transformer(X, [np.zeros((d, d))], [W])
    written = literal.cross_entropies(outputs.T, one, np.full(task.tokens, 1))
    found = [_first_loss(W, one, X, q) for q in range(task.tokens)]
    yield equal("loss of one layer", found, written)


@dataclass(frozen=True)
class ValueBlock(Start):
    """A value block V = scale I + Gaussian."""

    scale: float = option(1.0, "c of V = c I + Gaussian", low=-10.0, high=10.0)
    noise: float = option(1.0, "standard deviation of V's entries, in units of 1/sqrt(kN)", low=0.0, high=100.0)


@LEDGER.exact(
    "value-signal",
    statement="ours",
    says=(
        r"beyond the paper: a value block $V$ multiplies the first signal of position $i$ by $a_i - b_i$ (up to "
        r"constants)"
    ),
    of=(values.signal_factors,),
    seeds=3,
    cases=(ValueBlock(Task(2, 3)), ValueBlock(Task(2, 3), scale=0.0), ValueBlock(Task(2, 3), noise=0.0)),
)
def a_value_block_scales_the_signal(config: ValueBlock, seed: int):
    task, hidden = config.task, hidden_of(config.task, seed)
    require(not doubling(task), f"task.blocks={task.blocks} must be a power of two")
    k, N, T = task.blocks, task.alphabet, task.tokens
    rng = draws_of(seed, "value block")
    V = config.scale * np.eye(T) + config.noise / np.sqrt(T) * rng.standard_normal((T, T))
    start = descent.start(hidden, config.beta0)
    network = model.AttentionOnly(
        start.key_query, start.readout, tuple(jnp.asarray(V) for _ in task.plan), plan=start.plan
    )
    examples = exact.of_heads(exact.everything(hidden, task.layers), 1)
    found = np.asarray(exact.mean_gradient(network, examples).key_query[0])[0, 0].reshape(k, N, k, N)
    plain = population.key_query_gradient(hidden, 1, config.beta0)[0, 0].reshape(k, N, k, N)
    factors, scale = values.signal_factors(V, k, N), float(np.abs(plain).max())
    for i in range(k):
        # an arbitrary V makes the first outputs uneven, which adds a constant to all keys of a position
        own = found[i, :, i, :] - found[i, :, i, :].mean()
        yield equal(f"signal of position {i}", own, factors[i] * plain[i, :, i, :], scale=scale)
    yield row({"share of positions with the right sign": float(np.mean(factors > 0)), "factors": str(factors.round(3))})
