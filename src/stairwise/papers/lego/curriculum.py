"""Algorithm 1, end to end, on the theory's transformer: the FFN on chains of one, then attention on chains of two.

Stage 1 moves all of W on Loss^1 with Q = 0. Its five output positions share nothing, so each has its own clock: the
step is the rate over the largest gradient of the position, and shrinks once the position's loss is at the floor.
Stage 2 moves Q43 and Q44 on the value token's losses of both steps, with W fixed.
"""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from stairwise.measure.accuracy import share
from stairwise.papers.lego import model as models
from stairwise.papers.lego.config.dynamics import Curriculum
from stairwise.papers.lego.model import VALUE, ClauseTransformer, SparseScores
from stairwise.papers.lego.task import Chain, Lego, lego
from stairwise.train.keys import at, role
from stairwise.train.loop import RunningTrial
from stairwise.train.stage import Stage, every

FLOOR = 1e-4  # from this loss on a position's steps shrink in proportion


class State(NamedTuple):
    """The trained part (W or Q) and each position's loss before the last step."""

    trained: Any
    fixed: Any
    loss: Float[Array, " positions"]


def algorithm1(config: Curriculum) -> list[Stage]:
    """The two stages of Algorithm 1."""
    return [_ffn_stage(config), _attention_stage(config)]


def _chains(task: Lego, key, batch: int) -> Chain:
    return jax.vmap(lambda b: task.sample(at(key, b)))(jnp.arange(batch, dtype=jnp.int32))


def _transformer(trial: RunningTrial[Curriculum], weights: Array, scores: SparseScores) -> ClauseTransformer:
    config = trial.config
    size = np.log(config.task.vocabulary)
    clip = config.network.clip_factor * size
    return ClauseTransformer(weights, scores, config.sigma0 * size, clip, config.network.rho, config.network.power)


# --- stage 1 ----------------------------------------------------------------------------------------------------------


def _ffn_stage(config: Curriculum) -> Stage:
    task = lego(config.task.action, config.task.variables, 1)
    zero = partial(SparseScores.zero, task.vocabulary)

    def init(trial, carry, key) -> State:
        shape = (models.SLOTS, task.vocabulary, models.SLOTS, task.vocabulary, config.neurons)
        dtype = jnp.asarray(0.0).dtype
        weights = trial.config.sigma0 * jax.random.normal(role(key, "weights"), shape, dtype=dtype)
        return State(weights, None, jnp.zeros(models.SLOTS, dtype=dtype))

    def losses(trial, weights: Array, chains: Chain) -> Float[Array, " positions"]:
        network = _transformer(trial, weights, zero(weights.dtype))

        def one(chain: Chain):
            clauses = task.clauses(chain)
            return models.surprise(network.first_step_logits(clauses[:2]), clauses[2])

        return jnp.mean(jax.vmap(one)(chains), axis=0)

    def tick(trial, state: State, key, t) -> State:
        chains = _chains(task, key, config.batch)

        def total(weights):
            each = losses(trial, weights, chains)
            return jnp.sum(each), each

        gradient, each = jax.grad(total, has_aux=True)(state.trained)
        largest = jnp.max(jnp.abs(gradient), axis=(0, 1, 3, 4))
        step = trial.config.ffn_rate * jnp.minimum(each / FLOOR, 1) / jnp.maximum(largest, jnp.finfo(each.dtype).tiny)
        return State(state.trained - step[:, None, None] * gradient, None, each)

    def measure(trial, state: State, key, t):
        found = losses(trial, state.trained, _chains(task, key, 4 * config.batch))
        return {f"token {i + 1}": value for i, value in enumerate(found)}

    def finish(trial, state: State, key):
        network = _transformer(trial, state.trained, zero(state.trained.dtype))
        return state.trained, {f"untrained {name}": row for name, row in _tests(config, network, key).items()}

    return Stage(
        "one step", init, tick, config.ffn_steps, measure, every(config.measure_every, config.ffn_steps)[1:],
        finish=finish,
    )  # fmt: skip


# --- stage 2 ----------------------------------------------------------------------------------------------------------


