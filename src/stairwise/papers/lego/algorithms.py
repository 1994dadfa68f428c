"""Descent as the paper runs it: features on T^1, attention on T^2, and Algorithm 2's doubling, as stages.

Attention descends in the four scalars of `reduced`, where one step over the exact population of chains of two costs
microseconds at any |X|. Algorithm 2 then trains on chains of 2^k whose first answers come from the model as it was when
the stage began; only attention moves, and only the loss of one answer is used.
"""

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stairwise.papers.lego import ffn, reduced
from stairwise.papers.lego.config.dynamics import AttentionRun, Constants, Doubling, FeatureRun, Reduced
from stairwise.papers.lego.theory import lengths
from stairwise.train.keys import at, role
from stairwise.train.loop import RunningTrial
from stairwise.train.probes import FirstPassage
from stairwise.train.stage import Stage, every


def real():
    """The floating-point type of the run: the executor decides."""
    return jnp.asarray(0.0).dtype


# --- features ---------------------------------------------------------------------------------------------------------


class FeatureState(NamedTuple):
    """The features, those at the start, and when each V_psi first exceeded B/2."""

    features: ffn.Features
    start: ffn.Features
    arrival: FirstPassage


def value_token(trial: RunningTrial[FeatureRun]) -> ffn.ValueToken:
    """The token that a config means, with b = sigma_0 log d."""
    config = trial.config
    size = np.log(config.vocabulary)
    table = jnp.asarray(config.group.table, dtype=jnp.int32)
    others = float(config.vocabulary - config.group.values)
    clip = config.network.clip_factor * size
    return ffn.ValueToken(table, clip, config.sigma0 * size, config.network.rho, others, config.network.power)


