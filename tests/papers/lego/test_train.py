"""Facts about training of the practical decoder: data, loss, self-labelling, a small training."""

import math
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.config import ConfigError, structure
from stairwise.papers.lego import train
from stairwise.papers.lego.config.practical import Practical, SelfTraining, Shape
from stairwise.papers.lego.config.task import Task
from stairwise.papers.lego.rollout import roll_out
from stairwise.papers.lego.theory.chains import drawn, sentences
from stairwise.train.keys import role_key
from tests.helpers import assert_close
from tests.trials import run, running

pytestmark = pytest.mark.slow  # trainings: seconds of compiling each

SMALL = Practical(
    task=Task("C3", 8, 2),
    model=Shape(width=32),
    batch=32,
    steps=400,
    learning_rate=3e-3,
    test_lengths=(2, 4),
    test_examples=100,
    measure_every=400,
    keep_weights=True,
)


def test_a_pool_holds_as_many_sentences_as_it_says_and_fresh_ones_never_come_again():
    config = Practical(task=Task("S5", 170, 5), batch=16)

    @jax.jit
    def draw(trial, t):
        return train.draw_sentences(trial, None, None, jax.random.fold_in(jax.random.key(5), t), t)

    def seen(pool: int) -> set[tuple[int, ...]]:
        trial = running(replace(config, samples=pool))
        found = [np.asarray(draw(trial, jnp.int32(t))).reshape(16, -1) for t in range(5)]
        return {tuple(row) for batch in found for row in batch.tolist()}

    assert len(seen(3)) == 3
    assert seen(3) <= seen(4)
    assert len(seen(0)) == 5 * 16


def test_uniform_logits_cost_five_log_d_a_clause():
    @jax.jit
    def blind_loss(clauses):
        model = train.make_decoder(SMALL, jax.random.key(0))
        blind = eqx.tree_at(lambda m: m.unembedding, model, jnp.zeros_like(model.unembedding))
        return train.batch_loss(SMALL, blind, train.Batch(clauses, None))

    task = train.make_task(SMALL.task)
    loss = blind_loss(jnp.asarray(sentences(task, drawn(task, 0, 3)), dtype=jnp.int32))
    assert_close(loss, 5 * 2 * math.log(SMALL.task.vocabulary), 1e-6)


@pytest.fixture(scope="module")
def trained():
    """What a training at L = 2 leaves behind."""
    return run(train.training, SMALL)


def test_a_decoder_trained_at_two_steps_solves_them_and_twice_as_many(trained):
    assert trained.last("exact 2") >= 0.99
    assert trained.last("exact 4") >= 0.9
    assert trained.last("clause 4") <= trained.last("exact 4") <= trained.last("final 4")


def test_a_stage_labels_its_sentences_by_roll_outs_of_the_stored_decoder_and_learns_to_repeat_them(trained):
    model = train.stored_model(SMALL, trained.arrays)
    config = SelfTraining(base=SMALL, lengths=(4,), samples=16, batch=16, steps=30, learning_rate=1e-3)
    stage, task = train.self_training(structure(config))[1], train.make_task(SMALL.task, 4)

    @jax.jit
    def taught(model):
        trial = running(config)
        state = stage.init(trial, model, jax.random.key(0))
        chain = task.example(role_key(0, "sentences of length 4"), 7)
        own = roll_out(model, task.predicates(chain), task.answers(chain)[0], 4)

        def tick(t, carry):
            state, losses = carry
            state = stage.tick(trial, state, jax.random.fold_in(jax.random.key(1), t), t)
            return state, losses.at[t].set(state.loss)

        _, losses = jax.lax.fori_loop(0, 30, tick, (state, jnp.zeros(30, dtype=jnp.float32)))
        return state, own, chain, losses

    state, own, chain, losses = taught(model)
    np.testing.assert_array_equal(state.aux.answers[7], own)
    assert 0.8 <= float(state.aux.exact) <= float(state.aux.step) <= 1
    if float(state.aux.exact) == 1:  # Fact F.1: where the annotator is right, its labels are the truth
        np.testing.assert_array_equal(own, task.answers(chain)[1:])
    assert float(losses[-5:].mean()) < float(losses[:5].mean())


def test_lengths_that_need_more_variables_than_there_are_are_refused():
    with pytest.raises(
        ConfigError, match=r"test_lengths=40 needs 41 variables, which must be at most task\.variables=24"
    ):
        Practical(task=Task("C4", 24, 5))
    with pytest.raises(ConfigError, match="lengths=80 must be at most the longest length that base sees, 40"):
        SelfTraining(lengths=(10, 80))
