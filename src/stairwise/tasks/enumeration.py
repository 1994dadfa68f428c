"""The examples of a finite task in an order of their own: any of them by its number, none twice, splits held out.

A task's example is a row of digits, digit i uniform in 0..radix_i - 1. The first of them, as many as have at most 2^62
values together, are *counted*: read as one mixed-radix number they are a code in 0..size-1. Two keyed bijections
(Feistel networks that walk until they are back inside) name the codes:

    code = split_order(first of the split + seed_order(index))

`split_order` depends on nothing but the size, so which split an example belongs to is a function of its value: files
made with any seeds, at any time, are disjoint if their splits are. `seed_order` shuffles one split. The digits that do
not fit are hashed from seed, split and index. NumPy only, whole numbers only: the same bits on every machine.

>>> space = Space((2,) * 4)
>>> held_out = [space.split_of(space.digits(seed, "test", np.arange(2))) for seed in range(3)]
>>> all((names == "test").all() for names in held_out)
True
"""

import hashlib
import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Integer, Shaped, UInt64

MOST = 2**62  # codes that are counted
ROUNDS = 8
SPLITS = {"train": (0, 8), "val": (8, 9), "test": (9, 10)}  # tenths of the codes
ORDER = "stairwise examples"  # names the order that decides the splits; another name would move every split
STEP = np.uint64(0x9E3779B97F4A7C15)


class Space(NamedTuple):
    """Rows of digits: `value` is what an example is, `telling` how it is told (order of clauses, noise)."""

    value: tuple[int, ...]
    telling: tuple[int, ...] = ()

    @property
    def counted(self) -> int:
        """How many of the first digits make the code."""
        size = 1
        for place, radix in enumerate(self.value):
            size *= radix
            if size > MOST:
                return place
        return len(self.value)

    @property
    def size(self) -> int:
        """Codes in all."""
        return math.prod(self.value[: self.counted])

    def bounds(self, split: str) -> tuple[int, int]:
        """The places of a split in the order that is the same for every seed."""
        first, last = SPLITS[split]
        return self.size * first // 10, self.size * last // 10

    def capacity(self, split: str) -> int:
        """How many different examples a split has, at least."""
        first, last = self.bounds(split)
        return last - first

    def digits(self, seed: int, split: str, index: Integer[np.ndarray, " rows"]) -> Integer[np.ndarray, "rows digits"]:
        """The examples of these numbers (from 0, below the split's capacity): value digits, then telling digits."""
        first, _ = self.bounds(split)
        index = index.astype(np.uint64)
        place = bijection(f"{seed} {split}", index, self.capacity(split)) + np.uint64(first)
        code = bijection(ORDER, place, self.size)
        found = np.empty((len(index), len(self.value) + len(self.telling)), dtype=np.int64)
        for digit in reversed(range(self.counted)):
            code, found[:, digit] = np.divmod(code, np.uint64(self.value[digit]))
        rest = np.array((*self.value[self.counted :], *self.telling), dtype=np.uint64)
        found[:, self.counted :] = hashed(f"{seed} {split} rest", index, len(rest)) % rest
        return found

    def split_of(self, digits: Integer[np.ndarray, "rows digits"]) -> Shaped[np.ndarray, " rows"]:
        """The split that each example belongs to, whatever the seed."""
        code = np.zeros(len(digits), dtype=np.uint64)
        for digit in range(self.counted):
            code = code * np.uint64(self.value[digit]) + digits[:, digit].astype(np.uint64)
        place = bijection(ORDER, code, self.size, back=True)
        ends = np.array([self.bounds(split)[1] for split in SPLITS], dtype=np.uint64)
        return np.array(list(SPLITS))[np.searchsorted(ends, place, side="right")]


def falling(size: int, count: int) -> tuple[int, ...]:
    """The radices of `count` different things out of `size`, in order."""
    return tuple(size - place for place in range(count))


def distinct(digits: Integer[np.ndarray, "rows count"], size: int) -> Integer[np.ndarray, "rows count"]:
    """The `count` different numbers below `size` that digits of radices size, size - 1, ... mean: a shuffle's swaps.

    >>> distinct(np.array([[0, 0, 0], [2, 1, 0]]), 3).tolist()
    [[0, 1, 2], [2, 0, 1]]
    """
    rows, count = digits.shape
    deck = np.tile(np.arange(size, dtype=np.int32), (rows, 1))
    row = np.arange(rows)
    for top in range(count):
        place = top + digits[:, top]
        chosen = deck[row, place]
        deck[row, place] = deck[:, top]
        deck[:, top] = chosen
    return deck[:, :count]


# --- keyed bijections and hashes --------------------------------------------------------------------------------------


def bijection(name: str, index: UInt64[np.ndarray, " rows"], size: int, back: bool = False):
    """Where the bijection of 0..size-1 (size at most 2^62) of that name sends each index; or `back`, what it came from.

    >>> there = bijection("a name", np.arange(10, dtype=np.uint64), 10)
    >>> sorted(there.tolist()), bijection("a name", there, 10, back=True).tolist() == list(range(10))
    ([0, 1, 2, 3, 4, 5, 6, 7, 8, 9], True)
    """
    bits = max(2, (size - 1).bit_length())
    salts = _words(name, 2 * ROUNDS)
    code = _feistel(salts, index, bits, back)
    outside = np.flatnonzero(code >= size)
    while len(outside):
        code[outside] = _feistel(salts, code[outside], bits, back)
        outside = outside[code[outside] >= size]
    return code


def hashed(name: str, index: UInt64[np.ndarray, " rows"], count: int) -> UInt64[np.ndarray, "rows count"]:
    """`count` words for each index, as if drawn at random."""
    start = _mix(index + _words(name, 1)[0])
    return _mix(start[:, None] + STEP * np.arange(1, count + 1, dtype=np.uint64))


def _words(name: str, count: int) -> UInt64[np.ndarray, " count"]:
    return np.frombuffer(hashlib.shake_128(name.encode()).digest(8 * count), dtype="<u8").astype(np.uint64)


def _feistel(salts: UInt64[np.ndarray, " salts"], code: UInt64[np.ndarray, " rows"], bits: int, back: bool):
    """Each round adds (xor) a hash of one half to the other, so it can be undone whatever the hash is."""
    low_bits = np.uint64((bits + 1) // 2)
    low_ones = (np.uint64(1) << low_bits) - np.uint64(1)
    high_ones = (np.uint64(1) << np.uint64(bits // 2)) - np.uint64(1)
    low, high = code & low_ones, code >> low_bits
    for turn in reversed(range(2 * ROUNDS)) if back else range(2 * ROUNDS):
        if turn % 2 == 0:
            high = high ^ (_mix(low ^ salts[turn]) & high_ones)
        else:
            low = low ^ (_mix(high ^ salts[turn]) & low_ones)
    return (high << low_bits) | low


def _mix(word: UInt64[np.ndarray, "*shape"]) -> UInt64[np.ndarray, "*shape"]:
    """SplitMix64's finaliser."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))
