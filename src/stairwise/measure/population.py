"""Exact population quantities of a small finite task: loss, gradient and gradient noise by enumeration.

A space is the list of all examples with their probabilities; Gaussian inputs become finite through Gauss-Hermite nodes,
which are exact for polynomials. Everything is summed chunk by chunk, so memory stays bounded by one chunk.

>>> coin = uniform(jnp.array([-1.0, 1.0], dtype=jnp.float32))
>>> space = product(coin, gauss_hermite(1))
>>> loss = population_loss(lambda w, example: (example[0] - w * example[1][0]) ** 2 / 2, jnp.float32(2), space)
>>> round(float(loss), 5)
2.5
"""

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

CHUNK = 1024
LARGEST_GRID = 2**24

Loss = Callable[[Any, Any], Float[Array, ""]]


# --- spaces -----------------------------------------------------------------------------------------------------------


class Enumeration(NamedTuple):
    """A finite distribution: every leaf of `examples` has a leading axis n, and the n `weights` sum to 1."""

    examples: PyTree
    weights: Float[Array, " n"]


def uniform(examples: PyTree) -> Enumeration:
    """The uniform distribution over the leading axis of `examples`."""
    sizes = {leaf.shape[0] for leaf in jax.tree.leaves(examples)}
    if len(sizes) != 1 or 0 in sizes:
        raise ValueError(f"leading axes={sorted(sizes)} of the examples must be one positive number (uniform)")
    n = sizes.pop()
    return Enumeration(examples, jnp.full((n,), 1 / n, dtype=jnp.result_type(float)))


def product(*spaces: Enumeration) -> Enumeration:
    """Independent draws from each space; an example is the tuple of theirs, and the last space varies fastest."""
    index = np.indices([space.weights.shape[0] for space in spaces]).reshape(len(spaces), -1)
    examples = tuple(
        jax.tree.map(lambda leaf, chosen=chosen: leaf[chosen], space.examples)
        for space, chosen in zip(spaces, index, strict=True)
    )
    factors = [space.weights[chosen] for space, chosen in zip(spaces, index, strict=True)]
    return Enumeration(examples, math.prod(factors, start=jnp.ones(index.shape[1], dtype=jnp.result_type(float))))


def gauss_hermite(dimensions: int, points: int = 3) -> Enumeration:
    """The tensor grid of Gauss-Hermite nodes for N(0, I): exact for degree <= 2 points - 1 in each variable.

    >>> space = gauss_hermite(2)
    >>> [round(float(space.weights @ space.examples[:, 0] ** power), 5) for power in (1, 2, 3, 4)]
    [0.0, 1.0, 0.0, 3.0]
    """
    if dimensions < 1 or points < 1:
        raise ValueError(f"dimensions={dimensions} and points={points} must be at least 1 (gauss_hermite)")
    if points**dimensions > LARGEST_GRID:
        raise ValueError(f"points**dimensions={points**dimensions} must be at most {LARGEST_GRID} (gauss_hermite)")
    nodes, weights = np.polynomial.hermite_e.hermegauss(points)
    index = np.indices([points] * dimensions).reshape(dimensions, -1).T
    dtype = jnp.result_type(float)
    grid = np.prod((weights / weights.sum())[index], axis=1)
    return Enumeration(jnp.asarray(nodes[index], dtype=dtype), jnp.asarray(grid, dtype=dtype))


def subsets(length: int, size: int) -> Int[Array, "count {size}"]:
    """All subsets of {0..length-1} with `size` members, one sorted row each, in lexicographic order.

    >>> subsets(3, 2).tolist()
    [[0, 1], [0, 2], [1, 2]]
    """
    if not 0 <= size <= length:
        raise ValueError(f"size={size} must lie in 0..length={length} (subsets)")
    rows = np.array(list(itertools.combinations(range(length), size)), dtype=np.int32)
    return jnp.asarray(rows, dtype=jnp.int32)


# --- sums over a space ------------------------------------------------------------------------------------------------


