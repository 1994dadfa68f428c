"""Encodings that name positions by nearly orthogonal vectors, one per row, and the encoding of a set of positions.

Near-orthogonal: entries +-1/sqrt(d_e), with pairwise inner products at most `threshold` in absolute value, enforced by
rejection inside the compiled program. No two rows are equal up to sign, whatever the threshold: the encoding of a set
that names both would not exist. Row i depends on the key and on rows before it only, so the encodings of a
shorter sequence are a prefix of those of a longer one (schemes "none", "vector" and "offenders").
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

SCHEMES = ("offenders", "vector", "matrix", "none")
MOST_ROUNDS = 1000
RARE = 2.0**-30  # a chance of repeated rows below which plain signs are not searched for them


class EncodingDraw(NamedTuple):
    """A set of encodings, how many rounds of draws it took, and whether it is above the threshold all the same."""

    encodings: Float[Array, "count width"]
    rounds: Int[Array, ""]
    above: Bool[Array, ""]


def one_hot(length: int) -> Float[Array, "length length"]:
    """E = I_T."""
    return jnp.eye(length, dtype=jnp.float32)


def random_signs(key: PRNGKeyArray, count: int, width: int) -> Float[Array, "count width"]:
    """Independent fair signs, 32 to a random word; the first rows are the same for every `count`."""
    words = jax.random.bits(key, (count, -(-width // 32)), dtype=jnp.uint32)
    bits = (words[:, :, None] >> jnp.arange(32, dtype=jnp.uint32)) & 1
    return 1.0 - 2.0 * bits.reshape(count, -1)[:, :width].astype(jnp.float32)


def distinct_signs(key: PRNGKeyArray, count: int, width: int) -> Float[Array, "count width"]:
    """`random_signs`, with each row that equals an earlier one up to sign drawn again."""
    start = random_signs(key, count, width)
    if count * (count - 1) / 2 * 2.0 ** (1 - width) < RARE:
        return start
    return _redrawn(start, key, width - 0.5, MOST_ROUNDS)[0]


def near_orthogonal(
    key: PRNGKeyArray,
    count: int,
    width: int,
    threshold: float | Float[Array, ""] = 1.0,
    scheme: str = "offenders",
    max_rounds: int | Int[Array, ""] = MOST_ROUNDS,
) -> EncodingDraw:
    """`count` sign vectors of unit norm with |<e_i, e_j>| <= threshold, no two of them equal up to sign.

    offenders: redraw every row that is too close to an earlier one, until none is; vector: accept rows one by one;
    matrix: redraw everything until all is well (the exact conditional law); none: redraw repeated rows only. After
    `max_rounds` the last draw is returned as it is, and `above` says so.
    """
    if scheme not in SCHEMES:
        raise ValueError(f"scheme={scheme} must be one of {', '.join(SCHEMES)} (near_orthogonal)")
    scale = 1 / jnp.sqrt(jnp.float32(width))
    if scheme == "none":
        return EncodingDraw(scale * distinct_signs(key, count, width), jnp.int32(1), jnp.bool_(False))
    # inner products of sign vectors are whole numbers; the slack absorbs rounding of threshold * width
    limit = jnp.minimum(width * (jnp.float32(threshold) + 1e-6), width - 0.5)
    if scheme == "vector":
        signs, rounds, above = _one_by_one(key, count, width, limit, max_rounds)
    else:
        # round 0 draws under fold_in(key, 0), so the loop needs no case for the first draw
        start = random_signs(jax.random.fold_in(key, 0), count, width)
        signs, rounds, above = _redrawn(start, key, limit, max_rounds, whole=scheme == "matrix")
    return EncodingDraw(scale * signs, rounds, above)


def _redrawn(start, key, limit, max_rounds: int | Int[Array, ""], whole: bool = False):
    """Offending rows of the start (or the whole of it) drawn again under fold_in(key, 1), fold_in(key, 2), ..."""
    count, width = start.shape
    earlier = jnp.tril(jnp.ones((count, count), dtype=bool), -1)

    def offenders(signs):
        return jnp.any((jnp.abs(signs @ signs.T) > limit) & earlier, axis=1)

    def again(carry):
        _, bad, rounds = carry
        return jnp.any(bad) & (rounds < max_rounds)

    def redraw(carry):
        signs, bad, rounds = carry
        fresh = random_signs(jax.random.fold_in(key, rounds), count, width)
        replaced = jnp.any(bad) if whole else bad[:, None]
        signs = jnp.where(replaced, fresh, signs)
        return signs, offenders(signs), rounds + 1

    signs, bad, rounds = jax.lax.while_loop(again, redraw, (start, offenders(start), jnp.int32(1)))
    return signs, rounds, jnp.any(bad)


def _one_by_one(key, count: int, width: int, limit, max_rounds: int | Int[Array, ""]):
    def accept(carry, i):
        signs, rounds, above = carry
        row_key = jax.random.fold_in(key, i)
        placed = jnp.arange(count, dtype=jnp.int32) < i

        def clashes(row):
            return jnp.any((jnp.abs(signs @ row) > limit) & placed)

        def redraw(carry):
            _, tries = carry
            return random_signs(jax.random.fold_in(row_key, tries), 1, width)[0], tries + 1

        first = redraw((signs[0], jnp.int32(0)))
        row, tries = jax.lax.while_loop(lambda c: clashes(c[0]) & (c[1] < max_rounds), redraw, first)
        return (signs.at[i].set(row), jnp.maximum(rounds, tries), above | clashes(row)), None

    start = (jnp.zeros((count, width), dtype=jnp.float32), jnp.int32(0), jnp.bool_(False))
    drawn, _ = jax.lax.scan(accept, start, jnp.arange(count, dtype=jnp.int32))
    return drawn


def coherence(encodings: Float[Array, "count width"]) -> Float[Array, ""]:
    """max_{i != j} |<e_i, e_j>|."""
    gram = jnp.abs(encodings @ encodings.T)
    return jnp.max(jnp.where(jnp.eye(len(encodings), dtype=bool), 0, gram))


def subset_encoding(
    encodings: Float[Array, "length encoding"], subset: Int[Array, " size"], used: Bool[Array, " size"] | None = None
) -> Float[Array, " encoding"]:
    """e_y = E_y (E_y^T E_y)^{-1} 1: the least-norm vector whose inner product with each member's encoding is 1.

    With orthonormal encodings it is their sum. Entries of `subset` that are not `used` are padding.
    """
    rows = encodings[subset]
    ones = jnp.ones(len(subset), dtype=rows.dtype)
    gram = rows @ rows.T
    if used is not None:
        gram = jnp.where(used[:, None] & used[None, :], gram, jnp.eye(len(subset), dtype=rows.dtype))
        ones = used.astype(rows.dtype)
    return solve_positive(gram, ones) @ rows


def solve_positive(A: Float[Array, "n n"], b: Float[Array, " n"]) -> Float[Array, " n"]:
    """A^{-1} b for positive definite A: written out for n <= 3 (it stays inside fused loops), LAPACK above."""
    n = len(b)
    if n > 3:
        return jax.scipy.linalg.solve(A, b, assume_a="pos")
    if n == 1:
        return b / A[0]
    if n == 2:
        adjugate = jnp.array([[A[1, 1], -A[0, 1]], [-A[1, 0], A[0, 0]]])
        return adjugate @ b / (A[0, 0] * A[1, 1] - A[0, 1] * A[1, 0])
    cofactors = jnp.stack([jnp.cross(A[1], A[2]), jnp.cross(A[2], A[0]), jnp.cross(A[0], A[1])])
    return cofactors.T @ b / (A[0] @ cofactors[0])
