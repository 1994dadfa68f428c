"""Descents of the features that several claims look at: each is made once."""

import dataclasses
import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.compiler import THOROUGH
from stairwise.config import option
from stairwise.lab.contract.checks import at_most, equal, hypothesis
from stairwise.papers.lego import activation, algorithms, ffn, groups
from stairwise.papers.lego import model as models
from stairwise.papers.lego.config.dynamics import Constants, FeatureRun
from stairwise.papers.lego.config.task import ACTIONS
from stairwise.papers.lego.theory import features, phases, start
from stairwise.train import keys
from stairwise.train.loop import RunningTrial


@dataclass(frozen=True)
class Trained(FeatureRun):
    """The descent of the features, with a choice of activation."""

    action: str = option("C3", f"the action: {groups.NAMES}", examples=(*ACTIONS, "C16"))  # one with |Y| > log d
    points: int = option(100, "moments that are kept", low=10, high=10_000)
    activation: str = option(
        "flat",
        "below 0: flat (0, as in our networks), leaky (Assumption B.2), or definition (Definition 3.4: the power down"
        " to -rho, then rho/q)",
        choices=("flat", "leaky", "definition"),
    )
    leak: float = option(1e-6, "slope w of the leaky activation", above=0.0, below=1.0)

    @property
    def bias(self) -> float:
        """mu = b = sigma_0 log d."""
        return self.sigma0 * math.log(self.vocabulary)

    @property
    def clip(self) -> float:
        """B = C_B log d."""
        return models.logit_clip(self.vocabulary, self.network.clip_factor)

    @property
    def fiber(self) -> float:
        return self.group.actions / self.group.values

    @property
    def height(self) -> float:
        """V_psi at which a pair of one neuron reaches B; its class's other winners rest on the flat branch."""
        flat = {"flat": 0.0, "leaky": self.leak * self.clip, "definition": self.network.rho / self.network.power}
        resting = (self.group.values - 1) * flat[self.activation]
        return float(models.feature_scale(self.clip, self.network.rho, self.network.power, self.bias, resting))


@dataclass(frozen=True)
class Resolved(Trained):
    """The same with steps small enough to see every feature emerge."""

    scale: str = option("relative", "what the rate is divided by (see FeatureRun)", choices=("relative", "largest"))
    points: int = option(400, "moments that are kept", low=10, high=10_000)


# d enters through b, B and the number of idle classes only: the theorems' own regime costs no more than a small one
FREE = Resolved(
    action="C3",
    neurons=9,
    vocabulary=2**20,
    sigma0=2.0**-10,
    network=Constants(clip_factor=3.0, power=6),
    steps=60_000,
    points=6000,
    activation="leaky",
)
FIBERS = dataclasses.replace(FREE, action="S3")


# --- hypotheses -------------------------------------------------------------------------------------------------------


def enough_neurons(config: FeatureRun) -> dict[str, bool]:
    return {"m >= |Y|": config.neurons >= config.group.values}


def regime(config: Trained) -> dict[str, bool]:
    """What Theorems B.1 and C.1 assume of the sizes; the range of w is illegible in our copy."""
    return {
        "sigma_0 = d^-1/2 (Assumption 3.3)": math.isclose(config.sigma0, config.vocabulary**-0.5, rel_tol=1e-9),
        "sigma_0 log d <= rho/40": config.bias <= config.network.rho / 40,
        "|Y| <= log d (Assumption 4.1)": config.group.values <= math.log(config.vocabulary),
        "the activation of Assumption B.2": config.activation == "leaky",
        "steps move a feature by at most 0.1 mu": _first_move(config) <= 0.1,
        **enough_neurons(config),
    }


def resolved(config: Trained) -> dict[str, bool]:
    """T_1 is reached and every phase is seen; constants that the print leaves open are ours."""
    constants, moved = config.network, config.learning_rate * config.steps
    return {
        "m > |Y|, for neurons to race": config.neurons > config.group.values,
        "C_B <= 3.5 (doubles hold d^-C_B)": constants.clip_factor <= 3.5,
        "q <= 6 (our constants)": constants.power <= 6,
        "w <= 1e-5 (our constants)": config.leak <= 1e-5,
        "the run is long: eta T >= 1000": moved >= 1000,
        "a moment is kept each time that eta t has grown by 0.2": config.points >= moved / 0.2 * 0.999,
    }


def small_start(config: Trained) -> dict[str, bool]:
    """The order of the curriculum is that of the flow from a small start."""
    return {
        "sigma_0 log d <= rho/40": config.bias <= config.network.rho / 40,
        "steps move a feature by at most 0.1 mu": _first_move(config) <= 0.1,
        **enough_neurons(config),
    }


def _first_move(config: Trained) -> float:
    """How far the first step moves a feature, in units of mu."""
    scale = {"relative": 1.0, "largest": config.bias}.get(config.scale, math.inf)
    return config.learning_rate / scale


