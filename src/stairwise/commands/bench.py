"""`stairwise bench`: flags of the side-by-side timings; the work and its tables are `benchmarks`, beside the source."""

import argparse
import sys
from pathlib import Path

from stairwise.commands import flags
from stairwise.config import ConfigError

CLONE = Path(__file__).parents[3]  # where this package is used from a clone of the repository


def add_flags(command: argparse.ArgumentParser) -> None:
    flags.add_json(command)
    command.add_argument(
        "targets",
        nargs="*",
        metavar="PAPER",
        help="a paper, sweep, seeds, users or store (default: papers, sweep; on a GPU seeds too)",
    )
    command.add_argument("--device", default="cpu", choices=("cpu", "gpu"), help="cpu is one core of it (default: cpu)")
    command.add_argument("--repeats", action=flags.Whole, default=5, help="how often each side is timed (default: 5)")
    command.add_argument(
        "--compile", action=argparse.BooleanOptionalAction, default=True, help="time torch.compile too (default: yes)"
    )
    command.add_argument(
        "--limit", action=flags.Decimal, metavar="SECONDS", help="start no further row after this time"
    )
    command.add_argument(
        "--tiny", action="store_true", help="small sizes, to check that everything works; the times mean nothing"
    )
    command.add_argument(
        "--growth", metavar="PAPER", help="instead: how time and memory grow with the size of this paper's task"
    )
    command.add_argument(
        "-o",
        "--out",
        metavar="FILE",
        help="file for the rows as JSON; with --growth, for the figure (.png, .pdf)",
    )


def act(options, fields) -> int:
    if not (CLONE / "benchmarks" / "command.py").is_file():
        raise ConfigError("the installed package has no benchmarks: clone the repository and run `make bench` there")
    if str(CLONE) not in sys.path:
        sys.path.insert(0, str(CLONE))
    from benchmarks.command import bench  # imports JAX

    return bench(options)
