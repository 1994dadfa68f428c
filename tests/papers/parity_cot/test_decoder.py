"""The structured path against the dense decoder: values, gradients, padding, attention facts, roll-out."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.nn.transformer import Transformer
from stairwise.papers.parity_cot.config.task import PaddedTask, Task
from stairwise.papers.parity_cot.decoder import cross_entropy, logits_of
from stairwise.papers.parity_cot.evaluate import accuracy, head_facts
from stairwise.papers.parity_cot.task import problem_of
from stairwise.train.rollout import greedy
from tests.helpers import assert_close

SEED = jnp.uint32(3)
jitted_facts = jax.jit(head_facts)


def decoder(layers, heads, length, dtype="float32", width=16, dropout=0.0):
    """A decoder with random weights, which NumPy draws: nothing is compiled for it."""
    shapes = eqx.filter_eval_shape(
        lambda: Transformer(
            vocab=2,
            width=width,
            layers=layers,
            heads=heads,
            causal=True,
            positions="learned",
            max_length=length,
            dropout=dropout,
            compute_dtype=dtype,
            parameter_dtype=dtype,
            key=jax.random.key(0),
        )
    )
    random = np.random.default_rng(0)
    return jax.tree.map(lambda leaf: jnp.asarray(random.normal(0.0, 0.4, leaf.shape), dtype=dtype), shapes)


def sequences(task, count=6):
    problem = problem_of(task, SEED)
    bits = jax.random.bernoulli(jax.random.key(1), 0.5, (count, task.bits)).astype(jnp.int8)
    return problem, jax.vmap(problem.tokens)(bits)


def test_the_structured_path_equals_the_dense_decoder_with_its_gradients():
    with jax.enable_x64(True):
        problem, tokens = sequences(Task(7, 3))
        layout, labels = problem.layout, problem.labels(tokens)
        model = decoder(1, 2, layout.length, "float64")

        def both(logits):
            def loss(model):
                return cross_entropy(logits(model), labels, problem.live)

            return jax.jit(lambda model: (logits(model), jax.grad(loss)(model)))(model)

        values, found = both(lambda model: logits_of(model, layout, tokens))
        expected_values, expected = both(lambda model: dense_logits(model, layout, tokens))
        assert_close(values, expected_values, 1e-12)
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            assert_close(a, b, 1e-10)


def dense_logits(model, layout, tokens):
    everywhere = jax.vmap(model)(tokens[:, : layout.length].astype(jnp.int32))
    return everywhere[:, layout.first : layout.first + layout.rows]


@pytest.mark.parametrize("task", [Task(7, 3, cot=False), Task(7, 3, layout="authors")], ids=["no CoT", "authors"])
def test_several_layers_and_other_layouts_agree_with_the_dense_decoder_too(task):
    with jax.enable_x64(True):
        problem, tokens = sequences(task)
        model = decoder(3, 2, problem.layout.length, "float64")
        ours = jax.jit(lambda model: logits_of(model, problem.layout, tokens))(model)
        dense = jax.jit(lambda model: dense_logits(model, problem.layout, tokens))(model)
        assert_close(ours, dense, 1e-12)


def test_padding_the_chain_changes_no_loss():
    with jax.enable_x64(True):
        model = decoder(1, 2, 7 + 5, "float64")

        @jax.jit
        def loss(model, problem, tokens):
            logits = logits_of(model, problem.layout, tokens)
            return cross_entropy(logits, problem.labels(tokens), problem.live)

        expected = loss(model, *sequences(Task(7, 2)))
        assert_close(loss(model, *sequences(PaddedTask(7, 2, padding=5))), expected, 1e-12)


def test_cross_entropy_is_the_mean_over_the_rows_that_count():
    logits = jax.random.normal(jax.random.key(0), (5, 3, 2), dtype=jnp.float32)
    labels = jnp.array([[0, 1, 0]] * 5, dtype=jnp.int8)
    live = jnp.array([True, True, False], dtype=bool)
    by_hand = -np.log(
        [jax.nn.softmax(row)[label] for one in logits for row, label in zip(one[:2], (0, 1), strict=True)]
    )
    assert_close(cross_entropy(logits, labels, live), by_hand.mean(), 1e-6)


@pytest.mark.slow
def test_dropout_acts_only_where_a_key_is_given():
    problem, tokens = sequences(Task(7, 3))
    model = decoder(1, 2, problem.layout.length, dropout=0.5)
    read = jax.jit(logits_of)
    still = read(model, problem.layout, tokens)
    first, again, other = (read(model, problem.layout, tokens, jax.random.key(seed)) for seed in (1, 1, 2))
    assert_close(again, first, 0)
    assert min(float(jnp.abs(first - logits).max()) for logits in (still, other)) > 0.01


def test_teacher_forced_exact_match_is_that_of_a_greedy_rollout_sequence_by_sequence():
    problem, tokens = sequences(Task(5, 2), count=24)
    model = decoder(1, 2, problem.layout.length, width=8)

    @jax.jit
    def three_ways(model, tokens):
        forced = jnp.argmax(logits_of(model, problem.layout, tokens), axis=-1) == problem.labels(tokens)
        alone = jax.vmap(lambda one: greedy(model, one.astype(jnp.int32), 6))(tokens[:, :7])
        last = jax.vmap(lambda one: model(one)[-1])(alone)
        return forced, alone, last, accuracy(model, problem, tokens, 8)["exact match"]

    forced, alone, last, measured = three_ways(model, tokens)
    rolled = jnp.concatenate([alone[:, 6:], jnp.argmax(last, axis=-1)[:, None]], axis=1)
    matched = jnp.all(rolled == problem.labels(tokens), axis=1)
    assert jnp.all(forced, axis=1).tolist() == matched.tolist()
    assert float(measured) == float(matched.mean())


def test_uniform_attention_has_entropy_one_and_the_secrets_share_of_the_mass():
    problem, tokens = sequences(PaddedTask(7, 3, padding=5))
    model = decoder(1, 2, problem.layout.length)
    blind = jax.tree.map(jnp.zeros_like, model)
    facts = jitted_facts(blind, problem, tokens)
    for name in ("entropy", "mean entropy", "step entropy", "unsunk entropy"):
        assert_close(facts[name], np.ones((1, 2)), 1e-6)
    assert_close(facts["mass"], np.full((1, 2), np.mean([1 / 8, 1 / 9, 1 / 10])), 1e-6)


def test_a_head_whose_queries_match_the_keys_of_the_secret_is_seen_to_look_there():
    secret = (0, 2, 5)
    problem, tokens = sequences(Task(7, 3, secret=secret))
    model = jax.tree.map(jnp.zeros_like, decoder(1, 1, problem.layout.length, width=32))
    # position p holds e_p; a query of row i reads e_{7+i} and asks for the coordinate of its secret bit
    asks = jnp.zeros((32, 32), dtype=jnp.float32).at[(7, 8, 9), secret].set(60.0)
    keys = jnp.eye(32, dtype=jnp.float32)
    changed = eqx.tree_at(
        lambda m: (m.positions.table, m.blocks[0].attention_norm.weight, m.blocks[0].attention.qkv.weight),
        model,
        (keys[:10], jnp.ones(32, dtype=jnp.float32), jnp.concatenate([asks, keys, 0 * keys], axis=1)),
    )
    facts = jitted_facts(changed, problem, tokens)
    assert float(facts["agreement"][0, 0]) == 1
    assert float(facts["mass"][0, 0]) > 0.99
    assert float(facts["step entropy"][0, 0]) < 0.05
