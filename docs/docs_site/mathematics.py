"""Formulas of the site: LaTeX becomes MathML when a page is built; on a paper's pages hovering explains the symbols."""

import re
from html import escape

from stairwise.report.site.symbols import explained, symbols
from stairwise.stories.mathml import typeset

PAGE = re.compile(r"(?:papers|claims)/(\w+)")


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
