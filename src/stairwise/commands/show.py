"""`stairwise show`: one run or trial. Imports no JAX."""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from stairwise.commands import flags
from stairwise.commands.stored import opened, records_of, run_data, trial_data
from stairwise.config import ConfigError
from stairwise.lab.store.shown import shown
from stairwise.lab.store.store import Store, StoredRun
from stairwise.lab.store.trial import StoredTrial
from stairwise.terminal import heading, open_console, print_json, print_pairs, print_rows
from stairwise.words import duration, flat, moment, number, plain


def add_flags(command: argparse.ArgumentParser) -> None:
    flags.add_json(command)
    flags.add_published(command)
    command.add_argument(
        "--config", action="store_true", help="print the settings of a run as TOML, for stairwise run --config FILE"
    )
    command.add_argument("id", metavar="ID", help="the id of a run or the digest of a trial, or its beginning")


def act(options, fields) -> int:
    store = opened(options.store)
    found = store.find(options.id)
    if options.config:
        print(_settings(found), end="")
        return 0
    show(found, store, as_json=options.json)
    return 0


def _settings(found: StoredTrial | StoredRun) -> str:
    if isinstance(found, StoredTrial):
        raise ConfigError(f"{found.digest} is a trial: --config prints the settings of a run (stairwise runs)")
    text = found.record.get("settings")
    if not isinstance(text, str):
        raise ConfigError(f"run {found.id} was recorded without its settings; its command is: {found.command}")
    return text


def show(found: StoredTrial | StoredRun, store: Store, as_json: bool = False) -> None:
    """One trial: config, last measurements, arrays, how it was made. One run: its trials, and their measurements."""
    found = shown(found) if isinstance(found, StoredTrial) else found
    data = trial_data(found) if isinstance(found, StoredTrial) else run_data(found, records_of(found, store))
    if as_json:
        print_json(data)
    elif isinstance(found, StoredTrial):
        _show_trial(found, data)
    else:
        _show_run(found, data)


def _show_trial(record: StoredTrial, data: Mapping[str, Any]) -> None:
    console = open_console()
    arm = f"  arm {record.arm}" if record.arm else ""
    heading(console, f"trial {record.digest}", f"{record.experiment}{arm}  seed {record.seed}")
    console.print(Text(plain(f"{record.status} {data['message']}")))
    if data["stale"]:
        console.print("made by other code than there is now")
    print_pairs(console, "config", flat(record.config_dict))
    print_pairs(console, "starts from", record.needs)
    print_pairs(console, "last measurements", {row["metric"]: number(row["median"], 6) for row in data["final"]})
    shapes = {name: f"{array['dtype']} {_shape(array['shape'])}" for name, array in data["arrays"].items()}
    print_pairs(console, "arrays", shapes)
    timing = {"started": moment(data["started"]), "took": duration(data["seconds"])}
    print_pairs(console, "made with", {**timing, **flat(data["provenance"])})


def _shape(sizes: Sequence[int]) -> str:
    return " x ".join(map(str, sizes)) or "scalar"


def _show_run(run: StoredRun, data: Mapping[str, Any]) -> None:
    console = open_console()
    heading(console, f"run {run.id}", f"{run.experiment}  preset {run.preset}")
    took = "unfinished" if run.seconds is None else duration(run.seconds)
    facts = {"command": run.command, "started": moment(run.started), "took": took}
    print_pairs(console, "asked for", {**facts, **{f"--{path}": value for path, value in data["changes"].items()}})
    console.print()
    heading(console, f"{len(run.trials)} trials")
    columns = ("digest", "arm", "seed", "status", "seconds")
    lines = [{name: row[name] for name in columns} for row in data["stored"]]
    print_rows(console, [*lines, *({"digest": digest, "status": "not stored"} for digest in data["missing"])])
    if data["final"]:
        console.print()
        heading(console, "last measurements over seeds")
        print_rows(console, data["final"])
