"""Growth laws with censored runs: known parameters come back, and intervals cover them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize
from scipy.stats import norm

from stairwise.measure.estimates import bootstrap, percentile_estimate, resample
from stairwise.measure.fits import Data, compare, fit, inverse_loss_slope, slope_estimate
from tests.helpers import assert_close

K = np.repeat(np.arange(1.0, 6.0), 5)


def exponential_runs(seed: int, budget: float = math.inf, slope: float = 1.5, scatter: float = 0.5) -> Data:
    """Five seeds at k = 1..5 of y = e^(5.5 + slope k + scatter z), stopped at the budget."""
    y = np.exp(5.5 + slope * K + scatter * np.random.default_rng(seed).standard_normal(len(K)))
    return Data.of(K, np.minimum(y, budget), y > budget)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**16))
def test_without_censoring_the_fit_is_least_squares_in_the_logarithm(seed):
    runs = exponential_runs(seed)
    for law, abscissa in [("exponential", K), ("power", np.log(K))]:
        found = fit(law, runs)
        slope, intercept = np.polyfit(abscissa, np.log(runs.y), 1)
        residuals = np.log(runs.y) - intercept - slope * abscissa
        assert_close([found.intercept, found.slope], [intercept, slope], 1e-9)
        assert_close(found.scatter, np.sqrt(np.mean(residuals**2)), 1e-6)
        assert_close(found.log_likelihood, norm.logpdf(residuals, scale=found.scatter).sum(), 1e-9)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**16), st.floats(0.1, 20), st.floats(0.1, 20), st.floats(0.05, 0.5))
def test_the_linear_law_minimises_squares_of_the_log_residual(seed, intercept, slope, scatter):
    y = (intercept + slope * K) * np.exp(scatter * np.random.default_rng(seed).standard_normal(len(K)))
    found = fit("linear", Data.of(K, y))

    def residuals(line):
        return np.log(y) - np.log(np.maximum(line[0] + line[1] * K, 1e-300))

    reference = optimize.least_squares(residuals, [intercept, slope], xtol=1e-12, ftol=1e-12, gtol=1e-12)
    assert np.sum(residuals([found.intercept, found.slope]) ** 2) <= 2 * reference.cost * (1 + 1e-6)


def test_a_perfect_law_is_recovered_to_many_digits():
    x = np.array([1.0, 2.0, 4.0, 8.0])
    assert_close(fit("power", Data.of(x, 7 / x)).slope, -1.0, 1e-6)
    assert_close(fit("exponential", Data.of(x, 3 * np.exp(0.5 * x))).slope, 0.5, 1e-6)
    found = fit("linear", Data.of(x, 2 + 5 * x))
    assert_close([found.intercept, found.slope], [2.0, 5.0], 1e-3)
    assert_close(found.predict([10.0]), [52.0], 1e-3)


def test_a_fine_grid_gives_the_same_fit_as_exact_times():
    runs = exponential_runs(3, budget=1e5)
    fine = Data(runs.x, runs.y, runs.censored, resolution=1e-3)
    assert_close(fit("exponential", fine).slope, fit("exponential", runs).slope, 1e-5)


def test_known_growth_comes_back_from_censored_runs_and_not_from_budgets_taken_as_data():
    many = np.repeat(np.arange(1.0, 6.0), 200)
    y = np.exp(5.5 + 1.5 * many + 0.5 * np.random.default_rng(0).standard_normal(len(many)))
    censored = y > 1e5
    assert 0.2 < censored.mean() < 0.4
    runs = Data.of(many, np.minimum(y, 1e5), censored)
    found = fit("exponential", runs)
    assert_close([found.intercept, found.slope, found.scatter], [5.5, 1.5, 0.5], 0.01)
    averaged = fit("exponential", Data.of(many, runs.y))
    dropped = fit("exponential", Data.of(many[~censored], y[~censored]))
    assert max(averaged.slope, dropped.slope) < 1.42


def test_aic_tells_the_true_law():
    assert compare(exponential_runs(1, budget=4e5))[0].law == "exponential"
    random = np.random.default_rng(2)
    x = np.repeat([1.0, 2.0, 4.0, 8.0, 16.0], 5)
    noise = np.exp(0.2 * random.standard_normal(len(x)))
    assert compare(Data.of(x, 3 * x**2 * noise))[0].law == "power"
    ranked = compare(Data.of(x, (100 + 20 * x) * noise))
    assert ranked[0].law == "linear"
    assert [one.aic for one in ranked] == sorted(one.aic for one in ranked)


def test_aic_is_that_of_the_cells_and_budgets_under_the_fitted_law():
    y = exponential_runs(4).y.round(-1) + 10
    runs = Data(K, np.minimum(y, 1e5), y > 1e5, resolution=10.0)
    found = fit("exponential", runs)
    low, high = (
        norm.cdf((np.log(edge) - found.intercept - found.slope * K) / found.scatter) for edge in (runs.y - 10, runs.y)
    )
    chance = np.where(runs.censored, 1 - high, high - low)
    assert 0 < runs.censored.sum() < len(K)
    assert_close(found.aic, 2 * 3 - 2 * np.log(chance).sum(), 1e-8)


@pytest.mark.slow
def test_bootstrap_intervals_cover_the_truth_about_as_often_as_they_say():
    covered = 0
    for seed in range(60):
        slope = slope_estimate("exponential", exponential_runs(seed, budget=1e5), repeats=200, confidence=0.9)
        assert slope.low <= slope.value <= slope.high
        covered += slope.low <= 1.5 <= slope.high
    assert 0.75 <= covered / 60 <= 0.98


def test_every_bootstrap_sample_is_fitted_as_if_it_were_alone():
    runs = exponential_runs(7, budget=1e5)
    # four draws of weight 5/4 at each x: dividing all weights by 5/4 moves no maximum
    counts = np.rint(resample(runs.x, 40, seed=3) * 4 / 5).astype(int)
    indices = [np.repeat(np.arange(len(K)), row) for row in counts]
    alone = [fit("exponential", Data(runs.x[i], runs.y[i], runs.censored[i])).slope for i in indices]
    together = slope_estimate("exponential", runs, repeats=40, confidence=0.5, seed=3)
    assert_close(together, percentile_estimate(together.value, np.array(alone), 0.5), 1e-6)


def test_bootstrap_is_a_function_of_its_seed():
    runs = exponential_runs(0, budget=1e5)
    one, same, other = (slope_estimate("exponential", runs, repeats=20, seed=seed) for seed in (1, 1, 2))
    assert one == same
    assert one != other


def test_resampling_keeps_the_weight_of_each_x_and_has_the_variance_of_a_mean():
    strata, values = np.array([1.0, 2.0, 1.0, 2.0, 2.0, 3.0]), np.array([5.0, 1.0, 7.0, 2.0, 9.0, 4.0])
    weights = resample(strata, repeats=20000, seed=0)
    for x in (1.0, 2.0, 3.0):
        inside = strata == x
        assert_close(weights[:, inside].sum(axis=1), np.full(20000, inside.sum()), 1e-12)
    inside = strata == 2.0
    means = weights[:, inside] @ values[inside] / 3
    assert_close(means.mean(), values[inside].mean(), 0.02)
    assert_close(means.var(), values[inside].var(ddof=1) / 3, 0.05)
    assert (weights[:, 5] == 1).all()


def test_a_slope_that_resamples_do_not_bound_has_an_infinite_end():
    runs = Data.of([1, 1, 1, 2, 2, 2], [10, 12, 11, 90, 100, 100], [False] * 4 + [True] * 2)
    slope = slope_estimate("exponential", runs, repeats=200)
    assert math.isfinite(slope.value)
    assert math.isfinite(slope.low)
    assert slope.high == math.inf


def test_the_bootstrap_of_a_mean_has_its_textbook_width():
    values = np.random.default_rng(0).standard_normal(400)
    interval = bootstrap(values, np.mean, repeats=2000)
    assert_close(interval.high - interval.low, 2 * 1.96 * values.std() / 20, 0.1)
    assert percentile_estimate(0.0, np.arange(101.0), confidence=0.5) == (0.0, 25.0, 75.0)


def test_a_replicate_holds_one_seed_fewer_than_there_are():
    assert bootstrap(np.arange(5.0), len, repeats=20) == (5.0, 4.0, 4.0)
    assert bootstrap(np.array([7.0]), repeats=20) == (7.0, 7.0, 7.0)


def test_inverse_loss_slope_is_least_squares_for_each_seed():
    times = np.array([1.0, 3.0, 4.0, 9.0])
    losses = np.random.default_rng(0).uniform(0.1, 1.0, (2, 4))
    expected = [np.polyfit(times, 1 / loss, 1)[0] for loss in losses]
    assert_close(inverse_loss_slope(times, losses), expected, 1e-12)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: fit("cubic", exponential_runs(0)), "law=cubic"),
        (lambda: fit("power", Data.of([0, 1], [1, 2])), "x=0.0 must be above 0"),
        (lambda: fit("linear", Data.of([1, 2], [1, 2], [False, True])), "uncensored run=1 must be at least 2"),
        (lambda: Data.of([1, 2], [1, 0]), "y above 0"),
        (lambda: Data.of([1, 2], [1]), "lengths=2, 1, 1"),
        (lambda: inverse_loss_slope(np.arange(3.0), np.zeros(3)), "loss=0.0"),
    ],
)
def test_bad_data_are_named(build, message):
    with pytest.raises(ValueError, match=message):
        build()
