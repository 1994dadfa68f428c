"""Gradient variance over targets: transforms against sums, both classes against their papers, and the bound."""

from dataclasses import replace
from itertools import combinations

import jax
import numpy as np
import pytest

from stairwise.config import ConfigError
from stairwise.papers.composition.config import Hardness
from stairwise.papers.composition.hardness import gradient_variance
from stairwise.papers.crossings import variance
from stairwise.papers.crossings.variance import Spectrum, runs, train
from stairwise.papers.crossings.variance.config import CLASSES, NETWORKS
from stairwise.tasks.parity import cube
from tests.helpers import assert_close
from tests.papers.records import HandMade

pytestmark = pytest.mark.slow  # most of them compile a network


def test_the_butterflies_sum_every_character():
    values = np.random.default_rng(0).normal(size=(8, 3))
    characters = np.stack([np.prod(cube(3)[:, list(bits)], axis=1) for bits in subsets(3)])
    assert_close(train.walsh_hadamard(values), characters @ values, 1e-12)


def subsets(bits: int) -> list[list[int]]:
    """By code: bit j of the code is membership of j."""
    return [[j for j in range(bits) if code >> j & 1] for code in range(2**bits)]


@pytest.mark.parametrize("size", [1, 2, 4])
def test_parity_means_are_the_means_of_the_queries_at_each_parity(size):
    queries = np.random.default_rng(1).normal(size=(16, 2, 5))
    queries -= queries.mean(axis=1, keepdims=True)
    config = Spectrum(length=4, size=size)
    bits = train.inputs(config)
    dense = [
        queries[np.arange(16), bits[:, list(subset)].sum(axis=1) % 2].mean(axis=0)
        for subset in combinations(range(4), size)
    ]
    found = train.parity_means(config, queries)
    assert_close(np.sort(found, axis=0), np.sort(np.array(dense), axis=0), 1e-12)


@pytest.mark.parametrize("network", ["perceptron", pytest.param("encoder")])
def test_compositions_are_measured_as_in_their_own_paper(network):
    with jax.enable_x64(True):
        here = train.variance(Spectrum(targets="composition", length=3, size=1, network=network), 0)
        there = gradient_variance(Hardness(hops=1, network=network, width=8), 0)
    assert_close(here.last("share") * (1 - 1 / 3), there.last("mean ratio"), 1e-12)
    assert_close((1 - 1 / 3) / here.last("dimensions"), there.last("eigenvalue"), 1e-12)


@pytest.mark.parametrize(("targets", "length", "size"), [("parity", 5, 2), ("composition", 3, 2)])
def test_no_coordinate_exceeds_one_over_the_dimensions_of_the_class(targets, length, size):
    with jax.enable_x64(True):
        found = train.variance(Spectrum(targets=targets, length=length, size=size, width=4), 1)
    assert 0 < found.last("share") <= found.last("largest share")
    assert found.last("largest share") * found.last("dimensions") <= 1 + 1e-9


def test_the_dimensions_are_those_that_the_centred_targets_fill():
    bits = train.inputs(Spectrum(length=4, size=2))
    parities = np.array([1 - 2 * (bits[:, list(pair)].sum(axis=1) % 2) for pair in combinations(range(4), 2)])
    assert np.linalg.matrix_rank(parities) == Spectrum(length=4, size=2).dimensions == 6
    for size in (1, 2):
        config = Spectrum(targets="composition", length=3, size=size)
        tuples = train.all_tuples(size, 3)
        labels = np.stack([train.answers(hidden, tuples) for hidden in tuples])
        centred = (np.eye(3)[labels] - 1 / 3).reshape(len(tuples), -1)
        assert np.linalg.matrix_rank(centred - centred.mean(axis=0)) == config.dimensions


def record(targets: str, network: str, size: int, slope: float, largest: float = 0.5) -> HandMade:
    config = Spectrum(targets=targets, network=network, length=10 if targets == "parity" else 3, size=size)
    measured = {"share": ([0], [config.dimensions**slope]), "largest share": ([0], [largest / config.dimensions])}
    return HandMade(config, measured=measured)


def records(parity: float, composition: float, largest: float = 0.5) -> list[HandMade]:
    slopes = {"parity": parity, "composition": composition}
    return [
        record(targets, network, size, slopes[targets], largest)
        for targets in CLASSES
        for network in NETWORKS
        for size in (1, 2, 3)
    ]


def test_the_hypotheses_can_hold_and_can_fall():
    claims = {claim.id: claim.judged for claim in variance.LEDGER.claims}
    same = records(-1.5, -1.4)
    assert {id: judge(same).status for id, judge in claims.items()} == dict.fromkeys(claims, "holds")
    assert_close(runs.slopes(same)["parity", "encoder"].value, -1.5, 1e-6)
    apart = records(-0.8, -1.4, largest=1.1)
    assert {id: judge(apart).status for id, judge in claims.items()} == {
        "variance-bound": "fails",
        "variance-slope": "not-reproduced",
        "variance-one-law": "not-reproduced",
    }


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"size": 11}, "size=11 must be at most length=10"),
        ({"targets": "composition", "length": 2}, "length=2 must be at least 3"),
        ({"targets": "composition", "length": 4, "size": 5}, "size=5 makes a table"),
    ],
)
def test_bad_sizes_are_one_line(changes, words):
    with pytest.raises(ConfigError, match=words):
        replace(Spectrum(), **changes)
