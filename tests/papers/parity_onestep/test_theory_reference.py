"""The closed-form gradients of the package against the dense model, differentiated without autodiff."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.papers.parity_onestep import gradient
from stairwise.papers.parity_onestep.links import make_link
from stairwise.papers.parity_onestep.model import PositionalAttention
from stairwise.tasks.parity import Parity
from tests.helpers import assert_close
from tests.reference import parity_onestep as reference

LINKS = (("poly4", 4.0), ("cos", 4.0), ("requ", 2.5))


@pytest.fixture(autouse=True)
def in_float64():
    with jax.enable_x64(True):
        yield


class Dense:
    """A small problem as the reference sees it, and the same as the package does."""

    def __init__(self, d, k, shape, mask, kind, seed=0):
        random = np.random.default_rng(seed)
        self.bits, subset = d, tuple(sorted(random.permutation(d)[:k].tolist()))
        build = reference.queue_tree if shape == "balanced" else reference.chain_tree
        self.children, self.heights = build(subset, d)
        self.visible = reference.visibility(mask, self.heights, d)
        self.phi = reference.link(*kind)
        self.W = 1.5 * random.standard_normal((d + k - 1, d + k - 1))
        self.data = [tuple(x) for x in (1 - 2 * random.integers(0, 2, (5, d))).tolist()]
        self.entries = [(j, m) for j in range(d + k - 1) for m in range(d, d + k - 1) if self.visible[j][m]]
        tree = Parity(d, subset, shape).decomposition
        self.net = PositionalAttention(jnp.asarray(self.W[:, d:]), tree, make_link(*kind), mask)
        self.tokens = jnp.asarray(np.array([reference.tokens_of(self.children, x) for x in self.data]).T)

    def closed_form(self, sums):
        return np.asarray(gradient.gradient(self.net.scores(), sums.S, len(self.data)))

    @property
    def ones(self):
        return jnp.ones(len(self.data), dtype=jnp.float64)


@pytest.mark.parametrize("mask", ["causal", "block"])
@pytest.mark.parametrize("kind", LINKS)
@pytest.mark.parametrize(("d", "k", "shape"), [(5, 4, "balanced"), (6, 5, "balanced"), (5, 4, "chain")])
def test_the_forced_gradient_at_any_weights_is_that_of_the_dense_model(d, k, shape, kind, mask):
    one = Dense(d, k, shape, mask, kind)
    dense = reference.gradient(
        lambda W: reference.forced_loss(W, one.data, one.children, one.visible, one.phi), one.W, one.entries
    )
    sums = gradient.forced(one.net, one.tokens, one.ones)
    assert_close(one.closed_form(sums), dense[:, d:], 1e-12)
    loss = reference.forced_loss(one.W, one.data, one.children, one.visible, one.phi)
    assert_close(float(sums.loss) / len(one.data), loss, 1e-12)


@pytest.mark.parametrize("gates", [(True, True, True), (True, False, True)])
@pytest.mark.parametrize("kind", LINKS)
def test_the_gradient_through_a_generated_chain_is_that_of_the_dense_model(kind, gates):
    one = Dense(6, 5, "balanced", "block", kind)
    arguments = one.data, one.children, one.visible, one.phi, gates, one.heights
    dense = reference.gradient(lambda W: reference.free_loss(W, *arguments), one.W, one.entries)
    supervised = jnp.ones(4, dtype=bool)
    sums = gradient.generated(one.net, jnp.asarray(gates), supervised, one.tokens, one.ones)
    assert_close(one.closed_form(sums), dense[:, 6:], 1e-12)
    assert_close(float(sums.loss) / len(one.data), reference.free_loss(one.W, *arguments), 1e-12)


@pytest.mark.parametrize(("d", "k"), [(6, 2), (7, 3), (9, 6), (9, 7), (11, 11)])
def test_the_trees_are_those_of_a_queue_and_of_a_chain(d, k):
    subset = tuple(range(d - k, d))
    for shape, build in (("balanced", reference.queue_tree), ("chain", reference.chain_tree)):
        children, heights = build(subset, d)
        tree = Parity(d, subset, shape).decomposition
        assert tree.children.tolist() == [list(pair) for pair in children]
        assert tree.height.tolist() == heights
        for mask in ("causal", "block"):
            seen = np.array(reference.visibility(mask, heights, d))[:, d:]
            assert np.array_equal(np.asarray(tree.visible(mask)), seen)
