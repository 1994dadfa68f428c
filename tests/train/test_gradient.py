"""Gradient training: what a tick is, when it stops, what it trains and stores, and where its batches come from."""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from stairwise import compiler
from stairwise.train.gradient import (
    Reached,
    epochs,
    fresh,
    gradient_training,
    in_turn,
    numbered,
    pool,
    with_replacement,
)
from stairwise.train.keys import at, role_key
from stairwise.train.loop import Member, Program, RunningTrial
from tests.helpers import assert_close

TRUTH = jnp.array([1.0, -2.0, 0.5], dtype=jnp.float32)


class Fields(NamedTuple):
    rate: Any = 0.1
    threshold: Any = 0.5
    examples: Any = 0
    patience: Any = 0


def inputs(trial, key):
    return jax.random.normal(key, (3,), dtype=jnp.float32)


def squared(trial, w, batch, key):
    return jnp.mean((batch @ (w - TRUTH)) ** 2)


def nearness(trial, w):
    return {"near": 1 - jnp.linalg.norm(w - TRUTH) / jnp.linalg.norm(TRUTH)}


def stage(**changes):
    common: dict[str, Any] = {
        "model": lambda trial, key: jnp.zeros(3, dtype=jnp.float32),
        "batch": fresh(inputs, 16),
        "loss": squared,
        "optimizer": lambda config: optax.sgd(config.rate),
        "steps": 24,
    }
    return gradient_training(**{**common, **changes})


def fit(*stages, config=None, seed=0, carry=None):
    return Program(list(stages)).run([Member(seed, config or Fields(), carry)])[0]


def weights(*stages, **more):
    return fit(*stages, **more).arrays["train/model"]


# --- ticks, keys, stopping --------------------------------------------------------------------------------------------


def test_how_many_steps_a_tick_takes_changes_no_draw():
    one, four = weights(stage()), weights(stage(steps_per_tick=4))
    assert_close(four, one, 1e-6)
    assert np.any(one != weights(stage(key_role="batch")))


def test_a_gpu_is_given_the_steps_as_one_graph_whose_options_change_no_bit(monkeypatch):
    """The compiler takes the options on a CPU, too, where they mean nothing."""
    plain = weights(stage())
    monkeypatch.setattr(compiler, "known_to", lambda kind, version, options: options)
    for steps_per_tick in (1, 4):
        program = Program([stage(steps_per_tick=steps_per_tick)])
        assert program.options == compiler.GRAPHS | compiler.LIBRARY
    assert_close(weights(stage()), plain, 0)


def test_a_role_of_its_own_names_the_keys_of_batches():
    def batch(trial, aux, model, key, n):
        given = jax.random.key_data(key) == jax.random.key_data(at(role_key(trial.seed, "batch"), n))
        return jnp.where(jnp.all(given), 1.0, jnp.nan) * jnp.ones((2, 3), dtype=jnp.float32)

    for more in ({}, {"steps_per_tick": 4}, {"micro_batches": 2}):
        outcome = fit(stage(batch=batch, key_role="batch", **more))
        assert outcome.status == "finished"


def test_the_loss_draws_with_a_key_that_is_not_its_batchs():
    def same(trial, w, batch, key):
        return jnp.all(jax.random.key_data(key) == batch).astype(jnp.float32) + 0 * jnp.sum(w)

    drawn = stage(batch=lambda trial, aux, model, key, n: jax.random.key_data(key), loss=same, steps=2)
    assert fit(drawn).last("loss") == 0


def test_training_stops_at_the_look_that_reaches_its_threshold():
    until = Reached("near", lambda config: config.threshold, unit=40)
    looks = {"look": nearness, "steps": 400, "steps_per_tick": 4, "until": until}
    outcome = fit(stage(measure_at=tuple(range(101)), **looks))
    near = [value for name, value in zip(outcome.name, outcome.value, strict=True) if name == "near"]
    assert outcome.status == "reached"
    assert near[0] == 0  # before any step
    assert near[-2] < 0.5 <= near[-1]
    assert outcome.last("hit") == 40 * outcome.step[-1]
    assert fit(stage(**looks), config=Fields(threshold=2.0)).status == "censored"


