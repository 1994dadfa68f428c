"""Theorem 3: three plain gradient steps on A and W together, a fresh batch each, in coefficient space.

A tick adds the gradient of one block of samples; the last tick of a step takes it. Step 1 writes the correlation of
each step's label with its secret bit into W, step 2 turns it into attention, step 3 learns the map to the output.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int8, Integer, PRNGKeyArray

from stairwise.measure.accuracy import share
from stairwise.papers.parity_cot import simplified
from stairwise.papers.parity_cot.certificate import certified_margin, target_and_other, worst_attention
from stairwise.papers.parity_cot.config.theorem3 import ThreeSteps
from stairwise.papers.parity_cot.simplified import Coefficients, Tables
from stairwise.papers.parity_cot.task import Problem, fresh_bits, problem_of, wrong_steps
from stairwise.train.keys import at, role, role_key
from stairwise.train.loop import RunningTrial
from stairwise.train.stage import Stage

STEPS = 3
SHOWN = 256  # test sequences whose mean attention is stored


class Setting(NamedTuple):
    """What a seed means: the secret, the inner products of the embeddings, and the signs of the start."""

    problem: Problem
    gram: Float[Array, "atoms atoms"]
    positive: Bool[Array, "neurons queries 2"]

    @property
    def secret(self) -> Integer[Array, " queries"]:
        """S: the input that each step of the chain adds."""
        return jnp.argmax(self.problem.absorbs, axis=1).astype(jnp.int32)


class State(NamedTuple):
    """Weights, and what the samples of the step under way have added to its gradient."""

    setting: Setting
    weights: Coefficients
    gradient: Tables


def three_steps(config: ThreeSteps) -> list[Stage]:
    """The one stage: three steps of `blocks` ticks, measured before and after each."""
    points = tuple(config.blocks * step for step in range(STEPS + 1))
    return [
        Stage(
            name="steps",
            init=init,
            tick=tick,
            max_ticks=points[-1],
            measure=measure,
            measure_at=points,
            snapshot=snapshot,
            snapshot_at=points,
            finish=lambda trial, state, key: (None, {"secret": state.setting.secret}),
            per_tick=1 / config.blocks,
        )
    ]


# --- rates ------------------------------------------------------------------------------------------------------------


def rates(trial: RunningTrial[ThreeSteps]) -> Float[Array, " steps"]:
    """eta0 = eta1 and eta2.

    practical  eta0 = sqrt(128 m T^2 Lambda), so that the last step's logit on its secret bit becomes about Lambda, and
               eta2 = shift m eps
    literal    Assumption 2: eta0 = m eps sqrt(B) / (100 ln(n/delta)), eta2 = 4 k eps / 3
    """
    config = trial.config
    m, scale = config.neurons, config.scale
    if config.rates == "literal":
        eta0 = m * scale * math.sqrt(config.batch) / (100 * jnp.log(config.task.bits / config.failure))
        eta2 = 4 * config.task.size * scale / 3
    else:
        eta0 = config.positions * jnp.sqrt(128 * m * config.logit)
        eta2 = config.shift * m * scale
    return jnp.stack([eta0, eta0, eta2]).astype(jnp.result_type(float))


# --- the problem that a seed means ------------------------------------------------------------------------------------


def setting_of(trial: RunningTrial[ThreeSteps], gram: Float[Array, "atoms atoms"] | None = None) -> Setting:
    """The secret, the embeddings and the start of a trial; `gram` is that of the embeddings, where it is known."""
    config, seed = trial.config, trial.seed
    gram = embedded(seed, config.embedding, 2 * config.positions, config.width) if gram is None else gram
    positive = simplified.draw_start(role_key(seed, "start"), config.neurons, config.queries, config.paired)
    return Setting(problem_of(config.task, trial.seed), gram, positive)


def embedded(seed, embedding: str, atoms: int, width: int) -> Float[Array, "atoms atoms"]:
    """The inner products of the embeddings that a seed means."""
    if embedding == "orthonormal":
        return jnp.eye(atoms, dtype=jnp.result_type(float))
    return simplified.gram_of(simplified.draw_signs(role_key(seed, "embedding"), atoms, width), width)


def draw_tokens(
    config: ThreeSteps, problem: Problem, noise, count: int, key: PRNGKeyArray
) -> Int8[Array, "count tokens"]:
    """Whole sequences, the last token included."""

    def one(number: Integer[Array, ""]) -> Int8[Array, " tokens"]:
        here = at(key, number)
        wrong = wrong_steps(role(here, "noise"), problem, noise)
        return problem.tokens(fresh_bits(role(here, "bits"), config.task), wrong)

    return jax.vmap(one)(jnp.arange(count, dtype=jnp.int32))


# --- one step ---------------------------------------------------------------------------------------------------------


def init(trial: RunningTrial[ThreeSteps], carry: Any, key: PRNGKeyArray) -> State:
    setting = setting_of(trial)
    weights = simplified.start(setting.positive, trial.config.positions, trial.config.scale)
    return State(setting, weights, jax.tree.map(jnp.zeros_like, weights.tables(setting.gram)))


def tick(trial: RunningTrial[ThreeSteps], state: State, key: PRNGKeyArray, t) -> State:
    """Add a block; the last block of a step also takes it."""
    config = trial.config
    setting, weights, total = state
    tokens = draw_tokens(config, setting.problem, config.task.noise, config.block, key)
    block = gradient(config.loss, setting.positive, weights.tables(setting.gram), tokens)
    total = jax.tree.map(lambda a, b: a + b / config.blocks, total, block)
    last = (t + 1) % config.blocks == 0
    rate = jnp.where(last, rates(trial)[t // config.blocks], 0)
    return State(setting, moved(weights, total, rate), jax.tree.map(lambda x: jnp.where(last, 0, x), total))


def moved(weights: Coefficients, gradient: Tables, rate) -> Coefficients:
    """One step of plain gradient descent: the gradient in the tables is that in the coefficients."""
    return Coefficients(
        weights.first - rate * gradient.own,
        weights.second - rate * gradient.seen,
        weights.attention - rate * gradient.scores,
    )


def gradient(
    loss: str, positive: Bool[Array, "neurons queries 2"], tables: Tables, tokens: Int8[Array, "count tokens"]
) -> Tables:
    """Of the mean loss of these sequences, summed over their supervised positions, with respect to the tables."""

    def mean_loss(tables: Tables) -> Float[Array, ""]:
        out, _ = batch_outputs(tables, positive, tokens)
        return jnp.sum(simplified.loss_of(loss, out, tokens[:, -out.shape[1] :])) / len(tokens)

    return jax.grad(mean_loss)(tables)


def batch_outputs(
    tables: Tables, positive: Bool[Array, "neurons queries 2"], tokens: Int8[Array, "count tokens"]
) -> tuple[Float[Array, "count queries"], Float[Array, ""]]:
    """The outputs at all queries, and the share of activations that are as the start's signs say.

    Where no input can change an activation (in the first two steps as a rule), no neuron is looked at per sample.
    """
    first = tokens.shape[1] - 1 - positive.shape[1]
    h = simplified.readout(len(positive) // 2)
    ones = tokens[:, first:-1] == 1

    def by_pattern(tables: Tables):
        linear = simplified.linear_part(tables, h, first)
        out = jax.vmap(lambda one: simplified.linear_outputs(linear, tables.scores, one, first))(tokens[:, :-1])
        active = simplified.at_queries(tables.own, first) > 0
        agreeing = jnp.mean(active == positive, axis=0, dtype=out.dtype)
        return out, jnp.mean(jnp.where(ones, agreeing[:, 1], agreeing[:, 0]))

    def by_neuron(tables: Tables):
        hidden = jax.vmap(lambda one: simplified.preactivations(tables, one, first))(tokens[:, :-1])
        expected = jnp.where(ones[..., None], positive[..., 1].T, positive[..., 0].T)
        return jax.nn.relu(hidden) @ h, jnp.mean((hidden > 0) == expected, dtype=hidden.dtype)

    return jax.lax.cond(simplified.decided(tables, first), by_pattern, by_neuron, tables)


# --- what is measured -------------------------------------------------------------------------------------------------


def test_tokens(trial: RunningTrial[ThreeSteps], problem: Problem) -> Int8[Array, "count tokens"]:
    """Fresh sequences without noise, the same at every step."""
    return draw_tokens(trial.config, problem, 0.0, trial.config.test_examples, trial.key("test"))


def measure(trial: RunningTrial[ThreeSteps], state: State, key: PRNGKeyArray, t) -> dict[str, Array]:
    """On fresh sequences, and with a chain of thought also over all inputs."""
    config = trial.config
    setting, tables = state.setting, state.weights.tables(state.setting.gram)
    tokens = test_tokens(trial, setting.problem)
    out, agreeing = batch_outputs(tables, setting.positive, tokens)
    labels = tokens[:, config.task.bits + 1 :]
    right = (out > 0) == (labels == 1)
    found = {
        "exact match": share(jnp.all(right, axis=1), dtype=out.dtype),
        "accuracy": share(right, dtype=out.dtype),
        "loss": jnp.sum(simplified.loss_of(config.loss, out, labels)) / len(labels),
        "smallest margin": jnp.min(jnp.where(labels == 1, out, -out)),
        "largest output": jnp.max(jnp.abs(out)),
        "pattern agreement": agreeing,
    }
    return found | (over_all_inputs(config, setting, tables, tokens) if config.task.cot else {})


def over_all_inputs(
    config: ThreeSteps, setting: Setting, tables: Tables, tokens: Int8[Array, "count tokens"]
) -> dict[str, Array]:
    """Attention at its worst, and the margin that it leaves."""
    secret, h = setting.secret, simplified.readout(config.neurons)
    error = worst_attention(tables.scores, secret)
    target, other = target_and_other(tables.scores, secret)
    weights = jax.vmap(lambda one: simplified.attention(tables.scores, one, config.task.bits))(tokens[:, :-1])
    return {
        "argmax on the secret": share(jnp.argmax(weights, axis=-1) == secret, dtype=error.dtype),
        "worst attention error": jnp.max(error),
        "smallest target logit": jnp.min(target),
        "smallest gap": jnp.min(target - other),
        "certified margin": jnp.min(certified_margin(tables, h, secret, error)),
    }


def snapshot(trial: RunningTrial[ThreeSteps], state: State) -> dict[str, Array]:
    """Mean attention of every supervised position over some test sequences."""
    tables = state.weights.tables(state.setting.gram)
    tokens = test_tokens(trial, state.setting.problem)[:SHOWN, :-1]
    weights = jax.vmap(lambda one: simplified.attention(tables.scores, one, trial.config.task.bits))(tokens)
    return {"attention": jnp.mean(weights, axis=0)}
