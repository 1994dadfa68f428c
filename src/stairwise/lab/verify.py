"""Runs claims and keeps their verdicts: one row a claim, or one a size where the user gives a list of them."""

import itertools
import math
import threading
import time
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stairwise.lab import provenance, registry
from stairwise.lab.config import Config, ConfigError, as_flags, find_leaf, leaves, stored_dict, unknown_field, update
from stairwise.lab.contract import TIERS, Claim, Verdict, digest_of
from stairwise.lab.execute import execute, prepare_jax
from stairwise.lab.progress import Silent
from stairwise.lab.sharing import Shard
from stairwise.lab.stale import count, made_now
from stairwise.lab.store import Store


@dataclass(frozen=True)
class Row:
    """One line of the ledger: a claim at its own sizes, or at those in `changes`."""

    claim: Claim
    verdict: Verdict
    seconds: float = 0.0
    changes: Mapping[str, Any] = field(default_factory=dict)
    stored: bool = False
    stale: int = 0  # trials that it was judged on and that other code has made

    def as_dict(self) -> dict[str, Any]:
        verdict = self.verdict
        return {
            "paper": self.claim.paper,
            "claim": self.claim.id,
            "kind": self.claim.kind,
            "status": verdict.status,
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
            "details": [dict(row) for row in verdict.details],
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
    store: Store | None = None,
    progress: Silent | None = None,
    stop: threading.Event | None = None,
    shard: str | None = None,
    plan_only: bool = False,
) -> Iterator[Row]:
    """Check claims in the ledger's order. A claim named itself runs whatever its tier; others up to `tier`.

    An empirical claim is judged on its preset's stored trials; with `run` the missing ones are run first, and with
    `fresh` also those that other code has made. `fresh` alone checks again what has a verdict. `shard="2/3"` is the
    second third of the checks. `plan_only` checks the request (ConfigError names what is wrong with it) and does no
    work: every row is skipped.
    """
    progress, stop = progress or Silent(), stop or threading.Event()
    if tier not in TIERS:
        raise ConfigError(f"tier={tier} must be one of {', '.join(TIERS)}")
    part = None if shard is None else Shard.parse(shard)
    jobs = _jobs(registry.claims(list(targets)), dict(changes or {}), preset)
    if part is not None:
        jobs = _part(part, jobs)
    if plan_only:
        yield from (Row(claim, Verdict("skipped", note=why), changes=sizes) for claim, _, sizes, why in jobs)
        return
    progress.begin("claims", len(jobs), 0)
    try:
        for claim, named, sizes, why in jobs:
            if stop.is_set():
                return
            progress.status(claim.name)
            if why:
                row = Row(claim, Verdict("skipped", note=why), changes=sizes)
            elif not _due(claim, named, tier) and not _judgeable(claim, preset, store):
                row = Row(claim, Verdict("skipped", note=f"its tier is {claim.tier}: --tier {claim.tier} runs it"))
            elif claim.check is not None:
                row = _theory(claim, sizes, seed, store, fresh)
            else:
                row = _empirical(claim, sizes, preset, run, fresh, store, progress, stop)
            progress.finished(claim.name, row.verdict.status)
            yield row
    finally:
        progress.end()


def unchecked(
    targets: Sequence[str], changes: Mapping[str, Any], *, tier: str, preset: str, seed: int, store: Store
) -> int:
    """How many checks of the request have no verdict in the store."""
    jobs = _jobs(registry.claims(list(targets)), dict(changes), preset)
    due = [(claim, sizes) for claim, named, sizes, why in jobs if not why and _due(claim, named, tier)]
    return sum(
        store.read_verdict(claim.name, _verdict_digest(claim, sizes, seed, preset)) is None for claim, sizes in due
    )


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
        base = _base(claim, preset)
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


def _base(claim: Claim, preset: str) -> Config | None:
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


def _theory(claim: Claim, sizes: Mapping[str, Any], seed: int, store: Store | None, fresh: bool) -> Row:
    assert claim.check is not None
    cases, source = _cases(claim, sizes), _source(claim)
    digest = _verdict_digest(claim, sizes, seed, "")
    kept = None if store is None or fresh else store.read_verdict(claim.name, digest)
    if kept is not None:
        found = dict(kept["verdict"])
        found |= {"hypotheses": tuple(found["hypotheses"]), "details": tuple(dict(row) for row in found["details"])}
        verdict = Verdict(**found)
        return Row(claim, verdict, kept["seconds"], sizes, stored=True)
    began = time.monotonic()
    verdict = _checked(claim, cases, seed)
    row = Row(claim, verdict, time.monotonic() - began, sizes)
    if store is not None:
        store.write_verdict(claim.name, digest, _kept(row, [stored_dict(case) for case in cases], source))
    return row


