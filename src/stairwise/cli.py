"""The command line: finds the command, parses its words, calls it, and says what went wrong in one line.

Nothing here imports JAX; bad input never gets that far. The commands are the files of `stairwise.commands`.
"""

import argparse
import errno
import io
import os
import shlex
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress

from stairwise.commands import COMMANDS, GROUPS, module
from stairwise.commands.examples import epilog
from stairwise.commands.parsing import HELP, Parser, Wrapped, print_help, read
from stairwise.config import ConfigError, one_line
from stairwise.lab.store.files import StoreError
from stairwise.lab.worker import Stopped, interruptible

ABOUT = "Check, rerun and change the results of five theory papers on how transformers learn step-by-step reasoning."
EPILOG = """
examples:
  stairwise list
  stairwise verify selection/thm3.5 --task.length 8,16,32
  stairwise figure selection/fig2 --published -o fig2.png
  stairwise run selection/online --task.length 30

stairwise COMMAND --help explains a command and has examples.
Results are kept in the store: --store FOLDER, else $STAIRWISE_STORE, else ./stairwise-store.
"""

# the process that multiprocessing has tidy up after one that leaves at once need not say so
QUIET_TRACKER = "ignore:resource_tracker:UserWarning"


def _commands() -> str:
    """The names of all commands by what they are for."""
    width = max(map(len, COMMANDS)) + 2
    groups = (
        "\n".join([title, *(f"  {name:{width}}{about}" for name, about in group.items())])
        for title, group in GROUPS.items()
    )
    return "\n\n".join(groups)


def parser(chosen: Iterable[str] = COMMANDS) -> Parser:
    """The parser of all commands; those that are chosen have their flags."""
    top = Parser(
        prog="stairwise",
        usage="stairwise [--help] [--version] COMMAND ...",
        description=f"{ABOUT}\n\n{_commands()}",
        epilog=EPILOG.strip(),
        formatter_class=Wrapped,
        allow_abbrev=False,
    )
    top.add_argument("--version", action="store_true", help="print the version and exit")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", help=argparse.SUPPRESS)
    for name, about in COMMANDS.items():
        said, end = f"{about[0].upper()}{about[1:]}.", epilog(name)
        command = commands.add_parser(
            name, prog=f"stairwise {name}", description=said, epilog=end, formatter_class=Wrapped, allow_abbrev=False
        )
        if name in chosen:
            command.add_argument(
                "--store", help="folder of stored results (default: $STAIRWISE_STORE, else ./stairwise-store)"
            )
            command.add_argument("--debug", action="store_true", help="show the traceback of an error")
            module(name).add_flags(command)
    top.commands = dict(commands.choices)
    return top


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        _check_surroundings(arguments)
        if arguments[:1] == ["sweep"]:  # has a worker of its own; dask_jobqueue can be imported by the main thread only
            return _dispatch(arguments)
        return interruptible(lambda: _dispatch(arguments))
    except (ConfigError, StoreError) as error:
        if "--debug" in arguments:
            raise
        print(f"stairwise: {message(error)}", file=sys.stderr)
        return getattr(error, "exit_status", 2)
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        _leave(arguments, signal.SIGINT)
    except Stopped as stopped:
        _leave(arguments, stopped.signal_number)
    except Exception as error:
        if "--debug" in arguments:
            raise
        print(f"stairwise: {_unforeseen(error)}", file=sys.stderr)
        return 1
    return 1


def _check_surroundings(arguments: list[str]) -> None:
    """Standard streams that are open, and words that can be printed and used as names of files."""
    if sys.stderr is None:  # else the next file to be opened would take its place
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  until the process ends
    if sys.stdout is None:
        raise ConfigError("standard output is closed: send it to a file, or to /dev/null")
    for word in arguments:
        if "\0" in word:
            raise ConfigError(f"{word} must not hold a NUL byte")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name of a file need not be valid UTF-8
            stream.reconfigure(errors="backslashreplace")
    if QUIET_TRACKER not in sys.warnoptions:
        sys.warnoptions.append(QUIET_TRACKER)


def _unforeseen(error: Exception) -> str:
    """One line for what nobody has explained where it happened: mostly the operating system's refusals."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"no space left on the device ({error.filename or 'store'})"
    return f"{type(error).__name__}: {message(error)} (--debug shows where)"


def message(error: Exception) -> str:
    """An error's message on one printable line, whatever a bad argument has put into it; a long one loses its middle.

    >>> len(message(ValueError("x" * 5000 + " must be shorter"))), message(ValueError("x" * 5000 + " end"))[-7:]
    (1000, 'xxx end')
    """
    text = one_line(" ".join(str(error).split()))
    return text if len(text) <= 1000 else f"{text[:495]} ... {text[-500:]}"


def _leave(arguments: list[str], number: int) -> None:
    """Say how to go on and end the process at once: a compile that is under way cannot be unwound safely."""
    command = shlex.join(["stairwise", *arguments])
    left = "nothing was written" if arguments[0] in ("data", "eval", "export") else "what is finished is stored"
    with suppress(OSError, ValueError):  # whoever reads them may have gone
        print(f"\nstairwise: stopped; {left}. Go on with: {command}", file=sys.stderr, flush=True)
        sys.stdout.flush()
    os._exit(128 + number)


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] not in COMMANDS:
        return _without_command(arguments)
    name, words = arguments[0], arguments[1:]
    command, called = parser([name]).commands[name], module(name)
    if set(HELP) & set(words) and hasattr(called, "configs_of"):
        print_help(command, called, words)
        return 0
    options, fields = read(command, called, words)
    if options.store == "":
        raise ConfigError("store='' must be the name of a folder")
    if getattr(options, "published", False):
        _read_published(options, name, words)
    return called.act(options, fields)


def _read_published(options: argparse.Namespace, name: str, words: list[str]) -> None:
    """Turns the command to the store of what is published, and to its preset unless another one is named."""
    from stairwise.record import published

    for other in ("store", "run", "fresh", "shard"):
        if getattr(options, other, None):
            raise ConfigError(f"--published reads what is published: --{other} cannot go with it")
    options.store = str(published.store().root)
    if hasattr(options, "preset") and not any(word.partition("=")[0] == "--preset" for word in words):
        options.preset = "gpu" if name in ("figure", "plot", "verify") else options.preset


def _without_command(arguments: list[str]) -> int:
    if arguments and arguments[0] == "--version":
        from stairwise import __version__

        print(f"stairwise {__version__}")
        return 0
    if arguments and not arguments[0].startswith("-"):
        from stairwise.lab.contract.manifest import unknown

        raise ConfigError(unknown("command", arguments[0], COMMANDS))
    if arguments and arguments[0] not in HELP:
        raise ConfigError(f"unknown option: {arguments[0]} (stairwise --help)")
    parser(()).print_help()
    return 0


if __name__ == "__main__":
    sys.exit(main())
