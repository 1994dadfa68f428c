"""Sparse token selection: average the tokens that a query names.

STS_q(X, y) = (1/q) sum_{i in y} x_i, with x_i i.i.d. centred and isotropic in R^d, y uniform over the q-subsets of [T].
"""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from stairwise.tasks.protocols import Axis
from stairwise.train.keys import role

TOKEN_LAWS = ("gaussian", "laplace", "onehot", "shifted")


class Selection(NamedTuple):
    """One example: tokens x_1..x_T and the subset y (q distinct positions, in no order)."""

    tokens: Float[Array, "length width"]
    subset: Int[Array, " sparsity"]


class SparseSelection(eqx.Module):
    """The distribution D_{T,q} of sparse token selection.

    `tokens` chooses the law: gaussian (the paper) and laplace entries of unit variance. Two laws are not centred and so
    outside the theory: onehot (sqrt(d) times a random basis vector, E[x x^T] = I) and shifted (gaussian plus 1).

    >>> task = SparseSelection(length=4, sparsity=2, width=1)
    >>> task.answer(Selection(jnp.arange(4.0)[:, None], jnp.array([1, 3])))
    Array([2.], dtype=float32)
    """

    length: int = eqx.field(static=True)
    sparsity: int = eqx.field(static=True)
    width: int = eqx.field(static=True)
    tokens: str = eqx.field(static=True, default="gaussian")

    def __check_init__(self):
        if not 1 <= self.sparsity <= self.length:
            raise ValueError(f"sparsity={self.sparsity} must lie in 1..length={self.length} (SparseSelection)")
        if self.width < 1:
            raise ValueError(f"width={self.width} must be at least 1 (SparseSelection)")
        if self.tokens not in TOKEN_LAWS:
            raise ValueError(f"tokens={self.tokens} must be one of {', '.join(TOKEN_LAWS)} (SparseSelection)")

    def sample(self, key: PRNGKeyArray) -> Selection:
        """One example as a function of its key."""
        tokens = draw_tokens(role(key, "tokens"), self.length, self.width, self.tokens)
        return Selection(tokens, uniform_subset(role(key, "subset"), self.length, self.sparsity))

    def answer(self, example: Selection) -> Float[Array, " width"]:
        """The mean of the selected tokens."""
        return jnp.mean(example.tokens[example.subset], axis=0)

    @property
    def difficulty(self) -> Axis:
        """T, at the same q."""
        return Axis("length", tuple(self.length * factor for factor in (1, 2, 4)))

    def at(self, difficulty: int) -> "SparseSelection":
        """The task at another length."""
        return dataclasses.replace(self, length=difficulty)

    def inputs(self, example: Selection) -> Float[Array, "length joint"]:
        """[x_i; 1{i in y}]: the tokens, with those marked that the query names."""
        marked = jnp.zeros(self.length, dtype=example.tokens.dtype).at[example.subset].set(1)
        return jnp.concatenate([example.tokens, marked[:, None]], axis=1)

    def answers(self, tokens: Float[Array, "length width"], subsets: Int[Array, "queries sparsity"]):
        """The qSA variant: one answer for each of several queries on the same sequence."""
        return jax.vmap(lambda subset: self.answer(Selection(tokens, subset)))(subsets)


def draw_tokens(key: PRNGKeyArray, length: int, width: int, law: str) -> Float[Array, "length width"]:
    """Tokens with i.i.d. entries, drawn flat: a minor axis of a few entries would triple the cost of the draw."""
    if law == "onehot":
        choice = jax.random.randint(key, (length,), 0, width, dtype=jnp.int32)
        return jnp.sqrt(jnp.float32(width)) * jax.nn.one_hot(choice, width, dtype=jnp.float32)
    if law == "laplace":
        flat = jax.random.laplace(key, (length * width,), dtype=jnp.float32) / jnp.sqrt(jnp.float32(2))
    else:
        flat = jax.random.normal(key, (length * width,), dtype=jnp.float32)
    # the barrier keeps XLA from fusing the draw into the consumer's (length, width) layout
    tokens = jax.lax.optimization_barrier(flat).reshape(length, width)
    return tokens + 1 if law == "shifted" else tokens


def uniform_subset(
    key: PRNGKeyArray, length: int | Int[Array, ""], sparsity: int, drawn: int | Int[Array, ""] | None = None
) -> Int[Array, " sparsity"]:
    """A uniform subset of [length] by Floyd's algorithm: `sparsity` draws, exactly uniform, no permutation.

    With `drawn` < sparsity (both may be traced) only the first `drawn` entries are a subset and the rest is padding
    (position 0), so that one compiled program serves subsets of every size up to `sparsity`.
    """
    drawn = sparsity if drawn is None else drawn
    uniforms = jax.random.uniform(key, (sparsity,), dtype=jnp.float32)
    chosen = jnp.full((sparsity,), -1, dtype=jnp.int32)
    for j in range(sparsity):
        top = length - drawn + j  # Floyd: draw from 0..top, and take top itself when the draw is already chosen
        pick = jnp.minimum((uniforms[j] * (top + 1)).astype(jnp.int32), top)
        pick = jnp.where(jnp.any(chosen == pick), top, pick)
        chosen = chosen.at[j].set(jnp.where(j < drawn, pick, -1))
    return jnp.maximum(chosen, 0)
