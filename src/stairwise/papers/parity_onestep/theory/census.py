"""Which products of tokens are trivial, that is equal to 1 on every input (the combinatorics behind Theorem 5).

A token is a parity of input bits, written here as a bit mask; a product of tokens is the exclusive or of their masks.
Tokens are numbered from 0: inputs 0..d-1, internal node i is token d+i with the two tokens `children[i]`.
"""

from collections import defaultdict
from itertools import combinations

import numpy as np
from jaxtyping import Integer, Shaped

Children = Integer[np.ndarray, "nodes 2"]


def token_masks(children: Children, inputs: int) -> list[int]:
    """The bits that each token is the parity of.

    >>> token_masks(np.array([[0, 2], [1, 3]]), 3)
    [1, 2, 4, 5, 7]
    """
    masks = [1 << j for j in range(inputs)]
    for left, right in children.tolist():
        masks.append(masks[left] ^ masks[right])
    return masks


def complete(children: Children, x: Shaped[np.ndarray, "samples bits"]) -> Shaped[np.ndarray, "samples tokens"]:
    """The inputs followed by the true values of all nodes."""
    tokens = list(x.T)
    for left, right in children.tolist():
        tokens.append(tokens[left] * tokens[right])
    return np.stack(tokens, axis=1)


def trivial_triples(masks: list[int], inputs: int) -> list[tuple[int, int, int]]:
    """All (a, b, m) with a < b < m, m a node, and x_a x_b x_m = 1 on every input."""
    found = []
    for m in range(inputs, len(masks)):
        before = {masks[a]: a for a in range(m)}
        partners = ((a, before.get(masks[m] ^ masks[a])) for a in range(m))
        found += [(a, b, m) for a, b in partners if b is not None and a < b]
    return found


def trivial_quadruples(masks: list[int]) -> list[tuple[int, ...]]:
    """All sets of four distinct tokens whose product is 1 on every input, each one ascending.

    They are {m, its one child, the two children of the other}: one for each internal node with a parent, k-2 in all.
    """
    pairs = defaultdict(list)
    for a, b in combinations(range(len(masks)), 2):
        pairs[masks[a] ^ masks[b]].append((a, b))
    found = set()
    for group in pairs.values():
        found |= {tuple(sorted(one + other)) for one, other in combinations(group, 2)}
    return sorted(found)


def quadruples_among(quadruples: list[tuple[int, ...]], visible: int) -> tuple[int, Integer[np.ndarray, " visible"]]:
    """How many of them lie among the first `visible` tokens, and how many of those hold each token."""
    inside = [four for four in quadruples if four[-1] < visible]
    holding = np.zeros(visible, dtype=np.int64)
    for four in inside:
        holding[list(four)] += 1
    return len(inside), holding


def trivial_tuples(visible: int, quadruples: int) -> int:
    """Ordered 4-tuples of the first V tokens with a trivial product: 3V^2 - 2V in two equal pairs, 24 a set."""
    return 3 * visible**2 - 2 * visible + 24 * quadruples


def nontrivial_masks(masks: list[int], largest: int = 4) -> set[int]:
    """The distinct nontrivial parities that products of at most `largest` tokens compute (Lemma 9, r <= 4)."""
    reached = {0}
    for _ in range(largest):
        reached |= {one ^ other for one in reached for other in masks}
    return reached - {0}
