"""The closed forms of Theorem 3 at the smallest sizes, secrets in any order: loops over whole sequences, orthonormal E.

The network is followed sample by sample and neuron by neuron; nothing is counted before it is needed.
"""

import itertools

import numpy as np
import pytest

from stairwise.papers.parity_cot.theory import gradients, statistics
from tests.helpers import assert_close
from tests.reference import parity_cot as reference

SIZES = [(1, (0,), 1), (2, (1, 0), 2), (4, (2,), 3), (5, (4, 0, 2), 2)]  # n, secret, m: one bit, all bits, one of four
RATE = 3.0


def sequences(inputs, secret):
    return np.array([reference.chain(bits, secret) for bits in reference.all_inputs(inputs)])


def signs(inputs, secret, m):
    return np.random.default_rng(inputs).random((2 * m, len(secret), 2)) < 0.5


def softmax(x):
    weights = np.exp(x - x.max())
    return weights / weights.sum()


def derivatives(tokens, positive, inputs, seen, scores):
    """Of the mean linear loss in W[:, :d], W[:, d:] and A, where nu alone decides the activations."""
    neurons, queries, _ = positive.shape
    positions, h = inputs + queries, np.repeat([1, -1], neurons // 2) / neurons
    own, mixed, attended = np.zeros((neurons, positions, 2)), np.zeros((neurons, positions, 2)), np.zeros_like(scores)
    for sequence, i in itertools.product(tokens, range(queries)):
        query, keys = inputs + i, range(inputs + i + 1)
        slope = (-1) ** sequence[query + 1] * h * positive[:, i, sequence[query]] / len(tokens)
        P = softmax(np.array([scores[j, sequence[j], query, sequence[query]] for j in keys]))
        read = np.array([slope @ seen[:, j, sequence[j]] for j in keys])
        own[:, query, sequence[query]] += slope
        for j in keys:
            mixed[:, j, sequence[j]] += P[j] * slope
            attended[j, sequence[j], query, sequence[query]] += P[j] * (read[j] - P @ read)
    return own, mixed, attended


def mean_alpha(inputs, secret):
    """E (-1)^{b[i+1]} 1(b[j] = b1, b[i] = b2), every sequence in turn."""
    found, every = np.zeros((len(secret), inputs + len(secret), 2, 2)), sequences(inputs, secret)
    for sequence, i in itertools.product(every, range(len(secret))):
        for j in range(inputs + i + 1):
            found[i, j, sequence[j], sequence[inputs + i]] += (-1) ** sequence[inputs + i + 1] / len(every)
    return found


def mean_kappa(inputs, secret, m):
    """The mean of kappa_1 over all sequences and starts: two different nu are both positive for m/2 of 2m neurons."""
    alpha, queries = mean_alpha(inputs, secret), len(secret)
    found = np.zeros((queries, 2, inputs + queries, 2))
    for i, b, other, b2 in itertools.product(range(queries), (0, 1), range(queries), (0, 1)):
        both = m if (i, b) == (other, b2) else m / 2
        found[i, b] += RATE / (4 * m**2) * both * alpha[other, :, :, b2] / (inputs + other + 1)
    found[0, 1] = 0  # the token before the first step is always 0
    return found


@pytest.mark.parametrize(("inputs", "secret", "m"), SIZES)
def test_gradients_are_those_of_the_network_followed_sample_by_sample(inputs, secret, m):
    random, positive = np.random.default_rng(1), signs(inputs, secret, m)
    every, positions = sequences(inputs, secret), inputs + len(secret)
    tokens = every[random.integers(0, len(every), 7)]
    batch = statistics.batch_counts(tokens, len(secret))
    uniform = np.zeros((positions, 2, positions, 2))
    own, mixed, attended = derivatives(tokens, positive, inputs, np.zeros((2 * m, positions, 2)), uniform)
    assert not attended.any()
    assert_close(gradients.own_gradient(batch, positive, inputs).reshape(own.shape), own, 1e-12)
    assert_close(gradients.seen_gradient(batch, positive).reshape(mixed.shape), mixed, 1e-12)
    h = gradients.output_weights(positive)
    kappa = RATE * np.einsum("rib,r,rjc->ibjc", positive, h, mixed)
    assert_close(gradients.kappa(batch, positive, RATE).reshape(kappa.shape), kappa, 1e-12)
    seen, scores = random.standard_normal((2 * m, positions, 2)), random.standard_normal(uniform.shape)
    _, _, attended = derivatives(tokens, positive, inputs, seen, scores)
    kappa = -np.einsum("rib,r,rjc->ibjc", positive, h, seen)
    assert_close(gradients.attention_gradient(tokens, kappa, scores), attended[:, :, inputs:], 1e-12)


@pytest.mark.parametrize(("inputs", "secret", "m"), SIZES)
def test_means_are_those_of_all_sequences_and_all_starts(inputs, secret, m):
    alpha, kappa, places = mean_alpha(inputs, secret), mean_kappa(inputs, secret, m), np.arange(len(secret))
    assert_close(statistics.mean_alpha(inputs, np.array(secret)), alpha, 1e-12)
    leading = gradients.kappa_leading(inputs, np.array(secret), m, RATE).reshape(kappa.shape).copy()
    leading[0, 1] = 0
    assert_close(leading, kappa, 1e-12)
    scores = np.zeros((inputs + len(secret), 2, len(secret), 2))  # after a step from uniform attention
    every = sequences(inputs, secret)
    for sequence, i in itertools.product(every, places):
        query = inputs + i
        read = np.array([kappa[i, sequence[query], j, sequence[j]] for j in range(query + 1)])
        for j in range(query + 1):
            share = (-1) ** sequence[query + 1] * (read[j] - read.mean()) / (query + 1) / len(every)
            scores[j, sequence[j], i, sequence[query]] += RATE * share
    logit = gradients.target_logit(inputs, len(secret), m, RATE, RATE)
    for bit in (0, 1):
        assert_close(logit[:, bit], scores[np.array(secret), bit, places, 0], 1e-12)


@pytest.mark.parametrize(("inputs", "secret", "m"), SIZES)
def test_the_third_step_is_that_of_one_hot_attention_on_every_sequence(inputs, secret, m):
    positive, positions = signs(inputs, secret, m), inputs + len(secret)
    scores = np.zeros((positions, 2, positions, 2))
    scores[np.array(secret), :, inputs + np.arange(len(secret))] = 800.0
    _, mixed, _ = derivatives(sequences(inputs, secret), positive, inputs, np.zeros((2 * m, positions, 2)), scores)
    exact = gradients.third_gradient(mean_alpha(inputs, secret), positive, np.array(secret))
    assert_close(exact.reshape(mixed.shape), mixed, 1e-12)
    assert_close(gradients.third_step(positive, RATE).by_neuron, -RATE * mixed[:, np.array(secret)], 1e-12)
