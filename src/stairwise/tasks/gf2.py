"""Linear algebra over the two-element field on bit-packed words: the information-theoretic reference for parities.

A parity y = prod_{j in p} x_j of +-1 bits is the linear equation sum_{j in p} (1-x_j)/2 = (1-y)/2 mod 2, so Gaussian
elimination finds p as soon as the samples have full rank, which takes about d + 1.6 of them. NumPy only.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Integer, Shaped, UInt64

WORD = 64


class Solution(NamedTuple):
    """What a linear system over GF(2) says of its unknowns.

    rank        of the equations' left-hand side
    consistent  whether any assignment satisfies all equations (label noise makes this false)
    unique      whether exactly one does
    values      one that does (unknowns that are free are 0), or zeros
    """

    rank: int
    consistent: bool
    unique: bool
    values: Integer[np.ndarray, " unknowns"]


def solve(matrix: Shaped[np.ndarray, "equations unknowns"], right: Shaped[np.ndarray, " equations"]) -> Solution:
    """Solve matrix @ values = right mod 2, both with entries in {0, 1}.

    >>> solve(np.array([[1, 1, 0], [0, 1, 1], [0, 0, 1]]), np.array([1, 0, 1])).values
    array([0, 1, 1], dtype=int8)
    """
    for name, entries in (("matrix", matrix), ("right", right)):
        wrong = entries[(entries != 0) & (entries != 1)]
        if wrong.size:
            raise ValueError(f"{name}={wrong[0]} must be 0 or 1 (gf2.solve)")
    unknowns = matrix.shape[1]
    rows, pivots = eliminate(pack(np.column_stack([matrix, right])), unknowns)
    last = bits_of(rows, unknowns)
    values = np.zeros(unknowns, dtype=np.int8)
    consistent = not last[len(pivots) :].any()
    if consistent:
        values[pivots] = last[: len(pivots)]
    return Solution(len(pivots), consistent, consistent and len(pivots) == unknowns, values)


def solve_parity(bits: Shaped[np.ndarray, "samples bits"], labels: Shaped[np.ndarray, " samples"]) -> Solution:
    """The subset behind labelled +-1 samples, as a 0/1 vector over the bits.

    >>> x = np.array([[1, -1, 1], [-1, -1, 1], [1, 1, -1]])
    >>> solve_parity(x, x[:, 0] * x[:, 2]).values
    array([1, 0, 1], dtype=int8)
    """
    for name, entries in (("bits", bits), ("labels", labels)):
        wrong = entries[(entries != -1) & (entries != 1)]
        if wrong.size:
            raise ValueError(f"{name}={wrong[0]} must be -1 or 1 (gf2.solve_parity)")
    return solve((1 - bits) // 2, (1 - labels) // 2)


def pack(entries: Shaped[np.ndarray, "rows columns"]) -> UInt64[np.ndarray, "rows words"]:
    """0/1 entries, 64 to a word: column c is bit c % 64 of word c // 64."""
    rows, columns = entries.shape
    padded = np.zeros((rows, -(-columns // WORD) * WORD), dtype=np.uint8)
    padded[:, :columns] = entries
    return np.packbits(padded, axis=1, bitorder="little").view("<u8").astype(np.uint64)


def bits_of(rows: UInt64[np.ndarray, "rows words"], column: int) -> Integer[np.ndarray, " rows"]:
    """One column of a packed matrix."""
    return ((rows[:, column // WORD] >> np.uint64(column % WORD)) & np.uint64(1)).astype(np.int8)


def eliminate(
    rows: UInt64[np.ndarray, "rows words"], columns: int
) -> tuple[UInt64[np.ndarray, "rows words"], list[int]]:
    """Reduced row echelon form over the first `columns` columns, and the pivot columns: row r has pivots[r]."""
    rows = rows.copy()
    pivots: list[int] = []
    for column in range(columns):
        done = len(pivots)
        if done == len(rows):
            break
        entries = bits_of(rows, column)
        candidates = np.flatnonzero(entries[done:])
        if not len(candidates):
            continue
        chosen = done + int(candidates[0])
        rows[[done, chosen]] = rows[[chosen, done]]
        entries[[done, chosen]] = entries[[chosen, done]]
        entries[done] = 0
        rows[entries == 1] ^= rows[done]
        pivots.append(column)
    return rows, pivots


def rank(matrix: Shaped[np.ndarray, "rows columns"]) -> int:
    """The rank over GF(2).

    >>> rank(np.array([[1, 1], [1, 1]]))
    1
    """
    return len(eliminate(pack(matrix), matrix.shape[1])[1])
