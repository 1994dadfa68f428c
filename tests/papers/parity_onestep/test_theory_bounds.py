"""The explicit bounds, the link functions, and the error recursion."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stairwise.papers.parity_onestep.links import make_link
from stairwise.papers.parity_onestep.model import PositionalAttention
from stairwise.papers.parity_onestep.theory import bounds, census, links, noise, recursion, staircase
from stairwise.tasks.parity import Parity
from tests.helpers import assert_close
from tests.reference import parity_onestep as reference

LINKS = (("poly4", 4.0), ("cos", 4.0), ("requ", 4.0), ("requ", 2.5), ("requ", 2.1))


@pytest.fixture(autouse=True)
def in_float64():
    with jax.enable_x64(True):
        yield


def tree_of(d, k, shape="balanced"):
    return Parity(d, tuple(range(d - k, d)), shape).decomposition


# --- links ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "slope"), LINKS)
def test_links_are_those_of_the_reference_with_the_constants_they_name(name, slope):
    link, phi = make_link(name, slope), reference.link(name, slope)
    t = np.linspace(-1, 1, 401)
    assert_close(links.on(link.value, t), np.array([phi(float(u)) for u in t]), 1e-14)
    slopes = np.array([np.imag(phi(u + 1e-30j)) / 1e-30 for u in t])
    assert_close(links.on(link.derivative, t), slopes, 1e-12)
    assert links.steepest(link) == pytest.approx(link.steepest, rel=1e-5)
    assert links.error_constant(link) <= max(link.curvature, link.end_curvature) * (1 + 1e-7)
    assert links.error_constant(link) >= max(link.curvature, link.end_curvature) * (1 - 1e-3)


def test_the_table_of_constants():
    constants = {(name, slope): make_link(name, slope) for name, slope in [*LINKS, ("requ", 3.0)]}
    table = {key: (link.curvature, link.end_curvature, link.steepest) for key, link in constants.items()}
    assert table["poly4", 4.0] == pytest.approx((4, 8, 16 / (3 * math.sqrt(3))))
    assert table["cos", 4.0] == pytest.approx((math.pi**2 / 2, math.pi**2 / 2, math.pi))
    for slope, c in ((4.0, 4.0), (3.0, 4.5), (2.5, 6.25), (2.1, 22.05)):
        assert table["requ", slope] == pytest.approx((c, c, slope))


@settings(max_examples=40, deadline=None)
@given(st.floats(2.001, 4.0), st.floats(-1, 1))
def test_six_requ_units_are_the_pieces(slope, t):
    t = np.array([t])
    scale = slope**2 / (2 * (slope - 2))
    assert abs(links.requ_units(t, slope) - links.requ_pieces(t, slope)).item() <= 4e-15 * scale


def test_the_remainders_are_those_of_the_expansions():
    poly4, cos = links.remainders(make_link("poly4")), links.remainders(make_link("cos"))
    assert (poly4.fourth, poly4.third) == pytest.approx((2, 8), rel=1e-6)
    assert (cos.fourth, cos.third) == pytest.approx((math.pi**4 / 24, math.pi**4 / 6), rel=1e-3)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(LINKS), st.lists(st.floats(-8, 8), min_size=5, max_size=5), st.integers(1, 30))
def test_no_softmax_over_signs_has_a_steeper_node_than_the_sharp_constant(kind, logits, signs):
    link, x = make_link(*kind), np.array([1.0 - 2 * (signs >> j & 1) for j in range(5)])
    s = np.exp(np.array(logits) - max(logits))
    s /= s.sum()
    z = np.array([s @ x])
    norm = abs(links.on(link.derivative, z)[0]) * math.sqrt(s**2 @ (x - z) ** 2)
    assert norm <= links.sharp_node_gradient(link).norm * (1 + 1e-6)
    assert norm <= 2 * link.steepest


# --- Lemma 6 ----------------------------------------------------------------------------------------------------------


def test_the_bound_for_any_tree_is_below_the_closed_one_for_complete_trees():
    for K in (2.1, 3.08, 4.0):
        for v in range(1, 9):
            counts = [2 ** (v - level) for level in range(1, v + 1)]
            line, closed = bounds.chained_gradient_line(K, v), bounds.chained_gradient(K, v)
            assert bounds.chained_gradient_levels(K, counts) <= line * (1 + 1e-12) <= closed * (1 + 1e-12)
            assert bounds.chained_gradient_printed(K, v) < line
    assert [round(bounds.chained_gradient(make_link("poly4").steepest, v)) for v in (2, 3, 4)] == [31, 135, 588]


@pytest.mark.parametrize(("d", "k", "shape"), [(4, 4, "balanced"), (5, 3, "balanced"), (5, 4, "chain")])
def test_the_jacobian_of_the_chain_is_below_its_bound(d, k, shape):
    tree, link = tree_of(d, k, shape), make_link("poly4")
    counts = np.bincount(np.asarray(tree.height))[1:].tolist()
    jacobian = jax.jit(
        lambda W, x: jax.jacrev(lambda W: PositionalAttention(W, tree, link, "block").by_levels(x)[d:])(W)
    )
    random = np.random.default_rng(0)
    for scale in (0.0, 1.0, 5.0):
        W = jnp.asarray(scale * random.standard_normal((tree.tokens, tree.nodes)))
        x = jnp.asarray(1.0 - 2 * random.integers(0, 2, d))
        norm = float(jnp.sqrt(jnp.sum(jacobian(W, x) ** 2)))
        assert norm <= bounds.chained_gradient_levels(link.steepest, counts)


# --- Lemmas 9 and 10 --------------------------------------------------------------------------------------------------


def test_the_number_of_interactions_is_below_what_the_union_bound_counts():
    for d, k in ((12, 8), (16, 16), (10, 7)):
        tree = tree_of(d, k)
        masks = census.token_masks(np.asarray(tree.children), d)
        assert len(census.nontrivial_masks(masks)) <= (2 * d) ** 4
    assert bounds.interaction(500, 12, 0.1) == pytest.approx(0.2507, abs=1e-4)


def test_all_products_of_up_to_four_tokens_are_reached():
    tree = tree_of(5, 4)
    masks = census.token_masks(np.asarray(tree.children), 5)
    listed = set()
    for count in (1, 2, 3, 4):
        for chosen in itertools.combinations_with_replacement(masks, count):
            code = 0
            for mask in chosen:
                code ^= mask
            listed.add(code)
    assert census.nontrivial_masks(masks) == listed - {0}


def test_the_level_bound_is_below_its_simplified_form_for_complete_trees():
    for d, k in ((64, 64), (64, 8), (1024, 256)):
        ends = tree_of(d, k).level_ends().tolist()
        by_level = bounds.level_means_exact(ends, 100, 0.1)
        assert max(by_level) <= bounds.level_means(d, 100, 0.1)
    assert [round(bounds.level_means(d, d, math.exp(-math.sqrt(d))), 2) for d in (64, 256, 1024)] == [2.16, 1.42, 0.95]


@pytest.mark.parametrize(("d", "k", "shape", "n"), [(4, 3, "balanced", 3), (3, 3, "chain", 4), (4, 4, "balanced", 2)])
def test_the_chance_of_an_uninformative_token_is_that_of_all_inputs(d, k, shape, n):
    tree = tree_of(d, k, shape)
    children = np.asarray(tree.children)
    rows = np.array(list(itertools.product((1, -1), repeat=n * d))).reshape(-1, d)
    tokens = census.complete(children, rows).reshape(-1, n, tree.tokens)
    share = np.mean(np.any(np.all(tokens < 0, axis=1), axis=1))
    assert abs(bounds.uninformative_chance(children, d, n) - share) <= 1e-12
    assert share <= bounds.uninformative_bound(tree.tokens, n)


# --- the recursion ----------------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(st.floats(0, 0.2), st.sampled_from([4.0, 4.9348, 8.0, 22.05]))
def test_the_recursion_settles_at_its_fixed_point_exactly_when_there_is_one(delta, constant):
    point = recursion.fixed_point(delta, constant)
    assert (point is not None) == (delta <= 1 / (4 * constant))
    if point is not None:
        assert abs(constant * (delta + point) ** 2 - point) <= 1e-12
        assert recursion.recursion_printed(delta, 500, constant) <= point + 1e-12
    else:
        assert recursion.recursion_printed(delta, 10**5, constant) == 2.0 or delta < 1.001 / (4 * constant)


def test_the_tree_recursion_never_exceeds_the_printed_one():
    tree, random = tree_of(20, 16), np.random.default_rng(0)
    delta = 0.03 * random.random(tree.nodes)
    by_tree = recursion.recursion_by_tree(delta, np.asarray(tree.children), 20, 8.0)
    assert by_tree.max() <= recursion.recursion_printed(float(delta.max()), tree.nodes, 8.0)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.floats(0, 6))
def test_attention_to_children_splits_within_its_bound(seed, scale):
    tree = tree_of(9, 7)
    W = scale * np.random.default_rng(seed).standard_normal((tree.tokens, tree.nodes))
    children = np.asarray(tree.children)
    W[children, np.arange(6)[:, None]] += 5
    scores = np.asarray(PositionalAttention(jnp.asarray(W), tree).scores())
    found = recursion.child_attention(W, scores, children)
    assert_close(found.children.sum(axis=1) + found.leak, np.ones(6), 1e-12)
    assert np.all(np.abs(found.children - 0.5).max(axis=1) <= recursion.split_bound(found) * (1 + 1e-9))
    assert_close(found.children[:, 0] / found.children[:, 1], np.exp(found.difference), 1e-9)


def test_leakage_and_the_size_at_which_the_papers_rate_begins_to_bite():
    assert noise.leakage(94, 9.0) == pytest.approx(92 / (92 + 2 * math.exp(9)))
    y = recursion.bits_for_leak(1.0)
    assert y == pytest.approx(math.exp(y / 16), rel=1e-9)
    assert recursion.bits_for_leak(16.0) == 0.0


def test_the_constants_of_the_staircase_lie_in_their_range_only_without_the_printed_factor():
    ends = tree_of(64, 32).level_ends().astype(np.float64)
    corrected = staircase.level_constants(ends, 4.0, 0.7)
    assert corrected.max() <= 2 * 4.0 * 0.7 * (1 + 1e-12)
    assert corrected.min() >= 4.0 * 0.7 / 2
    assert staircase.level_constants_printed(ends, 4.0, 0.7, 1.0).max() > 2 * 4.0 * 0.7


@pytest.mark.parametrize("slope", [2.0001, 2.001, 2.01])
def test_remainders_of_a_link_that_bends_close_to_zero_are_taken_there(slope):
    """Behind its corner a the link is straight: the rests are c (t-a)^2 and 2c (t-a), largest at 2a and 3a/2."""
    corner, curvature = 1 - 2 / slope, slope**2 / (2 * (slope - 2))
    found = links.remainders(make_link("requ", slope))
    assert found.fourth == pytest.approx(curvature / (16 * corner**2), rel=1e-4)
    assert found.third == pytest.approx(8 * curvature / (27 * corner**2), rel=1e-4)


@pytest.mark.parametrize("inputs", [1, 2, 3, 8, 60, 900])
def test_the_uninformative_chance_keeps_its_digits(inputs):
    """Of one node over two bits: 1 - P(no bad vector among two and their sum), counted in whole numbers."""
    total = 2**inputs
    good = (total - 1) * (total - 1) - (total - 2 if inputs > 1 else 0)  # pairs without the bad one whose sum it is not
    children = np.array([[0, 1]])
    wanted = (total**2 - good) / total**2
    assert bounds.uninformative_chance(children, 2, inputs) == pytest.approx(wanted, rel=1e-12)
