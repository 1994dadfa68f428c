"""The site of every paper that is installed, over an empty store: stories, claims and code in a real browser."""

from pathlib import Path

import pytest

from stairwise.lab import registry
from stairwise.lab.store.store import Store
from stairwise.report.site.build import build
from tests.report.site import broken_links, pages
from tests.slow.browsing import Visit

pytestmark = [pytest.mark.slow, pytest.mark.quiet]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("papers")
    return build(Store.open(folder / "nowhere", create=False), folder / "site").parent


def test_every_link_resolves_and_every_claim_and_experiment_has_a_page(site):
    assert broken_links(site) == []
    found = pages(site)
    for paper in registry.papers():
        assert f"papers/{paper.id}/index.html" in found
        assert all(f"claims/{claim.name}.html" in found for claim in paper.claims)
        assert all(f"papers/{each.name}.html" in found for each in paper.experiments)


def test_every_paper_tells_its_story_in_order(site):
    for paper in registry.papers():
        story = pages(site)[f"papers/{paper.id}/index.html"].lower()
        places = [story.find(word) for word in ("task", "model", "algorithm", "prove", "what we see")]
        assert -1 not in places, paper.id


def test_every_paper_answers_the_questions(site):
    assert [paper.id for paper in registry.papers() if not paper.answers] == ["crossings"]  # which is no paper


def test_large_pages_open_within_two_seconds_and_without_complaint(browser, site):
    largest = sorted(pages(site), key=lambda name: (site / name).stat().st_size)[-12:]
    with Visit(browser, site) as visit:
        visit.open("index.html")
        assert [name for name in largest if visit.open(name) > 2 and visit.open(name) > 2] == []
        assert visit.complaints == []
