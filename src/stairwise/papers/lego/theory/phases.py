"""How the features grow (Appendices B and C): gradient parts, the curriculum, and a descent with its history kept.

psi = (j, r, y) is neuron r of class j with the pairs (g, y), g(y) = j. The gradient of its V's splits into a push
Gamma+ from its own pairs and pulls Gamma- from pairs that share only g or only y with them.
"""

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stairwise.papers.lego.ffn import Features, ValueToken, emergence


class Gamma(NamedTuple):
    """Gamma+ of each psi, and Gamma- of each neuron at each pair (0 at its own class's pairs)."""

    push: Float[Array, "classes neurons values"]
    pull: Float[Array, "classes neurons actions values"]


def gamma(token: ValueToken, features: Features) -> Gamma:
    """E[(1 - logit_j) sReLU' 1{g(y) = j}] and E[logit_j sReLU' 1{g(y) != j}] (Definitions B.5 and C.7).

    The derivative through the clip is 0 (erratum: the paper leaves the factor 1{F < B} out).
    """
    fibers = token.fibers
    active = lambda x: token.activation(x, token.rho, token.power)  # noqa: E731
    Lambda = token.preactivations(features)
    slope = jax.jvp(active, (Lambda,), (jnp.ones_like(Lambda),))[1] / token.table.size
    open_ = token.logits(features) < token.clip
    miss = jnp.where(fibers, 1 - token.probabilities(features), token.probabilities(features)) * open_
    weighted = slope * miss[:, None]
    own = fibers[:, None]
    return Gamma(jnp.sum(jnp.where(own, weighted, 0), axis=2), jnp.where(own, 0, weighted))


def potential(token: ValueToken, features: Features) -> Float[Array, ""]:
    """Its gradient is the proxy of Lemmas B.2 and C.2: pushes alone, with 1 - logit set to 1."""
    active = token.activation(token.preactivations(features), token.rho, token.power)
    return jnp.sum(jnp.where(token.fibers[:, None], active, 0)) / token.table.size


def growth(V: np.ndarray, bias: float, rho: float, power: int, actions: int, values: int) -> np.ndarray:
    """Eq. (16): dV_psi/dt of the pushes alone while logits are small, (1 + F)/4 Pr(phi) ((b + V)/rho)^{q-1}, F = nG/nY.

    Pr(phi) = 1/(nG nY) is the chance of one pair; V(y) takes F of the pushes and V(g) one, each halved by attention
    and again by V_psi = (V(g) + V(y))/2.
    """
    slope = np.clip((V + bias) / rho, 0, 1) ** (power - 1)
    return (1 + actions / values) / 4 / (actions * values) * slope


def competitor_bound(bias: float, vocabulary: int) -> float:
    """Lemmas B.3, C.3: O~(mu), read as mu sqrt(log d)."""
    return bias * float(np.sqrt(np.log(vocabulary)))


def stationary(features: Features, fibers) -> Float[Array, "classes neurons values"]:
    """Upsilon_psi = V(y) - sum over g off the fiber of V(g), the quantity behind Lemmas B.6 and C.6."""
    off = jnp.einsum("jrg,jgy->jry", features.action, (~fibers).astype(features.action.dtype))
    return features.value - off


class History(NamedTuple):
    """A descent at evenly spaced steps: features, their proxy, elapsed time sum eta_t, and sum eta_t Gamma+."""

    features: Features
    proxy: Features
    elapsed: Float[Array, " points"]
    pushed: Float[Array, "points classes neurons values"]


@eqx.filter_jit
def descended(features: Features, gradient: Features, eta: Float[Array, ""] | float) -> Features:
    """One step of descent on all features."""
    return jax.tree.map(lambda feature, slope: feature - eta * slope, features, gradient)


def history(token: ValueToken, start: Features, rate: float, scale: str, steps: int, points: int) -> History:
    """Descend for `steps`, and keep `points` moments after the start."""
    zero = jnp.zeros((), dtype=start.action.dtype)
    first = History(start, start, zero, jnp.zeros_like(emergence(start, token.fibers)))

    def one(_, now: History) -> History:
        loss, gradient = jax.value_and_grad(token.loss)(now.features)
        eta = token.step_size(now.features, gradient, loss, rate, scale)
        ascent = jax.grad(partial(potential, token))(now.proxy)
        return History(
            descended(now.features, gradient, eta),
            jax.tree.map(lambda v, g: v + eta * g, now.proxy, ascent),
            now.elapsed + eta,
            now.pushed + eta * gamma(token, now.features).push,
        )

    def block(now: History, _):
        later = jax.lax.fori_loop(0, steps // points, one, now)
        return later, later

    _, rows = jax.lax.scan(block, first, None, length=points)
    return jax.tree.map(lambda begin, rest: jnp.concatenate([begin[None], rest]), first, rows)


def curriculum(start: np.ndarray) -> np.ndarray:
    """Definitions B.3 and C.4: the neuron that should win each (j, y), greedily from the initial V_psi.

    The largest V_psi takes its neuron out of the race, and its combination out of every other neuron's.

    >>> curriculum(np.array([[[3.0, 2.0], [2.5, 1.0]]])).tolist()
    [[0, 1]]
    """
    classes, _, values = start.shape
    won = np.full((classes, values), -1)
    for j in range(classes):
        left = start[j].copy()
        for _ in range(min(left.shape)):
            r, y = np.unravel_index(np.argmax(left), left.shape)
            won[j, y] = r
            left[r, :], left[:, y] = -np.inf, -np.inf
    return won
