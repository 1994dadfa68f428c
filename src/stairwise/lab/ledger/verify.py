"""Runs claims and keeps their verdicts: one row per claim, or one per size where the user gives a list of them."""

import hashlib
import itertools
import math
import threading
import time
import typing
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field, fields
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from stairwise.config import (
    Config,
    ConfigError,
    as_flags,
    as_text,
    find_leaf,
    leaves,
    stored_dict,
    unknown_field,
    update,
)
from stairwise.lab import registry
from stairwise.lab.contract import manifest
from stairwise.lab.contract.claims import Claim, exception_line
from stairwise.lab.contract.experiment import digest_of
from stairwise.lab.contract.manifest import TIERS
from stairwise.lab.contract.verdict import Verdict
from stairwise.lab.progress import Silent
from stairwise.lab.run.execute import execute, prepare_jax
from stairwise.lab.run.sharing import Shard
from stairwise.lab.run.stale import count, made_now
from stairwise.lab.store import provenance
from stairwise.lab.store.store import Store
from stairwise.lab.worker import leave_with_the_caller, unheard_by_children

MOST_JOBS, MOST_SEEDS = 64, 1000


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

    def __str__(self) -> str:
        return f"{self.verdict}{'  (stale)' if self.stale else ''}"


def verify(
    targets: Sequence[str] = (),
    changes: Mapping[str, Any] | None = None,
    *,
    tier: str = "instant",
    preset: str = "quick",
    run: bool = False,
    fresh: bool = False,
    seed: int = 0,
    seeds: int | None = None,
    jobs: int = 1,
    store: Store | None = None,
    progress: Silent | None = None,
    stop: threading.Event | None = None,
    shard: str | None = None,
    plan_only: bool = False,
    empirical: bool = False,
) -> Iterator[LedgerRow]:
    """Check claims in the ledger's order. A claim named itself runs whatever its tier; others up to `tier`.

    Checks run at seeds `seed`, `seed` + 1, ...: as many as a claim says, or `seeds` of them; `jobs` is how many
    processes share the claims of the theory.

    An empirical claim is judged on its preset's stored trials; with `run` the missing ones are run first, and with
    `fresh` also those that other code has made. `fresh` alone checks again what has a verdict. `shard="2/3"` is the
    second third of the checks. `plan_only` checks the request (ConfigError names what is wrong with it) and does no
    work: every row is skipped. With `empirical` only claims about experiments are looked at.
    """
    progress, stop = progress or Silent(), stop or threading.Event()
    if tier not in TIERS:
        raise ConfigError(f"tier={tier} must be one of {', '.join(TIERS)}")
    if not 1 <= jobs <= MOST_JOBS:
        raise ConfigError(f"jobs={jobs} must lie in 1..{MOST_JOBS}")
    if seeds is not None and not 1 <= seeds <= MOST_SEEDS:
        raise ConfigError(f"seeds={seeds} must lie in 1..{MOST_SEEDS}")
    part = None if shard is None else Shard.parse(shard)
    chosen = [(claim, named) for claim, named in registry.claims(list(targets)) if claim.judge or not empirical]
    asked = _jobs(chosen, dict(changes or {}), preset)
    if part is not None:
        asked = _part(part, asked)
    if plan_only:
        yield from (LedgerRow(claim, Verdict("skipped", note=why), changes=sizes) for claim, _, sizes, why in asked)
        return
    progress.begin("claims", len(asked), 0)
    due = [claim.check is not None and not why and _due(claim, named, tier) for claim, named, _, why in asked]
    background = _Background(jobs) if jobs > 1 and sum(due) > 1 else None
    try:
        checks = [
            _Check(claim, sizes, seeds_of(claim, seed, seeds), store, fresh, background) if mine else None
            for (claim, _, sizes, _), mine in zip(asked, due, strict=True)
        ]
        for (claim, named, sizes, why), check in zip(asked, checks, strict=True):
            if stop.is_set():
                return
            progress.status(claim.name)
            if why:
                row = LedgerRow(claim, Verdict("skipped", note=why), changes=sizes)
            elif check is not None:
                row = check.row()
            elif not _due(claim, named, tier) and not _judgeable(claim, preset, store):
                row = LedgerRow(
                    claim, Verdict("skipped", note=f"its tier is {claim.tier}: --tier {claim.tier} runs it")
                )
            else:
                row = _empirical(claim, sizes, preset, run, fresh, store, progress, stop)
            progress.finished(claim.name, row.verdict.status)
            yield row
    finally:
        if background is not None:
            background.end()
        progress.end()


