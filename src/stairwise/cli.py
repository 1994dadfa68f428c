"""The command line: parses, calls lab and report, prints. Nothing here imports JAX; bad input never gets that far."""

import argparse
import errno
import io
import os
import re
import shlex
import signal
import sys
from contextlib import suppress
from typing import Any, NoReturn

from stairwise.lab.config import ConfigError, Field, leaves
from stairwise.lab.files import StoreError
from stairwise.lab.manifest import TIERS
from stairwise.lab.worker import Stopped, interruptible

EPILOG = """Config fields are flags of their own: stairwise run selection/online --task.length 100 --learning_rate 0.5
(stairwise run EXPERIMENT --help lists them). The store is --store, else $STAIRWISE_STORE, else ./stairwise-store."""

# the process that multiprocessing has tidy up after one that leaves at once need not say so
QUIET_TRACKER = "ignore:resource_tracker:UserWarning"


class Parser(argparse.ArgumentParser):
    """Refuses in one line."""

    def error(self, message: str) -> NoReturn:
        words = re.fullmatch(r"argument .*?([a-z][\w-]*): invalid (int|float) value: '(.*)'", message, re.DOTALL)
        if words:
            kind = "a whole number" if words[2] == "int" else "a number"
            raise ConfigError(f"{words[1]}={words[3]} must be {kind} ({self.prog} --help)")
        raise ConfigError(f"{message} ({self.prog} --help)")


