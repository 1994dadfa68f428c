"""Text by the block: one row of ASCII a record, put together in NumPy without a loop over records.

Prose is a list of byte matrices side by side, one row a record (or one row for all of them), in which a zero byte is
nothing. So pieces of different lengths stand in columns of one width, concatenation is appending to the list, and
the text itself appears when the zeros are squeezed out, once.

>>> block = "x = " + numbers(np.array([7, 10])) + ";"
>>> block.lines(2)
['x = 7;', 'x = 10;']
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Int64, Integer, UInt8

TABLE = 2**16  # numbers in a row whose texts are tabulated


class Prose:
    """Rows of text; `+` joins row by row, with other prose or the same string in every row."""

    def __init__(self, parts: Sequence[UInt8[np.ndarray, "_ _"]]):
        self.parts = list(parts)

    def __add__(self, other: "Prose | str") -> "Prose":
        return Prose([*self.parts, *_prose(other).parts])

    def __radd__(self, other: str) -> "Prose":
        return _prose(other) + self

    def matrix(self, rows: int) -> UInt8[np.ndarray, "rows width"]:
        """All parts side by side."""
        return np.concatenate([np.broadcast_to(part, (rows, part.shape[1])) for part in self.parts], axis=1)

    def packed(self, rows: int) -> tuple[UInt8[np.ndarray, " bytes"], Int64[np.ndarray, " rows_and_one"]]:
        """The bytes of all rows, one after another, and where each begins."""
        matrix = self.matrix(rows)
        kept = matrix != 0
        ends = np.cumsum(np.count_nonzero(kept, axis=1))
        return matrix[kept], np.concatenate([np.zeros(1, dtype=np.int64), ends])

    def lines(self, rows: int) -> list[str]:
        """The rows as strings; no row may hold a line break."""
        return (self + "\n").packed(rows)[0].tobytes().decode("ascii").split("\n")[:-1]


def _prose(text: "Prose | str") -> Prose:
    return text if isinstance(text, Prose) else Prose([byte_table([text])])


def byte_table(texts: Sequence[str]) -> UInt8[np.ndarray, "texts width"]:
    """Texts as rows of bytes: `byte_table(texts)[index]` are cells."""
    table = np.array([text.encode("ascii") for text in texts], dtype=np.bytes_)
    return table.view(np.uint8).reshape(len(texts), table.dtype.itemsize)


# --- rows of cells ----------------------------------------------------------------------------------------------------


def digits(values: Integer[np.ndarray, "rows *cells"], show: Callable[[int], str] = str):
    """Whole numbers as bytes, in decimal or as `show` writes them."""
    if not values.size:
        return np.zeros((*values.shape, 0), dtype=np.uint8)
    low, high = int(values.min()), int(values.max())
    if high - low < TABLE:
        return _table(low, high, show)[values - low]
    different, place = np.unique(values, return_inverse=True)
    return byte_table([show(value) for value in different.tolist()])[place.reshape(values.shape)]


@lru_cache(maxsize=64)
def _table(low: int, high: int, show: Callable[[int], str]) -> UInt8[np.ndarray, "values width"]:
    return byte_table([show(value) for value in range(low, high + 1)])


def numbers(values: Integer[np.ndarray, " rows"], show: Callable[[int], str] = str) -> Prose:
    """One number a row."""
    return Prose([digits(values, show)])


def listed(
    cells: UInt8[np.ndarray, "rows cells width"], between: str, kept: Bool[np.ndarray, "rows cells"] | None = None
) -> Prose:
    """The cells of a row with `between` between them; those that are not `kept` (never the first) are left out.

    >>> listed(digits(np.array([[1, 20, 3]])), ", ").lines(1)
    ['1, 20, 3']
    """
    rows, count, width = cells.shape
    gap = np.broadcast_to(byte_table([between]), (rows, count, len(between))) if between else cells[:, :, :0]
    spaced = np.concatenate([gap, cells], axis=2)
    if kept is not None:
        spaced = np.where(kept[:, :, None], spaced, np.uint8(0))
    return Prose([spaced.reshape(rows, count * (len(between) + width))[:, len(between) :]])


def side_by_side(*cells: UInt8[np.ndarray, "rows cells _"] | str) -> UInt8[np.ndarray, "rows cells _"]:
    """Cells made of several parts: ("x", number, " = ", number)."""
    shape = next(part.shape[:2] for part in cells if not isinstance(part, str))
    parts = [
        np.broadcast_to(byte_table([part]), (*shape, len(part))) if isinstance(part, str) else part for part in cells
    ]
    return np.concatenate(parts, axis=2)


def numbered(name: str, cells: UInt8[np.ndarray, "rows cells _"], first: int = 1) -> UInt8[np.ndarray, "rows cells _"]:
    """Each cell with a name that counts.

    >>> listed(numbered("s", digits(np.array([[7, 9]]))), "; ").lines(1)
    ['s1 = 7; s2 = 9']
    """
    count = np.broadcast_to(np.arange(first, first + cells.shape[1]), cells.shape[:2])
    return side_by_side(name, digits(count), " = ", cells)
