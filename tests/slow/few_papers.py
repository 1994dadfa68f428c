"""The command line with `selection` and what others have installed: `python -m tests.slow.few_papers report`.

A report draws what is published of every paper, and takes most of its time for that.
"""

import sys

from stairwise import cli
from stairwise.lab import registry

if __name__ == "__main__":
    registry.modules = lambda: {"selection": "stairwise.papers.selection", **registry.plug_ins().modules}
    sys.exit(cli.main())
