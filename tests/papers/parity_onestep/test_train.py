"""One step with teacher forcing: what is drawn and summed, and what it learns."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.config import structure
from stairwise.papers.parity_onestep import gradient, oracles, train
from stairwise.papers.parity_onestep.config import Descent, Oracle, PaddedDescent, PaddedTask, Rate, Task
from stairwise.papers.parity_onestep.evaluate import outcome
from stairwise.tasks.decomposition import balanced
from stairwise.train.loop import Program
from tests.helpers import assert_close
from tests.papers.parity_onestep.training import run, weights
from tests.trials import running

# k is not a power of two
SMALL = Descent(task=Task(16, 5), samples=2**15, block=2048, rate=Rate(lam=7.0), test_examples=200, looks=(8192,))


@pytest.fixture(scope="module")
def small():
    return Program(train.descent(structure(SMALL)))


# --- one step ---------------------------------------------------------------------------------------------------------


def test_one_step_learns_a_parity_whose_size_is_no_power_of_two(small):
    for seed in range(3):
        found = run(SMALL, seed, small)
        assert found.last("accuracy") == 1
        assert found.last("root sup") < 0.2
        assert found.last("support") == 1
        children, W = found.arrays["descent/children"], found.arrays["descent/W"]
        largest = np.sort(np.argsort(W, axis=0)[-2:], axis=0)
        assert (children == largest.T).all()


def test_the_roll_out_uses_no_ground_truth(small, monkeypatch):
    honest = run(SMALL, 1, small)
    drawn = train.test_tokens

    def corrupted(trial, tree):
        tokens = drawn(trial, tree)
        return tokens.at[tree.slots :].multiply(-1)

    monkeypatch.setattr(train, "test_tokens", corrupted)
    lied_to = run(SMALL, 1)
    assert (honest.arrays["descent/root outputs"] == lied_to.arrays["descent/root outputs"]).all()
    assert honest.last("accuracy") == 1
    assert lied_to.last("accuracy") == 0


def test_the_same_trial_twice_is_bit_identical_and_another_seed_is_not(small):
    first, again, other = run(SMALL, 0, small), run(SMALL, 0, small), run(SMALL, 1, small)
    assert (first.arrays["descent/W"] == again.arrays["descent/W"]).all()
    assert first.value == again.value
    assert not (first.arrays["descent/children"] == other.arrays["descent/children"]).all()


def test_the_first_samples_of_a_run_are_those_of_a_shorter_one(small):
    looked, shorter = run(SMALL, 0, small), run(replace(SMALL, samples=8192))
    at_look = [value for step, value in zip(looked.step, looked.value, strict=True) if step == 4]
    assert at_look == shorter.value
    assert looked.name[: len(at_look)] == shorter.name


def test_a_last_block_that_is_not_full_counts_its_share_only():
    config = replace(SMALL, samples=3000, looks=())
    trial = running(config)

    @jax.jit
    def at_once():
        tree = train.tree_of(trial)
        tokens = jnp.concatenate([train.samples_of(trial, tree, b)[0] for b in range(2)], axis=1)[:, :3000]
        sums = gradient.forced_at_zero(tree, train.link_of(config), "causal", tokens, jnp.ones(3000, dtype=jnp.float32))
        model = train.model_of(config, tree, jnp.zeros_like(sums.S))
        exact = gradient.gradient(model.scores(), sums.S, 3000)
        return -train.learning_rate(trial, model, exact) * exact

    assert_close(weights(config), at_once(), 1e-5)


def test_a_padded_trial_is_the_plain_one(small):
    task = PaddedTask(16, 5, slots=24, leaves=7)
    padded = PaddedDescent(task=task, samples=SMALL.samples, block=2048, rate=SMALL.rate)
    plain, wide = run(SMALL, 0, small).arrays["descent/W"], weights(padded)
    kept = np.r_[0:16, 24:28]
    assert_close(wide[kept][:, :4], plain, 1e-5)
    assert np.abs(wide[:, 4:]).max() == 0


def test_a_stored_model_answers_as_the_trained_one_did(small):
    found = run(SMALL, 2, small)
    model = train.stored_model(SMALL, found.arrays)
    inputs = train.test_tokens(running(SMALL, 2), model.tree)[:16]
    rolled = outcome(model, jnp.ones(model.tree.levels, dtype=bool), inputs)[-1]
    assert_close(rolled, found.arrays["descent/root outputs"], 1e-5)


def test_a_given_subset_is_the_one_that_is_learned():
    config = replace(SMALL, task=Task(16, 5, (9, 1, 4, 15, 6)))
    children = balanced(jnp.array([1, 4, 6, 9, 15], dtype=jnp.int32), 16).children
    assert (np.asarray(children) == np.sort(np.argsort(weights(config), axis=0)[-2:], axis=0).T).all()


def test_the_learning_rate_gives_the_logit_that_was_asked_for(small):
    leading = run(SMALL, 0, small)
    assert leading.last("nominal logit") == pytest.approx(7.0, rel=1e-5)
    assert leading.last("root logit") == pytest.approx(7.0 * (1 - 3 / 19), rel=0.15)
    trial = running(SMALL)
    model = train.model_of(SMALL, train.tree_of(trial), jnp.zeros((20, 4), dtype=jnp.float32))
    slope = -leading.arrays["descent/W"] / float(train.learning_rate(trial, model, model.W))
    measured = replace(SMALL, rate=Rate(lam=6.0, scale="measured"))
    rate = float(train.learning_rate(running(measured), model, slope))
    assert -rate * slope[leading.arrays["descent/children"][-1], -1].mean() == pytest.approx(6.0, rel=1e-5)
    paper = replace(SMALL, rate=Rate(scale="paper", eta0=1.5, eps=0.5))
    rate = float(train.learning_rate(running(paper), model, slope))
    assert rate == pytest.approx(1.5 * 16 ** (2 + 0.5 / 16), rel=1e-5)


# --- oracles ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["noisy", "adversarial"])
def test_oracles_disturb_every_visible_entry_by_delta_and_no_other(kind):
    config = replace(SMALL, oracle=Oracle(kind, 2.0), rate=Rate(eps=1.0))
    trial = running(config)
    tree = train.tree_of(trial)
    model = train.model_of(config, tree, jnp.zeros((20, 4), dtype=jnp.float32))
    moved = np.asarray(train.asked(trial, model, model.W, 0))
    visible = np.asarray(tree.visible("causal"))
    assert_close(np.abs(moved[visible]), np.full(visible.sum(), 2.0 * 16 ** (-2 - 1 / 8)), 1e-5)
    assert np.all(moved[~visible] == 0)
    if kind == "adversarial":
        first, second = tree.children.T
        node = np.arange(4)
        assert (moved[first, node] > 0).all()
        assert (moved[second, node] < 0).all()


def test_the_hiding_oracle_is_approximate_and_uninformative_and_the_printed_one_is_neither():
    mean = jnp.array([1.0, 0.0], dtype=jnp.float32)
    near, far = mean + 0.05, mean + 1.0
    answer, revealed = oracles.hiding(near, mean, 0.1)
    assert answer.tolist() == mean.tolist()
    assert not revealed
    answer, revealed = oracles.hiding(far, mean, 0.1)
    assert answer.tolist() == far.tolist()
    assert revealed
    assert float(jnp.linalg.norm(oracles.hiding_as_printed(far, mean, 0.1) - far)) > 0.1
    assert oracles.hiding_as_printed(near, mean, 0.1).tolist() == near.tolist()
