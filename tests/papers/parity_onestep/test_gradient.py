"""The closed-form gradients: equal to autodiff, to their sums over blocks, and to exact population values."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.papers.parity_onestep import gradient
from stairwise.papers.parity_onestep.gradient import Compensated
from stairwise.papers.parity_onestep.links import COS, POLY4, requ
from stairwise.papers.parity_onestep.model import PositionalAttention
from stairwise.tasks.decomposition import balanced
from stairwise.tasks.parity import cube
from tests.helpers import assert_close

draw_block = eqx.filter_jit(gradient.draw_block)
forced_at_zero = eqx.filter_jit(gradient.forced_at_zero)
LINKS = [POLY4, COS, requ(4.0), requ(2.5), requ(2.1)]
SIZES = [(8, 4), (9, 5), (16, 11)]


def tree_of(bits, size):
    subset = np.sort(np.random.default_rng(size).permutation(bits)[:size])
    return balanced(jnp.asarray(subset, dtype=jnp.int32), bits)


def random_weights(tree, scale=1.5):
    return jnp.asarray(scale * np.random.default_rng(1).normal(size=(tree.tokens, tree.nodes)))


def block(tree, samples=96):
    return draw_block(jax.random.key(0), tree, samples, jnp.float64)


def forced_loss(W, tree, link, mask, tokens):
    model = PositionalAttention(W, tree, link, mask)
    errors = link(jax.vmap(model.forced, in_axes=1)(tokens)) - tokens[tree.slots :].T
    return 0.5 * jnp.mean(jnp.sum(errors**2, axis=1))


def free_loss(W, tree, link, gates, supervised, tokens):
    model = PositionalAttention(W, tree, link, "block")
    made = jax.vmap(model.by_levels, in_axes=(1, None))(tokens[: tree.slots], gates)[:, tree.slots :]
    errors = jnp.where(supervised, made - tokens[tree.slots :].T, 0)
    return 0.5 * jnp.mean(jnp.sum(errors**2, axis=1))


@eqx.filter_jit
def at_zero_both_ways(tree, link, mask, tokens):
    """Loss and gradient at W = 0, by the closed form and by autodiff."""
    samples, W = tokens.shape[1], jnp.zeros((tree.tokens, tree.nodes), dtype=jnp.float64)
    sums = gradient.forced_at_zero(tree, link, mask, tokens, jnp.ones(samples, dtype=jnp.float64))
    scores = PositionalAttention(W, tree, link, mask).scores()
    found = sums.loss / samples, gradient.gradient(scores, sums.S, samples)
    return found, jax.value_and_grad(forced_loss)(W, tree, link, mask, tokens)


@eqx.filter_jit
def at_weights_both_ways(model, tokens):
    samples = tokens.shape[1]
    sums = gradient.forced(model, tokens, jnp.ones(samples, dtype=jnp.float64))
    found = sums.loss / samples, gradient.gradient(model.scores(), sums.S, samples)
    return found, jax.value_and_grad(forced_loss)(model.W, model.tree, model.link, model.mask, tokens)


@eqx.filter_jit
def generated_both_ways(model, gates, supervised, tokens):
    samples = tokens.shape[1]
    sums = gradient.generated(model, gates, supervised, tokens, jnp.ones(samples, dtype=jnp.float64))
    found = sums.loss / samples, gradient.gradient(model.scores(), sums.S, samples)
    return found, jax.value_and_grad(free_loss)(model.W, model.tree, model.link, gates, supervised, tokens)


@pytest.mark.parametrize("mask", ["causal", "block"])
@pytest.mark.parametrize("link", LINKS, ids=lambda link: link.name)
def test_the_gradient_at_zero_equals_autodiff(link, mask):
    with jax.enable_x64(True):
        for bits, size in SIZES if link is POLY4 and mask == "causal" else SIZES[1:2]:
            tree = tree_of(bits, size)
            (loss, found), (expected_loss, expected) = at_zero_both_ways(tree, link, mask, block(tree))
            assert_close(found, expected, 1e-12)
            assert_close(loss, expected_loss, 1e-13)


@pytest.mark.parametrize("mask", ["causal", "block"])
@pytest.mark.parametrize("link", LINKS, ids=lambda link: link.name)
def test_the_gradient_at_any_weights_equals_autodiff(link, mask):
    with jax.enable_x64(True):
        tree = tree_of(16, 11)
        model = PositionalAttention(random_weights(tree), tree, link, mask)
        (loss, found), (expected_loss, expected) = at_weights_both_ways(model, block(tree))
        assert_close(found, expected, 1e-12)
        assert_close(loss, expected_loss, 1e-13)
        assert np.all(np.asarray(found)[~np.asarray(tree.visible(mask))] == 0)


@pytest.mark.parametrize("gates", [[True] * 4, [True, True, False, False], [True, False, True, True]])
@pytest.mark.parametrize("supervision", ["chain", "root"])
def test_the_gradient_through_a_generated_chain_equals_autodiff(gates, supervision):
    with jax.enable_x64(True):
        tree = tree_of(16, 11)
        model = PositionalAttention(random_weights(tree), tree, POLY4, "block")
        supervised = jnp.arange(tree.nodes, dtype=jnp.int32) >= (0 if supervision == "chain" else tree.root)
        found, expected = generated_both_ways(model, jnp.array(gates), supervised, block(tree))
        assert_close(found[0], expected[0], 1e-13)
        if np.any(np.asarray(expected[1])):
            assert_close(found[1], expected[1], 1e-12)
        else:  # the root is closed and alone supervised
            assert not np.any(np.asarray(found[1]))


def whole_cube(bits, size):
    """Loss and gradient at W = 0 over all inputs."""

    @jax.jit
    def exact(inputs):
        tree = balanced(jnp.arange(size, dtype=jnp.int32), bits)
        weights = jnp.ones(2**bits, dtype=jnp.float64)
        sums = gradient.forced_at_zero(tree, POLY4, "causal", tree.complete(inputs), weights)
        scores = PositionalAttention(jnp.zeros_like(sums.S), tree, POLY4, "causal").scores()
        return sums.loss / 2**bits, gradient.gradient(scores, sums.S, 2**bits)

    loss, found = exact(cube(bits).T.astype(np.float64))
    return float(loss), np.asarray(found)


def test_exact_values_on_the_whole_cube():
    with jax.enable_x64(True):
        loss, G = whole_cube(8, 4)
        assert loss == pytest.approx(2.1500789089, abs=1e-10)
        assert_close(G[:, -1], [0.01380864] * 4 + [0.01288704] * 4 + [-0.05339136] * 2 + [0], 1e-7)
        loss, G = whole_cube(8, 8)
        assert loss == pytest.approx(5.2485285445, abs=1e-10)
        assert_close(G[:, -1], [0.00423917] * 8 + [0.00379475] * 4 + [-0.02454621] * 2 + [0], 1e-6)


@pytest.mark.parametrize("bits", [4, 9, 12])
def test_the_population_gradient_of_the_first_node_has_its_finite_size_law(bits):
    with jax.enable_x64(True):
        G = whole_cube(bits, 3)[1][:bits, 0]
    d = float(bits)
    child = -(8 / d**2) * (1 - 5 / d + 14 / d**2 - 16 / d**3)
    other = (16 / d**3) * (1 - 3 / d + 8 / d**2)
    assert_close(G, [child] * 2 + [other] * (bits - 2), 1e-12)


def test_blocks_add_up_to_the_whole_batch():
    with jax.enable_x64(True):
        tree = tree_of(9, 5)
        parts = [draw_block(jax.random.key(b), tree, 64, jnp.float64) for b in range(5)]
        ones = jnp.ones(64, dtype=jnp.float64)
        whole = forced_at_zero(tree, POLY4, "causal", jnp.concatenate(parts, axis=1), jnp.ones(320, dtype=jnp.float64))
        S = Compensated.zero(whole.S.shape, jnp.float64)
        for part in parts:
            S = S.add(forced_at_zero(tree, POLY4, "causal", part, ones).S)
        assert_close(S.total, whole.S, 1e-13)


def test_samples_of_weight_zero_do_not_count():
    with jax.enable_x64(True):
        tree = tree_of(9, 5)
        tokens = block(tree)
        weights = jnp.asarray((np.arange(96) < 40).astype(np.float64))
        some = forced_at_zero(tree, POLY4, "causal", tokens, weights)
        first = forced_at_zero(tree, POLY4, "causal", tokens[:, :40], jnp.ones(40, dtype=jnp.float64))
        assert_close(some.S, first.S, 1e-13)
        assert_close(some.loss, first.loss, 1e-13)


def test_a_sample_of_weight_two_counts_as_two_in_the_loss_and_in_the_gradient():
    with jax.enable_x64(True):
        tree = tree_of(9, 5)
        tokens, weights = block(tree, 8), jnp.asarray([2.0, 1, 0, 3, 1, 2, 1, 0])
        repeated = jnp.asarray(np.repeat(tokens, np.asarray(weights).astype(int), axis=1))
        ones = jnp.ones(repeated.shape[1], dtype=jnp.float64)
        model = PositionalAttention(random_weights(tree), tree, POLY4, "block")
        gates, supervised = jnp.array([True, True, False]), jnp.array([True, False, True, True])
        for sums in (
            lambda tokens, weights: gradient.forced_at_zero(tree, POLY4, "causal", tokens, weights),
            lambda tokens, weights: gradient.forced(model, tokens, weights),
            lambda tokens, weights: gradient.generated(model, gates, supervised, tokens, weights),
        ):
            sums = eqx.filter_jit(sums)
            weighed, counted = sums(tokens, weights), sums(repeated, ones)
            assert_close(weighed.S, counted.S, 1e-13)
            assert_close(weighed.loss, counted.loss, 1e-13)


def test_compensated_sums_lose_nothing_over_many_small_terms():
    terms = jnp.asarray(np.random.default_rng(0).uniform(0, 1, 20_000).astype(np.float32))
    total = jax.lax.fori_loop(0, len(terms), lambda i, s: s.add(terms[i]), Compensated.zero(()))
    exact = np.sum(np.asarray(terms, dtype=np.float64))
    plain = jax.lax.fori_loop(0, len(terms), lambda i, s: s + terms[i], jnp.float32(0))
    assert abs(float(total.total) - exact) <= 2**-24 * exact
    assert abs(float(plain) - exact) > 10 * abs(float(total.total) - exact)


def test_blocks_hold_fair_inputs_and_true_nodes_and_padding_changes_none():
    tree = tree_of(9, 5)
    tokens = np.asarray(draw_block(jax.random.key(3), tree, 4000))
    assert set(np.unique(tokens)) == {-1.0, 1.0}
    assert np.abs(tokens[:9].mean(axis=1)).max() < 0.08
    assert np.abs(np.corrcoef(tokens[:9]) - np.eye(9)).max() < 0.08
    for i, (left, right) in enumerate(tree.children.tolist()):
        assert (tokens[9 + i] == tokens[left] * tokens[right]).all()
    leaves = jnp.concatenate(
        [jnp.asarray(sorted(set(tree.children.ravel().tolist()) & set(range(9)))), jnp.array([20])]
    )
    padded = balanced(leaves.astype(jnp.int32), jnp.int32(9), jnp.int32(5), 20)
    wide = np.asarray(draw_block(jax.random.key(3), padded, 4000))
    assert (wide[:9] == tokens[:9]).all()
    assert (wide[9:20] == 0).all()
    assert (wide[20:24] == tokens[9:]).all()


@pytest.mark.parametrize("mask", ["causal", "block"])
@pytest.mark.parametrize(("bits", "size"), SIZES)
def test_sums_of_signs_are_equal_in_all_bits_by_products_and_by_prefix_sums(bits, size, mask):
    tree = tree_of(bits, size)
    tokens, before = draw_block(jax.random.key(0), tree, 96), tree.nodes_before(mask)
    by_products, by_prefixes = (
        jax.jit(way, static_argnums=0)(tree.slots, tokens, before)
        for way in (gradient._products, gradient._prefix_sums)
    )
    assert by_products.dtype == by_prefixes.dtype == jnp.float32
    np.testing.assert_array_equal(by_products, by_prefixes)
