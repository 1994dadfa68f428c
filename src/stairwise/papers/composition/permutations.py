"""Permutations of 0..n-1 as rows of integers: uniform draws, inverses, all of them, and whether rows are such.

A row p sends j to p[j]; composition is a gather: (p o q)[j] = p[q[j]].
"""

from functools import partial
from itertools import permutations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Integer, PRNGKeyArray


def uniform_permutations(key: PRNGKeyArray, count: int, size: int) -> Integer[Array, "count size"]:
    """Independent uniform permutations: the ranks of random words (a tie, of chance n^2/2^33, goes by place).

    Ranks are counted by comparing all pairs, which for small n is many times cheaper than a sort.
    """
    return ranks(jax.random.bits(key, (count, size), dtype=jnp.uint32))


def uniform_subset(key: PRNGKeyArray, size: int, members: int):
    """A uniform subset of 0..size-1 with the given number of members, as a mask."""
    return ranks(jax.random.bits(key, (1, size), dtype=jnp.uint32))[0] < members


@partial(jax.jit, inline=True)  # one program, where ten would run one after another
def ranks(words: Integer[Array, "count size"]) -> Integer[Array, "count size"]:
    """The rank of each entry in its row; equal entries in the order of their places."""
    place = jnp.arange(words.shape[1], dtype=jnp.int32)
    mine, other = words[:, :, None], words[:, None, :]
    before = (other < mine) | ((other == mine) & (place[None, None, :] < place[None, :, None]))
    return jnp.sum(before, axis=2, dtype=jnp.int32)


def inverse(permutation: Integer[Array, " size"]) -> Integer[Array, " size"]:
    """The permutation that undoes it.

    >>> inverse(jnp.array([2, 0, 1], dtype=jnp.int32)).tolist()
    [1, 2, 0]
    """
    return jnp.zeros_like(permutation).at[permutation].set(jnp.arange(len(permutation), dtype=permutation.dtype))


def all_permutations(size: int) -> Integer[np.ndarray, "count size"]:
    """All n! of them in lexicographic order, the identity first."""
    return np.array(list(permutations(range(size))), dtype=np.int32)


def first_non_permutation(rows: Integer[np.ndarray, "count size"]) -> int | None:
    """The first row that is no permutation, or none.

    >>> first_non_permutation(np.array([[1, 0], [1, 1]]))
    1
    """
    wrong = np.flatnonzero((np.sort(rows, axis=1) != np.arange(rows.shape[1])).any(axis=1))
    return int(wrong[0]) if wrong.size else None
