"""The documentation site: it builds without a warning, its links and pictures exist, its notebooks run."""

import doctest
import importlib
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt

from stairwise.lab import registry

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "NO_MKDOCS_2_WARNING": "1"}


class Page(HTMLParser):
    """Where a page points to, what it calls its parts, and its words."""

    def __init__(self, path: Path):
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.text = ""
        self.silent = 0
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.links += [found[name] for name in ("href", "src") if found.get(name)]
        self.anchors |= {found[name] for name in ("id", "name") if found.get(name)}
        self.silent += tag in ("script", "style", "nav")

    def handle_endtag(self, tag):
        self.silent -= tag in ("script", "style", "nav")

    def handle_data(self, data):
        self.text += "" if self.silent else data


@pytest.mark.parametrize("module", ["links", "docstrings"])
def test_the_examples_in_the_code_of_the_site_are_true(module, monkeypatch):
    pytest.importorskip("griffe", reason="the site needs pip install -e '.[docs]'")
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    failed, tried = doctest.testmod(importlib.import_module(f"docs_site.{module}"))
    assert (failed, tried > 0) == (0, True)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("material", reason="the site needs pip install -e '.[docs]'")
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    made = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    assert "WARNING" not in made.stderr
    return out


@pytest.fixture(scope="module")
def pages(site):
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


def test_every_link_inside_the_site_leads_somewhere_and_every_picture_exists(site, pages):
    broken = []
    for path, page in pages.items():
        if path.name == "404.html":  # it is served at any address and has absolute links
            continue
        for link in page.links:
            if re.match(r"https?:|data:|mailto:", link):
                continue
            file, _, anchor = link.partition("#")
            target = (path.parent / unquote(file)).resolve() if file else path
            if not target.is_file() or (anchor and target in pages and unquote(anchor) not in pages[target].anchors):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert broken == []


def test_nothing_is_loaded_from_elsewhere(site):
    loads = re.compile(r'<(?:script|img|link|iframe)\b[^>]*(?:src|href)="?https?://[^>]*>')
    found = [found for path in site.rglob("*.html") for found in loads.findall(path.read_text(encoding="utf-8"))]
    assert found == []


def test_a_papers_page_says_all_that_its_readme_says(site, pages):
    renderer = MarkdownIt("commonmark", {"html": False}).enable("table")
    for paper in registry.papers():
        readme = (ROOT / "src" / "stairwise" / "papers" / paper.id / "README.md").read_text(encoding="utf-8")
        wanted = re.sub(r"<[^>]*>", " ", renderer.render(readme))
        words = unescaped(wanted).split()
        shown = "".join(pages[site / "papers" / f"{paper.id}.html"].text.split())
        assert [word for word in words if word not in shown] == []


def unescaped(html: str) -> str:
    for code, sign in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&amp;", "&")):
        html = html.replace(code, sign)
    return html


def test_the_gallery_has_every_picture_of_the_results(site, pages):
    pictures = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs" / "results").rglob("*.png")}
    assert pictures <= set(pages[site / "gallery.html"].links)


def test_every_public_name_of_stairwise_is_in_the_reference_and_no_private_one(site, pages):
    import stairwise

    anchors = {anchor for path, page in pages.items() if path.parent.name == "api" for anchor in page.anchors}
    named = {anchor.rpartition(".")[2] for anchor in anchors if anchor.startswith("stairwise.")}
    assert {name for name in stairwise.__all__ if name != "interop"} <= named  # that one is a package
    assert (site / "api" / "interop.html").is_file()
    assert [name for name in named if name.startswith("_")] == []


def test_every_guide_and_notebook_is_in_the_navigation(site, pages):
    start = {link.partition("#")[0] for link in pages[site / "index.html"].links}
    docs = ROOT / "docs"
    written = [path for folder in ("how-to", "tutorials", "notebooks") for path in sorted((docs / folder).iterdir())]
    for path in written:
        if path.suffix in (".md", ".ipynb") and path.name not in ("README.md", "index.md"):
            assert path.relative_to(docs).with_suffix(".html").as_posix() in start


def test_the_site_can_be_read_and_searched_from_disk_without_a_network(site, browser):
    from tests.slow.browsing import Visit

    with Visit(browser, site) as visit:
        for name in ("index.html", "papers/lego.html", "gallery.html", "api/train.html"):
            visit.open(name)
            assert visit.page.query_selector("h1")
        visit.until("[...document.images].every(image => image.complete && image.naturalWidth > 0)")
        visit.open("index.html")
        visit.page.focus(".md-search__input")
        visit.page.keyboard.type("curriculum")
        visit.until("/^[1-9]/.test(document.querySelector('.md-search-result__meta').textContent.trim())")
        assert visit.complaints == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom_and_is_committed_without_outputs(path, tmp_path, monkeypatch):
    pytest.importorskip("nbclient", reason="notebooks need pip install -e '.[docs]'")
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    from docs_site.notebooks import execute, page

    raw = json.loads(path.read_text())
    assert [cell for cell in raw["cells"] if cell.get("outputs") or cell.get("execution_count")] == []
    monkeypatch.setenv("STAIRWISE_TINY", "1")
    monkeypatch.setenv("STAIRWISE_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    made = page(path.stem, execute(path, tmp_path))
    assert any(name.endswith(".png") for name in made)
    text = str(made[f"notebooks/{path.stem}.md"])
    assert {"first-steps": "100% of all queries right", "change-an-assumption": "simply transitive"}.get(
        path.stem, "mixture"
    ) in text