def parser() -> argparse.ArgumentParser:
    top = Parser(
        prog="stairwise",
        description="Results on how transformers learn step-by-step reasoning, executable.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    top.add_argument("--version", action="store_true", help="print the version and exit")
    commands = top.add_subparsers(dest="command", metavar="COMMAND")

    def add(name: str, help: str, *, as_json: bool = True) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=help, description=help, allow_abbrev=False)
        command.add_argument("--store", help="folder of the run store")
        command.add_argument("--debug", action="store_true", help="show the traceback of an error")
        if as_json:
            command.add_argument("--json", action="store_true", help="print JSON")
        return command

    listing = add("list", "papers; the experiments, figures and claims of one; everything that has some words")
    listing.add_argument("name", nargs="?", metavar="PAPER", help="the experiments and figures of this paper")
    listing.add_argument(
        "--claims", action="store_true", help="the claims of the paper, by the names that verify takes"
    )
    listing.add_argument("--find", metavar="TEXT", help="everything whose name or description has these words")

    run = add("run", "run an experiment, or the one that owns a figure; what is stored is not run again")
    run.add_argument("target", metavar="PAPER/EXPERIMENT")
    _preset(run)
    run.add_argument("--seeds", type=int, help="how many seeds (default: the preset's)")
    run.add_argument(
        "--group", type=int, help="trials per compiled program (default: 1 on a CPU, the preset's on a GPU)"
    )
    _shard(run, "trials")
    run.add_argument("--save-every", type=float, default=10.0, help="seconds between checkpoints (default: 10)")
    _fresh(run)
    run.add_argument("--dry-run", action="store_true", help="say what would run, and stop")

    sweep = add("sweep", "run an experiment over a grid of its fields; what is stored is not run again")
    sweep.add_argument("target", metavar="PAPER/EXPERIMENT")
    sweep.add_argument(
        "--grid", nargs="+", action="extend", metavar="FIELD=VALUES",
        help="values of a field: 0.1,0.3 or first:last:step, first:last:xFACTOR, first:last:logCOUNT",
    )  # fmt: skip
    _preset(sweep)
    sweep.add_argument("--seeds", type=int, help="how many seeds (default: the preset's)")
    sweep.add_argument("--group", type=int, help="trials per compiled program (default: from preset and device)")
    _shard(sweep, "trials")
    sweep.add_argument("--best", metavar="METRIC", help="what the best is best at: METRIC or max:METRIC")
    sweep.add_argument("--retry-failed", action="store_true", help="run again what is recorded as failed")
    _fresh(sweep)
    sweep.add_argument("--cluster", help="local:N, tcp://HOST:PORT or slurm (default: this process)")
    sweep.add_argument("--cluster-config", metavar="FILE", help="TOML file with the options of --cluster slurm")
    sweep.add_argument(
        "--cluster-timeout", type=float, help="seconds to wait for a scheduler (10) and for workers (for ever)"
    )
    sweep.add_argument("--writer", default="workers", help="who writes to the store: workers (default) or client")
    sweep.add_argument("--save-every", type=float, default=10.0, help="seconds between checkpoints (default: 10)")
    sweep.add_argument("--dry-run", action="store_true", help="show the plan, and stop")

    verify = add("verify", "check claims: one line each, exit status 1 if one fails")
    verify.add_argument("targets", nargs="*", metavar="PAPER[/CLAIM]")
    verify.add_argument("--tier", default="instant", help=f"run claims up to this tier: {', '.join(TIERS)}")
    verify.add_argument("--run", action="store_true", help="run the trials that empirical claims need")
    verify.add_argument(
        "--fresh", action="store_true",
        help="check again what has a verdict; with --run, run trials again that other code has made",
    )  # fmt: skip
    verify.add_argument("--seed", type=int, default=0, help="seed of the checks' random draws")
    _shard(verify, "checks")
    verify.add_argument("--dry-run", action="store_true", help="check the request, and stop")
    verify.add_argument("--details", action="store_true", help="print each verdict's table")
    _preset(verify)

    figure = add("figure", "draw a figure from the store", as_json=False)
    figure.add_argument("target", metavar="PAPER/FIGURE")
    figure.add_argument("-o", "--out", help="file to write: .pdf, .svg or .png (default: FIGURE.pdf)")
    figure.add_argument("--run", action="store_true", help="run the trials that are missing")
    _fresh(figure, "with --run: ")
    figure.add_argument("--so-far", action="store_true", help="draw what is stored; the figure says what is missing")
    figure.add_argument("--seeds", type=int, help="how many seeds (default: the preset's)")
    _preset(figure)

    runs = add("runs", "what has been run")
    runs.add_argument("name", nargs="?", metavar="PAPER[/EXPERIMENT]", help="only these")
    runs.add_argument("--trials", action="store_true", help="one line a trial instead of one a run")
    runs.add_argument("--preset", help="only runs of this preset")
    statuses = "finished, reached, censored, diverged, overflow, singular or failed"
    runs.add_argument("--status", help=f"only trials that ended so: {statuses}")
    runs.add_argument("--where", nargs="+", action="extend", metavar="FIELD=VALUE", help="only trials with this config")
    runs.add_argument("--since", metavar="DATE", help="only what was started on this day (UTC, 2026-11-15) or later")
    runs.add_argument("--last", type=int, metavar="N", help="only the N latest")

    show = add("show", "one run or trial: config, results, how it was made")
    show.add_argument("id", metavar="ID", help="a run id or a trial digest, or the beginning of one")

    diff = add("diff", "what differs between two trials or runs")
    diff.add_argument("a", metavar="A")
    diff.add_argument("b", metavar="B")

    report = add("report", "write the site of everything in the store", as_json=False)
    report.add_argument("--out", default="report", help="folder to write to (default: report)")
    report.add_argument("--open", action="store_true", help="open it in the browser")
    report.add_argument("--serve", action="store_true", help="serve it to this machine's browsers until stopped")
    report.add_argument("--port", type=int, default=8000, help="port of --serve; 0 = any free one (default: 8000)")

    reproduce = add("reproduce", "headline figure of every paper, every instant claim, the report", as_json=False)
    reproduce.add_argument("--all", action="store_true", help="every quick preset and every claim of the minutes tier")
    reproduce.add_argument("--out", default="report", help="folder to write to (default: report)")

    export = add("export", "write a trained model, or one that a paper constructs, to a folder")
    export.add_argument("target", metavar="RUN", help="a trial digest, or its beginning; or PAPER/CONSTRUCTION")
    export.add_argument("-o", "--out", required=True, metavar="FOLDER", help="folder to write to: new, or empty")
    export.add_argument(
        "--format", default="safetensors", help="safetensors, or gpt2 for Transformers (default: safetensors)"
    )
    export.add_argument("--seed", type=int, default=0, help="seed of a construction (default: 0)")

    _data(add("data", "examples of a task as a file: its options are flags of their own (data TASK --help)"))
    _eval(add("eval", "put a task to a Hugging Face model: accuracy per length and per step (eval TASK --help)"))
    _entropy(add("entropy", "attention entropy of Hugging Face models on word problems, with and without CoT"))
    query = add("query", "SQL over the store: tables trials, finals, metrics, runs and claims")
    query.add_argument("sql", metavar="SQL", help="for example: select status, count(*) from trials group by status")
    query.add_argument("--csv", action="store_true", help="print CSV")

    gc = add("gc", "remove orphaned checkpoints and temporary folders; asks first", as_json=False)
    gc.add_argument("--yes", action="store_true", help="do not ask")

    _bench(add("bench", "the same work here and in plain PyTorch, timed side by side; how cost grows with size"))

    new = add("new-paper", "write the skeleton of a paper that is installed by itself", as_json=False)
    new.add_argument("name", metavar="NAME", help="name of its package, such as in_context_regression")
    new.add_argument("--into", metavar="FOLDER", help="folder of the project, new or empty (default: ./NAME)")
    new.add_argument("--title", help="title of the paper")

    cite = add("cite", "print the BibTeX entry of this library, or of a paper", as_json=False)
    cite.add_argument("name", nargs="?", metavar="PAPER", help="the paper to cite (default: this library)")

    add("doctor", "device, precision, cache, versions, extras, store")
    return top


