"""Random command lines over all commands and configs, in process: each is done or refused in one planned line.

`python -m tests.fuzz 10000 7` tries ten thousand, drawn from seed 7, and prints those that break the rule. Work that
would take long is made impossible or a dry run, since what is tested is how input is read and refused.
"""

import argparse
import contextlib
import io
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.store import fill
from stairwise import cli
from stairwise.config import Config, leaves
from stairwise.lab import registry

SECONDS = 60  # none may take longer
JUNK = ["", " ", ",", ",,", "1,2", "nan", "inf", "-inf", "-1", "0", "1", "2", "3", "1e400", "1e-400", "2**99", "2**-1"]
JUNK += ["--", "-", "-x", "--x", "--x=1", "true", "None", "0x10", "１", "é", "\u202e", "a\nb", "nul\0byte", "..", "/"]
JUNK += [
    "file/inside",
    "none/where",
    "n" * 300,
    "d/" * 3000,
    "🙂",
    "[[0,1],[1,0]]",
    "{}",
    "%s%n",
    "\udcff",
    "[x]*?",
    "a=b",
]
JUNK += [
    "a.pdf",
    "a.json",
    "a.jsonl",
    "quick",
    "gpu",
    "failed",
    "2026-11-15",
    "select 1",
    "select * from trials",
    "C3,S4",
]
NEVER = ("--debug", "--help", "-h", "--run", "--serve", "--open", "--all", "--growth")  # work, or a way to see errors
# what makes sure that a command ends before its work: an option that it must refuse, or a dry run
STOPPED_BY = {
    "run": ["--dry-run"],
    "sweep": ["--dry-run"],
    "verify": ["--dry-run"],
    "audit": ["--strength", "none"],
    "falsify": ["--points", "0"],
    "report": ["--out", "file/inside"],
    "playground": ["--out", "file/inside"],
    "stories": ["--out", "file/inside"],
    "reproduce": ["--out", "file/inside"],
    "export": ["-o", "file/inside"],
    "bench": ["--limit", "0"],
    "eval": ["--model", "/nonexistent/model"],
    "entropy": ["--model", "/nonexistent/model"],
}