def exit_status(rows: Sequence[LedgerRow]) -> int:
    """1 where a claim fails, or where a status is not the one that the manifest has; else 0."""
    return 1 if any(row.verdict.status == "fails" or row.unexpected for row in rows) else 0


def unchecked(
    targets: Sequence[str],
    changes: Mapping[str, Any],
    *,
    tier: str,
    preset: str,
    seed: int,
    store: Store,
    seeds: int | None = None,
) -> int:
    """How many checks of the request have no verdict in the store."""
    jobs = _jobs(registry.claims(list(targets)), dict(changes), preset)
    due = [(claim, sizes) for claim, named, sizes, why in jobs if not why and _due(claim, named, tier)]
    digests = [(claim, _verdict_digest(claim, sizes, seeds_of(claim, seed, seeds), preset)) for claim, sizes in due]
    return sum(store.read_verdict(claim.name, digest) is None for claim, digest in digests)


def _due(claim: Claim, named: bool, tier: str) -> bool:
    return named or TIERS.index(claim.tier) <= TIERS.index(tier)


def _part(shard: Shard, jobs: list[Any]) -> list[Any]:
    """A shard's checks, dealt out one by one; those that are judged on the same trials stay together."""
    units: dict[Any, list[Any]] = {}
    for position, job in enumerate(jobs):
        claim, _, sizes, _ = job
        unit = position if claim.check is not None else (claim.paper, claim.experiment, str(sizes))
        units.setdefault(unit, []).append(job)
    return [job for unit in shard.of(list(units.values())) for job in unit]


def _jobs(chosen: list[tuple[Claim, bool]], changes: dict[str, Any], preset: str):
    """Each claim once, or once for every combination of the listed sizes; all sizes are checked before any work.

    A combination that the claim's config refuses comes with the reason, unless there is no other.
    """
    known: set[str] = set()
    found: set[str] = set()
    jobs: list[tuple[Claim, bool, dict[str, Any], str]] = []
    refusals: list[ConfigError] = []
    for claim, named in chosen:
        base = base_of(claim, preset)
        fields = {leaf.path: leaf for leaf in leaves(base)} if base is not None else {}
        known |= set(fields)
        meant = {path: find_leaf(base, path) if base is not None else None for path in changes}
        found |= {path for path, leaf in meant.items() if leaf is not None}
        unknown = next((path for path, leaf in meant.items() if leaf is None), None)
        if unknown is not None and named:
            raise ConfigError(f"{claim.name}: {unknown_field(unknown, sorted(fields))}")
        if unknown is not None:
            continue
        mine = {leaf.path: changes[path] for path, leaf in meant.items() if leaf is not None}
        if len(mine) < len(changes):
            raise ConfigError(f"{claim.name}: {' and '.join(changes)} name the same field twice")
        axes = [_values(fields[path].kind, value) for path, value in mine.items()]
        for combination in itertools.product(*axes):
            sizes, why = dict(zip(mine, combination, strict=True)), ""
            assert base is not None or not sizes
            if base is not None:
                try:
                    config = _at(claim, base, sizes, named)
                except ConfigError as error:
                    refusals.append(error)
                    why = f"refused: {error}"
                else:
                    paths = {leaf.path: leaf.default for leaf in leaves(config)}
                    sizes = {path: paths[path] for path in sizes}
            jobs.append((claim, named, sizes, why))
        if refusals and math.prod(map(len, axes)) == 1:
            raise refusals[0]
    for path in changes:
        if path not in found:
            raise ConfigError(unknown_field(path, sorted(known)))
    if refusals and len(refusals) == len(jobs):
        raise refusals[0]
    if changes and not jobs:
        raise ConfigError(f"no claim takes {', '.join(changes)} together")
    return jobs


