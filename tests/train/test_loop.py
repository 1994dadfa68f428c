"""The training loop: the same bits whatever the chunks, the measuring points, the companions and the interruptions."""

import re
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.config import Config, option
from stairwise.train.keys import role_key
from stairwise.train.loop import Hooks, Interrupted, Member, Program, RunningTrial, _stacked
from stairwise.train.stage import Stage, every, pack, unpack


@dataclass(frozen=True)
class Walking(Config):
    rate: float = option(0.3, "step size", above=0.0, numeric=True)
    shift: float = option(0.0, "where a walk starts", numeric=True)


@dataclass(frozen=True)
class Repeated(Config):
    times: int = option(2, "walks", low=1)
    walk: Walking = option(Walking(), "each of them")


class Walk(NamedTuple):
    place: jax.Array
    mean: jax.Array


@cache
def walk_stage(steps=60, measure_every=10, name="walk", goal=None, width=3, **more):
    """A random walk with a learned mean: enough arithmetic for a wrong bit to show."""

    def init(trial, carry, key):
        start = jnp.zeros((width,), dtype=jnp.float32) if carry is None else carry
        return Walk(start + trial.config.shift, jnp.zeros((width,), dtype=jnp.float32))

    def tick(trial, state, key, t):
        noise = jax.random.normal(key, (width,), dtype=jnp.float32)
        place = state.place + trial.config.rate * (noise - jnp.sin(state.place))
        return Walk(place, state.mean + (place - state.mean) / (t + 1))

    def measure(trial, state, key, t):
        probe = jax.random.normal(key, (), dtype=jnp.float32)
        return {"mean": jnp.sum(state.mean), "probe": probe, "place": state.place[0]}

    return Stage(
        name=name,
        init=init,
        tick=tick,
        max_ticks=steps,
        measure=measure,
        measure_at=every(measure_every, steps),
        done=None if goal is None else lambda trial, state: jnp.abs(state.place[0]) > goal,
        finish=lambda trial, state, key: (
            state.place,
            {"place": state.place, "key": jax.random.bits(key, (), dtype=jnp.uint32)},
        ),
        **more,
    )


CONFIG = Walking()


def rows(outcome, only=None):
    return [
        (stage, step, name, value)
        for stage, step, name, value in zip(outcome.stage, outcome.step, outcome.name, outcome.value, strict=True)
        if only is None or step in only
    ]


@cache
def program_of(stages, width):
    """Compiled once for all tests that run it."""
    return Program(stages, width)


def run(stages, seeds=(0,), width=1, hooks=None, config=CONFIG):
    return program_of(tuple(stages), width).run([Member(seed, config) for seed in seeds], hooks)


def chunked(size):
    hooks = Hooks()
    hooks.chunk = size
    return hooks


def assert_same(a, b):
    assert rows(a) == rows(b)
    assert a.status == b.status
    assert a.arrays.keys() == b.arrays.keys()
    for name in a.arrays:
        np.testing.assert_array_equal(a.arrays[name], b.arrays[name])


@pytest.mark.parametrize("size", [1, 7, 1000, None])
def test_chunk_size_changes_no_bit(size):
    assert_same(run([walk_stage()], hooks=chunked(size))[0], run([walk_stage()], hooks=chunked(13))[0])


@pytest.mark.parametrize("interval", [1, 4, 60])
def test_measuring_more_or_less_often_changes_no_bit(interval):
    reference = run([walk_stage(measure_every=20)])[0]
    other = run([walk_stage(measure_every=interval)])[0]
    shared = set(reference.step) & set(other.step)
    assert {0, 60} <= shared
    assert rows(reference, shared) == rows(other, shared)
    np.testing.assert_array_equal(reference.arrays["walk/place"], other.arrays["walk/place"])


def test_companions_change_no_bit_at_equal_width():
    together = run([walk_stage()], seeds=(5, 1, 2, 3), width=4)
    for seeds in ((5, 9, 8, 7), (5,), (5, 5, 5)):
        assert_same(run([walk_stage()], seeds=seeds, width=4)[0], together[0])


def test_alone_and_in_a_group_of_eight_draw_the_same_and_end_alike():
    alone = run([walk_stage(steps=20, measure_every=1)], seeds=(3,))[0]
    group = run([walk_stage(steps=20, measure_every=1)], seeds=range(8), width=8)[3]
    assert [r[3] for r in rows(alone) if r[2] == "probe"] == [r[3] for r in rows(group) if r[2] == "probe"]
    np.testing.assert_allclose(alone.value, group.value, rtol=1e-5, atol=1e-6)
    assert alone.arrays["walk/key"] == group.arrays["walk/key"]
    assert alone.status == group.status


