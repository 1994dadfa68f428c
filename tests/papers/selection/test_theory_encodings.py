"""Restricted isometry by enumeration, the lemma that fails and its correction, and rejection sampling."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stairwise.config import ConfigError
from stairwise.papers.selection.theory import encodings
from tests.helpers import assert_close
from tests.reference import selection as dense


@pytest.mark.parametrize(("length", "sparsity", "width"), [(6, 2, 16), (7, 2, 12), (5, 3, 16), (5, 4, 32), (4, 1, 8)])
def test_the_constants_equal_brute_force_over_all_supports(length, sparsity, width):
    E = encodings.draw(2, 1, length, width, 0.9)[0]
    found = encodings.rip_constants(E, sparsity)
    assert_close(np.array(found), np.array(dense.restricted_isometry(E.T, sparsity)), 1e-12)
    assert encodings.coherence(E) <= found.delta * (1 + 1e-12)
    assert encodings.rip_floor(E, sparsity) <= found.delta * (1 + 1e-12)
    assert found.delta <= encodings.rip_certificate(encodings.coherence(E), sparsity) * (1 + 1e-12)


def test_positions_orthogonal_to_all_others_change_no_constant():
    E = encodings.draw(0, 1, 6, 16, 0.9)[0]
    padded = np.zeros((10, 20))
    padded[:6, :16] = E
    padded[6:, 16:] = np.eye(4)
    assert encodings.rip_constants(padded, 2) == pytest.approx(encodings.rip_constants(E, 2), rel=1e-12)


@pytest.mark.parametrize(
    ("length", "sparsity", "width"), [(21, 5, 2**14), (16, 5, 2**10), (8, 2, 2**8), (13, 4, 2**11)]
)
def test_the_counterexample_breaks_the_printed_bound_inside_the_theorems_range(length, sparsity, width):
    found = encodings.counterexample(length, sparsity, width)
    E = found.encodings
    assert set(np.unique(np.abs(E))) == {1 / np.sqrt(width)}
    delta = encodings.rip_constants(E, sparsity).delta
    overlap = np.abs(encodings.overlaps(E[None], found.subset[None])).max()
    assert delta == pytest.approx(found.delta, rel=1e-12)
    assert overlap == pytest.approx(found.overlap, rel=1e-12)
    assert delta < 0.1
    assert encodings.overlap_bound_printed(delta) < overlap <= encodings.overlap_bound(delta, sparsity)


def test_the_counterexample_at_one_chosen_size_has_these_values():
    found = encodings.counterexample(21, 5, 2**14)
    assert found.delta == pytest.approx(0.09826, abs=1e-5)
    assert found.overlap == pytest.approx(0.21973, abs=1e-5)
    assert encodings.overlap_bound_printed(found.delta) == pytest.approx(0.12230, abs=1e-5)
    assert encodings.overlap_bound(found.delta, 5) == pytest.approx(0.24367, abs=1e-5)


def test_a_single_named_position_breaks_nothing():
    found = encodings.counterexample(6, 1, 2**8)
    assert found.overlap <= encodings.overlap_bound_printed(found.delta)


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10**6))
def test_the_corrected_lemma_holds_for_random_signs(seed):
    E = encodings.draw(seed, 1, 9, 512)
    subsets = np.array(dense.all_subsets(9, 3))
    delta = encodings.rip_constants(E[0], 3).delta
    queries = encodings.subset_encodings(E, subsets)[0]
    assert_close(np.einsum("sqw,sw->sq", E[0][subsets], queries), np.ones((84, 3)), 1e-12)
    assert np.abs(encodings.overlaps(E, subsets)).max() <= encodings.overlap_bound(delta, 3)
    assert delta >= 0.5 or np.linalg.norm(queries, axis=1).max() <= encodings.norm_bound(delta, 3)


@pytest.mark.parametrize(
    ("length", "threshold", "pair", "matrix", "last", "draws"),
    [
        (200, 0.20, 7.1e-3, 3e-62, 0.24, None),
        (200, 0.30, 8.2e-5, 0.197, 0.98, None),
        (200, 0.35, 4.9e-6, 0.908, 1.0, None),
        (400, 0.15, 5.5e-2, 0.0, 1.7e-10, 2.7e8),
        (400, 0.20, 7.1e-3, 0.0, 0.059, 5.7),
        (400, 0.25, 9.2e-4, 1e-32, 0.69, 1.2),
        (400, 0.35, 4.9e-6, 0.678, 1.0, 1.0),
    ],
)
def test_acceptance_has_the_known_values(length, threshold, pair, matrix, last, draws):
    found = encodings.acceptance(length, 170, threshold)
    assert found.pair_fails == pytest.approx(pair, rel=0.02)
    assert found.matrix == pytest.approx(matrix, rel=0.45, abs=1e-200)
    assert found.last_row == pytest.approx(last, rel=0.03)
    assert draws is None or found.draws_per_row == pytest.approx(draws, rel=0.03)


def test_acceptance_is_what_sampling_finds():
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (4000, 6, 20))
    gram = np.abs(np.einsum("ntw,nsw->nts", signs, signs)) / 20
    accepted = np.mean((gram - np.eye(6)).max(axis=(1, 2)) <= 0.5)
    assert accepted == pytest.approx(encodings.acceptance(6, 20, 0.5).matrix, abs=0.03)


def test_the_law_of_all_encodings_is_closed_under_its_symmetries():
    law = encodings.every(4, 3, 0.99, 2)
    rows = {E.tobytes() for E in law}
    assert len(rows) == len(law) == 384
    flipped, swapped, moved = law.copy(), law[:, :, [1, 0, 2]], law[:, [2, 1, 0, 3]]
    flipped[:, :, 1] *= -1
    for changed in (flipped, swapped, moved):
        assert {E.tobytes() for E in np.ascontiguousarray(changed)} == rows


def test_drawn_encodings_keep_their_threshold_and_depend_on_seed_and_role_only():
    law = encodings.draw(5, 3, 30, 64, 0.4)
    assert max(encodings.coherence(E) for E in law) <= 0.4 + 1e-6
    assert np.array_equal(law, encodings.draw(5, 3, 30, 64, 0.4))
    assert not np.array_equal(law, encodings.draw(5, 3, 30, 64, 0.4, "fresh encodings"))


def test_what_cannot_be_drawn_or_enumerated_is_said_in_one_line():
    with pytest.raises(ConfigError, match=r"^threshold=0.1 leaves too few .* \(task.length=40, encoding_width=16\)"):
        encodings.draw(0, 1, 40, 16, 0.1)
    with pytest.raises(ConfigError, match=r"^task.sparsity=5 has \d+ pairs of supports in 40 positions"):
        encodings.rip_constants(encodings.draw(0, 1, 40, 64)[0], 5)
    with pytest.raises(ConfigError, match=r"^encoding_width=1000 must be a power of two of at least 64"):
        encodings.counterexample(21, 5, 1000)
    with pytest.raises(ConfigError, match=r"^task.length=900 must lie in 4..19 for encoding_width=64"):
        encodings.counterexample(900, 3, 64)
