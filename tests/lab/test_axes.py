"""Facts about x-axes: they count gradient steps or samples, and pages open with a metric that was measured."""

import numpy as np
import pytest
from pyarrow import parquet

from stairwise.lab import registry
from stairwise.lab.contract.axes import StepAxes, first_metric, stage_axes
from stairwise.record import published

EXPERIMENTS = [each for paper in registry.papers() for each in paper.experiments]


def config_of(name: str):
    return registry.experiment(name).presets["quick"].config


def test_three_steps_are_three_however_many_blocks_make_a_step():
    experiment = registry.experiment("parity_cot/theorem3")
    for trial in experiment.trials("quick"):
        axis = StepAxes(experiment).of(trial.config, "steps")
        assert axis.title == "gradient steps"
        assert axis.places(np.array([0, 3 * trial.config.blocks])).tolist() == [0, 3]


def test_an_axis_of_samples_ends_at_the_samples_of_the_run():
    config = config_of("composition/threshold")
    axis = stage_axes(registry.experiment("composition/threshold"), config)["count"]
    assert axis.title == "samples"
    assert axis.places(np.array([config.ticks[-1]]))[0] == config.ticks[-1] * config.block


def test_looks_after_several_steps_are_counted_in_steps():
    experiment = registry.experiment("parity_cot/complexity")
    config = experiment.presets["quick"].config
    axis = StepAxes(experiment).of(config, "train")
    assert axis.per_tick == config.look // config.batch > 1


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda each: each.name)
def test_every_axis_counts_what_a_reader_knows(experiment):
    if experiment.study:
        assert experiment.counts in ("steps", "queries")
        return
    axes = stage_axes(experiment, experiment.presets["quick"].config)
    assert axes or experiment.id == "gsm8k", "only the program of GSM8K needs data to be made"
    assert {axis.title for axis in axes.values()} <= {"gradient steps", "samples"}


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda each: each.name)
def test_a_page_opens_with_a_metric_that_the_experiment_names_and_measures(experiment):
    assert experiment.opens_with
    for run in published.files(experiment.name):
        rows = parquet.read_table(run, columns=["trial", "name"])
        names = list(dict.fromkeys(row["name"] for row in rows.to_pylist() if row["trial"] == 0))
        shown = first_metric(experiment.opens_with, names)
        assert shown == experiment.opens_with or shown.startswith(experiment.opens_with.removesuffix("*"))