def test_a_metric_that_equals_its_threshold_has_reached_it():
    level = stage(look=lambda trial, w: {"near": jnp.float32(0.5)}, until=Reached("near", 0.5), steps=8)
    outcome = fit(level)
    assert outcome.last("hit") == 1
    assert outcome.status == "reached"


def test_patience_goes_on_for_as_many_looks_after_the_first_success():
    until = Reached("near", 0.5, patience=lambda config: config.patience)
    run = partial(fit, stage(look=nearness, steps=100, until=until))
    soon, late = run(), run(config=Fields(patience=3))
    assert late.step[-1] == soon.step[-1] + 3
    assert late.last("hit") == soon.last("hit") == soon.step[-1]


def test_a_hit_can_be_noted_without_stopping():
    outcome = fit(stage(look=nearness, steps=100, until=Reached("near", 0.5, stop=False)))
    assert outcome.status == "finished"
    assert outcome.step[-1] == 100
    assert 0 < outcome.last("hit") < 100


def test_a_look_that_is_left_out_at_the_start_is_zero_there():
    outcome = fit(stage(look=lambda trial, w: {"one": jnp.float32(1)}, look_at_start=False, measure_at=(0, 24)))
    assert [value for name, value in zip(outcome.name, outcome.value, strict=True) if name == "one"] == [0, 1]


def test_members_of_a_group_stop_by_themselves():
    until = Reached("near", lambda config: config.threshold)
    stages = [stage(look=nearness, steps=200, until=until)]
    configs = [Fields(threshold=0.3), Fields(threshold=0.8), Fields(rate=0.05)]
    together = Program(stages, width=3).run([Member(seed, config) for seed, config in enumerate(configs)])
    for seed, config in enumerate(configs):
        alone = Program(stages).run([Member(seed, config)])[0]
        assert together[seed].last("hit") == alone.last("hit") > 0
        assert_close(together[seed].arrays["train/model"], alone.arrays["train/model"], 1e-5)


def test_micro_batches_look_once_a_step_at_the_model_of_the_whole_batch():
    seen = pool(inputs, 8, 32, order=in_turn)
    parts = fit(stage(batch=seen, micro_batches=4, look=nearness, until=Reached("near", 9.0), steps=10))
    whole = fit(stage(batch=pool(inputs, 32, 32, order=in_turn), steps=10))
    assert_close(parts.arrays["train/model"], whole.arrays["train/model"], 1e-6)
    assert parts.step[-1] == 40


# --- what is trained, what is handed on -------------------------------------------------------------------------------


def test_what_is_frozen_neither_moves_nor_counts_in_the_norm_of_the_gradient():
    model = {"w": jnp.zeros(3, dtype=jnp.float32), "huge": jnp.float32(1)}

    def loss(trial, model, batch, key):
        return squared(trial, model["w"], batch, key) + 1e6 * model["huge"]

    clipped = optax.chain(optax.clip_by_global_norm(1.0), optax.add_decayed_weights(0.1), optax.sgd(0.1))
    frozen = stage(
        model=lambda trial, key: model,
        loss=loss,
        optimizer=clipped,
        train_only=lambda model: {"w": True, "huge": False},
    )
    arrays = fit(frozen).arrays
    assert arrays["train/huge"] == 1
    assert_close(arrays["train/w"], weights(stage(optimizer=clipped)), 1e-6)


def test_a_model_may_hold_whole_numbers_and_code():
    class Net(eqx.Module):
        w: Any
        places: Any
        name: str = eqx.field(static=True)

    def loss(trial, net, batch, key):
        return squared(trial, net.w[net.places], batch, key)

    order = jnp.array([2, 0, 1], dtype=jnp.int32)
    net = Net(jnp.zeros(3, dtype=jnp.float32), order, "net")
    arrays = fit(stage(model=lambda trial, key: net, loss=loss)).arrays
    assert_close(arrays["train/w"][order], weights(stage()), 1e-6)
    np.testing.assert_array_equal(arrays["train/places"], order)


