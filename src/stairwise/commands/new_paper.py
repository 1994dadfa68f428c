"""`stairwise new-paper`: the skeleton of a paper, and what to do with it next."""

import argparse
import shlex

from stairwise.skeleton.write import id_of, new_paper


def add_flags(command: argparse.ArgumentParser) -> None:
    command.add_argument("name", metavar="NAME", help="name of its package, such as in_context_regression")
    command.add_argument("--into", metavar="FOLDER", help="folder of the project, new or empty (default: ./NAME)")
    command.add_argument("--title", help="title of the paper")


def act(options, fields) -> int:
    folder = new_paper(options.name, options.into, options.title)
    place = shlex.quote(str(folder))
    print(f"{folder} holds a paper that works as it stands; every file says what to change in it. Next:")
    for command in (f"pip install -e {place}", f"python -m pytest {place}", f"stairwise verify {id_of(options.name)}"):
        print(f"  {command}")
    return 0
