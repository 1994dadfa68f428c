"""Formulas of the site: LaTeX becomes MathML when a page is built; on a paper's pages hovering explains the symbols."""

import re
import tomllib
from functools import cache
from html import escape

from docs_site.links import ROOT
from stairwise.lab.contract import latex
from stairwise.stories.mathml import typeset

WORDS = re.compile(r"\\(?:mathrm|text|operatorname|mathbb|mathcal|mathsf)\{[^}]*\}")
PAGE = re.compile(r"(?:papers|claims)/(\w+)")


@cache
def symbols(paper: str) -> tuple[dict[str, str], ...]:
    """The symbol table of a paper; empty where it has none."""
    file = ROOT / "src" / "stairwise" / "papers" / paper / "symbols.toml"
    return tuple(tomllib.loads(file.read_text(encoding="utf-8"))["symbols"]) if file.is_file() else ()


def uses(formula: str, symbol: str) -> bool:
    r"""Whether a symbol stands in a formula; the letters of commands and of words do not count.

    >>> uses(r"\sqrt{q} \mathrm{STS}_T", "q"), uses(r"\sqrt{x}", "q"), uses("T_1 + e_{T}", "T"), uses("e_y", "y")
    (True, False, True, True)
    """
    bare = WORDS.sub(" ", formula)
    if len(symbol) == 1:
        bare = re.sub(r"\\[A-Za-z]+", " ", bare)
        return symbol in bare
    return re.search(rf"{re.escape(symbol)}(?![A-Za-z])", bare) is not None


def explained(formula: str, paper: str) -> str:
    """One line per symbol of the formula that the paper's table has."""
    return "\n".join(
        f"{latex.plain('$' + each['symbol'] + '$')}: {each['meaning']}"
        for each in symbols(paper)
        if uses(formula, each["symbol"])
    )


def markup(formula: str, page: str, *, display: bool = False) -> str:
    """The formula as HTML for a page of the site."""
    math = typeset(formula, display=display)
    paper = PAGE.match(page)
    title = explained(formula, paper[1]) if paper else ""
    return f'<span class="formula" title="{escape(title)}">{math}</span>' if title else math


def table(paper: str) -> str:
    """The symbol table as Markdown; empty where the paper has none."""
    rows = [
        f"| ${each['symbol']}$ | {each['meaning']} | {'`' + each['code'] + '`' if 'code' in each else ''} |"
        for each in symbols(paper)
    ]
    return "\n".join(["| symbol | stands for | in the code |", "| --- | --- | --- |", *rows]) if rows else ""


def visit_inline(writer, node) -> None:
    write(writer, node, display=False)


def visit_display(writer, node) -> None:
    write(writer, node, display=True)


def write(writer, node, *, display: bool) -> None:
    """What Sphinx asks of a renderer of mathematics."""
    from docutils import nodes

    writer.body.append(markup(node.astext(), writer.builder.current_docname, display=display))
    raise nodes.SkipNode


def setup(app) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
