"""The class of all parities: transforms against enumeration, the mean parity, hidden runs, exponents."""

import math
from fractions import Fraction

import jax
import numpy as np
import pytest

from stairwise.papers.parity_onestep.theory import bounds, exponents, hiding, mean_parity, spectrum
from stairwise.tasks.parity import cube
from tests.helpers import assert_close
from tests.reference import parity_onestep as reference

SIZES = ((5, 2), (6, 3), (6, 6), (7, 5))


@pytest.fixture(autouse=True)
def in_float64():
    with jax.enable_x64(True):
        yield


def sampled(bits, samples, seed=0):
    return 1 - 2 * np.random.default_rng(seed).integers(0, 2, (samples, bits), dtype=np.int8)


def class_of(bits, size, data=None):
    density = spectrum.uniform_density(bits) if data is None else spectrum.histogram(data)
    return hiding.parity_class(cube(bits).astype(np.float64), size, density)


@pytest.mark.parametrize(("bits", "size"), SIZES)
def test_the_cube_and_the_codes_are_listed_as_enumeration_lists_them(bits, size):
    assert cube(bits).tolist() == [list(x) for x in reference.inputs(bits)]
    subsets = {sum(1 << j for j in subset) for subset in reference.every_parity(bits, size)}
    assert set(spectrum.subset_codes(bits, size).tolist()) == subsets


@pytest.mark.parametrize(("bits", "size"), SIZES)
def test_the_transform_gives_the_gradient_for_every_target(bits, size):
    net = hiding.TanhNet(bits, 3)
    theta = net.start(1)
    for data in (None, sampled(bits, 40)):
        cls = class_of(bits, size, data)
        listed = reference.inputs(bits) if data is None else [tuple(x) for x in data.tolist()]
        f, J = net.outputs_and_jacobian(theta, np.array(listed, dtype=np.float64))
        by_target = reference.gradients_for_every_target(f, J, listed, size)
        variance = np.mean(np.sum((by_target - by_target.mean(axis=0)) ** 2, axis=1))
        full_f, full_J = net.outputs_and_jacobian(theta, cls.x)
        C = spectrum.coefficients(full_J, cls.density, cls.codes)
        assert abs(spectrum.variance(C) - variance) <= 1e-14
        found = full_J.T @ (cls.density * full_f) - C
        order = np.argsort([sum(1 << j for j in subset) for subset in reference.every_parity(bits, size)])
        assert_close(found, by_target[order], 1e-12)
        assert_close(hiding.gradient(cls, full_f, full_J, cls.mean), by_target.mean(axis=0), 1e-12)


@pytest.mark.parametrize(("bits", "size"), SIZES)
def test_the_gram_matrix_has_the_overlaps_and_the_largest_eigenvalue_of_the_explicit_one(bits, size):
    data = sampled(bits, 30)
    cls, explicit = class_of(bits, size, data), reference.gram([tuple(x) for x in data.tolist()], size)
    off = np.abs(explicit - np.diag(np.diag(explicit)))
    assert abs(spectrum.largest_overlap(cls.density, cls.codes) - off.max()) <= 1e-12
    assert abs(spectrum.largest_eigenvalue(cls.density, cls.codes) - np.linalg.eigvalsh(explicit)[-1]) <= 1e-10


def test_the_largest_eigenvalue_without_the_matrix_is_that_of_the_matrix():
    cls = class_of(10, 5, sampled(10, 200))
    explicit = np.linalg.eigvalsh(spectrum.gram(cls.density, cls.codes))[-1]
    assert_close(spectrum.largest_eigenvalue(cls.density, cls.codes), explicit, 1e-9)


def test_the_jacobian_of_the_net_is_its_derivative():
    net, x = hiding.TanhNet(4, 3), cube(4).astype(np.float64)
    theta = net.start(0) + 0.1
    f, J = net.outputs_and_jacobian(theta, x)
    for j in range(net.parameters):
        moved = theta.copy()
        moved[j] += 1e-6
        assert np.abs((net.outputs(moved, x) - f) / 1e-6 - J[:, j]).max() < 1e-5


@pytest.mark.parametrize(("bits", "size"), SIZES)
def test_the_mean_parity_is_that_of_enumeration(bits, size):
    cls = class_of(bits, size)
    assert_close(cls.mean, np.array([reference.mean_parity(x, size) for x in reference.inputs(bits)]), 1e-12)
    assert_close(np.mean(cls.mean**2), float(mean_parity.second_moment(bits, size)), 1e-12)
    assert_close(np.mean(np.abs(cls.mean)), float(mean_parity.mean_magnitude(bits, size)), 1e-12)


@pytest.mark.parametrize(("bits", "size"), [*SIZES, (40, 13), (64, 32)])
def test_counts_of_even_parities_and_the_second_moment_are_exact(bits, size):
    assert mean_parity.second_moment(bits, size) == Fraction(1, math.comb(bits, size))
    for minus in range(bits + 1):
        assert mean_parity.even_count(bits, size, minus) == mean_parity.even_count_printed(bits, size, minus)