def _data(command: argparse.ArgumentParser) -> None:
    command.add_argument("task", nargs="?", metavar="TASK", help="one of --list")
    command.add_argument("--list", action="store_true", help="the tasks and their options")
    command.add_argument("-n", metavar="N", help="how many examples, all different")
    command.add_argument("--format", help="jsonl, parquet, npz or tokens (default: jsonl)")
    command.add_argument("-o", "--out", metavar="FILE", help="file to write (default: standard output)")
    command.add_argument("--split", help="train, val or test: disjoint for any seeds (default: train)")
    command.add_argument("--from-header", metavar="FILE", help="make the file again that this one's header describes")
    _questions(command)


def _eval(command: argparse.ArgumentParser) -> None:
    command.add_argument("task", metavar="TASK", help="one of stairwise data --list")
    command.add_argument("--model", required=True, metavar="PATH_OR_NAME", help="a Hugging Face causal language model")
    command.add_argument("-n", metavar="N", default="200", help="questions a length (default: 200)")
    command.add_argument(
        "--lengths", metavar="5,10,20", help="chain lengths, hops or secret bits (default: the task's)"
    )
    command.add_argument("--shots", metavar="K", default="0", help="solved examples before each question (default: 0)")
    command.add_argument("--split", default="test", help="train, val or test (default: test)")
    command.add_argument("--batch", metavar="B", default="16", help="questions side by side (default: 16)")
    command.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1 (default: auto)")
    command.add_argument("--dtype", default="auto", choices=("auto", "float32", "bfloat16", "float16"))
    _questions(command)


def _questions(command: argparse.ArgumentParser) -> None:
    command.add_argument("--seed", metavar="S", help="chooses examples, and the secret where there is one (default: 0)")
    command.add_argument(
        "--cot", action=argparse.BooleanOptionalAction, help="with worked steps, or without (data: with; eval: both)"
    )


