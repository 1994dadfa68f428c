"""Closed forms of Appendices A, D, E and F where the claims do not look: other sizes, corners, and each other."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stairwise.papers.lego.claims.networks import drawn, ideal
from stairwise.papers.lego.claims.refined import features_of, steps_of
from stairwise.papers.lego.claims.sizes import Drawn, Ideal
from stairwise.papers.lego.config.task import Task
from stairwise.papers.lego.groups import named
from stairwise.papers.lego.theory import dilution, events, gradients, lengths, refined, start
from tests.helpers import assert_close

CONFIG = Drawn(Task("C3", 5, 2), clip=1.0, samples=4)


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def test_both_forms_of_the_attention_gradient_agree_and_sum_to_zero_over_clauses():
    for row in drawn(CONFIG, 3, (1, 2)).found:
        for step in row:
            by_xi, centred = gradients.clause_weights(step), gradients.centred_clause_weights(step, CONFIG.bias)
            assert_close(by_xi, centred, 1e-12)
            assert abs(by_xi.sum()) < 1e-13


def test_only_rows_of_an_answer_query_are_ever_written():
    step = drawn(CONFIG, 3, (1, 2)).found[0][1]
    written = gradients.scores(step, gradients.clause_weights(step))
    assert not written[:3].any()
    assert written[3:].any()
    predicate, answer = gradients.blocks(step, gradients.clause_weights(step))
    assert_close(written[3, :, 2], predicate, 1e-14)
    assert_close(written[3, :, 3], answer, 1e-14)


def test_the_printed_blocks_are_right_for_two_predicates_and_not_for_more():
    two = drawn(CONFIG, 3, (1, 2)).found[0][1]
    weights = gradients.clause_weights(two)
    assert_close(gradients.blocks_printed(two, weights)[0], gradients.blocks(two, weights)[0], 1e-15)
    steps = steps_of(Ideal(Task("S3", 6, 4), samples=2), 0, 2)[0].found
    written = gradients.clause_weights(steps[0][0])
    full, printed = (rule(steps[0][0], written)[0] for rule in (gradients.blocks, gradients.blocks_printed))
    assert (full != 0).sum() == 4
    assert (printed != 0).sum() == 2


@given(st.tuples(*[st.floats(-3, 6)] * 4), st.integers(0, 5))
@settings(max_examples=8, deadline=None)
def test_refined_formulas_equal_the_network_at_any_scores(scores, seed):
    config = Ideal(Task("D4", 5, 3), scores=scores, samples=3)
    case, features = ideal(config, seed, (2,)), features_of(config)
    actions, values = np.asarray(case.chains.actions), np.asarray(case.chains.values)
    for row, g, y in zip(case.found, actions, values, strict=True):
        step = row[0]
        slope = lambda x: np.clip(x / config.rho, 0, 1) ** 3  # noqa: E731
        made = refined.refined_of(step, features, refined.Chosen(g, y[:2]), case.task.starts[2], slope)
        whole = gradients.clause_weights(step)
        assert np.abs(refined.clause_weights(made) - whole).max() < 1e-11
        assert abs(sum(refined.diagonal_sum(made)) - whole[1] - whole[-1]) < 1e-11


@given(st.tuples(*[st.floats(-4, 9)] * 4), st.integers(2, 300))
@settings(max_examples=60, deadline=None)
def test_dilution_is_monotone_in_length_and_step_and_keeps_its_bound(scores, length):
    a, b, c, e = scores
    eps = dilution.concentration(a, b, c, e, length, length)
    assert dilution.concentration(a, b, c, e, length, length - 1) <= eps + 1e-15
    assert eps <= dilution.concentration(a, b, c, e, length + 1, length + 1) + 1e-15
    at_two = dilution.concentration(a, b, c, e, 2, 2)
    if at_two <= 0.5:
        assert eps <= dilution.diluted(at_two, length) + 1e-15
    shown = dilution.attention(a, b, c, e, length, length)
    assert abs(shown.predicate + shown.own + eps - 1) < 1e-12


@pytest.mark.parametrize("name", ["S3", "S4", "A4", "C6", "D5"])
def test_the_six_events_are_disjoint_and_cover_everything(name):
    found = events.partition(named(name))
    assert sum(found.values()) == 1
    assert found["E3"] + found["E6"] == named(name).same_effect  # y_1 = y_0: g_1 keeps y_0
    if name[0] in "SA":
        assert found == events.partition_doubly_transitive(named(name).values)


def test_tails_of_sign_products_are_those_of_all_sign_vectors():
    n, order = 8, 3
    signs = 1 - 2 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
    subsets = [s for s in np.ndindex(n, n, n) if s[0] < s[1] < s[2]]
    U = np.mean([signs[:, list(subset)].prod(axis=1) for subset in subsets], axis=0)
    for t in (0.05, 0.2, 0.6):
        assert start.sign_products_tail(n, order, t) == (np.abs(U) > t).mean()


def test_logit_bounds_are_attained():
    d, B = 20, 5.0
    F = np.zeros(d)
    F[0] = B
    p = np.exp(F) / np.exp(F).sum()
    assert_close(1 - p[0], start.logit_floor(d, B), 1e-13)
    assert_close(-np.log(p[0]), start.loss_floor(d, B), 1e-12)
    assert_close(start.loss_floor(d, 60.0), 19 * np.exp(-60.0), 1e-12)


def test_a_question_at_the_end_of_a_chain_is_lost_at_the_critical_length_and_one_at_its_start_later():
    scores = (4.0, 0.2, 3.5, -0.1)
    critical = lengths.critical_length(scores, 6)
    assert dilution.rotten_length(*scores, 6, critical) == pytest.approx(critical)
    assert dilution.rotten_length(*scores, 6, 1) > critical
    assert dilution.rotten_length(*scores, 2, 1) == float("inf")
