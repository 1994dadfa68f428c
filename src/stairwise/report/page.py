"""The report: one self-contained page of everything in the store.

It loads nothing and runs nothing: styles and figures are inlined, there is no script, and the page's own policy
forbids whatever else might get in. Everything from the store goes through the template's escaping.
"""

import base64
import hashlib
import time
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import stairwise
from stairwise.lab import provenance, registry
from stairwise.lab.contract import STATUSES, Experiment, Paper
from stairwise.lab.files import entries, explained, replace_file
from stairwise.lab.progress import Silent
from stairwise.lab.record import StoredTrial
from stairwise.lab.store import Store
from stairwise.report import ledger, words
from stairwise.report.pictures import pictures, when


def build(store: Store, out: Path, progress: Silent | None = None) -> Path:
    """Writes the page to `out`/index.html, whole or not at all, and returns its path."""
    page = render(store, progress or Silent()).encode("utf-8", "replace")
    with explained(f"write the report to {out}"):
        replace_file(out / "index.html", page, out)
    return out / "index.html"


def render(store: Store, progress: Silent) -> str:
    """The page as text: a function of the store, but for the time it was made."""
    papers = registry.papers()
    records = store.trials()
    verdicts, unreadable = _verdicts(store, records)
    sections = []
    progress.begin("figures", sum(len(paper.figures) for paper in papers), 0)
    try:
        for paper in papers:
            sections.append(_section(paper, records, verdicts, progress))
    finally:
        progress.end()
    every = [each for section in sections for each in section["entries"]]
    css = files("stairwise.report").joinpath("templates", "report.css").read_text(encoding="utf-8")
    return _environment().get_template("report.html").render(
        css=Markup(css),
        css_hash=base64.b64encode(hashlib.sha256(css.encode()).digest()).decode(),
        made=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        version=stairwise.__version__,
        statuses=STATUSES,
        counts=words.counted([each.verdict.status for each in every], STATUSES),
        first=[each for status in ledger.LOOK_FIRST for each in every if each.verdict.status == status],
        sections=sections,
        trials=len(records),
        damaged=[*_damaged(store), *unreadable],
        replaced=len(entries(store.root / "damaged")),
        foreign=_foreign(papers, records, verdicts),
    )  # fmt: skip


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("stairwise.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "symbols": ledger.SYMBOLS,
        "cell": _cell,
        "number": words.number,
        "required": lambda verdict: _typeset(words.required(verdict)),
        "margin": lambda verdict: _typeset(words.margin(verdict)),
        "duration": words.duration,
        "moment": words.moment,
        "when": when,
    }
    return environment


def _typeset(text: str) -> str:
    return text.replace("<=", "≤").replace(">=", "≥").replace("x", "×")


def _cell(value: Any) -> str:
    """A cell of a verdict's table."""
    if value is None:
        return "-"
    return words.number(value) if isinstance(value, float) else words.plain(value)


# --- papers -----------------------------------------------------------------------------------------------------------


def _section(
    paper: Paper, records: Sequence[StoredTrial], verdicts: Sequence[ledger.Stored], progress: Silent
) -> dict[str, Any]:
    source_hash, installed = _source_hashes(paper)
    drawn = []
    for experiment in paper.experiments:
        stored = {record.digest: record for record in records if record.experiment == experiment.name}
        drawn += pictures(experiment, stored, lambda figure: progress.status(f"{figure.paper}/{figure.id}"))
        for figure in experiment.figures:
            progress.finished(f"{paper.id}/{figure.id}", "drawn")
    rows = [
        ledger.entry(claim, [each for each in verdicts if each.claim == claim.name], installed)
        for claim in paper.claims
    ]
    return {
        "paper": paper,
        "source_hash": source_hash,
        "pictures": [each for each in drawn if each.records or each.problem],
        "absent": [each for each in drawn if not each.records and not each.problem],
        "entries": rows,
        "unchecked": sum(row.stored is None for row in rows),
        "counts": words.counted([row.verdict.status for row in rows], STATUSES),
        "trials": sum(record.experiment.startswith(f"{paper.id}/") for record in records),
    }


def _source_hashes(paper: Paper) -> tuple[str | None, frozenset[str]]:
    """The hash of the installed code behind trials, and with it that behind verdicts; none where it cannot be found."""
    try:
        module = registry.modules()[paper.id]
        trials, verdicts = provenance.source_hash(module), provenance.source_hash(module, claims=True)
    except (KeyError, ValueError, OSError):
        return None, frozenset()
    return trials, frozenset({trials, verdicts})


# --- the store --------------------------------------------------------------------------------------------------------


def _verdicts(
    store: Store, records: Sequence[StoredTrial]
) -> tuple[list[ledger.Stored], list[tuple[str, str]]]:  # fmt: skip
    """The stored verdicts, and those that cannot be read, with why."""
    sources = {record.digest: record.run.get("source_hash") for record in records}
    readable, unreadable = [], []
    for data in store.verdicts():
        try:
            readable.append(ledger.parse(data, sources))
        except ValueError as error:
            unreadable.append((f"verdicts/{data['claim']}/{data['digest']}.json", str(error)))
    return readable, unreadable


def _damaged(store: Store) -> list[tuple[str, str]]:
    return [(words.plain(path.relative_to(store.root)), words.plain(why)) for path, why in store.damaged()]


def _foreign(
    papers: Sequence[Paper], records: Sequence[StoredTrial], verdicts: Sequence[ledger.Stored]
) -> list[tuple[str, int, str]]:  # fmt: skip
    """What is sound but belongs to nothing that is installed: where, how many, why."""
    experiments = {each.name: each for paper in papers for each in paper.experiments}
    claims = {claim.name for paper in papers for claim in paper.claims}
    found: dict[tuple[str, str], int] = {}
    for record in records:
        why = _why_foreign(record, experiments)
        if why:
            found[f"trials/{record.experiment}", why] = found.get((f"trials/{record.experiment}", why), 0) + 1
    for verdict in verdicts:
        if verdict.claim not in claims:
            key = f"verdicts/{verdict.claim}", "no installed paper has this claim"
            found[key] = found.get(key, 0) + 1
    return [(place, count, why) for (place, why), count in sorted(found.items())]


def _why_foreign(record: StoredTrial, experiments: Mapping[str, Experiment]) -> str:
    experiment = experiments.get(record.experiment)
    if experiment is None:
        return "no installed paper has this experiment"
    if record.version != experiment.version:
        return f"made by version {record.version} of the experiment; the installed one is {experiment.version}"
    return "" if record.typed(experiment) else "the experiment has other config fields now"
