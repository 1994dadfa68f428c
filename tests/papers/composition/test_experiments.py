"""The other experiments: value matrices, sample thresholds, the standard encoder, hardness."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.papers.composition import encoder, threshold, train
from stairwise.papers.composition.config import Descent, Encoder, Hardness, Task, Threshold, Values
from stairwise.papers.composition.figures.sweeps import signs
from stairwise.papers.composition.hardness import gradient_variance
from tests.trials import run, running

pytestmark = pytest.mark.slow


def test_the_first_layers_signal_has_the_sign_that_the_value_matrix_predicts():
    values = Values(free=True, scale=0.0, noise=1.0)
    config = Descent(
        task=Task(4, 4), stages=1, values=values, samples=32_768, block=4096, learning_rate=3e4, test_examples=2
    )
    found = run(train.descent, config)
    predicted = signs(found.arrays["exact/value1"], 4)
    gradient = found.arrays["exact/key_query1"][0, 0].reshape(4, 4, 4, 4)
    hidden = found.arrays["exact/hidden"]
    for block in range(4):
        own = gradient[block, :, block, :]
        signal = own[hidden[block], np.arange(4)].mean() - own.mean()
        if abs(predicted[block]) > 0.1:
            assert np.sign(signal) == np.sign(predicted[block])


def test_sharing_positions_never_hurts_and_the_margins_near_their_population_value():
    found = run(threshold.threshold, Threshold(task=Task(4, 5), block=1024, looks=(8.0, 400.0)))
    assert found.last("wrong") == found.last("wrong shared") == 0
    for layer in (2, 3):
        assert found.last(f"margin layer {layer} shared") >= found.last(f"margin layer {layer}")
    assert abs(found.last("margin layer 3 shared") - 4) < 0.5  # N - 1


def test_the_pool_of_the_encoder_is_fixed_and_its_hops_take_turns():
    trial = running(Encoder(task=Task(2, 3), hops=(1, 2), test_hops=(1, 2)))
    task = encoder.task_of(trial)
    for number in range(4):
        lesson = encoder.training_lesson(trial, task, jnp.int32(number))
        again = encoder.training_lesson(trial, task, jnp.int32(number))
        assert lesson.tokens.tolist() == again.tokens.tolist()
        sequence = lesson.tokens[1:].reshape(2, 3)
        hops = 1 + number % 2
        assert int(lesson.tokens[0]) == 3 + number % 2
        assert lesson.labels.tolist() == task.hop(sequence, hops).reshape(-1).tolist()


@pytest.mark.parametrize("hops", [1, 2])
def test_no_coordinate_of_a_networks_gradient_varies_more_than_the_spectrum_allows(hops):
    with jax.enable_x64(True):
        found = gradient_variance(Hardness(hops=hops, network="perceptron"), 0)
        assert 0 < found.last("largest ratio") <= found.last("eigenvalue") * (1 + 1e-9)
