"""Grids: texts and lists become typed values, and values become trials in an order that covers the grid early."""

import gc
import itertools
import math
import time
import tracemalloc
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stairwise.config import Config, ConfigError, Field, option, require
from stairwise.lab.contract.experiment import Experiment, Preset
from stairwise.lab.contract.paper import Paper
from stairwise.lab.run import grid
from stairwise.lab.store.store import Store
from stairwise.lab.sweep import SweepRequest, preview
from tests.lab.walking import PAPER, Walk

WALK = PAPER.experiment("walk")
NUMBER, WHOLE = Field("rate", float, 0.1, {}), Field("steps", int, 1, {})


@settings(deadline=None)
@given(st.integers(-50, 50), st.integers(1, 40), st.integers(1, 9))
def test_a_range_includes_its_last_value_exactly(first, count, step):
    last = first + (count - 1) * step
    tenths = [f"{value / 10}" for value in (first, last, step)]
    assert grid.texts(NUMBER, ":".join(tenths)) == [(first + k * step) / 10 for k in range(count)]
    assert grid.texts(WHOLE, f"{first}:{last}:{step}") == list(range(first, last + 1, step))


@settings(deadline=None)
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


def test_a_range_of_too_many_values_says_how_many_there_may_be():
    with pytest.raises(ConfigError, match=r"grid steps=1:1000000000:1 has more values than 100,000"):
        grid.axes(Walk(), {"steps": "1:1000000000:1"})


def test_a_value_outside_its_range_names_field_and_range():
    with pytest.raises(ConfigError, match=r"rate=-1\.0 must be above 0"):
        grid.trials(WALK, "quick", grid.axes(Walk(), {"rate": [-1.0]}))
    with pytest.raises(ConfigError, match="steps=half must be a whole number"):
        grid.axes(Walk(), {"steps": "half"})
    with pytest.raises(ConfigError, match="grid: unknown field stepz; did you mean steps"):
        grid.axes(Walk(), {"stepz": [1]})


@settings(deadline=None)
@given(st.text(max_size=30))
def test_any_text_is_values_or_one_line(text):
    for field in (NUMBER, WHOLE):
        assert one_line_or_values(field, text)


def one_line_or_values(field: Field, text: str) -> bool:
    try:
        return all(isinstance(value, field.kind) for value in grid.texts(field, text))
    except ConfigError as error:
        return str(error).isprintable()


# --- large grids ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Box(Config):
    """A group of fields with a rule of its own."""

    low: int = option(1, "low", low=0)
    high: int = option(5, "high", low=0)

    def check(self) -> None:
        require(self.low <= self.high, f"low={self.low} must be at most high={self.high}")


@dataclass(frozen=True)
class Boxed(Config):
    """A rule between groups, and a field that is made from another."""

    box: Box = option(Box(), "the box")
    rate: float = option(0.5, "rate", above=0.0, numeric=True)
    kinds: tuple[int, ...] = option((1, 2), "kinds")
    word: str = option("a", "word", choices=("a", "b"))

    def check(self) -> None:
        require(self.box.high <= 8 or self.rate < 1, f"rate={self.rate} must be below 1 where box.high > 8")


@dataclass(frozen=True)
class Derived(Boxed):
    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "double", 2 * self.rate)


ARMS = {"fast": {"rate": 0.9, "word": "b"}, "slow": {"rate": 0.1}, "slow too": {"rate": 0.2}}


def boxed(cls: type[Config] = Boxed) -> Experiment:
    made = Experiment("boxed", "-", cls, {"quick": Preset(cls(), ARMS, seeds=2)}, lambda config: [])
    return Paper("boxes", "Boxes", "A. Author", 2026, "-", "-", experiments=(made,)).experiment("boxed")


GRIDS = [
    {"rate": [0.3, "0.25", 1, 1.0]},
    {"box.high": "6,5,9", "kinds": [[1], (2, 3)]},
    {"box.low": [0, 1], "box.high": [3], "word": "b,a"},
]


@pytest.mark.parametrize("cls", [Boxed, Derived])
@pytest.mark.parametrize("values", GRIDS, ids=str)
def test_the_trials_of_a_grid_are_those_of_each_combination_by_itself(values, cls):
    experiment = boxed(cls)
    axes = grid.axes(cls(), values)
    found = grid.trials(experiment, "quick", axes, [3], {"box.low": 1} if "box.low" not in values else {})
    alone = {}
    for each in itertools.product(*(axis.values for axis in axes)):
        changes = {"box.low": 1, **dict(zip((axis.path for axis in axes), each, strict=True))}
        for trial in experiment.trials("quick", [3], changes):
            alone.setdefault(trial.digest, trial)
    assert {trial.digest: trial for trial in found} == alone
    for trial in found:
        assert trial.arm == alone[trial.digest].arm
        assert trial.program_key == alone[trial.digest].program_key
        assert trial.config.__dict__ == alone[trial.digest].config.__dict__


def test_the_rules_between_fields_hold_for_every_combination_and_name_their_fields():
    experiment = boxed()
    with pytest.raises(ConfigError, match=r"^rate=2\.0 must be below 1 where box\.high > 8$"):
        grid.trials(experiment, "quick", grid.axes(Boxed(), {"box.high": [5, 9], "rate": [0.5, 2.0]}))
    with pytest.raises(ConfigError, match=r"^box\.low=6 must be at most high=5$"):
        grid.trials(experiment, "quick", grid.axes(Boxed(), {"box.low": [1, 6]}))


def test_a_grid_of_four_thousand_configs_is_planned_in_two_seconds_and_half_a_megabyte(tmp_path):
    store = Store.open(tmp_path / "none", create=False)
    preview(
        SweepRequest.of("selection/online", {"learning_rate": "0.1"}, seeds=1), store
    )  # imports, and traces the program
    gc.freeze()  # what other tests have left is not what is measured
    began = time.process_time()
    found = preview(SweepRequest.of("selection/online", {"learning_rate": "0.001:2:0.001"}, seeds=1), store)
    assert (found["trials"], found["to run"], found["programs"]) == (4000, 4000, 1)
    took = time.process_time() - began
    gc.unfreeze()
    assert took < 2  # seconds, with types checked
    tracemalloc.start()
    held = SweepRequest.of("selection/online", {"learning_rate": "0.001:1:0.001"}, seeds=1)
    assert tracemalloc.get_traced_memory()[0] < 5e5  # bytes of 2,000 configs, which are made when they are asked for
    tracemalloc.stop()
    assert held.trials[1_999].config.learning_rate == 1.0
