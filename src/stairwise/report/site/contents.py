"""What is on the pages: experiments and papers as they are shown, and every page written from them."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from typing import Any

from markupsafe import Markup

from stairwise import words
from stairwise.config import as_dict, as_flags
from stairwise.lab import registry
from stairwise.lab.contract.answers import QUESTIONS
from stairwise.lab.contract.claims import Claim, place_of
from stairwise.lab.contract.experiment import Experiment
from stairwise.lab.contract.paper import Paper
from stairwise.lab.contract.verdict import STATUSES
from stairwise.lab.ledger import where
from stairwise.lab.store import provenance
from stairwise.report import ledger
from stairwise.report.margins import margins
from stairwise.report.site import code, data, shelf, unchanged
from stairwise.report.site.folder import Folder, slug
from stairwise.report.site.pages import Pages, claim_page, experiment_page, microscope_page
from stairwise.report.site.planned import Plan, planned
from stairwise.report.site.sets import TrialSet
from stairwise.report.site.story import Told, files_linked, module_of, readme, story

ABOUT_ERRATA = "What is printed, what is meant or true instead, and the claim that shows it."
ABOUT_CODE = "Every statement of the paper with the claim that checks it, the check, and the formula under test."


@dataclass
class Shown:
    """An experiment as its pages show it."""

    experiment: Experiment
    sets: list[TrialSet]
    problem: str = ""
    pictures: list[dict[str, Any]] = field(default_factory=list)
    metrics: dict[str, list[str]] = field(default_factory=dict)  # by set
    opens: dict[str, str] = field(default_factory=dict)  # by set: the metric that is shown first
    numbers: list[dict[str, Any]] = field(default_factory=list)
    scopes: list[dict[str, Any]] = field(default_factory=list)
    seen: TrialSet | None = None  # the set that `scopes` are of

    @property
    def name(self) -> str:
        return self.experiment.name

    @property
    def records(self) -> list[Any]:
        """Every trial of every set once; the script knows trials by their place in this list."""
        return list({record.digest: record for each in self.sets for record in each.records}.values())

    @property
    def own(self) -> set[str]:
        """The digests of the trials in one's own store."""
        return {record.digest for each in self.sets if not each.published for record in each.records}

    @property
    def drawn(self) -> TrialSet | None:
        """The set that figures are drawn from: a complete preset of one's own, else a published one."""
        whole = [each for each in self.sets if each.preset in self.experiment.presets and each.complete]
        presets = [each for each in whole if each.id.removeprefix("published-") == each.preset]
        return next(iter(sorted(presets, key=lambda each: each.published)), None)


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


def site_code() -> list[str]:
    """Of what every page depends on besides what it shows."""
    return [code_digest(room) for room in ("stairwise.report", "stairwise.words", "stairwise.lab.store.finals")]


@dataclass
class Section:
    """A paper as its pages show it."""

    paper: Paper
    entries: Sequence[ledger.Entry]
    shown: list[Shown]

    @property
    def counts(self) -> dict[str, int]:
        return words.counted([each.verdict.status for each in self.entries], STATUSES)

    @property
    def trials(self) -> int:
        """How many of one's own there are."""
        return sum(len(each.own) for each in self.shown)

    @property
    def published(self) -> int:
        return sum(len(each.records) for each in self.shown) - self.trials

    @property
    def headlines(self) -> list[dict[str, Any]]:
        drawn = [each for one in self.shown for each in one.pictures if not each["problem"]]
        return [each for each in drawn if each["figure"].headline] or drawn[:1]

    def experiment_of(self, claim: Any) -> str:
        return f"{self.paper.id}/{claim.experiment}" if claim.experiment else ""


