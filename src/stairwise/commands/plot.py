"""`stairwise plot`: any metric of stored trials as curves, as numbers (CSV), or as a table of a paper (LaTeX)."""

import argparse
import csv
import io
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from stairwise.commands import flags
from stairwise.commands.stored import opened
from stairwise.config import Config, ConfigError, as_flags
from stairwise.lab import api, registry
from stairwise.lab.contract import plots
from stairwise.lab.contract.axes import StepAxes
from stairwise.lab.contract.manifest import unknown
from stairwise.lab.run import stale
from stairwise.lab.store.entries import is_result
from stairwise.lab.store.files import explained, output_file, replace_file
from stairwise.lab.store.trial import StoredTrial

ENDINGS = (".pdf", ".svg", ".png", ".csv", ".tex")


def add_flags(command: argparse.ArgumentParser) -> None:
    flags.add_published(command)
    command.add_argument("target", metavar="PAPER/EXPERIMENT", help="the experiment, such as selection/online")
    command.add_argument(
        "metric", nargs="?", metavar="METRIC", help="the metric to draw; without it, the metrics are listed"
    )
    command.add_argument("-o", "--out", help="file to write: .pdf, .svg, .png, .csv or .tex (default: METRIC.pdf)")
    command.add_argument("--stage", help="stage of the training to draw (default: the last one that measured it)")
    command.add_argument("--log", default="", choices=("", "x", "y", "xy"), help="which axes are logarithmic")
    flags.add_seeds(command)
    flags.add_preset(command)


def configs_of(options) -> dict[str, Config]:
    return {options.target: registry.experiment(options.target).presets["quick"].config}


def act(options, fields) -> int:
    experiment = registry.experiment(options.target)
    store = opened(options.store)
    trials = experiment.trials(options.preset, api.seed_list(options.seeds), fields)
    records = [found.of(trial) for trial in trials if is_result(found := store.peek(trial))]
    if not records:
        hint = f"stairwise run {experiment.name} --preset {options.preset}{as_flags(fields)}"
        raise ConfigError(f"no trial of {experiment.name} {options.preset} is in the store: {hint}")
    names = list(dict.fromkeys(name for record in records for name in record.names()))
    if options.metric is None:
        print("\n".join(names))
        return 0
    if options.metric not in names:
        raise ConfigError(unknown(f"metric of {experiment.name}", options.metric, names))
    plain = re.sub(r"[^\w.+-]+", "-", options.metric)
    out = output_file("out", options.out or f"{plain}.pdf", ENDINGS)
    axes = StepAxes(experiment)
    runs = [_run(record, options.metric, options.stage, axes) for record in records if options.metric in record.names()]
    if out.suffix in (".csv", ".tex"):
        text = as_csv(runs) if out.suffix == ".csv" else as_latex(runs, options.metric)
        with explained(f"write {out}"):
            replace_file(out, text.encode())
    else:
        api.save_figure(drawn(runs, options.metric, options.log), out)
    print(out)
    missing = len(trials) - len(records)
    if missing:
        print(f"{missing} of {len(trials)} trials are not in the store and not shown")
    stale.warn(
        stale.count(records, experiment), len(records), f"stairwise run {experiment.name} --fresh runs them again"
    )
    return 0


class PlottedRun(NamedTuple):
    """A metric of a trial, over what its stage counts."""

    record: StoredTrial
    over: str
    steps: np.ndarray
    values: np.ndarray


def _run(record: StoredTrial, metric: str, stage: str | None, axes: StepAxes) -> PlottedRun:
    stages = [each for each, name in record.every_series() if name == metric]
    if stage is not None and stage not in stages:
        raise ConfigError(f"stage={stage} must be one of {', '.join(stages)} ({record.experiment} {metric})")
    ticks, values = record.series(metric, stage or stages[-1])
    axis = axes.of(record.config, stage or stages[-1])
    return PlottedRun(record, axis.title, axis.places(ticks), values)


def drawn(runs: Sequence[PlottedRun], metric: str, log: str) -> Any:
    """Every seed of every arm, their medians and quartiles, over what the stages count."""
    with plots.house_style():
        figure, axes = plots.subplots(figsize=(plots.COLUMN * 1.4, plots.COLUMN))
        for number, (arm, members) in enumerate(plots.grouped(runs, by=lambda run: run.record.arm).items()):
            dash = plots.DASHES[number // len(plots.COLOURS) % len(plots.DASHES)]
            plots.all_seeds(
                axes, [(run.steps, run.values) for run in members], arm or metric, plots.colour(number), dash
            )
        for axis in log:
            getattr(axes, f"set_{axis}scale")("log")
        if "x" not in log:
            plots.count_axis(axes)
        axes.set(xlabel=" or ".join(dict.fromkeys(run.over for run in runs)), ylabel=metric)
        axes.set_title(plots.seeds_note([run.record for run in runs]))
        axes.legend()
    return figure


def as_csv(runs: Sequence[PlottedRun]) -> str:
    """One line per measurement."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(("arm", "seed", "digest", "status", "counts", "step", "value"))
    for record, over, steps, values in runs:
        about = (record.arm, record.seed, record.digest, record.status, over)
        table.writerows((*about, f"{step:.10g}", float(value)) for step, value in zip(steps, values, strict=True))
    return text.getvalue()


def as_latex(runs: Sequence[PlottedRun], metric: str) -> str:
    """The last values: median and quartiles over the seeds of each arm, as a tabular of booktabs."""
    lines = [r"\begin{tabular}{lrrrr}", r"\toprule"]
    lines += [rf"arm & seeds & median {_escaped(metric)} & lower quartile & upper quartile \\", r"\midrule"]
    for arm, members in plots.grouped(runs, by=lambda run: run.record.arm).items():
        low, middle, high = np.quantile([run.values[-1] for run in members], [0.25, 0.5, 0.75])
        lines.append(rf"{_escaped(arm)} & {len(members)} & {middle:.4g} & {low:.4g} & {high:.4g} \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _escaped(text: str) -> str:
    """For LaTeX.

    >>> print(_escaped("a_b, 5%"))
    a\\_b, 5\\%
    """
    return re.sub(r"([&%$#_{}])", r"\\\1", text.replace("\\", r"\textbackslash ").replace("^", r"\^{}"))
