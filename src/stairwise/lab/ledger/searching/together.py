"""Searches of many claims at once; what is found is written down as it comes.

Claims with the same config and hypotheses are searched by one process, hypothesis by hypothesis: they look at the same
points, and what one has compiled or computed serves the next. Time is shared out by how many searches there are, and
what one leaves goes to those that wait. A run that is killed loses the searches that it was at, and nothing else.
"""

import json
import math
import multiprocessing
import subprocess
import time
import warnings
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from stairwise.config import ConfigError, stored_dict
from stairwise.lab import registry
from stairwise.lab.contract.claims import Claim
from stairwise.lab.contract.manifest import PAPERS
from stairwise.lab.ledger import falsify
from stairwise.lab.ledger.searching.findings import Falsification, nothing
from stairwise.lab.ledger.searching.points import declared
from stairwise.lab.ledger.searching.search import CounterexampleSearch, answers
from stairwise.lab.ledger.searching.space import FORMS, space
from stairwise.lab.progress import Silent
from stairwise.lab.run.forks import Forks
from stairwise.lab.worker import leave_with_the_caller

FILE = "falsified.json"
LONGEST = 60.0  # seconds for one search
HINTS = 3  # counterexamples of claims that are alike that are looked at first
KNOWN = 3  # a statement that is known to be false gets so many times the time of a hypothesis
Stored = Mapping[str, Mapping[str, Any]]  # what was found, by the name of a claim


def search(
    targets: list[str],
    jobs: int,
    seconds: float,
    limit: float,
    to: Path,
    *,
    left: bool = False,
    most: float = math.inf,
) -> None:
    """Search claims until the time is over: of those known to be false only inside their hypotheses.

    With `left`, only what no search has judged yet; `most` is after how many points a search ends at the latest.
    """
    import jax  # noqa: F401  once, and not in every process that is forked

    end = time.monotonic() + seconds
    claims = _searchable(targets)
    known = {name: found for name, found in _stored(claims, to).items() if left}
    # in a process of its own: some hypotheses compute with JAX, and a process that has done so cannot be forked
    weights, alike = Forks(1).alone(lambda: ([_weight(claim, known) for claim in claims], [*map(_alike, claims)]))
    groups: dict[str, list[tuple[Claim, int]]] = {}
    for claim, weight, key in zip(claims, weights, alike, strict=True):
        if weight:
            groups.setdefault(key, []).append((claim, weight))
    waiting = sorted(groups.values(), key=lambda group: -sum(weight for _, weight in group))
    left_over = sum(weight for group in waiting for _, weight in group)
    commit, running = _commit(), dict[Any, tuple[Any, list[Claim]]]()
    fork = multiprocessing.get_context("fork")
    while (waiting and time.monotonic() < end) or running:
        while waiting and len(running) < jobs and time.monotonic() < end:
            group, weight = [claim for claim, _ in waiting[0]], sum(weight for _, weight in waiting.pop(0))
            share = jobs * (end - time.monotonic()) * weight / left_over
            left_over -= weight
            allowed = min(share, LONGEST * weight, end - time.monotonic())
            ours, theirs = fork.Pipe()
            process = fork.Process(target=_falsified, args=(theirs, group, known, allowed, limit, most))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # JAX warns of forks; here nothing of it has started yet
                process.start()
            theirs.close()
            running[ours] = process, group
        for ours in list[Any](wait(list(running))):
            process, group = running[ours]
            try:
                found = ours.recv()
            except EOFError:
                found = "its process has ended"
            if isinstance(found, Falsification):
                claim = next(claim for claim in group if claim.name == found.claim)
                keep(claim, found, commit, to)
                _say(claim, found)
                continue
            if found:
                print(f"{', '.join(claim.name for claim in group)}: {found}", flush=True)
            running.pop(ours)
            process.join()
    for claim in (claim for group in waiting for claim, _ in group):
        print(f"{claim.name}: not reached", flush=True)


def keep(claim: Claim, found: Falsification, commit: str, to: Path) -> None:
    """Write down what was found about a claim, in the order of the ledger; other searches of it stay."""
    file = to / claim.paper / FILE
    known = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    new = {finding.dropped: {"commit": commit, **asdict(finding)} for finding in found.findings}
    old = {each["dropped"]: each for each in known.get(claim.id, {"findings": ()})["findings"]}
    command = f"stairwise falsify {claim.name}" + (" --drop ''" if found.expected else "")
    findings = list({**old, **new}.values())
    known[claim.id] = {"commit": commit, "command": command, **asdict(found), "findings": findings}
    ordered = {each.id: known[each.id] for each in registry.paper(claim.paper).claims if each.id in known}
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_suffix(".new")
    aside.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    aside.replace(file)


