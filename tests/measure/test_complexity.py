"""Survival estimates against a textbook table: remission times of leukaemia patients (Freireich et al., 1963)."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from stairwise.measure.complexity import Hits, earliest, kaplan_meier, log_rank, stratified_log_rank, summarise
from tests.helpers import assert_close

HIT, BUDGET = False, True
TREATED_HITS = [6, 6, 6, 7, 10, 13, 16, 22, 23]
TREATED_BUDGETS = [6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35]
TREATED = Hits.of([*((t, HIT) for t in TREATED_HITS), *((t, BUDGET) for t in TREATED_BUDGETS)])
PLACEBO = Hits.of((t, HIT) for t in [1, 1, 2, 2, 3, 4, 4, 5, 5, 8, 8, 8, 8, 11, 11, 12, 12, 15, 17, 22, 23])
AT_RISK = {6: (21, 3), 7: (17, 1), 10: (15, 1), 13: (12, 1), 16: (11, 1), 22: (7, 1), 23: (6, 1)}


def test_kaplan_meier_equals_the_textbook_table():
    curve = kaplan_meier(TREATED)
    survival, table = Fraction(1), {}
    for time, (at_risk, hits) in AT_RISK.items():
        survival *= Fraction(at_risk - hits, at_risk)
        table[time] = 1 - survival
    found = [curve.success[curve.times == time].item() for time in table]
    assert_close(found, [float(success) for success in table.values()], 1e-14)
    # between hits the curve is flat
    assert curve.success[curve.times == 20] == curve.success[curve.times == 16]


def test_limits_are_greenwoods_on_the_log_log_scale():
    curve = kaplan_meier(TREATED)
    last = curve.times == 23
    survival = 1 - curve.success[last].item()
    variance = sum(hits / (at_risk * (at_risk - hits)) for at_risk, hits in AT_RISK.values())
    assert_close(survival * math.sqrt(variance), 0.1346, 1e-3)  # the table's standard error
    theta = 1.959964 * math.sqrt(variance) / math.log(survival)
    expected = [1 - survival ** math.exp(theta), 1 - survival ** math.exp(-theta)]
    assert_close([curve.low[last].item(), curve.high[last].item()], expected, 1e-6)


def test_medians_and_their_intervals_are_the_textbooks():
    assert kaplan_meier(TREATED).median() == (23, 13, math.inf)
    assert kaplan_meier(PLACEBO).median() == (8, 4, 11)


def test_log_rank_equals_the_textbook_and_scipy():
    p = log_rank(TREATED, PLACEBO)
    assert_close(stats.chi2.isf(p, 1), 16.79, 1e-3)
    assert p == log_rank(PLACEBO, TREATED)
    expected = stats.logrank(stats.CensoredData(TREATED_HITS, right=TREATED_BUDGETS), PLACEBO.times)
    assert_close(p, expected.pvalue, 1e-12)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=12))
def test_without_censoring_the_curve_is_the_fraction_of_hits_so_far(times):
    curve = kaplan_meier(Hits.of((t, HIT) for t in times))
    assert_close(curve.success, [np.mean(np.array(times) <= t) for t in curve.times], 1e-14)
    assert (curve.low <= curve.success + 1e-12).all()
    assert (curve.success <= curve.high + 1e-12).all()
    assert curve.median().value == sorted(times)[(len(times) - 1) // 2]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 30), st.booleans()), min_size=1, max_size=12))
def test_the_curve_grows_inside_its_limits_and_ends_open(pairs):
    curve = kaplan_meier(Hits.of(pairs))
    assert (np.diff(curve.success) >= 0).all()
    assert (curve.low >= 0).all()
    assert (curve.low <= curve.success + 1e-12).all()
    assert (curve.success <= curve.high + 1e-12).all()
    assert (curve.high <= 1).all()
    median = curve.median()
    assert median.low <= median.value <= median.high


def test_where_all_have_succeeded_the_lower_limit_stays_where_it_was():
    at_once = kaplan_meier(Hits.of([(5, HIT)] * 3))
    assert (at_once.low.tolist(), at_once.high.tolist()) == ([0.0], [1.0])
    assert at_once.median() == (5.0, 5.0, math.inf)
    in_two = kaplan_meier(Hits.of([(5, HIT), (5, HIT), (8, HIT)]))
    assert 0 < in_two.low[0] == in_two.low[1]
    assert in_two.high[1] == 1


def test_a_longer_budget_of_a_censored_run_changes_nothing_where_hits_were_seen():
    short = Hits.of([(10, HIT), (20, HIT), (100, BUDGET), (100, BUDGET), (100, BUDGET)])
    long = Hits.of([(10, HIT), (20, HIT), (900, BUDGET), (900, BUDGET), (900, BUDGET)])
    assert summarise(short) == summarise(long)
    assert summarise(short).median.value == math.inf
    assert summarise(short).reached == 2


def test_arms_without_any_hit_cannot_be_told_apart():
    failed = Hits.of([(100, BUDGET)] * 4)
    assert log_rank(failed, failed) == 1.0
    assert kaplan_meier(failed).median() == (math.inf, math.inf, math.inf)
    assert log_rank(Hits.of([(1, HIT)]), Hits.of([(1, HIT)])) == 1.0
    assert log_rank(Hits.of([(10, HIT)] * 6), Hits.of([(100, BUDGET)] * 6)) < 0.01


def test_the_stratified_log_rank_test_of_one_pair_is_the_plain_one():
    assert stratified_log_rank([(TREATED, PLACEBO)]) == pytest.approx(log_rank(TREATED, PLACEBO), rel=1e-9)
    assert stratified_log_rank([(PLACEBO, TREATED)]) == pytest.approx(log_rank(TREATED, PLACEBO), rel=1e-9)


def test_strata_add_up_and_are_not_mixed():
    one = (Hits.of([(5, HIT), (9, BUDGET), (9, BUDGET)]), Hits.of([(9, BUDGET)] * 3))
    other = (Hits.of([(700, HIT), (900, BUDGET), (900, BUDGET)]), Hits.of([(900, BUDGET)] * 3))
    # in each pair: one hit of the first arm where a half was due, variance 1/4; so 2 (1/2) squared over 2 (1/4)
    assert stratified_log_rank([one, other]) == pytest.approx(float(stats.chi2.sf(2.0, df=1)))
    assert stratified_log_rank([one, one[::-1]]) == pytest.approx(1.0)
    nothing = (Hits.of([(9, BUDGET)]), Hits.of([(9, BUDGET)]))
    assert stratified_log_rank([nothing]) == stratified_log_rank([]) == 1.0
    assert stratified_log_rank([one, nothing]) == pytest.approx(stratified_log_rank([one]))


def test_log_rank_rejects_as_often_as_it_should_when_arms_are_equal():
    random = np.random.default_rng(0)
    samples = random.exponential(1.0, (400, 2, 20))
    arms = [[Hits(np.minimum(times, 1.5), times > 1.5) for times in pair] for pair in samples]
    rejected = np.mean([log_rank(a, b) < 0.05 for a, b in arms])
    assert 0.02 < rejected < 0.09


def test_the_earliest_over_arms_is_censored_only_while_no_arm_has_hit():
    slow = Hits.of([(50, HIT), (100, BUDGET), (100, BUDGET), (40, BUDGET)])
    fast = Hits.of([(30, HIT), (100, HIT), (100, BUDGET), (60, HIT)])
    best = earliest(slow, fast)
    assert best.times.tolist() == [30, 100, 100, 40]
    assert best.censored.tolist() == [HIT, HIT, BUDGET, BUDGET]


def test_first_passage_ticks_become_hits():
    hits = Hits.of_ticks([5, -1, 0], budget=64)
    assert hits.times.tolist() == [5, 64, 0]
    assert hits.censored.tolist() == [HIT, BUDGET, HIT]


def test_bad_times_are_named():
    with pytest.raises(ValueError, match="times="):
        Hits.of([(math.nan, HIT)])
    with pytest.raises(ValueError, match="runs=0"):
        Hits(np.zeros(0), np.zeros(0, dtype=bool))
