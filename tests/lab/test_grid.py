"""Grids: texts and lists become typed values, and values become trials in an order that covers the grid early."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stairwise.lab import grid
from stairwise.lab.config import ConfigError, Field
from tests.lab.walking import PAPER, Walk

WALK = PAPER.experiment("walk")
NUMBER, WHOLE = Field("rate", float, 0.1, {}), Field("steps", int, 1, {})


@given(st.integers(-50, 50), st.integers(1, 40), st.integers(1, 9))
def test_a_range_includes_its_last_value_exactly(first, count, step):
    last = first + (count - 1) * step
    tenths = [f"{value / 10}" for value in (first, last, step)]
    assert grid.texts(NUMBER, ":".join(tenths)) == [(first + k * step) / 10 for k in range(count)]
    assert grid.texts(WHOLE, f"{first}:{last}:{step}") == list(range(first, last + 1, step))


@given(st.floats(1e-6, 1e3), st.floats(1.5, 1e6), st.integers(2, 50))
def test_a_log_range_has_its_ends_and_a_constant_ratio(first, ratio, count):
    last = first * ratio
    values = grid.texts(NUMBER, f"{first!r}:{last!r}:log{count}")
    assert (values[0], values[-1], len(values)) == (first, last, count)
    logs = [math.log(value) for value in values]
    steps = [b - a for a, b in itertools.pairwise(logs)]
    assert max(steps) - min(steps) < 2.1e-5  # values have six digits


def test_a_geometric_range_multiplies_and_whole_numbers_stay_whole():
    assert grid.texts(WHOLE, "1:100:x3") == [1, 3, 9, 27, 81]
    assert grid.texts(WHOLE, "8:64:log4") == [8, 16, 32, 64]
    assert grid.texts(NUMBER, "0.1:0.8:x2") == [0.1, 0.2, 0.4, 0.8]
    assert grid.texts(WHOLE, "2**3,5,10:20:5") == [8, 5, 10, 15, 20]


def test_a_field_that_is_a_list_separates_its_values_by_semicolons():
    lists = Field("lengths", tuple[int, ...], (1,), {})
    assert grid.texts(lists, "30,40;50") == [(30, 40), (50,)]


def test_the_grid_is_a_product_with_every_arm_and_seed_and_equal_values_merge():
    axes = grid.axes(Walk(), {"shift": [1, 2.0, 2], "steps": "5,7"})
    found = grid.trials(WALK, "quick", axes, range(3))
    assert len(found) == 2 * 2 * 2 * 3  # shifts, steps, arms, seeds
    assert {trial.config.shift for trial in found} == {1.0, 2.0}
    assert len({trial.program_key for trial in found}) == 2


def test_small_sizes_come_first_and_then_the_first_seed_of_every_value():
    axes = grid.axes(Walk(), {"steps": [9, 4], "shift": [0.0, 1.0]})
    found = grid.trials(WALK, "quick", axes, [7, 3], {"rate": 0.2})
    order = [(trial.config.steps, trial.seed) for trial in found]
    assert order == [(4, 7)] * 2 + [(4, 3)] * 2 + [(9, 7)] * 2 + [(9, 3)] * 2


def test_a_value_outside_its_range_names_field_and_range():
    with pytest.raises(ConfigError, match=r"rate=-1\.0 must be above 0"):
        grid.trials(WALK, "quick", grid.axes(Walk(), {"rate": [-1.0]}))
    with pytest.raises(ConfigError, match="steps=half must be a whole number"):
        grid.axes(Walk(), {"steps": "half"})
    with pytest.raises(ConfigError, match="grid: unknown field stepz; did you mean steps"):
        grid.axes(Walk(), {"stepz": [1]})


@given(st.text(max_size=30))
def test_any_text_is_values_or_one_line(text):
    for field in (NUMBER, WHOLE):
        assert one_line_or_values(field, text)


def one_line_or_values(field: Field, text: str) -> bool:
    try:
        return all(isinstance(value, field.kind) for value in grid.texts(field, text))
    except ConfigError as error:
        return str(error).isprintable()