def _entropy(command: argparse.ArgumentParser) -> None:
    command.add_argument("--model", action="append", required=True, metavar="PATH_OR_NAME", help="may be repeated")
    command.add_argument("--data", required=True, metavar="FILE.jsonl", help="lines with question and answer (GSM8K)")
    command.add_argument("--limit", type=int, help="only so many records (default: all)")
    command.add_argument("--batch", type=int, default=1, help="texts read side by side (default: 1)")
    command.add_argument("--skip-sink", action="store_true", help="attention given that it is not on the first token")
    command.add_argument("--strip-calculator", action="store_true", help="leave out <<...>> spans")
    command.add_argument(
        "--answer-rule",
        default="last-line",
        choices=("last-line", "trailing-digits"),
        help="the result without CoT; trailing-digits is the authors' and wrong for 2,125 and -10 (default: last-line)",
    )
    command.add_argument("--no-baseline", dest="baseline", action="store_false", help="no model of random weights")
    command.add_argument("--seed", type=int, default=0, help="seed of the random weights (default: 0)")
    command.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1 (default: auto)")
    command.add_argument("--dtype", default="auto", choices=("auto", "float32", "bfloat16", "float16"))
    command.add_argument("--out", metavar="FILE", help="write the numbers: .json (a number a head) or .parquet (all)")
    command.add_argument("--figure", metavar="FILE", help="draw the heads of every layer: .pdf, .svg or .png")
    command.add_argument("--layers", metavar="1,11,21,28", help="only these layers in the figure (default: all)")


def _bench(command: argparse.ArgumentParser) -> None:
    command.add_argument("targets", nargs="*", metavar="PAPER", help="a paper, sweep or store (default: all but store)")
    command.add_argument("--device", default="cpu", choices=("cpu", "gpu"), help="cpu: one core of it (default: cpu)")
    command.add_argument("--repeats", type=int, default=5, help="times that each side is timed (default: 5)")
    command.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True, help="also torch.compile")
    command.add_argument("--limit", type=float, metavar="SECONDS", help="begin no further row after this time")
    command.add_argument("--tiny", action="store_true", help="small sizes: checks that all works, times mean nothing")
    command.add_argument("--growth", metavar="PAPER", help="instead: time and memory of its work against its size")
    command.add_argument(
        "-o",
        "--out",
        metavar="FILE",
        help="rows as JSON, written as they come; with --growth a figure (.png, .pdf)",
    )


def _fresh(command: argparse.ArgumentParser, when: str = "") -> None:
    command.add_argument("--fresh", action="store_true", help=f"{when}run trials again that other code has made")


def _preset(command: argparse.ArgumentParser) -> None:
    command.add_argument("--preset", default="quick", help="quick, gpu or paper (default: quick)")


def _shard(command: argparse.ArgumentParser, what: str) -> None:
    command.add_argument("--shard", metavar="I/N", help=f"only part I of N of the {what} (job arrays, CI matrices)")


def split_fields(arguments: list[str], known: set[str]) -> tuple[list[str], dict[str, str]]:
    """Separate config fields (`--task.length 8`, `--task.length=8`) from the command's own options."""
    rest, fields = [], {}
    position = 0
    while position < len(arguments):
        word = arguments[position]
        name, has_value, value = word.removeprefix("--").partition("=")
        position += 1
        if not word.startswith("--") or word == "--" or f"--{name}" in known:
            rest.append(word)
            continue
        if not has_value:
            if position == len(arguments):
                raise ConfigError(f"--{name} needs a value")
            value = arguments[position]
            position += 1
        if name in fields:
            raise ConfigError(f"--{name} is given twice: {fields[name]} and {value}")
        fields[name] = value
    return rest, fields


