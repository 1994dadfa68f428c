"""The documentation site: it builds without a warning, its links and pictures exist, its notebooks run."""

import doctest
import importlib
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt

import stairwise
from stairwise.lab import registry
from stairwise.lab.contract import manifest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src")}


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


@pytest.mark.parametrize("module", ["links", "reference", "code", "published"])
def test_the_examples_in_the_code_of_the_site_are_true(module, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    failed, tried = doctest.testmod(importlib.import_module(f"docs_site.{module}"))
    assert (failed, tried > 0) == (0, True)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("furo", reason="the site needs pip install -e '.[docs]'")
    folder = tmp_path_factory.mktemp("docs")
    sources, out = folder / "sources", folder / "site"
    for command in (
        [sys.executable, "docs/docs_site/write.py", str(sources)],
        [sys.executable, "-m", "sphinx", "-W", "-q", "-c", "docs", "-d", str(folder / "read"), str(sources), str(out)],
    ):
        made = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True)
        assert (made.returncode, made.stderr) == (0, "")
    return out


def test_every_published_claim_that_is_not_reproduced_has_its_line(site):
    made = (site.parent / "sources" / "results" / "published.md").read_text(encoding="utf-8")
    missed = re.findall(r"^\| \[`(\S+)`\]\(\.\./claims/(\w+)\.md\) \|[^|]*\| not reproduced \|", made, re.M)
    page = (ROOT / "docs" / "results" / "not-reproduced.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| `(\S+)` \|", page, re.M)) == sorted(f"{paper}/{claim}" for claim, paper in missed)


@pytest.fixture(scope="module")
def pages(site):
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


def test_every_link_inside_the_site_leads_somewhere_and_every_picture_exists(site, pages):
    broken = []
    for path, page in pages.items():
        for link in page.links:
            if re.match(r"https?:|data:|mailto:", link):
                continue
            file, _, anchor = link.partition("#")
            file = file.partition("?")[0]  # style sheets have versions
            target = (path.parent / unquote(file)).resolve() if file else path
            if not target.is_file() or (anchor and target in pages and unquote(anchor) not in pages[target].anchors):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert broken == []


def test_nothing_is_loaded_from_elsewhere(site):
    loads = re.compile(r'<(?:script|img|link|iframe)\b[^>]*(?:src|href)="?https?://[^>]*>')
    found = [found for path in site.rglob("*.html") for found in loads.findall(path.read_text(encoding="utf-8"))]
    assert found == []


def test_a_papers_pages_say_all_that_its_readme_says(site, pages):
    renderer = MarkdownIt("commonmark", {"html": False}).enable("table")
    for paper in registry.papers():
        readme = (ROOT / "src" / "stairwise" / "papers" / paper.id / "README.md").read_text(encoding="utf-8")
        wanted = re.sub(r"<[^>]*>", " ", renderer.render(re.sub(r"<!--.*?-->|<br>|\$[^$]+\$", " ", readme)))
        words = dict.fromkeys(unescaped(wanted).split())
        folder = site / "papers" / paper.id
        shown = "".join("".join(pages[path].text for path in sorted(folder.glob("*.html"))).split())
        missing = [word for word in words if word not in shown]  # but for formulas, which are typeset
        assert missing == [], missing[:40]


def unescaped(html: str) -> str:
    for code, sign in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&amp;", "&")):
        html = html.replace(code, sign)
    return html


def test_a_claims_page_has_every_claim_with_its_verdict_and_a_link_to_the_code_that_checks_it(site, pages):
    for paper in manifest.built_in():
        read, page = manifest.read(paper), pages[site / "claims" / f"{paper}.html"]
        for claim in read["claims"]:
            assert claim["id"] in page.anchors
            module, _, name = claim["check"].partition(":")
            assert f"../code/{module.removeprefix('stairwise.')}.html#{name}" in page.links
        statuses = {status for cases in read["statuses"].values() for status in cases.values()}
        assert [status for status in statuses if status not in page.text] == []


def test_formulas_are_mathml_and_say_what_their_symbols_stand_for(site):
    text = (site / "claims" / "selection.html").read_text(encoding="utf-8")
    assert "$" not in re.sub(r"<[^>]*>", "", text.partition("<article")[2].partition("</article")[0])
    assert re.search(r'<span class="formula" title="[^"]*T: number of tokens of a sequence[^"]*"><math>', text)


def test_the_gallery_has_every_picture_of_the_results(site, pages):
    kept = sum(1 for _ in (ROOT / "docs" / "results").rglob("*.png"))
    shown = {link for link in pages[site / "gallery.html"].links if link.startswith("_images/")}
    assert len(shown) == kept


def test_every_public_name_of_stairwise_is_in_the_reference_and_no_private_one(site, pages):
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
        for name in ("index.html", "papers/lego/index.html", "gallery.html", "api/train.html"):
            visit.open(name)
            assert visit.page.query_selector("h1")
        visit.until("[...document.images].every(image => image.complete && image.naturalWidth > 0)")
        visit.open("index.html")
        visit.page.fill("input.sidebar-search", "curriculum")
        with visit.page.expect_navigation():
            visit.page.keyboard.press("Enter")
        visit.until("document.querySelectorAll('ul.search li').length > 3")
        assert visit.complaints == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_committed_with_the_outputs_of_its_code_and_loads_stairwise_before_jax(path, monkeypatch):
    nbformat = pytest.importorskip("nbformat", reason="notebooks need pip install -e '.[docs]'")
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    from docs_site.notebooks import is_run

    notebook = nbformat.read(path, as_version=4)
    assert is_run(notebook), "run python docs/docs_site/notebooks.py"
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    outputs = [output for cell in code for output in cell.outputs]
    assert len(outputs) >= 3
    assert all(output.output_type != "error" for output in outputs)
    release = f'"stairwise=={stairwise.__version__}"'
    assert f'source = "../.." if Path("../../pyproject.toml").is_file() else {release}' in code[0].source
    assert "import jax" not in code[0].source


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(path, tmp_path, monkeypatch):
    pytest.importorskip("nbclient", reason="notebooks need pip install -e '.[docs]'")
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    from docs_site.notebooks import execute, page

    monkeypatch.setenv("STAIRWISE_TINY", "1")
    monkeypatch.setenv("STAIRWISE_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    made = page(path.stem, execute(path, tmp_path))
    text = str(made[f"notebooks/{path.stem}.md"])
    if path.stem.startswith("exercise-"):
        shown = "".join(re.findall(r"^```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
        assert "outside" in shown  # the broken assumption
        assert shown.count("holds") >= 2  # the theorem, and a claim of one's own
        return
    assert any(name.endswith(".png") for name in made)
    said = {"first-steps": "100% of all queries right", "change-an-assumption": "simply transitive"}
    said |= {"patching": "step 3: predicted clauses [2, 7], measured [2, 7]"}
    assert said.get(path.stem, "mixture") in text


def test_every_paper_has_an_exercise():
    assert {paper.id for paper in registry.papers() if paper.id != "crossings"} == {
        path.stem.removeprefix("exercise-").replace("-", "_") for path in NOTEBOOKS if "exercise" in path.stem
    }
