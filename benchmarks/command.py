"""`stairwise bench`: checks what was asked for, runs it, prints it."""

import json
import sys
from argparse import Namespace

from benchmarks import GROWING, run, table
from benchmarks.row import Settings
from stairwise.config import ConfigError
from stairwise.lab.store.files import explained, output_file, replace_file
from stairwise.terminal import print_json


def bench(options: Namespace) -> int:
    """Exit status 1 if a row failed."""
    if options.growth is not None:
        return growing(options)
    out = output_file("out", options.out, (".json",)) if options.out else None
    if options.limit is not None and not options.limit > 0:
        raise ConfigError(f"limit={options.limit:g} must be above 0 seconds")
    settings = Settings(options.device, options.repeats, options.compile, options.tiny)
    names = run.chosen(options.targets, options.device)
    run.check(settings)
    found, shown = None, 0
    for found in run.collect(names, settings, options.limit):
        if len(found.rows) > shown:
            table.line(found)
            shown = len(found.rows)
        if out is not None:
            with explained(f"write {out}"):
                replace_file(out, json.dumps(found.as_dict(), indent=1).encode())
    assert found is not None  # every bench has a row
    if options.json:
        print_json(found.as_dict())
    else:
        table.show(found)
    return 1 if any(row.failure for row in found.rows) else 0


def growing(options: Namespace) -> int:
    """Time and memory of one paper's work against its size: a table, and a figure where one is asked for."""
    if options.targets:
        raise ConfigError(f"--growth takes one paper and no others: {' '.join(options.targets)}")
    if options.growth not in GROWING:
        raise ConfigError(f"growth={options.growth} must be one of {', '.join(GROWING)}")
    run.check_repeats(options.repeats)
    out = output_file("out", options.out, (".png", ".pdf", ".svg")) if options.out else None
    from benchmarks import growth

    def seen(size: int) -> None:
        print(f"compiling size {size}", file=sys.stderr, flush=True)

    grown = growth.grow(options.growth, options.device, options.repeats, seen)
    if options.json:
        print_json(grown.as_dict())
    else:
        growth.show(grown)
    if out is not None:
        growth.draw(grown, out)
        print(out, file=sys.stderr)
    return 0
