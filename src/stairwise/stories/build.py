"""Turns the pages into a folder of static HTML that opens from disk, without a network or fonts."""

import json
import re
from html import escape
from pathlib import Path
from typing import Any

import jinja2
from markdown_it import MarkdownIt

from stairwise import playground
from stairwise.lab.contract.manifest import Manifest, expected, read
from stairwise.stories import source
from stairwise.stories.mathml import in_text, typeset
from stairwise.stories.source import HERE, PAPERS, Screen, Story

MARK = b">Stairwise stories</a>"
TOUCHED = ("widget", "plot", "playground")  # fences that stand beside the text
WORDS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
STRENGTHS = {"inequality": "bound"}


def write(folder: Path) -> Path:
    """Write every story to `folder`, which may be one of an earlier call; returns the first page."""
    return playground.put(folder, files(), MARK)


def files() -> dict[str, bytes]:
    """Every story, with the playground beside it: the files of a folder, by name."""
    found = {f"static/{file.name}": file.read_bytes() for file in (HERE / "static").iterdir()}
    found |= {f"playground/{file.name}": file.read_bytes() for file in playground.STATIC.iterdir()}
    stories = [source.read(paper) for paper in PAPERS]
    pages = {"index.html": _template("index.html").render(stories=stories, title="Stories")}
    for story in stories:
        manifest = read(story.paper)
        pages[f"{story.paper}.html"] = Page(story, manifest, numbers(story.paper)).html(stories)
        pages[f"{story.paper}-claims.html"] = claims_page(story, manifest)
    return found | {name: page.encode() for name, page in pages.items()}


def numbers(paper: str) -> dict[str, Any]:
    """What the page of a paper shows that is computed: plots, facts in the text, and what widgets need.

    It is kept in a file, so that pages are written without the papers or JAX; `stairwise.stories.numbers` makes it.
    """
    return {"facts": {}, "plots": {}, "widgets": {}} | json.loads((HERE / "numbers/kept.json").read_bytes())[paper]


