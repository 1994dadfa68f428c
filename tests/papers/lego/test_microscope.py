"""LEGO under the microscope: a frame a length, and the diagonals that the answers need."""

from types import SimpleNamespace

import numpy as np
import pytest

from stairwise.papers.lego.answers import attention
from stairwise.papers.lego.microscope import diagonals
from tests.papers.records import HandMade


def looking(lengths: tuple[int, ...], share: float) -> HandMade:
    """Every answer spends `share` on each of its two clauses and the rest evenly."""
    kept = {}
    for length in lengths:
        even = np.full((2, length, 2 * length), (1 - 2 * share) / (2 * length - 2))
        for l in range(length):
            even[:, l, l] = even[:, l, length + l] = share
        kept[f"train/attention {length}"] = even
    return HandMade(SimpleNamespace(map_lengths=lengths), kept)


def test_every_length_is_a_frame_with_axes_and_diagonals_of_its_own():
    seen = diagonals(looking((10, 5), 0.4))
    assert seen is not None
    shown = seen.maps[0]
    assert list(seen.places) == [5, 10]
    assert [frame.shape for frame in shown.frames] == [(5, 10), (10, 20)]
    for overlay, offset in zip(shown.overlays, (0, 10), strict=True):
        assert overlay.cells[1] == [(l, offset + l) for l in range(10)]
    assert shown.columns_of(0).labels[5] == "answer 0"
    assert len(seen.maps) == 3


def test_the_curves_are_the_mean_diagonals_and_the_entropy():
    seen = diagonals(looking((5, 10), 0.5))
    assert seen is not None
    curves = {curve.name: curve.values for curve in seen.curves}
    assert curves["on the right predicate"] == pytest.approx([0.5, 0.5])
    assert curves["on itself"] == pytest.approx([0.5, 0.5])
    assert curves["entropy of attention"] == pytest.approx([np.log(2)] * 2)


def test_a_decoder_that_kept_no_map_has_nothing_to_show():
    assert diagonals(HandMade(SimpleNamespace(map_lengths=()))) is None


def test_the_answer_about_attention_adds_both_diagonals():
    assert attention([looking((5, 10), 0.45)]).value == pytest.approx(0.9)
