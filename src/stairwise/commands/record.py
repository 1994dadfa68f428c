"""`stairwise record`: what is published, and what is added to it."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stairwise.commands import flags
from stairwise.config import Config, ConfigError
from stairwise.lab import registry
from stairwise.lab.contract.manifest import check_name
from stairwise.record import published
from stairwise.terminal import open_console, print_json, print_table


def add_flags(command: argparse.ArgumentParser) -> None:
    flags.add_json(command)
    command.add_argument("action", choices=("list", "add"), metavar="list|add")
    command.add_argument("target", nargs="?", metavar="PAPER[/EXPERIMENT]")
    command.add_argument("--preset", default="gpu", help="the preset whose trials are published (default: gpu)")
    flags.add_seeds(command)
    command.add_argument("--note", default="", help="what a reader should know about this run")
    command.add_argument("--arrays", default="first", help="of which trials: first (seed of every arm), all or none")
    command.add_argument("--to", help="folder to publish in (default: that of the package, which --published reads)")


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
    if options.target is None:
        raise ConfigError("target must name an experiment: stairwise record add PAPER/EXPERIMENT")
    if options.arrays not in published.ARRAYS:
        raise ConfigError(f"arrays={options.arrays} must be one of {', '.join(published.ARRAYS)}")
    to = None if options.to is None else Path(options.to)
    chosen = {"seeds": options.seeds, "changes": fields, "note": options.note, "arrays": options.arrays, "to": to}
    path = published.add(options.target, options.preset, store=options.store, **chosen)
    if options.json:
        print_json({"file": str(path), "bytes": path.stat().st_size})
    else:
        print(f"published as {path.stem}: {path} ({path.stat().st_size:,} bytes)")
    return 0


def record_table(runs: Sequence[Mapping[str, Any]]) -> None:
    """What is published, one line per run."""
    rows = [
        [run["run"], run["trials"], run["written"], ", ".join(run["devices"]), f"{run['bytes']:,}", run["note"]]
        for run in runs
    ]
    columns = ("run", "trials", "written", "device", "bytes", "note")
    print_table(open_console(), columns, rows, right=("trials", "bytes"), wrap=("note",))
