"""Parities of k out of d bits: +-1 inputs with the intermediate products of a tree, and 0/1 sequences with chains.

Positions are counted from 0 throughout.

>>> task = Parity(16, (0, 3, 4, 6, 8, 10, 12, 15))
>>> example = task.sample(jax.random.key(0))
>>> bool(task.label(example.bits) == example.nodes[-1])
True
"""

from fractions import Fraction
from math import comb
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int8, Integer, PRNGKeyArray

from stairwise.tasks.decomposition import TREES, Tree, balanced, chain

LARGEST_CUBE = 20  # a million inputs
ORDERS = ("sorted", "given")


def check_sizes(bits: int, size: int) -> None:
    """2 <= k <= d, or one line that says so."""
    if not 2 <= size <= bits:
        raise ValueError(f"size={size} must lie in 2..bits={bits} (parity)")


def check_subset(bits: int, subset: tuple[int, ...]) -> None:
    """Distinct positions in 0..d-1, or one line that names the first that is not."""
    check_sizes(bits, len(subset))
    for place, position in enumerate(subset):
        if not 0 <= position < bits:
            raise ValueError(f"subset={position} must lie in 0..{bits - 1} (parity)")
        if position in subset[:place]:
            raise ValueError(f"subset={position} must not be repeated (parity)")


def draw_subset(
    key: PRNGKeyArray,
    slots: int,
    room: int,
    bits: int | Integer[Array, ""] | None = None,
    size: int | Integer[Array, ""] | None = None,
) -> Integer[Array, " room"]:
    """A uniform `size`-subset of the first `bits` of `slots` positions, ascending, in the first places of `room`.

    `bits` and `size` may be traced; padding changes no draw, and what follows the subset is a position out of range.

    >>> draw_subset(jax.random.key(1), 5, 5).tolist()
    [0, 1, 2, 3, 4]
    """
    bits, size = slots if bits is None else bits, room if size is None else size
    lots = jax.random.bits(key, (slots,), dtype=jnp.uint32)
    position = jnp.arange(slots, dtype=jnp.int32)
    lots = jnp.where(position < bits, lots >> 1, jnp.uint32(2**32 - 1))
    chosen = jnp.argsort(lots, stable=True)[:room].astype(jnp.int32)
    return jnp.sort(jnp.where(jnp.arange(room, dtype=jnp.int32) < size, chosen, slots))


def coin_flips(key: PRNGKeyArray, count: int) -> Int8[Array, " count"]:
    """Independent fair bits 0 or 1; more of them change none of the first."""
    return (jax.random.bits(key, (count,), dtype=jnp.uint8) & 1).astype(jnp.int8)


class ParityExample(NamedTuple):
    """An input and the true values of the internal nodes; the last one is the label."""

    bits: Int8[Array, " bits"]
    nodes: Int8[Array, " nodes"]


class Parity(eqx.Module):
    """y = prod_{j in p} x_j with x uniform on {-1, 1}^d, and its decomposition into products of two."""

    bits: int = eqx.field(static=True)
    subset: tuple[int, ...] = eqx.field(static=True)
    tree: str = eqx.field(static=True, default="balanced")
    order: str = eqx.field(static=True, default="sorted")

    def __check_init__(self):
        check_subset(self.bits, self.subset)
        if self.tree not in TREES:
            raise ValueError(f"tree={self.tree} must be one of {', '.join(TREES)} (parity)")
        if self.order not in ORDERS:
            raise ValueError(f"order={self.order} must be one of {', '.join(ORDERS)} (parity)")

    @staticmethod
    def drawn(key: PRNGKeyArray, bits: int, size: int, tree: str = "balanced") -> "Parity":
        """The parity of a uniform subset."""
        check_sizes(bits, size)
        return Parity(bits, tuple(draw_subset(key, bits, size).tolist()), tree)

    @property
    def decomposition(self) -> Tree:
        leaves = self.subset if self.order == "given" else sorted(self.subset)
        build = {"balanced": balanced, "chain": chain}[self.tree]
        return build(jnp.array(leaves, dtype=jnp.int32), self.bits)

    def sample(self, key: PRNGKeyArray) -> ParityExample:
        bits = 1 - 2 * coin_flips(key, self.bits)
        return ParityExample(bits, self.tokens(bits)[self.bits :])

    def label(self, bits: Integer[Array, " bits"]) -> Integer[Array, ""]:
        return jnp.prod(bits[jnp.array(self.subset, dtype=jnp.int32)]).astype(bits.dtype)

    def tokens(self, bits: Integer[Array, " bits"]) -> Integer[Array, " tokens"]:
        """The d inputs and the k-1 true intermediate values."""
        return self.decomposition.complete(bits)


