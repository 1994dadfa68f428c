"""Mathematics of the report, as MathML."""

from markupsafe import Markup, escape

from stairwise.lab.contract import latex
from stairwise.stories.mathml import in_text


def formulas(text: str) -> Markup:
    """A statement with its formulas in MathML; in Unicode where it has something that is unknown there."""
    try:
        return Markup(in_text(text))
    except ValueError:
        return escape(latex.plain(text))
