"""The page of predicted hours is the one that the presets say."""

import sys
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"


def test_the_page_of_paper_presets_is_up_to_date(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(DOCS), *sys.path])
    from docs_site import paper_presets

    assert paper_presets.PAGE.read_text() == paper_presets.page(), "run docs/docs_site/paper_presets.py"
