"""A paper whose figures take their time, and the command line with no other: `python -m tests.slow.drawing report`."""

import os
import sys
import time
from pathlib import Path

from stairwise import cli
from stairwise.lab import registry
from stairwise.lab.contract.experiment import Experiment, Figure, Preset
from stairwise.lab.contract.paper import Paper
from tests.report import tiny


def slowly(records):
    """Says in a file of its own which process draws, and goes on for a minute."""
    Path(os.environ["DRAWING"], str(os.getpid())).touch()
    time.sleep(60)
    return tiny.curves(records)


FIGURES = tuple(Figure(f"fig{k}", "Drawn slowly", slowly) for k in range(8))
WALK = Experiment("walk", "a walk", tiny.Walk, {"quick": Preset(tiny.Walk())}, tiny.nothing, FIGURES)
PAPER = Paper("drawing", "On Drawing", "A. Author", 2024, "-", "figures take time", (), (WALK,))

if __name__ == "__main__":
    registry.modules = lambda: {"drawing": "tests.slow.drawing"}
    sys.exit(cli.main())
