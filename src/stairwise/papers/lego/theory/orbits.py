"""Two steps of a chain up to relabelling: a permutation with two marked values.

The ideal network is the same after any relabelling of its classes and of its neurons. Relabelling the classes makes
g_1 the identity and g_2 the permutation k = g_1^{-1} g_2; relabelling both alike conjugates k. So (y_0, g_1, g_2)
matters only through the cycle type of k, the lengths of the cycles of y_0 and y_1 = g_1(y_0), and the way from one
to the other: |Y| |G|^2 triples (72,000 for S_5) become a few dozen classes with exact weights.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from stairwise.papers.lego.groups import Action

LARGEST = 20_000_000  # triples that are counted


@dataclass(frozen=True)
class MarkedPairs:
    """One representative of each class: k (classes, values), the marked values y_0 and y_1, and its probability."""

    second: np.ndarray
    start: np.ndarray
    middle: np.ndarray
    weights: np.ndarray


@cache
def marked_pairs(action: Action) -> MarkedPairs:
    """The classes of (y_0, g_1, g_2) for uniform draws, each with its exact weight.

    >>> from stairwise.papers.lego.groups import named
    >>> len(marked_pairs(named("S5")).weights), float(marked_pairs(named("S5")).weights.sum())
    (40, 1.0)
    """
    if not action.invertible:
        raise ValueError(f"{action.name}: every action must be a permutation for triples to be counted by class")
    triples = action.actions**2 * action.values
    if triples > LARGEST:
        raise ValueError(f"{action.name}: {triples} triples must be at most {LARGEST} to be counted")
    inverse = np.argsort(action.table, axis=1)
    pairs = inverse[:, action.table].reshape(-1, action.values)  # row (g_1, g_2): g_1^{-1} g_2
    kinds, kind = np.unique(pairs, axis=0, return_inverse=True)
    kind = np.repeat(kind.reshape(-1), action.values)
    start = np.tile(np.arange(action.values), len(pairs))
    middle = np.repeat(action.table, action.actions, axis=0).reshape(-1)
    keys = _keys(kinds, kind, start, middle)
    _, first, counts = np.unique(keys, axis=0, return_index=True, return_counts=True)
    return MarkedPairs(kinds[kind[first]], start[first], middle[first], counts / triples)


def _keys(kinds: np.ndarray, kind: np.ndarray, start: np.ndarray, middle: np.ndarray) -> np.ndarray:
    """(cycle type, length at y_0, length at y_1, steps from y_0 to y_1 or -1) of each triple."""
    label, place, length = cycles(kinds)
    types = np.unique(np.sort(length, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
    same = label[kind, start] == label[kind, middle]
    way = (place[kind, middle] - place[kind, start]) % length[kind, start]
    columns = types[kind], length[kind, start], length[kind, middle], np.where(same, way, -1)
    return np.stack(columns, axis=1)


def cycles(permutations: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each value of each permutation: the least value of its cycle, its place after that, the cycle's length.

    >>> [row.tolist() for row in cycles(np.array([[1, 2, 0, 3]]))]
    [[[0, 0, 0, 3]], [[0, 1, 2, 0]], [[3, 3, 3, 1]]]
    """
    size = permutations.shape[1]
    image = np.broadcast_to(np.arange(size), permutations.shape)
    label, place, length = image.copy(), np.zeros_like(image), np.zeros_like(image)
    for power in range(1, size + 1):
        image = np.take_along_axis(permutations, image, axis=1)
        lower = image < label
        label, place = np.where(lower, image, label), np.where(lower, power, place)
        length = np.where((image == np.arange(size)) & (length == 0), power, length)
    return label, (length - place) % length, length
