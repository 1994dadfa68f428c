"""The structured model against dense attention, and the constructions against the task."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.papers.composition import plan
from stairwise.papers.composition.constructions import any_blocks, compact_codes, moves, theorem4, theorem9
from stairwise.papers.composition.model import AttentionOnly, untrained
from stairwise.papers.composition.permutations import uniform_permutations
from stairwise.papers.composition.task import Composition, draw_hidden
from tests.helpers import assert_close
from tests.reference import composition as reference


def random_model(blocks, alphabet, seed, scale=0.3):
    """Weights with no structure at all."""
    key, layers, T = jax.random.key(seed), plan.layers(blocks), blocks * alphabet
    key_query = tuple(
        scale * jax.random.normal(jax.random.fold_in(key, number), (number + 2, number + 2, T, T), dtype=jnp.float64)
        for number in range(len(layers))
    )
    shape = (len(layers), len(layers) + 2, T, alphabet)
    return AttentionOnly(key_query, jax.random.normal(key, shape, dtype=jnp.float64), plan=layers)


def dense(model):
    """The same weights as full d x d matrices."""
    stream, T = model.readout.shape[1:3]
    matrices = []
    for W in model.key_query:
        full = jnp.zeros((stream, stream, T, T), dtype=W.dtype).at[: len(W), : len(W)].set(W)
        matrices.append(full.transpose(0, 2, 1, 3).reshape(stream * T, stream * T))
    return matrices, model.readout.reshape(len(model.readout), stream * T, -1)


def dense_heads(weights, readout, sequence):
    return jnp.einsum("dq,hdn->hqn", reference.streams(weights, sequence)[-1], readout)


@pytest.mark.parametrize("size", [(4, 3)])
def test_structured_attention_equals_dense_attention(size):
    with jax.enable_x64(True):
        model = jax.jit(partial(random_model, *size))(1)
        sequence = uniform_permutations(jax.random.key(2), *size)
        outputs = jax.jit(lambda model, sequence: dense_heads(*dense(model), sequence))(model, sequence)
        assert_close(jax.jit(lambda model, sequence: model.heads(sequence))(model, sequence), outputs, 1e-12)
        queries = jnp.arange(sequence.size, dtype=jnp.int32)
        at_queries = jax.jit(jax.vmap(AttentionOnly.heads_at, (None, None, 0)))(model, sequence, queries)
        assert_close(at_queries.swapaxes(0, 1), outputs, 1e-12)


def test_gradients_through_the_structure_equal_gradients_through_dense_attention():
    with jax.enable_x64(True):
        model = jax.jit(partial(random_model, 2, 4))(3)
        # heads that read no block above their own, as in the algorithms
        model = replace(model, readout=untrained(model.plan, 2, 4, 1.3, dtype="float64").readout)
        sequence, query = uniform_permutations(jax.random.key(4), 2, 4), jnp.int32(7)

        def ours(key_query, model, sequence, query):
            changed = replace(model, key_query=key_query)
            return jnp.stack([jax.nn.log_softmax(changed.head(head, sequence, query))[1] for head in range(2)])

        def theirs(weights, model, sequence, query):
            return jax.nn.log_softmax(dense_heads(weights, dense(model)[1], sequence)[:, query])[:, 1]

        # everything is an argument: XLA would spend its time on folding constants
        found = jax.jit(jax.jacrev(ours))(model.key_query, model, sequence, query)
        expected = jax.jit(jax.jacrev(theirs))(dense(model)[0], model, sequence, query)
        T, stream = 8, len(model.plan) + 2
        for layer in range(2):
            blocks = np.asarray(expected[layer]).reshape(2, stream, T, stream, T).transpose(0, 1, 3, 2, 4)
            seen = layer + 2
            assert_close(found[layer], blocks[:, :seen, :seen], 1e-12)
            assert np.abs(blocks[:, seen:]).max() == 0
            assert np.abs(blocks[:, :, seen:]).max() == 0


def test_untrained_heads_are_exactly_uniform_whatever_the_sequence():
    with jax.enable_x64(True):
        model = untrained(plan.layers(4), 4, 5, 0.7, dtype="float64")
        sequences = uniform_permutations(jax.random.key(0), 12, 5).reshape(3, 4, 5)
        outputs = jax.jit(jax.vmap(lambda sequence: jax.nn.softmax(model.heads(sequence))))(sequences)
        assert_close(outputs, jnp.full_like(outputs, 0.2), 1e-14)


def hop_targets(model, hidden, sequence):
    task = Composition(hidden)
    labels = jnp.stack([task.hop(sequence, layer.hops).reshape(-1) for layer in model.plan])
    return jax.nn.one_hot(labels, task.alphabet, dtype=jnp.float64)


def output_error(build, hidden, sequence):
    """The largest distance of any head from its hop's one-hot answer, at any token."""

    @jax.jit
    def distance(hidden, sequence):
        model = build(hidden)
        return jnp.abs(model.heads(sequence) - hop_targets(model, hidden, sequence)).max()

    return float(distance(hidden, sequence))


