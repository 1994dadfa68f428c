"""Learning rates: their ends, their corners, and that a traced peak gives what a constant one gives."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from stairwise.train import schedules

STEPS = 40


def values(schedule, last=STEPS):
    return np.array([schedule(jnp.int32(step)) for step in range(last + 1)])


@pytest.mark.parametrize(
    "make",
    [
        schedules.constant,
        lambda peak: schedules.warm_up(peak, 10),
        lambda peak: schedules.warm_up_cosine(peak, 10, STEPS, 0.1),
        lambda peak: schedules.warm_up_linear(peak, 10, STEPS),
        lambda peak: schedules.linear_decay(peak, STEPS),
        lambda peak: schedules.drop(peak, 10, 3.0),
    ],
)
def test_a_traced_peak_gives_what_a_constant_one_gives(make):
    def moved(peak):
        optimizer = optax.sgd(make(peak))
        state = optimizer.init(jnp.float32(0))

        def step(state, _):
            update, state = optimizer.update(jnp.float32(1), state)
            return state, -jnp.asarray(update)

        return jax.lax.scan(step, state, length=STEPS)[1]

    np.testing.assert_allclose(jax.jit(moved)(0.3), values(make(0.3), STEPS - 1), rtol=1e-6, atol=1e-9)


def test_warm_ups_rise_linearly_to_their_peak():
    for make in (schedules.warm_up_cosine, schedules.warm_up_linear):
        np.testing.assert_allclose(values(make(2.0, 10, STEPS))[:10], 2.0 * np.arange(1, 11) / 10, rtol=1e-6)
    np.testing.assert_allclose(values(schedules.warm_up(2.0, 10))[9:], 2.0)
    assert float(schedules.warm_up_cosine(2.0, 0, STEPS)(0)) == 2.0


def test_decays_end_where_they_say():
    assert values(schedules.warm_up_cosine(2.0, 10, STEPS, final=0.1))[-1] == pytest.approx(0.2)
    assert values(schedules.warm_up_linear(2.0, 10, STEPS))[-1] == 0
    assert values(schedules.linear_decay(2.0, STEPS))[-1] == 0
    assert values(schedules.linear_decay(2.0, STEPS, share=0.25))[-1] == pytest.approx(1.5)


def test_beyond_its_last_step_a_rate_stays_where_it_ended():
    for make in (
        schedules.warm_up_cosine(2.0, 3, STEPS, final=0.1),
        schedules.warm_up_linear(2.0, 3, STEPS),
        schedules.linear_decay(2.0, STEPS),
        schedules.linear_decay(2.0, STEPS, share=0.25),
    ):
        late = values(make, STEPS + 5)[STEPS:]
        np.testing.assert_array_equal(late, np.full(6, late[0]))
        assert late[0] >= 0


@pytest.mark.parametrize("warm_up", [0, 1, 3, 5])
def test_a_linear_warm_up_and_decay_are_two_lines(warm_up):
    up, down = np.arange(1, warm_up + 1) / max(1, warm_up), np.arange(5 - warm_up, -1, -1) / max(1, 5 - warm_up)
    rates = values(schedules.warm_up_linear(2.0, warm_up, 5), 5)
    np.testing.assert_allclose(rates, 2.0 * np.append(up, down), rtol=1e-6)


def test_after_its_warm_up_the_cosine_is_that_of_optax():
    ours = values(schedules.warm_up_cosine(2.0, 10, STEPS, final=0.1))[10:]
    theirs = optax.cosine_decay_schedule(2.0, STEPS - 10, alpha=0.1)
    np.testing.assert_allclose(ours, [float(theirs(step)) for step in range(31)], rtol=1e-6)


def test_a_drop_divides_once():
    assert values(schedules.drop(3.0, 2, 3.0), 4).tolist() == [3, 3, 1, 1, 1]


def test_descent_rounds_once_where_the_rate_is_finer_than_the_weights():
    changes, rate = jnp.linspace(1, 2, 50, dtype=jnp.bfloat16), jnp.float32(0.0301)
    ours, theirs = schedules.descent(schedules.constant(rate)), optax.sgd(schedules.constant(rate))
    moved, _ = ours.update(changes, ours.init(changes))
    np.testing.assert_array_equal(moved, (-rate * changes.astype(jnp.float32)).astype(jnp.bfloat16))
    assert np.any(moved != theirs.update(changes, theirs.init(changes))[0])
    falling = schedules.descent(schedules.linear_decay(rate, 1))
    _, later = falling.update(changes, falling.init(changes))
    assert not np.any(falling.update(changes, later)[0])
