"""`stairwise data`: the tasks, and files of their examples."""

import argparse
import json
import os
import shlex
import sys
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from rich.padding import Padding

from stairwise.commands import flags
from stairwise.config import Config, ConfigError, leaves
from stairwise.lab import registry
from stairwise.lab.contract.sources import TaskSource
from stairwise.lab.data import croissant, formats, harness
from stairwise.lab.data.request import DataRequest
from stairwise.lab.progress import Silent, for_terminal
from stairwise.lab.store.files import explained, replace_file
from stairwise.lab.worker import in_worker
from stairwise.terminal import cells, heading, new_table, open_console, print_json

ASKED = ("task", "n", "seed", "split", "cot", "format", "out", "from_header", "card", "url")
LM_EVAL = "lm-eval"


def add_flags(command: argparse.ArgumentParser) -> None:
    flags.add_json(command)
    command.add_argument("task", nargs="?", metavar="TASK", help="name of a task; --list shows all")
    command.add_argument("--list", action="store_true", help="list the tasks and their options")
    command.add_argument("-n", action=flags.Whole, metavar="N", help="how many examples; they are all different")
    command.add_argument(
        "--format", help="jsonl, parquet, npz, tokens, or lm-eval: the folder of a task (default: jsonl)"
    )
    command.add_argument("-o", "--out", metavar="FILE", help="file or folder to write (default: standard output)")
    command.add_argument(
        "--split", help="train, val or test; disjoint for all seeds (default: train, for lm-eval test)"
    )
    command.add_argument("--card", metavar="FILE,FILE", help="print or write a Croissant card of files that exist")
    command.add_argument("--url", metavar="URL", help="address of the data that --card describes")
    command.add_argument("--from-header", metavar="FILE", help="write again the file that this header describes")
    flags.add_questions(command, "with")


def configs_of(options) -> dict[str, Config] | None:
    if options.list or options.from_header or options.card or not options.task:
        return None
    return {options.task: registry.task(options.task).Config()}


def act(options, fields) -> int:
    """List the tasks, or write a file of one."""
    if options.list:
        if fields or any(getattr(options, name) is not None for name in ASKED):
            raise ConfigError("--list shows every task: name none, and no options")
        return _list(options.json)
    if options.json:
        raise ConfigError("--json goes with --list; the examples themselves are --format jsonl")
    out = Path(options.out) if options.out else None
    if options.card is not None:
        return _card(options, fields, out)
    if options.url is not None:
        raise ConfigError("--url goes with --card")
    request, format = _from_header(options, fields) if options.from_header else _asked(options, fields)
    if format == LM_EVAL:
        folder = harness.check(request, out)
        name = in_worker(lambda stop: _write(request, stop, folder, partial(harness.write_task, request, folder)))
        print(f"{folder} holds a task of lm-evaluation-harness. Start it in that folder:")
        print(f"  cd {shlex.quote(str(folder))}")
        print(f"  lm_eval --model hf --model_args pretrained=MODEL --include_path . --tasks {name} --num_fewshot 4")
        return 0
    in_worker(lambda stop: _write(request, stop, out, partial(formats.write, request, format, out)))
    return 0


def _card(options: Any, fields: Mapping[str, str], out: Path | None) -> int:
    if fields or any(getattr(options, name) is not None for name in ASKED if name not in ("card", "url", "out")):
        raise ConfigError("--card takes everything from its files: name only --url and -o")
    found = croissant.card([Path(name) for name in options.card.split(",")], options.url)
    if out is None:
        print_json(found)
        return 0
    with explained(f"write {out}"):
        replace_file(Path(os.path.realpath(out)), (json.dumps(found, indent=1) + "\n").encode())
    return 0


def _asked(options: Any, fields: Mapping[str, str]) -> tuple[DataRequest, str]:
    if not options.task:
        raise ConfigError("data needs a TASK (stairwise data --list shows them)")
    if options.n is None:
        raise ConfigError("data needs to know how many examples: -n 1000")
    format = options.format or "jsonl"
    usual = "test" if format == LM_EVAL else "train"
    more = {"seed": options.seed or 0, "split": usual if options.split is None else options.split}
    request = DataRequest.of(options.task, fields, options.n, **more, cot=options.cot is not False)
    return request, _format(format)


def _from_header(options: Any, fields: Mapping[str, str]) -> tuple[DataRequest, str]:
    if fields or any(getattr(options, name) is not None for name in ("task", "n", "seed", "split", "cot")):
        raise ConfigError("--from-header takes the task and all its options from the file: name only -o and --format")
    header = formats.read_header(Path(options.from_header))
    return DataRequest.from_header(header), _format(options.format or header["format"])


def _format(name: str) -> str:
    if name not in (*formats.WRITERS, LM_EVAL):
        raise ConfigError(f"format={name} must be one of {', '.join((*formats.WRITERS, LM_EVAL))}")
    return name


def _write(request: DataRequest, stop: threading.Event, out: Path | None, write: Callable[..., Any]) -> Any:
    progress = Silent() if out is None and sys.stdout.isatty() else for_terminal()  # not among the records
    progress.begin(f"data {request.task.id}", 1, 0)

    def tell(done: int) -> None:
        if stop.is_set():
            raise InterruptedError("stopped")
        progress.ticks("examples", done, request.n, {})

    try:
        written = write(tell=tell)
        progress.finished("examples", "written")
        return written
    finally:
        progress.end()


def _list(as_json: bool) -> int:
    tasks = [task for paper in registry.papers() for task in paper.tasks]
    if as_json:
        print_json({"tasks": [_described(task) for task in tasks], "formats": [*formats.WRITERS, LM_EVAL]})
        return 0
    console = open_console()
    for task in tasks:
        heading(console, task.id, f"{task.says} ({task.paper})")
        table = new_table("option", "default", "what it is", wrap=("default", "what it is"))
        for one in _described(task)["options"]:
            limits = f" ({one['valid']})" if one["valid"] else ""
            table.add_row(*cells([f"--{one['name']}", one["default"], one["help"] + limits]))
        console.print(Padding.indent(table, 2))
        console.print()
    return 0


def _described(task: TaskSource) -> dict[str, Any]:
    fields = leaves(task.Config())
    return {
        "id": task.id,
        "paper": task.paper,
        "says": task.says,
        "difficulty": task.difficulty,
        "options": [
            {
                "name": field.path,
                "default": ",".join(map(str, field.default)) if isinstance(field.default, tuple) else field.default,
                "help": field.metadata["help"],
                "valid": field.range or ", ".join(field.metadata["choices"]),
            }
            for field in fields
        ],
    }
