"""The simplified transformer in coefficient space against the dense one: forward, gradient, steps, certificates."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.papers.parity_cot import certificate, simplified, steps
from stairwise.papers.parity_cot.config.task import Task
from stairwise.papers.parity_cot.config.theorem3 import ThreeSteps
from stairwise.papers.parity_cot.simplified import Coefficients, Tables
from tests.helpers import assert_close
from tests.reference import parity_cot as reference

INPUTS, SECRET, WIDTH, HALF = 4, (2, 0), 37, 3
QUERIES, POSITIONS = len(SECRET), INPUTS + len(SECRET)
SEQUENCES = tuple(tuple(reference.chain(bits, SECRET)) for bits in reference.all_inputs(INPUTS)[::2])


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def embedding(width=WIDTH, atoms=2 * POSITIONS, seed=0):
    signs = simplified.draw_signs(jax.random.key(seed), atoms, width)
    return np.asarray(simplified.vectors(signs, width)), np.asarray(simplified.gram_of(signs, width))


def random_weights(seed, scores=1.0):
    random = np.random.default_rng(seed)
    parts = [random.standard_normal((2 * HALF, 2 * POSITIONS)) for _ in range(2)]
    return Coefficients(*map(jnp.asarray, (*parts, scores * random.standard_normal((2 * POSITIONS, 2 * POSITIONS)))))


def start(scale=1.0, seed=0):
    positive = simplified.draw_start(jax.random.key(seed), HALF, QUERIES, False)
    return positive, simplified.start(positive, POSITIONS, jnp.asarray(scale))


def dense(weights, E):
    """A and W as the paper writes them."""
    first, second, scores = map(np.asarray, (weights.first, weights.second, weights.attention))
    return E.T @ scores @ E, np.concatenate([first @ E, second @ E], axis=1)


@pytest.fixture(scope="module")
def dense_gradient():
    """Dense automatic derivatives of the mean hinge loss, compiled once."""
    with jax.enable_x64(True):
        E, _ = embedding()
    h = np.repeat([0.5, -0.5], HALF) / HALF
    return jax.jit(partial(reference.gradient, E=E, h=h, sequences=SEQUENCES, queries=QUERIES, loss=reference.hinge))


GRADIENT = jax.jit(steps.gradient, static_argnums=0)
OUTPUTS = jax.jit(jax.vmap(simplified.outputs, in_axes=(None, None, 0, None)), static_argnums=3)
ATTENTION = jax.jit(jax.vmap(simplified.attention, in_axes=(None, 0, None)), static_argnums=2)
WORST = jax.jit(certificate.worst_attention)
MARGIN = jax.jit(certificate.certified_margin)


@pytest.mark.parametrize("width", [1, 33])
def test_inner_products_of_embeddings_are_counts_of_equal_signs(width):
    E, gram = embedding(width)
    assert np.array_equal(np.abs(E), np.full_like(E, 1 / np.sqrt(width)))
    assert_close(gram, E @ E.T, 1e-14)


def test_coefficients_and_dense_weights_compute_the_same_outputs():
    E, gram = embedding()
    weights = random_weights(1)
    tables, h = weights.tables(jnp.asarray(gram)), jnp.linspace(-1, 1, 2 * HALF)
    A, W = dense(weights, E)
    inputs = np.array(SEQUENCES)[:, :-1]
    outputs, attention = OUTPUTS(tables, h, inputs, INPUTS), ATTENTION(tables.scores, inputs, INPUTS)
    for tokens, output, seen in zip(SEQUENCES[:2], outputs, attention, strict=False):
        assert_close(output, reference.forward(E, A, W, np.asarray(h), tokens[:-1])[INPUTS:], 1e-12)
        assert_close(seen, reference.attention(E, A, tokens[:-1]).T[INPUTS:], 1e-12)


def test_the_gradient_in_coefficients_is_the_dense_gradient(dense_gradient):
    E, gram = embedding()
    tokens = jnp.array(SEQUENCES, dtype=jnp.int8)
    positive, at_start = start()
    # a preactivation of exactly 0 would make the derivative of the ReLU a matter of rounding
    assert np.abs(np.asarray(at_start.first) @ gram)[:, 2 * INPUTS :].min() > 1e-3
    for weights in (at_start, random_weights(2, scores=0.0), random_weights(3)):
        found = GRADIENT("hinge", positive, weights.tables(jnp.asarray(gram)), tokens)
        A, W = dense_gradient(*dense(weights, E))
        assert_close(np.concatenate([found.own @ E, found.seen @ E], axis=1), W, 1e-12)
        scale = max(np.abs(np.asarray(A)).max(), 1e-3)
        assert np.abs(E.T @ np.asarray(found.scores) @ E - np.asarray(A)).max() <= 1e-12 * scale


def test_three_steps_in_coefficients_are_three_dense_steps(dense_gradient):
    E, gram = embedding()
    tokens = jnp.array(SEQUENCES, dtype=jnp.int8)
    positive, weights = start(scale=3.0)
    A, W = dense(weights, E)
    for rate in (40.0, 40.0, 30.0):
        found = GRADIENT("hinge", positive, weights.tables(jnp.asarray(gram)), tokens)
        weights = steps.moved(weights, found, rate)
        dA, dW = dense_gradient(A, W)
        A, W = A - rate * np.asarray(dA), W - rate * np.asarray(dW)
    assert np.abs(A).max() > 0.1
    for mine, other in zip(dense(weights, E), (A, W), strict=True):
        assert_close(mine, other, 1e-11)


def test_where_the_query_decides_activations_no_neuron_is_needed():
    random = np.random.default_rng(5)
    own = random.choice([-1.0, 1.0], (2 * HALF, 2 * POSITIONS)) * random.uniform(2, 3, (2 * HALF, 2 * POSITIONS))
    seen = random.uniform(-1.9, 1.9, (2 * HALF, 2 * POSITIONS))
    tables = Tables(*map(jnp.asarray, (own, seen, random.standard_normal((2 * POSITIONS, 2 * POSITIONS)))))
    h = simplified.readout(HALF)
    assert bool(simplified.decided(tables, INPUTS))
    assert not bool(simplified.decided(tables._replace(seen=1.6 * tables.seen), INPUTS))
    linear = simplified.linear_part(tables, h, INPUTS)
    inputs = jnp.array(SEQUENCES)[:, :-1]
    found = jax.jit(jax.vmap(lambda row: simplified.linear_outputs(linear, tables.scores, row, INPUTS)))(inputs)
    assert_close(found, OUTPUTS(tables, h, inputs, INPUTS), 1e-13)


def test_paired_neurons_cancel_at_the_start():
    positive = simplified.draw_start(jax.random.key(0), HALF, QUERIES, True)
    tables = simplified.start(positive, POSITIONS, jnp.asarray(2.0)).tables(jnp.asarray(embedding()[1]))
    outputs = OUTPUTS(tables, simplified.readout(HALF), np.array(SEQUENCES)[:, :-1], INPUTS)
    assert float(jnp.abs(outputs).max()) < 1e-15


def test_the_worst_attention_is_that_of_an_enumeration():
    E, gram = embedding()
    weights = random_weights(7, scores=2.0)
    tables = weights.tables(jnp.asarray(gram))
    found = WORST(tables.scores, jnp.array(SECRET))
    assert_close(found, reference.worst_attention(E, dense(weights, E)[0], SECRET, INPUTS), 1e-12)


def test_the_certified_margin_is_below_the_margin_of_every_input():
    _, gram = embedding(width=200)
    weights = random_weights(8)
    boosted = np.asarray(weights.attention).copy()
    for q, j in enumerate(SECRET):
        boosted[2 * j : 2 * j + 2, 2 * (INPUTS + q) : 2 * (INPUTS + q) + 2] += 4
    tables = Coefficients(weights.first, weights.second, jnp.asarray(boosted)).tables(jnp.asarray(gram))
    secret, h = jnp.array(SECRET), simplified.readout(HALF)
    error = WORST(tables.scores, secret)
    certified = np.asarray(MARGIN(tables, h, secret, error))
    own, seen = (np.asarray(part).reshape(2 * HALF, POSITIONS, 2) for part in (tables.own, tables.seen))
    for q, bit, read in ((0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 0, 1), (1, 1, 0), (1, 1, 1)):
        at_target = seen[:, SECRET[q], read]
        ideal = np.asarray(h) @ np.maximum(own[:, INPUTS + q, bit] + at_target, 0)
        farthest = np.max(np.abs(seen - at_target[:, None, None]), axis=(1, 2))
        moved = float(error[q, bit]) * np.abs(np.asarray(h)) @ farthest
        assert_close(certified[q, bit, read], (1 if bit != read else -1) * ideal - moved, 1e-12)
    tokens = np.array([reference.chain(bits, SECRET) for bits in reference.all_inputs(INPUTS)])
    margins = np.asarray(OUTPUTS(tables, h, tokens[:, :-1], INPUTS)) * (2 * tokens[:, INPUTS + 1 :] - 1)
    for row, margin in zip(tokens, margins, strict=True):
        for q, j in enumerate(SECRET):
            assert margin[q] >= certified[q, row[INPUTS + q], row[j]] - 1e-12


def test_a_block_that_does_not_divide_the_batch_is_one_line():
    with pytest.raises(ValueError, match=r"^block=300 must divide batch=1000$"):
        ThreeSteps(Task(8, 2), batch=1000, block=300)
    with pytest.raises(ValueError, match=r"^task.layout=authors must be paper$"):
        ThreeSteps(Task(8, 2, layout="authors"))
    with pytest.raises(ValueError, match=r"at most 268435456$"):
        ThreeSteps(Task(8, 2), neurons=10**6, batch=10_000, block=10_000)
