"""The censored likelihood against quadrature, finite differences and a general optimiser."""

import math

import numpy as np
import pytest
from scipy import integrate, optimize
from scipy.stats import norm

from stairwise.measure.fits import LAWS
from stairwise.measure.likelihood import Runs, interval_log_mass, log_likelihood, maximise
from tests.helpers import assert_close

POSITION = np.repeat(np.linspace(0, 1, 5), 4)
SOMEWHERE = np.array([7.0, 13.5, -0.4])


def runs_with(cell: float) -> Runs:
    """Runs with ln y around 7 + 6 position, known up to `cell`, a third of them only known to lie above ln y."""
    log_y = 7 + 6 * POSITION + 0.5 * np.random.default_rng(0).standard_normal(len(POSITION))
    censored = np.arange(len(POSITION)) % 3 == 0
    return Runs(POSITION, log_y - np.where(censored, 0, cell), np.where(censored, np.inf, log_y))


def one_sample(law: str, runs: Runs, parameters: np.ndarray):
    value, gradient, hessian = log_likelihood(law, runs, np.ones((1, len(runs.position))), parameters[None])
    return value[0], gradient[0], hessian[0]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("cell", [0.0, 0.3])
def test_gradient_and_hessian_are_those_of_finite_differences(law, cell):
    runs = runs_with(cell)
    _, gradient, hessian = one_sample(law, runs, SOMEWHERE)
    steps = 1e-5 * np.eye(3)
    around = [(one_sample(law, runs, SOMEWHERE + h), one_sample(law, runs, SOMEWHERE - h)) for h in steps]
    assert_close(gradient, [(up[0] - down[0]) / 2e-5 for up, down in around], 1e-7)
    assert_close(hessian, [(up[1] - down[1]) / 2e-5 for up, down in around], 1e-7)


def test_a_cell_counts_its_probability_and_a_budget_the_probability_beyond():
    cells = [(20.0, 30.0, 0.0), (40.0, 50.0, 1.0), (80.0, math.inf, 1.0)]
    low, high, position = np.array(cells).T
    left, right, scatter = 3.0, 4.2, 0.7
    runs = Runs(position, np.log(low), np.log(high))
    value, _, _ = one_sample("exponential", runs, np.array([left, right, math.log(scatter)]))

    def density(y, mean):
        return norm.pdf((math.log(y) - mean) / scatter) / (scatter * y)

    masses = [integrate.quad(density, a, b, args=(right if p else left,))[0] for a, b, p in cells]
    assert_close(value, np.sum(np.log(masses)), 1e-7)


def test_tail_masses_keep_their_digits():
    a, b = np.array([-9.0, 8.0, 30.0, -math.inf]), np.array([-8.0, 9.0, math.inf, 0.0])
    expected = [math.log(norm.sf(8) - norm.sf(9)), math.log(norm.sf(8) - norm.sf(9)), norm.logsf(30), math.log(0.5)]
    assert_close(interval_log_mass(a, b), expected, 1e-12)


def test_the_linear_law_is_the_line_between_its_ends():
    runs = runs_with(0.0)
    value, _, _ = one_sample("linear", runs, SOMEWHERE)
    line = np.log((1 - POSITION) * math.exp(7.0) + POSITION * math.exp(13.5))
    exact = runs.lower == runs.upper
    scatter = math.exp(-0.4)
    expected = norm.logpdf(runs.upper[exact], line[exact], scatter).sum()
    expected += norm.logsf(runs.lower[~exact], line[~exact], scatter).sum()
    assert_close(value, expected, 1e-12)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("cell", [0.0, 0.3])
def test_the_maximum_is_where_a_general_optimiser_finds_it_from_any_start(law, cell):
    runs = runs_with(cell)
    position = runs.position**2 if law == "power" else runs.position
    runs = runs._replace(position=position)
    reference = optimize.minimize(
        lambda parameters: -one_sample(law, runs, parameters)[0],
        SOMEWHERE,
        method="Nelder-Mead",
        options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000},
    )
    starts = np.array([SOMEWHERE, [0.0, 0.0, 0.0], [20.0, 5.0, 1.0], [7.0, 13.0, -3.0]])
    found, values = maximise(law, runs, np.ones((4, len(POSITION))), starts)
    assert_close(values, np.full(4, -reference.fun), 1e-9)
    assert_close(found, np.tile(reference.x, (4, 1)), 1e-4)
