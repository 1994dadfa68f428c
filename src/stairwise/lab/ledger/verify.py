"""Runs claims and keeps their verdicts: one row per claim, or one per size where the user gives a list of them."""

import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, partial
from pathlib import Path
from typing import Any

from stairwise.config import ConfigError, as_flags, stored_dict
from stairwise.lab import registry
from stairwise.lab.contract import latex, manifest
from stairwise.lab.contract.claims import Claim
from stairwise.lab.contract.experiment import Trial, digest_of
from stairwise.lab.contract.verdict import Verdict
from stairwise.lab.ledger.asked import VerifyRequest
from stairwise.lab.ledger.checking import Checkers, Found, cases_of, checked
from stairwise.lab.progress import Silent, Within
from stairwise.lab.run.execute import execute
from stairwise.lab.run.plan import once
from stairwise.lab.run.stale import count, made_now
from stairwise.lab.store import provenance
from stairwise.lab.store.entries import is_result
from stairwise.lab.store.store import Store
from stairwise.lab.store.trial import StoredTrial

PUBLISHED = "published"  # where trials are that are in no store of one's own


@dataclass(frozen=True)
class LedgerRow:
    """One line of the ledger: a claim at its own sizes, or at those in `changes`."""

    claim: Claim
    verdict: Verdict
    seconds: float = 0.0
    changes: Mapping[str, Any] = field(default_factory=dict)
    stored: bool = False
    stale: int = 0  # trials that it was judged on and that other code has made

    @property
    def unexpected(self) -> list[tuple[str, str, str]]:
        """Where a status differs from the one in the manifest: (case, expected, found), at seed 0 and own sizes."""
        if self.changes or self.claim.check is None or self.verdict.status == "skipped":
            return []
        expected = manifest.expected(self.claim.name)
        found = {case["case"]: case["status"] for case in self.verdict.cases if case["seed"] == 0}
        return [(case, expected[case], now) for case, now in found.items() if expected.get(case, now) != now]

    def as_dict(self) -> dict[str, Any]:
        verdict = self.verdict
        return {
            "paper": self.claim.paper,
            "claim": self.claim.id,
            "kind": self.claim.kind,
            "statement": list(self.claim.statement),
            "strength": self.claim.strength,
            "status": verdict.status,
            "unexpected": [
                {"case": case, "expected": expected, "found": found} for case, expected, found in self.unexpected
            ],
            "quantity": verdict.quantity,
            "measured": verdict.measured,
            "required": verdict.required,
            "direction": verdict.direction,
            "margin": verdict.margin,
            "seconds": round(self.seconds, 3),
            "says": self.claim.says,
            "tier": self.claim.tier,
            "aliases": list(self.claim.aliases),
            "hypotheses_met": verdict.hypotheses_met,
            "hypotheses": list(verdict.hypotheses),
            "note": verdict.note,
            "sizes": dict(self.changes),
            "cases": [dict(case) for case in verdict.cases],
            "details": [dict(row) for row in verdict.details],
            "corrected": self.claim.corrected,
            "corrects": list(self.claim.corrects),
            "argument": self.claim.argument,
            "source": self.claim.source,
            "stale": self.stale,
        }

    @property
    def says(self) -> str:
        """What the claim says, with its formulas in Unicode."""
        return latex.plain(self.claim.says)

    def __str__(self) -> str:
        return f"{self.verdict}{'  (stale)' if self.stale else ''}"

    def __repr__(self) -> str:
        return f"{self.claim.name}: {self}"


def verify(
    targets: Sequence[str] = (),
    changes: Mapping[str, Any] | None = None,
    *,
    run: bool = False,
    fresh: bool = False,
    store: Store | None = None,
    progress: Silent | None = None,
    stop: threading.Event | None = None,
    **asked: Any,
) -> Iterator[LedgerRow]:
    """Check claims in the ledger's order; `asked` are the other arguments of `VerifyRequest.of`."""
    chosen = {"run": run, "fresh": fresh, "store": store, "progress": progress, "stop": stop}
    return perform_verify(VerifyRequest.of(targets, changes, **asked), **chosen)


def preview_verify(request: VerifyRequest) -> list[LedgerRow]:
    """What is asked for, row by row, each of them skipped; of sizes that a claim refuses it says why."""
    return [LedgerRow(each.claim, Verdict("skipped", note=each.refused), changes=each.sizes) for each in request.claims]


