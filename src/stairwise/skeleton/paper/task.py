"""Read the marked one of T signs.

Values v_1..v_T are independent uniform signs, the mark m is uniform in [T], and the answer is v_m.

To change: the example, how one is drawn from its key, and the oracle. Write for one example: `vmap` makes batches.
Every draw takes a key with a role of its own and names its dtype.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray
from stairwise.paper import role


class Example(NamedTuple):
    """One example: the signs v_1..v_T and the position m of the mark."""

    values: Float[Array, " length"]
    mark: Int[Array, ""]


class MarkedToken(eqx.Module):
    """The distribution of examples, and the oracle.

    >>> MarkedToken(length=3).answer(Example(jnp.array([1.0, -1.0, 1.0], dtype=jnp.float32), jnp.int32(1)))
    Array(-1., dtype=float32)
    """

    length: int = eqx.field(static=True)

    def sample(self, key: PRNGKeyArray) -> Example:
        """One example as a function of its key."""
        values = jax.random.rademacher(role(key, "values"), (self.length,), dtype=jnp.float32)
        return Example(values, jax.random.randint(role(key, "mark"), (), 0, self.length, dtype=jnp.int32))

    def answer(self, example: Example) -> Float[Array, ""]:
        """The marked value."""
        return example.values[example.mark]
