"""Parities: trees, masks, the cube, the class, 0/1 sequences, and the solver over GF(2)."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stairwise.tasks import gf2
from stairwise.tasks.decomposition import balanced, chain
from stairwise.tasks.parity import (
    Parity,
    ParityTokens,
    cube,
    draw_subset,
    krawtchouk,
    mean_parity,
)
from tests.reference import parity_onestep as reference

FIGURE1 = (0, 3, 4, 6, 8, 10, 12, 15)  # the paper's p = {1, 4, 5, 7, 9, 11, 13, 16}


def leaves(*positions):
    return jnp.array(positions, dtype=jnp.int32)


# --- trees ------------------------------------------------------------------------------------------------------------


def test_the_tree_of_figure_1_is_the_papers():
    tree = balanced(leaves(*FIGURE1), 16)
    printed = [(1, 4), (5, 7), (9, 11), (13, 16), (17, 18), (19, 20), (21, 22)]
    assert (np.asarray(tree.children) + 1).tolist() == [list(pair) for pair in printed]
    assert tree.level_ends().tolist() == [16, 20, 22, 23]
    assert tree.height.tolist() == [1, 1, 1, 1, 2, 2, 3]


@pytest.mark.parametrize("size", range(2, 14))
def test_balanced_trees_follow_the_queue_for_every_size(size):
    subset = sorted(np.random.default_rng(size).permutation(16)[:size].tolist())
    tree = balanced(leaves(*subset), 16)
    children, heights = reference.queue_tree(subset, 16)
    assert tree.children.tolist() == [list(pair) for pair in children]
    assert tree.height.tolist() == heights
    assert int(tree.height[-1]) == math.ceil(math.log2(size)) == tree.levels
    assert all(np.diff(heights) >= 0)


@pytest.mark.parametrize(
    ("size", "ends"), [(3, [16, 17, 18]), (5, [16, 18, 19, 20]), (6, [16, 19, 20, 21]), (7, [16, 19, 21, 22])]
)
def test_level_ends_of_trees_that_are_not_complete(size, ends):
    assert balanced(jnp.arange(size, dtype=jnp.int32), 16).level_ends().tolist() == ends


@pytest.mark.parametrize("size", [2, 3, 7])
def test_chains_add_one_leaf_at_a_time(size):
    subset = sorted(np.random.default_rng(size).permutation(9)[:size].tolist())
    tree = chain(leaves(*subset), 9)
    children, heights = reference.chain_tree(subset, 9)
    assert tree.children.tolist() == [list(pair) for pair in children]
    assert tree.height.tolist() == heights


@pytest.mark.parametrize("build", [balanced, chain])
@pytest.mark.parametrize("mask", ["causal", "block"])
def test_masks_show_what_the_definition_says(build, mask):
    tree = build(leaves(1, 2, 4, 5, 7), 8)
    heights = tree.height.tolist()
    expected = [[reference.sees(mask, heights, 8, node, token) for node in range(4)] for token in range(12)]
    assert tree.visible(mask).tolist() == expected
    assert tree.visible_count(mask).tolist() == np.sum(expected, axis=0).tolist()


def test_every_child_is_visible_to_its_node_under_both_masks():
    for size, build in itertools.product((2, 5, 8), (balanced, chain)):
        tree = build(jnp.arange(size, dtype=jnp.int32), 12)
        for mask in ("causal", "block"):
            assert not np.any(np.asarray(tree.is_child() & ~tree.visible(mask)))
        assert np.asarray(tree.is_child()).sum(axis=0).tolist() == [2] * (size - 1)


@settings(deadline=None, max_examples=12)
@given(st.data())
def test_the_root_is_the_product_over_the_subset(data):
    size = data.draw(st.sampled_from((2, 3, 6)))
    subset = data.draw(st.lists(st.integers(0, 8), min_size=size, max_size=size, unique=True))
    bits = np.array(data.draw(st.lists(st.sampled_from((-1, 1)), min_size=9, max_size=9)), dtype=np.int8)
    for tree in ("balanced", "chain"):
        task = Parity(9, tuple(subset), tree)
        tokens = np.asarray(task.tokens(jnp.asarray(bits)))
        assert int(tokens[-1]) == math.prod(int(bits[j]) for j in subset) == int(task.label(jnp.asarray(bits)))


def test_given_order_pairs_the_leaves_as_given():
    task = Parity(6, (5, 0, 3, 1), order="given")
    assert task.decomposition.children.tolist() == [[0, 5], [1, 3], [6, 7]]
    assert Parity(6, (5, 0, 3, 1)).decomposition.children.tolist() == [[0, 1], [3, 5], [6, 7]]


@pytest.mark.parametrize("build", [balanced, chain])
@pytest.mark.parametrize(("bits", "size"), [(6, 2), (6, 5), (9, 7)])
def test_a_padded_tree_is_the_plain_one_with_its_nodes_moved(build, bits, size):
    subset = jnp.arange(size, dtype=jnp.int32)
    plain = build(subset, bits)
    room = jnp.concatenate([subset, jnp.full(8 - size, 12, dtype=jnp.int32)])
    padded = jax.jit(lambda d, k: build(room, d, k, 12))(jnp.int32(bits), jnp.int32(size))
    moved = np.where(np.asarray(plain.children) >= bits, np.asarray(plain.children) + 12 - bits, plain.children)
    assert padded.children[: size - 1].tolist() == moved.tolist()
    assert padded.height.tolist() == plain.height.tolist() + [0] * (8 - size)
    assert int(padded.root) == size - 2
    for mask in ("causal", "block"):
        kept = np.r_[0:bits, 12 : 12 + size - 1]
        visible = np.asarray(padded.visible(mask))
        assert (visible[kept][:, : size - 1] == np.asarray(plain.visible(mask))).all()
        assert visible.sum() == np.asarray(plain.visible(mask)).sum()


# --- subsets and samples ----------------------------------------------------------------------------------------------


def test_subsets_are_uniform():
    draw = jax.jit(jax.vmap(lambda key: draw_subset(key, 6, 3)))
    subsets = np.asarray(draw(jax.random.split(jax.random.key(0), 20_000)))
    assert (np.diff(subsets, axis=1) > 0).all()
    _, counts = np.unique(subsets, axis=0, return_counts=True)
    assert len(counts) == 20
    assert np.sum((counts - 1000) ** 2 / 1000) < 45  # 19 degrees of freedom: beyond 1 in 1000


def test_padding_changes_no_subset():
    plain = jax.jit(lambda key: draw_subset(key, 11, 4))
    padded = jax.jit(lambda key, d, k: draw_subset(key, 20, 7, d, k))
    for seed in range(20):
        key = jax.random.key(seed)
        alone = plain(key).tolist()
        assert padded(key, jnp.int32(11), jnp.int32(4)).tolist() == [*alone, 20, 20, 20]


def test_samples_are_fair_and_carry_their_nodes():
    task = Parity.drawn(jax.random.key(3), 7, 5)
    examples = jax.jit(jax.vmap(task.sample))(jax.random.split(jax.random.key(0), 4000))
    bits, nodes = np.asarray(examples.bits, dtype=int), np.asarray(examples.nodes, dtype=int)
    assert np.abs(bits.mean(axis=0)).max() < 0.08
    assert (nodes[:, -1] == bits[:, list(task.subset)].prod(axis=1)).all()
    tokens = np.concatenate([bits, nodes], axis=1)
    for i, (left, right) in enumerate(task.decomposition.children.tolist()):
        assert (tokens[:, 7 + i] == tokens[:, left] * tokens[:, right]).all()


def test_draws_do_not_change_under_double_precision():
    task = Parity(5, (0, 2))
    draw = jax.jit(lambda key: (task.sample(key).bits, draw_subset(key, 9, 3)))
    single = [drawn.tolist() for drawn in draw(jax.random.key(1))]
    with jax.enable_x64(True):
        double = [drawn.tolist() for drawn in draw(jax.random.key(1))]
    assert single == double


# --- cube and class ---------------------------------------------------------------------------------------------------


def test_the_cube_holds_every_input_once_in_the_order_of_the_reference():
    assert cube(5).tolist() == [list(x) for x in reference.inputs(5)]


@pytest.mark.parametrize("size", [2, 3, 5, 6])
def test_krawtchouk_equals_enumeration(size):
    for minus in range(7):
        x = [-1] * minus + [1] * (6 - minus)
        total = sum(math.prod(x[j] for j in p) for p in itertools.combinations(range(6), size))
        assert krawtchouk(6, size, minus) == total
        assert float(mean_parity(6, size, minus)) == pytest.approx(reference.mean_parity(x, size), abs=1e-15)


@pytest.mark.parametrize(("bits", "size"), [(12, 6), (64, 32), (256, 128)])
def test_the_mean_square_of_the_mean_parity_is_one_over_the_class_size_exactly(bits, size):
    total = sum(math.comb(bits, m) * krawtchouk(bits, size, m) ** 2 for m in range(bits + 1))
    assert total == 2**bits * math.comb(bits, size)


def test_the_full_parity_has_no_company():
    assert [mean_parity(5, 5, m) for m in range(6)] == [1, -1, 1, -1, 1, -1]


# --- the solver -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("bits", "size"), [(10, 3), (64, 32), (130, 70)])
def test_elimination_finds_the_subset_from_a_few_more_samples_than_bits(bits, size):
    random = np.random.default_rng(bits)
    subset = np.sort(random.permutation(bits)[:size])
    x = 1 - 2 * random.integers(0, 2, (bits + 20, bits))
    found = gf2.solve_parity(x, x[:, subset].prod(axis=1))
    assert found.unique
    assert found.consistent
    assert np.flatnonzero(found.values).tolist() == subset.tolist()


def test_too_few_samples_are_reported_as_not_unique():
    x = 1 - 2 * np.random.default_rng(0).integers(0, 2, (12, 20))
    found = gf2.solve_parity(x, x[:, :4].prod(axis=1))
    assert found.consistent
    assert not found.unique
    assert found.rank <= 12
    assert ((((1 - x) // 2) @ found.values) % 2 == (1 - x[:, :4].prod(axis=1)) // 2).all()


def test_a_flipped_label_is_reported_as_inconsistent():
    x = 1 - 2 * np.random.default_rng(1).integers(0, 2, (60, 20))
    y = x[:, [2, 5, 7]].prod(axis=1)
    y[11] *= -1
    assert not gf2.solve_parity(x, y).consistent


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 9))
def test_the_rank_is_that_of_brute_force(seed, rows, columns):
    matrix = np.random.default_rng(seed).integers(0, 2, (rows, columns))
    images = {tuple((matrix @ v) % 2) for v in itertools.product((0, 1), repeat=columns)}
    assert 2 ** gf2.rank(matrix) == len(images)


# --- 0/1 sequences ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("secret", [(2,), (4, 0), (3, 1, 0, 2)])
def test_chains_of_partial_sums_follow_the_secret_order(secret):
    task = ParityTokens(5, leaves(*secret), len(secret))
    draw = jax.jit(lambda key: (task.sample(key), task.sentence(task.sample(key), "chain")))
    asked = jax.jit(lambda bits: task.sentence(bits).tokens)
    for key in jax.random.split(jax.random.key(0), 20):
        bits, told = draw(key)
        tokens = [*told.tokens.tolist(), *told.targets.tolist()[-1:]]
        assert len(tokens) == 5 + 1 + len(secret)
        assert tokens[5] == 0
        for i, position in enumerate(secret):
            assert tokens[6 + i] == tokens[5 + i] ^ tokens[position]
        assert asked(bits).tolist() == tokens[:6]


@pytest.mark.parametrize("tree", ["balanced", "chain"])
def test_the_nodes_of_a_tree_told_in_bits_are_those_told_in_signs(tree):
    task, signs = ParityTokens(9, leaves(0, 3, 4, 6, 8), 5, tree), Parity(9, (0, 3, 4, 6, 8), tree)
    bits = task.sample(jax.random.key(1))
    np.testing.assert_array_equal(1 - 2 * task.chain(bits), signs.tokens(1 - 2 * bits)[9:])


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Parity(4, (0,)), "size=1 must lie in 2..bits=4 (parity)"),
        (lambda: Parity(2, (0, 1, 2)), "size=3 must lie in 2..bits=2 (parity)"),
        (lambda: Parity(4, (0, 4)), "subset=4 must lie in 0..3 (parity)"),
        (lambda: Parity(4, (2, 0, 2)), "subset=2 must not be repeated (parity)"),
        (lambda: Parity(4, (2, 0), "ternary"), "tree=ternary must be one of balanced, chain (parity)"),
        (lambda: cube(21), "bits=21 must lie in 1..20 for the whole cube (parity)"),
        (lambda: mean_parity(3, 4, 0), "size=4 must lie in 2..bits=3 (parity)"),
        (lambda: ParityTokens(3, leaves(0, 1), 3), "size=3 must lie in 1..2 (ParityTokens)"),
        (lambda: ParityTokens(3, leaves(0, 1), 1, "chain"), "size=1 must lie in 2..2 (ParityTokens)"),
        (
            lambda: ParityTokens(1, leaves(0, 1), 1),
            "secret has 2 positions, which must be at most bits=1 (ParityTokens)",
        ),
        (
            lambda: ParityTokens(3, leaves(0, 1), 2, "heap"),
            "by=heap must be one of sums, balanced, chain (ParityTokens)",
        ),
        (lambda: gf2.solve_parity(np.array([[0, 1]]), np.array([1])), "bits=0 must be -1 or 1 (gf2.solve_parity)"),
        (lambda: gf2.solve(np.array([[0, 2]]), np.array([1])), "matrix=2 must be 0 or 1 (gf2.solve)"),
        (lambda: balanced(leaves(0), 3), "leaves=1 must be at least 2 (Tree)"),
        (lambda: balanced(leaves(0, 1), 3).visible("all"), "mask=all must be one of causal, block (Tree)"),
    ],
)
def test_bad_input_is_refused_in_one_line(make, message):
    with pytest.raises(ValueError) as caught:
        make()
    assert str(caught.value) == message


@pytest.mark.parametrize("make", [balanced, chain])
@pytest.mark.parametrize("room", [5, 50, 100])  # filled node by node, and level by level
def test_every_node_is_the_product_of_its_children_and_the_root_the_parity(make, room):
    count, slots = room - 2, room + 7
    tree = make(jnp.arange(room, dtype=jnp.int32), count + 1, count, slots)
    x = np.random.default_rng(room).choice([-1, 1], size=(slots, 3))
    values = np.asarray(tree.complete(jnp.asarray(x, dtype=jnp.int32)))
    left, right = np.asarray(tree.children).T
    np.testing.assert_array_equal(values[slots:], values[left] * values[right])
    np.testing.assert_array_equal(values[slots + int(tree.root)], x[:count].prod(axis=0))
