"""Theorem 3's three steps, as the experiment runs them, and their closed forms."""

import jax
import numpy as np
import pytest

from stairwise.papers.parity_cot import steps
from stairwise.papers.parity_cot.config.task import Task
from stairwise.papers.parity_cot.config.theorem3 import ThreeSteps
from stairwise.papers.parity_cot.theory import gradients, statistics
from tests.helpers import assert_close
from tests.reference import parity_cot as reference
from tests.trials import run, running

pytestmark = pytest.mark.slow

SMALL = ThreeSteps(
    Task(7, 2), width=4096, neurons=300, loss="linear", scale=500.0, logit=60.0, batch=4000, block=1000, shift=3.0,
    test_examples=200,
)  # fmt: skip


@pytest.fixture(scope="module")
def outcome():
    with jax.enable_x64(True):
        return run(steps.three_steps, SMALL, seed=3)


def test_three_steps_find_the_secret_and_put_all_attention_on_it(outcome):
    secret = outcome.arrays["steps/secret"]
    attention = outcome.arrays[f"steps/attention@{3 * SMALL.blocks}"]
    assert outcome.last("exact match") == 1
    assert outcome.last("argmax on the secret") == 1
    assert np.array_equal(np.argmax(attention, axis=1), secret)
    assert outcome.last("worst attention error") < 7**-8.0
    assert outcome.last("certified margin") > 0
    assert outcome.last("pattern agreement") == 1


def test_attention_is_uniform_until_the_second_step(outcome):
    for tick in (0, SMALL.blocks):
        attention = outcome.arrays[f"steps/attention@{tick}"]
        for q, row in enumerate(attention):
            seen = SMALL.task.bits + 1 + q
            assert_close(row[:seen], np.full(seen, 1 / seen), 1e-14)
            assert not row[seen:].any()


def test_literal_rates_are_those_of_assumption_2():
    config = ThreeSteps(Task(20, 4), rates="literal", neurons=8, batch=10_000, scale=0.5, failure=0.2)
    with jax.enable_x64(True):
        eta0, eta1, eta2 = np.asarray(steps.rates(running(config)))
    assert eta0 == eta1 == pytest.approx(8 * 0.5 * 100 / (100 * np.log(100)))
    assert eta2 == pytest.approx(4 * 4 * 0.5 / 3)


# --- counts and closed forms ------------------------------------------------------------------------------------------


def test_counts_of_a_batch_are_those_of_a_loop():
    sequences = [reference.chain(bits, (3, 1)) for bits in reference.all_inputs(5)[3::5]]
    found = statistics.batch_counts(np.array(sequences), 2)
    assert np.array_equal(found.alpha, reference.alpha(sequences, 2))
    assert np.array_equal(found.delta, found.alpha[:, 0].sum(axis=1))


@pytest.mark.parametrize("secret", [(2, 0), (1,), (0, 3, 2)])
def test_the_means_of_table_1_are_those_of_all_inputs(secret):
    sequences = [reference.chain(bits, secret) for bits in reference.all_inputs(4)]
    found = reference.alpha(sequences, len(secret)) / len(sequences)
    assert np.array_equal(statistics.mean_alpha(4, np.array(secret)), found)


def test_the_mean_of_kappa_has_the_leak_of_the_first_position():
    secret = np.array([1, 3, 0])
    signs = np.stack(np.meshgrid(*[[False, True]] * 6, indexing="ij"), axis=-1).reshape(-1, 3, 2)
    positive = np.concatenate([signs, signs])  # every pattern equally often: the mean over the start
    sequences = np.array([reference.chain(bits, secret.tolist()) for bits in reference.all_inputs(4)])
    batch = statistics.batch_counts(sequences, 3)
    exact = gradients.kappa(batch, positive, 2.0)
    assert_close(gradients.kappa_leading(4, secret, len(signs), 2.0), exact, 1e-13)
    leak = exact[1:, :, secret[0]] - gradients.kappa_printed(batch, positive, secret, 2.0)[1:, :, secret[0]]
    assert_close(leak, np.broadcast_to(2.0 / (16 * len(signs) * 5) * np.array([1.0, -1.0]), leak.shape), 1e-13)


def test_the_third_step_moves_outputs_by_a_thirty_second_and_an_eighth():
    signs = np.stack(np.meshgrid(*[[False, True]] * 4, indexing="ij"), axis=-1).reshape(-1, 2, 2)
    positive = np.concatenate([signs, signs])
    m = len(signs)
    shift = gradients.third_step(positive, 5.0)
    h = gradients.output_weights(positive)
    for q in range(2):
        for bit in (0, 1) if q else (0,):
            for secret_bit in (0, 1):
                change = np.sum(h * positive[:, q, bit] * shift.by_neuron[:, q, secret_bit])
                right = (-1) ** (bit ^ secret_bit) * -1
                assert change == pytest.approx(right * shift.output[q])
    assert shift.output.tolist() == [5.0 / (8 * m), 5.0 / (32 * m)]
