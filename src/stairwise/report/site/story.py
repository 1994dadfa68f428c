"""A paper's README as the story of its page: CommonMark with tables, raw HTML shown as text, nothing loaded."""

import re
from importlib import import_module
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markupsafe import Markup

from stairwise.lab import registry
from stairwise.lab.contract.paper import Paper
from stairwise.report.site.formulas import formulas


def render(text: str) -> Markup:
    """Markdown as HTML that holds no more than the renderer put there; formulas between dollars are typeset.

    >>> render("a < b, <script>, *c*")
    Markup('<p>a &lt; b, &lt;script&gt;, <em>c</em></p>\\n')
    >>> "<msub>" in render("$x_0$") and "<msub>" not in render("`$x_0$`")
    True
    """
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table"]).disable(["image", "autolink"])
    parser.inline.ruler.before("escape", "formula", _formula)
    parser.add_render_rule(
        "formula", lambda renderer, tokens, index, options, env: formulas(f"${tokens[index].content}$")
    )
    parser.add_render_rule("link_open", _link_open)
    parser.add_render_rule("link_close", lambda renderer, tokens, index, options, env: "</span>")
    parser.add_render_rule("table_open", lambda renderer, tokens, index, options, env: '<div class="wide"><table>\n')
    parser.add_render_rule("table_close", lambda renderer, tokens, index, options, env: "</table></div>\n")
    return Markup(parser.render(text))


def _formula(state: StateInline, silent: bool) -> bool:
    """What stands between two dollars is a formula."""
    end = state.src.find("$", state.pos + 1) if state.src[state.pos] == "$" else -1
    if end <= state.pos + 1:
        return False
    if not silent:
        state.push("formula", "", 0).content = state.src[state.pos + 1 : end]
    state.pos = end + 1
    return True


def _link_open(renderer, tokens, index, options, env) -> str:
    """A link leads out of the site, so it is shown as what it points to."""
    return Markup('<span class="outside" title="{}">').format(tokens[index].attrs.get("href", ""))


def readme(paper: Paper) -> str:
    """The paper's README.md; empty where it has none."""
    try:
        place = Path(str(import_module(registry.modules()[paper.id]).__file__)).with_name("README.md")
        return place.read_text(encoding="utf-8")
    except (OSError, KeyError, TypeError):
        return ""


def story(paper: Paper) -> tuple[Markup, Markup]:
    """What the README says before its map of statements, and the rest; headings move one level down.

    The first part tells task, model, algorithm, what is proven and what we see; the page puts its figures after it.
    """
    text = re.sub(r"\A#\s.*\n", "", readme(paper)).strip()
    first, _, others = text.partition("\n\n")
    if paper.title in " ".join(first.split()):  # a citation, which the page's head has
        text = others
    told, *rest = re.split(r"(?m)^(?=## (?:Where each statement lives|Errata))", text)
    lowered = [re.sub(r"(?m)^(#{1,4}) ", r"\1# ", part) for part in (told, "".join(rest))]
    return render(lowered[0]), render(lowered[1])