def _at(claim: Claim, base: Config, sizes: Mapping[str, Any], named: bool) -> Config:
    """The claim's config at these sizes; raises for values outside their range, and names a claim that nobody named."""
    try:
        return update(base, sizes)
    except ConfigError as error:
        raise error if named else ConfigError(f"{claim.name}: {error}") from None


def base_of(claim: Claim, preset: str) -> Config | None:
    if claim.check is not None:
        return claim.cases[0] if claim.cases else None
    experiment = registry.paper(claim.paper).experiment(claim.experiment)
    return experiment.preset(preset).config


def _values(kind: Any, value: Any) -> list[Any]:
    """A list of sizes where a single one is expected: "8,16,32", "C3,S4", or a Python list."""
    if typing.get_origin(kind) is tuple:
        return [value]
    if isinstance(value, str):
        return [part for part in _parts(value) if part] or [value]
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _parts(text: str) -> list[str]:
    """What stands between the commas that are not within brackets.

    >>> _parts("C3,[[0,1],[1,0]],S4")
    ['C3', '[[0,1],[1,0]]', 'S4']
    """
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "[(<") - (letter in "])>")
        if letter == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


class _Check:
    """A theory claim at some sizes and seeds: its verdict is in the store, is being made, or is made when asked for."""

    def __init__(self, claim: Claim, sizes, seeds: list[int], store: Store | None, fresh: bool, background):
        self.claim, self.sizes, self.seeds, self.store = claim, sizes, seeds, store
        self.digest = _verdict_digest(claim, sizes, seeds, "") if store is not None else ""
        self.kept = None if store is None or fresh else store.read_verdict(claim.name, self.digest)
        self.future = None
        if background is not None and self.kept is None:
            self.future = background.checked(claim.name, sizes, seeds)

    def row(self) -> LedgerRow:
        claim, kept = self.claim, self.kept
        if kept is not None:
            return LedgerRow(claim, _restored(kept["verdict"]), kept["seconds"], self.sizes, stored=True)
        verdict, seconds = checked(claim, self.sizes, self.seeds) if self.future is None else self.future.result()
        row = LedgerRow(claim, verdict, seconds, self.sizes)
        if self.store is not None:
            cases = [stored_dict(case) for case in _cases(claim, self.sizes)]
            self.store.write_verdict(claim.name, self.digest, _kept(row, cases, _source(claim)))
        return row


class _Background:
    """Processes that check claims."""

    def __init__(self, jobs: int):
        context = get_context("spawn")
        self.pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=leave_with_the_caller)

    def checked(self, name: str, sizes: Mapping[str, Any], seeds: list[int]) -> Future:
        with unheard_by_children():
            return self.pool.submit(_checked_by_name, name, dict(sizes), seeds)

    def end(self) -> None:
        self.pool.shutdown(wait=False, cancel_futures=True)
        for process in list((self.pool._processes or {}).values()):
            process.terminate()


def _checked_by_name(name: str, sizes: Mapping[str, Any], seeds: list[int]) -> tuple[Verdict, float]:
    ((claim, _),) = registry.claims([name])
    return checked(claim, sizes, seeds)


def seeds_of(claim: Claim, seed: int, seeds: int | None) -> list[int]:
    return list(range(seed, seed + (seeds or claim.seeds)))


def _restored(found: Mapping[str, Any]) -> Verdict:
    tables = {name: tuple(dict(row) for row in found.get(name, ())) for name in ("details", "cases")}
    return Verdict(**{**found, **tables, "hypotheses": tuple(found["hypotheses"])})


def _cases(claim: Claim, sizes: Mapping[str, Any]) -> list[Config]:
    return [update(claim.cases[0], sizes)] if sizes else list(claim.cases)


def _verdict_digest(claim: Claim, sizes: Mapping[str, Any], seeds: list[int], preset: str) -> str:
    """Names a verdict: a check's by what it depends on, an empirical claim's by the trials that it is judged on."""
    if claim.check is None:
        return digest_of([_kernel(), claim.name, [trial.digest for trial in _trials(claim, sizes, preset)]])
    cases = [stored_dict(case) for case in _cases(claim, sizes)]
    return digest_of([_kernel(), claim.name, cases, seeds, _source(claim), _versions(claim)])


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


