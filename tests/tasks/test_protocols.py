"""Tasks of papers keep what their protocols promise, and train any model that reads their kind of input."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jaxtyping import Array, Float

from stairwise.nn.transformer import Transformer
from stairwise.papers.composition.task import Composition, Hops, draw_hidden
from stairwise.papers.lego.task import lego
from stairwise.papers.selection.task import SparseSelection
from stairwise.tasks.parity import ParityTokens
from stairwise.tasks.protocols import Sentence, sentence_loss
from stairwise.train.gradient import gradient_training
from stairwise.train.loop import Member, Program
from stairwise.train.schemes import supervised
from tests.tasks import protocol

HIDDEN = eqx.filter_jit(draw_hidden)(jax.random.key(3), 3, 4)
MAPS = Composition(HIDDEN)
TASKS = {
    "selection": SparseSelection(6, 2, 3),
    "composition, at every query": Hops(MAPS, 2),
    "composition, block 0 only": Hops(Composition(HIDDEN, cyclic=False), 3),
    "composition, step by step": Hops(MAPS, 3, reads="next"),
    "lego": lego("C3", variables=5, length=3),
    "lego, an action that is not free": lego("S3", variables=4, length=2),
    "parity_cot": ParityTokens(6, jnp.array([4, 0, 2], dtype=jnp.int32), size=2),
    "parity_onestep, balanced": ParityTokens(6, jnp.array([0, 2, 3, 5], dtype=jnp.int32), size=4, by="balanced"),
    "parity_onestep, chain": ParityTokens(6, jnp.array([0, 2, 3, 5], dtype=jnp.int32), size=3, by="chain"),
}


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS.keys())
def test_a_task_keeps_what_its_protocols_promise(task):
    protocol.check(task)


@pytest.mark.parametrize("slots", [(), (2,)])
def test_the_loss_of_a_sentence_is_the_weighted_mean_over_what_is_asked(slots):
    random = np.random.default_rng(0)
    logits = random.standard_normal((4, *slots, 3)).astype(np.float32)
    targets, weights = random.integers(0, 3, (4, *slots)), np.resize([2.0, 0.0, 1.0], (4, *slots)).astype(np.float32)
    expected = 0.0
    for place in np.ndindex(targets.shape):
        chances = np.exp(logits[place]) / np.exp(logits[place]).sum()
        expected -= weights[place] * np.log(chances[targets[place]]) / weights.sum()
    told = Sentence(jnp.zeros_like(targets), jnp.asarray(targets), jnp.asarray(weights))
    assert float(sentence_loss(jnp.asarray(logits), told)) == pytest.approx(expected, rel=1e-5)


def transformer(task, length, key):
    return Transformer(
        vocab=task.vocabulary,
        width=8,
        layers=1,
        heads=2,
        causal=task.causal,
        positions="learned",
        max_length=length,
        outputs=task.vocabulary,
        key=key,
    )


def losses(task, model, supervision, steps=30):
    stage = gradient_training(
        **supervised(task, 16, supervision),
        model=model,
        optimizer=optax.adam(0.01),
        steps=steps,
        measure_at=(1, steps),
    )
    return Program([stage]).run([Member(0)])[0].value


def test_a_decoder_trains_on_the_steps_of_a_task():
    task = Hops(MAPS, 2, reads="next")
    first, last = losses(task, lambda trial, key: transformer(task, 16, key), "chain")
    assert first == pytest.approx(math.log(task.vocabulary), rel=0.05)
    assert last < 0.9 * first


def test_a_secret_may_come_from_the_seed():
    like = Hops(MAPS, 1)
    first, last = losses(
        lambda trial: Hops(Composition(draw_hidden(trial.key("hidden"), 3, 4)), 1),
        lambda trial, key: transformer(like, 13, key),
        "every query",
    )
    assert last < 0.9 * first


class Mean(eqx.Module):
    """A multiple of the mean token, at every position."""

    factor: Float[Array, ""]

    def __call__(self, inputs):
        return jnp.broadcast_to(self.factor * jnp.mean(inputs[:, :-1], axis=0), inputs[:, :-1].shape)


def test_a_model_of_vectors_trains_on_a_task_of_vectors():
    """With q = T the answer is the mean of all tokens."""
    first, last = losses(SparseSelection(4, 4, 2), lambda trial, key: Mean(jnp.float32(0)), "answer", steps=200)
    assert last < 0.1 * first


def test_a_supervision_that_a_task_does_not_have_is_refused():
    with pytest.raises(ValueError, match=r"supervision=tree must be one of answer, every query \(Hops\)"):
        losses(Hops(MAPS, 2), lambda trial, key: transformer(Hops(MAPS, 2), 13, key), "tree")
    with pytest.raises(ValueError, match="SparseSelection tells no sentences, so it has no supervision=chain"):
        losses(SparseSelection(4, 2, 2), lambda trial, key: jnp.float32(0), "chain")
