"""Probes inside a compiled, vmapped loop."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stairwise.train.probes import NEVER, Extremes, FirstPassage

TICKS = 12


@jax.jit
@jax.vmap
def watch(losses):
    """Run both probes over a row of losses inside a fori_loop, one trial per row."""

    def tick(t, probes):
        passage, extremes = probes
        return passage.update(losses[t] < 0.5, t), extremes.update(losses[t], t)

    return jax.lax.fori_loop(0, TICKS, tick, (FirstPassage.start(), Extremes.start()))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**16))
def test_probes_in_a_vmapped_loop_find_what_numpy_finds_afterwards(seed):
    losses = np.random.default_rng(seed).uniform(0.3, 2.0, (5, TICKS)).astype(np.float32)
    passage, extremes = watch(jnp.asarray(losses))
    below = losses < 0.5
    expected = np.where(below.any(axis=1), below.argmax(axis=1), NEVER)
    assert passage.tick.tolist() == expected.tolist()
    assert passage.reached.tolist() == below.any(axis=1).tolist()
    assert extremes.low.tolist() == losses.min(axis=1).tolist()
    assert extremes.high.tolist() == losses.max(axis=1).tolist()
    assert extremes.low_tick.tolist() == losses.argmin(axis=1).tolist()
    assert extremes.high_tick.tolist() == losses.argmax(axis=1).tolist()


def test_a_passage_is_frozen_once_set():
    probe = FirstPassage.start().update(jnp.array(True), 3)
    assert int(probe.update(jnp.array(True), 7).update(jnp.array(False), 9).tick) == 3


def test_not_a_number_is_neither_low_nor_high():
    probe = Extremes.start().update(jnp.float32(1), 0).update(jnp.float32(jnp.nan), 1).update(jnp.float32(2), 2)
    assert (float(probe.low), float(probe.high), int(probe.high_tick)) == (1.0, 2.0, 2)


def test_the_winner_is_the_unit_that_passed_first():
    probe = FirstPassage.start((2, 3))
    assert probe.winner().tolist() == [NEVER, NEVER]
    probe = probe.update(jnp.array([[False, True, False], [False, False, False]]), 4)
    probe = probe.update(jnp.ones((2, 3), dtype=bool), 5)
    assert probe.winner().tolist() == [1, 0]
    assert probe.tick.tolist() == [[5, 4, 5], [5, 5, 5]]
