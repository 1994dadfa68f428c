"""From the store to the site: figures, data, microscopes and source pages by steps that remember, then all pages."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from stairwise.lab import provenance, registry
from stairwise.lab.answers import QUESTIONS
from stairwise.lab.contract import STATUSES, Experiment, Paper
from stairwise.lab.progress import Silent
from stairwise.lab.store import Store
from stairwise.report import ledger, words
from stairwise.report.listing import finals
from stairwise.report.pictures import message, picture
from stairwise.report.site import code, data, questions, scopes, shelf
from stairwise.report.site.folder import Folder, slug
from stairwise.report.site.pages import Pages, assets, claim_page, experiment_page, microscope_page
from stairwise.report.site.sets import TrialSet, sets_of
from stairwise.report.site.story import story

ROWS = 400  # of a table of numbers; the command line shows them all


@dataclass
class Shown:
    """An experiment as its pages show it."""

    experiment: Experiment
    sets: list[TrialSet]
    problem: str = ""
    pictures: list[dict[str, Any]] = field(default_factory=list)
    metrics: dict[str, list[str]] = field(default_factory=dict)  # by set
    numbers: list[dict[str, Any]] = field(default_factory=list)
    scopes: list[dict[str, Any]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.experiment.name

    @property
    def records(self) -> list[Any]:
        """Every trial of every set once; the script knows trials by their place in this list."""
        return list({record.digest: record for each in self.sets for record in each.records}.values())

    @property
    def drawn(self) -> TrialSet | None:
        """The set that figures are drawn from: a complete preset."""
        return next((each for each in self.sets if each.id in self.experiment.presets), None)


def build(store: Store, out: Path, progress: Silent | None = None) -> Path:
    """Writes the site to `out` and returns its first page; what has not changed since the last build stays."""
    folder, progress = Folder(out), progress or Silent()
    progress.begin("report", 1, 0)
    progress.status("reading the store")
    try:
        held = shelf.read(store)
        progress.end()
        _write(folder, held, progress)
    finally:
        progress.end()
    folder.close()
    return out / "index.html"


def _write(folder: Folder, held: shelf.Shelf, progress: Silent) -> None:
    shown = {each.name: _shown(held, each) for paper in held.papers for each in paper.experiments}
    with_trials = [each for each in shown.values() if each.sets]
    progress.begin("report", len(with_trials) + 2, 0)
    for name, content in assets().items():
        folder.put(name, content)
    for each in with_trials:
        progress.status(each.name)
        _figures(folder, each)
        _series(folder, each)
        _microscopes(folder, each)
        progress.finished(each.name, "drawn")
    progress.status("questions")
    answers = _answers(folder, held, shown)
    progress.finished("questions", "answered")
    progress.status("pages")
    write_pages(folder, held, shown, answers)
    progress.finished("pages", "written")


def _shown(held: shelf.Shelf, experiment: Experiment) -> Shown:
    try:
        return Shown(experiment, sets_of(experiment, held.of(experiment), held.runs))
    except Exception as error:  # a plug-in's presets or needs may fail in any way
        return Shown(experiment, [], message(error))


# --- steps that remember ----------------------------------------------------------------------------------------------


@cache
def code_digest(module: str) -> str:
    """Of the package's files: what is drawn may depend on any of them."""
    place = provenance.locate(module)
    paths = sorted(place.rglob("*")) if place.is_dir() else [place]
    digest = hashlib.sha256()
    for path in paths:
        if path.suffix in (".py", ".js", ".css", ".html", ".md"):
            digest.update(path.relative_to(place).as_posix().encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _code(experiment: Experiment) -> list[str]:
    """What the drawing of an experiment depends on besides its trials."""
    rooms = ("stairwise.report", "stairwise.lab", "stairwise.measure", registry.modules()[experiment.paper])
    return [code_digest(module) for module in rooms]


def _figures(folder: Folder, shown: Shown) -> None:
    chosen = shown.drawn
    if chosen is None:
        return
    prints = [shelf.fingerprint(record) for record in chosen.records]
    for figure in shown.experiment.figures:

        def make(figure=figure) -> tuple[dict[str, bytes], dict[str, Any]]:
            made = picture(figure, chosen.records)
            path = f"figures/{slug(figure.paper)}/{slug(figure.id)}{made.suffix}"
            facts = {"width": made.width, "height": made.height, "problem": made.problem}
            return ({} if made.problem else {path: made.data}), {"id": figure.id, "path": path, **facts}

        inputs = [_code(shown.experiment), figure.id, figure.draw, prints]
        found = folder.step(f"figure {figure.paper}/{figure.id}", inputs, make)
        shown.pictures.append({**found, "figure": figure, "set": chosen})


def _series(folder: Folder, shown: Shown) -> None:
    prefix = "/".join(map(slug, shown.name.split("/")))

    def make() -> tuple[dict[str, bytes], dict[str, Any]]:
        records = shown.records
        place = {record.digest: number for number, record in enumerate(records)}
        files, metrics = data.series_chunks(prefix, records)
        sets = [
            data.set_facts(
                each.id,
                each.label,
                [(place[record.digest], words.plain(record.arm)) for record in each.records],
                {words.plain(path): words.plain(value) for path, value in each.config[0].items()},
                metrics,
            )
            for each in shown.sets
        ]
        index = {
            "name": shown.name,
            "trials": [data.trial_facts(record) for record in records],
            "sets": sets,
            "metrics": [{name: metric[name] for name in ("name", "file", "points")} for metric in metrics],
        }
        numbers = [[_finite(row) for row in finals(each.records, arms=True)[:ROWS]] for each in shown.sets[:1]]
        name = f"{prefix}/index"
        return {**files, f"data/{name}.js": data.chunk(name, index)}, {
            "metrics": {each["id"]: each["metrics"] for each in sets},
            "numbers": numbers[0],
        }

    prints = [[each.id, each.label, [shelf.fingerprint(record) for record in each.records]] for each in shown.sets]
    found = folder.step(f"series {shown.name}", [code_digest("stairwise.report"), prints], make)
    shown.metrics, shown.numbers = found["metrics"], found["numbers"]


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    """Numbers as they are shown; NaN has no JSON."""
    shown = {name: words.number(row[name]) for name in ("median", "lowest", "highest")}
    return {**row, **shown, "arm": words.plain(row["arm"]), "metric": words.plain(row["metric"])}


def _microscopes(folder: Folder, shown: Shown) -> None:
    if shown.experiment.microscope is None:
        return
    for record in scopes.chosen_trials(shown.sets):
        name = "/".join(["microscope", *map(slug, shown.name.split("/")), record.digest])

        def make(record=record, name=name) -> tuple[dict[str, bytes], dict[str, Any]]:
            try:
                made = scopes.scope_chunk(name, shown.experiment, record)
            except Exception as error:  # as for figures
                return {}, {"problem": message(error)}
            return ({} if made is None else {f"data/{name}.js": made}), {"problem": "", "there": made is not None}

        inputs = [_code(shown.experiment), shown.experiment.microscope, shelf.fingerprint(record)]
        found = folder.step(f"microscope {shown.name} {record.digest}", inputs, make)
        label = f"{words.plain(record.arm)}, seed {record.seed}" if record.arm else f"seed {record.seed}"
        if found["problem"] or found["there"]:
            shown.scopes.append({**found, "chunk": name, "label": label, "digest": record.digest})


def _answers(folder: Folder, held: shelf.Shelf, shown: dict[str, Shown]) -> dict[str, Any]:
    sets = {name: each.sets for name, each in shown.items()}

    def make() -> tuple[dict[str, bytes], dict[str, Any]]:
        cells = {
            paper.id: {question: questions.cell(paper, question, sets) for question in QUESTIONS}
            for paper in held.papers
        }
        table = questions.as_data(cells)
        measured = any(each["value"] is not None for row in table.values() for each in row.values())
        files = {"figures/questions.svg": questions.figure(table)} if measured else {}
        return files, {"table": table, "figure": bool(files)}

    read = {f"{paper.id}/{answer.experiment}" for paper in held.papers for answer in paper.answers if answer.read}
    prints = {
        name: [shelf.fingerprint(record) for each in sets.get(name, [])[:1] for record in each.records] for name in read
    }
    papers = [[paper.id, code_digest(registry.modules()[paper.id])] for paper in held.papers]
    return folder.step("questions", [code_digest("stairwise.report"), papers, sorted(prints.items())], make)


# --- pages ------------------------------------------------------------------------------------------------------------


@dataclass
class Section:
    """A paper as its pages show it."""

    paper: Paper
    entries: Sequence[ledger.Entry]
    shown: list[Shown]
    source_hash: str | None

    @property
    def counts(self) -> dict[str, int]:
        return words.counted([each.verdict.status for each in self.entries], STATUSES)

    @property
    def trials(self) -> int:
        return sum(len(each.records) for each in self.shown)

    @property
    def headlines(self) -> list[dict[str, Any]]:
        drawn = [each for one in self.shown for each in one.pictures if not each["problem"]]
        return [each for each in drawn if each["figure"].headline] or drawn[:1]

    def experiment_of(self, claim: Any) -> str:
        return f"{self.paper.id}/{claim.experiment}" if claim.experiment else ""


def write_pages(folder: Folder, held: shelf.Shelf, shown: dict[str, Shown], answers: dict[str, Any]) -> None:
    pages = Pages()
    sections = [
        Section(
            paper,
            held.entries(paper),
            [shown[each.name] for each in paper.experiments],
            shelf.source_hashes(paper)[0],
        )
        for paper in held.papers
    ]
    every = [each for section in sections for each in section.entries]
    problems = len(held.damaged) + len(held.foreign)

    def put(template: str, name: str, title: str, **values: Any) -> None:
        folder.put(name, pages.render(template, name, title=title, problems=problems, **values))

    put(
        "index.html", "index.html", "Stairwise",
        sections=sections, trials=len(held.records),
        counts=words.counted([each.verdict.status for each in every], STATUSES),
        first=[each for status in ledger.LOOK_FIRST for each in every if each.verdict.status == status],
        newest=max((each.checked for each in held.verdicts if words.is_number(each.checked)), default=None),
    )  # fmt: skip
    put("ledger.html", "ledger.html", "Ledger", sections=sections, total=len(every), sizes_of=sizes_of)
    put("compare.html", "compare.html", "Compare", index=_compare(folder, shown))
    put("questions.html", "questions.html", "Five questions", sections=sections, answers=answers, asked=QUESTIONS)
    put("microscopes.html", "microscopes.html", "Microscope", sections=sections)
    put(
        "store.html", "store.html", "Store",
        damaged=held.damaged, foreign=held.foreign, replaced=held.replaced,
        runs=[(run, words.plain(run.command)) for run in reversed(held.runs)],
    )  # fmt: skip
    for section in sections:
        _paper_pages(folder, put, section)
    _code_pages(folder, pages, sections, problems)


def _paper_pages(folder: Folder, put: Any, section: Section) -> None:
    paper = section.paper
    told, rest = story(paper)
    place = f"papers/{slug(paper.id)}/index.html"
    put("paper.html", place, paper.title, section=section, paper=paper, told=told, rest=rest)
    for each in section.shown:
        judged = [entry for entry in section.entries if section.experiment_of(entry.claim) == each.name]
        program = code.link(code.place_of_name(each.experiment.program)) if each.experiment.program else ""
        put(
            "experiment.html", experiment_page(each.name), each.name, shown=each, paper=paper, judged=judged,
            section=section, prefix="/".join(map(slug, each.name.split("/"))), program=program,
        )  # fmt: skip
        if each.scopes:
            put("microscope.html", microscope_page(each.name), f"{each.name} under the microscope", shown=each)
    for entry in section.entries:
        function = entry.claim.check or entry.claim.judge
        put(
            "claim.html", claim_page(entry.claim.name), entry.claim.name, entry=entry, claim=entry.claim, paper=paper,
            experiment=section.experiment_of(entry.claim), source=code.link(code.place_of(function)),
            place=code.place_of(function), cases=sizes_of(entry),
        )  # fmt: skip


def sizes_of(entry: ledger.Entry) -> list[str]:
    """The sizes at which the ledger checks a claim."""
    from stairwise.lab.config import as_dict

    return [
        " ".join(f"{path}={words.plain(value)}" for path, value in words.flat(as_dict(case)).items())
        for case in entry.claim.cases
    ]


def _compare(folder: Folder, shown: dict[str, Shown]) -> str:
    """The list of all that can be compared, as a chunk."""
    listed = [
        {
            "name": each.name,
            "chunk": "/".join(map(slug, each.name.split("/"))) + "/index",
            "sets": [
                {
                    "id": one.id,
                    "label": one.label,
                    "arms": [words.plain(arm) for arm in one.arms],
                    "metrics": each.metrics[one.id],
                }
                for one in each.sets
                if each.metrics[one.id]
            ],
        }
        for each in shown.values()
        if any(each.metrics.values())
    ]
    folder.put("data/compare.js", data.chunk("compare", listed))
    return "compare" if listed else ""


def _code_pages(folder: Folder, pages: Pages, sections: Sequence[Section], problems: int) -> None:
    """The modules that claims are checked in and that experiments run."""
    modules = {code.place_of(claim.check or claim.judge)[0] for s in sections for claim in s.paper.claims}
    modules |= {code.place_of_name(e.program)[0] for s in sections for e in s.paper.experiments if e.program}
    for module in sorted(modules):
        name = code.page_name(module)

        def make(module=module, name=name) -> tuple[dict[str, bytes], None]:
            lines = code.highlighted(module)
            page = pages.render("code.html", name, title=module, problems=problems, module=module, lines=lines)
            return {name: page}, None

        folder.step(f"code {module}", [code_digest("stairwise.report"), code.fingerprint(module), problems], make)
