"""Facts about the game of statistical queries."""

import math

import numpy as np
import pytest

import stairwise as sw
from stairwise.measure import queries


def one_by_one(functions, tolerance):
    """Asks for the difference of each function and the next."""
    for one, two in zip(functions[::2], functions[1::2], strict=False):
        yield (one - two) / np.linalg.norm(one - two)


def test_the_adversary_keeps_as_many_functions_as_one_answer_can():
    rng = np.random.default_rng(0)
    for _ in range(50):
        answers = rng.uniform(-1, 1, 9)
        answer = queries.keeping_most(answers, 0.2)
        kept = int(queries.fits(answers, answer, 0.2).sum())
        tried = [int(queries.fits(answers, other, 0.2).sum()) for other in np.linspace(-1.2, 1.2, 2401)]
        assert kept >= max(tried)


@pytest.mark.parametrize("tolerance", [0.2, 0.3, 0.45])
def test_no_learner_beats_the_bound_on_parities(tolerance):
    functions = queries.parities(8, 4)
    for learner in (queries.halving, one_by_one):
        game = sw.sq(learner, functions, tolerance)
        ruled = -np.diff([len(functions), *game.left])
        assert ruled.max() <= queries.most_ruled_out(tolerance)
        if game.alive.sum() <= 1:
            assert game.queries >= queries.fewest_queries(len(functions), tolerance)


def test_a_sum_of_functions_rules_out_as_many_as_the_bound_allows():
    functions, tolerance = np.eye(40), 1 / math.sqrt(16.5)
    above = np.abs(functions @ queries.signed_sum(functions[:16])) > tolerance
    assert above.sum() == int(queries.most_ruled_out(tolerance)) == 16


def test_the_class_and_the_learner_end_with_the_same_functions():
    game = sw.sq(queries.halving, queries.parities(7, 3), 0.3)
    assert game.alive.sum() == game.left[-1] == 1
    assert game.queries == len(game.left) == len(game.answers)


def test_a_hidden_function_is_answered_truly_until_the_learner_stops():
    functions = queries.parities(6, 3)
    game = sw.sq(one_by_one, functions, 0.3, hidden=5)
    assert game.queries == len(functions) // 2
    expected = functions[5] @ (functions[::2] - functions[1::2]).T / math.sqrt(2)
    np.testing.assert_allclose(game.answers, expected, atol=1e-12)
    assert game.alive[5]


def test_a_learner_stops_at_the_most_queries():
    assert sw.sq(queries.halving, np.eye(100), 0.2, most=3).queries == 3


def test_vectors_have_the_inner_products_that_were_asked_for():
    rng = np.random.default_rng(1)
    for rank in (6, 3):
        vectors = rng.standard_normal((6, rank))
        found = queries.of_gram(vectors @ vectors.T)
        np.testing.assert_allclose(found @ found.T, vectors @ vectors.T, atol=1e-9)


def test_bad_input_is_refused_with_the_value_and_its_range():
    def long(functions, tolerance):
        yield 2 * functions[0]

    def short(functions, tolerance):
        yield functions[0][:2]

    with pytest.raises(ValueError, match="norm 2 must have norm 1 at most"):
        sw.sq(long, np.eye(4), 0.2)
    with pytest.raises(ValueError, match=r"shape \(2,\) must have one entry per dimension, \(4,\)"):
        sw.sq(short, np.eye(4), 0.2)
    with pytest.raises(ValueError, match=r"tolerance=1\.5 must be above 0 and below 1"):
        sw.sq(queries.halving, np.eye(4), 1.5)
    with pytest.raises(ValueError, match="must be one row per function"):
        sw.sq(queries.halving, np.ones(4), 0.2)
    with pytest.raises(ValueError, match=r"hidden=9 must lie in 0\.\.3"):
        sw.sq(queries.halving, np.eye(4), 0.2, hidden=9)
    with pytest.raises(ValueError, match=r"size=9 must lie in 0\.\.bits=6"):
        queries.parities(6, 9)
    with pytest.raises(ValueError, match=r"tolerance=0\.1 must be above 0\.5"):
        queries.fewest_queries(10, 0.1, overlap=0.25)
    with pytest.raises(ValueError, match="must not be negative"):
        queries.of_gram(np.diag([1.0, -1.0]))
