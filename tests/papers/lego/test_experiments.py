"""Facts about the experiments with the practical decoder: presets, comparisons of actions, how claims are judged."""

from dataclasses import replace
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from stairwise.config import update
from stairwise.papers.lego import PAPER, train
from stairwise.papers.lego.cells import compared, difference
from stairwise.papers.lego.claims import attention
from stairwise.papers.lego.config.practical import Practical, Shape
from stairwise.papers.lego.config.task import Task
from stairwise.papers.lego.presets import practical
from stairwise.train.loop import Member, Program

LENGTHS = (5, 10, 20, 40)


class Fake(SimpleNamespace):
    """A record that holds what it is told."""

    status = "finished"

    def final(self, name, stage=None):
        return self.metrics[name]

    def series(self, name, stage=None):
        return np.array([1000, 3000]), np.array([0.0, self.metrics[name]])

    def array(self, name):
        return self.metrics[name]


def record(action: str, seed: int, changes=None, **exact: float) -> Fake:
    config = update(practical.QUICK, {"task.action": action, **(changes or {})})
    metrics = {"loss": 0.02, **{name.replace("_", " "): value for name, value in exact.items()}}
    return Fake(config=config, seed=seed, metrics={f"exact {length}": 1.0 for length in LENGTHS} | metrics)


def pair(cyclic: list[float], symmetric: list[float]) -> list[Fake]:
    values = {"C4": cyclic, "S4": symmetric}
    return [record(action, seed, exact_40=v) for action in values for seed, v in enumerate(values[action])]


def test_a_difference_beyond_the_spread_of_seeds_is_ahead_and_one_within_is_not():
    clear = compared(pair([0.96, 0.91, 0.965], [0.835, 0.855, 0.782]), 40)
    assert (clear.ahead, clear.informative) == ("C4", True)
    assert clear.difference.low > 0.05
    assert compared(pair([0.9, 0.5, 0.7], [0.8, 0.6, 0.65]), 40).ahead == "neither"
    assert compared(pair([0.5, 0.52, 0.5], [0.9, 0.91, 0.9]), 40).ahead == "S4"
    assert not compared(pair([1.0, 1.0], [0.99, 1.0]), 40).informative
    with pytest.raises(ValueError, match="must be one that is free and one that is not"):
        compared(pair([0.9], []), 40)


def test_the_interval_of_a_difference_covers_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(200):
        found = difference(rng.normal(0.3, 0.1, 8), rng.normal(0.1, 0.05, 8))
        hits += found.low <= 0.2 <= found.high
    assert 170 <= hits <= 200


def judged(id: str, records: list[Fake]):
    return PAPER.claim(id).judged(records)


def test_the_separation_of_figure_1a_is_judged_at_eight_times_the_training_length():
    id = "fig1a-separation"
    assert judged(id, pair([0.96, 0.91, 0.965], [0.835, 0.855, 0.782])).status == "holds"
    assert judged(id, pair([0.96, 0.91, 0.965], [0.95, 0.93, 0.96])).status == "not-reproduced"
    assert judged(id, pair([1.0, 0.3, 0.9], [0.2, 0.9, 0.8])).status == "not-reproduced"


def test_figure_1a_asks_for_both_at_thirty_two_times_the_training_length():
    def far(cyclic: float, symmetric: float) -> list[Fake]:
        changes = {"task.variables": 170, "test_lengths": (5, 160)}
        return [record(name, 0, changes, exact_160=v) for name, v in (("C4", cyclic), ("S4", symmetric))]

    assert judged("fig1a", far(0.95, 0.1)).status == "holds"
    assert judged("fig1a", far(0.95, 0.97)).status == "not-reproduced"
    assert judged("fig1a", far(0.0, 0.0)).status == "not-reproduced"
    for id in ("fig1a", "fig1a-reach", "fig1a-constant"):
        assert judged(id, pair([1.0], [0.9])).status == "outside"


def test_the_map_counts_only_cells_in_which_a_difference_could_show():
    found = judged("fig1a-map", pair([0.9, 0.9], [0.2, 0.2]))
    assert found.status == "reported"
    assert found.measured == 1.0  # L=40 after 3000 steps; at 1000 all is lost, at L=10 and 20 all is won
    assert sum(row.get("informative", False) for row in found.details) == 1


def test_two_diagonals_are_judged_without_the_residual():
    def looking(residual: bool, predicate: float, answer: float) -> Fake:
        weights = np.concatenate([predicate * np.eye(5), answer * np.eye(5)], axis=1)[None]
        changes = {"model.attention_residual": residual, "map_lengths": (5,)}
        return Fake(config=update(practical.QUICK, changes), seed=0, metrics={"train/attention 5": weights})

    assert judged("fig2", [looking(False, 0.5, 0.35), looking(True, 0.9, 0.0)]).status == "holds"
    assert judged("fig2", [looking(False, 0.9, 0.05)]).status == "not-reproduced"


def test_positions_are_judged_at_twice_the_training_length():
    def arms(**exact: float) -> list[Fake]:
        return [record("C4", 0, {"model.positions": name}, exact_10=value) for name, value in exact.items()]

    assert judged("sec8-nope", arms(none=1.0, learned=0.0, rotary=0.02, randomised=0.5)).status == "holds"
    assert judged("sec8-nope", arms(none=1.0, learned=0.3, rotary=0.0)).status == "not-reproduced"


def test_the_order_of_predicates_matters_to_a_decoder_that_is_told_positions():
    with jax.enable_x64(True):
        told = attention.Reordered(model=Shape(width=16, positions="rotary"))
        found = PAPER.claim("fig5").at(told, 0)
    assert found.status == "outside"
    assert found.hypotheses == ("no positions (NoPE)",)
    assert found.measured is not None
    assert found.measured > 1e-3


def test_every_preset_builds_and_the_large_ones_have_the_papers_sizes_and_enough_seeds():
    for experiment in practical.EXPERIMENTS:
        assert all(PAPER.experiment(experiment.id).trials(name) for name in experiment.presets)
        assert experiment.presets["gpu"].seeds >= 5
    large = practical.LENGTH.presets["gpu"]
    assert large.seeds >= 8
    assert large.config == replace(practical.LARGE, map_lengths=practical.MAPS, tell_variables=True)
    assert practical.LARGE.longest == 160
    assert {fields["task.action"] for fields in large.arms.values()} == {"C6", "S5"}


def test_tests_before_the_last_are_of_the_first_sentences_and_the_last_one_of_all():
    sizes = {"batch": 4, "steps": 4, "warm_up": 0, "test_lengths": (2,), "measure_every": 2}
    tiny = Practical(task=Task("C6", 6, 2), model=Shape(width=16), **sizes)

    def measured(**sizes):
        config = replace(tiny, **sizes)
        (found,) = Program(train.training(config)).run([Member(0, config)])
        rows = list(zip(found.name, found.value, strict=True))
        return [[value for each, value in rows if each == name] for name in ("step 2", "expected 2")]

    few = measured(test_examples=12, curve_examples=4)
    whole = measured(test_examples=12, curve_examples=0)
    first = measured(test_examples=4, curve_examples=0)
    np.testing.assert_allclose(few, [[early[0], late[1]] for early, late in zip(first, whole, strict=True)], rtol=1e-5)
    assert not np.allclose([values[0] for values in few], [values[0] for values in whole], rtol=1e-5)
    assert np.array_equal(measured(test_examples=12, curve_examples=5), whole)