def perform_verify(
    request: VerifyRequest,
    *,
    run: bool = False,
    fresh: bool = False,
    store: Store | None = None,
    progress: Silent | None = None,
    stop: threading.Event | None = None,
) -> Iterator[LedgerRow]:
    """Check what is asked for. A claim about a theory is checked at its seeds; `jobs` processes share these (more
    than one compile most of them with few optimisations, which may round differently).

    An empirical claim is judged on its preset's stored trials; with `run` the missing ones are run first, and with
    `fresh` also those that other code has made. `fresh` alone checks again what has a verdict.
    """
    progress, stop = progress or Silent(), stop or threading.Event()
    progress.begin("claims", len(request.claims), 0)
    due = [each.claim.check is not None and request.due(each) for each in request.claims]
    place = {"place": PUBLISHED} if request.published else {}
    looked = _Looked(store.snapshot() if store and request.published else store, request.preset, **place)
    background = Checkers(request.jobs) if request.jobs > 1 and sum(due) > 1 else None
    try:
        checks = [
            _Check(each.claim, each.sizes, request.seeds_of(each.claim), store, fresh) if mine else None
            for each, mine in zip(request.claims, due, strict=True)
        ]
        if background is not None:
            open_checks = {n: check for n, check in enumerate(checks) if check is not None and check.kept is None}
            asked_for = {n: (check.claim, check.sizes, check.seeds) for n, check in open_checks.items()}
            for number, made in background.begin(asked_for).items():
                open_checks[number].made = made
        for each, check in zip(request.claims, checks, strict=True):
            if stop.is_set():
                return
            claim = each.claim
            progress.status(claim.name)
            if each.refused:
                row = LedgerRow(claim, Verdict("skipped", note=each.refused), changes=each.sizes)
            elif check is not None:
                row = check.row()
            elif not request.due(each) and not looked.complete(claim):
                row = LedgerRow(
                    claim, Verdict("skipped", note=f"its tier is {claim.tier}: --tier {claim.tier} runs it")
                )
            else:
                row = _empirical(claim, each.sizes, looked, run, fresh, progress, stop)
            progress.finished(claim.name, row.verdict.status)
            yield row
    finally:
        if background is not None:
            background.end()
        progress.end()


def exit_status(rows: Sequence[LedgerRow]) -> int:
    """1 where a claim fails, or where a status is not the one that the manifest has; else 0."""
    return 1 if any(row.verdict.status == "fails" or row.unexpected for row in rows) else 0


def unchecked(request: VerifyRequest, store: Store) -> int:
    """How many checks of the request, of all its shards, have no verdict in the store."""
    due = [(each.claim, each.sizes) for each in request.asked if request.due(each)]
    digests = [(claim, _verdict_digest(claim, sizes, request.seeds_of(claim), request.preset)) for claim, sizes in due]
    return sum(store.read_verdict(claim.name, digest) is None for claim, digest in digests)


class _Check:
    """A theory claim at some sizes and seeds: its verdict is in the store, is being made, or is made when asked for."""

    def __init__(self, claim: Claim, sizes, seeds: list[int], store: Store | None, fresh: bool):
        self.claim, self.sizes, self.seeds, self.store = claim, sizes, seeds, store
        self.digest = _verdict_digest(claim, sizes, seeds, "") if store is not None else ""
        self.kept = None if store is None or fresh else store.read_verdict(claim.name, self.digest)
        self.made: Callable[[], Found] = partial(checked, claim, sizes, seeds)

    def row(self) -> LedgerRow:
        claim, kept = self.claim, self.kept
        if kept is not None:
            return LedgerRow(claim, _restored(kept["verdict"]), kept["seconds"], self.sizes, stored=True)
        row = LedgerRow(claim, *self.made(), self.sizes)
        if self.store is not None:
            cases = [stored_dict(case) for case in cases_of(claim, self.sizes)]
            self.store.write_verdict(claim.name, self.digest, _kept(row, cases, _source(claim)))
        return row


def _restored(found: Mapping[str, Any]) -> Verdict:
    tables = {name: tuple(dict(row) for row in found.get(name, ())) for name in ("details", "cases")}
    return Verdict(**{**found, **tables, "hypotheses": tuple(found["hypotheses"])})


def _verdict_digest(claim: Claim, sizes: Mapping[str, Any], seeds: list[int], preset: str) -> str:
    """Names a verdict: a check's by what it depends on, an empirical claim's by the trials that it is judged on."""
    if claim.check is None:
        return _judged_digest(claim, _trials(claim, sizes, preset))
    cases = [stored_dict(case) for case in cases_of(claim, sizes)]
    return digest_of([_kernel(), claim.name, cases, seeds, _source(claim), _versions(claim)])


def _judged_digest(claim: Claim, trials: Sequence[Trial]) -> str:
    return digest_of([_kernel(), claim.name, [trial.digest for trial in trials]])


def _source(claim: Claim) -> str:
    """The hash of the code behind a claim's check, or its judge."""
    return provenance.source_hash(claim.source.partition(":")[0])


@cache
def _kernel() -> str:
    """The hash of the code that makes verdicts from what checks yield."""
    parts = [
        (Path(__file__).parents[1] / f"contract/{name}.py").read_bytes() for name in ("checks", "claims", "verdict")
    ]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def _versions(claim: Claim) -> dict[str, str | None]:
    return provenance.versions() | registry.distribution(claim.paper)


