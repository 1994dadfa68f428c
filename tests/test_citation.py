"""CITATION.cff: the software, and every paper by title, year and authors."""

from pathlib import Path

import pytest

from stairwise import __version__
from stairwise.lab import registry

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
CITATION = yaml.safe_load((Path(__file__).parents[1] / "CITATION.cff").read_text())


def test_the_software_is_cited_by_name_version_and_license():
    assert CITATION["cff-version"] == "1.2.0"
    assert (CITATION["type"], CITATION["title"], CITATION["license"]) == ("software", "Stairwise", "Apache-2.0")
    assert CITATION["authors"] == [{"name": "The Stairwise developers"}]
    assert CITATION["version"] == __version__


def test_all_five_papers_are_referred_to_with_their_authors():
    cited = {reference["title"]: reference for reference in CITATION["references"]}
    papers = [paper for paper in registry.papers() if paper.id != "crossings"]
    assert cited.keys() == {paper.title for paper in papers}
    for paper in papers:
        reference = cited[paper.title]
        initials = [
            f"{' '.join(name[0] + '.' for name in author['given-names'].split())} {author['family-names']}"
            for author in reference["authors"]
        ]
        assert ", ".join(initials) == paper.authors
        assert reference["year"] == paper.year
        assert reference.get("url", "").removeprefix("https://arxiv.org/abs/") == paper.arxiv
