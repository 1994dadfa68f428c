"""`stairwise record`: what is published, what is added to it, and what this machine measures instead."""

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stairwise.commands import flags
from stairwise.commands.stored import opened
from stairwise.config import Config, ConfigError
from stairwise.lab import registry
from stairwise.lab.contract.manifest import check_name
from stairwise.record import published
from stairwise.terminal import open_console, print_json, print_table

LONGEST_CHECK = 86_400  # seconds


def add_flags(command: argparse.ArgumentParser) -> None:
    flags.add_json(command)
    command.add_argument(
        "action",
        choices=("list", "add", "check"),
        metavar="list|add|check",
        help="list the published runs, add stored trials to them, or run one trial of each again and compare",
    )
    command.add_argument("target", nargs="?", metavar="PAPER[/EXPERIMENT]", help="only this paper or experiment")
    command.add_argument("--preset", default="gpu", help="the preset whose trials are published (default: gpu)")
    flags.add_seeds(command)
    command.add_argument("--note", default="", help="what a reader should know about this run")
    command.add_argument(
        "--arrays",
        default="first",
        help="large arrays that are kept: of the first seed of every arm (first), all, small ones only (small), none,"
        " or NAME,... of every trial (default: first)",
    )
    command.add_argument(
        "--seconds", type=float, default=60.0, help="with check: give up a trial after this many seconds (default: 60)"
    )
    command.add_argument("--to", help="folder to add to (default: the folder of the package)")


def configs_of(options) -> dict[str, Config] | None:
    if options.action != "add" or options.target is None:
        return None
    return {options.target: registry.experiment(options.target).presets["quick"].config}


def act(options, fields) -> int:
    if options.action == "list":
        if options.target is not None:
            check_name(options.target, "experiments")
        found = published.listed(options.target)
        if options.json:
            print_json(found)
        elif not found:
            print(f"nothing is published of {options.target}" if options.target else "nothing is published")
        else:
            record_table(found)
        return 0
    if options.action == "check":
        return check(options)
    if options.target is None:
        raise ConfigError("target must name an experiment: stairwise record add PAPER/EXPERIMENT")
    to = None if options.to is None else Path(options.to)
    chosen = {"seeds": options.seeds, "changes": fields, "note": options.note, "arrays": options.arrays, "to": to}
    path = published.add(options.target, options.preset, store=opened(options.store), **chosen)
    if options.json:
        print_json({"file": str(path), "bytes": path.stat().st_size})
    else:
        print(f"published as {path.stem}: {path} ({path.stat().st_size:,} bytes)")
    return 0


def check(options) -> int:
    """Run one published trial per experiment here, and say how far its metrics are from the published ones."""
    from stairwise.record import again

    if not 0 < options.seconds <= LONGEST_CHECK:
        raise ConfigError(f"seconds={options.seconds:g} must be above 0 and at most {LONGEST_CHECK}")
    names = sorted({f"{path.parent.parent.name}/{path.parent.name}" for path in published.files(options.target)})
    if not names:
        raise ConfigError(f"target={options.target} must name what is in the record: stairwise record list")
    found = []
    for name in names:
        there = again.cheapest(registry.experiment(name))
        began = time.monotonic()
        metrics = None if there.needs else again.compared(there, options.seconds)
        why = "it starts from another trial" if there.needs else f"not finished in {options.seconds:g} s"
        compared = {"note": why} if metrics is None else again.summary(metrics)
        device = there.run.get("device", {}).get("kind", "unknown")
        found.append({"trial": f"{name} {there.arm} seed {there.seed}".replace("  ", " "), "published on": device})
        found[-1] |= compared | {"seconds": time.monotonic() - began}
        if not options.json:
            print(check_line(found[-1]), flush=True)
    if options.json:
        print_json(found)
    return 0


def check_line(found: Mapping[str, Any]) -> str:
    where = f"{found['trial']} (published on {found['published on']}, {found['seconds']:.0f} s here)"
    if "note" in found:
        return f"{where}: {found['note']}"
    if found["equal"] == found["metrics"]:
        return f"{where}: all {found['metrics']} metrics equal"
    first, worst = found["first measurement apart by"], found["any measurement apart by"]
    return (
        f"{where}: {found['equal']} of {found['metrics']} metrics equal; apart by {first:.1e} at first,"
        f" by {worst:.1e} at most ({found['in']})"
    )


def record_table(runs: Sequence[Mapping[str, Any]]) -> None:
    """What is published, one line per run."""
    rows = [
        [run["run"], run["trials"], run["written"], ", ".join(run["devices"]), f"{run['bytes']:,}", run["note"]]
        for run in runs
    ]
    columns = ("run", "trials", "written", "device", "bytes", "note")
    print_table(open_console(), columns, rows, right=("trials", "bytes"), wrap=("note",))
