"""`stairwise run`: an experiment's trials; the plan before, the results over seeds after."""

import argparse
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from stairwise.commands import flags, running
from stairwise.config import Config
from stairwise.lab import registry
from stairwise.lab.api import Result, RunRequest, perform
from stairwise.lab.contract.experiment import Experiment, Trial
from stairwise.lab.progress import for_terminal, watched
from stairwise.lab.run.measured import measured
from stairwise.lab.run.plan import Tally, tally
from stairwise.lab.run.stale import is_stale, words
from stairwise.lab.store.entries import is_result
from stairwise.lab.store.finals import finals
from stairwise.lab.store.store import Store
from stairwise.terminal import print_json
from stairwise.words import device_of, number, plain

MOST_ARMS = 48  # that a plan names in a terminal


def add_flags(command: argparse.ArgumentParser) -> None:
    flags.add_json(command)
    command.add_argument("target", metavar="PAPER/EXPERIMENT", help="the experiment, such as selection/online")
    running.add_flags(command, "1 on a CPU, the preset's on a GPU")
    flags.add_model(command)
    command.add_argument("--dry-run", action="store_true", help="say what would run, and run nothing")


def configs_of(options) -> dict[str, Config]:
    return {options.target: registry.experiment(options.target).presets["quick"].config}


def act(options, fields) -> int:
    running.check(options)
    sharing = {"shard": options.shard, "group": options.group}
    request = RunRequest.of(options.target, options.preset, options.seeds, fields, model=options.model, **sharing)
    if options.dry_run:
        chosen = {"group": options.group, "fresh": options.fresh}
        store = Store.open(options.store, create=False)
        return dry_run(request.experiment, request.preset, request.trials, store, options.json, **chosen)
    store = Store.open(options.store)
    began = time.monotonic()
    command = shlex.join(["stairwise", *sys.argv[1:]])
    with running.watched(options, request) as progress:
        chosen = {"fresh": options.fresh, "progress": progress, "save_every": options.save_every}
        result = perform(request, command, store=store, **chosen)
        given = {
            "preset": options.preset if options.preset != "quick" else None,
            "seeds": options.seeds,
            "model": options.model,
        }
        given |= {"store": options.store} | fields
        flags = [word for name, value in given.items() if value is not None for word in (f"--{name}", str(value))]
        print_result(result, time.monotonic() - began, options.json, shlex.join(flags))
    return 0


def dry_run(
    experiment: Experiment,
    preset: str,
    trials: Sequence[Trial],
    store: Store,
    as_json: bool,
    group: int | None = None,
    fresh: bool = False,
) -> int:
    """How many trials and programs, how many are stored, the memory they need, and what such a run cost last time."""
    from stairwise.lab.run.estimate import device_bytes, largest_group, seconds, widths

    chosen, peek, others = experiment.preset(preset), store.peeks(), 0
    width = widths(chosen.group, group)
    asked = Tally(width)

    def stored(trial: Trial) -> bool:
        nonlocal others
        found = peek(trial)
        if found is not None and is_stale(found, trial.experiment):
            others += trial.experiment.name == experiment.name
            if fresh:
                return False
        return is_result(found)

    def all_of_them() -> Iterator[Trial]:
        for trial in watched(trials, len(trials), "planning", for_terminal()):
            asked.add(trial)
            yield trial

    missing, everything = tally(all_of_them(), stored, width)
    needed = largest_group(everything)
    room, total = device_bytes(), seconds(missing, store)
    plan = {
        "experiment": experiment.name,
        "preset": preset,
        "trials": len(trials),
        "stored": len(trials) - missing.trials,
        "made by other code": others,
        "programs": len(missing.count),
        "group on a GPU": chosen.group,
        "megabytes of the largest group": None if needed is None else float(f"{needed / 1e6:.3g}"),
        "megabytes of the device": None if room is None else round(room / 1e6),
        "seconds (from stored trials)": None if total is None else round(total, 1),
        "last time": last_time(experiment, preset, [trial for trial, _ in asked.largest], store),
        "predicted hours": chosen.hours,
        "arms": list(dict.fromkeys(trial.arm for trial in trials if trial.arm)),
    }
    if as_json:
        print_json(plan)
    else:
        arms = plan.pop("arms")
        width = max(map(len, plan))
        print("\n".join(f"{name:{width}}  {'unknown' if value is None else value}" for name, value in plan.items()))
        for place, arm in enumerate(arms[:MOST_ARMS]):
            print(f"{'' if place else 'arms':{width}}  {plain(arm)}")
        if len(arms) > MOST_ARMS:
            print(f"{'':{width}}  and {len(arms) - MOST_ARMS} more (--json names them)")
    return 0


