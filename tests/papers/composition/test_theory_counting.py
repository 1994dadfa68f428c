"""Exact rationals, volumes and counts against brute force."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stairwise.papers.composition.theory import counting, inner, noise, packing, perturbation, queries, spectrum
from tests.helpers import assert_close
from tests.reference import composition as dense


def tuples(blocks, alphabet, seed):
    rng = np.random.default_rng(seed)
    return np.array([rng.permutation(alphabet) for _ in range(blocks)])


@pytest.mark.parametrize(("blocks", "alphabet"), [(1, 4), (2, 3), (3, 3), (5, 2)])
@pytest.mark.parametrize("seed", range(3))
def test_inner_products_equal_brute_force_from_every_start(blocks, alphabet, seed):
    one, two = tuples(blocks, alphabet, seed), tuples(blocks, alphabet, seed + 100)
    two[-1] = one[-1]
    exact = inner.inner_product(one, two)
    assert isinstance(exact, Fraction)
    for start in range(blocks):
        assert exact == dense.agreement(one.tolist(), two.tolist(), start)
    assert inner.counted(one, two, inner.every_tuple(blocks, alphabet)) == exact


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_a_function_has_squared_norm_one_minus_one_over_n(seed):
    one, two = tuples(4, 5, seed), tuples(4, 5, seed + 1)
    assert inner.inner_product(one, one) == Fraction(4, 5)
    assert abs(inner.inner_product(one, two)) <= Fraction(4, 5)
    assert_close(inner.inner_products(one, two[None]), [float(inner.inner_product(one, two))], 1e-12)


def test_the_fold_is_the_composition_one_by_one():
    hidden, sequences = tuples(3, 4, 0), np.stack([tuples(3, 4, seed) for seed in range(5)])
    for start in range(3):
        found = inner.fold(hidden, sequences, start)
        literal = [[dense.hop(hidden, sequence, start, 3, x) for x in range(4)] for sequence in sequences]
        assert found.tolist() == literal


@pytest.mark.parametrize(("blocks", "alphabet"), [(1, 3), (2, 3), (1, 4), (3, 2)])
def test_the_gram_matrix_is_that_of_all_pairs(blocks, alphabet):
    every = inner.every_tuple(blocks, alphabet)
    pairs = [[float(inner.inner_product(one, two)) for two in every] for one in every]
    found = spectrum.gram(blocks, alphabet)
    assert_close(found, np.array(pairs) / len(every), 1e-13)
    assert np.trace(found) == pytest.approx(
        float(spectrum.gram_eigenvalue(blocks, alphabet)) * spectrum.gram_multiplicity(blocks, alphabet)
    )
    rms = math.sqrt((np.array(pairs) ** 2).mean())
    assert rms == pytest.approx(spectrum.rms_inner_product(blocks, alphabet))


@pytest.mark.parametrize("alphabet", [2, 3, 4, 5, 6])
def test_agreement_counts_and_volumes_are_those_of_all_permutations(alphabet):
    agree = [sum(a == b for a, b in enumerate(p)) for p in itertools.permutations(range(alphabet))]
    for count in range(alphabet + 1):
        assert packing.agreeing(alphabet, count) == agree.count(count)
    for r in range(1, alphabet + 1):
        assert packing.volume(alphabet, r) == sum(a > r for a in agree)
        assert packing.volume(alphabet, r) <= packing.volume_bound_sharper(alphabet, r)


def test_a_packing_keeps_its_promise():
    rng = np.random.default_rng(0)
    letters = packing.pack_permutations(8, 2, 30, rng)
    words = packing.pack_words(len(letters), 6, 50, rng)
    assert max((letters[i] == letters[j]).sum() for i in range(len(letters)) for j in range(i)) <= 2
    assert max((words[i] == words[j]).sum() for i in range(len(words)) for j in range(i)) <= 3
    assert (len(letters), len(words)) == (30, 50)


@pytest.mark.parametrize(("blocks", "alphabet", "samples"), [(2, 3, 4), (3, 3, 2), (1, 4, 3)])
def test_expected_impostors_are_the_sum_over_all_others(blocks, alphabet, samples):
    every = inner.every_tuple(blocks, alphabet)
    agree = [Fraction(1, alphabet) + inner.inner_product(every[3], other) for other in every]
    assert counting.expected_impostors(blocks, alphabet, samples) == sum(p**samples for p in agree) - 1


def test_enough_samples_is_the_first_count_with_few_impostors():
    enough = counting.enough_samples(4, 5, 0.1)
    assert counting.expected_impostors(4, 5, enough) <= Fraction(1, 10) < counting.expected_impostors(4, 5, enough - 1)
    assert counting.fewest_samples(4, 5) < enough < 3 * 4 * 5


def test_the_calculator_of_theorem_five_gives_the_known_values():
    known = {100: (7, 5.4e-4, 17.7, -2.9), 1000: (9, 1.5e-7, 25.4, 2.4), 10_000: (11, 3.3e-11, 34.4, 17.4)}
    for alphabet, (r, tolerance, log_queries, at_floor) in known.items():
        bound = queries.sq_bound(16, alphabet, queries.useful_r(alphabet))
        assert bound.r == r
        assert 10**bound.log10_tolerance == pytest.approx(tolerance, rel=0.05)
        assert bound.log10_queries == pytest.approx(log_queries, abs=0.06)
        printed = queries.sq_bound(16, alphabet, int(math.log(alphabet)))
        assert printed.log10_queries == pytest.approx(at_floor, abs=0.06)
    assert queries.sq_bound(16, 100, 4).vacuous
    assert [n for n in range(2, 12) if queries.vacuous_for_every_r(16, n)] == [2, 3, 4, 5, 6]


def test_the_average_case_bound_gives_the_known_values():
    assert spectrum.average_queries(4, 5, 1.0, 1.0) == pytest.approx(8.2e4, rel=0.01)
    assert spectrum.average_queries(8, 5, 1.0, 1.0) == pytest.approx(5.4e9, rel=0.01)
    assert spectrum.rms_inner_product(2, 5) == pytest.approx(5.0e-2)


def test_sample_rule_and_rates():
    assert noise.sample_rule(16, 5) == 92_160
    assert [noise.sample_unit(k, 5) for k in (2, 4, 8)] == [90, 320, 1000]
    assert noise.width_of(4, 3) == 60
    rate = noise.learning_rate(4, 3, 0.5, 1e-3, 0.01)
    gap = rate * 0.5 / 12 * 0.01
    assert 12 * math.exp(-gap) == pytest.approx(1e-3)


def test_construction_error_is_first_order_in_the_leak():
    assert perturbation.construction_error(8, 5, 4, 40.0, True) == pytest.approx(4 * 32 * math.exp(-40), rel=1e-12)
    assert perturbation.construction_error(8, 5, 4, 40.0, False) == pytest.approx(4 * 39 * math.exp(-40), rel=1e-12)
