"""Weights and activations in few bits: the dense forward pass of the simplified transformer with rounding. NumPy.

A number of p bits is one of 2^p evenly spaced ones between -R and R, sign included, with R the largest magnitude in its
array. Rounded are A, W, the scores, the attention weights, the attention outputs (vectors of width d), the hidden
values and the output; the embeddings +-1/sqrt(d) and h are two-valued.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Shaped


class Dense(NamedTuple):
    """Embeddings (a row each) and weights as the paper writes them, W split into its two halves."""

    E: Float[np.ndarray, "atoms width"]
    A: Float[np.ndarray, "width width"]
    own: Float[np.ndarray, "neurons width"]
    seen: Float[np.ndarray, "neurons width"]
    readout: Float[np.ndarray, " neurons"]


def rounded(x: Float[np.ndarray, "*shape"], bits: int) -> Float[np.ndarray, "*shape"]:
    """The nearest numbers of that many bits.

    >>> rounded(np.array([1.0, 0.3, -0.6]), 2).tolist()
    [1.0, 0.5, -0.5]
    """
    spacing = np.max(np.abs(x), initial=0.0) / 2 ** (bits - 1)
    return spacing * np.round(x / spacing) if spacing > 0 else x


def few_bits(model: Dense, bits: int) -> Dense:
    """The model with its trainable weights rounded."""
    return model._replace(A=rounded(model.A, bits), own=rounded(model.own, bits), seen=rounded(model.seen, bits))


def rounded_outputs(
    model: Dense, tokens: Shaped[np.ndarray, "samples positions"], first: int, bits: int
) -> Float[np.ndarray, "samples queries"]:
    """T(b)[i] for the queries from position `first` on, every activation rounded."""
    samples, positions = tokens.shape
    atoms = 2 * np.arange(positions) + tokens.astype(np.int64)
    scores = rounded(model.E @ model.A @ model.E.T, bits)
    own = model.E @ model.own.T
    queries = range(first, positions)
    found = np.zeros((samples, len(queries)))
    for q in queries:
        logits = scores[atoms[:, : q + 1], atoms[:, q, None]]
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        weights = rounded(weights / weights.sum(axis=1, keepdims=True), bits)
        spread = np.zeros((samples, len(model.E)))
        np.put_along_axis(spread, atoms[:, : q + 1], weights, axis=1)
        attended = rounded(spread @ model.E, bits)
        hidden = rounded(own[atoms[:, q]] + attended @ model.seen.T, bits)
        found[:, q - first] = rounded(np.maximum(hidden, 0) @ model.readout, bits)
    return found


def fewest_bits(works: dict[int, bool]) -> int | None:
    """The smallest number of bits from which on all that were tried work.

    >>> fewest_bits({3: True, 4: False, 5: True, 6: True})
    5
    """
    tried = sorted(works, reverse=True)
    good = [bits for place, bits in enumerate(tried) if all(works[b] for b in tried[: place + 1])]
    return min(good) if good else None


def bits_of(factor: float, inputs: int) -> int:
    """c log2 n bits, rounded up."""
    return math.ceil(factor * math.log2(inputs))
