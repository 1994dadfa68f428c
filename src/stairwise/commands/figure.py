"""`stairwise figure`: draws a figure from stored trials."""

import argparse
import shlex
import sys

from stairwise.commands import flags
from stairwise.commands.stored import opened
from stairwise.config import Config, ConfigError, as_flags
from stairwise.lab import api, registry
from stairwise.lab.progress import for_terminal
from stairwise.lab.run import stale
from stairwise.lab.store.entries import is_result
from stairwise.lab.store.files import output_file


def add_flags(command: argparse.ArgumentParser) -> None:
    flags.add_published(command)
    command.add_argument("target", metavar="PAPER/FIGURE", help="the figure, such as selection/fig2")
    command.add_argument("-o", "--out", help="file to write: .pdf, .svg or .png (default: FIGURE.pdf)")
    command.add_argument("--run", action="store_true", help="run the trials that are missing")
    flags.add_fresh(command, "with --run: ")
    command.add_argument(
        "--so-far", action="store_true", help="draw what is stored so far; the figure says what is missing"
    )
    flags.add_model(command)
    flags.add_seeds(command)
    flags.add_preset(command)


def configs_of(options) -> dict[str, Config]:
    return {options.target: registry.experiment(registry.figure(options.target)).presets["quick"].config}


def act(options, fields) -> int:
    if options.fresh and not options.run:
        raise ConfigError("--fresh needs --run: without it a figure is drawn from what is stored")
    figure = registry.figure(options.target)
    out = output_file("out", options.out or f"{figure.id}.pdf", (".pdf", ".svg", ".png"))
    request = api.RunRequest.of(figure, options.preset, options.seeds, fields, model=options.model)
    experiment, trials = request.experiment, request.trials
    if options.run:
        command = shlex.join(["stairwise", *sys.argv[1:]])
        chosen = {"store": options.store, "fresh": options.fresh, "progress": for_terminal()}
        records = api.perform(request, command, **chosen).records
    else:
        store = opened(options.store)
        records = [found.of(trial) for trial in trials if is_result(found := store.peek(trial))]
    missing = len(trials) - len(records)
    if missing and not (options.so_far and records):
        given = {"seeds": options.seeds, "model": options.model}
        chosen = {name: value for name, value in given.items() if value is not None}
        hint = f"stairwise figure {options.target} --preset {options.preset}{as_flags(chosen | fields)} --run"
        raise ConfigError(f"{missing} of {len(trials)} trials of {experiment.name} are not in the store: {hint}")
    api.save_figure(api.draw(figure, records, missing), out)
    print(out)
    stale.warn(stale.count(records, experiment), len(records), "--run --fresh runs them again")
    return 0
