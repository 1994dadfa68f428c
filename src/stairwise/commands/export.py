"""`stairwise export`: a model, trained or constructed, as a folder."""

import argparse

from stairwise.commands import flags
from stairwise.commands.stored import opened
from stairwise.config import Config, update
from stairwise.lab import registry
from stairwise.terminal import print_json


def add_flags(command: argparse.ArgumentParser) -> None:
    flags.add_json(command)
    flags.add_published(command)
    command.add_argument("target", metavar="RUN", help="the digest of a trial or its beginning, or PAPER/CONSTRUCTION")
    command.add_argument("-o", "--out", required=True, metavar="FOLDER", help="folder to write to: new, or empty")
    command.add_argument(
        "--format", default="safetensors", help="safetensors, or gpt2 for Transformers (default: safetensors)"
    )
    command.add_argument("--seed", action=flags.Whole, default=0, help="seed of a construction (default: 0)")


def configs_of(options) -> dict[str, Config] | None:
    """A trial has a config already: what it is trained with is not asked here."""
    return {options.target: registry.construction(options.target).Config()} if "/" in options.target else None


def act(options, fields) -> int:
    for config in (configs_of(options) or {}).values():
        update(config, fields)  # what is wrong with the request is said before JAX is imported
    if "/" not in options.target:
        opened(options.store)
    from stairwise.interop.weights import export

    about = export(options.target, options.out, options.format, seed=options.seed, changes=fields, store=options.store)
    if options.json:
        print_json(about)
    else:
        source = about.get("construction") or f"{about['experiment']} {about['digest']}"
        print(f"{options.out}: {about['model'].rpartition('.')[2]} of {source}, seed {about['seed']}")
    return 0
