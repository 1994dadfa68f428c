"""How wide a transformer and a fully connected net must be for the same error (Sections 3.2 and 3.3), and how many
Newton steps make a subset's encoding (the remark after Lemma A.3)."""

import math
from functools import cache

import numpy as np
from jaxtyping import Float

from stairwise.papers.selection.theory import encodings


def transformer_width(width: int, encoding_width: int) -> int:
    """m = d + 2 d_e: the columns [x_i; e_y; e_i] of Theorem C.3."""
    return width + 2 * encoding_width


def width_scale(length: int, sparsity: int, width: int) -> float:
    """d + q log T, the order of the transformer's width."""
    return width + sparsity * math.log(length)


def net_width(length: int, width: int) -> int:
    """T d: no narrower first layer gets below Theorem 3.5's bound."""
    return length * width


def lost_to_the_lower_bound(length: int, sparsity: int, width: int) -> float:
    """(d + q log T)/(d + q), by which the transformer is wider than the cited lower bound d + q; at most log T."""
    return width_scale(length, sparsity, width) / (width + sparsity)


def encoding_enough(length: int, failure: float) -> float:
    """(3 log T + log(1/p))/log(2/(1 + e^{-1/8})): with this d_e random signs overlap by at most 1/2, but for chance p.

    Given y = {a, b}, <e_i, e_y> is the mean of as many signs as e_a and e_b agree in, about half of d_e. With m of them
    Hoeffding's inequality gives 2 e^{-m/8}, whose mean is 2 ((1 + e^{-1/8})/2)^{d_e}. There are T^3/2 triples.
    """
    return (3 * math.log(length) + math.log(1 / failure)) / math.log(2 / (1 + math.exp(-1 / 8)))


def pair_overlap(rows: encodings.Encodings) -> float:
    """The largest |<e_i, e_y>| off y over all y = {a, b}: (g_ia + g_ib)/(1 + g_ab) with unit encodings."""
    gram, largest = rows @ rows.T, 0.0
    others = np.arange(len(gram))
    for b in others[1:]:
        a = others[:b]
        if np.any(gram[a, b] <= -1):
            return math.inf
        products = np.abs(gram[:, a] + gram[:, [b]]) / (1 + gram[a, b])
        products[a, a] = products[b] = 0.0
        largest = max(largest, float(products.max()))
    return largest


@cache
def least_encoding(seed: int, length: int, factor: float = 1.1) -> int:
    """The least d_e at which random signs have overlaps of at most 1/2 for every pair y, as Theorem C.3 needs them.

    Widths are tried in steps of `factor`, and three in a row must do.
    """
    width, found = 2 * math.ceil(math.log2(length)), list[int]()
    while len(found) < 3:
        (rows,) = encodings.draw(seed, 1, length, width)
        found = [*found, width] if pair_overlap(rows) <= 0.5 else []
        width = max(width + 1, round(width * factor))
    return found[0]


# --- Newton's iteration for the inverse of a Gram matrix --------------------------------------------------------------


def newton_error(delta: float, sparsity: int, steps: int) -> float:
    """sqrt(q/(1 - delta)) delta^{2^steps}: how far e_y may be off after some steps; attained where G = (1 - delta) I.

    X <- X (2 - G X) from X = I squares the residual I - G X, which begins at norm delta. A singular value sqrt(g) of
    E_y contributes (1 - g)^{2^steps}/sqrt(g).
    """
    return math.sqrt(sparsity / (1 - delta)) * delta ** (2**steps)


def newton_steps(delta: float, sparsity: int, accuracy: float) -> int:
    """ceil(log2(log(sqrt(q/(1 - delta))/eps)/log(1/delta))): steps until that is at most eps."""
    most = math.sqrt(sparsity / (1 - delta)) / accuracy
    return max(0, math.ceil(math.log2(math.log(most) / math.log(1 / delta)))) if most > 1 else 0


def newton_encoding(rows: Float[np.ndarray, "q width"], steps: int) -> Float[np.ndarray, " width"]:
    """e_y by that many steps, with E_y given by its rows."""
    gram, X = rows @ rows.T, np.eye(len(rows))
    for _ in range(steps):
        X = X @ (2 * np.eye(len(rows)) - gram @ X)
    return rows.T @ (X @ np.ones(len(rows)))
