"""Word problems: the product of elements of a group, told one after another.

>>> words = group_words("C2", length=4)
>>> words.chain(jnp.array([1, 0, 1, 1], dtype=jnp.int32)).tolist()
[1, 1, 0, 1]
"""

import dataclasses
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Integer, PRNGKeyArray

from stairwise.papers.lego.groups import named
from stairwise.tasks.protocols import ANSWER, Axis, Sentence, check_supervision


class GroupWords(eqx.Module):
    """Words g_1 ... g_L of uniform elements; the state after t of them is g_t o ... o g_1.

    Every row may be asked for its state ("states"), or the last row alone ("answer"). No state is ever shown.
    """

    length: int = eqx.field(static=True)
    product: Integer[Array, "elements elements"]
    slots: ClassVar[int] = 1
    reads: ClassVar[str] = "here"
    causal: ClassVar[bool] = True
    supervisions: ClassVar[tuple[str, ...]] = (ANSWER, "states")

    def __check_init__(self):
        if self.length < 1:
            raise ValueError(f"length={self.length} must be at least 1 (GroupWords)")

    @property
    def vocabulary(self) -> int:
        return len(self.product)

    @property
    def difficulty(self) -> Axis:
        return Axis("length", (self.length, 2 * self.length, 4 * self.length))

    def at(self, difficulty: int) -> "GroupWords":
        return dataclasses.replace(self, length=difficulty)

    def sample(self, key: PRNGKeyArray) -> Integer[Array, " length"]:
        return jax.random.randint(key, (self.length,), 0, self.vocabulary, dtype=jnp.int32)

    def chain(self, example: Integer[Array, " length"]) -> Integer[Array, " length"]:
        """All running products, one element after another."""

        def step(state: Integer[Array, ""], element: Integer[Array, ""]):
            reached = self.product[element, state]
            return reached, reached

        return jnp.concatenate([example[:1], jax.lax.scan(step, example[0], example[1:])[1]])

    def answer(self, example: Integer[Array, " length"]) -> Integer[Array, ""]:
        """The product of all elements, found in log L parallel rounds: the second oracle."""
        return jax.lax.associative_scan(lambda first, then: self.product[then, first], example)[-1]

    def sentence(
        self, example: Integer[Array, " length"], supervision: str = ANSWER, key: PRNGKeyArray | None = None
    ) -> Sentence:
        check_supervision(self, supervision)
        row = jnp.arange(self.length, dtype=jnp.int32)
        asked = jnp.ones(self.length, dtype=bool) if supervision == "states" else row == self.length - 1
        return Sentence(example, jnp.where(asked, self.chain(example), 0), asked.astype(jnp.float32))


def group_words(action: str, length: int) -> GroupWords:
    """The words of a named group; the elements are its actions."""
    return GroupWords(length, jnp.asarray(named(action).multiplication, dtype=jnp.int32))
