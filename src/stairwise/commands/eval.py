"""`stairwise eval`: how a language model answers the questions of a task."""

import argparse
from typing import Any

from rich.text import Text

from stairwise.commands import flags
from stairwise.config import Config, ConfigError
from stairwise.lab import registry
from stairwise.lab.data.evaluate import Evaluation, Exam, Rate
from stairwise.lab.progress import for_terminal
from stairwise.lab.worker import in_worker
from stairwise.terminal import cells, heading, new_table, open_console, print_json
from stairwise.words import plain

STEPS_SHOWN = 12  # columns of the table; JSON has all


def add_flags(command: argparse.ArgumentParser) -> None:
    flags.add_json(command)
    command.add_argument("task", metavar="TASK", help="name of a task; stairwise data --list shows all")
    command.add_argument("--model", required=True, metavar="PATH_OR_NAME", help="a Hugging Face causal language model")
    command.add_argument("-n", action=flags.Whole, metavar="N", default=200, help="questions per length (default: 200)")
    command.add_argument(
        "--lengths",
        action=flags.Wholes,
        metavar="5,10,20",
        help="lengths of the chain, hops or secret bits (default: the task's)",
    )
    command.add_argument(
        "--shots", action=flags.Whole, metavar="K", default=0, help="solved examples before each question (default: 0)"
    )
    command.add_argument("--split", default="test", help="train, val or test (default: test)")
    command.add_argument(
        "--batch", action=flags.Whole, metavar="B", default=16, help="questions side by side (default: 16)"
    )
    flags.add_model_place(command)
    flags.add_questions(command, "both")


def configs_of(options) -> dict[str, Config]:
    return {options.task: registry.task(options.task).Config()}


def act(options, fields) -> int:
    """Put the questions to a model and print how it answers."""
    exam = Exam.of(
        options.task,
        dict(fields),
        n=options.n,
        lengths=options.lengths,
        shots=options.shots,
        cot=options.cot,
        seed=options.seed or 0,
        split=options.split,
    )
    if not 1 <= options.batch <= 4096:
        raise ConfigError(f"batch={options.batch} must lie in 1..4096")
    found = in_worker(lambda stop: _take(exam, options))
    if options.json:
        print_json(found.as_dict())
    else:
        print_table(found)
    return 0


def _take(exam: Exam, options: Any) -> Evaluation:
    from stairwise.measure.completion import load_language_model

    try:
        model = load_language_model(options.model, device=options.device, dtype=options.dtype, batch=options.batch)
        return exam.take(model, options.model, for_terminal())
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(str(error)) from None


def print_table(found: Evaluation) -> None:
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
