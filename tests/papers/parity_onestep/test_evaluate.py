"""What is measured of a roll-out and of its weights, against loops over samples, nodes and tokens."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.papers.parity_onestep.evaluate import evaluate
from stairwise.papers.parity_onestep.links import POLY4
from stairwise.papers.parity_onestep.model import PositionalAttention
from stairwise.tasks.decomposition import balanced
from tests.helpers import assert_close
from tests.reference import parity_onestep as reference

measured = jax.jit(evaluate)
BITS, LEAVES = 5, (0, 1, 2, 4)
CHILDREN, HEIGHTS = reference.queue_tree(LEAVES, BITS)
NODES, TOKENS = len(CHILDREN), BITS + len(CHILDREN)


@pytest.mark.parametrize(
    ("mask", "gates", "solved"),
    [("causal", (True, True), True), ("block", (True, True), False), ("block", (True, False), False)],
)
def test_every_metric_is_that_of_its_definition(mask, gates, solved):
    rng = np.random.default_rng(5)
    W = rng.normal(size=(TOKENS, NODES))
    if solved:  # both children stand out, not quite alike
        for node, pair in enumerate(CHILDREN):
            W[list(pair), node] += (9.0, 9.2)
    inputs = rng.choice([-1, 1], size=(12, BITS))
    true = np.array([reference.tokens_of(CHILDREN, x) for x in inputs])
    with jax.enable_x64(True):
        tree = balanced(jnp.asarray(LEAVES, dtype=jnp.int32), BITS)
        model = PositionalAttention(jnp.asarray(W), tree, POLY4, mask)
        found = measured(model, jnp.asarray(gates), jnp.asarray(true.T))

    visible = reference.visibility(mask, HEIGHTS, BITS)
    full = np.hstack([np.zeros((TOKENS, BITS)), W])
    phi, scores = reference.link("poly4"), reference.attention(full, visible)[:, BITS:]
    closed = gates if mask == "block" else None
    made = np.array([reference.generate(full, x, visible, phi, closed, HEIGHTS) for x in inputs])[:, BITS:]
    forced = np.array([reference.one_pass(full, row, visible, phi, BITS) for row in true])[:, BITS:]
    values = true[:, BITS:]
    sup, accuracy = np.abs(made - values).max(axis=0), (np.sign(made) == values).mean(axis=0)
    seen = [[row for row in range(TOKENS) if visible[row][BITS + node]] for node in range(NODES)]
    others = [[row for row in seen[node] if row not in CHILDREN[node]] for node in range(NODES)]
    pairs = np.array([W[list(pair), node] for node, pair in enumerate(CHILDREN)])
    expected = {
        "root sup": sup[-1],
        "nodes sup": sup.max(),
        "accuracy": accuracy[-1],
        "success": float(sup[-1] < 0.5),
        "abstain": float(not gates[-1]),
        "loss": ((made - values) ** 2).mean(axis=0).sum() / 2,
        "root loss": ((made - values)[:, -1] ** 2).mean() / 2,
        "forced loss": ((forced - values) ** 2).mean(axis=0).sum() / 2,
        "support": np.mean([pairs[n].min() > W[others[n], n].max() for n in range(NODES)]),
        "imbalance": np.abs(pairs[:, 0] - pairs[:, 1]).max(),
        "leakage": max(scores[others[n], n].sum() for n in range(NODES)),
        "root logit": pairs[-1].mean() - W[others[-1], -1].mean(),
        "largest other": max(W[others[n], n].max() for n in range(NODES)),
    }
    for level in (1, 2):
        here = [node for node in range(NODES) if HEIGHTS[node] == level]
        expected[f"sup level {level}"] = sup[here].max()
        expected[f"accuracy level {level}"] = accuracy[here].min()
        expected[f"gate level {level}"] = float(gates[level - 1])
    assert set(found) == set(expected)
    for name, value in expected.items():
        assert_close(found[name], value, 1e-6)