def _cases(claim: Claim, sizes: Mapping[str, Any]) -> list[Config]:
    return [update(claim.cases[0], sizes)] if sizes else list(claim.cases)


def _verdict_digest(claim: Claim, sizes: Mapping[str, Any], seed: int, preset: str) -> str:
    """Names a verdict: a check's by what it depends on, an empirical claim's by the trials that it is judged on."""
    if claim.check is None:
        return digest_of([claim.name, [trial.digest for trial in _trials(claim, sizes, preset)]])
    cases = [stored_dict(case) for case in _cases(claim, sizes)]
    return digest_of([claim.name, cases, seed, _source(claim), _versions(claim)])


def _source(claim: Claim) -> str:
    """The hash of the code behind a claim's check, or its judge."""
    return provenance.source_hash(claim.source.partition(":")[0])


def _versions(claim: Claim) -> dict[str, str | None]:
    return provenance.versions() | registry.distribution(claim.paper)


def _checked(claim: Claim, cases: Sequence[Config], seed: int) -> Verdict:
    import jax

    prepare_jax()
    assert claim.check is not None
    verdicts = {}
    with jax.enable_x64(claim.precision == 64):
        for case in cases:
            verdicts[_name(case, cases[0])] = claim.check(case, seed)
    return next(iter(verdicts.values())) if len(cases) == 1 else Verdict.worst(verdicts)


def _name(case: Config, first: Config) -> str:
    """The fields in which a case differs from the first."""
    base = {leaf.path: leaf.default for leaf in leaves(first)}
    differing = [f"{leaf.path}={leaf.default}" for leaf in leaves(case) if leaf.default != base.get(leaf.path)]
    return " ".join(differing) or "default sizes"


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
) -> Row:
    trials = _trials(claim, sizes, preset)
    began = time.monotonic()
    settled = (lambda trial: False) if store is None else made_now(store) if run and fresh else store.has
    missing = [trial for trial in trials if not settled(trial)]
    chosen = {"preset": preset} if preset != "quick" else {}
    command = f"stairwise verify {claim.name}{as_flags(chosen | dict(sizes))} --run"
    if store is None or (missing and not run):
        of = f"{claim.paper}/{claim.experiment}"
        note = f"{len(missing)} of {len(trials)} trials of {of} are not in the store: {command}"
        return Row(claim, Verdict("skipped", note=note), 0.0, sizes)
    if missing:
        group = trials[0].experiment.preset(preset).group
        quiet = Silent()  # the display counts claims, not trials
        quiet.warn = progress.warn
        try:
            execute(trials, store, preset_group=group, settled=settled, progress=quiet, stop=stop)
        except ConfigError as error:  # it needs something that is not here, such as a data set
            return Row(claim, Verdict("skipped", note=str(error)), 0.0, sizes)
    records = [store.read(trial) for trial in trials]
    try:
        verdict = claim.judge(records)
    except Exception:
        arms = list(dict.fromkeys(record.arm for record in records))
        if not trials[0].experiment.lacks_arms(arms):
            raise
        note = f"it compares arms that{as_flags(sizes)} has changed into {'; '.join(arms)}"
        return Row(claim, Verdict("skipped", note=note), 0.0, sizes)
    chosen = {"preset": preset, **sizes} if preset != "quick" else sizes
    row = Row(claim, verdict, time.monotonic() - began, chosen, stale=count(records, trials[0].experiment))
    digest = _verdict_digest(claim, sizes, 0, preset)
    store.write_verdict(claim.name, digest, _kept(row, [trial.digest for trial in trials], _source(claim)))
    return row


def _kept(row: Row, inputs: list[Any], source: str) -> dict[str, Any]:
    verdict = row.verdict
    return {
        "claim": row.claim.name,
        "verdict": {
            "status": verdict.status,
            "measured": verdict.measured,
            "required": verdict.required,
            "direction": verdict.direction,
            "margin": verdict.margin,
            "note": verdict.note,
            "hypotheses": list(verdict.hypotheses),
            "details": [list(detail.items()) for detail in verdict.details],  # pairs: JSON here sorts its keys
        },
        "source_hash": source,
        "seconds": row.seconds,
        "sizes": dict(row.changes),
        "stale": row.stale,
        "inputs": inputs,
        "checked": time.time(),
    }
