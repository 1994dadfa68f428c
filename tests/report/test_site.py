"""The site: complete, self-contained, and not to be fooled by what lies in the store."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import matplotlib.pyplot as plt
import pytest

from stairwise.config import leaves
from stairwise.lab.contract.verdict import STATUSES, Verdict
from stairwise.lab.run.execute import source_hash
from stairwise.lab.store import provenance
from stairwise.lab.store.files import StoreError
from stairwise.lab.store.store import Store
from stairwise.report import pictures
from stairwise.report.site.build import build
from stairwise.report.site.pages import POLICY
from tests.report import tiny
from tests.report.site import Tags, broken_links, built, chunk_of, pages, text_of

WALK = "papers/tiny/walk.html"


def rows(ledger: str) -> list[str]:
    return re.findall(r"<tr data-paper.*?</tr>", ledger, re.DOTALL)


def statuses(ledger: str) -> list[str]:
    return re.findall(r'<tr data-paper="[^"]*" data-status="([^"]*)"', ledger)


def test_an_absent_store_gives_a_site_on_which_every_claim_is_skipped(tmp_path):
    store = Store.open(tmp_path / "nowhere", create=False)
    site = pages(built(store, tmp_path / "out"))
    assert "3 claims of 1 paper" in site["index.html"]
    assert statuses(site["ledger.html"]) == ["skipped"] * 3
    assert "stairwise run tiny/walk</code>" in site[WALK]
    assert not store.root.exists()


def test_an_experiment_that_has_not_run_says_what_it_would_run_compare_and_draw(tmp_path):
    page = pages(built(Store.open(tmp_path / "nowhere", create=False), tmp_path / "out"))[WALK]
    experiment = tiny.PAPER.experiment("walk")
    assert re.findall(r"<h2>(.*?)</h2>", page) == [
        "How to run it", "Claims that it decides", "What it draws", "What it compares", "What can be changed",
    ]  # fmt: skip
    for name, preset in experiment.presets.items():
        assert f"{len(preset.arms)} × {preset.seeds}" in page
        assert name == "quick" or f"--preset {name}" in page
    for figure in experiment.figures:
        assert f"stairwise figure tiny/{figure.id} --run" in page
    for leaf in leaves(experiment.presets["quick"].config):
        assert f"<code>--{leaf.path}</code>" in page


def test_a_paper_without_claims_has_its_pages(tmp_path, monkeypatch):
    monkeypatch.setattr(tiny, "PAPER", replace(tiny.PAPER, claims=()))
    site = pages(built(Store.open(tmp_path / "nowhere", create=False), tmp_path / "out"))
    assert statuses(site["ledger.html"]) == []
    assert "stairwise run tiny/walk</code>" in site[WALK]


def test_every_link_leads_to_a_page_and_a_place_of_the_site(plain_site):
    assert broken_links(plain_site) == []


def test_pages_load_nothing_from_elsewhere_and_hold_no_inline_code(plain_site):
    for name, page in pages(plain_site).items():
        tags = Tags(page)
        assert f'content="{POLICY}"' in page.replace("&#39;", "'"), name
        assert not {tag for tag, _ in tags.tags} & {"iframe", "object", "embed", "base", "style"}, name
        for tag, attributes in tags.tags:
            assert not [each for each in attributes if each.startswith("on") or each == "style"], name
            assert tag != "script" or (attributes["src"] or "").endswith("assets/stairwise.js")
        outside = [each for each in tags.values("href", "src") if re.match(r"[a-z]+:|//", each) and each != "data:,"]
        assert outside == [], name


def test_a_figure_is_drawn_from_the_largest_complete_preset_with_its_provenance(plain_site, store, tmp_path):
    assert "preset quick, 2 seeds" in text_of(pages(plain_site)[WALK])
    tiny.fill(store)
    tiny.fill(store, "gpu")
    text = text_of(pages(built(store, tmp_path / "out"))[WALK])
    assert "preset gpu, 3 seeds" in text
    assert "stairwise run tiny/walk --preset gpu" in text
    assert "seeds 0,1,2 arms 2 ended 6 finished took 9.00 s begun 2023-11-14 22:13 UTC" in text
    assert "device CPU, Abacus, 2 cores versions jax 0.10, python 3.11" in text


def test_config_is_told_in_full_and_arms_by_what_differs(plain_site):
    text = text_of(pages(plain_site)[WALK])
    assert "What differs between arms arm rate slow 0.1 fast 1.0" in text
    assert "Config that they share hops 1,2 kind plain steps 20" in text


def test_an_incomplete_preset_is_shown_as_the_trials_that_there_are(store, tmp_path):
    trials = tiny.PAPER.experiment("walk").trials("quick")
    for trial in trials[1:]:
        store.write(trial, tiny.outcome(trial), tiny.RUN)
    page = pages(built(store, tmp_path / "out"))[WALK]
    assert "<img" not in page
    assert "no preset is complete in the store" in page
    assert "3 other trials" in page


def test_figures_have_an_alternative_text_and_a_large_one_is_made_of_pixels(store, tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "SVG_BYTES", 60_000)
    tiny.fill(store)
    site = built(store, tmp_path / "out")
    images = [attributes for tag, attributes in Tags(pages(site)[WALK]).tags if tag == "img"]
    small, dark, large = [(site / WALK).parent / str(each["src"]) for each in images]
    assert b"<svg" in small.read_bytes()
    assert b"#ffffff" in small.read_bytes()
    assert b"#ffffff" not in dark.read_bytes()
    assert large.read_bytes().startswith(b"\x89PNG")
    assert images[0]["alt"] == "fig1 of tiny: Walks & their ends (2 seeds, preset quick)"


def test_a_figure_that_fails_is_a_line_of_text_and_leaves_the_others_alone(store, tmp_path):
    tiny.fill(store)
    before = plt.get_fignums()
    page = pages(built(store, tmp_path / "out"))[WALK]
    assert page.count('<img class="light"') == page.count('<img class="dark"') == 2
    assert "fig3 could not be drawn: RuntimeError: no such thing: &lt;script&gt;" in page
    assert plt.get_fignums() == before


@pytest.mark.filterwarnings("error:Glyph")
def test_hostile_text_in_the_store_is_shown_as_text(store, tmp_path):
    run = {**tiny.RUN, "device": {"kind": tiny.HOSTILE}, "versions": {tiny.HOSTILE: tiny.HOSTILE}}
    trials = tiny.fill(store, metric=tiny.HOSTILE, run=run)
    detail = {tiny.HOSTILE: tiny.HOSTILE, "lone surrogate": "\ud800"}
    verdict = Verdict("refuted", 1, 2, note=tiny.HOSTILE, hypotheses=(tiny.HOSTILE,), details=(detail,))
    tiny.keep(store, "tiny/thm1", verdict)
    tiny.keep(store, "tiny/thm1", verdict, "b" * 20, sizes={tiny.HOSTILE: tiny.HOSTILE})
    tiny.keep_run(store, [trial.digest for trial in trials[:1]], tiny.HOSTILE)
    site = built(store, tmp_path / "out")
    shown = "<script>alert('stairwise')</script>[/red]?[31m&\"'"
    for page in pages(site).values():
        assert "<script>" not in page
        assert "\x1b" not in page
    found = pages(site)
    assert all(shown in Tags(found[name]).text for name in (WALK, "ledger.html", "claims/tiny/thm1.html", "store.html"))
    for chunk in site.rglob("data/**/*.js"):
        assert b"<" not in chunk.read_bytes()
        chunk_of(chunk)
    ElementTree.parse(site / "figures/tiny/fig1.svg")  # which a control code would make unreadable


def test_the_curves_of_every_seed_and_arm_are_in_the_data(plain_site):
    name, index = chunk_of(plain_site / "data/tiny/walk/index.js")
    assert name == "tiny/walk/index"
    assert [each["name"] for each in index["metrics"]] == ["loss", "accuracy"]  # type: ignore[index]
    members = index["sets"][0]["members"]  # type: ignore[index]
    assert sorted(arm for _, arm in members) == ["fast", "fast", "slow", "slow"]
    _, series = chunk_of(plain_site / "data/tiny/walk/0.js")
    seeds = [trial["seed"] for trial in index["trials"]]  # type: ignore[index]
    for trial, seed in enumerate(seeds):
        axis, values = series["loss"]["of"][str(trial)]  # type: ignore[index]
        assert series["loss"]["steps"][axis] == [0, 10, 20]  # type: ignore[index]
        assert values == [float(f"{1 / (1 + step + seed):.6g}") for step in (0, 10, 20)]


def test_the_ledger_shows_the_newest_verdict_and_the_claims_page_the_others(store, tmp_path):
    tiny.keep(store, "tiny/thm1", Verdict.at_most(5, 1), "a" * 20, checked=1.0)
    newest = Verdict.at_most(1e-13, 1e-12, details=({"n": 3, "gap": 0.25},))
    tiny.keep(store, "tiny/thm1", newest, "b" * 20, checked=3.0)
    tiny.keep(store, "tiny/thm1", Verdict.at_most(7, 1), "c" * 20, checked=2.0)
    tiny.keep(store, "tiny/thm1", Verdict.at_most(2, 1), "d" * 20, checked=9.0, sizes={"steps": 40})
    site = pages(built(store, tmp_path / "out"))
    row = text_of(rows(site["ledger.html"])[0])
    assert row == "✓ holds thm1 lem2 tiny · bound Theorem 1. the walk ends 1e-13 ≤ 1e-12 10×"
    claim = text_of(site["claims/tiny/thm1.html"])
    assert "gap n 0.25 3" in claim
    assert "steps=40 ✗ fails 2 ≤ 1 0.5×" in claim
    assert "steps=20 rate=0.1 hops=1,2 kind=plain" in claim


def test_a_claim_links_to_the_line_of_the_function_that_checks_it(plain_site):
    site = pages(plain_site)
    link = re.search(r'href="\.\./\.\./(code/[^"#]*)#L(\d+)"', site["claims/tiny/thm2.html"])
    assert link is not None
    lines = re.findall(r'<li id="L(\d+)"><code>(.*?)</code></li>', site[link[1]])
    near = [text_of(content) for number, content in lines if 0 <= int(number) - int(link[2]) <= 1]
    assert any(re.sub(r"\s", "", line).startswith("deforder(") for line in near)


def test_pages_of_what_is_printed_and_of_what_is_true_link_to_each_other(plain_site):
    site = pages(plain_site)
    true = site["claims/tiny/thm1.html"]
    assert re.search(r'Corrected: <a href="\.\./\.\./claims/tiny/thm1\.html">', site["claims/tiny/thm2.html"])
    assert re.search(r'Corrects what is printed: <a href="\.\./\.\./claims/tiny/thm2\.html">', true)
    assert "True, but not by the printed argument: a step is missing" in text_of(true)


def test_violated_hypotheses_are_named_and_claims_to_look_at_come_first(store, tmp_path):
    tiny.keep(store, "tiny/thm1", Verdict("refuted", 3, 2, 2 / 3, hypotheses=("eta <= 1/L", "T >= 10")))
    tiny.keep(store, "tiny/thm2", Verdict.at_least(1, 2))
    site = pages(built(store, tmp_path / "out"))
    assert "Hypotheses that are not met at these sizes: eta <= 1/L; T >= 10" in text_of(rows(site["ledger.html"])[0])
    first = site["index.html"][site["index.html"].index("To look at first") :]
    assert re.findall(r'href="claims/([^"]*)"', first) == ["tiny/thm2.html", "tiny/thm1.html"]


def test_every_status_can_be_filtered_by(plain_site):
    ledger = pages(plain_site)["ledger.html"]
    assert all(f"<option>{status}</option>" in ledger for status in STATUSES)


def test_what_other_code_made_is_marked(store, tmp_path):
    tiny.keep(store, "tiny/thm1", Verdict("holds"), source_hash=provenance.source_hash(tiny.__name__))
    tiny.keep(store, "tiny/thm2", Verdict("holds"), source_hash="0" * 64)
    trials = tiny.fill(store)
    tiny.keep(store, "tiny/fig1", Verdict("holds"), inputs=[trial.digest for trial in trials])
    site = pages(built(store, tmp_path / "out"))
    assert ["Made by other code" in row for row in rows(site["ledger.html"])] == [False, True, True]
    assert "4 of 4 trials made by other code than is installed" in site[WALK]
    assert "(4 stale)" in (tmp_path / "out" / "data" / "compare.js").read_text()


def test_what_this_code_made_is_not_marked(store, tmp_path):
    tiny.fill(store, run={**tiny.RUN, "source_hash": source_hash(tiny.PAPER.experiment("walk"))})
    assert not [name for name, page in pages(built(store, tmp_path / "out")).items() if "other code" in page]


def test_damaged_and_foreign_entries_are_listed_with_why_and_not_used(store, tmp_path):
    first, *_ = tiny.fill(store)
    (store.root / "trials/tiny/walk" / first.digest / "metrics.parquet").write_bytes(b"junk")
    (store.root / "trials/tiny/walk/stray.txt").write_text("stray")
    (store.root / "verdicts/tiny/thm1").mkdir(parents=True)
    (store.root / "verdicts/tiny/thm1" / f"{'e' * 20}.json").write_text("{}")
    store.write_verdict("tiny/thm2", "f" * 20, {"verdict": {"status": "splendid"}})
    tiny.keep(store, "gone/thm9", Verdict("holds"))
    site = pages(built(store, tmp_path / "out"))
    text = text_of(site["store.html"])
    assert f"trials/tiny/walk/{first.digest} metrics.parquet: 4 bytes instead of" in text
    assert "trials/tiny/walk/stray.txt is not a trial folder" in text
    assert f"verdicts/tiny/thm1/{'e' * 20}.json {'e' * 20}.json: not" in text
    assert f"verdicts/tiny/thm2/{'f' * 20}.json not a verdict: status='splendid' must be one of" in text
    assert "verdicts/gone/thm9 1: no installed paper has this claim" in text
    assert "<img" not in site[WALK]
    assert statuses(site["ledger.html"]) == ["skipped"] * 3


@pytest.mark.slow
def test_the_same_store_gives_the_same_bytes(store, tmp_path):
    tiny.fill(store)
    tiny.keep(store, "tiny/thm1", Verdict.at_most(1, 2, note="a note"))
    a, b = (built(store, tmp_path / name) for name in ("a", "b"))
    files = [path.relative_to(a) for path in sorted(a.rglob("*")) if path.is_file()]
    assert files == [path.relative_to(b) for path in sorted(b.rglob("*")) if path.is_file()]
    assert [str(path) for path in files if (a / path).read_bytes() != (b / path).read_bytes()] == []


def test_a_place_that_cannot_be_written_to_is_one_line(store, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot write the report to .*file"):
        build(store, tmp_path / "file")


def test_pages_link_to_the_documentation_where_its_address_is_given(store, tmp_path, plain_site):
    tiny.fill(store)
    site = build(store, tmp_path / "site" / "report", docs="../index.html").parent
    (tmp_path / "site" / "index.html").write_text("the documentation")
    for name, page in pages(site).items():
        if not name.startswith("stories/"):
            assert (tmp_path / "site" / "index.html") in {
                ((site / name).parent / target).resolve() for target in Tags(page).values("href")
            }, name
    assert "Documentation" not in pages(plain_site)["index.html"]
