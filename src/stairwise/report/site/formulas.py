"""Mathematics of the report, as MathML."""

import re

from markupsafe import Markup, escape

from stairwise.lab.contract import latex
from stairwise.report.site.symbols import explained
from stairwise.stories.mathml import in_text


def formulas(text: str, paper: str = "") -> Markup:
    """A statement with its formulas in MathML; in Unicode where it has something that is unknown there.

    With a paper, pointing at a formula shows what its symbols stand for.

    >>> formulas("at $q$", "selection")
    Markup('at <span class="formula" title="q: number of tokens that the query names"><math><mi>q</mi></math></span>')
    """
    parts = re.split(r"(\$[^$]*\$)", text)
    try:
        return Markup("").join(
            _explained(part, paper) if k % 2 else Markup(in_text(part)) for k, part in enumerate(parts)
        )
    except ValueError:
        return escape(latex.plain(text))


def _explained(formula: str, paper: str) -> Markup:
    title = explained(formula.strip("$"), paper) if paper else ""
    math = Markup(in_text(formula))
    return Markup('<span class="formula" title="{}">{}</span>').format(title, math) if title else math
