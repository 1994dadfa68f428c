"""`stairwise sweep`: an experiment over a grid of its fields, in this process or on a cluster."""

import argparse
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from stairwise.commands import flags, running
from stairwise.config import Config
from stairwise.lab import registry
from stairwise.lab.cluster.engine import Cluster
from stairwise.lab.progress import for_terminal
from stairwise.lab.run import grid as grids
from stairwise.lab.run.stale import words
from stairwise.lab.run.sweep_progress import MOST_NAMES, label
from stairwise.lab.store.store import Store
from stairwise.lab.sweep import Sweep, SweepRequest, check_writer, perform_sweep, preview
from stairwise.terminal import print_json
from stairwise.words import duration, number, plain

MOST_BAD = 20


def add_flags(command: argparse.ArgumentParser) -> None:
    flags.add_json(command)
    command.add_argument("target", metavar="PAPER/EXPERIMENT", help="the experiment, such as selection/online")
    command.add_argument(
        "--grid", nargs="+", action="extend", metavar="FIELD=VALUES",
        help="values of a field: 0.1,0.3 or first:last:step, first:last:xFACTOR, first:last:logCOUNT",
    )  # fmt: skip
    running.add_flags(command, "from preset and device")
    command.add_argument(
        "--best", metavar="METRIC", help="metric that ranks trials: smallest first, or max:METRIC for largest first"
    )
    command.add_argument("--retry-failed", action="store_true", help="run trials again that failed before")
    command.add_argument("--cluster", help="local:N, tcp://HOST:PORT, tls://HOST:PORT or slurm (default: this process)")
    command.add_argument("--cluster-config", metavar="FILE", help="TOML file with the options of --cluster slurm")
    command.add_argument(
        "--cluster-timeout",
        action=flags.Decimal,
        help="seconds to wait for the scheduler (default: 10) and for workers (default: no limit)",
    )
    command.add_argument("--writer", default="workers", help="who writes to the store: workers (default) or client")
    command.add_argument("--dry-run", action="store_true", help="show the plan, and run nothing")


def configs_of(options) -> dict[str, Config]:
    return {options.target: registry.experiment(options.target).presets["quick"].config}


def act(options, fields) -> int:
    running.check(options)
    check_writer(options.writer)
    grid = grids.from_words(options.grid or [])
    cluster = None
    if options.cluster is not None:
        cluster = Cluster.parse(options.cluster, options.cluster_config, options.cluster_timeout)
    sharing = {"shard": options.shard, "group": options.group, "progress": for_terminal()}
    request = SweepRequest.of(options.target, grid, options.preset, options.seeds, fields, **sharing)
    if options.dry_run:
        chosen = {"group": options.group, "retry_failed": options.retry_failed, "fresh": options.fresh}
        chosen |= {"progress": for_terminal()}
        found = preview(
            request, Store.open(options.store, create=False), workers=cluster.workers if cluster else None, **chosen
        )
        script = cluster.job_script() if cluster is not None and cluster.kind == "slurm" else None
        print_plan(found, script, as_json=options.json)
        return 0
    began = time.monotonic()
    with running.watched(options, request) as progress:
        result = perform_sweep(
            request,
            shlex.join(["stairwise", *sys.argv[1:]]),
            store=options.store,
            retry_failed=options.retry_failed,
            fresh=options.fresh,
            best=options.best,
            remote=cluster,
            writer=options.writer,
            save_every=options.save_every,
            progress=progress,
        )
        print_summary(result, time.monotonic() - began, as_json=options.json)
    again = options.fresh and result.stale  # what should have been run again has failed, and the old trial stays
    return 1 if result.statuses["failed"] or again or result.objective_is_unknown else 0


def print_plan(found: Mapping[str, Any], script: str | None, *, as_json: bool) -> None:
    """The plan of a sweep, and the job script where there is one."""
    if as_json:
        print_json({**found, **({} if script is None else {"job script": script})})
        return
    for name, value in found.items():
        if name == "grid":
            for path, values in value.items():
                print(f"{'grid ' + path:34} {_values(values)}")
        else:
            print(f"{name:34} {'unknown' if value is None else value}")
    if script is not None:
        print(f"\njob script:\n{script}")


def _values(values: Sequence[Any]) -> str:
    shown = [str(value) for value in (values if len(values) <= 12 else [*values[:6], "...", *values[-3:]])]
    return f"{', '.join(shown)}  ({len(values)})"


def print_summary(result: Sweep, seconds: float, *, as_json: bool) -> None:
    """How the trials ended, the best of them, and those that failed or were lost to a NaN with their messages."""
    best = result.best()
    if as_json:
        chosen = None if best is None else best.digest
        data = {"experiment": result.experiment.name, "statuses": dict(result.statuses), "best": chosen}
        found = {**data, "stale": result.stale, "trials": result.rows(), "seconds": seconds}
        print_json(found | result.share.as_dict())
        return
    counts = ", ".join(f"{count} {status}" for status, count in sorted(result.statuses.items()))
    print(f"{result.experiment.name}: {len(result.records)} trials ({counts}) in {duration(seconds)}")
    if result.stale:
        print(f"  {words(result.stale, len(result.records))}")
    for line in running.shared(result.share, len(result.records)):
        print(f"  {line}")
    if best is not None:
        found = result.objective.of({name: best.final(name) for name in best.names()})
        assert found is not None
        where = plain(label(best, result.axes))
        print(f"  best {found[0]} {number(found[1])}: {where}  (stairwise show {best.digest})")
    elif result.objective_is_unknown:
        known = sorted({name for record in result.records for name in record.names()})
        print(f"  best {result.objective.metric}: no trial has it (they have {', '.join(known[:MOST_NAMES])})")
    for record in result.bad[:MOST_BAD]:
        print(f"  {record.status}: {plain(label(record, result.axes))}: {plain(record.run.get('message', ''))}")
    if len(result.bad) > MOST_BAD:
        print(f"  and {len(result.bad) - MOST_BAD} more: stairwise runs {result.experiment.name} --status failed")
    if result.statuses["failed"]:
        print("  --retry-failed runs those that failed again")
