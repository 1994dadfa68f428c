"""The model of parity in one step: links, roll-outs, the filter."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.config import ConfigError
from stairwise.papers.parity_onestep.config import Augmentation, Descent, LinkFunction, PaddedTask, Rate, Task
from stairwise.papers.parity_onestep.links import COS, POLY4, make_link, requ
from stairwise.papers.parity_onestep.model import Filter, PositionalAttention
from stairwise.tasks.decomposition import balanced
from stairwise.tasks.parity import cube
from tests.helpers import assert_close
from tests.reference import parity_onestep as reference

SUBSET = (0, 2, 3, 5, 7)
LINKS = [POLY4, COS, requ(4.0), requ(2.5), requ(2.1)]


def model(seed=0, mask="causal", link=POLY4, scale=2.0, subset=SUBSET, bits=8):
    tree = balanced(jnp.array(subset, dtype=jnp.int32), bits)
    W = scale * np.random.default_rng(seed).normal(size=(tree.tokens, tree.nodes))
    return PositionalAttention(jnp.asarray(W), tree, link, mask)


def square(W, bits):
    """W with its unused columns, as the reference takes it."""
    return np.concatenate([np.zeros((len(W), bits)), np.asarray(W)], axis=1)


@pytest.mark.parametrize("link", LINKS, ids=lambda link: link.name)
def test_links_turn_means_of_signs_into_products_and_are_flat_there(link):
    with jax.enable_x64(True):
        t = jnp.linspace(-1, 1, 4001, dtype=jnp.float64)
        ends = jnp.array([-1.0, 0.0, 1.0], dtype=jnp.float64)
        assert_close(link(ends), [1.0, -1.0, 1.0], 1e-12)
        assert np.abs(np.asarray(link.derivative(ends))).max() < 1e-12
        assert_close(link(t), link(-t), 1e-15)
        assert_close(link.derivative(t), jax.vmap(jax.grad(link.value))(t), 1e-12)
        small = jnp.array([1e-4], dtype=jnp.float64)
        assert_close((link(small) + 1) / small**2, [link.curvature], 1e-6)
        assert_close((1 - link(1 - small)) / small**2, [link.end_curvature], 1e-3)
        steepest = float(jnp.max(jnp.abs(link.derivative(t))))
    assert link.steepest > 2
    assert steepest == pytest.approx(link.steepest, rel=1e-5)


@pytest.mark.parametrize("mask", ["causal", "block"])
@pytest.mark.parametrize("link", [POLY4, COS], ids=lambda link: link.name)
def test_the_roll_out_is_the_fixed_point_of_the_dense_transformer(mask, link):
    with jax.enable_x64(True):
        made = model(mask=mask, link=link)
        inputs = cube(8)[[3, 77, 200]].astype(np.float64)
        rolled = jax.vmap(made.by_tokens)(jnp.asarray(inputs))
        visible = reference.visibility(mask, made.tree.height.tolist(), 8)
        for x, tokens in zip(inputs, rolled, strict=True):
            expected = reference.generate(square(made.W, 8), x, visible, reference.link(link.name))
            assert_close(tokens, expected, 1e-12)


def test_levels_and_tokens_agree_under_the_block_mask():
    with jax.enable_x64(True):
        made = model(mask="block", subset=(0, 1, 2, 3, 4, 6, 7))
        inputs = jnp.asarray(cube(8)[::17].astype(np.float64))
        assert_close(jax.vmap(made.by_levels)(inputs), jax.vmap(made.by_tokens)(inputs), 1e-13)


def test_a_closed_level_outputs_zero_and_the_rest_follows_the_reference():
    with jax.enable_x64(True):
        made = model(mask="block", subset=(0, 1, 2, 3, 4, 6, 7, 5))
        heights = made.tree.height.tolist()
        for gates in ([True, False, True], [True, True, False]):
            x = cube(8)[99].astype(np.float64)
            visible = reference.visibility("block", heights, 8)
            expected = reference.generate(square(made.W, 8), x, visible, reference.link("poly4"), gates, heights)
            tokens = made.by_levels(jnp.asarray(x), jnp.array(gates))
            assert_close(tokens, expected, 1e-12)
            closed = [8 + i for i, h in enumerate(heights) if not gates[h - 1]]
            assert np.all(np.asarray(tokens)[closed] == 0)


def untrained(bits=32, size=16):
    tree = balanced(jnp.arange(size, dtype=jnp.int32), bits)
    W = jnp.zeros((tree.tokens, tree.nodes), dtype=jnp.float32)
    return PositionalAttention(W, tree, POLY4, "block")


def unlabelled(count=16, bits=32):
    return jnp.asarray((1 - 2 * np.random.default_rng(0).integers(0, 2, (count, bits))).astype(np.float32))


def test_the_filter_closes_all_untrained_levels_only_for_eps0_between_one_and_two():
    made, U = untrained(), unlabelled()
    assert made.gates(U, Filter(1.5)).tolist() == [True, False, False, False]
    # a zeroed token is at distance 1 from -1, so below 1 every other level opens again
    assert made.gates(U, Filter(0.99)).tolist() == [True, False, True, False]
    assert made.gates(U, Filter(0.99, propagate=True)).tolist() == [True, False, False, False]
    assert made.gates(U, Filter(0.0)).tolist() == [True] * 4


def test_the_readings_of_the_filter_differ_when_one_node_of_a_level_is_informative():
    made, U = untrained(), unlabelled()
    W = made.W.at[made.tree.children[0], 0].set(20.0)
    one_trained = PositionalAttention(W, made.tree, POLY4, "block")
    assert one_trained.gates(U, Filter(1.5, "exists")).tolist() == [True, False, False, False]
    assert one_trained.gates(U, Filter(1.5, "forall")).tolist()[:2] == [True, True]


def test_a_solved_level_opens_the_next_unless_all_its_inputs_look_alike():
    made = untrained()
    W = made.W
    for node in range(8):
        W = W.at[made.tree.children[node], node].set(20.0)
    solved = PositionalAttention(W, made.tree, POLY4, "block")
    assert solved.gates(unlabelled(), Filter(1.5)).tolist() == [True, True, False, False]
    # two inputs on which every node of level 1 is -1 say nothing
    dull = jnp.asarray(np.tile([1.0, -1.0], 16)[None].repeat(2, axis=0).astype(np.float32))
    assert solved.gates(dull, Filter(1.5)).tolist() == [True, False, False, False]
    both = jnp.concatenate([dull, unlabelled()])
    assert solved.gates(both, Filter(1.5), 2).tolist() == [True, False, False, False]
    assert solved.gates(both, Filter(1.5)).tolist() == [True, True, False, False]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Task(8, 9), "size=9 must be at most bits=8"),
        (lambda: Task(8, 2, (1, 1)), "secret=1 must not be repeated"),
        (lambda: Task(8, 2, (1, 8)), "secret=8 must be below bits=8"),
        (lambda: Task(8, 3, (1, 2)), "secret has 2 entries, which must be size=3"),
        (lambda: PaddedTask(65, 2), "bits=65 must be at most slots=64"),
        (lambda: Rate(lam=0.0), "lam=0.0 must be above 0"),
        (lambda: Rate(lam=-1.0), "lam=-1.0 must be above 0"),
        (lambda: Augmentation(eps0=2.0), "eps0=2 must be below 2 (from there on the filter never opens)"),
        (lambda: Augmentation(eps0=-0.5), "eps0=-0.5 must be at least 0 and at most 4"),
        (lambda: LinkFunction("requ", 2.0), "slope=2.0 must be above 2 and at most 4"),
        (lambda: requ(4.5), "slope=4.5 must be above 2 and at most 4 (requ)"),
        (lambda: make_link("relu"), "link=relu must be one of poly4, cos, requ"),
        (lambda: Descent(block=33), "block=33 must be a multiple of 32"),
        (lambda: Descent(looks=(100,)), "looks=100 must be a multiple of block=4096 in 1..samples=131072"),
        (lambda: Descent(forcing=False), "mask=causal must be block without teacher forcing or with a filter"),
        (lambda: Descent(samples=0), "samples=0 must be at least 1 and at most 2147483647"),
    ],
)
def test_bad_values_are_refused_in_one_line(make, message):
    with pytest.raises((ConfigError, ValueError)) as caught:
        make()
    assert str(caught.value) == message


def test_an_eps0_of_at_most_one_warns_unless_it_is_propagated_or_meant():
    with pytest.warns(UserWarning, match="eps0=0.9 should be above 1"):
        Augmentation(eps0=0.9)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        Augmentation(eps0=0.9, propagate=True)
        Augmentation(eps0=2.5, literal=True)
    assert heard == []
