"""`stairwise report`: builds the site of the store, then shows it or serves it where that was asked for."""

import argparse
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from stairwise.commands import flags
from stairwise.commands.stored import opened
from stairwise.config import ConfigError
from stairwise.lab.progress import for_terminal
from stairwise.lab.serve import address, server
from stairwise.lab.store.store import Store
from stairwise.lab.worker import collect_seldom
from stairwise.report.site.build import build


def add_flags(command: argparse.ArgumentParser) -> None:
    flags.add_published(command)
    command.add_argument("-o", "--out", default="report", help="folder to write to (default: report)")
    command.add_argument(
        "--docs", default="", metavar="PAGE", help="address of the documentation to link to, relative to the first page"
    )
    command.add_argument("--open", action="store_true", help="open the site in the browser")
    command.add_argument(
        "--serve", action="store_true", help="serve the site to browsers on this machine until stopped"
    )
    command.add_argument(
        "--port", action=flags.Whole, metavar="N", help="with --serve: its port; 0 = any free one (default: 8000)"
    )


@contextmanager
def seldom_collected() -> Iterator[None]:
    before = gc.get_threshold()
    collect_seldom()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def judge(store: Store) -> None:
    """Give the published trials their verdicts, which the pages show."""
    from stairwise.lab.ledger.verify import verify

    index = store.index()
    index.refresh()
    index.read_ahead()  # by claims, tables and curves
    for _ in verify(tier="minutes", preset="gpu", store=store, published=True, progress=for_terminal()):
        pass


def act(options, fields) -> int:
    """With --serve it goes on until it is interrupted."""
    out = Path(options.out)
    if os.path.lexists(out) and not out.is_dir():  # said before anything is judged or drawn
        raise ConfigError(f"out={out} must be a folder")
    if options.port is not None and not options.serve:
        raise ConfigError("--port is for --serve")
    store = opened(options.store)
    # a port that cannot be used is refused before anything is built
    serving = server(out, 8000 if options.port is None else options.port) if options.serve else None
    with seldom_collected():
        judging = partial(judge, store) if options.published else None
        page = build(store, out, progress=for_terminal(), docs=options.docs, judge=judging)
    print(page, flush=True)
    where = page.resolve().as_uri() if serving is None else address(serving)
    if serving is not None:
        print(f"serving it at {where} (this machine only); Ctrl-C stops", flush=True)
    if options.open:
        import webbrowser

        webbrowser.open(where)
    if serving is not None:
        with serving:
            serving.serve_forever()
    return 0
