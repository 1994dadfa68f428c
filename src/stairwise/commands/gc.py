"""`stairwise gc`: what can be removed from the store, and its removal."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from stairwise.commands.stored import opened
from stairwise.lab.run.tidy import Litter, clean, foreign, litter
from stairwise.terminal import heading, open_console
from stairwise.words import plain


def add_flags(command: argparse.ArgumentParser) -> None:
    command.add_argument("--yes", action="store_true", help="remove without asking")


def act(options, fields) -> int:
    store = opened(options.store)
    found = litter(store)
    print_litter(found, foreign(store), store.root)
    if not found:
        return 0
    if not options.yes:
        if not sys.stdin.isatty():
            print("nothing was removed: --yes removes them")
            return 0
        if input("remove them? [y/N] ").strip().lower() not in ("y", "yes"):
            print("nothing was removed")
            return 0
    clean(found)
    print("removed")
    return 0


def print_litter(found: Sequence[Litter], foreign: Sequence[Path], root: Path) -> None:
    """What can go, and how much room it takes; what is not the store's, and stays."""
    console = open_console()
    for each in found:
        heading(console, f"{each.bytes / 1e6:9.2f} MB", f"{each.path.relative_to(root)}: {each.why}")
    for path in foreign:
        kind = "checkpoint" if path.parent.name == "checkpoints" else "reservation"
        console.print(Text(plain(f"{path.relative_to(root)}: not a {kind}, left alone")))
    print(f"{len(found)} files or folders, {sum(each.bytes for each in found) / 1e6:.2f} MB")