def features(config: FeatureRun) -> list[Stage]:
    """Gradient descent of V on every pair (g, y) at once."""
    return [
        Stage(
            name="features",
            init=_features_init,
            tick=_features_tick,
            max_ticks=config.steps,
            measure=_features_measure,
            measure_at=every(max(1, config.steps // config.points), config.steps),
            finish=_features_finish,
        )
    ]


def _features_init(trial: RunningTrial[FeatureRun], carry, key) -> FeatureState:
    config = trial.config
    token = value_token(trial)
    start = token.start(key, config.neurons, config.sigma0, real())
    shape = (config.group.values, config.neurons, config.group.values)
    return FeatureState(start, start, FirstPassage.start(shape))


def _features_tick(trial: RunningTrial[FeatureRun], state: FeatureState, key, t) -> FeatureState:
    token = value_token(trial)
    moved = token.descended(state.features, trial.config.learning_rate, trial.config.scale)
    arrived = ffn.emergence(moved, token.fibers) > token.clip / 2
    return FeatureState(moved, state.start, state.arrival.update(arrived, t + 1))


def _features_measure(trial: RunningTrial[FeatureRun], state: FeatureState, key, t) -> dict[str, Array]:
    token = value_token(trial)
    shape = ffn.shape(token, state.features)
    means = {
        "V(g)/B": shape.action,
        "V(y)/B": shape.value,
        "V(g')/B": shape.other_action,
        "V(y')/B": shape.other_value,
    }
    return {
        "loss": token.loss(state.features),
        "accuracy": token.accuracy(state.features),
        "ratio": shape.ratio(),
        "cancellation": jnp.max(shape.cancellation) / token.clip,
        "share": jnp.mean(shape.share),
        "least share": jnp.min(shape.share),
        "winners": shape.distinct(),
        "drift": jnp.max(jnp.abs(state.features.conserved() - state.start.conserved())),
        **{name: jnp.mean(values) / token.clip for name, values in means.items()},
    }


def _features_finish(trial: RunningTrial[FeatureRun], state: FeatureState, key):
    token = value_token(trial)
    shape = ffn.shape(token, state.features)
    kept = {"start": ffn.emergence(state.start, token.fibers), "end": ffn.emergence(state.features, token.fibers)}
    return None, {**kept, "arrival": state.arrival.tick, "winner": shape.winner, "floor": token.floor()}


# --- attention on chains of two ---------------------------------------------------------------------------------------


class AttentionState(NamedTuple):
    """a, b, c, e; loss and gradient there; and the contexts that it is trained on, with their labels' accuracy."""

    scores: reduced.Scores
    loss: Float[Array, ""]
    gradient: reduced.Scores
    populations: tuple[reduced.Population, ...]
    label_accuracy: Float[Array, ""]


def network_of(trial: RunningTrial[Reduced]) -> reduced.IdealValues:
    config = trial.config
    constants: Constants = config.network
    factor, rho = config.network.clip_factor, config.network.rho
    return reduced.ideal_values(config.group, config.variables, factor, rho, constants.power)


def _settled(network: reduced.IdealValues, state: AttentionState) -> AttentionState:
    """The state with loss and gradient at its scores."""
    total = lambda scores: sum(reduced.mean_loss(network, scores, some) for some in state.populations)  # noqa: E731
    loss, gradient = jax.value_and_grad(total)(state.scores)
    return state._replace(loss=loss, gradient=gradient)


def _stepped(network: reduced.IdealValues, state: AttentionState, rate, variables) -> AttentionState:
    """One loss-normalised step on all of Q: eta_t = rate |X| / loss."""
    eta = rate * variables / jnp.maximum(state.loss, jnp.finfo(state.loss.dtype).tiny)
    scores = reduced.descended(state.scores, state.gradient, eta, variables)
    return _settled(network, state._replace(scores=scores))


def _attention_tick(trial: RunningTrial[Reduced], state: AttentionState, key, t) -> AttentionState:
    return _stepped(network_of(trial), state, trial.config.learning_rate, trial.config.variables)


def _attention_measure(length: int, trial, state: AttentionState, key, t):
    near, far, own, past = reduced.shares(state.scores, length, 2)
    named = dict(zip("abce", state.scores, strict=True))
    stalled = (jnp.max(jnp.abs(state.gradient)) == 0).astype(state.loss.dtype)
    return {
        "loss": state.loss,
        **named,
        "eps": far + past,
        "gap": near - own,
        "stalled": stalled,
        "label accuracy": state.label_accuracy,
    }


def stopping_loss(trial: RunningTrial[AttentionRun]) -> Float[Array, ""] | float:
    """The loss below which a run ends."""
    config = trial.config
    size = np.log(config.vocabulary)
    if config.stop == "power":
        return jnp.exp(-config.exponent * size)
    factor = config.network.clip_factor
    return jnp.exp(lengths.window_log_loss(factor, factor * size))


def attention(config: AttentionRun) -> list[Stage]:
    """Descent of a, b, c, e from 0 on the exact population of chains of two."""

    def init(trial, carry, key) -> AttentionState:
        populations = tuple(reduced.two_steps(config.group, step) for step in config.supervised)
        zero = jnp.zeros(4, dtype=real())
        empty = AttentionState(zero, zero[0], zero, populations, jnp.ones((), dtype=real()))
        return _settled(network_of(trial), empty)

    def done(trial, state: AttentionState):
        return state.loss < stopping_loss(trial)

    def finish(trial, state: AttentionState, key):
        found = rollouts(config, network_of(trial), state.scores, config.test_lengths, key)
        return None, {"scores": state.scores, "lengths": jnp.asarray(config.test_lengths, dtype=jnp.int32), **found}

    return [
        Stage(
            name="attention",
            init=init,
            tick=_attention_tick,
            max_ticks=config.steps,
            measure=partial(_attention_measure, 2),
            measure_at=every(max(1, config.steps // config.points), config.steps),
            done=None if config.stop == "never" else done,
            finish=finish,
        )
    ]


def rollouts(config: Reduced, network: reduced.IdealValues, scores: reduced.Scores, tested: tuple[int, ...], key):
    """The accuracies of `reduced.chain_accuracy` at each length, one compiled program for all."""
    table = jnp.asarray(config.group.table, dtype=jnp.int32)
    key = role(key, "roll-out")

    def at_length(length):
        return reduced.chain_accuracy(
            network, table, scores, at(key, length), length, max(tested), config.test_examples
        )

    return jax.lax.map(at_length, jnp.asarray(tested, dtype=jnp.int32))


# --- Algorithm 2 ------------------------------------------------------------------------------------------------------


def doubling(config: Doubling) -> list[Stage]:
    """Stage 1 on the exact chains of two, then one stage for each doubling, labelled by the stage before."""
    return [_doubling_stage(config, k) for k in range(1, config.stages + 1)]


def _doubling_stage(config: Doubling, k: int) -> Stage:
    length = 2**k

    def init(trial, carry, key) -> AttentionState:
        network, zero = network_of(trial), jnp.zeros(4, dtype=real())
        if k == 1:
            population, accuracy = reduced.two_steps(config.group, 2), jnp.ones((), dtype=real())
        else:
            population, accuracy = self_labelled(config, network, carry, length, length, key)
        scores = zero if carry is None else carry
        return _settled(network, AttentionState(scores, zero[0], zero, (population,), accuracy))

    def done(trial, state: AttentionState):
        return state.loss < jnp.exp(-trial.config.exponent * np.log(config.vocabulary))

    def finish(trial, state: AttentionState, key):
        network = network_of(trial)
        tested = tuple(length * factor for factor in (1, 2, 4, 8))
        steps = jnp.arange(1, length + 1, dtype=jnp.int32)
        eps = jax.vmap(lambda step: _missed(state.scores, length, step))(steps)
        found = rollouts(config, network, state.scores, tested, key)
        return state.scores, {"scores": state.scores, "eps": eps, **found}

    return Stage(
        name=f"L={length}",
        init=init,
        tick=_attention_tick,
        max_ticks=config.steps,
        measure=partial(_attention_measure, length),
        measure_at=every(5, config.steps),
        done=done,
        finish=finish,
    )


def _missed(scores: reduced.Scores, length: int, step) -> Float[Array, ""]:
    _, far, _, past = reduced.shares(scores, length, step)
    return far + past


def self_labelled(
    config: Doubling, network: reduced.IdealValues, annotator: reduced.Scores, length, most: int, key
) -> tuple[reduced.Population, Float[Array, ""]]:
    """Contexts of chains of `length` whose answers are the annotator's greedy ones, and the share of right labels.

    `most` is the padding: one compiled program serves every length up to it.
    """
    table = jnp.asarray(config.group.table, dtype=jnp.int32)
    # the second step's loss needs two labels; any step's needs them all
    read = 2 if config.supervised == "second" else most

    def one(index):
        own = at(role(key, "contexts"), index)
        start, actions = reduced.draw_chain(own, table, most)
        said = reduced.rollout(network, table, annotator, actions, start, length, read)
        drawn = jax.random.randint(role(own, "step"), (), 1, length + 1, dtype=jnp.int32)
        step = jnp.where(config.supervised == "second", jnp.asarray(2, dtype=jnp.int32), drawn)
        answers = jnp.concatenate([start[None], said.values])
        context = reduced.chain_context(table, actions, answers, length, step, annotator.dtype)
        return context, jnp.mean(said.right.astype(annotator.dtype))

    contexts, right = jax.vmap(one)(jnp.arange(config.contexts, dtype=jnp.int32))
    weights = jnp.full(config.contexts, 1 / config.contexts, dtype=annotator.dtype)
    return reduced.Population(contexts, weights), jnp.mean(right)


# --- paths, for the claims --------------------------------------------------------------------------------------------


class Path(NamedTuple):
    """A descent with every step kept: scores and losses at times 0..steps, and the gradients there."""

    scores: np.ndarray
    losses: np.ndarray
    gradients: np.ndarray
    reached: bool


def path(
    network: reduced.IdealValues,
    populations: tuple[reduced.Population, ...],
    start: reduced.Scores,
    rate: float,
    variables: int,
    level: float,
    most_steps: int,
) -> Path:
    """Loss-normalised descent until the loss is below `level`, or for `most_steps`."""
    number = partial(jnp.asarray, dtype=start.dtype)  # as arrays they do not start a new compilation
    kept, steps = _path(network, populations, start, number(rate), number(variables), number(level), most_steps)
    scores, losses, gradients = (np.asarray(rows)[: int(steps) + 1] for rows in kept)
    return Path(scores, losses, gradients, bool(losses[-1] < level))


@eqx.filter_jit
def _path(network, populations, start, rate, variables, level, most_steps: int):
    first = _settled(network, AttentionState(start, start[0], start, populations, jnp.ones_like(start[0])))
    room = (
        jnp.zeros((most_steps + 1, 4), dtype=start.dtype),
        jnp.zeros(most_steps + 1, dtype=start.dtype),
        jnp.zeros((most_steps + 1, 4), dtype=start.dtype),
    )

    def keep(rows, state: AttentionState, t):
        new = (state.scores, state.loss, state.gradient)
        return tuple(row.at[t].set(value) for row, value in zip(rows, new, strict=True))

    def going(carry):
        state, _, t = carry
        return (state.loss >= level) & (t < most_steps)

    def advance(carry):
        state, rows, t = carry
        new = _stepped(network, state, rate, variables)
        return new, keep(rows, new, t + 1), t + 1

    begin = (first, keep(room, first, 0), jnp.asarray(0, dtype=jnp.int32))
    _, rows, steps = jax.lax.while_loop(going, advance, begin)
    return rows, steps
