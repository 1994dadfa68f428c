"""`stairwise bench`: checks what was asked for, runs it, prints it."""

import json
from argparse import Namespace
from pathlib import Path

from stairwise.bench import run, table
from stairwise.bench.row import Settings
from stairwise.lab.config import ConfigError


def bench(options: Namespace) -> int:
    """Exit status 1 if a row failed."""
    out = output(options.out)
    settings = Settings(options.device, options.repeats, options.compile, options.tiny)
    names = run.chosen(options.targets)
    run.check(settings)
    found = None
    for found in run.collect(names, settings, options.limit):
        table.line(found)
        if out is not None:
            out.write_text(json.dumps(found.as_dict(), indent=1))
    assert found is not None  # every bench has a row
    if options.json:
        print(json.dumps(found.as_dict()))
    else:
        table.show(found)
    return 1 if any(row.failure for row in found.rows) else 0


def output(name: str | None) -> Path | None:
    """The file to write to, if its folder exists."""
    if name is None:
        return None
    path = Path(name)
    if not path.resolve().parent.is_dir():
        raise ConfigError(f"out={path} must lie in a folder that exists")
    return path