class Breaking(Hooks):
    """Stops after so many chunks, keeping the checkpoint as bytes that a store would keep."""

    def __init__(self, chunks, saved=None):
        self.chunk, self.save_every = 7, 0.0
        self.left, self.saved = chunks, saved

    def stop(self):
        self.left -= 1
        return self.left < 0

    def save(self, arrays, meta):
        self.saved = ({name: np.array(value) for name, value in arrays.items()}, dict(meta))

    def load(self):
        return self.saved


@pytest.mark.parametrize("width", [1, 4])
def test_a_resumed_run_equals_the_uninterrupted_one_wherever_it_was_cut(width):
    stages = [walk_stage(goal=2.5), walk_stage(name="second", steps=33, measure_every=11)]
    program, members = Program(stages, width), [Member(seed, CONFIG) for seed in range(width)]
    whole = program.run(members, chunked(7))
    cuts = 0
    for chunks in range(0, 16, 3):
        saved = None
        while True:
            hooks = Breaking(chunks, saved)
            try:
                resumed = program.run(members, hooks)
                break
            except Interrupted:
                saved, cuts, chunks = hooks.saved, cuts + 1, chunks + 1
        for a, b in zip(resumed, whole, strict=True):
            assert_same(a, b)
    assert cuts > 5


def test_a_state_in_bfloat16_is_kept_in_a_form_that_files_hold_and_comes_back_to_the_bit():
    def grown(trial, state, key, t):
        return state + jax.random.normal(key, (3,), dtype=jnp.float32).astype(jnp.bfloat16)

    stage = Stage(
        name="grow",
        init=lambda trial, carry, key: jnp.zeros(3, dtype=jnp.bfloat16),
        tick=grown,
        max_ticks=40,
        finish=lambda trial, state, key: (None, {"w": state}),
    )
    program, members = Program([stage]), [Member(0)]
    whole, hooks = program.run(members)[0], Breaking(2)
    with pytest.raises(Interrupted):
        program.run(members, hooks)
    assert hooks.saved is not None
    assert all(np.dtype(array.dtype).isbuiltin for array in hooks.saved[0].values())
    assert_same(program.run(members, Breaking(99, hooks.saved))[0], whole)
    assert whole.arrays["grow/w"].dtype == np.float32


def test_a_member_that_is_done_is_frozen_and_measured_at_its_own_end():
    goal = 1.0
    group = run([walk_stage(steps=200, measure_every=50, goal=goal)], seeds=range(6), width=6)
    alone = [run([walk_stage(steps=200, measure_every=50, goal=goal)], seeds=(seed,))[0] for seed in range(6)]
    ends = [outcome.step[-1] for outcome in group]
    assert ends == [outcome.step[-1] for outcome in alone]
    assert len(set(ends)) > 2
    for outcome in group:
        assert outcome.status == "reached"
        assert abs(outcome.last("place")) > goal
        assert outcome.step[-1] not in (0, 200)


def test_a_trial_that_never_gets_there_is_censored():
    assert run([walk_stage(goal=1e9)])[0].status == "censored"


@pytest.mark.optimised  # compares bits of two programs
def test_a_nan_is_recorded_and_leaves_companions_alone():
    def poison(trial, state, key, t):
        bad = (t == 25) & (trial.seed == 1)
        moved = walk_stage().tick(trial, state, key, t)
        return moved._replace(place=jnp.where(bad, jnp.nan, moved.place))

    stage = walk_stage()
    broken = replace(stage, tick=poison)
    group = run([broken, walk_stage(name="after")], seeds=(0, 1, 2), width=3)
    assert [outcome.status for outcome in group] == ["finished", "singular", "finished"]
    assert re.fullmatch(r"place was at most \d\.\d+ and became NaN at tick 26 of stage walk", group[1].message)
    assert "after" not in group[1].stage
    assert_same(group[0], run([stage, walk_stage(name="after")], seeds=(0, 4, 5), width=3)[0])


@cache
def growing(tick):
    """A stage whose state is one number, `x`, and another, `still`, that nothing happens to."""
    return Stage(
        "grow",
        init=lambda trial, carry, key: {"x": jnp.float32(2.0), "still": jnp.float32(5.0)},
        tick=lambda trial, state, key, t: {**state, "x": tick(state["x"], t)},
        max_ticks=60,
        measure=lambda trial, state, key, t: {"x": state["x"]},
        measure_at=(0, 50, 60),
    )


ENDINGS = {
    # grown from 2 to infinity to NaN between two measuring points
    "diverged: x was at most 2.59e+14 and became infinite at tick 5": lambda x, t: 6 * x - x**3,
    "overflow: x was at most 2 and became infinite at tick 21": lambda x, t: by(t, 20, x, by(t, 21, x / 0, x - x)),
    "singular: x was at most 2 and became NaN at tick 21": lambda x, t: by(t, 20, x, (x - x) / (x - x)),
    # infinite at a measuring point, which ends nothing; NaN later
    "overflow: x was at most inf and became NaN at tick 56": lambda x, t: by(t, 49, x, by(t, 55, jnp.inf, x - x)),
}