class _Looked:
    """What the store has of the trials that claims are judged on: each is opened once, for all claims about it."""

    def __init__(self, store: Store | None, preset: str, place: str = "in the store"):
        self.store, self.preset, self.place = store, preset, place
        self.opened: dict[str, StoredTrial] = {}
        self.asked: dict[tuple[str, str], Sequence[Trial]] = {}

    def trials(self, claim: Claim, sizes: Mapping[str, Any]) -> Sequence[Trial]:
        """The trials that a claim is judged on; those at its own sizes are the same for all claims about them."""
        if sizes:
            return _trials(claim, sizes, self.preset)
        name = claim.paper, claim.experiment
        if name not in self.asked:
            self.asked[name] = _trials(claim, {}, self.preset)
            if self.place == PUBLISHED and self.store is not None:  # every byte was checked when it was unpacked
                there = self.store.glances("/".join(name))
                self.opened.update((record.digest, record) for record in there if is_result(record))
        return self.asked[name]

    def complete(self, claim: Claim) -> bool:
        """Whether all of them are stored: then an empirical claim costs nothing."""
        return claim.judge is not None and all(self.has(trial) for trial in self.trials(claim, {}))

    def has(self, trial: Trial) -> bool:
        """Whether the trial has a result; where it has none, the store is asked again next time."""
        if trial.digest not in self.opened and self.store is not None:
            found = self.store.peek(trial)
            if found is not None and is_result(found):
                self.opened[trial.digest] = found
        return trial.digest in self.opened

    def read(self, store: Store, trial: Trial) -> StoredTrial:
        """The trial; what it measured is read for every claim anew, so that memory does not grow with the ledger."""
        return self.opened[trial.digest].of(trial) if self.has(trial) else store.read(trial)


def _trials(claim: Claim, sizes: Mapping[str, Any], preset: str):
    experiment = registry.paper(claim.paper).experiment(claim.experiment)
    return experiment.trials(preset, None, sizes)


def _empirical(
    claim: Claim, sizes: Mapping[str, Any], looked: _Looked, run: bool, fresh: bool, progress: Silent, stop
) -> LedgerRow:
    store, preset, trials = looked.store, looked.preset, looked.trials(claim, sizes)
    began = time.monotonic()
    settled = once(made_now(store) if store is not None and run and fresh else looked.has)
    missing = [trial for trial in trials if not settled(trial)]
    chosen = {"preset": preset} if preset != "quick" else {}
    command = f"stairwise verify {claim.name}{as_flags(chosen | dict(sizes))} --run"
    if store is None or (missing and not run):
        of = f"{claim.paper}/{claim.experiment}"
        at = f" at preset={preset}" if looked.place == PUBLISHED else ""
        note = f"{len(missing)} of {len(trials)} trials of {of}{at} are not {looked.place}: {command}"
        return LedgerRow(claim, Verdict("skipped", note=note), 0.0, sizes)
    if missing:
        group = trials[0].experiment.preset(preset).group
        try:
            execute(trials, store, preset_group=group, settled=settled, progress=Within(progress), stop=stop)
        except ConfigError as error:  # it needs something that is not here, such as a data set
            return LedgerRow(claim, Verdict("skipped", note=str(error)), 0.0, sizes)
        if fresh:  # what was replaced is read anew
            looked.opened.clear()
    records = [looked.read(store, trial) for trial in trials]
    arms = list(dict.fromkeys(record.arm for record in records))
    verdict = claim.judged(records)
    raised = verdict.status == "fails" and verdict.measured is None
    if raised and sizes and trials[0].experiment.lacks_arms(arms):
        note = f"it compares arms that{as_flags(sizes)} has changed into {'; '.join(arms)}"
        return LedgerRow(claim, Verdict("skipped", note=note), 0.0, sizes)
    bare = [record for record in records if record.bare()] if raised else []
    if bare:
        note = f"it reads arrays, and {len(bare)} of {len(records)} trials are published without: {command}"
        return LedgerRow(claim, Verdict("skipped", note=note), 0.0, sizes)
    chosen = {"preset": preset, **sizes} if preset != "quick" else sizes
    row = LedgerRow(claim, verdict, time.monotonic() - began, chosen, stale=count(records, trials[0].experiment))
    digest = _judged_digest(claim, trials)
    store.write_verdict(claim.name, digest, _kept(row, [trial.digest for trial in trials], _source(claim)))
    return row


def _kept(row: LedgerRow, inputs: list[Any], source: str) -> dict[str, Any]:
    verdict = row.verdict
    return {
        "claim": row.claim.name,
        "verdict": {
            **{each.name: getattr(verdict, each.name) for each in fields(Verdict)},
            "hypotheses": list(verdict.hypotheses),
            # pairs: JSON here sorts its keys
            "details": [list(detail.items()) for detail in verdict.details],
            "cases": [list(case.items()) for case in verdict.cases],
        },
        "source_hash": source,
        "seconds": row.seconds,
        "sizes": dict(row.changes),
        "stale": row.stale,
        "inputs": inputs,
        "checked": time.time(),
    }
