"""Accuracy of a chain of answers: all of it, step by step, and with Wilson intervals.

`counted` marks the steps that matter, so that chains of different lengths can share one padded shape.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped
from scipy.special import ndtri


def share(
    right: Shaped[Array, "..."],
    axis: int | None = None,
    where: Bool[Array, "..."] | None = None,
    dtype: Any = jnp.float32,
) -> Float[Array, "..."]:
    """The mean of flags (or of shares), which is exactly 1 where all of them are.

    A plain mean need not be: dividing is multiplying on a GPU, where 255 of 255 gave 0.99999994, which never reaches a
    threshold of 1. Where nothing is counted it is NaN, as a mean is.
    """
    mean = jnp.mean(right, axis=axis, where=where, dtype=dtype)
    return jnp.where(jnp.all(right == 1, axis=axis, where=where), jnp.round(mean), mean)


class Proportion(NamedTuple):
    """A success rate and its confidence interval; where nothing was tried it is NaN in [0, 1]."""

    value: Float[Array, "*shape"]
    low: Float[Array, "*shape"]
    high: Float[Array, "*shape"]


def exact_match(
    predicted: Int[Array, "*batch steps"],
    labels: Int[Array, "*batch steps"],
    counted: Bool[Array, "*batch steps"] | None = None,
) -> Bool[Array, "*batch"]:
    """Whether every counted step is right."""
    return jnp.all(predicted == labels, axis=-1, where=counted)


def exact_match_accuracy(
    predicted: Int[Array, "examples steps"],
    labels: Int[Array, "examples steps"],
    counted: Bool[Array, "examples steps"] | None = None,
    confidence: float = 0.95,
) -> Proportion:
    """The fraction of examples with every counted step right."""
    right = exact_match(predicted, labels, counted)
    return wilson(jnp.sum(right), right.shape[0], confidence)


def step_accuracy(
    predicted: Int[Array, "examples steps"],
    labels: Int[Array, "examples steps"],
    counted: Bool[Array, "examples steps"] | None = None,
    confidence: float = 0.95,
) -> Proportion:
    """For each step, the fraction of the examples counting it that get it right."""
    counted = jnp.ones(labels.shape, dtype=bool) if counted is None else counted
    right = jnp.sum((predicted == labels) & counted, axis=0)
    return wilson(right, jnp.sum(counted, axis=0), confidence)


def wilson(
    successes: int | Shaped[Array, "*shape"], trials: int | Shaped[Array, "*shape"], confidence: float = 0.95
) -> Proportion:
    """Wilson's score interval: the rates p with |successes - n p| <= z sqrt(n p (1 - p)).

    Its ends are (s + z^2/2 -+ z sqrt(s (n - s) / n + z^2/4)) / (n + z^2): inside [0, 1], and of positive width also
    when all or none succeed.

    >>> rate = wilson(8, 10)
    >>> [round(float(end), 4) for end in rate]
    [0.8, 0.4902, 0.9433]
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence={confidence} must lie strictly between 0 and 1 (wilson)")
    z = float(ndtri((1 + confidence) / 2))
    dtype = jnp.result_type(float)
    s, n = jnp.asarray(successes, dtype=dtype), jnp.asarray(trials, dtype=dtype)
    half = z * jnp.sqrt(s * (n - s) / jnp.maximum(n, 1) + z**2 / 4)
    centre, width = s + z**2 / 2, n + z**2
    value = jnp.where(n > 0, jnp.where(s == n, 1, s / jnp.maximum(n, 1)), jnp.nan)
    # at the ends the two terms are equal; rounding must not push them out of [0, 1]
    return Proportion(value, jnp.maximum((centre - half) / width, 0), jnp.minimum((centre + half) / width, 1))
