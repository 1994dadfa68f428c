"""The tree under the microscope: who may look at whom, which cells are edges, what a row of attention means."""

import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.papers.parity_onestep import answers
from stairwise.papers.parity_onestep.config import Descent, PaddedDescent, PaddedTask, Rate, Task
from stairwise.papers.parity_onestep.microscope import tree, visible
from stairwise.tasks.decomposition import balanced
from tests.papers.records import HandMade


def tree_of(config, slots: int, bits: int, size: int, leaves: int):
    chosen = jnp.arange(leaves, dtype=jnp.int32) * (bits // size)
    return balanced(chosen, bits, size, slots)


def record(config: Descent, W: np.ndarray, made, **more) -> HandMade:
    kept = {"descent/children": made.children, "descent/height": made.height, "descent/inputs": made.inputs}
    return HandMade(config, {**kept, "descent/W": W, **more})


@pytest.mark.parametrize("mask", ["causal", "block"])
@pytest.mark.parametrize("slots", [8, 12])
def test_what_a_node_may_look_at_is_what_the_kernels_tree_says(mask, slots):
    made = tree_of(None, slots, 8, 4, 4 if slots == 8 else 6)
    if slots == 8:
        config = Descent(task=Task(8, 4), mask=mask)
    else:
        config = PaddedDescent(task=PaddedTask(bits=8, size=4, slots=12, leaves=6), mask=mask)
    assert (visible(config, np.asarray(made.height), 8) == np.asarray(made.visible(mask))).all()


def test_a_trial_of_one_step_has_two_frames_and_circles_the_children_of_every_node():
    made = tree_of(None, 8, 8, 4, 4)
    W = 9.0 * np.asarray(made.is_child(), dtype=np.float32)
    seen = tree(record(Descent(task=Task(8, 4), rate=Rate(lam=9.0)), W, made))
    assert seen is not None
    logits, attention = seen.maps
    assert list(seen.labels) == ["before any step", "after step 1"]
    assert np.nanmax(np.abs(logits.frames[0])) == 0
    top_two = {(m, int(j)) for m, row in enumerate(logits.frames[1]) for j in np.argsort(np.nan_to_num(row))[-2:]}
    assert top_two == set(logits.overlays[0].cells)
    assert np.nansum(attention.frames[1], axis=1) == pytest.approx(np.ones(3))
    assert logits.rows_of(0).labels[-1] == "node 3 (level 2) = node 1 (level 1) x node 2 (level 1)"
    assert logits.columns_of(0).labels[:3] == ["bit 1 (secret)", "bit 2", "bit 3 (secret)"]


def test_entropy_starts_at_that_of_a_plain_mean_and_ends_at_log_2():
    made = tree_of(None, 8, 8, 4, 4)
    W = 60.0 * np.asarray(made.is_child(), dtype=np.float32)
    seen = tree(record(Descent(task=Task(8, 4)), W, made))
    assert seen is not None
    entropy = next(curve for curve in seen.curves if curve.name == "entropy of attention")
    counts = np.asarray(made.visible_count("causal"))
    assert entropy.values == pytest.approx([np.mean(np.log(counts)), np.log(2)])


def test_answers_measure_error_against_guessing():
    def run(accuracy: float, **fields) -> HandMade:
        from stairwise.config import update
        from stairwise.papers.parity_onestep.presets.chain import ROUNDED

        return HandMade(update(ROUNDED, fields), {}, {"accuracy": ([0], [accuracy])})

    records = [run(0.98), run(0.98), run(0.51, supervision="root")]
    bought = answers.chain_against_none(records)
    assert (bought.value, bought.other) == pytest.approx((0.04, 0.98))
