"""Attention under the microscope: uniform before any step, on the hidden permutations' keys after all of them."""

import numpy as np
import pytest

from stairwise.papers.composition import train
from stairwise.papers.composition.config import Descent, Task
from stairwise.papers.composition.microscope import attention
from tests.papers.records import HandMade
from tests.trials import run

CONFIG = Descent(task=Task(2, 3), samples=4096, block=2048, learning_rate=3e4, test_examples=2)


@pytest.fixture(scope="module")
def trained() -> HandMade:
    return HandMade.of(CONFIG, run(train.descent, CONFIG))


def test_every_step_is_a_frame_and_the_last_one_looks_where_the_theory_says(trained):
    seen = attention(trained)
    assert seen is not None
    assert list(seen.places) == [0, 1, 2, 3, 4]
    assert seen.labels[1] == "after key-query step 1"
    for shown in seen.maps:
        assert shown.frames[0] == pytest.approx(np.full((6, 6), 1 / 6), abs=1e-3)
        found = {(query, int(np.argmax(row))) for query, row in enumerate(shown.frames[-1])}
        assert found == set(shown.overlays[0].cells)


def test_the_first_layer_shows_the_hidden_permutations_themselves(trained):
    seen = attention(trained)
    assert seen is not None
    hidden = trained.array("exact/hidden")
    expected = {(3 * i + j, 3 * i + int(hidden[i, j])) for i in range(2) for j in range(3)}
    assert set(seen.maps[0].overlays[0].cells) == expected


def test_each_key_query_step_ends_the_entropy_of_its_own_layer(trained):
    seen = attention(trained)
    assert seen is not None
    first, second = (curve.values for curve in seen.curves if curve.name.startswith("entropy"))
    assert first[0] == second[0] == pytest.approx(np.log(6), abs=1e-3)
    assert first[1] < 0.01
    assert second[2] == pytest.approx(np.log(6), abs=1e-3)
    assert second[3] < 0.01
