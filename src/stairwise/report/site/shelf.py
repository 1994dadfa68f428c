"""What the store holds, sorted for the pages: sound trials, runs and verdicts; what is damaged, what is foreign."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from stairwise import words
from stairwise.config import canonical
from stairwise.lab import registry
from stairwise.lab.contract.claims import Claim
from stairwise.lab.contract.experiment import Experiment
from stairwise.lab.contract.paper import Paper
from stairwise.lab.run.execute import source_hash
from stairwise.lab.store import provenance
from stairwise.lab.store.files import entries, storable
from stairwise.lab.store.shown import shown
from stairwise.lab.store.store import Store, StoredRun
from stairwise.lab.store.trial import StoredTrial
from stairwise.report import ledger
from stairwise.stories import PAPERS


@dataclass(frozen=True)
class Shelf:
    """Everything that a build reads, read once; every byte of `records` was checked, now or when it was indexed."""

    papers: Sequence[Paper]
    records: Sequence[StoredTrial]
    runs: Sequence[StoredRun]
    verdicts: Sequence[ledger.Stored]
    damaged: Sequence[tuple[str, str]]
    replaced: int
    # what `typed` was given and has made: texts of configs by the dictionary, which lives as long as the shelf
    texts: dict[int, str] = field(default_factory=dict)
    configs: dict[tuple[str, int, str], Any] = field(default_factory=dict)

    @property
    def problems(self) -> int:
        """How many things the page of the store lists."""
        return len(self.damaged) + len(self.foreign)

    @cached_property
    def by_experiment(self) -> dict[str, list[StoredTrial]]:
        found: dict[str, list[StoredTrial]] = {}
        for record in self.records:
            found.setdefault(record.experiment, []).append(record)
        return found

    def of(self, experiment: Experiment) -> list[StoredTrial]:
        """The experiment's trials that it could ask for as it is now, with typed configs."""
        typed = (self.typed(record, experiment) for record in self.by_experiment.get(experiment.name, []))
        first: dict[tuple[int, str], StoredTrial] = {}  # of one config and arm, which are shown alike
        found = []
        for record in typed:
            if record is not None:
                key = id(record.config), record.arm
                if key not in first:
                    first[key] = shown(record, experiment)
                like = first[key]
                found.append(dataclasses.replace(record, config_dict=like.config_dict, arm=like.arm))
        return found

    def typed(self, record: StoredTrial, experiment: Experiment) -> StoredTrial | None:
        """As `StoredTrial.typed`; trials of one config, which differ in their seeds, share the work."""
        known = id(record.config_dict)  # which trials of one config share where an index has them
        if known not in self.texts:
            self.texts[known] = canonical(storable(record.config_dict))
        key = experiment.name, record.version, self.texts[known]
        if key not in self.configs:
            first = record.typed(experiment)
            self.configs[key] = None if first is None else first.config
        config = self.configs[key]
        return None if config is None else dataclasses.replace(record, config=config)

    def entries(self, paper: Paper) -> list[ledger.Entry]:
        """The paper's ledger."""
        by_claim: dict[str, list[ledger.Stored]] = {}
        for verdict in self.verdicts:
            by_claim.setdefault(verdict.claim, []).append(verdict)
        return [
            ledger.entry(claim, stored, source_hashes(paper, claim) if stored else frozenset())
            for claim in paper.claims
            for stored in [by_claim.get(claim.name, [])]
        ]

    @cached_property
    def foreign(self) -> list[tuple[str, int, str]]:
        """What is sound but belongs to nothing that is installed: where, how many, why."""
        experiments = {each.name: each for paper in self.papers for each in paper.experiments}
        claims = {claim.name for paper in self.papers for claim in paper.claims}
        found: dict[tuple[str, str], int] = {}
        for record in self.records:
            why = self._why_foreign(record, experiments.get(record.experiment))
            if why:
                key = f"trials/{record.experiment}", why
                found[key] = found.get(key, 0) + 1
        for verdict in self.verdicts:
            if verdict.claim not in claims:
                key = f"verdicts/{verdict.claim}", "no installed paper has this claim"
                found[key] = found.get(key, 0) + 1
        return [(place, count, why) for (place, why), count in sorted(found.items())]

    def _why_foreign(self, record: StoredTrial, experiment: Experiment | None) -> str:
        if experiment is None:
            return "no installed paper has this experiment"
        if record.version != experiment.version:
            return f"made by version {record.version} of the experiment; the installed one is {experiment.version}"
        return "" if self.typed(record, experiment) else "the experiment has other config fields now"


def read(store: Store) -> Shelf:
    """One look at the whole store."""
    store.index().refresh()
    store = store.snapshot()  # whose index is read once
    damaged = store.damaged(again=False)
    unsound = {path for path, _ in damaged}
    records = [record for record in store.glance() if not unsound or record.path not in unsound]
    verdicts, unreadable = _verdicts(store, records)
    places = [(words.plain(path.relative_to(store.root)), words.plain(why)) for path, why in damaged]
    runs, replaced = store.runs(), len(entries(store.root / "damaged"))
    del store  # the text of its index makes room for the papers
    papers = sorted(registry.papers(), key=_place)
    return Shelf(papers, records, runs, verdicts, [*places, *unreadable], replaced)


def judged_again(held: Shelf, store: Store) -> Shelf:
    """The same with the verdicts that there are now; trials are not looked at again."""
    verdicts, unreadable = _verdicts(store, held.records)
    known = set(held.damaged)
    return dataclasses.replace(
        held, verdicts=verdicts, damaged=[*held.damaged, *(each for each in unreadable if each not in known)]
    )


def _verdicts(store: Store, records: Sequence[StoredTrial]) -> tuple[list[ledger.Stored], list[tuple[str, str]]]:
    """The verdicts, and those that cannot be read, with why."""
    sources = {record.digest: record.run.get("source_hash") for record in records}
    verdicts, unreadable = [], []
    for data in store.verdicts():
        try:
            verdicts.append(ledger.parse(data, sources))
        except ValueError as error:
            unreadable.append((f"verdicts/{data['claim']}/{data['digest']}.json", str(error)))
    return verdicts, unreadable


def _place(paper: Paper) -> int:
    """Where a paper stands: in the order in which their stories build on each other, then the others."""
    return PAPERS.index(paper.id) if paper.id in PAPERS else len(PAPERS)


def source_hashes(paper: Paper, claim: Claim) -> frozenset[str]:
    """The hashes of the installed code behind a claim's verdict, and behind the trials that it is judged on."""
    experiment = paper.experiment(claim.experiment) if claim.experiment else None
    try:
        judged = provenance.source_hash(claim.source.partition(":")[0])
        return frozenset({judged, *([source_hash(experiment)] if experiment else [])})
    except (ValueError, OSError):
        return frozenset()
