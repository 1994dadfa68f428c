"""What is measured of trained models, against loops over sequences and tokens."""

from dataclasses import replace
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from stairwise.papers.composition import encoder, threshold
from stairwise.papers.composition.config import Encoder, Task, Threshold
from stairwise.papers.composition.evaluate import evaluate, leak_by_layer
from stairwise.papers.composition.model import AttentionOnly
from stairwise.papers.composition.plan import layers
from stairwise.papers.composition.task import composition
from stairwise.train.gradient import Training
from stairwise.train.keys import at
from tests.helpers import assert_close
from tests.reference import composition as reference
from tests.trials import running

TINY = Encoder(task=Task(2, 3), hops=(2, 1), test_hops=(1, 2), batch=4, steps=4, warm_up=2, test_examples=3)
TINY = replace(TINY, model=replace(TINY.model, layers=1, width=8, heads=2))


make_encoder = eqx.filter_jit(partial(encoder.make_encoder, TINY))


def permutations(seed, *shape):
    rng = np.random.default_rng(seed)
    *lead, size = shape
    return np.array([rng.permutation(size) for _ in range(int(np.prod(lead)))]).reshape(shape)


def log_softmax(logits):
    return logits - np.log(np.sum(np.exp(logits), axis=-1, keepdims=True))


def right_key(hidden, sequence, layer, token):
    """(i, pi_i(j)) in the first layer, then (i + r, hop_i^r(j)) with the r that has been reached."""
    blocks, alphabet = sequence.shape
    i, j = divmod(token, alphabet)
    if layer == 0:
        return i * alphabet + hidden[i][j]
    hops = 2 ** (layer - 1)
    return (i + hops) % blocks * alphabet + reference.hop(hidden, sequence, i, hops, j)


def test_every_metric_of_the_theorys_model_is_that_of_its_definition():
    blocks, alphabet, tokens, plan, rng = 4, 2, 8, layers(4), np.random.default_rng(3)
    hidden, sequences = permutations(0, blocks, alphabet), permutations(1, 3, blocks, alphabet)
    with jax.enable_x64(True):
        draw = lambda *shape: jnp.asarray(2 * rng.normal(size=shape))  # noqa: E731
        model = AttentionOnly(
            tuple(draw(layer + 2, layer + 2, tokens, tokens) for layer in range(len(plan))),
            draw(len(plan), len(plan) + 2, tokens, alphabet),
            plan=plan,
        )
        task, given = composition(hidden), jnp.asarray(sequences, dtype=jnp.int32)
        found, leaks, heads, attention = eqx.filter_jit(
            lambda model: (
                evaluate(model, task, given),
                leak_by_layer(model, task, given),
                jax.lax.map(model.heads, given),
                jax.lax.map(model.attention, given),
            )
        )(model)
    heads = np.asarray(heads)
    for layer in range(len(plan)):
        labels = np.array([reference.hops_of(hidden, sequence, 2**layer) for sequence in sequences])
        log_p = np.take_along_axis(log_softmax(heads[:, layer]), labels[:, :, None], axis=2)[:, :, 0]
        right = np.argmax(heads[:, layer], axis=2) == labels
        mass = np.array(
            [
                [attention[layer][n, right_key(hidden, sequence, layer, token), token] for token in range(tokens)]
                for n, sequence in enumerate(sequences)
            ]
        )
        hops = ("1 hop", "2 hops", "4 hops")[layer]
        expected = {
            f"loss {hops}": -log_p.mean(),
            f"accuracy {hops}": right.mean(),
            f"exact match {hops}": right.all(axis=1).mean(),
            f"sup error {hops}": 1 - np.exp(log_p).min(),
            f"mass layer {layer + 1}": mass.min(),
            f"attending layer {layer + 1}": (mass > 0.5).mean(),
        }
        assert 0 < expected[f"accuracy {hops}"] < 1
        for name, value in expected.items():
            assert_close(found[name], value, 1e-6)
        assert_close(leaks[layer], 1 - mass.min(), 1e-9)