# --- the whole cube, and the whole class ------------------------------------------------------------------------------


def cube(bits: int) -> Int8[np.ndarray, "inputs bits"]:
    """All 2^d inputs; as a data set it turns every empirical quantity into its exact population value.

    >>> cube(2).tolist()
    [[1, 1], [-1, 1], [1, -1], [-1, -1]]
    """
    if not 1 <= bits <= LARGEST_CUBE:
        raise ValueError(f"bits={bits} must lie in 1..{LARGEST_CUBE} for the whole cube (parity)")
    code = np.arange(2**bits, dtype=np.int64)[:, None] >> np.arange(bits)
    return (1 - 2 * (code & 1)).astype(np.int8)


def krawtchouk(bits: int, size: int, minus: int) -> int:
    """The sum over all k-subsets p of prod_{j in p} x_j, for an x with `minus` entries -1: an exact integer.

    K = sum_j (-1)^j C(m, j) C(d-m, k-j).

    >>> krawtchouk(4, 2, 1)
    0
    """
    if not 0 <= minus <= bits:
        raise ValueError(f"minus={minus} must lie in 0..bits={bits} (parity)")
    return sum((-1) ** j * comb(minus, j) * comb(bits - minus, size - j) for j in range(min(minus, size) + 1))


def mean_parity(bits: int, size: int, minus: int) -> Fraction:
    """E_p p(x) over the uniform k-subsets p, for an x with `minus` entries -1; exact.

    >>> mean_parity(4, 4, 3)
    Fraction(-1, 1)
    """
    check_sizes(bits, size)
    return Fraction(krawtchouk(bits, size, minus), comb(bits, size))


# --- 0/1 sequences ----------------------------------------------------------------------------------------------------


class ParityTokens(eqx.Module):
    """A parity as a sequence of 0/1 tokens for next-token prediction, with or without the chain of partial sums.

    With the chain: x_1 ... x_d, 0, then each partial sum of the secret bits in the secret's order; every token after
    the 0 is predicted from what stands before it. Without: x_1 ... x_d, 0, parity. The secret's order matters only to
    the chain, and a secret may be a single position.

    >>> task = ParityTokens(5, (0, 1, 3))
    >>> task.tokens(jnp.array([0, 1, 0, 1, 0], dtype=jnp.int8)).tolist()
    [0, 1, 0, 1, 0, 0, 0, 1, 0]
    >>> ParityTokens(5, (0, 1, 3), chain=False).tokens(jnp.array([0, 1, 0, 1, 0], dtype=jnp.int8)).tolist()
    [0, 1, 0, 1, 0, 0, 0]
    """

    bits: int = eqx.field(static=True)
    secret: tuple[int, ...] = eqx.field(static=True)
    chain: bool = eqx.field(static=True, default=True)

    def __check_init__(self):
        if not 1 <= len(self.secret) <= self.bits:
            raise ValueError(f"size={len(self.secret)} must lie in 1..bits={self.bits} (ParityTokens)")
        for place, position in enumerate(self.secret):
            if not 0 <= position < self.bits:
                raise ValueError(f"secret={position} must lie in 0..{self.bits - 1} (ParityTokens)")
            if position in self.secret[:place]:
                raise ValueError(f"secret={position} must not be repeated (ParityTokens)")

    @property
    def length(self) -> int:
        """All tokens, of which the last is only ever a label."""
        return self.bits + 1 + (len(self.secret) if self.chain else 1)

    def sample(self, key: PRNGKeyArray) -> Int8[Array, " length"]:
        return self.tokens(coin_flips(key, self.bits))

    def tokens(self, bits: Integer[Array, " bits"]) -> Int8[Array, " length"]:
        bits = bits.astype(jnp.int8)
        partial_sums = jnp.cumsum(bits[jnp.array(self.secret, dtype=jnp.int32)]) % 2
        answers = partial_sums if self.chain else partial_sums[-1:]
        return jnp.concatenate([bits, jnp.zeros(1, dtype=jnp.int8), answers.astype(jnp.int8)])
