"""Searches of many claims at once, each in a process of its own; what is found is written down as it comes.

Time is shared out by how many searches a claim has, and what a claim leaves goes to those that wait. A run that is
killed loses the claims that it was at, and nothing else.
"""

import json
import multiprocessing
import subprocess
import time
import warnings
from collections.abc import Mapping
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from stairwise.config import ConfigError
from stairwise.lab import registry
from stairwise.lab.contract.claims import Claim
from stairwise.lab.contract.manifest import PAPERS
from stairwise.lab.ledger import falsify
from stairwise.lab.ledger.searching.points import declared
from stairwise.lab.ledger.searching.space import FORMS
from stairwise.lab.run.forks import Forks
from stairwise.lab.worker import leave_with_the_caller

FILE = "falsified.json"
LONGEST = 60.0  # seconds for one search
KNOWN = 3  # a statement that is known to be false gets so many times the time of a hypothesis


def search(targets: list[str], jobs: int, seconds: float, limit: float, to: Path) -> None:
    """Search claims until the time is over: of those known to be false only inside their hypotheses."""
    import jax  # noqa: F401  once, and not in every process that is forked

    end = time.monotonic() + seconds
    claims = _searchable(targets)
    # in a process of its own: some hypotheses compute with JAX, and a process that has done so cannot be forked
    weights = dict(
        zip((claim.name for claim in claims), Forks(1).alone(lambda: list(map(_weight, claims))), strict=True)
    )
    waiting = sorted(claims, key=lambda claim: -weights[claim.name])
    left = sum(weights.values())
    commit, running = _commit(), dict[Any, tuple[Any, Claim]]()
    fork = multiprocessing.get_context("fork")
    while (waiting and time.monotonic() < end) or running:
        while waiting and len(running) < jobs and time.monotonic() < end:
            claim = waiting.pop(0)
            weight = weights[claim.name]
            share = jobs * (end - time.monotonic()) * weight / left
            left -= weight
            allowed = min(share, LONGEST * weight, end - time.monotonic())
            ours, theirs = fork.Pipe()
            process = fork.Process(target=_falsified, args=(theirs, claim, allowed, limit, 1 / weight))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # JAX warns of forks; here nothing of it has started yet
                process.start()
            theirs.close()
            running[ours] = process, claim
        for ours in list[Any](wait(list(running))):
            process, claim = running.pop(ours)
            try:
                found = ours.recv()
            except EOFError:
                found = "its process has ended"
            process.join()
            if isinstance(found, str):
                print(f"{claim.name}: {found}", flush=True)
            else:
                keep(claim, {"commit": commit, **found}, to)
                _say(claim, found)
    for claim in waiting:
        print(f"{claim.name}: not reached", flush=True)


def keep(claim: Claim, found: Mapping[str, Any], to: Path) -> None:
    """Write down what was found about a claim, in the order of the ledger."""
    file = to / claim.paper / FILE
    known = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    known[claim.id] = dict(found)
    ordered = {each.id: known[each.id] for each in registry.paper(claim.paper).claims if each.id in known}
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_suffix(".new")
    aside.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    aside.replace(file)


def _searchable(targets: list[str]) -> list[Claim]:
    return [
        claim
        for claim, named in registry.claims(targets)
        if claim.check is not None
        and claim.kind in FORMS
        and (claim.tier == "instant" or named)
        and (falsify.expected(claim) or claim.hypotheses is not None)
    ]


def _weight(claim: Claim) -> int:
    """How many searches it has."""
    return KNOWN if falsify.expected(claim) else 1 + len(declared(claim, claim.cases[0]))


def _falsified(theirs: Connection, claim: Claim, seconds: float, limit: float, inside: float) -> None:
    leave_with_the_caller()
    drop = "" if falsify.expected(claim) else None
    try:
        found = falsify.falsify(claim, minutes=seconds / 60, drop=drop, limit=limit, inside=inside)
        command = f"stairwise falsify {claim.name}" + (" --drop ''" if drop == "" else "")
        theirs.send({"command": command, **found.as_dict()})
    except ConfigError as error:
        theirs.send(str(error))


def _say(claim: Claim, found: Mapping[str, Any]) -> None:
    for finding in found["findings"]:
        where = f"without {finding['dropped']}" if finding["dropped"] else "inside"
        points = f"{finding['judged']} of {finding['looked_at']} points, {finding['seconds']:.1f} s"
        said = finding["command"] if finding["outcome"] == "counterexample" else finding["note"]
        print(f"{claim.name} {where}: {finding['outcome']}, {points} {said}", flush=True)


def _commit() -> str:
    asked = ["git", "-C", str(PAPERS), "rev-parse", "--short=12", "HEAD"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