def write_pages(
    folder: Folder,
    held: shelf.Shelf,
    shown: dict[str, Shown],
    answers: dict[str, Any],
    pages: Pages,
    wait_for_figures: Callable[[], None],
) -> None:
    """Every page; those with figures come last, since these are being drawn meanwhile."""
    sections = [
        Section(
            paper,
            held.entries(paper),
            [shown[each.name] for each in paper.experiments],
        )
        for paper in held.papers
    ]
    every = [each for section in sections for each in section.entries]

    def put(template: str, name: str, title: str, **values: Any) -> None:
        folder.put(name, pages.render(template, name, title=title, problems=held.problems, **values))

    _code_pages(folder, held, pages)
    for section in sections:
        _claim_pages(folder, held, pages, section)
    plans = {each.name: planned(each.experiment, s.paper) for s in sections for each in s.shown if not each.sets}
    wait_for_figures()

    put(
        "index.html", "index.html", "Stairwise",
        sections=sections, trials=len(held.records),
        counts=words.counted([each.verdict.status for each in every], STATUSES),
        known=sum(each.known for each in every),
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
        _paper_pages(put, section, _told(folder, section.paper), _results(section.paper, pages.docs), plans)


def _results(paper: Paper, docs: str) -> str:
    """The documentation's page of the results of one of our papers, seen from the first page; none of a plug-in's."""
    ours = registry.modules().get(paper.id, "").startswith("stairwise.papers.")
    return f"{docs.removesuffix('index.html')}results/{paper.id}.html" if docs.endswith("index.html") and ours else ""


def _told(folder: Folder, paper: Paper) -> Told:
    """What the paper's README says, as the pages show it."""

    def make() -> tuple[dict[str, bytes], dict[str, str]]:
        return {}, {name: str(text) for name, text in asdict(story(paper, partial(_within, paper))).items()}

    found = folder.step(f"story {paper.id}", [unchanged.installed(), readme(paper)], make, alike=True)
    return Told(**{name: Markup(text) for name, text in found.items()})


def _paper_pages(put: Any, section: Section, told: Told, results: str, plans: Mapping[str, Plan]) -> None:
    paper = section.paper
    folder_of = f"papers/{slug(paper.id)}"
    put("paper.html", f"{folder_of}/index.html", paper.title, section=section, paper=paper, told=told)
    if told.errata:
        put("part.html", f"{folder_of}/errata-.html", "Errata", paper=paper, told=told.errata, about=ABOUT_ERRATA)
    if told.code:
        put(
            "part.html",
            f"{folder_of}/code-.html",
            "Statements in the code",
            paper=paper,
            told=told.code,
            about=ABOUT_CODE,
        )
    for each in section.shown:
        judged = [entry for entry in section.entries if section.experiment_of(entry.claim) == each.name]
        program = code.link(code.place_of(each.experiment.program))
        put(
            "experiment.html", experiment_page(each.name), each.name, shown=each, paper=paper, judged=judged,
            plan=plans.get(each.name), results=results,
            section=section, program=program,
            prefix="/".join(map(slug, each.name.split("/"))),
        )  # fmt: skip
        if each.scopes:
            put("microscope.html", microscope_page(each.name), f"{each.name} under the microscope", shown=each)


def _claim_pages(folder: Folder, held: shelf.Shelf, pages: Pages, section: Section) -> None:
    """The pages of a paper's claims, which change with its verdicts and with the code only."""
    inputs = [unchanged.installed(), held.problems, pages.docs, bool(pages.stories), list(map(_facts, section.entries))]
    alike = not any(entry.stored or entry.elsewhere for entry in section.entries)
    folder.step(f"claims {section.paper.id}", inputs, lambda: (_claims(held, pages, section), None), alike=alike)


def _facts(entry: ledger.Entry) -> list[Any]:
    """What the page of a claim shows of a store."""
    found = [each for each in (entry.stored, *entry.elsewhere) if each is not None]
    stored = [asdict(each) | {"sources": sorted(each.sources)} for each in found]
    return [
        entry.claim.name, entry.claim.says, sizes_of(entry), asdict(entry.verdict), stored, entry.stored is None,
        entry.other_code, entry.known,
    ]  # fmt: skip


def _claims(held: shelf.Shelf, pages: Pages, section: Section) -> dict[str, bytes]:
    paper, neighbours = section.paper, beside([entry.claim.name for entry in section.entries])
    made = {}
    for entry in section.entries:
        place, name = code_of(entry.claim), claim_page(entry.claim.name)
        made[name] = pages.render(
            "claim.html", name, title=entry.claim.name, problems=held.problems,
            entry=entry, claim=entry.claim, paper=paper,
            experiment=section.experiment_of(entry.claim), source=code.link(place), place=place, cases=sizes_of(entry),
            of=[(name.partition(":")[2], link_to(name)) for name in map(place_of, entry.claim.of)],
            hypotheses=hypotheses_of(entry.claim), own_sizes=own_sizes(entry.claim), margins=margins(entry),
            beside=neighbours[entry.claim.name],
        )  # fmt: skip
    return made


def _within(paper: Paper, target: str) -> str:
    """Where a file of the paper's folder, or `a claim or an experiment of it, is shown, seen from the paper's pages."""
    if not target.startswith("`"):
        module = module_of(paper, target)
        return f"../../{code.page_name(module)}" if module and code.fingerprint(module) else ""
    id = target[1:].removeprefix(f"{paper.id}/")
    if any(claim.id == id for claim in paper.claims):
        return f"../../{claim_page(f'{paper.id}/{id}')}"
    if target[1:] != id and any(each.id == id for each in paper.experiments):
        return f"../../{experiment_page(f'{paper.id}/{id}')}"
    return ""


def code_of(claim: Claim) -> tuple[str, int]:
    """Module and line of the function that checks it."""
    function: Any = claim.check or claim.judge
    return code.place_of(function)


def link_to(reference: str) -> str:
    """Where a function that a claim is of stands within the site."""
    return code.link((reference.partition(":")[0], where.place(reference).line))


def sizes_of(entry: ledger.Entry) -> list[str]:
    """The sizes at which the ledger checks a claim."""
    return [
        " ".join(f"{path}={words.plain(value)}" for path, value in words.flat(as_dict(case)).items())
        for case in entry.claim.cases
    ]


def hypotheses_of(claim: Claim) -> list[tuple[str, bool]]:
    """The hypotheses of a claim in words, and whether every case of the ledger meets each; nothing is run."""
    met: dict[str, bool] = {}
    for case in claim.cases:
        try:
            names = claim.hypotheses(case) if callable(claim.hypotheses) else (claim.hypotheses or {})
            unmet = claim.unmet(case)
        except Exception:  # a plug-in's predicate may fail in any way; `verify` says how
            return []
        for name in names:
            shown = words.plain(name).replace("<=", "≤").replace(">=", "≥")
            met[shown] = met.get(shown, True) and name not in unmet
    return list(met.items())


def beside(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """The claims before and after each, in the order of the paper.

    >>> beside(["a", "b"])
    {'a': ('', 'b'), 'b': ('a', '')}
    >>> beside([])
    {}
    """
    edged = ["", *names, ""]
    return {name: (edged[k], edged[k + 2]) for k, name in enumerate(names)}


def own_sizes(claim: Claim) -> str:
    """The flags with which `verify` checks the first case of the ledger: what a reader changes."""
    if not claim.cases or not claim.check:
        return ""
    chosen = words.flat(as_dict(claim.cases[0]))
    return as_flags({path: _flag(value) for path, value in chosen.items() if value not in ("", [], ())})


def _flag(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _compare(folder: Folder, shown: dict[str, Shown]) -> str:
    """The list of all that can be compared, as a chunk."""
    listed = [
        {
            "name": each.name,
            "chunk": "/".join(map(slug, each.name.split("/"))) + "/index",
            "sets": [
                {
                    "id": one.id,
                    "label": f"{one.label} ({one.stale} stale)" if one.stale else one.label,
                    "arms": [words.plain(arm) for arm in one.arms],
                    "metrics": each.metrics[one.id],
                    "opens": each.opens[one.id],
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


def _code_pages(folder: Folder, held: shelf.Shelf, pages: Pages) -> None:
    """Pages of the modules that claims are checked in and that experiments run."""
    papers, problems = held.papers, held.problems
    modules = {code_of(claim)[0] for paper in papers for claim in paper.claims}
    modules |= {place_of(f).partition(":")[0] for paper in papers for claim in paper.claims for f in claim.of}
    modules |= {code.place_of(each.program)[0] for paper in papers for each in paper.experiments}
    modules |= {module for paper in papers for module in files_linked(paper) if code.fingerprint(module)}
    for module in sorted(modules):
        name = code.page_name(module)

        def make(module=module, name=name) -> tuple[dict[str, bytes], None]:
            lines = code.highlighted(module)
            page = pages.render("code.html", name, title=module, problems=problems, module=module, lines=lines)
            return {name: page}, None

        inputs = [*site_code(), code.fingerprint(module), problems, pages.docs, bool(pages.stories)]
        folder.step(f"code {module}", inputs, make, alike=True)
