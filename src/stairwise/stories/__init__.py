"""One page per paper, screen by screen, for reading and touching: `stairwise stories`.

`pages/` holds the text, `questions.md` the questions that it answers, `numbers/` what is computed from the papers' own
formulas when the pages are built, `static/` the style and the widgets.
"""

from stairwise.stories.build import PAPERS, write

__all__ = ["PAPERS", "write"]
