"""Several steps: rounding, the staircase without teacher forcing, and what destroys it."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.config import structure
from stairwise.papers.parity_onestep import train
from stairwise.papers.parity_onestep.config import FILTER, INTEGER, Augmentation, Descent, Quantiser, Rate, Task
from stairwise.papers.parity_onestep.quantise import integer, quantise
from stairwise.train.loop import Member, Program
from tests.helpers import assert_close
from tests.papers.parity_onestep.training import bare, run, series, weights

NO_FILTER = Augmentation()


def test_rounding_takes_ties_to_even_and_never_gives_negative_zero():
    W = jnp.array([-2.5, -1.5, -0.5, -0.2, 0.5, 1.5, 2.5], dtype=jnp.float32)
    rounded = np.asarray(integer(W))
    assert rounded.tolist() == [-2.0, -2.0, 0.0, 0.0, 0.0, 2.0, 2.0]
    assert not np.signbit(rounded[2:5]).any()
    assert (quantise(W, 1.0, 0.0) == integer(W)).all()


@pytest.mark.parametrize(("spacing", "bound"), [(1.0, 0.0), (4.0, 0.0), (10.0, 1.0), (0.0, 0.0)])
def test_rounding_twice_is_rounding_once_and_respects_its_bound(spacing, bound):
    W = jnp.asarray(30 * np.random.default_rng(0).normal(size=500).astype(np.float32))
    once = quantise(W, spacing, bound)
    assert (quantise(once, spacing, bound) == once).all()
    if bound:
        assert np.abs(np.asarray(once)).max() <= spacing * bound
    elif spacing:
        assert np.abs(np.asarray(once - W)).max() <= spacing / 2


FORCED = Descent(task=Task(32, 8), mask="block", samples=2**17, block=8192, steps=3, rate=Rate(lam=9.1))


def test_one_forced_step_solves_a_second_destroys_and_integers_make_it_a_fixed_point():
    program = Program(train.descent(structure(FORCED)))
    plain = run(FORCED, 0, program)
    losses = series(plain, "forced loss")
    assert losses[1] < 1e-2
    assert losses[0] > 1
    assert losses[3] > 1
    rounded = run(replace(FORCED, quantiser=INTEGER), 0, program)
    W = [rounded.arrays[f"descent/W@{16 * step}"] for step in range(4)]
    assert np.any(W[1])
    assert (W[1] == W[2]).all()
    assert (W[2] == W[3]).all()
    assert max(series(rounded, "forced loss")[1:]) < 1e-6


CHAIN = Descent(
    task=Task(16, 8),
    mask="block",
    forcing=False,
    samples=20_000,
    block=20_000,
    steps=4,
    rate=Rate(lam=10.0),
    quantiser=Quantiser(10.0, 1.0),
    augmentation=replace(FILTER, inputs=16, room=16),
)


@pytest.mark.slow
def test_without_teacher_forcing_one_level_is_solved_at_each_step():
    program = Program(train.descent(structure(CHAIN)))
    found = run(CHAIN, 0, program)
    errors = np.array([series(found, f"sup level {level}") for level in (1, 2, 3)])
    assert ((errors < 0.5) == (np.arange(5) >= np.arange(1, 4)[:, None])).all()
    gates = np.array([series(found, f"gate level {level}") for level in (1, 2, 3)]).T
    assert gates.tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1], [1, 1, 1], [1, 1, 1]]
    assert series(found, "abstain") == [1, 1, 0, 0, 0]
    # eq. (11): the children of solved levels have one weight, everything else none
    children, height = found.arrays["descent/children"], found.arrays["descent/height"]
    for step in range(5):
        expected = np.zeros((23, 7), dtype=np.float32)
        expected[children, np.arange(7)[:, None]] = 10.0 * (height <= step)[:, None]
        assert (found.arrays[f"descent/W@{step}"] == expected).all()
    unrounded = run(replace(CHAIN, quantiser=Quantiser()), 0, program)
    assert unrounded.last("accuracy") < 0.7


def test_a_group_draws_and_ends_as_its_members_do_alone():
    config = replace(CHAIN, steps=2)
    together = bare(config, 2).run([Member(seed, config) for seed in (0, 1)])
    alone = bare(config)
    for seed, one in enumerate(together):
        own = run(config, seed, alone)
        assert (one.arrays["descent/children"] == own.arrays["descent/children"]).all()
        assert (one.arrays["descent/W"] == own.arrays["descent/W"]).all()  # rounded: equal although sums are not
        assert np.any(own.arrays["descent/W"])


def test_fixed_samples_repeat_from_step_to_step_and_fresh_ones_do_not():
    tiny = replace(CHAIN, steps=2, forcing=True, rate=Rate(lam=1e-3), quantiser=Quantiser(), augmentation=NO_FILTER)
    once, twice = weights(replace(tiny, steps=1)), weights(tiny)
    assert_close(twice, 2 * once, 1e-2)  # so small a step changes no gradient
    fresh = weights(replace(tiny, fresh=True))
    assert np.abs(fresh - 2 * once).max() > 0.05 * np.abs(once).max()
    assert_close(fresh, 2 * once, 0.2)