def last_time(experiment: Experiment, preset: str, trials: Sequence[Trial], store: Store) -> str | None:
    """What the same or the nearest trials of the store cost, else what was measured before the package was made."""
    from stairwise.lab.run.estimate import nearest

    past = nearest(trials, store)
    if past is not None:
        latest = past.records[0]
        count = "1 trial" if len(past.records) == 1 else f"median of {len(past.records)} trials"
        near = (
            f"the nearest, {latest.digest[:8]}, has another {', '.join(past.differs)}"
            if past.differs
            else "the same program"
        )
        return f"{past.seconds:.3g} s a trial ({count}, {device_of(latest.run)}; {near})"
    known = measured(experiment.name)
    if not known:
        return None
    nearest_preset = preset if preset in known else next(iter(known))
    facts = known[nearest_preset]
    asked = "" if nearest_preset == preset else f"preset {nearest_preset}: "
    return f"{asked}{facts['trials']} trials in {facts['seconds']} s ({facts['device']}; measured for this package)"


def final_metrics(result: Result) -> list[dict[str, Any]]:
    """The last value of each metric, arm by arm: median, lowest and highest over seeds."""
    rows = finals(result.records, arms=True)
    arms = list(dict.fromkeys(row["arm"] for row in rows))
    named = ({("seeds" if name == "trials" else name): value for name, value in row.items()} for row in rows)
    return sorted(named, key=lambda row: arms.index(row["arm"]))


def print_result(result: Result, seconds: float, as_json: bool, flags: str = "") -> None:
    """`flags` are those with which a figure command finds the same trials."""
    rows = final_metrics(result)
    statuses = [record.status for record in result.records]
    if as_json:
        columns = ("digest", "arm", "seed", "status")
        trials = [
            {name: getattr(record, name) for name in columns} | {"stale": is_stale(record, result.experiment)}
            for record in result.records
        ]
        found = {"experiment": result.experiment.name, "stale": result.stale, "trials": trials, "final": rows}
        print_json(found | result.share.as_dict())
        return
    trials = "1 trial" if len(statuses) == 1 else f"{len(statuses)} trials"
    print(f"{result.experiment.name}: {trials} in {seconds:.1f} s")
    for line in running.shared(result.share, len(statuses)):
        print(f"  {line}")
    for status in sorted(set(statuses) - {"finished"}):
        print(f"  {statuses.count(status)} {status}")
    if result.stale:
        print(f"  {words(result.stale, len(statuses))}")
    width = max((len(row["metric"]) for row in rows), default=0)
    arm = None
    for row in rows:
        if row["arm"] != arm:
            arm = row["arm"]
            count = "1 seed" if row["seeds"] == 1 else f"{row['seeds']} seeds"
            print(f"  {arm or 'final values'} (median over {count}, lowest to highest)")
        median, lowest, highest = (number(row[name]) for name in ("median", "lowest", "highest"))
        print(f"    {row['metric']:{width}}  {median:<10} {lowest} .. {highest}")
    figures = [f"{figure.paper}/{figure.id}" for figure in result.experiment.figures]
    if figures and not result.share.left:
        print(f"  figures: {', '.join(f'stairwise figure {name} {flags}'.rstrip() for name in figures)}")
