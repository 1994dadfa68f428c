"""What recurrent mixers share: one form for a whole sequence, one for a single position, and the parallel scan.

A recurrence reads from left to right and remembers a state of fixed size. `__call__` and `step` take what
`MultiHeadAttention` takes, so that a block does not ask which of the two it has; rotations and biases of attention
scores mean nothing here, and `parts.check_parts` refuses them.
"""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Integer


class Recurrence(eqx.Module):
    """A causal mixer with a state; both forms give the same numbers up to rounding."""

    @abstractmethod
    def whole(self, x: Float[Array, "length width"], present: Bool[Array, " length"]) -> Float[Array, "length width"]:
        """All positions of a sequence; one that is not present leaves the state as it was."""

    @abstractmethod
    def empty(self, dtype: Any) -> Any:
        """The state before the first position, for inputs of this dtype."""

    @abstractmethod
    def advance(self, x: Float[Array, " width"], state: Any) -> tuple[Float[Array, " width"], Any]:
        """One position: what is told, and the state after it."""

    def __call__(
        self,
        x: Float[Array, "length width"],
        mask: Bool[Array, "length length"] | None = None,
        *,
        rotate: Any = None,
        bias: None = None,
        key: Any = None,
    ) -> Float[Array, "length width"]:
        """All positions; in a causal mask the one that does not see itself is padding."""
        present = jnp.ones(len(x), dtype=bool) if mask is None else jnp.diagonal(mask)
        return self.whole(x, present)

    def step(
        self,
        x: Float[Array, "1 width"],
        state: Any,
        position: Integer[Array, ""],
        *,
        rotate: Any = None,
        bias: None = None,
    ) -> tuple[Float[Array, "1 width"], Any]:
        """The next position."""
        told, state = self.advance(x[0], state)
        return told[None], state


def wide(dtype: Any) -> Any:
    """What states are kept in: float32 or better."""
    return jnp.promote_types(dtype, jnp.float32)


def linear_scan(decay: Float[Array, "length *factors"], update: Float[Array, "length *state"]) -> Array:
    """All states of h_t = decay_t h_{t-1} + update_t from h_0 = 0, in a logarithmic number of passes.

    >>> linear_scan(jnp.full(3, 0.5), jnp.ones(3)).tolist()
    [1.0, 1.5, 1.75]
    """

    def after(first, second):
        return first[0] * second[0], second[0] * first[1] + second[1]

    return lax.associative_scan(after, (decay, update))[1]


def in_heads(x: Float[Array, "*places width"], heads: int) -> Float[Array, "*places heads head_width"]:
    """Vectors cut into heads, in a dtype wide enough for states."""
    return x.reshape(*x.shape[:-1], heads, -1).astype(wide(x.dtype))


def merged(heads: Float[Array, "*places heads head_width"], dtype: Any) -> Float[Array, "*places width"]:
    """The heads behind one another, each divided by its root mean square: sums over a sequence grow with it.

    A gain per coordinate would be part of the output projection that follows.
    """
    normed = heads * jax.lax.rsqrt(jnp.mean(heads**2, axis=-1, keepdims=True) + 1e-6)
    return normed.reshape(*heads.shape[:-2], -1).astype(dtype)
