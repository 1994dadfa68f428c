"""Gradients by counts: equal to autodiff at saturation, the same weights as the soft path, and the guard."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.config import structure
from stairwise.papers.composition import integer, rules, train
from stairwise.papers.composition.config import Descent, Task
from stairwise.papers.composition.constructions import any_blocks
from stairwise.papers.composition.model import AttentionOnly, untrained
from stairwise.papers.composition.task import Composition, draw_hidden
from stairwise.train.loop import Member, Program
from tests.helpers import assert_close


def ideal_below(hidden, depth, beta0):
    """Theorem 4 (or its extension) in the first `depth` layers at beta = 800, the start above."""
    blocks, alphabet = hidden.shape
    ideal = any_blocks(hidden, 800.0, dtype="float64")
    start = untrained(ideal.plan, blocks, alphabet, beta0, dtype="float64")
    return AttentionOnly((*ideal.key_query[:depth], *start.key_query[depth:]), start.readout, plan=ideal.plan)


@pytest.mark.parametrize(("size", "t"), [((4, 4), 0), ((4, 4), 1), ((4, 4), 2), ((3, 4), 2)])
def test_counts_give_the_gradients_of_autodiff_where_the_layers_below_are_saturated(size, t):
    with jax.enable_x64(True):
        hidden, beta0 = draw_hidden(jax.random.key(5), *size), 0.8
        sequences, queries = train.draw_samples(Composition(hidden), jax.random.key(1), 0, 64)

        @jax.jit
        def key_query_gradients(hidden, sequences, queries):
            task, model = Composition(hidden), ideal_below(hidden, t, beta0)

            def loss(W):
                changed = replace(model, key_query=(*model.key_query[:t], W, *model.key_query[t + 1 :]))
                return jnp.mean(jax.vmap(partial(rules.one_hop_loss, t, task, changed))(sequences, queries))

            counts = integer.add_pairs(integer.no_counts(t, hidden.size), model.plan, t, hidden, sequences, queries)
            counted = integer.key_query_gradient(counts, size[1], beta0, 64, dtype="float64")
            return counted, jax.grad(loss)(model.key_query[t])

        @jax.jit
        def readout_gradients(hidden, sequences, queries):
            task, model = Composition(hidden), ideal_below(hidden, t + 1, beta0)
            columns = jax.vmap(model.columns)(sequences, queries)
            labels = jax.vmap(partial(rules.labels_at, task, model))(sequences, queries)[:, t]

            def loss(readout):
                return jnp.mean(rules.cross_entropy(jnp.einsum("sbu,bun->sn", columns, readout), labels))

            empty = jnp.zeros(model.readout.shape[1:], dtype=jnp.int32)
            letters = integer.add_letters(empty, model.plan, hidden, sequences, queries, t)
            counted = integer.readout_gradient(letters, t, beta0, 64, dtype="float64")
            return counted, jax.grad(loss)(model.readout[t])

        for gradients in (key_query_gradients, readout_gradients):
            counted, differentiated = gradients(hidden, sequences, queries)
            assert np.abs(counted).max() > 1e-4
            assert np.abs(counted - differentiated).max() < 1e-14


TINY = Descent(task=Task(2, 3), samples=4096, block=1024, learning_rate=5e3, test_examples=4, guard_sequences=4)


@pytest.fixture(scope="module")
def tiny_programs():
    """The two paths, each compiled once."""
    return {path: Program(train.descent(structure(replace(TINY, path=path)))) for path in ("exact", "integer")}


def both_paths(programs, config):
    """What a trial leaves behind, by counts and by autodiff."""
    return [programs[path].run([Member(0, replace(config, path=path))])[0] for path in ("integer", "exact")]


def test_both_paths_of_algorithm_1_find_the_same_weights(tiny_programs):
    counted, plain = both_paths(tiny_programs, TINY)
    assert set(counted.stage) == {"integer"}
    for layer in (1, 2):
        assert_close(counted.arrays[f"integer/key_query{layer}"], plain.arrays[f"exact/key_query{layer}"], 1e-4)
    assert_close(counted.arrays["integer/readout"], plain.arrays["exact/readout"], 1e-4)


def test_the_guard_hands_over_to_autodiff_where_a_layer_below_leaks(tiny_programs):
    found, plain = both_paths(tiny_programs, replace(TINY, learning_rate=50.0))
    taken = {stage: value for stage, name, value in zip(found.stage, found.name, found.value, strict=True)
             if name == "steps taken"}  # fmt: skip
    # the first layer has nothing below; its readout already builds on it
    assert taken == {"integer": 1, "exact": TINY.turns}
    assert (
        found.last("leak below") > TINY.saturation
    )  # what stopped the counting, not a zero of the path without a guard
    assert "leak below" not in plain.name
    for layer in (1, 2):
        assert_close(found.arrays[f"exact/key_query{layer}"], plain.arrays[f"exact/key_query{layer}"], 1e-4)