def test_the_encoders_loss_is_taken_at_the_positions_that_are_supervised():
    trial = running(TINY)
    task, model = encoder.task_of(trial), make_encoder(jax.random.key(1))
    lessons = jax.vmap(lambda n: encoder.training_lesson(trial, task, n))(jnp.arange(5, dtype=jnp.int32))
    modes = ("all", "first", "one")
    found, logits = eqx.filter_jit(
        lambda model: (
            [encoder.batch_loss(replace(TINY, supervise=mode), model, lessons) for mode in modes],
            jax.vmap(model)(lessons.tokens),
        )
    )(model)
    log_p = log_softmax(np.asarray(logits, dtype=np.float64))[:, 1:]
    losses = -np.take_along_axis(log_p, np.asarray(lessons.labels)[:, :, None], axis=2)[:, :, 0]
    queries = np.asarray(lessons.query)
    assert len(set(queries.tolist())) > 1
    assert_close(found, [losses.mean(), losses[:, :3].mean(), losses[np.arange(5), queries].mean()], 1e-5)


def test_the_encoder_is_measured_on_the_test_sequences_at_every_hop():
    trial, counted = running(replace(TINY, supervise="first")), 3
    task, model = encoder.task_of(trial), make_encoder(jax.random.key(2))
    hidden = np.asarray(task.hidden)
    sequences = [np.asarray(task.sequence(at(trial.key("test"), n))) for n in range(3)]
    tokens = jnp.array([[[3 + kind, *s.ravel()] for s in sequences] for kind in range(2)], dtype=jnp.int32)
    found, logits = eqx.filter_jit(
        lambda model: (
            encoder.measure(trial, Training(model, None, jnp.float32(7)), None, 0),
            jax.vmap(jax.vmap(model))(tokens),
        )
    )(model)
    assert float(found["train_loss"]) == 7
    for kind, hops in enumerate((1, 2)):
        log_p = log_softmax(np.asarray(logits[kind], dtype=np.float64))[:, 1 : 1 + counted]
        labels = np.array([reference.hops_of(hidden, sequence, hops) for sequence in sequences])[:, :counted]
        of_label = np.take_along_axis(log_p, labels[:, :, None], axis=2)
        assert_close(found[f"loss {hops}"], -of_label.mean(), 1e-5)
        assert_close(found[f"accuracy {hops}"], (log_p.argmax(axis=2) == labels).mean(), 1e-6)


def test_margins_and_shared_signals_are_those_of_loops():
    config = Threshold(task=Task(4, 2))
    blocks, alphabet, tokens = 4, 2, 8
    g = np.random.default_rng(0).normal(size=(3, 3, tokens, tokens)).astype(np.float32)
    moved = [np.roll(g.reshape(3, 3, 4, 2, 4, 2), (s, s), axis=(2, 4)).reshape(g.shape) for s in range(4)]
    assert_close(threshold.shared(jnp.asarray(g), blocks), np.mean(moved, axis=0), 1e-6)
    hidden, sequence = permutations(2, blocks, alphabet), permutations(3, blocks, alphabet)
    margins = threshold.key_margins(
        config, composition(hidden), 1, jnp.asarray(g), jnp.asarray(sequence, dtype=jnp.int32)
    )
    ones = [list(range(tokens)), [], []]  # where the blocks of the ideal stream have their 1
    ones[1] = [i * alphabet + sequence[i][j] for i in range(blocks) for j in range(alphabet)]
    ones[2] = [i * alphabet + sequence[i][hidden[i][j]] for i in range(blocks) for j in range(alphabet)]
    for query in range(tokens):
        scores = np.array(
            [sum(g[a, b, ones[a][key], ones[b][query]] for a in range(3) for b in range(3)) for key in range(tokens)]
        )
        right = right_key(hidden, sequence, 1, query)
        assert_close(margins[query], scores[right] - np.delete(scores, right).max(), 1e-5)
