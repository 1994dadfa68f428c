"""A paper's README as the story of its page: CommonMark with tables, nothing loaded.

Of raw HTML a line break in a cell is one, a comment is left out, and all else is shown as text.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markupsafe import Markup

from stairwise.lab import registry
from stairwise.lab.contract.paper import Paper
from stairwise.report.site.formulas import formulas

BREAK = "<br>"


def render(text: str, to: Callable[[str], str] = lambda target: "") -> Markup:
    """Markdown as HTML that holds no more than the renderer put there; formulas between dollars are typeset.

    `to` says where a file or a name between backticks is shown within the site; what is not is no link.

    >>> render("a < b, <script>, *c*")
    Markup('<p>a &lt; b, &lt;script&gt;, <em>c</em></p>\\n')
    >>> "<msub>" in render("$x_0$") and "<msub>" not in render("`$x_0$`")
    True
    >>> render("<!-- generated -->\\na<br>b")
    Markup('<p>a<br />\\nb</p>\\n')
    """
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table"]).disable(["image", "autolink"])
    parser.inline.ruler.before("escape", "formula", _formula)
    parser.inline.ruler.before("escape", "break", _break)
    parser.add_render_rule(
        "formula", lambda renderer, tokens, index, options, env: formulas(f"${tokens[index].content}$")
    )
    parser.add_render_rule("link_open", lambda renderer, *more: _link_open(to, *more))
    parser.add_render_rule("link_close", lambda renderer, tokens, index, options, env: env["closing"].pop())
    parser.add_render_rule("code_inline", lambda renderer, *more: _code(to, *more))
    parser.add_render_rule("table_open", lambda renderer, tokens, index, options, env: '<div class="wide"><table>\n')
    parser.add_render_rule("table_close", lambda renderer, tokens, index, options, env: "</table></div>\n")
    return Markup(parser.render(re.sub(r"(?m)^<!--.*?-->$", "", text)))


def _break(state: StateInline, silent: bool) -> bool:
    """`<br>`, the only way to begin a line within a cell of a table."""
    if not state.src.startswith(BREAK, state.pos):
        return False
    if not silent:
        state.push("hardbreak", "br", 0)
    state.pos += len(BREAK)
    return True


def _formula(state: StateInline, silent: bool) -> bool:
    """What stands between two dollars is a formula."""
    end = state.src.find("$", state.pos + 1) if state.src[state.pos] == "$" else -1
    if end <= state.pos + 1:
        return False
    if not silent:
        state.push("formula", "", 0).content = state.src[state.pos + 1 : end]
    state.pos = end + 1
    return True


def _link_open(to, tokens, index, options, env) -> str:
    """A link that leads out of the site is shown as what it points to."""
    target = tokens[index].attrs.get("href", "")
    place = to(str(target))
    env.setdefault("closing", []).append("</a>" if place else "</span>")
    if place:
        return Markup('<a href="{}">').format(place)
    return Markup('<span class="away" title="{}">').format(target)


def _code(to, tokens, index, options, env) -> str:
    """A claim or an experiment between backticks leads to its page, unless a link is around it."""
    text = tokens[index].content
    place = "" if env.get("closing") else to(f"`{text}")
    shown = Markup("<code>{}</code>").format(text)
    return Markup('<a href="{}">{}</a>').format(place, shown) if place else shown


def readme(paper: Paper) -> str:
    """The paper's README.md; empty where it has none."""
    try:
        place = Path(str(import_module(registry.modules()[paper.id]).__file__)).with_name("README.md")
        return place.read_text(encoding="utf-8")
    except (OSError, KeyError, TypeError):
        return ""


PLACES = {"## Where each statement lives": "code", "## Errata": "errata"}


@dataclass(frozen=True)
class Told:
    """What a README says, by the page that shows it: the story, what follows it, the errata, the map to the code."""

    story: Markup
    more: Markup
    errata: Markup
    code: Markup


def sections(text: str) -> list[str]:
    """What comes before the first heading, and every section with its heading."""
    return re.split(r"(?m)^(?=## )", text)


def story(paper: Paper, to: Callable[[str], str] = lambda target: "") -> Told:
    """The README, apart from its title and its citation, which the pages have; headings move one level down."""
    text = re.sub(r"\A#\s.*\n", "", readme(paper)).strip()
    first, _, others = text.partition("\n\n")
    if paper.title in " ".join(first.split()):
        text = others
    parts: dict[str, list[str]] = {"story": [], "more": [], "errata": [], "code": []}
    for each in sections(text):
        heading = each.partition("\n")[0]
        if heading in PLACES:
            parts[PLACES[heading]].append(each.partition("\n")[2])
        else:
            parts["more" if any(parts[name] for name in ("errata", "code")) else "story"].append(each)
    lowered = {name: re.sub(r"(?m)^(#{1,4}) ", r"\1# ", "".join(each)) for name, each in parts.items()}
    return Told(**{name: render(each, to) for name, each in lowered.items()})


def files_linked(paper: Paper) -> set[str]:
    """The modules that the README links to."""
    return {
        module for target in re.findall(r"\]\(([^)#]+\.py)\)", readme(paper)) if (module := module_of(paper, target))
    }


def module_of(paper: Paper, target: str) -> str:
    """The module of a file beside the README; empty where it is none."""
    if not target.endswith(".py") or ".." in target or target.startswith("/"):
        return ""
    inner = target.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return f"{registry.modules()[paper.id]}.{inner}"
