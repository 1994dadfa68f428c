"""Parities of k out of d bits: +-1 inputs with the intermediate products of a tree, and 0/1 sequences with chains.

Positions are counted from 0 throughout.

>>> task = Parity(16, (0, 3, 4, 6, 8, 10, 12, 15))
>>> example = task.sample(jax.random.key(0))
>>> bool(task.label(example.bits) == example.nodes[-1])
True
"""

import dataclasses
from fractions import Fraction
from functools import partial
from math import comb
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int8, Integer, PRNGKeyArray

from stairwise.tasks.decomposition import TREES, Tree, balanced, chain
from stairwise.tasks.protocols import ANSWER, Axis, Sentence, check_supervision, told_next

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
    return _subset(key, slots, room, slots if bits is None else bits, room if size is None else size)


@partial(jax.jit, static_argnames=("slots", "room"), inline=True)  # one program, where ten would run one after another
def _subset(key, slots: int, room: int, bits, size) -> Integer[Array, " room"]:
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
    """The parity of the first `size` of the secret positions among coin flips, told in tokens 0 and 1.

    A sentence is x_1 ... x_d, 0, and then what is asked for, each token predicted from what stands before it: the
    results of all steps ("chain") or the parity alone ("answer"). The steps are the partial sums of the secret bits in
    the secret's order (`by="sums"`), or the k-1 nodes of a tree, sums of two.

    >>> task = ParityTokens(5, jnp.array([0, 1, 3], dtype=jnp.int32), size=3)
    >>> bits = jnp.array([0, 1, 0, 1, 0], dtype=jnp.int8)
    >>> task.sentence(bits, "chain").tokens.tolist(), task.chain(bits).tolist()
    ([0, 1, 0, 1, 0, 0, 0, 1], [0, 1, 0])
    >>> task.sentence(bits).tokens.tolist(), int(task.answer(bits))
    ([0, 1, 0, 1, 0, 0], 0)
    """

    bits: int = eqx.field(static=True)
    secret: Integer[Array, " room"]
    size: int = eqx.field(static=True)
    by: str = eqx.field(static=True, default="sums")
    vocabulary: ClassVar[int] = 2
    slots: ClassVar[int] = 1
    reads: ClassVar[str] = "next"
    causal: ClassVar[bool] = True
    supervisions: ClassVar[tuple[str, ...]] = (ANSWER, "chain")

    def __check_init__(self):
        room, ways = len(self.secret), ("sums", *TREES)
        if self.by not in ways:
            raise ValueError(f"by={self.by} must be one of {', '.join(ways)} (ParityTokens)")
        if room > self.bits:
            raise ValueError(f"secret has {room} positions, which must be at most bits={self.bits} (ParityTokens)")
        if not self.least <= self.size <= room:
            raise ValueError(f"size={self.size} must lie in {self.least}..{room} (ParityTokens)")

    @property
    def least(self) -> int:
        """A secret may be a single position; a tree has two leaves at least."""
        return 1 if self.by == "sums" else 2

    @property
    def difficulty(self) -> Axis:
        return Axis("size", tuple(range(self.least, len(self.secret) + 1)))

    def at(self, difficulty: int) -> "ParityTokens":
        """The parity of the first so many secret positions."""
        return dataclasses.replace(self, size=difficulty)

    def sample(self, key: PRNGKeyArray) -> Int8[Array, " bits"]:
        return coin_flips(key, self.bits)

    def answer(self, example: Integer[Array, " bits"]) -> Int8[Array, ""]:
        return (jnp.sum(example[self.secret[: self.size]], dtype=jnp.int32) % 2).astype(jnp.int8)

    def chain(self, example: Integer[Array, " bits"]) -> Int8[Array, " steps"]:
        leaves = self.secret[: self.size]
        if self.by == "sums":
            return (jnp.cumsum(example[leaves], dtype=jnp.int32) % 2).astype(jnp.int8)
        tree = {"balanced": balanced, "chain": chain}[self.by](leaves, self.bits)
        return tree.complete(example, jnp.bitwise_xor)[self.bits :].astype(jnp.int8)

    def sentence(
        self, example: Integer[Array, " bits"], supervision: str = ANSWER, key: PRNGKeyArray | None = None
    ) -> Sentence:
        check_supervision(self, supervision)
        asked = self.chain(example) if supervision == "chain" else self.answer(example)[None]
        return told_next(jnp.append(example, 0).astype(jnp.int32), asked.astype(jnp.int32))