def _attention_stage(config: Curriculum) -> Stage:
    task = lego(config.task.action, config.task.variables, config.task.length)

    def init(trial, carry, key) -> State:
        zero = SparseScores.zero(task.vocabulary, carry.dtype)
        return State(zero, carry, jnp.zeros(1, dtype=carry.dtype))

    def network(trial, state: State) -> ClauseTransformer:
        return _transformer(trial, state.fixed, state.trained)

    def loss(trial, scores: SparseScores, state: State, chains: Chain) -> Float[Array, ""]:
        whole = network(trial, state._replace(trained=scores)).only(VALUE)
        each = jax.vmap(lambda chain: models.loss(whole, task, chain, steps=(1, 2)))(chains)
        return jnp.mean(each)

    def tick(trial, state: State, key, t) -> State:
        chains = _chains(task, key, config.batch)
        value, gradient = jax.value_and_grad(loss, argnums=1)(trial, state.trained, state, chains)
        rate = trial.config.attention_rate * task.variables / jnp.maximum(value, jnp.finfo(value.dtype).tiny)
        moved = jax.tree.map(lambda q, g: q - rate * g, state.trained, gradient)
        return State(moved, state.fixed, value[None])

    def measure(trial, state: State, key, t):
        value = loss(trial, state.trained, state, _chains(task, key, 4 * config.batch))
        return {"loss": value, **_diagonals(task, state.trained)}

    def finish(trial, state: State, key):
        blocks = {"Q43": state.trained.predicate, "Q44": state.trained.answer}
        return None, {**_tests(config, network(trial, state), key), **blocks}

    return Stage(
        "two steps", init, tick, config.attention_steps, measure,
        every(config.measure_every, config.attention_steps), finish=finish,
    )  # fmt: skip


def _diagonals(task: Lego, scores: SparseScores) -> dict[str, Array]:
    """The mean diagonal of each block over the variables, and the largest entry off it."""
    variables = slice(1, 1 + task.variables)
    blocks = {"Q43": scores.predicate[variables, variables], "Q44": scores.answer[variables, variables]}
    found = {}
    for name, block in blocks.items():
        found[f"{name} diagonal"] = jnp.mean(jnp.diagonal(block))
        found[f"{name} largest other"] = jnp.max(jnp.abs(block - jnp.diag(jnp.diagonal(block))))
    return found


# --- roll-out ---------------------------------------------------------------------------------------------------------


class Heard(NamedTuple):
    """At every step: the clause said, whether it and its value were right, and the attention that missed."""

    said: Int[Array, "steps 5"]
    clause: Bool[Array, " steps"]
    value: Bool[Array, " steps"]
    missed: Float[Array, " steps"]


def rollout(network: ClauseTransformer, task: Lego, chain: Chain, length: Int[Array, ""]) -> Heard:
    """Greedy answers to a chain of `length` at most the task's, the model's own clauses fed back.

    The order of clauses is nothing to the model, so the context is padded and masked, and the query stands last.
    """
    most = task.length
    predicates, truth = task.predicates(chain), task.answers(chain)
    inside = jnp.arange(most, dtype=jnp.int32) < length

    def advance(carry, step):
        query, earlier = carry
        clauses = jnp.concatenate([predicates, earlier, query[None]])
        known = jnp.concatenate([inside, jnp.arange(most, dtype=jnp.int32) < step, jnp.ones(1, dtype=bool)])
        attention = jax.nn.softmax(jnp.where(known, network.scores(clauses, most), -jnp.inf))
        mixed = jnp.tensordot(attention, network.read(clauses, most), axes=1) + network.bias
        said = jnp.argmax(network.output(mixed), axis=-1).astype(query.dtype)
        same = said == truth[step + 1]
        late = step >= length
        heard = Heard(said, jnp.all(same) | late, same[VALUE] | late, 1 - attention[step] - attention[-1])
        return (said, earlier.at[step].set(query)), heard

    start = (truth[0], jnp.zeros_like(truth[1:]))
    return jax.lax.scan(advance, start, jnp.arange(most, dtype=jnp.int32))[1]


@eqx.filter_jit
def _tests(config: Curriculum, network: ClauseTransformer, key) -> dict[str, Array]:
    """Exact match of values and of clauses, and the mean eps over the steps, at every length."""
    task = lego(config.task.action, config.task.variables, max(config.test_lengths))

    def at_length(length):
        chains = _chains(task, at(role(key, "roll-out"), length), config.test_examples)
        heard = jax.vmap(lambda chain: rollout(network, task, chain, length))(chains)
        inside = jnp.arange(task.length, dtype=jnp.int32) < length
        missed = jnp.sum(jnp.where(inside, heard.missed, 0), axis=1) / length
        match = [share(jnp.all(flags, axis=1), dtype=missed.dtype) for flags in (heard.value, heard.clause)]
        return {"value match": match[0], "clause match": match[1], "eps": jnp.mean(missed)}

    return jax.lax.map(at_length, jnp.asarray(config.test_lengths, dtype=jnp.int32))
