"""Flags that several commands have, and how their values are read."""

import argparse
from typing import Any

from stairwise.config import ConfigError, Field, parse, short


class Seeds(tuple[int, ...]):
    """Seeds by name; printed as they are given."""

    def __str__(self) -> str:
        return ",".join(map(str, self))


class Whole(argparse.Action):
    """Keeps a whole number, also written as 1e6 or 2**20, or refuses the text in the words of a config field."""

    def __call__(self, parser, namespace, values, option_string=None) -> None:
        setattr(namespace, self.dest, self.read(self.dest.replace("_", "-"), str(values)))

    def read(self, name: str, text: str) -> Any:
        return parse(Field(name, int, None, {}), text)


class Decimal(Whole):
    """Keeps a number."""

    def read(self, name: str, text: str) -> Any:
        return parse(Field(name, float, None, {}), text)


class Wholes(Whole):
    """Keeps whole numbers with commas between them as a list."""

    def read(self, name: str, text: str) -> Any:
        return [super(Wholes, self).read(name, part) for part in text.split(",")]


class CountOrSeeds(Whole):
    """Keeps how many seeds there are, or which ones: 4, or 3,5,8, or 7, with its comma."""

    def read(self, name: str, text: str) -> Any:
        try:
            return Seeds(int(part) for part in text.rstrip(",").split(",")) if "," in text else int(text)
        except ValueError:
            raise ConfigError(f"{name}={short(text)} must be a whole number, or several (3,5,8)") from None


def add_json(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print JSON")


def add_published(command: argparse.ArgumentParser) -> None:
    """For commands that only read trials."""
    command.add_argument(
        "--published", action="store_true", help="read the results that come with the package, not your own store"
    )


def add_config(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--config",
        metavar="FILE",
        help="TOML file with an experiment and its settings; flags take precedence over it",
    )


def add_seeds(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--seeds", action=CountOrSeeds, help="how many seeds, or which ones: 3,5,8 (default: the preset's)"
    )


def add_preset(command: argparse.ArgumentParser) -> None:
    command.add_argument("--preset", default="quick", help="which sizes: quick, gpu or paper (default: quick)")


def add_model(command: argparse.ArgumentParser) -> None:
    command.add_argument("--model", metavar="MODULE:NAME", help="train a model of your own: the function that makes it")


def add_shard(command: argparse.ArgumentParser, what: str) -> None:
    command.add_argument("--shard", metavar="I/N", help=f"only part I of N of the {what} (job arrays, CI matrices)")


def add_fresh(command: argparse.ArgumentParser, when: str = "") -> None:
    command.add_argument(
        "--fresh", action="store_true", help=f"{when}run trials again that other versions of the code made"
    )


def add_jobs(command: argparse.ArgumentParser, what: str = "processes at a time") -> None:
    command.add_argument("--jobs", action=Whole, default=1, metavar="N", help=f"{what} (default: 1)")


def add_model_place(command: argparse.ArgumentParser) -> None:
    """Where a language model runs, and in which precision."""
    command.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1 (default: auto)")
    command.add_argument(
        "--dtype",
        default="auto",
        choices=("auto", "float32", "bfloat16", "float16"),
        help="precision of the weights (default: auto)",
    )


def add_questions(command: argparse.ArgumentParser, cot: str) -> None:
    """Which examples of a task; `cot` is what neither --cot nor --no-cot means."""
    command.add_argument(
        "--seed",
        action=Whole,
        default=None,
        metavar="S",
        help="chooses examples, and the secret where there is one (default: 0)",
    )
    command.add_argument(
        "--cot", action=argparse.BooleanOptionalAction, help=f"with worked steps, or without (default: {cot})"
    )
