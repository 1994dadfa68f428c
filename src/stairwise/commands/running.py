"""What `run` and `sweep` share: flags, the display of a run, and what they say of work that others share."""

import argparse
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

from stairwise.commands import flags
from stairwise.config import ConfigError, as_flags
from stairwise.lab.api import RunRequest, Share
from stairwise.lab.progress import for_terminal
from stairwise.lab.store.store import Store
from stairwise.live import log


def add_flags(command: argparse.ArgumentParser, group: str) -> None:
    """`group` says how many trials share a compiled program where nothing else is asked for."""
    flags.add_config(command)
    flags.add_preset(command)
    flags.add_seeds(command)
    command.add_argument("--group", action=flags.Whole, help=f"trials per compiled program (default: {group})")
    flags.add_shard(command, "trials")
    command.add_argument(
        "--save-every", action=flags.Decimal, default=10.0, help="seconds between checkpoints (default: 10)"
    )
    flags.add_fresh(command)
    command.add_argument(
        "--live", action="store_true", help="open a page that shows curves and attention maps while it trains"
    )
    command.add_argument(
        "--no-open", action="store_true", help="with --live: print the address instead of opening a browser"
    )
    command.add_argument(
        "--port", action=flags.Whole, metavar="N", help="with --live: port of the page (default: any free one)"
    )
    command.add_argument(
        "--log",
        metavar="|".join(log.KINDS),
        help="also write measurements for TensorBoard or Weights & Biases (extra log), or as CSV",
    )
    command.add_argument("--log-to", metavar="FOLDER", help=f"with --log: folder to write to (default: {log.FOLDER})")


def check(options) -> None:
    if not options.live and (options.no_open or options.port is not None):
        given = "no-open" if options.no_open else "port"
        raise ConfigError(f"--{given} needs --live: without it there is no page")
    if options.port is not None and not 0 <= options.port <= 65535:
        raise ConfigError(f"port={options.port} must lie in 0..65535")
    if options.log is not None:
        log.check_kind(options.log)
    elif options.log_to is not None:
        raise ConfigError("--log-to needs --log: without it nothing is logged")
    if options.group is not None and not 1 <= options.group <= 65536:
        raise ConfigError(f"group={options.group} must lie in 1..65536")
    if not options.save_every >= 0:
        raise ConfigError(f"save-every={options.save_every} must be at least 0")


@contextmanager
def watched(options, request: RunRequest) -> Iterator[Any]:
    """The display of a run: the terminal's, with --log a log, and with --live a page of what is asked for as well."""
    with ExitStack() as stack:
        display: Any = for_terminal()
        if options.log is not None or options.live:
            store = Store.open(options.store, create=False)
            if options.log is not None:
                chosen = {"axes": request.axes, "fresh": options.fresh}
                folder = Path(options.log_to or log.FOLDER)
                display = stack.enter_context(log.logged(display, options.log, folder, store, request.trials, **chosen))
            if options.live:
                display = stack.enter_context(_with_a_page(options, display, store, request))
        yield display


def _with_a_page(options, display: Any, store: Store, request: RunRequest) -> AbstractContextManager[Any]:
    from stairwise.live.command import watched as with_a_page

    report = f"stairwise report --open{as_flags({'store': options.store} if options.store else {})}"
    chosen = {"fresh": options.fresh, "port": options.port or 0, "show": not options.no_open, "report": report}
    return with_a_page(display, store, request, **chosen)


def shared(share: Share, trials: int) -> list[str]:
    """What other processes have run, and what other shards still have to, in lines.

    >>> shared(Share(5, 3), 8)
    ['5 trials were run here, 3 by other processes meanwhile']
    """
    lines = []
    if share.meanwhile:
        lines.append(f"{share.here} trials were run here, {share.meanwhile} by other processes meanwhile")
    if share.shard is not None:
        rest = f"{share.left} trials of the other shards are" if share.left else "all trials of the other shards are"
        not_yet = "not in this store yet" if share.left else "in this store"
        lines.append(f"shard {share.shard}: {trials} of {share.asked} trials; {rest} {not_yet}")
    return lines