class Page:
    """Renders one story."""

    def __init__(self, story: Story, manifest: Manifest, numbers: dict[str, Any]):
        self.story, self.manifest, self.numbers = story, manifest, numbers
        self.claims = {claim["id"]: claim for claim in manifest["claims"]}
        refuted = sum(claim["kind"] == "refuted" for claim in manifest["claims"])
        self.facts = numbers["facts"] | {"refuted": WORDS[refuted]}
        self.formulas: list[str] = []
        self.beside: list[str] = []
        self.markdown = MarkdownIt("commonmark").enable("table")
        self.markdown.renderer.rules["fence"] = self._fence  # type: ignore[attr-defined]

    def html(self, stories: list[Story]) -> str:
        screens = [{"name": s.name, "title": in_text(s.title)} | self._screen(s) for s in self.story.screens]
        titles = {screen["name"]: screen["title"] for screen in screens}
        return _template("story.html").render(
            story=self.story,
            paper=self.manifest,
            screens=screens,
            stories=stories,
            title=self.story.title,
            questions=[(in_text(q.text), q.screen, titles[q.screen]) for q in self.story.questions],
            numbers=_json({"plots": self.numbers["plots"], "widgets": self.numbers["widgets"]}),
        )

    def _screen(self, screen: Screen) -> dict[str, str]:
        self.beside = []
        text = self.render(screen.text)
        return {"text": text, "touch": self._typeset("".join(self.beside))}

    def render(self, text: str) -> str:
        """Markdown with formulas between dollars and computed numbers between double braces, as HTML."""
        text = re.sub(r"\{\{(\w+)(?::([^}]*))?\}\}", self._fact, text)
        text = re.sub(r"\$\$([^$]+)\$\$", lambda found: self._kept(typeset(found[1], display=True)), text)
        text = re.sub(r"\$([^$]+)\$([.,;:?!)]*)", self._inline_formula, text)
        return self._typeset(self.markdown.render(text))

    def _inline_formula(self, found: re.Match) -> str:
        """A formula, together with the punctuation after it, which must not begin a line."""
        formula = typeset(found[1])
        return self._kept(f'<span class="nb">{formula}{found[2]}</span>' if found[2] else formula)

    def _kept(self, formula: str) -> str:
        """A place holder that Markdown leaves alone."""
        self.formulas.append(formula)
        return f"⟦{len(self.formulas) - 1}⟧"

    def _typeset(self, html: str) -> str:
        return re.sub(r"⟦(\d+)⟧", lambda found: self.formulas[int(found[1])], html)

    def _fact(self, found: re.Match) -> str:
        value = self.facts[found[1]]
        return format(value, found[2]) if found[2] else str(value)

    def _fence(self, tokens, place, options, env) -> str:
        token = tokens[place]
        kind, _, rest = token.info.partition(" ")
        made = getattr(self, f"_{kind}")(rest.strip(), token.content.strip())
        if kind not in TOUCHED:
            return made
        self.beside.append(made)
        return ""

    def _inline(self, text: str) -> str:
        return self.markdown.renderInline(text) if text else ""

    def _sh(self, _: str, text: str) -> str:
        return "".join(command(line) for line in text.splitlines())

    def _claim(self, id: str, text: str) -> str:
        """A statement of the paper, in words of ours, with its claim and the command that checks it."""
        claim = self.claims[id]
        name = claim["statement"][0]
        name = f"Ours: {id.replace('-', ' ')}" if name == "ours" else name[0].upper() + name[1:]
        link = f'<a href="{self.story.paper}-claims.html#{id}">{escape(name)}</a>'
        state = pill(self.story.paper, claim)
        checked = command(f"stairwise verify {self.story.paper}/{id}")
        body = self.markdown.render(text)
        return f'<div class="claim"><p class="claim-name">{link} {state}</p>{body}{checked}</div>'

    def _widget(self, name: str, text: str) -> str:
        return (
            f'<figure class="widget" data-widget="{name}" id="widget-{name}"><div class="stage"></div>'
            f"<figcaption>{self._inline(text)}</figcaption></figure>"
        )

    def _plot(self, name: str, text: str) -> str:
        self.numbers["plots"][name]  # a plot that nothing computes is an error here, not an empty page
        return (
            f'<figure class="widget" data-widget="plot" data-plot="{name}" id="plot-{name}"><div class="stage"></div>'
            f"<figcaption>{self._inline(text)}</figcaption></figure>"
        )

    def _playground(self, query: str, text: str) -> str:
        address = f"playground/index.html#{query}"
        frame = f'<iframe src="{escape(address)}&amp;embed=1" title="Playground: {query}" loading="lazy"></iframe>'
        alone = f'<a href="{escape(address)}">Open the machine by itself.</a>'
        return f'<figure class="widget machine">{frame}<figcaption>{self._inline(text)} {alone}</figcaption></figure>'

    def _errata(self, _: str, text: str) -> str:
        """Every printed statement of the paper that is false inside its own hypotheses."""
        refuted = [claim for claim in self.manifest["claims"] if claim["kind"] == "refuted"]
        return f'<div class="errata">{"".join(self._erratum(claim) for claim in refuted)}</div>'

    def _erratum(self, claim: dict[str, Any]) -> str:
        corrected = self.claims.get(claim["corrected"])
        true = f"<p><b>True:</b> {in_text(corrected['says'])}</p>" if corrected else "<p>No repair is claimed.</p>"
        page = f"{self.story.paper}-claims.html"
        more = f'<a href="{page}#{claim["id"]}">Certificate</a>'
        printed = in_text(re.sub(r"^as printed[,:]?\s*", "", claim["says"]))
        return (
            f"<details><summary>{escape(', '.join(claim['statement']))} <code>{claim['id']}</code></summary>"
            f"<p><b>Printed:</b> {printed}</p>{true}<p>{more}</p></details>"
        )


def claims_page(story: Story, manifest: Manifest) -> str:
    """Every claim of a paper, so that a statement in a story links to its check."""
    folder = HERE.parent / "papers" / story.paper
    rows = []
    for claim in manifest["claims"]:
        certificate = (folder / claim["certificate"]).read_text(encoding="utf-8") if claim["certificate"] else ""
        rows.append(
            {
                "id": claim["id"],
                "name": ", ".join(claim["statement"]) or claim["id"],
                "says": in_text(claim["says"]),
                "pill": pill(story.paper, claim),
                "strength": STRENGTHS.get(claim["strength"], claim["strength"]),
                "of": [name.rpartition(".papers.")[2].replace(":", ".") for name in claim["of"]],
                "certificate": certificate,
                "command": command(f"stairwise verify {story.paper}/{claim['id']}"),
            }
        )
    return _template("claims.html").render(story=story, paper=manifest, claims=rows, title=f"Claims: {story.title}")


def pill(paper: str, claim: dict[str, Any]) -> str:
    """What the recorded checks of a claim found."""
    found = set(expected(f"{paper}/{claim['id']}").values()) - {"outside"}
    later = "needs a model or data" if claim["tier"] == "instant" else f"takes {claim['tier']}"
    word = " and ".join(sorted(found)) or ("empirical" if claim["kind"] == "empirical" else later)
    if claim["kind"] in ("refuted", "misprint", "reported"):
        word = claim["kind"]
    return f'<span class="pill {escape(word.split()[0])}">{escape(word)}</span>'


def command(line: str) -> str:
    """A command with a button that copies it."""
    words = escape(line, quote=False)
    return f'<div class="command"><code>{words}</code><button type="button" class="copy">copy</button></div>'


def _template(name: str) -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"), trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template(name)


def _json(data: Any) -> str:
    """JSON that may stand inside a script element."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
