"""LEGO sentences: encoding, sampling, oracles, variants, and one line for sizes that cannot be."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.config import ConfigError
from stairwise.papers.lego.config.task import Task
from stairwise.papers.lego.task import Chain, draw_distinct, lego, relabelled
from stairwise.papers.lego.theory import chains

TASK = lego("S4", variables=9, length=4)


@jax.jit
def example(index):
    return TASK.example(jax.random.key(0), index)


@pytest.fixture(scope="module")
def drawn():
    return jax.jit(jax.vmap(example))(jnp.arange(200, dtype=jnp.int32))


def test_values_follow_the_actions_by_both_oracles(drawn):
    table = np.asarray(TASK.table)
    for variables, actions, values in zip(*(np.asarray(leaf) for leaf in drawn), strict=True):
        assert len(set(variables.tolist())) == 5
        for step in range(4):
            assert values[step + 1] == table[actions[step], values[step]]
    again = jax.jit(jax.vmap(TASK.track_by_products))(drawn.values[:, 0], drawn.actions)
    np.testing.assert_array_equal(again, drawn.values)


def test_sentences_are_predicates_then_answers_and_decode_to_their_chain(drawn):
    told, back = jax.jit(jax.vmap(lambda chain: (TASK.clauses(chain), TASK.decode(TASK.clauses(chain)))))(drawn)
    told = np.asarray(told)
    np.testing.assert_array_equal(told, chains.sentences(TASK, drawn))
    for found, leaf in zip(back, drawn, strict=True):
        np.testing.assert_array_equal(found, leaf)
    kinds = [[TASK.token_kind(int(token)) for token in clause] for clause in told[0]]
    assert kinds[:4] == [["variable", "action", "variable", "blank", "blank"]] * 4
    assert kinds[4:] == [["blank", "blank", "blank", "variable", "value"]] * 5
    norms = np.asarray((TASK.embed(jnp.asarray(told[0])) ** 2).sum(axis=1))
    assert norms.tolist() == [3.0] * 4 + [2.0] * 5


def test_a_pool_is_a_function_of_key_and_index(drawn):
    one = example(17)
    for leaf, all_of_them in zip(one, drawn, strict=True):
        np.testing.assert_array_equal(leaf, all_of_them[17])


def test_a_longer_chain_from_the_same_key_begins_with_the_shorter_one():
    key = jax.random.key(5)
    short, long = jax.jit(lambda key: (TASK.sample(key), lego("S4", 9, 7).sample(key)))(key)
    np.testing.assert_array_equal(short.variables, long.variables[:5])
    np.testing.assert_array_equal(short.actions, long.actions[:4])
    np.testing.assert_array_equal(short.values, long.values[:5])


def test_draws_without_replacement_reach_every_ordered_pair_equally_often():
    keys = jax.random.split(jax.random.key(1), 12_000)
    pairs = np.asarray(jax.jit(jax.vmap(lambda key: draw_distinct(key, 4, 2)))(keys))
    counts = np.bincount(pairs[:, 0] * 4 + pairs[:, 1], minlength=16).reshape(4, 4)
    assert not counts[np.eye(4, dtype=bool)].any()
    assert np.abs(counts[~np.eye(4, dtype=bool)] - 1000).max() < 5 * np.sqrt(1000)
    assert sorted(np.asarray(draw_distinct(jax.random.key(2), 6, 6)).tolist()) == list(range(6))


def test_every_chain_is_drawn_equally_often_whatever_its_parts():
    task = lego("C2", variables=3, length=2)
    many = jax.jit(jax.vmap(task.sample))(jax.random.split(jax.random.key(3), 24_000))
    parts = np.concatenate([many.variables, many.actions, many.values[:, :1]], axis=1)
    found, counts = np.unique(parts, axis=0, return_counts=True)
    assert len(found) == chains.count(3, 2, 2, 2) == 48
    assert np.abs(counts - 500).max() < 5 * np.sqrt(500)


def test_truncated_permuted_and_bootstrapped_sentences_change_only_what_they_say():
    chain = example(3)
    whole = np.asarray(TASK.clauses(chain))
    np.testing.assert_array_equal(TASK.truncated(chain, 2), whole[:7])
    order = TASK.predicate_order(jax.random.key(4))
    permuted = np.asarray(TASK.clauses(chain, order))
    np.testing.assert_array_equal(permuted[:4], whole[np.asarray(order)])
    np.testing.assert_array_equal(permuted[4:], whole[4:])
    labels = jnp.asarray(whole[5:7]).at[1, 4].add(-1)
    told = np.asarray(TASK.bootstrapped(chain, labels))
    np.testing.assert_array_equal(told[:6], whole[:6])
    assert told[6, 4] == whole[6, 4] - 1
    renamed = relabelled(chain, jnp.arange(9, dtype=jnp.int32)[::-1])
    np.testing.assert_array_equal(renamed.variables, 8 - chain.variables)


def test_distracting_chains_share_no_variable_and_leave_the_answers_alone():
    task = lego("C3", variables=9, length=2)
    both, told = jax.jit(lambda key: (task.disjoint(key, 3), task.among(task.disjoint(key, 3))))(jax.random.key(6))
    assert len(set(np.asarray(both.variables).reshape(-1).tolist())) == 9
    first = jax.tree.map(lambda leaf: leaf[0], both)
    told = np.asarray(told)
    assert told.shape == (9, 5)
    own = chains.sentences(task, jax.tree.map(lambda leaf: leaf[None], first))[0]
    np.testing.assert_array_equal(told[[0, 1, 6, 7, 8]], own)


def test_every_chain_is_listed_once():
    task = lego("S3", variables=3, length=2)
    space = chains.every_chain(task)
    rows = np.concatenate([np.asarray(leaf) for leaf in space.examples], axis=1)
    assert len(rows) == len(np.unique(rows, axis=0)) == 6 * 3 * 36 == chains.count(3, 6, 3, 2)
    tracked = jax.jit(jax.vmap(task.track))(space.examples.values[:, 0], space.examples.actions)
    np.testing.assert_array_equal(tracked, space.examples.values)


def test_sizes_that_cannot_be_are_refused_in_one_line():
    with pytest.raises(ValueError, match="length=5 needs 6 variables, which must be at most variables=5"):
        lego("C3", variables=5, length=5)
    with pytest.raises(ValueError, match="length=0 must be at least 1"):
        lego("C3", variables=5, length=0)
    with pytest.raises(ValueError, match=r"steps=5 must lie in 0..length=4"):
        TASK.truncated(example(0), 5)
    with pytest.raises(ValueError, match="chains=2 of length=4 need 10 variables"):
        TASK.disjoint(jax.random.key(0), 2)
    with pytest.raises(ValueError, match=r"token=38 must lie in 0..37"):
        TASK.token_kind(38)


def test_configs_name_the_field_before_anything_is_built():
    refused: list[tuple[dict[str, Any], str]] = [
        ({"length": 24}, "length=24 needs 25 variables, which must be at most variables=24"),
        ({"action": "Z7"}, "action=Z7 must be C<n>"),
        ({"action": "[[0,0],[0,1]]"}, r"action=\[\[0,0\],\[0,1\]\]: row 0 = \[0, 0\] must be a permutation"),
    ]
    for values, message in refused:
        with pytest.raises(ConfigError, match=message):
            Task(**values)
    assert Task("S5", 170, 5).vocabulary == 1 + 170 + 120 + 5


def test_a_chain_written_by_hand_is_told_as_the_paper_does():
    task = lego("S3", variables=3, length=1)
    chain = Chain(*(jnp.array(row, dtype=jnp.int32) for row in ([2, 0], [5], [1, 1])))
    assert task.clauses(chain).tolist() == [[1, 9, 3, 0, 0], [0, 0, 0, 3, 11], [0, 0, 0, 1, 11]]
