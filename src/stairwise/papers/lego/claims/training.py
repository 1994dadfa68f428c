"""Descents of the features that several claims look at: each is made once."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import numpy as np

from stairwise.lab.config import option
from stairwise.papers.lego import algorithms, ffn
from stairwise.papers.lego import model as models
from stairwise.papers.lego.config.dynamics import FeatureRun
from stairwise.papers.lego.theory import phases
from stairwise.train import keys
from stairwise.train.loop import RunningTrial


@dataclass(frozen=True)
class Trained(FeatureRun):
    """The descent of the feature tables, at several seeds."""

    points: int = option(100, "moments that are kept", low=10, high=10_000)
    seeds: int = option(2, "seeds, all of which must do it", low=1, high=100)


@dataclass(frozen=True)
class Resolved(Trained):
    """The same with steps small enough to see every feature emerge."""

    scale: str = option("relative", "what the rate is divided by (see FeatureRun)", choices=("relative", "largest"))
    points: int = option(400, "moments that are kept", low=10, high=10_000)


@dataclass(frozen=True)
class Seen:
    """A token, its features over time (NumPy arrays with a leading time axis), and the shape at the end."""

    token: Any
    history: Any
    shape: Any
    V: np.ndarray  # V_psi (points, classes, neurons, values)
    winner: np.ndarray  # (classes, values)

    def end(self) -> Any:
        return self.moment(-1)

    def moment(self, place: int) -> Any:
        """The features at a kept moment."""
        return jax.tree.map(lambda rows: rows[place], self.history.features)

    def of_winners(self, rows: np.ndarray) -> np.ndarray:
        """(…, classes, neurons, values) at the winning neurons: (…, classes, values)."""
        j, y = np.indices(self.winner.shape)
        return rows[..., j, self.winner, y]

    def first(self, level: float) -> np.ndarray:
        """The first kept moment at which each winner's V_psi exceeds a level, -1 where it never does."""
        above = self.of_winners(self.V) > level
        return np.where(above.any(axis=0), above.argmax(axis=0), -1)


def begun(config: Trained, seed: int) -> tuple[Any, Any]:
    """The token and the features at the start."""
    token = algorithms.value_token(RunningTrial(config, seed))
    return token, token.start(keys.role_key(seed, "features"), config.neurons, config.sigma0, algorithms.real())


@lru_cache(maxsize=24)
def seen(config: Trained, seed: int) -> Seen:
    """The descent of one seed."""
    token, start = begun(config, seed)
    kept = phases.history(token, start, config.rate, config.scale, config.steps, config.points)
    last = jax.tree.map(lambda rows: rows[-1], kept.features)
    shape = jax.tree.map(np.asarray, _shape()(token, last))
    V = np.asarray(_emergence()(kept.features, token.fibers))
    return Seen(token, kept, shape, V, np.asarray(shape.winner))


@lru_cache(maxsize=1)
def _shape():
    return jax.jit(ffn.shape)


@lru_cache(maxsize=1)
def _emergence():
    return jax.jit(jax.vmap(ffn.emergence, in_axes=(0, None)))


def every_seed(config: Trained, seed: int) -> list[Seen]:
    return [seen(config, seed + i) for i in range(config.seeds)]


@lru_cache(maxsize=1)
def _gamma():
    return jax.jit(phases.gamma)


def least_miss(config: FeatureRun) -> float:
    """lambda = (d-1)/(d-1+e^B): 1 - logit of a pair at the clip, which no pair falls below."""
    clip = models.logit_clip(config.vocabulary, config.network.clip_factor)
    return (config.vocabulary - 1) / (config.vocabulary - 1 + float(np.exp(clip)))


def gradient_left(one: Seen) -> float:
    """The largest of the parts Gamma+ and Gamma- at the end."""
    return max(float(np.asarray(part).max()) for part in _gamma()(one.token, one.end()))


def at_rest(config: Trained, seed: int) -> tuple[str, ...]:
    """The theorems speak of a time T_1 at which descent has ended: no part of a gradient above lambda/d is left."""
    least = least_miss(config)
    left = max(gradient_left(one) for one in every_seed(config, seed)) / least
    return () if left <= 1 / config.vocabulary else (
        f"steps={config.steps} must be enough for descent to end: a gradient of {left:.2g} lambda is left,"
        " at most 1/d of it may be",
    )  # fmt: skip


def small_steps(config: FeatureRun) -> tuple[str, ...]:
    """The order of the curriculum is that of the flow: a step must move a feature by little against mu = b."""
    moves = {"relative": config.rate, "largest": config.rate / (config.sigma0 * float(np.log(config.vocabulary)))}
    move = moves.get(config.scale, 0.0)
    return () if move <= 0.1 else (
        f"rate={config.rate:g} must be small: the first step moves a feature by {move:.3g} mu (scale={config.scale})",
    )  # fmt: skip


def enough_neurons(config: FeatureRun) -> tuple[str, ...]:
    """Theorems B.1 and C.1 ask for m >= |Y|."""
    least = config.group.values
    return () if config.neurons >= least else (f"neurons={config.neurons} must be at least |Y|={least}",)
