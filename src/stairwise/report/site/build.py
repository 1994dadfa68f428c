"""From the store to the site: figures, data, microscopes and source pages by steps that remember, then all pages."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from stairwise import words
from stairwise.lab import registry
from stairwise.lab.contract.answers import QUESTIONS
from stairwise.lab.contract.axes import StepAxes
from stairwise.lab.contract.experiment import Experiment, Figure
from stairwise.lab.progress import Silent
from stairwise.lab.run import stale
from stairwise.lab.store.finals import finals
from stairwise.lab.store.store import Store
from stairwise.lab.store.trial import StoredTrial
from stairwise.record import archive, published
from stairwise.report.pictures import Drawn, Picture, darkened, drawing, message
from stairwise.report.site import code, data, questions, scopes, shelf, unchanged
from stairwise.report.site.contents import Shown, code_digest, site_code, write_pages
from stairwise.report.site.folder import FIRST, Folder, slug
from stairwise.report.site.pages import Pages, assets
from stairwise.report.site.sets import TrialSet, fingerprint, sets_of
from stairwise.stories import build as stories

REMEDY = "stairwise run --fresh runs them again"
ROWS = 400  # of a table of numbers; the command line shows them all
CURVES = 400  # trials of a set whose curves are shown; more cannot be told apart
MANY = 5000  # trials, whose records take so much memory that drawing is done elsewhere
ALL_CURVES = 4000  # trials of an experiment, over all of its sets


def build(
    store: Store,
    out: Path,
    progress: Silent | None = None,
    docs: str = "",
    judge: Callable[[], None] | None = None,
) -> Path:
    """Writes the site to `out` and returns its first page; what has not changed since the last build stays.

    `docs` is the address of the documentation as the first page sees it, where pages should link to it. `judge` gives
    the store's trials their verdicts; it is called while figures are drawn, and not at all where nothing has changed.
    """
    folder, progress = Folder(out), progress or Silent()
    taken = store.snapshot()  # what is compared with the last build is what is shown
    inputs = unchanged.made_from(taken, docs)
    made = folder.whole(inputs)
    if made is not None:
        old, trials = made
        stale.warn(old, trials, REMEDY)
        return out / FIRST
    held = shelf.read(taken)
    del taken  # with the text of its index
    shown = {each.name: _shown(held, each) for paper in held.papers for each in paper.experiments}
    figures = [
        step for each in shown.values() if each.drawn is not None for step in _figure_steps(folder, each, each.drawn)
    ]
    jobs = [(step.figure, step.drawn.records) for step in figures if not step.remembered]
    with drawing(jobs, store=store.root, apart=len(held.records) > MANY) as drawn:
        if judge is not None:
            judge()
            held, inputs = shelf.judged_again(held, store), unchanged.made_from(store, docs)
        progress.begin("report", len(figures) + sum(bool(each.sets) for each in shown.values()) + 3, 0)
        try:
            _write(folder, held, shown, progress, docs, lambda: _figures(folder, figures, drawn, progress))
        finally:
            progress.end()
    old, trials = stale.count(held.records), len(held.records)
    folder.close(inputs, [old, trials])
    stale.warn(old, trials, REMEDY)
    return out / FIRST


def _write(
    folder: Folder,
    held: shelf.Shelf,
    shown: dict[str, Shown],
    progress: Silent,
    docs: str,
    place_figures: Callable[[], None],
) -> None:
    """All files; figures, which other processes draw meanwhile, are asked for when little else is left to do."""
    for name, content in assets().items():
        folder.put(name, content)
    for each in shown.values():
        if each.sets:
            progress.status(each.name)
            _series(folder, each)
            _microscopes(folder, each)
            progress.finished(each.name, "written")
    progress.status("questions")
    answers = _answers(folder, held, shown)
    progress.finished("questions", "answered")
    progress.status("stories")
    told = _stories(folder, [paper.id for paper in held.papers])
    progress.finished("stories", "written")
    progress.status("pages")
    write_pages(folder, held, shown, answers, Pages(told, docs), place_figures)
    progress.finished("pages", "written")


def _stories(folder: Folder, papers: Sequence[str]) -> list[str]:
    """The stories of the papers that are shown, with the playground beside them."""
    told = [paper for paper in papers if paper in stories.PAPERS]
    if told:
        made_of = ["stairwise.stories", "stairwise.playground", *(registry.modules()[paper] for paper in told)]
        folder.step(
            "stories",
            [code_digest(module) for module in made_of],
            lambda: ({f"stories/{name}": content for name, content in stories.files().items()}, {}),
            alike=True,
        )
    return told


def _shown(held: shelf.Shelf, experiment: Experiment) -> Shown:
    try:
        own = [
            each.as_published() if each.from_record else each
            for each in sets_of(experiment, held.of(experiment), held.runs)
        ]
        return Shown(experiment, [*own, *_published(experiment, own)])
    except Exception as error:  # a plug-in's presets or needs may fail in any way
        return Shown(experiment, [], message(error))


def _published(experiment: Experiment, own: Sequence[TrialSet]) -> list[TrialSet]:
    """What is published of an experiment, as sets of their own beside one's own trials."""
    files, there = published.files(experiment.name), {record.digest for each in own for record in each.records}
    if not files:
        return []
    if there and there.issuperset(trial["digest"] for path in files for trial in archive.about(path).trials):
        return []  # it is the record that is shown
    held = shelf.read(published.store(files))
    found = [each.as_published() for each in sets_of(experiment, held.of(experiment), held.runs)]
    return [each for each in found if not there.issuperset(record.digest for record in each.records)]