# --- runs -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)  # by identity, so that what is made of it can be kept
class Seen:
    """A token, its features over time (arrays with a leading time axis), and the shape at the end."""

    token: Any
    history: Any
    shape: Any
    V: np.ndarray  # V_psi (points, classes, neurons, values)
    winner: np.ndarray  # (classes, values)

    def end(self) -> Any:
        return self.moment(-1)

    def moment(self, place: int) -> Any:
        """The features at a kept moment."""
        return jax.tree.map(lambda rows: jnp.asarray(rows[place]), self.history.features)

    def of_winners(self, rows: np.ndarray) -> np.ndarray:
        """(…, classes, neurons, values) at the winning neurons: (…, classes, values)."""
        j, y = np.indices(self.winner.shape)
        return rows[..., j, self.winner, y]

    def won(self, place: int = -1) -> tuple[np.ndarray, np.ndarray]:
        """V_{j,y}(g) as (j, y, g) and V_{j,y}(y') as (j, y, y') of the winning neurons."""
        now = self.moment(place)
        classes = np.arange(len(self.winner))[:, None]
        return np.asarray(now.action)[classes, self.winner], np.asarray(now.value)[classes, self.winner]

    def first(self, level: float) -> np.ndarray:
        """The first kept moment at which each winner's V_psi exceeds a level, -1 where it never does."""
        above = self.of_winners(self.V) > level
        return np.where(above.any(axis=0), above.argmax(axis=0), -1)


def begun(config: Trained, seed: int) -> tuple[Any, Any]:
    """The token and the features at the start."""
    token = algorithms.value_token(RunningTrial(config, seed))
    if config.activation != "flat":
        token = dataclasses.replace(token, activation=_activation(config))
    return token, token.start(keys.role_key(seed, "features"), config.neurons, config.sigma0, algorithms.real())


@lru_cache(maxsize=32)
def _activation(config: Trained) -> Any:
    """One function per config, so that a seed does not start a new compilation."""
    if config.activation == "definition":
        return activation.smooth_relu_printed
    return partial(activation.smooth_relu_leaky, slope=config.leak, clip=config.clip)


@lru_cache(maxsize=24)
def seen(config: Trained, seed: int) -> Seen:
    """The descent of one seed."""
    token, begin = begun(config, seed)
    sizes = config.learning_rate, config.scale, config.steps, config.points
    kept = jax.tree.map(np.asarray, _history()(token, begin, *sizes))
    last = jax.tree.map(lambda rows: rows[-1], kept.features)
    shape = jax.tree.map(np.asarray, _shape()(token, last))
    return Seen(token, kept, shape, emergences(token, kept.features), np.asarray(shape.winner))


@lru_cache(maxsize=1)
def _history():
    return jax.jit(phases.history, static_argnums=(2, 3, 4, 5), compiler_options=THOROUGH)


@lru_cache(maxsize=1)
def _shape():
    return jax.jit(ffn.shape)


@lru_cache(maxsize=1)
def _emergence():
    return jax.jit(jax.vmap(ffn.emergence, in_axes=(0, None)))


def emergences(token: Any, rows: Any) -> np.ndarray:
    """V_psi at every kept moment."""
    return np.asarray(_emergence()(rows, token.fibers))


@lru_cache(maxsize=1)
def _gamma():
    return jax.jit(phases.gamma)


@lru_cache(maxsize=1)
def _gammas():
    return jax.jit(jax.vmap(phases.gamma, in_axes=(None, 0)))


@lru_cache(maxsize=6)
def gammas(one: Seen) -> Any:
    """Gamma+ and Gamma- at every kept moment."""
    return jax.tree.map(np.asarray, _gammas()(one.token, one.history.features))


@lru_cache(maxsize=1)
def _logits():
    return jax.jit(jax.vmap(lambda token, features: token.logits(features), in_axes=(None, 0)))


def logits(one: Seen) -> np.ndarray:
    """F_j on every pair at every kept moment."""
    return np.asarray(_logits()(one.token, one.history.features))


@lru_cache(maxsize=1)
def _probabilities():
    return jax.jit(jax.vmap(lambda token, features: token.probabilities(features), in_axes=(None, 0)))


def probabilities(one: Seen) -> np.ndarray:
    """logit_j on every pair at every kept moment."""
    return np.asarray(_probabilities()(one.token, one.history.features))


@lru_cache(maxsize=1)
def _gradients():
    gradient = lambda token, features: jax.grad(lambda now: token.loss(now))(features)  # noqa: E731
    return jax.jit(jax.vmap(gradient, in_axes=(None, 0)))


@lru_cache(maxsize=6)
def gradients(one: Seen) -> Any:
    """The gradient of the loss at every kept moment."""
    return jax.tree.map(np.asarray, _gradients()(one.token, one.history.features))


def pushes_are_the_gradient(one: Seen):
    """Minus the gradient of V(y) is half of Gamma+ less the sum of Gamma- over actions, all along (`defB5-gamma`)."""
    parts = gammas(one)
    split = (parts.push - parts.pull.sum(axis=3)) / 2
    found = -gradients(one).value
    yield equal("minus the gradient of V(y) at every moment", found, split, 1e-10)


def at_rest(config: Trained, one: Seen):
    """The theorems speak of a time T_1 at which descent has ended: no push above lambda/d is left."""
    yield at_most("push left / lambda", push_left(config, one), 1 / config.vocabulary)


def ended(config: Trained, one: Seen):
    """The same as a hypothesis, where the run may be too short for its sizes."""
    return hypothesis("descent has ended (T_1 is reached)", push_left(config, one) <= 1 / config.vocabulary)


def push_left(config: Trained, one: Seen) -> float:
    left = float(np.asarray(_gamma()(one.token, one.end()).push).max())
    return left / start.logit_floor(config.vocabulary, config.clip)


def carried(one: Seen):
    """What the inductions of Appendices B and C assume along the way: each pair has one neuron."""
    return hypothesis("each pair is carried by one neuron (Inductions B.1, C.1)", one.shape.share.min() > 0.99)


def predicted(config: Trained) -> tuple[np.ndarray, np.ndarray]:
    """What the winners' features should be once descent has ended."""
    return features.learned(config.group, config.height, config.bias)
