"""What the network reads, says and is pushed to along a descent of attention: computed once, for many claims."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from stairwise.config import require
from stairwise.papers.lego import reduced
from stairwise.papers.lego.claims.descents import network_of, path_of
from stairwise.papers.lego.config.dynamics import AttentionRun
from stairwise.papers.lego.theory import inductions, lengths, literal, pushes, readings

MOMENTS = 24  # of a stage, at most


@eqx.filter_jit
def _read(network: reduced.IdealValues, scores: Any, contexts: reduced.Context):
    """Lambda, F, -log p of the target, and the attention of the four kinds, at every time in every context."""

    def one(score, context):
        pre = network.preactivations(*reduced.matches(score, context))
        outputs = reduced.logits(network, score, context)
        loss = reduced.next_token_loss(outputs, context.target, network.others)
        return pre, outputs, loss, reduced.shares(score, context.length, context.step)

    return jax.vmap(lambda score: jax.vmap(lambda context: one(score, context))(contexts))(scores)


@dataclass(frozen=True, eq=False)
class Moments:
    """Some moments of a descent, at one step of chains of two; arrays are (times, contexts, classes, values)."""

    config: Any
    step: int
    times: np.ndarray
    scores: np.ndarray
    seen: readings.SeenImages
    weights: np.ndarray
    clauses: pushes.Clauses
    target: np.ndarray
    lam: np.ndarray
    F: np.ndarray
    loss: np.ndarray
    attention: np.ndarray

    @property
    def masses(self) -> np.ndarray:
        """Attention to the four kinds, by NumPy, (times, 4)."""
        return lengths.masses(self.scores, 2, self.step)

    @property
    def shares(self) -> readings.Shares:
        """The four masses, by NumPy; each (times, 1, 1, 1)."""
        return readings.Shares(*np.moveaxis(self.masses, -1, 0)[..., None, None, None])

    @property
    def miss(self) -> np.ndarray:
        """1 - p of the target, (times, contexts)."""
        return -np.expm1(-self.loss)

    @property
    def probabilities(self) -> np.ndarray:
        """p of every value class, (times, contexts, classes)."""
        powers = np.exp(self.F)
        return powers / (powers.sum(axis=-1, keepdims=True) + self.others)

    @property
    def others(self) -> float:
        """Classes that are no values; their logit is 0."""
        return self.config.vocabulary - self.config.group.values

    @cached_property
    def pushes(self) -> tuple[np.ndarray, np.ndarray]:
        """What each context pushes a, b, c, e to: (N_i, N_ii), each (times, contexts, 4)."""
        network, constants = network_of(self.config), self.config.network
        error = -self.probabilities
        np.put_along_axis(error, self.target[None, :, None], self.miss[..., None], axis=2)
        error = error * (float(network.clip) > self.F)
        slope = literal.slope(self.lam, constants.rho, constants.power)
        V = pushes.features(self.clauses, float(network.alpha), float(network.beta))
        return pushes.split(self.lam, slope, error, V, self.masses, self.target)

    @property
    def push(self) -> np.ndarray:
        """Their mean over contexts: minus the gradient of this step's loss, (times, 4)."""
        return np.einsum("n,tnk->tk", self.weights, sum(self.pushes))

    def named(self, name: str, event: np.ndarray) -> np.ndarray:
        """Lambda of the neurons of a name in the contexts of an event, (times, neurons)."""
        return self.lam[:, self.seen.neurons(name) & event[:, None, None]]

    def said(self, action: int, value: np.ndarray, event: np.ndarray) -> np.ndarray:
        """p of the class g(value) in the contexts of an event, (times, contexts of it)."""
        classes = self.seen.image(action, value)
        chosen = np.take_along_axis(self.probabilities, classes[None, :, None], axis=2)[..., 0]
        return chosen[:, event]


def moments(config: AttentionRun, step: int, times: np.ndarray) -> Moments:
    """At most `MOMENTS` of these times, the first and the last among them."""
    if len(times) > MOMENTS:
        times = times[np.unique(np.linspace(0, len(times) - 1, MOMENTS).round().astype(int))]
    return _moments(config, step, tuple(int(t) for t in times))


@lru_cache(maxsize=32)
def _moments(config: AttentionRun, step: int, times: tuple[int, ...]) -> Moments:
    population = reduced.two_steps(config.group, step)
    at = np.asarray(times)
    scores = path_of(config).scores[at]
    padded = np.concatenate([scores, np.repeat(scores[-1:], MOMENTS - len(scores), axis=0)])  # one shape: one program
    found = _read(network_of(config), jnp.asarray(padded), population.contexts)
    lam, F, loss, attention = (np.asarray(leaf)[: len(scores)] for leaf in found)
    near, far, own, past, target, *_ = (np.asarray(leaf) for leaf in population.contexts)
    middle = own.argmax(axis=1)
    if step == 1:  # the asked predicate is g_1, the own answer y_0; y_1 is not shown
        seen = readings.SeenImages(near.argmax(axis=1), far.argmax(axis=1), middle, middle)
    else:
        seen = readings.SeenImages(far.argmax(axis=1), near.argmax(axis=1), past.argmax(axis=1), middle)
    clauses = pushes.Clauses(near, far, own, past)
    weights = np.asarray(population.weights)
    return Moments(config, step, at, scores, seen, weights, clauses, target, lam, F, loss, attention[:, 0])


# --- stages -----------------------------------------------------------------------------------------------------------


def stage_of(config: AttentionRun, stage: str) -> np.ndarray:
    """The times of a stage; a run that does not get to it, or leaps over it, is refused."""
    scores, factor = path_of(config).scores, config.network.clip_factor
    times = inductions.stages(scores, config.vocabulary, factor, 1 in config.supervised)[stage]
    steps = f"steps={config.steps} at learning_rate={config.learning_rate:g}"
    require(len(times) > 0, f"{steps} and variables={config.variables} must have a step in stage {stage}")
    return times


def at_stage(config: AttentionRun, step: int, stage: str) -> Moments:
    return moments(config, step, stage_of(config, stage))