class Fuzzer:
    """Draws command lines: mostly real names and flags, with values that may be anything."""

    def __init__(self, seed: int, store: Path):
        self.draw = random.Random(seed)
        self.stores = [str(store), "none", "file", "file/inside", "made"]
        self.commands = cli.parser().commands
        papers = registry.papers()
        experiments = {each.name: each.presets["quick"].config for paper in papers for each in paper.experiments}
        tasks = {task.id: task.Config() for paper in papers for task in paper.tasks}
        self.targets: dict[str, Mapping[str, Config | None]] = {
            "run": experiments,
            "sweep": experiments,
            "figure": {f"{p.id}/{f.id}": experiments[f"{p.id}/{f.experiment}"] for p in papers for f in p.figures},
            "verify": {c.name: c.cases[0] if c.cases else None for paper in papers for c in paper.claims},
            "falsify": {claim.name: None for paper in papers for claim in paper.claims},
            "plot": dict.fromkeys(experiments),
            "record": dict.fromkeys(("list", "add")),
            "where": dict.fromkeys(paper.id for paper in papers),
            "export": {f"{p.id}/{each.id}": each.Config() for p in papers for each in p.constructions},
            "data": tasks,
            "eval": tasks,
        }
        self.names = [
            *(paper.id for paper in papers),
            *experiments,
            *(path.name for path in store.glob("trials/*/*/*")),
        ]

    def words(self) -> list[str]:
        """One command line."""
        draw = self.draw
        name = draw.choice(list(self.commands))
        command = self.commands[name]
        flags = {action.dest: action for action in command._actions if action.option_strings}
        target = draw.choice(list(self.targets[name])) if name in self.targets and draw.random() < 0.9 else None
        words = [] if target is None else [target]
        if target is not None and name in ("plot", "record", "where") and draw.random() < 0.7:
            words.append(draw.choice(["loss", "selection/online", "3.1", self.value()]))
        if not words and command._get_positional_actions() and draw.random() < 0.9:
            words += [self.value() for _ in range(draw.choice([1, 1, 1, 2]))]
        given = dict.fromkeys(STOPPED_BY.get(name, [])[:1])
        for dest in draw.sample(sorted(flags), min(len(flags), draw.choice([0, 1, 1, 2, 3]))):
            flag = draw.choice(flags[dest].option_strings)
            if flag not in NEVER and not given.keys() & set(flags[dest].option_strings) and dest != "store":
                words += self.option(flag, flags[dest])
        if target is not None:
            words += self.fields(self.targets[name][target])
        if name == "sweep":
            words += ["--grid", *self.grid(self.targets[name].get(target or ""))]
        if name == "data" and draw.random() < 0.8 and "-n" not in words:
            words += ["-n", draw.choice(["1", "3", "20"])]
        if draw.random() < 0.1:
            draw.shuffle(words)
        return [name, *words, *STOPPED_BY.get(name, []), "--store", draw.choice(self.stores)]

    def option(self, flag: str, action: argparse.Action) -> list[str]:
        if action.nargs == 0 or isinstance(action, argparse.BooleanOptionalAction):
            return [flag]
        value = self.value()
        if flag in ("--seeds", "-n", "--limit", "--lengths", "--shots") and self.draw.random() < 0.7:
            value = self.draw.choice(["0", "1", "2", "-1", "x", "1.5"])  # large ones are legal, and long work
        return [f"{flag}={value}"] if flag.startswith("--") and self.draw.random() < 0.5 else [flag, value]

    def fields(self, config: Config | None) -> list[str]:
        known = list(leaves(config)) if config is not None else []
        words = []
        for field in self.draw.sample(known, min(len(known), self.draw.choice([0, 1, 1, 2, 3]))):
            path = self.mutated(field.path) if self.draw.random() < 0.1 else field.path
            value = self.value() if self.draw.random() < 0.5 else self.mutated(_text(field.default))
            words += [f"--{path}={value}"] if self.draw.random() < 0.5 else [f"--{path}", value]
        return words

    def grid(self, config: Config | None) -> list[str]:
        known = list(leaves(config)) if config is not None else []
        if not known or self.draw.random() < 0.2:
            return [self.value()]
        field = self.draw.choice(known)
        values = self.draw.choice(["0.1,0.2", "1,2,3", "1:3:1", "1:8:x2", "1:2:log3", "3:1:1", "1:2:0", self.value()])
        return [f"{field.path}={self.draw.choice([values, self.mutated(_text(field.default))])}"]

    def value(self) -> str:
        kind = self.draw.random()
        if kind < 0.6:
            return self.draw.choice(JUNK)
        if kind < 0.8:
            return self.draw.choice(self.names)
        if kind < 0.9:
            return str(self.draw.randint(-(10**25), 10**25))
        return "".join(
            chr(self.draw.choice([self.draw.randrange(1, 128), self.draw.randrange(0x2000)])) for _ in "abcdef"
        )

    def mutated(self, text: str) -> str:
        place = self.draw.randrange(len(text) + 1)
        return (
            text[:place]
            + self.draw.choice(["", "-", ".", ",", "0", "e", "x", " ", "9"])
            + text[place + self.draw.choice([0, 1]) :]
        )


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def broken(words: list[str]) -> str:
    """What is wrong with how a command line is answered; nothing where all is well."""
    before = _listing()
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    signal.alarm(SECONDS)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), mock.patch("sys.stdin", io.StringIO()):
            status = cli.main(words)
    except SystemExit as ending:
        status = ending.code
    except BaseException as error:  # whatever escapes is what is looked for
        return f"raised {type(error).__name__}: {error}"
    finally:
        signal.alarm(0)
    said, complaint = (stream.buffer.getvalue().decode() if not stream.flush() else "" for stream in (out, err))
    if "(--debug shows where)" in complaint or "Traceback" in complaint:
        return f"masked: {complaint}"
    if status not in (0, 1, 2):
        return f"exit status {status}"
    if status and (complaint.count("\n") != 1 or not complaint.startswith("stairwise: ")):
        return f"refused in {complaint.count(chr(10))} lines: {complaint}"
    if status and said:
        return f"refused after printing: {said[:200]}"
    new = _listing() - before
    if status and new:
        return f"refused and left {sorted(new)}"
    if any(".stairwise-" in name for name in new):
        return f"left {sorted(new)}"
    return ""


def _listing() -> set[str]:
    return {os.path.join(folder, name) for folder, _, names in os.walk(".") for name in names}


@contextlib.contextmanager
def sandbox() -> Iterator[Path]:
    """A folder to be in, with a store of a few trials and a file where a folder might be expected."""

    def late(number: int, frame: object) -> None:
        raise TimeoutError(f"no answer within {SECONDS} seconds")

    back, heard = os.getcwd(), signal.signal(signal.SIGALRM, late)
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder) / "store", 6)
        place = Path(folder) / "here"
        _fresh(place)
        os.chdir(place)
        try:
            with (
                mock.patch("stairwise.lab.run.estimate.trial_bytes", return_value=None),  # would trace every program
                mock.patch.dict(os.environ, {"HF_HUB_OFFLINE": "1"}),
            ):
                yield Path(folder) / "store"
        finally:
            os.chdir(back)
            signal.signal(signal.SIGALRM, heard)


def _fresh(place: Path) -> None:
    place.mkdir(exist_ok=True)
    for path in place.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    (place / "file").write_text("not a folder")


def failures(count: int, seed: int) -> Iterator[tuple[list[str], str]]:
    """The command lines among `count` that are not answered as they should be, and what is wrong."""
    with sandbox() as store:
        fuzzer = Fuzzer(seed, store)
        for _ in range(count):
            words = fuzzer.words()
            wrong = broken(words)
            _fresh(Path.cwd())
            if wrong:
                yield words, wrong


if __name__ == "__main__":
    began, found = time.monotonic(), 0
    for words, wrong in failures(int(sys.argv[1]), int(sys.argv[2])):
        found += 1
        print(f"{words!r}\n    {wrong}", flush=True)
    print(f"{found} of {sys.argv[1]} command lines of seed {sys.argv[2]}, {time.monotonic() - began:.0f} s")
    sys.exit(1 if found else 0)