# --- steps that remember ----------------------------------------------------------------------------------------------


def _code(experiment: Experiment) -> list[str]:
    """What the drawing of an experiment depends on besides its trials."""
    rooms = ("stairwise.lab", "stairwise.measure", registry.modules()[experiment.paper])
    return [*site_code(), *map(code_digest, rooms)]


@dataclasses.dataclass(frozen=True)
class FigureStep:
    """A figure of an experiment and the set that it is drawn from."""

    shown: Shown
    drawn: TrialSet
    figure: Figure
    inputs: list[Any]
    remembered: bool


def _figure_steps(folder: Folder, shown: Shown, drawn: TrialSet) -> Iterator[FigureStep]:
    for figure in shown.experiment.figures:
        inputs = [_code(shown.experiment), figure.id, code.name_of(figure.draw), drawn.prints]
        remembered = folder.remembers(_step(figure), inputs, alike=drawn.published)
        yield FigureStep(shown, drawn, figure, inputs, remembered)


def _figures(folder: Folder, steps: Sequence[FigureStep], drawn: Drawn, progress: Silent) -> None:
    """Waits for what is drawn anew, then puts every figure in its place."""
    todo = [each.figure for each in steps if not each.remembered]
    for _ in range(len(steps) - len(todo)):
        progress.finished("figure", "as before")
    progress.status("drawing")
    made = drawn(lambda figure: progress.finished(f"{figure.paper}/{figure.id}", "drawn"))
    pictures = {_step(figure): picture for figure, picture in zip(todo, made, strict=True)}
    for each in steps:
        name = _step(each.figure)

        def place(each=each, name=name) -> tuple[dict[str, bytes], dict[str, Any]]:
            return _placed(each.figure, pictures[name])

        found = folder.step(name, each.inputs, place, alike=each.drawn.published)
        each.shown.pictures.append({**found, "figure": each.figure, "set": each.drawn})


def _step(figure: Figure) -> str:
    return f"figure {figure.paper}/{figure.id}"


def _placed(figure: Figure, made: Picture) -> tuple[dict[str, bytes], dict[str, Any]]:
    path = f"figures/{slug(figure.paper)}/{slug(figure.id)}{made.suffix}"
    facts = {"id": figure.id, "path": path, "width": made.width, "height": made.height, "problem": made.problem}
    files = {} if made.problem else {path: made.data}
    if made.suffix == ".svg":
        files[facts.setdefault("dark", path.replace(".svg", "-dark.svg"))] = darkened(made.data)
    return files, facts


