"""`stairwise data` and `stairwise eval`: the tasks, their files, and how a model does on them."""

import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.padding import Padding
from rich.text import Text

from stairwise.lab import registry
from stairwise.lab.config import ConfigError, Field, leaves, parse
from stairwise.lab.contract import TaskSource
from stairwise.lab.data import formats
from stairwise.lab.data.evaluate import Evaluation, Exam, Rate
from stairwise.lab.data.request import Request
from stairwise.lab.progress import Silent, for_terminal
from stairwise.lab.worker import in_worker
from stairwise.report.terminal import cells, heading, new_table, open_console, print_json
from stairwise.report.words import plain

ASKED = ("task", "n", "seed", "split", "cot", "format", "out", "from_header")  # what a file of `data` depends on
STEPS_SHOWN = 12  # columns of the table; JSON has all


# --- data -------------------------------------------------------------------------------------------------------------


def data(options: Any, fields: Mapping[str, str]) -> int:
    """List the tasks, or write a file of one."""
    if options.list:
        if fields or any(getattr(options, name) is not None for name in ASKED):
            raise ConfigError("--list shows every task: name none, and no options")
        return _list(options.json)
    if options.json:
        raise ConfigError("--json goes with --list; the examples themselves are --format jsonl")
    request, format = _from_header(options, fields) if options.from_header else _asked(options, fields)
    out = Path(options.out) if options.out else None
    in_worker(lambda stop: _write(request, format, out, stop))
    return 0


def _asked(options: Any, fields: Mapping[str, str]) -> tuple[Request, str]:
    if not options.task:
        raise ConfigError("data needs a TASK (stairwise data --list shows them)")
    if options.n is None:
        raise ConfigError("data needs to know how many examples: -n 1000")
    seed, split = _seed(options.seed), "train" if options.split is None else options.split
    more = {"seed": seed, "split": split, "cot": options.cot is not False}
    request = Request.of(options.task, fields, whole("n", options.n), **more)
    return request, _format(options.format or "jsonl")


def _from_header(options: Any, fields: Mapping[str, str]) -> tuple[Request, str]:
    if fields or any(getattr(options, name) is not None for name in ("task", "n", "seed", "split", "cot")):
        raise ConfigError("--from-header takes the task and all its options from the file: name only -o and --format")
    header = formats.read_header(Path(options.from_header))
    return Request.from_header(header), _format(options.format or header["format"])


def _format(name: str) -> str:
    if name not in formats.WRITERS:
        raise ConfigError(f"format={name} must be one of {', '.join(formats.WRITERS)}")
    return name


def _write(request: Request, format: str, out: Path | None, stop: threading.Event) -> None:
    progress = Silent() if out is None and sys.stdout.isatty() else for_terminal()  # not among the records
    progress.begin(f"data {request.task.id}", 1, 0)

    def tell(done: int) -> None:
        if stop.is_set():
            raise InterruptedError("stopped")
        progress.ticks("examples", done, request.n, {})

    try:
        formats.write(request, format, out, tell)
        progress.finished("examples", "written")
    finally:
        progress.end()


def _seed(text: str | None) -> int:
    return 0 if text is None else whole("seed", text)


def whole(name: str, text: str) -> int:
    """A whole number, also as 1e6 or 2**20."""
    return parse(Field(name, int, None, {}), text)


def _list(as_json: bool) -> int:
    tasks = [task for paper in registry.papers() for task in paper.tasks]
    if as_json:
        print_json({"tasks": [_described(task) for task in tasks], "formats": list(formats.WRITERS)})
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


# --- eval -------------------------------------------------------------------------------------------------------------


def evaluate(options: Any, fields: Mapping[str, str]) -> int:
    """Put the questions to a model and print how it answers."""
    lengths = None if options.lengths is None else [whole("lengths", part) for part in options.lengths.split(",")]
    exam = Exam.of(
        options.task,
        dict(fields),
        n=whole("n", options.n),
        lengths=lengths,
        shots=whole("shots", options.shots),
        cot=options.cot,
        seed=_seed(options.seed),
        split=options.split,
    )
    batch = whole("batch", options.batch)
    if not 1 <= batch <= 4096:
        raise ConfigError(f"batch={batch} must lie in 1..4096")
    found = in_worker(lambda stop: _take(exam, options, batch))
    if options.json:
        print_json(found.as_dict())
    else:
        _print(found)
    return 0


def _take(exam: Exam, options: Any, batch: int) -> Evaluation:
    from stairwise.measure.completion import load_language_model

    try:
        model = load_language_model(options.model, device=options.device, dtype=options.dtype, batch=batch)
        return exam.take(model, options.model, for_terminal())
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _print(found: Evaluation) -> None:
    console = open_console()
    steps = min(STEPS_SHOWN, max((len(row.steps) for row in found.rows), default=0))
    names = [f"step {step + 1}" for step in range(steps)]
    heading(console, found.task, f"{plain(found.model)}, {found.shots} shots, {found.split} split, seed {found.seed}")
    numbers = (found.difficulty, "n", "right", "95 %", "invalid", *names)
    table = new_table(found.difficulty, "worked steps", *numbers[1:], right=numbers)
    for row in found.rows:
        shown = [row.difficulty, "with" if row.cot else "without", row.answer.of, f"{row.answer.value:.3f}"]
        shown += [_interval(row.answer), row.invalid, *(f"{step.value:.3f}" for step in row.steps[:steps])]
        table.add_row(*cells(shown + [""] * (len(table.columns) - len(shown))))
    console.print(table)
    if any(len(row.steps) > steps for row in found.rows):
        console.print(Text(f"only the first {steps} steps are shown; --json has all", style="dim"))


def _interval(rate: Rate) -> str:
    return f"{rate.low:.3f}..{rate.high:.3f}"