def test_a_stage_goes_on_with_what_it_receives():
    first = stage(name="first")
    second = stage(steps=0, received=lambda trial, w: 2 * w)
    arrays = fit(first, second).arrays
    assert_close(arrays["train/model"], 2 * arrays["first/model"], 1e-7)
    assert_close(weights(stage(steps=0), carry=TRUTH), TRUTH, 1e-7)


def test_what_is_prepared_reaches_batches_and_follows_them():
    def batch(trial, aux, w, key, n):
        return jnp.full((1, 3), aux["count"], dtype=jnp.float32)

    def measure(trial, state, key, t):
        return {"count": state.aux["count"], "start": state.aux["start"]}

    counting = stage(
        batch=batch,
        optimizer=optax.sgd(0.0),
        prepare=lambda trial, w, key: {"count": jnp.int32(0), "start": w[0] + 7},
        follow=lambda trial, aux, batch: {**aux, "count": aux["count"] + jnp.int32(1)},
        measure=measure,
        steps_per_tick=3,
    )
    outcome = fit(counting)
    assert (outcome.last("count"), outcome.last("start")) == (24, 7)


def test_losses_keep_the_precision_of_the_model():
    with jax.enable_x64(True):
        exact = stage(model=lambda trial, key: jnp.zeros(3, dtype=jnp.float64))
        assert fit(exact).arrays["train/model"].dtype == np.float64


# --- batches ----------------------------------------------------------------------------------------------------------


def trial_of(config):
    return RunningTrial(config, jnp.uint32(3))


def numbers_of(order, config, batches):
    draw = jax.jit(partial(order, trial_of(config)))
    return np.concatenate([draw(jax.random.key(n), jnp.int32(n)) for n in range(batches)])


def test_every_epoch_sees_each_example_once_in_an_order_of_its_own():
    passes = numbers_of(epochs(4, lambda config: config.examples), Fields(examples=jnp.int32(10)), 5).reshape(2, 10)
    assert [sorted(one) for one in passes.tolist()] == [list(range(10))] * 2
    assert passes[0].tolist() != passes[1].tolist()


@pytest.mark.parametrize("order", [with_replacement, epochs, in_turn])
def test_an_empty_pool_is_an_endless_one(order):
    for examples in (0, lambda config: config.examples):
        found = numbers_of(order(4, examples), Fields(examples=jnp.int32(0)), 3)
        assert found.tolist() == list(range(12))


def test_draws_with_replacement_stay_in_the_pool_and_reach_all_of_it():
    found = numbers_of(with_replacement(16, 5), Fields(), 8)
    assert set(found.tolist()) == set(range(5))
    assert numbers_of(in_turn(4, 5), Fields(), 3).tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1]


def test_an_example_of_a_pool_depends_on_the_seed_the_role_and_its_number_only():
    trial = trial_of(Fields())
    by_two = [pool(inputs, 2, 0, "data")(trial, None, None, jax.random.key(n), n) for n in range(3)]
    by_six = fresh(inputs, 6, role="data")(trial, None, None, jax.random.key(9), 0)
    np.testing.assert_array_equal(np.concatenate(by_two), by_six)
    by_hand = numbered(lambda trial, i: inputs(trial, at(trial.key("data"), i)), in_turn(6))
    np.testing.assert_array_equal(by_hand(trial, None, None, None, 0), by_six)


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_counts_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"steps=24 must be a multiple of steps_per_tick=5 \(stage train\)"):
        stage(steps_per_tick=5)
    with pytest.raises(ValueError, match="micro_batches=2 must be 1 where steps_per_tick=4"):
        stage(micro_batches=2, steps_per_tick=4)
    with pytest.raises(ValueError, match="needs a look that finds near"):
        stage(until=Reached("near", 1.0))
    with pytest.raises(ValueError, match="must name one of near"):
        fit(stage(look=nearness, until=Reached("far", 1.0)))
