"""W and V under the microscope, and the paper's answers: frames in order, ideal cells, entropies in closed form."""

from dataclasses import replace

import numpy as np
import pytest

from stairwise.papers.selection import answers
from stairwise.papers.selection.config import Encodings, Online, Task
from stairwise.papers.selection.microscope import attention_entropy, weights
from tests.papers.records import HandMade

CONFIG = Online(task=Task(12, 3, 2), encoding=Encodings(width=64), test_lengths=(24,), test_sparsities=(3,))


def watched() -> HandMade:
    kept = {}
    for step in (0, 100, 20):
        kept |= {f"train/W@{step}": np.full((66, 66), float(step)), f"train/V@{step}": np.full((2, 66), -float(step))}
    return HandMade(CONFIG, kept, {"train_loss": ([0, 100], [1.0, 0.5])})


def test_frames_come_in_the_order_of_steps_and_cells_are_named():
    seen = weights(watched())
    assert seen is not None
    W, V = seen.maps
    assert list(seen.places) == [0, 20, 100]
    assert [frame[0, 0] for frame in W.frames] == [0, 20, 100]
    assert [frame[0, 0] for frame in V.frames] == [0, -20, -100]
    assert W.rows_of(0).labels[1:3] == ["token coordinate 2", "position coordinate 1"]
    assert [curve.name for curve in seen.curves] == ["train_loss", "attention entropy"]


def test_the_ideal_is_the_identity_on_positions_in_w_and_on_tokens_in_v():
    seen = weights(watched())
    assert seen is not None
    on_positions, on_tokens = (set(each.overlays[0].cells) for each in seen.maps)
    assert on_positions == {(i, i) for i in range(2, 66)}
    assert on_tokens == {(0, 0), (1, 1)}


def test_a_trial_without_snapshots_has_nothing_to_show():
    assert weights(HandMade(CONFIG, {"train/W": np.eye(66)})) is None


def test_entropy_is_log_t_before_training_and_log_q_where_attention_selects():
    assert attention_entropy(np.zeros((64, 64)), CONFIG) == pytest.approx(np.log(12), abs=1e-12)
    assert attention_entropy(200 * np.eye(64), CONFIG) == pytest.approx(np.log(3), abs=1e-6)


def test_answers_compare_stochastic_with_fixed_encodings_at_the_longest_length():
    arms = []
    for pool, loss in ((0, 0.03), (1, 0.24)):
        config = replace(CONFIG, encoding=replace(CONFIG.encoding, pool=pool))
        losses = {"loss length=24": ([0], [loss]), "loss in": ([0, 50, 100], [1 / 3, 0.02, 0.01])}
        arms += [HandMade(config, {}, losses | {"cosine W": ([0], [0.99])}, seed) for seed in range(3)]
    trivial = 2 / (2 * 3)
    bought = answers.stochastic_against_fixed(arms)
    assert (bought.value, bought.other) == pytest.approx((0.03 / trivial, 0.24 / trivial))
    far = answers.lengths(arms)
    assert (far.value, far.other) == pytest.approx((0.03 / trivial, 0.01 / trivial))
    assert answers.steps(arms).value == 50
    assert answers.samples(arms).value == CONFIG.batch * CONFIG.steps
