"""`stairwise playground`: serves the machines that train in the browser, or writes their folder."""

import argparse
from pathlib import Path

from stairwise import playground
from stairwise.commands import flags


def add_flags(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "-o",
        "--out",
        metavar="FOLDER",
        help="write a static folder, to open with a double-click or put on a web server",
    )
    command.add_argument(
        "--port", action=flags.Whole, default=8001, help="port to serve on; 0 = any free one (default: 8001)"
    )
    command.add_argument("--no-open", dest="open", action="store_false", help="do not open the browser")


def act(options, fields) -> int:
    if options.out is not None:
        print(playground.write(Path(options.out)))
    else:
        playground.serve(options.port, show=options.open)
    return 0