def by(t, when, before, after):
    return jnp.where(t < when, before, after)


@pytest.mark.parametrize("chunk", [7, None])
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_status_says_how_the_state_stopped_being_finite(ending, chunk):
    outcome = run([growing(ENDINGS[ending])], hooks=chunked(chunk))[0]
    assert f"{outcome.status}: {outcome.message}" == f"{ending} of stage grow"


def test_a_stage_that_begins_with_a_nan_says_so():
    stage = Stage(**{**growing(lambda x, t: x).__dict__, "init": lambda trial, carry, key: {"x": jnp.float32("nan")}})
    outcome = run([stage])[0]
    assert (outcome.status, outcome.message) == ("singular", "x was NaN at tick 0 of stage grow")


def test_a_lost_trial_ends_with_the_same_words_wherever_it_was_cut():
    stages = [growing(lambda x, t: jnp.where(t < 20, x + 1, jnp.nan))]
    whole = run(stages, hooks=chunked(4))[0]
    assert whole.message == "x was at most 22 and became NaN at tick 21 of stage grow"
    for chunks in (2, 5, 6, 9):  # before the NaN, at its tick, and after it
        hooks = Breaking(chunks)
        hooks.chunk = 4
        with pytest.raises(Interrupted):
            run(stages, hooks=hooks)
        hooks.left = 10**6
        again = run(stages, hooks=hooks)[0]
        assert (again.status, again.message, str(rows(again))) == (whole.status, whole.message, str(rows(whole)))


def test_the_next_stage_starts_where_the_last_one_ended_and_can_be_skipped():
    first, second = walk_stage(), walk_stage(name="second", steps=0)
    outcome = run([first, second])[0]
    np.testing.assert_array_equal(outcome.arrays["second/place"], outcome.arrays["walk/place"])
    never = walk_stage(name="second", steps=5, when=lambda carry: bool(np.any(np.asarray(carry) > 1e9)))
    assert "second" not in run([first, never])[0].stage


def test_upstream_arrays_reach_the_first_stage():
    start = np.array([1.0, 2.0, 3.0], dtype=np.float32)
    outcome = Program([walk_stage(steps=0)]).run([Member(0, CONFIG, start)])[0]
    np.testing.assert_array_equal(outcome.arrays["walk/place"], start)


def test_numeric_fields_are_traced_so_one_program_compiles_once():
    program = Program([walk_stage()])
    for seed, rate in ((0, 0.1), (1, 0.2), (2, 0.3)):
        program.run([Member(seed, Walking(rate, 0.5))], chunked(seed + 3))
    assert program.stages[0].advance._cache_size() == 1


def test_members_of_a_group_have_each_their_own_numbers():
    rates = (0.1, 0.2, 0.3)
    group = Program([walk_stage()], 3).run([Member(0, Walking(rate)) for rate in rates])
    for rate, one in zip(rates, group, strict=True):
        alone = run([walk_stage()], config=Walking(rate))[0]
        np.testing.assert_allclose(one.value, alone.value, rtol=1e-5, atol=1e-6)
    assert len({one.last("place") for one in group}) == 3


@pytest.mark.parametrize("config", [CONFIG, tuple(CONFIG.__dict__.values()), None])
def test_a_config_is_any_pytree(config):
    seen = []
    init = lambda trial, carry, key: seen.append(trial.config) or jnp.float32(0)  # noqa: E731
    Program([Stage("look", init, lambda trial, state, key, t: state, 1)]).run([Member(0, config)])
    assert jax.tree.structure(seen[0]) == jax.tree.structure(config)
    assert all(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(seen[0]))


def test_a_stage_on_a_part_of_the_config_runs_as_on_the_part_alone():
    snapshots = {"snapshot": lambda trial, state: {"rate": trial.config.rate}, "snapshot_at": (0, 20)}
    stage = walk_stage(goal=1.0, **snapshots)
    whole = run([stage.on(lambda config: config.walk)], seeds=(4,), config=Repeated(walk=Walking(0.2, 0.1)))[0]
    assert_same(whole, run([stage], seeds=(4,), config=Walking(0.2, 0.1))[0])
    assert whole.arrays["walk/rate@20"] == np.float32(0.2)


def test_a_stage_on_a_part_keeps_what_it_lacks_and_what_needs_no_trial():
    bare = Stage("bare", lambda trial, carry, key: trial.config.rate, lambda trial, state, key, t: state, 3)
    there = bare.on(lambda config: config.walk)
    assert (there.name, there.max_ticks) == ("bare", 3)
    assert (there.measure, there.snapshot, there.done, there.finish, there.when) == (None,) * 5
    assert there.init(RunningTrial(Repeated(), 0), None, None) == 0.3