def checked(claim: Claim, sizes: Mapping[str, Any], seeds: Sequence[int]) -> tuple[Verdict, float]:
    """The verdict over cases and seeds, and the seconds that it took. Sizes of a user may be refused (ConfigError)."""
    import jax

    began = time.monotonic()
    prepare_jax()
    cases = _cases(claim, sizes)
    found: list[tuple[str, int, Verdict]] = []
    with jax.enable_x64(claim.precision == 64):
        for name, case in zip(case_names(cases), cases, strict=True):
            for seed in seeds:
                try:
                    verdict = claim.at(case, seed)
                except ConfigError as error:
                    if sizes:
                        raise
                    verdict = Verdict("fails", note=exception_line(error))
                found.append((name, seed, verdict))
    return claim.over(found, own=not sizes), time.monotonic() - began


def case_names(cases: Sequence[Config]) -> list[str]:
    """The fields in which each case differs from the first."""
    base = {leaf.path: leaf.default for leaf in leaves(cases[0])}
    names: list[str] = []
    for case in cases:
        differing = [
            f"{leaf.path}={as_text(leaf.default)}" for leaf in leaves(case) if leaf.default != base.get(leaf.path)
        ]
        names.append(" ".join(differing) or "default sizes")
    return names


def _judgeable(claim: Claim, preset: str, store: Store | None) -> bool:
    """An empirical claim costs nothing once its trials are stored."""
    if claim.judge is None or store is None:
        return False
    return all(store.has(trial) for trial in _trials(claim, {}, preset))


def _trials(claim: Claim, sizes: Mapping[str, Any], preset: str):
    experiment = registry.paper(claim.paper).experiment(claim.experiment)
    return experiment.trials(preset, None, sizes)


def _empirical(
    claim: Any, sizes, preset: str, run: bool, fresh: bool, store: Store | None, progress: Silent, stop
) -> LedgerRow:
    trials = _trials(claim, sizes, preset)
    began = time.monotonic()
    settled = (lambda trial: False) if store is None else made_now(store) if run and fresh else store.has
    missing = [trial for trial in trials if not settled(trial)]
    chosen = {"preset": preset} if preset != "quick" else {}
    command = f"stairwise verify {claim.name}{as_flags(chosen | dict(sizes))} --run"
    if store is None or (missing and not run):
        of = f"{claim.paper}/{claim.experiment}"
        note = f"{len(missing)} of {len(trials)} trials of {of} are not in the store: {command}"
        return LedgerRow(claim, Verdict("skipped", note=note), 0.0, sizes)
    if missing:
        group = trials[0].experiment.preset(preset).group
        quiet = Silent()  # the display counts claims, not trials
        quiet.warn = progress.warn
        try:
            execute(trials, store, preset_group=group, settled=settled, progress=quiet, stop=stop)
        except ConfigError as error:  # it needs something that is not here, such as a data set
            return LedgerRow(claim, Verdict("skipped", note=str(error)), 0.0, sizes)
    records = [store.read(trial) for trial in trials]
    arms = list(dict.fromkeys(record.arm for record in records))
    verdict = claim.judged(records)
    raised = verdict.status == "fails" and verdict.measured is None
    if raised and sizes and trials[0].experiment.lacks_arms(arms):
        note = f"it compares arms that{as_flags(sizes)} has changed into {'; '.join(arms)}"
        return LedgerRow(claim, Verdict("skipped", note=note), 0.0, sizes)
    bare = [record for record in records if "published" in record.run and not record.arrays()]
    if raised and bare:
        note = f"it reads arrays, and {len(bare)} of {len(records)} trials are published without: {command}"
        return LedgerRow(claim, Verdict("skipped", note=note), 0.0, sizes)
    chosen = {"preset": preset, **sizes} if preset != "quick" else sizes
    row = LedgerRow(claim, verdict, time.monotonic() - began, chosen, stale=count(records, trials[0].experiment))
    digest = _verdict_digest(claim, sizes, [], preset)
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