@pytest.mark.parametrize("blocks", [1, 4, 8])
def test_theorem_4_expresses_every_power_of_two_hops_at_every_position(blocks):
    with jax.enable_x64(True):
        hidden = draw_hidden(jax.random.key(blocks), blocks, 4)
        sequence = uniform_permutations(jax.random.key(9), blocks, 4)
        for beta in (15.0, 30.0):
            error = output_error(partial(theorem4, beta=beta, dtype="float64"), hidden, sequence)
            assert error <= 1.05 * blocks.bit_length() * blocks * 3 * np.exp(-beta) + 1e-14


def test_theorem_4_as_printed_reads_the_first_blocks_queries():
    with jax.enable_x64(True):
        hidden, sequence = draw_hidden(jax.random.key(0), 4, 5), uniform_permutations(jax.random.key(1), 4, 5)
        model = theorem4(hidden, 40.0, cyclic=False, dtype="float64")
        assert_close(
            jax.jit(lambda s: model.heads(s))(sequence)[:, :5], hop_targets(model, hidden, sequence)[:, :5], 1e-13
        )


@pytest.mark.parametrize("blocks", [3, 5, 6, 7, 12, 13])
def test_any_number_of_blocks_can_be_composed(blocks):
    with jax.enable_x64(True):
        hidden = draw_hidden(jax.random.key(blocks), blocks, 4)
        sequence = uniform_permutations(jax.random.key(blocks + 1), blocks, 4)
        assert output_error(partial(any_blocks, beta=40.0, dtype="float64"), hidden, sequence) < 1e-14
        assert plan.layers(blocks)[-1].hops == blocks
        with pytest.raises(ValueError, match=f"blocks={blocks} must be a power of two"):
            theorem4(hidden, 40.0, dtype="float64")


@pytest.mark.parametrize("support", [(0, 5), (2, 7)])
def test_the_compact_construction_is_exact_whether_or_not_the_last_block_moves(support):
    with jax.enable_x64(True):
        hidden = np.tile(np.arange(5, dtype=np.int32), (8, 1))
        for block in support:
            hidden[block] = [1, 2, 3, 4, 0]
        hidden, sequence = jnp.asarray(hidden), uniform_permutations(jax.random.key(1), 8, 5)
        beta = 40 / (1 - np.cos(2 * np.pi / 8))
        plain, cyclic = (theorem9(hidden, 2, beta, cyclic=c, dtype="float64") for c in (False, True))
        targets = hop_targets(plain.model, hidden, sequence)
        heads = jax.jit(lambda model, sequence: model.heads(sequence))
        assert_close(heads(plain.model, sequence)[:, :5], targets[:, :5], 1e-12)
        assert_close(heads(cyclic.model, sequence), targets, 1e-12)
        assert plain.model.readout.shape[1:3] == (6, 4 * 5)
        assert cyclic.model.readout.shape[1:3] == (6, 5 * 5)
        assert_close(jax.jit(lambda s: cyclic(s, 3, 2))(sequence), targets[-1, 3 * 5 + 2], 1e-12)


def test_the_plain_compact_construction_refuses_cyclic_queries():
    hidden, sequence = draw_hidden(jax.random.key(0), 4, 3, 1), uniform_permutations(jax.random.key(1), 4, 3)
    plain = theorem9(hidden, 1, 200.0)
    with pytest.raises(ValueError, match="block=2 must be 0: the plain readout knows one position only"):
        plain(sequence, 2, 0)
    with pytest.raises(ValueError, match=r"letter=3 must lie in 0\.\.2"):
        plain(sequence, 0, 3)
    with pytest.raises(ValueError, match=r"moved=5 must lie in 0\.\.blocks=4"):
        theorem9(hidden, 5, 200.0)


def test_support_that_is_larger_than_m_is_refused():
    hidden = jnp.array([[1, 0], [1, 0]], dtype=jnp.int32)
    with pytest.raises(ValueError, match="moved=1 must be at least 2, as many hidden permutations move"):
        theorem9(hidden, 1, 10.0)


def test_compact_codes_name_the_support_in_order():
    hidden = jnp.array([[0, 1], [1, 0], [0, 1], [1, 0]], dtype=jnp.int32)
    codes = compact_codes(moves(hidden), 2, constant=True)
    assert codes[:, :2].tolist() == [[0, 0], [1, 0], [0, 0], [0, 1]]
    assert codes[:, -1].tolist() == [1, 1, 1, 1]
    assert_close(codes[-1, 2:4], np.array([1.0, 0.0]), 1e-6)