def check_options(command: argparse.ArgumentParser, words: list[str]) -> None:
    """ConfigError for an option that is given twice, unless it gathers its values, and for one without any."""
    seen: set[str] = set()
    for word in words[: words.index("--")] if "--" in words else words:
        flag = word.partition("=")[0] if word.startswith("--") else word[:2]
        action = command._option_string_actions.get(flag)
        if action is None:
            continue
        if word == f"{flag}=--":  # which argparse takes for no value at all
            raise ConfigError(f"{flag} needs a value ({command.prog} --help)")
        if action.dest in seen:
            raise ConfigError(f"{flag} is given twice ({command.prog} --help)")
        if type(action).__name__ not in ("_AppendAction", "_ExtendAction", "_HelpAction"):
            seen.add(action.dest)


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
        print(f"stairwise: {one_line(error)}", file=sys.stderr)
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
    return f"{type(error).__name__}: {one_line(error)} (--debug shows where)"


def one_line(error: Exception) -> str:
    """An error's message on one printable line, whatever a bad argument has put into it; a long one loses its middle.

    >>> len(one_line(ValueError("x" * 5000 + " must be shorter"))), one_line(ValueError("x" * 5000 + " end"))[-7:]
    (1000, 'xxx end')
    """
    text = " ".join(str(error).split())
    text = "".join(ch if ch.isprintable() else "?" for ch in text)
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
    top = parser()
    commands: dict[str, argparse.ArgumentParser] = top._subparsers._group_actions[0].choices  # type: ignore[union-attr,assignment]
    if not arguments or arguments[0] not in commands:
        return _without_command(top, commands, arguments)
    name, rest = arguments[0], arguments[1:]
    command = commands[name]
    fields: dict[str, str] = {}
    if name in ("run", "sweep", "verify", "figure", "export", "data", "eval"):
        target = next((word for word in rest if _names_target(name, word)), None)
        if ("--help" in rest or "-h" in rest) and target is not None:
            return _field_help(command, name, target)
        rest, fields = split_fields(rest, set(command._option_string_actions))
    check_options(command, rest)
    options = top.parse_args([name, *rest])
    if options.store == "":
        raise ConfigError("store='' must be the name of a folder")
    from stairwise.commands import COMMANDS

    return COMMANDS[name](options, fields)


def _names_target(name: str, word: str) -> bool:
    return not word.startswith("-") if name in ("data", "eval") else "/" in word


def _without_command(top: argparse.ArgumentParser, commands: dict[str, Any], arguments: list[str]) -> int:
    if arguments and arguments[0] == "--version":
        from stairwise import __version__

        print(f"stairwise {__version__}")
        return 0
    if arguments and not arguments[0].startswith("-"):
        raise ConfigError(f"unknown command: {arguments[0]} (commands: {', '.join(commands)})")
    if arguments and arguments[0] not in ("-h", "--help"):
        raise ConfigError(f"unknown option: {arguments[0]} (stairwise --help)")
    top.print_help()
    return 0


def _field_help(command: argparse.ArgumentParser, name: str, target: str) -> int:
    """The command's own options, and the config fields of its target."""
    from stairwise.lab import registry

    if name == "verify":
        claim = registry.claims([target])[0][0]
        base = claim.cases[0] if claim.cases else None
    elif name == "export":
        base = registry.construction(target).Config()
    elif name in ("data", "eval"):
        base = registry.task(target).Config()
    else:
        base = registry.experiment(target).presets["quick"].config
    command.print_help()
    print(f"\nfields of {target}:")
    for field in leaves(base) if base is not None else []:
        print(_field_line(field))
    return 0


def _field_line(field: Field) -> str:
    kind = getattr(field.kind, "__name__", "list")
    default = ",".join(map(str, field.default)) or "none" if isinstance(field.default, tuple) else field.default
    limits = f", {field.range}" if field.range else ""
    choices = f", one of {', '.join(field.metadata['choices'])}" if field.metadata.get("choices") else ""
    return (
        f"  --{field.path} {kind.upper()}\n      {field.metadata.get('help', '')} (default {default}{limits}{choices})"
    )


if __name__ == "__main__":
    sys.exit(main())
