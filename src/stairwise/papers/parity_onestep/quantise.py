"""Rounding of W after a step, and a logit that rounds well."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


def integer(W: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """r of the paper: the nearest integer, ties to even; never -0.0.

    >>> integer(jnp.array([0.5, 1.5, -0.4, 2.6], dtype=jnp.float32)).tolist()
    [0.0, 2.0, 0.0, 3.0]
    """
    return jnp.round(W) + 0.0


def quantise(
    W: Float[Array, "*shape"], spacing: float | Float[Array, ""], bound: float | Float[Array, ""]
) -> Float[Array, "*shape"]:
    """spacing * clip(integer(w / spacing), -bound, bound).

    spacing 0 leaves W as it is and 1 gives the paper's integers; a bound of 0 is none. With a bound the weights
    saturate: an extension of ours, not the rounding of Theorem 7.

    >>> W = jnp.array([4.0, 7.0, 90.0], dtype=jnp.float32)
    >>> quantise(W, 10.0, 0.0).tolist(), quantise(W, 10.0, 1.0).tolist(), quantise(W, 0.0, 0.0).tolist()
    ([0.0, 10.0, 90.0], [0.0, 10.0, 10.0], [4.0, 7.0, 90.0])
    """
    unit = jnp.where(spacing > 0, spacing, 1.0)
    largest = jnp.where(bound > 0, bound, jnp.inf)
    rounded = unit * jnp.clip(integer(W / unit), -largest, largest)
    return jnp.where(spacing > 0, rounded, W).astype(W.dtype)


def child_logits(level_ends: tuple[int, ...] | np.ndarray, lam: float) -> np.ndarray:
    """Child weights that one step with the block mask gives at each level, for the link poly4.

    lam (d_{v-1} / V)^2 (1 - 5/V + 14/V^2 - 16/V^3) with V = d_{l-1}: the leading order and its finite-size correction,
    which is exact where the V tokens are independent (level 1).
    """
    seen = np.asarray(level_ends, dtype=np.float64)[:-1]
    return lam * (seen[-1] / seen) ** 2 * (1 - 5 / seen + 14 / seen**2 - 16 / seen**3)


def logit_off_half_integers(
    level_ends: tuple[int, ...] | np.ndarray, low: float, high: float, step: float = 0.1
) -> float:
    """The lam of a grid whose child weights lie farthest from half-integers at every level.

    Near a half-integer the two children of a node may round to different integers, and the run usually collapses.

    >>> logit_off_half_integers((32, 36, 38, 39), 8.5, 9.5)
    9.2
    """
    lams = np.round(np.arange(low, high + step / 2, step), 10)
    distance = [np.min(np.abs(child_logits(level_ends, lam) % 1 - 0.5)) for lam in lams]
    return float(lams[int(np.argmax(distance))])
