"""The pieces of Algorithms 1 and 2: which samples a step sees, what it moves, and by how much."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.papers.composition import encoder, rules, threshold, train
from stairwise.papers.composition.config import Descent, Encoder, Task, Threshold, Values
from stairwise.papers.composition.theory import exact
from tests.helpers import assert_close
from tests.reference import composition as reference
from tests.trials import running

SMALL = Descent(task=Task(2, 3), samples=6, block=3, learning_rate=0.7, beta0=0.6, test_examples=4)


@pytest.mark.parametrize(
    ("changes", "batches"),
    [
        ({}, [0, 0, 1, 1, 2, 2]),
        ({"readout_batch": "fresh"}, [0, 1, 2, 3, 4, 5]),
        ({"algorithm": "mixture"}, [0, 1, 2, 2]),
        ({"algorithm": "mixture", "readout_batch": "fresh"}, [0, 1, 2, 3]),
        ({"algorithm": "mixture", "fresh": False}, [0, 0, 0, 0]),
        ({"algorithm": "mixture", "fresh": False, "readout_batch": "fresh"}, [0, 0, 0, 1]),
    ],
)
def test_a_step_sees_the_batch_that_its_algorithm_gives_it(changes, batches):
    config = Descent(task=Task(4, 3), **changes)
    turns = range(config.turns)
    assert [int(train.batch_of(config, turn)) for turn in turns] == batches
    readouts = [bool(train.is_readout(config, turn)) for turn in turns]
    curriculum = config.algorithm == "curriculum"
    assert readouts == ([False, True] * 3 if curriculum else [False] * 3 + [True])
    assert [name.startswith("Psi") for name in train.step_names(config)] == readouts
    assert [int(train.layer_of(config, turn)) for turn in turns][:3] == ([0, 0, 1] if curriculum else [0, 1, 2])


def test_training_steps_and_tests_share_no_sequence():
    trial = running(Descent(task=Task(4, 5), test_examples=8))
    seen = [train.samples(trial, turn, 0, 8)[0] for turn in (0, 2)]
    sequences = np.concatenate([*map(np.asarray, seen), np.asarray(train.test_sequences(trial))])
    assert len({sequence.tobytes() for sequence in sequences}) == 24
    again = train.samples(trial, 2, 3, 5)[0]  # numbers 3..7 of the same batch
    np.testing.assert_array_equal(again, seen[1][3:])


@pytest.mark.parametrize("algorithm", ["curriculum", "mixture"])
def test_both_steps_are_gradient_steps_on_the_mean_loss_of_their_heads(algorithm):
    config, hidden = replace(SMALL, algorithm=algorithm), np.array([[1, 2, 0], [0, 2, 1]])
    with jax.enable_x64(True):
        trial = running(config)
        task, way = train.Composition(jnp.asarray(hidden, dtype=jnp.int32)), rules.soft(config)
        rng, model = np.random.default_rng(0), train.start(trial)
        model = jax.tree.map(lambda W: jnp.asarray(rng.normal(size=W.shape)), model)
        if algorithm == "curriculum":  # a head reads no block above its own until its own step
            model = exact.with_readout(model, model.readout.at[0, 3].set(0))
        sequences, queries = train.draw_samples(task, jax.random.key(1), 0, 6)
        examples = exact.labelled(hidden, 2, np.asarray(sequences), np.asarray(queries))

        @eqx.filter_jit
        def steps(model):
            total = way.key_query[0](task, model, way.zero(model), sequences, queries)
            first = way.apply(trial, model, total, 0)
            total = way.readout(task, model, way.zero(model), sequences, queries, 0)
            return first, way.apply(trial, model, total, 0)[0]

        (stepped, sizes), read = steps(model)
        heads = (1,) if algorithm == "curriculum" else (1, 2)
        gradient = exact.mean_gradient(model, exact.of_heads(examples, *heads))
        for layer in range(2):
            slope = 0.7 * gradient.key_query[layer]
            assert_close(model.key_query[layer] - stepped.key_query[layer], slope, 1e-6)
            assert_close(sizes[layer], jnp.max(jnp.abs(slope)), 1e-6)
            np.testing.assert_array_equal(read.key_query[layer], model.key_query[layer])
        assert_close(model.readout - read.readout, 0.7 * gradient.readout, 1e-6)
        np.testing.assert_array_equal(stepped.readout, model.readout)


def test_only_the_current_layer_gets_a_gradient_where_only_that_one_is_trained():
    matrices = tuple(jnp.full((2,), 1.0 + layer, dtype=jnp.float32) for layer in range(3))
    for trained, moved in (("all", [1, 1, 1]), ("current", [0, 1, 0])):
        config = replace(SMALL, trained=trained)
        slopes = jax.grad(lambda given, config=config: sum(jnp.sum(W) for W in rules._held(config, 1, given)))(matrices)
        assert [float(slope[0]) for slope in slopes] == moved


def test_value_matrices_start_at_a_multiple_of_the_identity_plus_noise():
    values = Values(free=True, scale=0.5, noise=2.0)
    trial = running(replace(SMALL, task=Task(4, 5), values=values))
    for V in train.start_values(trial):
        noise = np.asarray(V) - 0.5 * np.eye(20)
        assert abs(noise.std() / (2 / np.sqrt(20)) - 1) < 0.15  # of 400 entries


def test_the_hops_of_the_pool_take_turns():
    trial = running(Encoder(task=Task(2, 3), hops=(2, 1), test_hops=(1, 2)))
    task = encoder.task_of(trial)
    lessons = jax.jit(jax.vmap(lambda n: encoder.training_lesson(trial, task, n)))(jnp.arange(6, dtype=jnp.int32))
    assert lessons.tokens[:, 0].tolist() == [4, 3] * 3  # N + the place of the hop among (1, 2)
    for n, tokens in enumerate(np.asarray(lessons.tokens)):
        labels = reference.hops_of(np.asarray(task.hidden), tokens[1:].reshape(2, 3), (2, 1)[n % 2])
        assert lessons.labels[n].tolist() == labels


def test_what_the_samples_would_give_is_counted_over_all_test_tokens():
    config = Threshold(task=Task(2, 3), block=8, test_examples=5)
    trial = running(config)
    task = train.task_of(config.task, trial)

    @jax.jit
    def both():
        state = threshold.tick(trial, threshold.init(trial, None, None), None, jnp.int32(0))
        signals = [threshold.signal(counts, 3, state.samples) for counts in state.counts]
        signals = [signals[0], signals[1], threshold.shared(signals[1], 2)]
        margins = [
            jax.vmap(lambda s, l=layer, g=g: threshold.key_margins(config, task, l, g, s))(train.test_sequences(trial))
            for layer, g in zip((0, 1, 1), signals, strict=True)
        ]
        return threshold.measure(trial, state, None, 1), margins

    found, margins = both()
    assert int(found["samples"]) == 8
    names = ("layer 1", "layer 2", "layer 2 shared")
    wrong = {name: float(np.mean(np.asarray(margin) <= 0)) for name, margin in zip(names, margins, strict=True)}
    assert 0 < max(wrong.values()) < 1
    for name, margin in zip(names, margins, strict=True):
        assert_close(found[f"wrong {name}"], wrong[name], 1e-6)
        assert_close(found[f"margin {name}"], np.min(margin) * 2 * 9, 1e-5)  # in units of 1/(kN^2)
    assert_close(found["wrong"], max(wrong["layer 1"], wrong["layer 2"]), 1e-6)
    assert_close(found["wrong shared"], max(wrong["layer 1"], wrong["layer 2 shared"]), 1e-6)