def expectation(function: Callable[[Any], PyTree], space: Enumeration, chunk: int = CHUNK) -> PyTree:
    """E[function(example)] for any array- or pytree-valued function of one example."""
    return _sum_over_chunks(lambda examples, weights: _average(jax.vmap(function)(examples), weights), space, chunk)


@eqx.filter_jit
def population_loss(loss: Loss, model: PyTree, space: Enumeration, chunk: int = CHUNK) -> Float[Array, ""]:
    """E[loss(model, example)] over the space."""
    return expectation(lambda example: loss(model, example), space, chunk)


@eqx.filter_jit
def population_gradient(loss: Loss, model: PyTree, space: Enumeration, chunk: int = CHUNK) -> PyTree:
    """The gradient of `population_loss` in the floating-point leaves of the model; other leaves become None."""

    def chunk_gradient(examples: PyTree, weights: Float[Array, " chunk"]) -> PyTree:
        return eqx.filter_grad(lambda model: _average(_losses(loss, model, examples), weights))(model)

    return _sum_over_chunks(chunk_gradient, space, chunk)


class GradientNoise(NamedTuple):
    """Per leaf of the model: ||E g||^2, tr Cov g of one example, and the ratio of signal to noise of a batch mean."""

    signal: PyTree
    trace: PyTree
    ratio: PyTree


def signal_to_noise(loss: Loss, model: PyTree, space: Enumeration, batch: int = 1, chunk: int = CHUNK) -> GradientNoise:
    """The exact ||E g||^2 / (E||g - E g||^2 / batch) of each leaf, g the gradient at one example.

    A leaf without any signal has ratio 0, also where it has no noise either.
    """
    if batch < 1:
        raise ValueError(f"batch={batch} must be at least 1 (signal_to_noise)")
    gradient = population_gradient(loss, model, space, chunk)
    signal = jax.tree.map(_squared_norm, gradient)
    trace = _covariance_trace(loss, model, space, gradient, chunk)
    ratio = jax.tree.map(lambda s, v: jnp.where(s > 0, s / (v / batch), jnp.zeros_like(s)), signal, trace)
    return GradientNoise(signal, trace, ratio)


@eqx.filter_jit
def _covariance_trace(loss: Loss, model: PyTree, space: Enumeration, gradient: PyTree, chunk: int) -> PyTree:
    """E||g - E g||^2 per leaf, around the mean that is already known: no cancellation of large second moments."""

    def deviation(example: PyTree) -> PyTree:
        own = eqx.filter_grad(lambda model: loss(model, example))(model)
        return jax.tree.map(lambda g, mean: _squared_norm(g - mean), own, gradient)

    return expectation(deviation, space, chunk)


def _sum_over_chunks(part: Callable[[PyTree, Array], PyTree], space: Enumeration, chunk: int) -> PyTree:
    """Sum part(examples, weights) over chunks of equal size; the last one repeats an example with weight 0."""
    if chunk < 1:
        raise ValueError(f"chunk={chunk} must be at least 1 (population)")
    n = space.weights.shape[0]
    chunk = min(chunk, n)

    def take(start):
        index = start + jnp.arange(chunk, dtype=jnp.int32)
        inside = jnp.minimum(index, n - 1)
        examples = jax.tree.map(lambda leaf: leaf[inside], space.examples)
        return part(examples, jnp.where(index < n, space.weights[inside], 0))

    @jax.checkpoint  # differentiating through the sum recomputes a chunk instead of storing all of them
    def add(total, start):
        return jax.tree.map(jnp.add, total, take(start)), None

    zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(take, jnp.int32(0)))
    total, _ = jax.lax.scan(add, zero, jnp.arange(0, n, chunk, dtype=jnp.int32))
    return total


def _losses(loss: Loss, model: PyTree, examples: PyTree) -> Float[Array, " chunk"]:
    return jax.vmap(lambda example: loss(model, example))(examples)


def _average(values: PyTree, weights: Float[Array, " chunk"]) -> PyTree:
    return jax.tree.map(lambda value: jnp.tensordot(weights, value, axes=1, precision="highest"), values)


def _squared_norm(leaf: Array) -> Float[Array, ""]:
    return jnp.sum(leaf**2)
