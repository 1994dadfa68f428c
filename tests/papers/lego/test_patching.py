"""Which clause carries the value? Patching one clause after another finds the circuit that the theory says."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stairwise as sw
from stairwise.papers.lego import model as theory
from stairwise.papers.lego.decoder import Decoder
from stairwise.papers.lego.task import lego

LENGTH = 4
VALUES = "blocks.0.attn.v"


@partial(jax.jit, static_argnums=1)
def effect_of_clauses(model, call, clean, other):
    """How far the logits move when attention reads clause k of the other sentence, for every k."""
    answer = call(model, clean)
    _, seen = sw.trace(call, model, other)

    def moved(k):
        patched = sw.edit(model, {VALUES: lambda values: values.at[k].set(seen[VALUES][k])})
        return jnp.max(jnp.abs(call(patched, clean) - answer))

    return jax.vmap(moved)(jnp.arange(len(clean)))


def next_clause(model, clauses):
    return model.logits(clauses, LENGTH)


@pytest.mark.parametrize("step", [1, 3])
def test_only_the_predicate_that_is_asked_for_and_the_last_answer_carry_the_value(step):
    task = lego("C6", variables=8, length=LENGTH)
    scores = theory.symmetric_scores(task, 60.0, 0.0, 60.0, 0.0)  # Q picks one predicate and one answer
    model = theory.ideal(task, clip=12.0, rho=0.5, q=4, scores=scores)
    chain = task.sample(jax.random.key(step))
    turned = chain._replace(actions=(chain.actions + 1) % 6, values=(chain.values + 1) % 6)
    order = jnp.array([2, 0, 3, 1])  # predicates in any order: the circuit goes by name, not by place
    clean, other = (task.clauses(one, order)[: LENGTH + 1 + step] for one in (chain, turned))

    effect = effect_of_clauses(model, next_clause, clean, other)

    asked = int(np.flatnonzero(np.asarray(order) == step)[0])
    assert set(np.flatnonzero(np.asarray(effect) > 1e-3)) == {asked, LENGTH + step}


def test_the_same_study_runs_on_the_decoder_that_is_trained():
    draw = np.random.default_rng(0)
    shapes = eqx.filter_eval_shape(Decoder, vocabulary=20, width=8, heads=2, key=jax.random.key(0))
    model = jax.tree.map(lambda leaf: draw.standard_normal(leaf.shape).astype(leaf.dtype), shapes)
    clauses = draw.integers(1, 20, (2, 6, 5)).astype(np.int32)
    effect = effect_of_clauses(model, lambda model, clauses: model(clauses, predicates=3), *clauses)
    assert np.all(np.asarray(effect) > 1e-6)


def names(call, *inputs, **options):
    found = []
    jax.eval_shape(lambda: found.extend(sw.trace(call, *inputs, **options)[1]))
    return " ".join(name.removeprefix("blocks.0.") for name in found)


def test_both_models_name_what_they_compute():
    task = lego("C3", variables=4, length=2)
    clauses = np.zeros((5, 5), dtype=np.int32)
    network = theory.ideal(task, clip=12.0, rho=0.5, q=4)
    assert names(lambda: network.logits(jnp.asarray(clauses), 2)) == "attn.scores attn.pattern attn.v mlp.pre mlp.post"
    decoder = eqx.filter_eval_shape(Decoder, vocabulary=9, width=8, heads=2, key=jax.random.key(0))
    decoder = jax.tree.map(lambda leaf: jnp.asarray(np.zeros(leaf.shape, leaf.dtype)), decoder)
    attention = "embed attn.k attn.v attn.q attn.scores attn.pattern attn.z attn_out"
    perceptron = "resid_mid mlp.pre mlp.post mlp_out resid_post"
    assert names(lambda: decoder(jnp.asarray(clauses), predicates=2)) == f"{attention} {perceptron}"
