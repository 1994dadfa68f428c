"""Facts about examples by number: bijections, splits that only the value decides, uniform digits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from stairwise.tasks.enumeration import MOST, SPLITS, Space, bijection, distinct, falling

SIZES = (1, 2, 3, 10, 64, 1000, 12_345, 2**40 + 7, MOST)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(SIZES), st.text(max_size=8), st.integers(0, 2**62 - 1))
def test_a_bijection_stays_inside_never_collides_and_can_be_undone(size, name, start):
    count = min(size, 2000)
    index = (start % size + np.arange(count, dtype=object)) % size  # object: 2^62 + 2000 must not wrap
    index = index.astype(np.uint64)
    there = bijection(name, index, size)
    assert int(there.max()) < size
    assert len(np.unique(there)) == count
    assert (bijection(name, there, size, back=True) == index).all()


def test_the_splits_of_a_small_space_are_all_of_it_and_every_seed_agrees_whose_is_whose():
    space = Space((3, 4, 5))
    seen = {}
    for split in SPLITS:
        count = space.capacity(split)
        for seed in range(3):
            rows = space.digits(seed, split, np.arange(count))
            assert (space.split_of(rows) == split).all()
            values = {tuple(row) for row in rows.tolist()}
            assert len(values) == count
            assert seen.setdefault(split, values) == values
    assert sum(len(values) for values in seen.values()) == len(set.union(*seen.values())) == space.size == 60


def test_a_space_too_large_to_count_is_counted_by_its_first_digits_and_still_has_no_example_twice():
    space = Space((7,) * 40)
    assert space.counted == 22
    assert space.size == 7**22 <= MOST < 7**23
    rows = {split: space.digits(0, split, np.arange(5000)) for split in SPLITS}
    for split, found in rows.items():
        assert len(np.unique(found[:, : space.counted], axis=0)) == 5000
        assert (space.split_of(found) == split).all()
    other = space.digits(1, "train", np.arange(5000))
    assert not (other == rows["train"]).all(axis=1).any()


@pytest.mark.parametrize("split", SPLITS)
def test_every_digit_is_uniform_and_neighbours_are_independent(split):
    space = Space((6, 5, 7, 2) + (3,) * 60, telling=(11, 4))
    rows = space.digits(5, split, np.arange(20_000))
    for digit, radix in enumerate((*space.value, *space.telling)):
        counts = np.bincount(rows[:, digit], minlength=radix)
        assert len(counts) == radix
        assert chisquare(counts).pvalue > 1e-5
    for digit in (0, 1, 2, space.counted - 1, space.counted, len(space.value) - 1):
        pairs = rows[:, digit] * 11 + rows[:, digit + 1]
        seen = np.unique(pairs, return_counts=True)[1]
        radices = (*space.value, *space.telling)
        assert len(seen) == radices[digit] * radices[digit + 1]
        assert chisquare(seen).pvalue > 1e-5


def test_the_numbers_of_examples_are_pinned_for_ever():
    """Files of other machines and years are made again from their headers: these bits may not change."""
    rows = Space((5, 4, 3), (10, 10)).digits(3, "val", np.arange(3))
    assert rows.tolist() == [[3, 3, 1, 6, 5], [0, 0, 2, 5, 6], [0, 1, 2, 1, 7]]


def test_falling_digits_are_all_arrangements_each_once():
    radices = falling(4, 3)
    digits = np.stack(np.meshgrid(*map(np.arange, radices), indexing="ij"), axis=-1).reshape(-1, 3)
    found = distinct(digits, 4)
    assert len(np.unique(found, axis=0)) == 24
    assert all(len(set(row)) == 3 for row in found.tolist())
