"""The task: two oracles against the literal definition, the ideal stream, what is refused."""

import itertools
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stairwise.config import ConfigError
from stairwise.papers.composition import plan
from stairwise.papers.composition.config import Descent, Encoder, Hardness, Model, Task, Values
from stairwise.papers.composition.permutations import (
    all_permutations,
    first_non_permutation,
    inverse,
    uniform_permutations,
)
from stairwise.papers.composition.task import composition, draw_hidden, ideal_attention, ideal_stream, token_form
from tests.reference import composition as reference


@partial(jax.jit, static_argnums=(0, 1))
def drawn(blocks, alphabet, seed):
    key = jax.random.key(seed)
    hidden = uniform_permutations(jax.random.fold_in(key, 0), blocks, alphabet)
    return hidden, uniform_permutations(jax.random.fold_in(key, 1), blocks, alphabet)


@eqx.filter_jit
def by_both(task, sequence, hops):
    """The answers of the two oracles."""
    return task.hop(sequence, hops).reshape(-1), task.hop_by_doubling(sequence, hops).reshape(-1)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**31 - 1), size=st.sampled_from([(4, 5), (6, 3)]))
def test_both_oracles_are_the_literal_composition(seed, size):
    hidden, sequence = drawn(*size, seed)
    task = composition(np.asarray(hidden))
    for hops in range(1, size[0] + 1):
        literal = reference.hops_of(hidden.tolist(), sequence.tolist(), hops)
        for found in by_both(task, sequence, hops):
            assert found.tolist() == literal


def test_oracles_agree_on_every_sequence_of_the_smallest_task():
    task = composition(np.array([[1, 2, 0], [0, 2, 1]], dtype=np.int32))
    sequences = jnp.asarray(reference.every_sequence(2, 3), dtype=jnp.int32)
    for hops in (1, 2):
        one, other = jax.jit(jax.vmap(lambda s, hops=hops: by_both(task, s, hops)))(sequences)
        np.testing.assert_array_equal(one, other)


def test_more_hops_than_blocks_need_the_flag():
    hidden, sequence = drawn(4, 3, 0)
    with pytest.raises(ValueError, match=r"hops=5 must lie in 1\.\.blocks=4 unless allow_repeats is set"):
        composition(np.asarray(hidden)).hop(sequence, 5)
    literal = reference.hops_of(hidden.tolist(), sequence.tolist(), 9)
    task = composition(np.asarray(hidden), allow_repeats=True)
    for found in by_both(task, sequence, 9):
        assert found.tolist() == literal


@pytest.mark.parametrize("blocks", [3, 4, 6, 13])
def test_the_ideal_stream_holds_every_hop_at_its_position(blocks):
    hidden, sequence = drawn(blocks, 4, blocks)
    task, layers = composition(np.asarray(hidden)), plan.layers(blocks)
    ideal = jax.jit(lambda: (stream := ideal_stream(layers, hidden, sequence), ideal_attention(layers, hidden, stream)))
    stream, attended = map(np.asarray, ideal())
    hops = jax.jit(lambda: [task.hop(sequence, layer.hops) for layer in layers])()
    for number, layer in enumerate(layers):
        place = (np.arange(blocks)[:, None] + layer.hops - 1) % blocks
        np.testing.assert_array_equal(stream[number + 2], (4 * place + np.asarray(hops[number])).reshape(-1))
        np.testing.assert_array_equal(stream[layer.value][attended[number]], stream[number + 2])
    assert layers[-1].hops == blocks
    assert len(layers) == blocks.bit_length() + bin(blocks).count("1") - 1


def test_a_query_of_the_task_that_is_not_cyclic_lies_in_the_first_block():
    hidden, _ = drawn(4, 3, 1)
    task = composition(np.asarray(hidden), cyclic=False)
    queries = jax.jit(jax.vmap(lambda key: task.sample(key, 4).query))(jax.random.split(jax.random.key(0), 200))
    assert set(queries.tolist()) == {0, 1, 2}


def test_uniform_permutations_are_uniform():
    rows = np.asarray(uniform_permutations(jax.random.key(0), 24_000, 4))
    assert first_non_permutation(rows) is None
    counts = np.unique(rows @ np.array([64, 16, 4, 1]), return_counts=True)[1]
    assert len(counts) == 24
    # 1000 +- 31 each: chi square of 23 degrees of freedom, whose 0.9999 quantile is 58
    assert np.sum((counts - 1000) ** 2 / 1000) < 58


def test_a_permutation_after_its_inverse_is_the_identity():
    for row in all_permutations(4):
        assert row[np.asarray(inverse(jnp.asarray(row)))].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("moved", [0, 1, 3, 4])
def test_sparse_hidden_permutations_move_at_most_m_blocks(moved):
    identity = np.arange(6)
    draw = jax.jit(lambda seed: draw_hidden(jax.random.key(seed), 4, 6, moved))
    for seed in range(20):
        hidden = np.asarray(draw(seed))
        assert (hidden != identity).any(axis=1).sum() <= moved
        assert first_non_permutation(hidden) is None


def test_tokens_are_the_kind_and_then_the_values():
    _, sequence = drawn(2, 3, 0)
    assert token_form(sequence, 2).tolist() == [5, *itertools.chain(*sequence.tolist())]


REFUSED = {
    r"hidden: row 1 = \[2, 2, 0\] must be a permutation of 0\.\.2": lambda: Task(2, 3, hidden=(0, 1, 2, 2, 2, 0)),
    r"hidden has 5 entries, which must be blocks\*alphabet=6": lambda: Task(2, 3, hidden=(0, 1, 2, 2, 0)),
    r"blocks=6 must be a power of two unless any_blocks is set": lambda: Task(6, 3),
    r"moved=5 must be at most blocks=4": lambda: Task(4, 3, moved=5),
    r"hops=8 must be at most task.blocks=4 unless allow_repeats is set": lambda: Encoder(hops=(1, 8)),
    r"width=10 must be a multiple of heads=4": lambda: Encoder(model=Model(width=10, heads=4)),
    r"samples=100 must be a multiple of block=64": lambda: Descent(samples=100, block=64),
    r"stages=5 must be at most layers=4": lambda: Descent(stages=5),
    r"path=integer must be exact where algorithm=mixture": lambda: Descent(path="integer", algorithm="mixture"),
    r"path=integer must be exact where values.free is set": lambda: Descent(path="integer", values=Values(free=True)),
    r"task.moved=-1 must be at least 0 where embedding=compact": lambda: Descent(embedding="compact"),
    r"free=false must be true where V is not a plain copy": lambda: Values(noise=1.0),
    r"hops=3 must be at most 2 where alphabet=4": lambda: Hardness(hops=3, alphabet=4),
}


@pytest.mark.parametrize("message", REFUSED)
def test_a_config_that_means_nothing_is_refused_in_one_line(message):
    with pytest.raises(ConfigError, match=f"^{message}") as refusal:
        REFUSED[message]()
    assert "\n" not in str(refusal.value)


def test_a_hidden_permutation_that_is_none_is_refused():
    with pytest.raises(ValueError, match=r"hidden\[1\]=\[0, 0\] must be a permutation of 0\.\.1"):
        composition(np.array([[1, 0], [0, 0]], dtype=np.int32))


def test_more_moved_blocks_than_there_are_is_refused():
    with pytest.raises(ValueError, match=r"moved=5 must lie in 0\.\.blocks=4"):
        draw_hidden(jax.random.key(0), 4, 3, 5)