def test_half_of_the_bits_leave_a_gain_of_two_to_the_minus_half_d():
    for bits in (12, 20, 40):
        assert mean_parity.mean_magnitude(bits, bits // 2) == Fraction(1, 2 ** (bits // 2))


def test_the_sign_of_the_mean_parity_beats_chance_on_every_parity_alike():
    cls = class_of(8, 3)
    correlations = hiding.correlations(cls, np.sign(cls.mean))
    assert_close(correlations, np.full(len(cls.codes), float(mean_parity.mean_magnitude(8, 3))), 1e-12)
    assert bounds.zero_one_error(len(cls.codes)) <= 0.5 - correlations[0] / 2 < 0.5


def test_a_hidden_parity_sees_the_run_that_needs_no_parity():
    net = hiding.TanhNet(6, 4)
    cls = class_of(6, 3)
    run = hiding.hidden_run(cls, net, net.start(3), 0.5, 20)
    epsilon = float(np.median(run.deviations.max(axis=0)))
    hidden = run.hidden_from(epsilon)
    assert 0 < hidden.sum() < len(hidden)

    def ask(gradient, mean):
        return mean if np.linalg.norm(gradient - mean) <= epsilon else gradient

    for index, secret in enumerate(hidden):
        target = hiding.values(cls, cls.codes[index : index + 1])[0]
        own = hiding.run_with(cls, net, net.start(3), 0.5, 20, target, ask)
        assert np.array_equal(own, run.thetas) == secret


def test_sup_errors_and_losses_are_those_of_the_definition():
    cls = class_of(5, 2)
    f = np.random.default_rng(0).standard_normal(32)
    values = hiding.values(cls, cls.codes)
    assert_close(hiding.sup_errors(cls, f, chunk=3), np.abs(values - f).max(axis=1), 1e-14)
    assert_close(hiding.correlations(cls, f), values @ f / 32, 1e-13)
    subsets = [tuple(j for j in range(5) if code >> j & 1) for code in cls.codes.tolist()]
    assert_close(values, np.array([reference.parity_values(s, reference.inputs(5)) for s in subsets]), 0)


def test_the_exponents_of_the_separation():
    eps = Fraction(1, 3)
    assert exponents.separation(eps, Fraction(1, 2)) == 11 + eps
    assert exponents.separation(eps, Fraction(3, 2)) == 15 + eps
    assert exponents.gradient_power_end_to_end(2 + 1e-9) == pytest.approx(1.5, abs=1e-8)


def test_the_squared_loss_of_hidden_parities_obeys_its_bound_for_any_predictor():
    cls, random = class_of(7, 3), np.random.default_rng(0)
    magnitude = float(mean_parity.mean_magnitude(7, 3))
    for share in (0.3, 0.6, 0.9, 1.0):
        for scale in (0.0, 0.2, 1.0, 3.0):
            f = scale * random.standard_normal(128)
            losses = 1 - 2 * hiding.correlations(cls, f) + np.mean(f**2)
            hidden = np.argsort(losses)[: max(2, int(share * len(losses)))]  # the cheapest ones
            chance = len(hidden) / len(losses)
            assert losses[hidden].sum() / len(losses) >= bounds.hidden_squared(chance, magnitude)
            assert hiding.sup_errors(cls, f)[hidden].sum() / len(losses) >= chance


@pytest.mark.parametrize(("bits", "size", "samples"), [(8, 4, 1), (8, 4, 100), (10, 5, 30), (9, 4, 50)])
def test_the_largest_eigenvalue_is_that_of_the_matrix(bits, size, samples):
    """At k = d/2 the parities of odd inputs are orthogonal to all ones: no start for a search."""
    codes = spectrum.subset_codes(bits, size)
    for seed in range(10):
        x = np.random.default_rng(seed).choice(np.array([-1, 1]), size=(samples, bits))
        density = spectrum.histogram(x)
        wanted = np.linalg.eigvalsh(spectrum.gram(density, codes))[-1]
        assert spectrum.largest_eigenvalue(density, codes) == pytest.approx(wanted, rel=1e-9)


def test_equation_5_is_tangent_to_the_bound_that_it_simplifies():
    """1 - 2x <= 2 - 1/(1-x) for x = T Var/eps^2 up to 1/2, with equality at both ends."""
    for x in (0.0, 0.5):
        assert bounds.loss_after(10, x / 10 * 0.09, 0.3, 0.1) == pytest.approx(bounds.hidden_squared(1 - x, 0.1))
    assert bounds.loss_after(10, 0.25 / 10 * 0.09, 0.3, 0.1) < bounds.hidden_squared(0.75, 0.1)


def test_the_last_binomial_of_lemma_8_at_a_size_worked_by_hand():
    """d = 20, k = 6: delta d = 3, so (d/4)/C(10 - 3, 3 - 1)."""
    assert mean_parity.chain_of_bounds(20, 6).vandermonde == pytest.approx(5 / 21)
