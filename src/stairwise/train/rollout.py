"""Roll-out: greedy autoregressive generation with a key/value cache, for one prompt; `vmap` makes batches.

The prompt is padded to the full length and its true length is traced, so that one compiled program serves prompts of
every length. One scan runs over positions and does work proportional to the context at each.
"""

from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Integer


@runtime_checkable
class Decoder(Protocol):
    """A model that can be rolled out: a pytree of arrays that reads one item at a time, as `Transformer` does."""

    def empty_cache(self, total: int) -> Any:
        """What is remembered before the first item."""
        ...

    def decode(
        self, item: Integer[Array, "*slots"], position: Integer[Array, ""], cache: Any
    ) -> tuple[Float[Array, "*slots vocab"], Any]:
        """The logits of the item that follows, and what is then remembered."""
        ...


@jax.jit
def greedy(
    model: Decoder, prompt: Integer[Array, "total *slots"], prompt_length: int | Integer[Array, ""]
) -> Integer[Array, "total *slots"]:
    """The first `prompt_length` items of `prompt`, then the likeliest next item again and again, `total` in all.

    Entries of `prompt` from `prompt_length` on are padding and never read; the first item is always read. An item is
    a token, or a clause of several slots, each of which takes its own likeliest value.
    """
    total = len(prompt)

    def step(carry, position):
        item, cache = carry
        logits, cache = model.decode(item, position, cache)
        guess = jnp.argmax(logits, axis=-1).astype(prompt.dtype)
        following = jnp.where(position + 1 < prompt_length, prompt[position + 1], guess)
        return (following, cache), following

    start = (prompt[0], model.empty_cache(total))
    _, rest = lax.scan(step, start, jnp.arange(total - 1, dtype=jnp.int32))
    return jnp.concatenate([prompt[:1], rest])