def _series(folder: Folder, shown: Shown) -> None:
    prefix = "/".join(map(slug, shown.name.split("/")))

    def make() -> tuple[dict[str, bytes], dict[str, Any]]:
        most = min(CURVES, max(1, ALL_CURVES // max(1, len(shown.sets))))
        chosen = {each.id: spread(each.records, most) for each in shown.sets}
        records = list({record.digest: record for each in chosen.values() for record in each}.values())
        place = {record.digest: number for number, record in enumerate(records)}
        files, metrics = data.series_chunks(prefix, records, StepAxes(shown.experiment))
        sets = [
            data.set_facts(
                each.id,
                _label(each.label, len(chosen[each.id]), len(each.records)),
                [(place[record.digest], words.plain(record.arm)) for record in chosen[each.id]],
                {words.plain(path): words.plain(value) for path, value in each.config[0].items()},
                metrics,
                shown.experiment.opens_with,
            )
            for each in shown.sets
        ]
        index = {
            "name": shown.name,
            "trials": [data.trial_facts(record) for record in records],
            "sets": sets,
            "metrics": [{name: metric[name] for name in ("name", "file", "points", "over")} for metric in metrics],
        }
        numbers = [[_finite(row) for row in finals(_unread(each.records), arms=True)[:ROWS]] for each in shown.sets[:1]]
        name = f"{prefix}/index"
        return {**files, f"data/{name}.js": data.chunk(name, index)}, {
            "metrics": {each["id"]: each["metrics"] for each in sets},
            "opens": {each["id"]: each["opens"] for each in sets},
            "numbers": numbers[0],
        }

    prints = [[each.id, each.label, each.prints] for each in shown.sets]
    alike = all(each.published for each in shown.sets)
    found = folder.step(f"series {shown.name}", [_code(shown.experiment), prints], make, alike=alike)
    shown.metrics, shown.opens, shown.numbers = found["metrics"], found["opens"], found["numbers"]


def spread(records: Sequence[StoredTrial], most: int) -> list[StoredTrial]:
    """At most so many of the records, with as many of each arm as there are, from its first to its last."""
    arms: dict[str, list[StoredTrial]] = {}
    for record in records:
        arms.setdefault(record.arm, []).append(record)
    share = max(1, most // max(1, len(arms)))
    chosen = []
    for column in arms.values():
        step = max(1, -(-len(column) // share))
        chosen += column[::step]
    return list(records) if len(records) <= most else chosen


def _label(label: str, drawn: int, total: int) -> str:
    return label if drawn == total else f"{label} (curves of {drawn:,} of its {total:,} trials)"


def _unread(records: Sequence[StoredTrial]) -> Iterator[StoredTrial]:
    """The same, one by one, without what has been read of them: a record keeps that as long as it lives."""
    return (dataclasses.replace(record) for record in records)


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    """Numbers as they are shown; NaN has no JSON."""
    shown = {name: words.number(row[name]) for name in ("median", "lowest", "highest")}
    return {**row, **shown, "arm": words.plain(row["arm"]), "metric": words.plain(row["metric"])}


def _microscopes(folder: Folder, shown: Shown) -> None:
    if shown.experiment.microscope is None:
        return
    for each in shown.sets:  # one's own first; where these kept nothing to look at, those that are published
        for record in scopes.chosen_trials(each):
            _microscope(folder, shown, record, alike=each.published)
        if shown.scopes:
            shown.seen = each
            return


def _microscope(folder: Folder, shown: Shown, record: StoredTrial, *, alike: bool) -> None:
    assert shown.experiment.microscope is not None
    name = "/".join(["microscope", *map(slug, shown.name.split("/")), record.digest])

    def make() -> tuple[dict[str, bytes], dict[str, Any]]:
        try:
            made = scopes.scope_chunk(name, shown.experiment, record)
        except Exception as error:  # as for figures
            return {}, {"problem": message(error)}
        return ({} if made is None else {f"data/{name}.js": made}), {"problem": "", "there": made is not None}

    inputs = [_code(shown.experiment), code.name_of(shown.experiment.microscope), fingerprint(record)]
    found = folder.step(f"microscope {shown.name} {record.digest}", inputs, make, alike=alike)
    label = f"{words.plain(record.arm)}, seed {record.seed}" if record.arm else f"seed {record.seed}"
    if found["problem"] or found["there"]:
        shown.scopes.append({**found, "chunk": name, "label": label, "digest": record.digest})


def _answers(folder: Folder, held: shelf.Shelf, shown: dict[str, Shown]) -> dict[str, Any]:
    sets = {name: each.sets for name, each in shown.items()}

    def make() -> tuple[dict[str, bytes], dict[str, Any]]:
        cells = {
            paper.id: {question: questions.cell(paper, question, sets) for question in QUESTIONS}
            for paper in held.papers
            if paper.answers
        }
        table = questions.as_data(cells)
        measured = any(each["value"] is not None for row in table.values() for each in row.values())
        files = {"figures/questions.svg": questions.figure(table)} if measured else {}
        files |= {name.replace(".svg", "-dark.svg"): darkened(picture) for name, picture in files.items()}
        return files, {"table": table, "figure": bool(files)}

    read = {f"{paper.id}/{answer.experiment}" for paper in held.papers for answer in paper.answers if answer.read}
    prints = {name: [print for each in sets.get(name, [])[:1] for print in each.prints] for name in read}
    papers = [[paper.id, code_digest(registry.modules()[paper.id])] for paper in held.papers]
    alike = all(each.published for name in read for each in sets.get(name, [])[:1])
    return folder.step("questions", [*site_code(), papers, sorted(prints.items())], make, alike=alike)