def test_the_key_of_a_role_is_the_seeds_inside_and_outside_of_a_program():
    trial = RunningTrial(CONFIG, jnp.uint32(7))
    own = jax.random.key_data(role_key(7, "pool"))
    assert (jax.random.key_data(trial.key("pool")) == own).all()
    assert (jax.random.key_data(jax.jit(lambda trial: trial.key("pool"))(trial)) == own).all()
    assert not (jax.random.key_data(trial.key("test")) == own).all()
    assert not (jax.random.key_data(RunningTrial(CONFIG, jnp.uint32(8)).key("pool")) == own).all()


def test_snapshots_are_kept_at_their_ticks_only():
    stage = walk_stage(snapshot=lambda trial, state: {"mean": state.mean}, snapshot_at=(0, 17, 60))
    outcome = run([stage])[0]
    assert sorted(name for name in outcome.arrays if "@" in name) == ["walk/mean@0", "walk/mean@17", "walk/mean@60"]
    assert 17 not in outcome.step


def test_outcomes_survive_packing():
    outcome = run([walk_stage(goal=2.5)])[0]
    outcome.add("walk", 61, {"mean": float("nan")})
    again = unpack(*pack([outcome]))[0]
    np.testing.assert_array_equal(again.value, outcome.value)
    assert (again.stage, again.step, again.name, again.status) == (
        outcome.stage,
        outcome.step,
        outcome.name,
        outcome.status,
    )
    assert again.arrays.keys() == outcome.arrays.keys()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_ticks": -1, "measure_at": ()}, "max_ticks=-1 must be at least 0"),
        ({"measure_at": (61,)}, "must lie in 0..60"),
    ],
)
def test_a_stage_refuses_ticks_that_cannot_be(change, message):
    with pytest.raises(ValueError, match=message):
        replace(walk_stage(), **change)


def test_memory_does_not_grow_with_the_number_of_steps():
    import resource

    program = Program([walk_stage(steps=400_000, measure_every=100_000)])
    program.run([Member(0, CONFIG)], chunked(1000))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    program.run([Member(1, CONFIG)], chunked(1000))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 5_000  # kilobytes


def test_the_host_sees_every_look_as_it_is_taken():
    class Watching(Hooks):
        def __init__(self):
            self.seen = []

        def measured(self, outcomes):
            self.seen.append([(outcome.step[-1], sorted(outcome.arrays)) for outcome in outcomes])

    hooks = Watching()
    stage = walk_stage(steps=20, snapshot=lambda trial, state: {"W": state.place}, snapshot_at=(10,))
    run([stage], seeds=(0, 1), width=2, hooks=hooks)
    assert hooks.seen == [[(0, [])] * 2, [(10, ["walk/W@10"])] * 2, [(20, ["walk/W@10"])] * 2]


@pytest.mark.parametrize(("goal", "waits"), [(None, 3), (1e9, 4)])
def test_the_host_waits_once_a_look_and_once_for_what_is_left(monkeypatch, goal, waits):
    """A GPU idles while the host fetches: only a stage that may end early is waited for after its ticks, too."""
    program, fetched = Program([walk_stage(goal=goal, measure_every=60)]), []
    fetch = jax.device_get
    monkeypatch.setattr(jax, "device_get", lambda tree: fetched.append(tree) or fetch(tree))
    program.run([Member(0, CONFIG)], chunked(60))
    assert len(fetched) == waits  # looks at ticks 0 and 60, and the arrays at the end


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize(
    "leaves",
    [
        (1.5, 1.5, 1.5),
        (0.0, -0.0, float("nan"), 0.0),
        (3, 1, 3),
        (True, False, True),
        (1, 2.5, True),
        (np.uint32(7), np.uint32(2**32 - 1)),
        (np.float64(0.1), np.float64(0.1)),
        (np.arange(3, dtype=np.int64), np.ones(3, dtype=np.int64)),
        (jnp.ones(2), np.zeros(2, dtype=np.float32)),
    ],
    ids=str,
)
def test_leaves_are_stacked_as_jax_stacks_them(leaves, x64):
    with jax.enable_x64(x64):
        (found, _), expected = _stacked([leaves, leaves[::-1]]), jnp.stack([jnp.asarray(leaf) for leaf in leaves])
        assert (found.dtype, found.shape, found.weak_type) == (expected.dtype, expected.shape, expected.weak_type)
        assert np.asarray(found).tobytes() == np.asarray(expected).tobytes()


def test_a_number_that_jax_has_no_room_for_is_refused_in_a_group_too():
    with pytest.raises(OverflowError):
        _stacked([(1, 2**40)])
