"""`stairwise new-paper`: the skeleton of a paper, and what to do with it next."""

import argparse
import os
import shlex
import shutil
import sys

from stairwise.skeleton.write import id_of, new_paper


def add_flags(command: argparse.ArgumentParser) -> None:
    command.add_argument("name", metavar="NAME", help="name of the package, such as in_context_regression")
    command.add_argument("--into", metavar="FOLDER", help="folder of the project, new or empty (default: ./NAME)")
    command.add_argument("--title", help="title of the paper")


def act(options, fields) -> int:
    folder = new_paper(options.name, options.into, options.title)
    place, python = shlex.quote(str(folder)), shlex.quote(_python())
    print(f"{folder} holds a paper that works as it stands; every file says what to change in it. Next:")
    print(f"  {python} -m pip install -e {shlex.quote(f'{folder}[test]')}")  # with pytest
    print(f"  {python} -m pytest {place}")
    print(f"  {python} -m stairwise verify {id_of(options.name)}")
    return 0


def _python() -> str:
    """How a shell calls the Python that this is: its path, where "python" is another one or none."""
    found = shutil.which("python")
    return "python" if found and os.path.abspath(found) == os.path.abspath(sys.executable) else sys.executable
