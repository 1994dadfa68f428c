"""Finite actions: their properties against the literature, and one line for every table that is none."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stairwise.papers.lego.groups import Action, from_generators, from_table, named, regular

# actions, values, free, fiber, P(same effect), P(distractor), derived series, solvable
KNOWN = {
    "C6": (6, 6, True, 1, "1/6", "0", (6, 1), True),
    "S3": (6, 3, False, 2, "1/3", "1/6", (6, 3, 1), True),
    "S4": (24, 4, False, 6, "1/4", "5/24", (24, 12, 4, 1), True),
    "S5": (120, 5, False, 24, "1/5", "23/120", (120, 60), False),
    "A4": (12, 4, False, 3, "1/4", "1/6", (12, 4, 1), True),
    "A5": (60, 5, False, 12, "1/5", "11/60", (60,), False),
    "D4": (8, 4, False, 2, "1/4", "1/8", (8, 2, 1), True),
    "D5": (10, 5, False, 2, "1/5", "1/10", (10, 5, 1), True),
    "D6": (12, 6, False, 2, "1/6", "1/12", (12, 3, 1), True),
    "S3-regular": (6, 6, True, 1, "1/6", "0", (6, 3, 1), True),
    "Q8": (8, 8, True, 1, "1/8", "0", (8, 2, 1), True),
    "A5-regular": (60, 60, True, 1, "1/60", "0", (60,), False),
    "S5-regular": (120, 120, True, 1, "1/120", "0", (120, 60), False),
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_actions_have_their_known_properties(name):
    actions, values, free, fiber, same, distractor, series, solvable = KNOWN[name]
    action = named(name)
    assert (action.actions, action.values, action.transitive, action.free) == (actions, values, True, free)
    assert (action.fiber_sizes == fiber).all()
    assert (action.stabilisers.sum(axis=1) == fiber).all()
    assert (action.same_effect, action.distractor) == (Fraction(same), Fraction(distractor))
    assert (action.derived_series, action.solvable) == (series, solvable)
    assert action.complexity == ("in ACC0" if solvable else "NC1-complete")
    assert action.is_group
    assert action.faithful
    assert action.symmetric == (name in ("S3", "S4", "S5"))


def test_all_permutations_are_each_there_once():
    assert named("D3").symmetric
    assert named("C2").symmetric
    assert not from_table([[0, 1], [1, 0], [0, 1], [1, 0]]).symmetric
    assert not from_table([[0, 1], [0, 1]]).symmetric
    assert not from_table([[0, 0], [0, 1]], allow_non_invertible=True).symmetric
    assert not named("C64").symmetric


@given(st.sampled_from(["C5", "S4", "A4", "D5", "Q8"]), st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_multiplication_composes_from_the_right_and_is_associative(name, seed):
    action = named(name)
    g, h, k = np.random.default_rng(seed).integers(action.actions, size=3)
    product = action.multiplication
    np.testing.assert_array_equal(action.table[product[g, h]], action.table[g][action.table[h]])
    assert product[product[g, h], k] == product[g, product[h, k]]
    assert product[action.identity, g] == product[g, action.identity] == g


@given(st.integers(2, 6), st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_generated_groups_are_closed_and_their_order_divides_that_of_all_permutations(size, seed):
    rng = np.random.default_rng(seed)
    group = from_generators([rng.permutation(size).tolist() for _ in range(2)])
    assert group.is_group
    assert 720 % group.actions == 0
    assert from_table(group.table, group=True).derived_series == group.derived_series
    if group.transitive:
        assert group.same_effect == Fraction(1, size)


def test_fibers_partition_the_actions():
    action = named("D5")
    assert (action.fibers.sum(axis=0) == 1).all()
    np.testing.assert_array_equal(action.fibers.sum(axis=2), action.fiber_sizes)
    assert action.fibers[3, 1].nonzero()[0].tolist() == [g for g in range(10) if action.table[g, 1] == 3]


def test_an_action_that_is_not_faithful_is_labelled_by_its_image():
    klein = [[0, 1, 2, 3], [1, 0, 3, 2], [2, 3, 0, 1], [3, 2, 1, 0]]
    sign = from_table([[0, 1], [1, 0], [1, 0], [0, 1]], product=klein)
    assert not sign.faithful
    assert (sign.derived_series, sign.complexity) == ((2, 1), "in ACC0")
    assert sign.multiplication[1, 2] == 3
    with pytest.raises(ValueError, match="the multiplication table must be given"):
        _ = from_table([[0, 1], [1, 0], [1, 0]]).multiplication


def test_generators_that_are_no_group_are_a_task_but_not_a_group():
    moves = from_table([[1, 2, 0, 3, 4], [1, 0, 2, 3, 4], [0, 1, 3, 4, 2]])
    assert not moves.is_group
    assert not moves.transitive
    assert moves.derived_series == (120, 60)
    assert moves.complexity == "NC1-complete"


def test_maps_that_are_no_permutations_are_taken_only_on_request():
    reset = from_table([[0, 0], [0, 1]], allow_non_invertible=True)
    assert not reset.invertible
    assert reset.complexity == "not a group"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"table": [[0, 1], [1, 1]]}, r"row 1 = \[1, 1\] must be a permutation of 0..1"),
        ({"table": [[0, 2]]}, r"table\[0\]\[1\]=2 must lie in 0..1"),
        ({"table": [[0, 1], [1]]}, "rows of different lengths"),
        ({"table": [[0.0, 1.0]]}, "must be whole numbers"),
        ({"table": [0, 1]}, r"shape \(2,\), which must be \(actions, values\)"),
        ({"table": [[1, 2, 0]], "group": True}, "product of actions 0 and 0 is not among the actions .closure"),
        ({"table": [[0, 1], [1, 0]], "product": [[0, 1], [1, 1]]}, "says 1 o 1 = 1, but the actions compose to"),
        ({"table": [[0, 1], [1, 0]], "product": [[0, 1]]}, r"must be \(2, 2\) with entries 0..1"),
        ({"table": [[0, 1]] * 2, "product": [[0, 0], [0, 0]]}, "no action is neutral among the 2 .identity"),
        ({"table": [[0, 1]] * 2, "product": [[0, 1], [1, 1]]}, "action 1 has no inverse among the 2 .inverses"),
    ],
)
def test_a_bad_table_is_refused_in_one_line(arguments, message):
    with pytest.raises(ValueError, match=message) as error:
        from_table(**arguments)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["X4", "C0", "S9", "D2", "S4-regular-regular-", "[[1,", "<[[0,0]]>"])
def test_a_name_that_means_nothing_is_refused_in_one_line(name):
    with pytest.raises(ValueError) as error:
        named(name)
    assert "\n" not in str(error.value)


def test_a_group_on_itself_is_simply_transitive_cyclic_or_not():
    for name in ("C4", "S3", "A4"):
        itself = regular(named(name))
        assert itself.simply_transitive
        assert itself.derived_series == named(name).derived_series
        assert itself.commutative == named(name).commutative


def test_tables_cannot_be_changed():
    action = Action(np.array([[0, 1]]))
    with pytest.raises(ValueError, match="read-only"):
        action.table[0, 0] = 1