def _stored(claims: Sequence[Claim], to: Path) -> Stored:
    found = {}
    for paper in {claim.paper for claim in claims}:
        file = to / paper / FILE
        known = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
        found |= {f"{paper}/{id}": each for id, each in known.items()}
    return found


def _searchable(targets: list[str]) -> list[Claim]:
    return [
        claim
        for claim, named in registry.claims(targets)
        if claim.check is not None
        and claim.kind in FORMS
        and (claim.tier == "instant" or named)
        and (falsify.expected(claim) or claim.hypotheses is not None)
    ]


def _left(claim: Claim, names: Sequence[str], known: Stored) -> list[str]:
    """Which searches of a claim are to be made: all, or what no search has judged yet."""
    wanted = ["", *(() if falsify.expected(claim) else names)]
    if claim.name not in known:
        return wanted
    judged = {each["dropped"] for each in known[claim.name]["findings"] if each["judged"]}
    return [name for name in wanted if name not in judged]


def _weight(claim: Claim, known: Stored) -> int:
    """How many searches it has."""
    count = len(_left(claim, declared(claim, claim.cases[0]), known))
    return KNOWN * count if falsify.expected(claim) else count


def _alike(claim: Claim) -> str:
    """The same for claims whose searches look at the same points."""
    names = declared(claim, claim.cases[0])
    cases = [(type(case).__qualname__, stored_dict(case)) for case in claim.cases]
    return repr((claim.paper, names, cases, claim.search, claim.seeds, claim.precision))


def _falsified(theirs: Connection, group: list[Claim], known: Stored, *limits: float) -> None:
    leave_with_the_caller()
    for found in falsified(group, known, *limits):
        theirs.send(found)
    theirs.send("")


def falsified(
    group: Sequence[Claim], known: Stored, seconds: float, limit: float, most: float
) -> Iterator[Falsification]:
    """The searches of claims that look at the same points, hypothesis by hypothesis."""
    end, forks = time.monotonic() + seconds, Forks(1, answers(*group))
    try:
        waiting: dict[tuple[str, str], None] = {}  # in order: hypothesis by hypothesis
        names = forks.alone(lambda: {claim.name: declared(claim, claim.cases[0]) for claim in group})
        for claim in group:
            waiting |= dict.fromkeys((name, claim.name) for name in _left(claim, names[claim.name], known))
        order = list(dict.fromkeys(name for name, _ in waiting))
        queue, done = deque(sorted(waiting, key=lambda pair: order.index(pair[0]))), set(waiting)
        claims = {claim.name: claim for claim in group}
        small: dict[str, list[dict[str, Any]]] = {}  # counterexamples, by the hypothesis that they break
        while queue and (share := (end - time.monotonic()) / len(queue)) > 0:
            name, of = queue.popleft()
            one, found = _one(claims[of], name, forks, share, limit, most, small.get(name, []), len(group) > 1)
            yield found
            if one is not None and one.smallest is not None and one.smallest["sizes"] not in one.hints:
                small.setdefault(name, []).append(dict(one.smallest["sizes"]))
            if one is not None and not found.expected:  # what the check draws is seen only now
                new = [
                    (drawn, of) for drawn in _left(claims[of], one.drawn, known) if drawn and (drawn, of) not in done
                ]
                queue.extend(new)
                done.update(new)
    finally:
        forks.end()


def _one(
    claim: Claim,
    dropped: str,
    forks: Forks,
    seconds: float,
    limit: float,
    most: float,
    hints: list[dict[str, Any]],
    alike: bool,
) -> tuple[CounterexampleSearch | None, Falsification]:
    one, axes = None, []
    try:
        axes, one = space(claim), CounterexampleSearch(claim, dropped, 0, limit, None, True, alike=alike)
    except ConfigError as error:
        finding = nothing(dropped, str(error).removeprefix(f"{claim.name} "))
    else:
        one.hints = hints[-HINTS:]
        one.run(forks, seconds, most + len(one.hints), Silent())
        finding = one.finding
    return one, Falsification(claim.name, claim.kind, tuple(map(str, axes)), falsify.expected(claim), (finding,))


def _say(claim: Claim, found: Falsification) -> None:
    for finding in found.findings:
        where = f"without {finding.dropped}" if finding.dropped else "inside"
        points = f"{finding.judged} of {finding.looked_at} points, {finding.seconds:.1f} s"
        said = finding.command if finding.outcome == "counterexample" else finding.note
        print(f"{claim.name} {where}: {finding.outcome}, {points} {said}", flush=True)


def _commit() -> str:
    asked = ["git", "-C", str(PAPERS), "rev-parse", "--short=12", "HEAD"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
