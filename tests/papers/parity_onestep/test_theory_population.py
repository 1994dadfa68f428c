"""Exact gradients and their noise: closed forms, convolutions over the forest, the whole cube, the dense model."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stairwise.papers.parity_onestep.links import make_link
from stairwise.papers.parity_onestep.theory import census, expansion, noise, population, staircase
from stairwise.tasks.parity import Parity, cube
from tests.helpers import assert_close
from tests.reference import parity_onestep as reference

LINKS = (("poly4", 4.0), ("cos", 4.0), ("requ", 4.0), ("requ", 2.5), ("requ", 2.1))
TREES = ((6, 4, "balanced"), (6, 6, "balanced"), (6, 5, "balanced"), (6, 5, "chain"), (5, 2, "balanced"))


@pytest.fixture(autouse=True)
def in_float64():
    with jax.enable_x64(True):
        yield


def first_bits(d, k, tree="balanced"):
    return Parity(d, tuple(range(k)), tree).decomposition


def limits(tree, mask):
    ends, height = tree.level_ends(), np.asarray(tree.height)
    return [tree.slots + i if mask == "causal" else int(ends[height[i] - 1]) for i in range(tree.nodes)]


def mean_gradient(tree, mask, link):
    """The exact mean gradient, tokens by nodes."""
    children, found = np.asarray(tree.children), np.zeros((tree.tokens, tree.nodes))
    for i, visible in enumerate(limits(tree, mask)):
        law = population.node_law(children, tree.slots, i, visible - tree.slots)
        found[:visible, i] = population.node_gradient(law, link)
    return found


def loss_at_zero(tree, mask, link):
    children = np.asarray(tree.children)
    laws = [population.node_law(children, tree.slots, i, v - tree.slots) for i, v in enumerate(limits(tree, mask))]
    return sum(population.node_loss(law, link) for law in laws)


def test_the_cube_values_of_the_specification():
    for d, k, loss, column in (
        (8, 4, 2.1500789089, {0.01380864: 4, 0.01288704: 4, -0.05339136: 2}),
        (8, 8, 5.2485285445, {0.00423917: 8, 0.00379475: 4, -0.02454621: 2}),
    ):
        tree = first_bits(d, k)
        assert abs(loss_at_zero(tree, "causal", make_link("poly4")) - loss) < 1e-10
        found = mean_gradient(tree, "causal", make_link("poly4"))[:-1, -1]
        for value, count in column.items():
            assert np.sum(np.abs(found - value) < 1e-8) == count


@pytest.mark.parametrize("mask", ["causal", "block"])
@pytest.mark.parametrize(("d", "k", "shape"), TREES)
def test_the_convolution_gives_the_gradient_of_the_dense_model_on_the_cube(d, k, shape, mask):
    tree = first_bits(d, k, shape)
    build = reference.queue_tree if shape == "balanced" else reference.chain_tree
    children, heights = build(range(k), d)
    visible = reference.visibility(mask, heights, d)
    entries = [(row, column) for row in range(d + k - 1) for column in (d, d + k - 2) if visible[row][column]]
    data, W = reference.inputs(d), np.zeros((d + k - 1, d + k - 1))
    for name in ("poly4", "cos"):
        phi = reference.link(name)
        dense = reference.gradient(
            lambda W, phi=phi: reference.forced_loss(W, data, children, visible, phi), W, entries
        )
        found = mean_gradient(tree, mask, make_link(name))
        assert_close(found[:, [0, k - 2]], dense[:, [d, d + k - 2]], 1e-12)
        assert_close(
            loss_at_zero(tree, mask, make_link(name)), reference.forced_loss(W, data, children, visible, phi), 1e-12
        )


@pytest.mark.parametrize("bits", [4, 5, 8, 13, 16])
def test_the_closed_forms_at_the_first_node_are_exact(bits):
    law = population.node_law(np.array([[0, 1]]), bits, 0, 0)
    for name, closed in (("poly4", population.first_node_poly4), ("cos", population.first_node_cos)):
        form, found = closed(bits), population.node_gradient(law, make_link(name))
        assert_close(found, np.array([form.child] * 2 + [form.other] * (bits - 2)), 1e-12)
        x = cube(bits).astype(np.float64)
        terms = expansion.terms(x, x[:, 0] * x[:, 1], make_link(name))
        assert_close(terms.gradient, found, 1e-12)


@pytest.mark.parametrize(("name", "slope"), LINKS)
@pytest.mark.parametrize(("d", "k", "shape"), [(10, 7, "balanced"), (10, 8, "balanced"), (9, 6, "chain")])
def test_mean_and_noise_of_every_node_are_those_of_the_cube(d, k, shape, name, slope):
    tree, link = first_bits(d, k, shape), make_link(name, slope)
    children = np.asarray(tree.children)
    x = census.complete(children, cube(d).astype(np.float64))
    for mask in ("causal", "block"):
        for i, visible in enumerate(limits(tree, mask)):
            z = x[:, :visible].mean(axis=1)
            A = (np.asarray(link.value(z)) - x[:, d + i]) * np.asarray(link.derivative(z))
            samples = A[:, None] * (x[:, :visible] - z[:, None]) / visible
            law = population.node_law(children, d, i, visible - d)
            one, two = children[i]
            spread = population.node_spread(law, link, (int(one), int(two)))
            assert_close(population.node_gradient(law, link), samples.mean(axis=0), 1e-12)
            assert_close(spread.entry, samples.std(axis=0), 1e-9)
            assert_close(spread.common, (samples[:, one] + samples[:, two]).std() / 2, 1e-9)
            assert_close(spread.difference, (samples[:, one] - samples[:, two]).std(), 1e-9)


def test_tokens_of_one_kind_have_one_gradient_and_children_of_a_complete_tree_agree():
    tree = first_bits(24, 16)
    for i, visible in enumerate(limits(tree, "causal")):
        law = population.node_law(np.asarray(tree.children), 24, i, visible - 24)
        found = population.node_gradient(law, make_link("poly4"))
        one, two = np.asarray(tree.children)[i]
        assert abs(found[one] - found[two]) <= 1e-15
        assert abs(law.chance.sum() - 1) < 1e-12


def test_children_of_an_uneven_tree_are_pulled_apart_whatever_the_number_of_samples():
    tree = first_bits(8, 5)
    found = mean_gradient(tree, "causal", make_link("poly4"))
    one, two = np.asarray(tree.children)[-1]
    assert abs(found[one, -1] / found[two, -1] - 1) > 0.1


@pytest.mark.parametrize("mask", ["causal", "block"])
@pytest.mark.parametrize(("d", "k", "shape"), [(9, 7, "balanced"), (10, 8, "balanced"), (9, 6, "chain")])
def test_the_means_of_the_first_two_terms_have_closed_forms(d, k, shape, mask):
    tree, link = first_bits(d, k, shape), make_link("cos")
    children = np.asarray(tree.children)
    x = census.complete(children, cube(d).astype(np.float64))
    fours = census.trivial_quadruples(census.token_masks(children, d))
    for i, visible in enumerate(limits(tree, mask)):
        terms = expansion.terms(x[:, :visible], x[:, d + i], link)
        is_child = np.isin(np.arange(visible), children[i]).astype(np.float64)
        assert_close(terms.seven, expansion.seven_mean(is_child, link.curvature), 1e-12)
        eight = expansion.eight_mean(*census.quadruples_among(fours, visible), link.curvature)
        assert np.abs(terms.eight - eight).max() <= 1e-14
        z = x[:, :visible].mean(axis=1)
        tuples = census.trivial_tuples(visible, census.quadruples_among(fours, visible)[0])
        assert_close(np.mean(z**4), tuples / visible**4, 1e-12)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(LINKS))
def test_the_four_terms_add_up_to_the_gradient(seed, kind):
    link, random = make_link(*kind), np.random.default_rng(seed)
    x = 1 - 2 * random.integers(0, 2, (20, 9)).astype(np.float64)
    target = x[:, 0] * x[:, 3]
    z = x.mean(axis=1)
    A = (np.asarray(link.value(z)) - target) * np.asarray(link.derivative(z))
    assert np.abs(expansion.terms(x, target, link).gradient - (A @ x - A @ z) / (20 * 9)).max() <= 1e-14


@pytest.mark.parametrize(("d", "k", "shape"), [(6, 4, "balanced"), (5, 5, "balanced"), (5, 4, "chain")])
def test_the_census_finds_the_trivial_products_that_enumeration_finds(d, k, shape):
    tree = first_bits(d, k, shape)
    children = np.asarray(tree.children)
    masks, size = census.token_masks(children, d), d + k - 1
    pairs = [tuple(pair) for pair in children.tolist()]

    def trivial(*tokens):
        return reference.is_trivial(pairs, d, tokens)

    triples = [(a, b, m) for m in range(d, size) for b in range(m) for a in range(b) if trivial(a, b, m)]
    assert sorted(census.trivial_triples(masks, d)) == sorted(triples)
    fours = [
        (a, b, c, e) for e in range(size) for c in range(e) for b in range(c) for a in range(b) if trivial(a, b, c, e)
    ]
    assert census.trivial_quadruples(masks) == sorted(fours)
    assert len(fours) == k - 2


def test_the_noise_law_is_the_large_size_limit_of_the_exact_noise():
    link = make_link("poly4")
    off = []
    for visible in (64, 256, 1024):
        spread = population.node_spread(population.node_law(np.array([[0, 1]]), visible, 0, 0), link, (0, 1))
        law, signal = noise.leading_law(visible, 1, link.curvature), 8 / visible**2
        ratios = np.array(
            [spread.entry[-1] / law.other, spread.common / law.common, spread.difference / law.difference]
        )
        off.append(np.abs(ratios / signal - 1).max())
    assert off[0] > 3 * off[1] > 9 * off[2]


def test_the_rolled_error_reduces_to_one_node_where_children_are_right():
    children = np.array([[0, 1], [2, 3], [4, 5]])
    apart = np.array([0.0, 0.0, 0.3])
    assert_close(noise.rolled_error(4.0, apart, children, 4)[-1], 4 * np.tanh(0.15) ** 2, 1e-14)
    both = noise.rolled_error(4.0, np.array([0.3, 0.3, 0.3]), children, 4)
    assert_close(both[-1], 4 * (np.tanh(0.15) + both[1] / 2) ** 2, 1e-14)


def test_the_updates_of_the_staircase_are_those_that_training_makes():
    tree, link = first_bits(16, 8), make_link("poly4")
    eta = 9.0 * 22**2 / 8
    found = staircase.updates(tree, link, eta, samples=10_000)
    exact = -eta * mean_gradient(tree, "block", link)
    for i, update in enumerate(found):
        assert_close(np.array(update.children), exact[np.asarray(tree.children)[i], i], 1e-12)
        others = np.delete(exact[: limits(tree, "block")[i], i], np.asarray(tree.children)[i])
        assert_close(np.array(update.others), np.array([others.min(), others.max()]), 1e-12)
    assert [update.level for update in found] == [1, 1, 1, 1, 2, 2, 3]


def test_children_are_torn_apart_as_often_as_simulated():
    update = staircase.Update(1, (11.45, 11.45), (0.0, 0.0), common=0.1, difference=0.02, entry=0.1)
    random = np.random.default_rng(0)
    common = 11.45 + 0.1 * random.standard_normal(400_000)
    half = 0.01 * random.standard_normal(400_000)
    torn = np.mean(np.round(common + half) != np.round(common - half))
    assert abs(update.torn_chance() / torn - 1) < 0.05
