"""The report: one page that is complete, self-contained, and not to be fooled by what lies in the store."""

import base64
import hashlib
import html
import re
from html.parser import HTMLParser
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from stairwise.lab import provenance
from stairwise.lab.contract import STATUSES, Verdict
from stairwise.lab.files import StoreError
from stairwise.lab.store import Store
from stairwise.report import pictures
from stairwise.report.page import build
from tests.report import tiny


class Tags(HTMLParser):
    """Every tag of a page with its attributes, and the text between tags."""

    def __init__(self, page: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def images(self) -> list[str]:
        return [attributes["src"] or "" for tag, attributes in self.tags if tag == "img"]


def page_of(store: Store, out: Path) -> str:
    return build(store, out).read_text(encoding="utf-8")


def row_of(page: str, claim: str) -> str:
    row = page[page.index(f'<tr id="{claim}"') :]
    return text_of("<tr id=" + re.split(r"<tr id=|</main>", row)[1])


def text_of(page: str) -> str:
    """A piece of the page as text, spaces and line breaks made even."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page)).split())


def statuses(page: str) -> list[str]:
    return re.findall(r'<tr id="[^"]*" data-status="([^"]*)"', page)


def test_an_absent_store_gives_a_page_on_which_every_claim_is_skipped(tmp_path):
    store = Store.open(tmp_path / "nowhere", create=False)
    page = page_of(store, tmp_path / "out")
    assert "3 claims of 1 paper" in page
    assert statuses(page) == ["skipped"] * 3
    assert "stairwise run tiny/walk --preset quick" in page
    assert not store.root.exists()


def test_the_page_refers_to_nothing_outside_itself_and_runs_nothing(store, tmp_path):
    tiny.fill(store)
    page = page_of(store, tmp_path)
    tags = Tags(page)
    assert not {tag for tag, _ in tags.tags} & {"script", "link", "iframe", "object", "embed", "svg", "base", "form"}
    assert "http://" not in page
    assert "https://" not in page
    assert "url(" not in page
    assert "@import" not in page
    for _, attributes in tags.tags:
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        assert (attributes.get("src") or "data:image/").startswith("data:image/")
        assert (attributes.get("href") or "#").startswith("#")


def test_the_pages_own_policy_allows_its_style_sheet_and_no_script(store, tmp_path):
    page = page_of(store, tmp_path)
    style = re.search(r"<style>(.*)</style>", page, re.DOTALL)
    assert style is not None
    allowed = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert f"default-src 'none'; img-src data:; style-src 'sha256-{allowed}'" in page


def test_a_figure_is_drawn_from_the_largest_complete_preset_with_its_provenance(store, tmp_path):
    tiny.fill(store)
    assert "<dd>quick</dd>" in page_of(store, tmp_path)
    tiny.fill(store, "gpu")
    page = page_of(store, tmp_path)
    assert "<dd>quick</dd>" not in page
    text = text_of(page)
    assert "stairwise run tiny/walk --preset gpu" in text
    assert "seeds 3, in each of 2 arms wall time 9.00 s run 2023-11-14 22:13 UTC" in text
    assert "device CPU, Abacus, 2 cores versions jax 0.10, python 3.11" in text


def test_an_incomplete_preset_is_not_drawn(store, tmp_path):
    trials = tiny.PAPER.experiment("walk").trials("quick")
    for trial in trials[1:]:
        store.write(trial, tiny.outcome(trial), tiny.RUN)
    page = page_of(store, tmp_path)
    assert Tags(page).images() == []
    assert "4 figures whose trials are not in the store" in page


def test_figures_are_inlined_with_an_alternative_text_and_a_large_one_as_pixels(store, tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "SVG_BYTES", 60_000)
    tiny.fill(store)
    tags = Tags(page_of(store, tmp_path))
    small, large = tags.images()
    assert b"<svg" in base64.b64decode(small.removeprefix("data:image/svg+xml;base64,"))
    assert base64.b64decode(large.removeprefix("data:image/png;base64,")).startswith(b"\x89PNG")
    alternatives = [attributes["alt"] for tag, attributes in tags.tags if tag == "img"]
    assert alternatives[0] == "fig1 of tiny: Walks & their ends (2 seeds, preset quick)"


def test_a_figure_that_fails_is_a_line_of_text_and_leaves_the_others_alone(store, tmp_path):
    tiny.fill(store)
    before = plt.get_fignums()
    page = page_of(store, tmp_path)
    assert len(Tags(page).images()) == 2
    assert "fig3 could not be drawn: RuntimeError: no such thing: &lt;script&gt;" in page
    assert plt.get_fignums() == before


@pytest.mark.filterwarnings("ignore:Glyph")
def test_hostile_text_in_the_store_is_shown_as_text(store, tmp_path):
    run = {**tiny.RUN, "device": {"kind": tiny.HOSTILE}, "versions": {tiny.HOSTILE: tiny.HOSTILE}}
    tiny.fill(store, metric=tiny.HOSTILE, run=run)
    detail = {tiny.HOSTILE: tiny.HOSTILE, "lone surrogate": "\ud800"}
    verdict = Verdict("refuted", 1, 2, note=tiny.HOSTILE, hypotheses=(tiny.HOSTILE,), details=(detail,))
    tiny.keep(store, "tiny/thm1", verdict)
    tiny.keep(store, "tiny/thm1", verdict, "b" * 20, sizes={tiny.HOSTILE: tiny.HOSTILE})
    page = page_of(store, tmp_path)
    assert "<script" not in page
    assert "\x1b" not in page
    shown = "<script>alert('stairwise')</script>[/red]?[31m&\"'"
    assert Tags(page).text.count(shown) >= 8
    # a control code would make an SVG unreadable
    assert Tags(page).images()[0].startswith("data:image/png")


def test_the_ledger_shows_the_newest_verdict_at_default_sizes_and_the_others_apart(store, tmp_path):
    tiny.keep(store, "tiny/thm1", Verdict.at_most(5, 1), "a" * 20, checked=1.0)
    tiny.keep(
        store, "tiny/thm1", Verdict.at_most(1e-13, 1e-12, details=({"n": 3, "gap": 0.25},)), "b" * 20, checked=3.0
    )
    tiny.keep(store, "tiny/thm1", Verdict.at_most(7, 1), "c" * 20, checked=2.0)
    tiny.keep(store, "tiny/thm1", Verdict.at_most(2, 1), "d" * 20, checked=9.0, sizes={"steps": 40})
    row = row_of(page_of(store, tmp_path), "tiny/thm1")
    assert row.startswith("✓ holds thm1 lem2 bound the walk ends details")
    assert "gap n 0.25 3" in row
    assert "steps=40 fails 2 ≤ 1 0.5×" in row
    assert row.endswith("1e-13 ≤ 1e-12 10× 0.50 s")


def test_violated_hypotheses_are_named_and_claims_to_look_at_come_first(store, tmp_path):
    tiny.keep(store, "tiny/thm1", Verdict("refuted", 3, 2, 2 / 3, hypotheses=("eta <= 1/L", "T >= 10")))
    tiny.keep(store, "tiny/thm2", Verdict.at_least(1, 2))
    page = page_of(store, tmp_path)
    assert "Hypotheses violated at these sizes: eta <= 1/L; T >= 10" in row_of(page, "tiny/thm1")
    first = page[page.index("To look at first") : page.index("</header>")]
    assert re.findall(r'href="#([^"]*)"', first) == ["tiny/thm2", "tiny/thm1"]


def test_every_status_can_be_filtered_by(store, tmp_path):
    for position, status in enumerate(STATUSES):
        tiny.keep(store, "tiny/thm1", Verdict(status), checked=float(position))
        page = page_of(store, tmp_path)
        assert f'id="show-{status}"' in page
        assert f'body:has(#show-{status}:checked) tr[data-status]:not([data-status="{status}"])' in page


def test_what_other_code_made_is_marked(store, tmp_path):
    current = provenance.source_hash(tiny.NAME)
    tiny.keep(store, "tiny/thm1", Verdict("holds"), source_hash=current)
    tiny.keep(store, "tiny/thm2", Verdict("holds"), source_hash="0" * 64)
    trials = tiny.fill(store)
    tiny.keep(store, "tiny/fig1", Verdict("holds"), inputs=[trial.digest for trial in trials])
    page = page_of(store, tmp_path)
    marks = ["Made by other code" in row_of(page, f"tiny/{claim}") for claim in ("thm1", "thm2", "fig1")]
    assert marks == [False, True, True]
    assert "4 of 4 trials made by other code than is installed" in page


def test_what_this_code_made_is_not_marked(store, tmp_path):
    tiny.fill(store, run={**tiny.RUN, "source_hash": provenance.source_hash(tiny.NAME)})
    assert "other code" not in page_of(store, tmp_path)


def test_damaged_and_foreign_entries_are_listed_with_why_and_not_used(store, tmp_path):
    first, *_ = tiny.fill(store)
    (store.root / "trials/tiny/walk" / first.digest / "metrics.parquet").write_bytes(b"junk")
    (store.root / "trials/tiny/walk/stray.txt").write_text("stray")
    (store.root / "verdicts/tiny/thm1").mkdir(parents=True)
    (store.root / "verdicts/tiny/thm1" / f"{'e' * 20}.json").write_text("{}")
    store.write_verdict("tiny/thm2", "f" * 20, {"verdict": {"status": "splendid"}})
    tiny.keep(store, "gone/thm9", Verdict("holds"))
    page = page_of(store, tmp_path)
    text = text_of(page[page.index('<section id="store"') :])
    assert f"trials/tiny/walk/{first.digest} metrics.parquet: 4 bytes instead of" in text
    assert "trials/tiny/walk/stray.txt is not a trial folder" in text
    assert f"verdicts/tiny/thm1/{'e' * 20}.json {'e' * 20}.json: not" in text
    assert f"verdicts/tiny/thm2/{'f' * 20}.json not a verdict: status='splendid' must be one of" in text
    assert "verdicts/gone/thm9 1: no installed paper has this claim" in text
    assert Tags(page).images() == []
    assert statuses(page) == ["skipped"] * 3


def test_the_same_store_gives_the_same_bytes_but_for_the_time(store, tmp_path):
    tiny.fill(store)
    tiny.keep(store, "tiny/thm1", Verdict.at_most(1, 2, note="a note"))
    pages = [build(store, tmp_path / name).read_text() for name in ("a", "b")]
    stamp = re.compile(r'<time datetime="[^"]*">[^<]*</time>')
    a, b = (stamp.subn("", page) for page in pages)
    assert a == b
    assert a[1] == 1


def test_the_page_is_replaced_whole_and_nothing_else_is_left_behind(store, tmp_path):
    out = tmp_path / "new" / "folder"
    first = build(store, out)
    first.write_text("old")
    second = build(store, out)
    assert second == first == out / "index.html"
    assert second.read_text().startswith("<!doctype html>")
    assert second.read_text().rstrip().endswith("</html>")
    assert [path.name for path in out.iterdir()] == ["index.html"]


def test_a_place_that_cannot_be_written_to_is_one_line(store, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot write the report to .*file"):
        build(store, tmp_path / "file")
