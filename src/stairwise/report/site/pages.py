"""The pages: templates with everything escaped, and a policy that lets a page load nothing but the site itself."""

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

import stairwise
from stairwise import words
from stairwise.lab.contract.verdict import STATUSES
from stairwise.report import ledger
from stairwise.report.site.folder import slug
from stairwise.report.site.formulas import formulas

# `file:` is what 'self' should mean for a page opened from disk, where some browsers give it no meaning
POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self' file:",
        "style-src 'self' file:",
        "img-src 'self' file: data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
)
SCRIPTS = (
    "core.js",
    "tables.js",
    "chart.js",
    "curves.js",
    "gif.js",
    "maps.js",
    "ledger.js",
    "compare.js",
    "margins.js",
)
STYLES = ("site.css", "parts.css", "tables.css")
MEANINGS = {
    "fails": "false inside the hypotheses, not a number, or an exception: a defect of ours until shown otherwise",
    "not-reproduced": "an empirical criterion written down before the run was not met",
    "refuted": "false as printed, inside its hypotheses",
    "misprint": "a slip in print; what is meant is plain",
    "outside": "the hypotheses are not met at these sizes: no evidence either way",
    "vacuous": "the bound is trivially true at these sizes",
    "reported": "measured; the statement has no pass line",
    "holds": "true, inside the hypotheses; a margin above 1 is good",
    "skipped": "no verdict in the store",
}


class Pages:
    """Renders templates; `depth` is how many folders deep a page lies, which its links must know."""

    def __init__(self, stories: Sequence[str] = (), docs: str = ""):
        self.stories, self.docs = stories, docs
        self.environment = Environment(
            loader=PackageLoader("stairwise.report"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.environment.globals |= {
            "policy": POLICY,
            "version": stairwise.__version__,
            "statuses": STATUSES,
            "symbols": ledger.SYMBOLS,
            "meanings": MEANINGS,
            "cell": cell,
            "number": words.number,
            "plain": words.plain,
            "typeset": formulas,
            "stories": stories,
            "docs": docs,
            "required": lambda verdict: typeset(words.required(verdict)),
            "margin": lambda verdict: typeset(words.margin(verdict)),
            "duration": words.duration,
            "moment": words.moment,
            "paper_page": lambda id: f"papers/{slug(id)}/index.html",
            "experiment_page": experiment_page,
            "claim_page": claim_page,
            "microscope_page": microscope_page,
        }

    def render(self, template: str, name: str, **values: Any) -> bytes:
        """The page that will lie at `name`."""
        root = "../" * name.count("/")
        text = self.environment.get_template(template).render(root=root, here=name, **values)
        return text.encode("utf-8", "replace")


def _page(folder: str, name: str) -> str:
    paper, _, id = name.partition("/")
    return f"{folder}/{slug(paper)}/{slug(id)}.html"


def experiment_page(name: str) -> str:
    paper, _, id = name.partition("/")
    return f"papers/{slug(paper)}/{slug('index-' if id == 'index' else id)}.html"


def claim_page(name: str) -> str:
    return _page("claims", name)


def microscope_page(name: str) -> str:
    return _page("microscope", name)


def assets() -> dict[str, bytes]:
    """The one script and the one style sheet, each put together from files of a readable size."""
    folder = files("stairwise.report").joinpath("assets")

    def together(names: tuple[str, ...]) -> bytes:
        return "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in names).encode()

    return {"assets/stairwise.js": together(SCRIPTS), "assets/stairwise.css": together(STYLES)}


def typeset(text: str) -> str:
    return text.replace("<=", "≤").replace(">=", "≥").replace("x", "×")


def cell(value: Any) -> str:
    """A cell of a verdict's table."""
    if value is None:
        return "-"
    return words.number(value) if isinstance(value, float) else words.plain(value)
