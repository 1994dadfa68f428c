"""Permutation groups written out, row by row: closures and derived subgroups of a few generators. NumPy only."""

import itertools
from collections.abc import Sequence

import numpy as np

LARGEST_GROUP = 50_000  # elements that are listed one by one


def first_non_permutation(table: np.ndarray) -> int | None:
    """The first row that is no permutation, or none."""
    wrong = np.flatnonzero((np.sort(table, axis=1) != np.arange(table.shape[1])).any(axis=1))
    return int(wrong[0]) if len(wrong) else None


def unique(rows: np.ndarray) -> np.ndarray:
    """The different rows."""
    return np.unique(rows, axis=0)


def contains(rows: np.ndarray, row: np.ndarray) -> bool:
    """Whether `row` is one of them."""
    return bool((rows == row).all(axis=1).any())


def closure(generators: np.ndarray | Sequence[np.ndarray], name: str) -> np.ndarray:
    """Every product of the generators, in lexicographic order: a finite set closed under products is a group."""
    generators = np.asarray(generators, dtype=np.int32)
    values = generators.shape[1]
    known = {np.arange(values, dtype=np.int32).tobytes()}
    frontier = np.arange(values, dtype=np.int32)[None]
    while len(frontier):
        images = np.concatenate([frontier[:, generator] for generator in generators] or [frontier[:0]])
        fresh = {row.tobytes() for row in images} - known
        known |= fresh
        if len(known) > LARGEST_GROUP:
            raise ValueError(f"{name}: the group has more than {LARGEST_GROUP} elements, too many to list")
        frontier = np.array([np.frombuffer(row, dtype=np.int32) for row in fresh], dtype=np.int32).reshape(-1, values)
    rows = np.array([np.frombuffer(row, dtype=np.int32) for row in known], dtype=np.int32)
    return rows[np.lexsort(rows.T[::-1])]


def _inverse(row: np.ndarray) -> np.ndarray:
    return np.argsort(row).astype(np.int32)


def derived_subgroup(generators: np.ndarray, name: str) -> np.ndarray:
    """Generators of [G, G]: the commutators of G's generators, closed under conjugation by them."""
    values = generators.shape[1]
    commutators = [a[b[_inverse(a)[_inverse(b)]]] for a, b in itertools.combinations(generators, 2)]
    found, reached = np.zeros((0, values), dtype=np.int32), np.arange(values, dtype=np.int32)[None]
    waiting = list(commutators)
    while waiting:
        candidate = waiting.pop()
        if contains(reached, candidate):
            continue
        found = np.concatenate([found, candidate[None]])
        reached = closure(found, name)
        waiting += [g[candidate[_inverse(g)]] for g in generators]
    return found
