"""The guide to looking inside: its code does what it says, and its table has the names that the models have."""

import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stairwise as sw
from stairwise.nn.transformer import Transformer
from stairwise.papers.composition.model import untrained
from stairwise.papers.composition.plan import layers
from stairwise.papers.lego import model as lego_theory
from stairwise.papers.lego.decoder import Decoder
from stairwise.papers.lego.task import lego
from stairwise.papers.parity_cot import simplified
from stairwise.papers.parity_onestep.model import PositionalAttention
from stairwise.papers.selection.model import SelectionAttention
from stairwise.tasks.decomposition import balanced
from tests.guides.page import python, text

PAGE = text("how-to/look-inside")
INTEGERS = jnp.int32


@pytest.mark.slow
def test_the_code_of_the_guide_does_what_it_says():
    place: dict = {}
    for block in python(PAGE):
        exec(compile(block, "docs/how-to/look-inside.md", "exec"), place)
    assert place["seen"]["blocks.0.attn.pattern"].shape == (2, 4, 4)
    np.testing.assert_allclose(place["logits"], place["outputs"], rtol=1e-4, atol=1e-6)
    assert list(place["inside"]) == ["mlp.post"]
    assert np.flatnonzero(place["moves"]).tolist() == [2, 6]


def calls():
    """One call per row of the table, in its order."""
    numbers, whole = (lambda *shape: jnp.zeros(shape, jnp.float32)), (lambda *shape: jnp.zeros(shape, INTEGERS))
    key, task = jax.random.key(0), lego("C3", variables=4, length=2)
    sizes = {"vocab": 5, "width": 8, "layers": 1, "heads": 2, "causal": True, "positions": "none"}
    tree = balanced(jnp.arange(4, dtype=INTEGERS), 4)
    yield lambda: (Transformer(**sizes, key=key), whole(4))
    yield lambda: (Decoder(vocabulary=9, width=8, heads=2, key=key), whole(5, 5), 2)
    yield lambda: (lego_theory.ideal(task, clip=12.0, rho=0.5, q=4).logits, whole(5, 5), 2)
    yield lambda: (untrained(layers(2), 2, 3, 1.0).heads, whole(2, 3))
    yield lambda: (SelectionAttention(numbers(5, 5), numbers(3, 5)), numbers(4, 3), numbers(4, 2), numbers(5))
    yield lambda: (PositionalAttention(numbers(7, 3), tree).by_levels, numbers(4))
    tables = simplified.Tables(numbers(4, 6), numbers(4, 6), numbers(6, 6))
    yield lambda: (simplified.outputs, tables, numbers(4), whole(3), 1)


def test_the_table_has_the_names_that_each_model_has():
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    for row, call in zip(rows, calls(), strict=True):
        met: list[str] = []
        eqx.filter_eval_shape(lambda call=call, met=met: met.extend(sw.trace(*call())[1]))
        names = dict.fromkeys(re.sub(r"levels\.\d", "levels.1", re.sub(r"^blocks\.\d\.", "", name)) for name in met)
        assert re.findall(r"`([^`]+)`", row.split("|")[-2]) == list(names), row


def test_edits_reach_the_papers_own_networks():
    network = untrained(layers(2), 2, 3, 1.0)
    sequence = jnp.array([[1, 2, 0], [0, 1, 2]], dtype=INTEGERS)

    def look(at_once):
        edited = sw.edit(network, {"blocks.0.attn.pattern": lambda pattern: jnp.eye(len(pattern))})
        if at_once:
            return edited.heads(sequence)
        return jax.vmap(lambda query: edited.heads_at(sequence, query), out_axes=1)(jnp.arange(6, dtype=INTEGERS))

    np.testing.assert_allclose(jax.jit(look, static_argnums=0)(True), jax.jit(look, static_argnums=0)(False), atol=1e-6)
    tree = balanced(jnp.arange(4, dtype=INTEGERS), 4)
    parity = PositionalAttention(jnp.zeros((7, 3), jnp.float32), tree)
    edited = sw.edit(parity, {"blocks.0.attn.pattern": lambda _: tree.is_child().astype(jnp.float32) / 2})
    inputs = jnp.array([1, -1, -1, -1], dtype=jnp.float32)
    levels, tokens = jax.jit(lambda model: (model.by_levels(inputs), model.by_tokens(inputs)))(edited)
    np.testing.assert_allclose(levels, tree.complete(inputs), atol=1e-5)  # attention to children alone computes parity
    np.testing.assert_allclose(tokens, levels, atol=1e-5)
