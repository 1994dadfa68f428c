"""The site in a real browser: opened from disk with the network off, every page, every control, hostile text and all.

The browser is Debian's or Ubuntu's chromium ($CHROMIUM names another one), driven by Playwright.
"""

import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from stairwise.lab.contract.experiment import Trial
from stairwise.lab.contract.verdict import Verdict
from stairwise.lab.store.store import Store
from stairwise.report import pictures
from stairwise.report.site.build import build
from stairwise.train.stage import Outcome
from tests.report import tiny
from tests.report.site import pages
from tests.slow.browsing import Visit

pytestmark = pytest.mark.slow
SHOWN = "<script>alert('stairwise')</script>[/red]?[31m&\"'"
SECONDS = 2.0


@pytest.fixture(scope="module")
def only_tiny():
    with pytest.MonkeyPatch.context() as patch:
        tiny.alone(patch)
        yield


@pytest.fixture(scope="module")
def site(tmp_path_factory, only_tiny) -> Path:
    """Two runs and some verdicts, with hostile text wherever a run folder has room for text."""
    folder = tmp_path_factory.mktemp("site")
    store = Store.open(folder / "store")
    run = {**tiny.RUN, "device": {"kind": tiny.HOSTILE}, "versions": {tiny.HOSTILE: tiny.HOSTILE}}
    trials = tiny.fill(store, metric=tiny.HOSTILE, run=run)
    more = [Trial(trial.experiment, trial.config, 7 + trial.seed, tiny.HOSTILE) for trial in trials]
    for trial in more:
        store.write(trial, tiny.outcome(trial, "loss"), run)
    tiny.keep_run(store, [trial.digest for trial in more], tiny.HOSTILE, preset=tiny.HOSTILE)
    detail = {tiny.HOSTILE: tiny.HOSTILE}
    case = {"case": "default sizes", "seed": 0, "status": "refuted", "margin": 2.0}
    refuted = Verdict("refuted", 1, 2, note=tiny.HOSTILE, hypotheses=(tiny.HOSTILE,), details=(detail,), cases=(case,))
    tiny.keep(store, "tiny/thm1", refuted)
    tiny.keep(store, "tiny/thm2", Verdict.at_most(1, 2))
    for steps in (40, 80):
        tiny.keep(store, "tiny/thm1", Verdict.at_most(1, steps), f"{steps:020d}", sizes={"steps": steps})
    (store.root / "trials/tiny/walk/stray.txt").write_text("stray")
    return build(store, folder / "site").parent


@pytest.fixture
def visit(browser, site):
    with Visit(browser, site) as made:
        yield made
        assert made.complaints == []


def test_every_page_opens_from_disk_within_two_seconds_and_without_complaint(visit, site):
    names = list(pages(site))
    assert len(names) > 10
    visit.open("index.html")
    slow = [name for name in names if visit.open(name) > SECONDS and visit.open(name) > SECONDS]
    assert slow == []


def test_pages_and_script_keep_to_their_sizes(site):
    sizes = {path.relative_to(site).as_posix(): path.stat().st_size for path in site.rglob("*") if path.is_file()}
    assert sizes["assets/stairwise.js"] < 1_500_000
    assert {name: size for name, size in sizes.items() if size > 1_000_000 and not name.startswith("assets/")} == {}


def test_clicking_from_the_first_page_reaches_every_page(visit, site):
    visit.open("index.html")
    seen, waiting = set(), ["index.html"]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        visit.open(name)
        root = site.as_uri() + "/"
        links = visit.page.eval_on_selector_all("a[href]", "all => all.map((a) => a.href.split('#')[0])")
        waiting += [link.removeprefix(root) for link in links if link.startswith(root) and link.endswith(".html")]
    assert seen == set(pages(site))


def test_the_slider_changes_the_picture_and_play_runs_to_the_end(visit):
    visit.open("microscope/tiny/walk.html")
    page = visit.page
    picture = "document.querySelector('.plate canvas').toDataURL()"
    marker = "document.querySelector('.stage .cursor').getAttribute('x1')"
    last, place = page.evaluate(picture), page.evaluate(marker)
    page.focus("#frame")
    page.keyboard.press("ArrowLeft")
    assert page.inner_text(".player output") == "start"
    assert page.evaluate(picture) != last
    assert page.evaluate(marker) != place
    page.click(".play")
    visit.until("document.querySelector('.player output').textContent === 'end'")
    visit.until("document.querySelector('.play').textContent.includes('Play')")
    assert page.evaluate(picture) == last


def test_a_frame_of_the_microscope_has_an_address(visit):
    visit.open("microscope/tiny/walk.html")
    page = visit.page
    page.focus("#frame")
    page.keyboard.press("ArrowLeft")
    trial, address = page.input_value("#trial"), page.evaluate("location.hash")
    assert address == f"#trial={trial.rpartition('/')[2]}&frame=0"
    other = page.evaluate("[...document.querySelectorAll('#trial option')].at(-1).value")
    page.select_option("#trial", other)
    visit.until(f"location.hash === '#trial={other.rpartition('/')[2]}'")
    visit.until("document.querySelector('.player output').textContent === 'end'")  # the trial has yet to be read
    visit.open(f"microscope/tiny/walk.html{address}")
    assert page.inner_text(".player output") == "start"
    assert page.input_value("#trial") == trial
    visit.open("microscope/tiny/walk.html#trial=none&frame=99")  # what is not there is passed over
    assert page.inner_text(".player output") == "end"


def test_the_overlay_can_be_switched_and_a_cell_read_by_pointer_and_by_keys(visit):
    visit.open("microscope/tiny/walk.html")
    page = visit.page
    assert page.locator(".plate .ring").count() == 2
    page.uncheck("text=predicted structure")
    assert page.locator(".plate .ring").count() == 0
    box = page.locator(".plate canvas").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.75)
    reading = page.inner_text(".reading")
    assert f"row 1 {SHOWN}" in reading
    assert f"column 1 {SHOWN}" in reading
    assert f"predicted: ideal {SHOWN}" in reading
    page.focus(".plate canvas")
    page.keyboard.press("ArrowUp")
    assert f"row 0 {SHOWN}" in page.inner_text(".reading")


def test_the_ledger_filters_by_status_kind_and_text_and_its_address_can_be_linked_to(visit):
    visit.open("ledger.html#status=refuted")
    page = visit.page
    rows = "[...document.querySelectorAll('#ledger tr[data-paper]')].filter((row) => !row.hidden)"
    shown = f"{rows}.map((row) => row.querySelector('a').textContent)"
    assert page.evaluate(shown) == ["thm1"]
    page.select_option("[name=status]", "")
    assert page.evaluate(shown) == ["thm1", "thm2", "fig1"]
    page.select_option("[name=kind]", "exact")
    assert page.evaluate(shown) == ["thm2"]
    page.select_option("[name=kind]", "")
    page.fill("[name=text]", "WALKS converge")
    assert page.evaluate(shown) == ["fig1"]
    assert page.evaluate("location.hash") == "#text=WALKS+converge"
    page.fill("[name=text]", "no such thing")
    assert page.is_visible("#none")
    page.click("#clear")
    page.select_option("[name=order]", "margin")
    assert page.evaluate(shown)[0] == "thm2"


def test_a_heading_of_the_ledger_sorts_by_its_column_forwards_backwards_and_not_at_all(visit):
    visit.open("ledger.html")
    page = visit.page

    def margins() -> list[str]:
        return page.eval_on_selector_all("#ledger tr[data-paper]", "rows => rows.map((row) => row.dataset.margin)")

    printed = margins()
    page.click("#ledger button.sort:has-text('margin')")
    known = [float(each) for each in margins() if each]
    assert known == sorted(known)
    assert page.get_attribute("#ledger th:has-text('margin')", "aria-sort") == "ascending"
    assert "order=margin" in page.evaluate("location.hash")
    page.click("#ledger button.sort:has-text('margin')")
    assert [float(each) for each in margins() if each] == known[::-1]
    page.click("#ledger button.sort:has-text('margin')")
    assert margins() == printed


def test_a_long_ledger_is_folded_by_paper_and_shows_sixty_claims_at_a_time(visit):
    visit.open("ledger.html")
    page = visit.page
    assert not page.is_visible("#ledger tr.fold")  # three claims need no folding
    rows = """[...document.querySelectorAll("#ledger tr[data-paper]")]"""
    page.evaluate(
        f"""() => {{ const [first] = {rows}, copies = Array.from({{ length: 100 }}, () => first.cloneNode(true));
        first.after(...copies); const form = document.getElementById("filters"), copy = form.cloneNode(true);
        form.replaceWith(copy); for (const begin of stairwise.start) begin(); }}"""
    )
    shown = f"{rows}.filter((row) => !row.hidden).length"
    assert page.evaluate(shown) == 0
    page.click("#ledger tr.fold button")
    assert page.evaluate(shown) == 103
    page.click("#ledger tr.fold button")
    assert page.evaluate(shown) == 0
    page.fill("[name=text]", "thm1")
    assert page.evaluate(shown) == 60
    assert page.inner_text("#more") == "Show 41 more of 101"
    page.click("#more")
    assert page.evaluate(shown) == 101
    assert not page.is_visible("#more")


def test_a_table_that_is_wider_than_a_phone_becomes_a_list_with_the_names_of_its_columns(browser, site):
    with Visit(browser, site) as visit:
        visit.page.set_viewport_size({"width": 360, "height": 740})
        visit.open("store.html")
        table = visit.page.locator("main table")
        assert "stacked" in table.get_attribute("class")
        assert visit.page.evaluate("document.querySelector('main table').scrollWidth <= innerWidth")
        cells = table.locator("tbody tr").first.locator("td")
        names = [cell.get_attribute("data-label") for cell in cells.all()]
        assert names == [None, "experiment", "preset", "trials", "took", "command"]
        visit.page.set_viewport_size({"width": 1200, "height": 740})
        visit.until("!document.querySelector('main table').classList.contains('stacked')")


def test_a_claim_shows_its_margins_against_any_size_that_varies(visit):
    visit.open("claims/tiny/thm1.html")
    page = visit.page
    page.wait_for_selector(".margins svg")
    assert page.locator(".margins .dot").count() == 3
    assert page.locator(".margins .level").count() == 1
    assert page.locator(".margins option").all_text_contents() == ["steps"]
    page.focus(".margins svg")
    page.keyboard.press("End")
    assert "steps 80" in page.inner_text(".margins .tip")


def test_the_frames_of_a_microscope_can_be_saved_as_a_gif(visit, tmp_path):
    visit.open("microscope/tiny/walk.html")
    page = visit.page
    with page.expect_download() as waiting:
        page.click("text=Save as GIF")
    waiting.value.save_as(tmp_path / "frames.gif")
    with Image.open(tmp_path / "frames.gif") as film:
        assert film.n_frames == 2
        first = np.asarray(film.convert("RGB"))
        film.seek(1)
        second = np.asarray(film.convert("RGB"))
    assert first.shape == second.shape
    assert np.abs(first.astype(int) - second).max() > 50


def test_curves_have_metrics_logarithmic_axes_arms_to_switch_and_values_to_read(visit):
    visit.open("papers/tiny/walk.html")
    page = visit.page
    lines = page.locator(".curves .seed")
    assert lines.count() == 4
    page.click(".legend-keys button:has-text('fast')")
    visit.until("document.querySelectorAll('.curves .seed').length === 2")
    path = "document.querySelector('.curves .median').getAttribute('d')"
    before = page.evaluate(path)
    page.check("text=log y")
    visit.until(f"{path} !== {before!r}")
    page.select_option(".curves select >> nth=0", "accuracy")
    page.wait_for_selector(".axis-title:has-text('accuracy')")
    page.focus(".curves svg")
    page.keyboard.press("End")
    assert "steps 20" in page.inner_text(".tip")
    assert "0.6667" in page.inner_text(".tip")


def test_two_runs_stand_on_one_axis(visit):
    visit.open("compare.html")
    page = visit.page
    page.select_option(".side.b select >> nth=1", index=1)
    page.wait_for_selector(f".wide td:has-text('preset {SHOWN[:8]}'), .wide td:has-text('run of')")
    assert page.locator("#compare .median").count() == 2
    assert page.locator("#compare .c0.median").count() == page.locator("#compare .c1.median").count() == 1


def test_comparing_opens_with_two_different_things_and_its_address_brings_them_back(visit):
    visit.open("compare.html")
    page = visit.page

    def shown() -> list[str]:
        return [page.input_value(f".side.{name} select >> nth={place}") for name in "ab" for place in range(4)]

    assert shown()[:4] != shown()[4:]
    page.select_option(".side.a select >> nth=3", "accuracy")
    page.check("text=log y")
    page.wait_for_selector(".axis-title:has-text('accuracy')")
    before, address = shown(), page.evaluate("location.hash")
    visit.open(f"compare.html{address}")
    assert shown() == before
    assert page.is_checked("text=log y")
    visit.open("compare.html#a=tiny/walk")
    assert shown()[0] == "tiny/walk"
    assert shown()[:4] != shown()[4:]


def test_hostile_run_names_config_and_metrics_are_shown_as_text(visit):
    for name, selector in (
        ("papers/tiny/walk.html", ".curves select >> nth=0"),
        ("papers/tiny/walk.html", "main"),
        ("store.html", "main"),
        ("ledger.html", "main"),
        ("claims/tiny/thm1.html", "main"),
        ("compare.html", "main"),
    ):
        visit.open(name)
        assert SHOWN in visit.page.locator(selector).first.text_content(), name
        assert visit.page.evaluate("document.querySelectorAll('main script').length") == 0


@pytest.mark.parametrize("options", [{"color_scheme": "dark"}, {"reduced_motion": "reduce"}])
def test_no_page_is_wider_than_a_small_screen(browser, site, options):
    with Visit(browser, site, **options) as visit:
        visit.page.set_viewport_size({"width": 360, "height": 740})
        wide = []
        for name in (
            "index.html",
            "ledger.html",
            "papers/tiny/walk.html",
            "microscope/tiny/walk.html",
            "compare.html",
            "questions.html",
        ):
            visit.open(name)
            if visit.page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                wide.append(name)
        assert wide == []
        assert visit.complaints == []


def test_light_and_dark_can_be_switched_with_the_keyboard(visit):
    visit.open("index.html")
    page, colour = visit.page, "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(colour)
    page.focus("#theme")
    page.keyboard.press("Enter")
    assert page.evaluate(colour) != before


@pytest.mark.quiet
def test_two_hundred_runs_take_less_than_half_a_minute_and_a_second_build_little(tmp_path, only_tiny):
    store = Store.open(tmp_path / "store")
    experiment = tiny.PAPER.experiment("walk")
    steps = np.arange(0, 2000, 10)
    for preset in ("quick", "gpu"):
        tiny.fill(store, preset)
    for seed in range(100, 300):
        trial = Trial(experiment, experiment.presets["quick"].config, seed, "slow")
        made = Outcome(arrays={"weights": np.ones((2, 3))})
        for step in steps.tolist():
            made.add("main", step, {f"metric {k}": np.sin(step / 100 + k + seed) for k in range(8)})
        store.write(trial, made, tiny.RUN)
        tiny.keep_run(store, [trial.digest], f"stairwise run tiny/walk --seeds {seed}")
    began = time.monotonic()
    build(store, tmp_path / "site")
    first = time.monotonic() - began
    began = time.monotonic()
    build(store, tmp_path / "site")
    second = time.monotonic() - began
    assert first < 30
    assert second < first / 2


def test_figures_drawn_by_several_processes_are_those_drawn_by_one(tmp_path, only_tiny):
    store = Store.open(tmp_path / "store")
    records = tuple(store.read(trial) for trial in tiny.fill(store))
    figures = tiny.PAPER.experiment("walk").figures
    jobs = [(figure, records) for figure in figures for _ in range(2)]
    assert len(jobs) >= 2 * pictures.FIGURES_A_PROCESS
    finished = []
    with pictures.drawing(jobs, store=store.root) as drawn:
        made = drawn(finished.append)
    assert made == [pictures.picture(*job) for job in jobs]
    assert finished == [figure for figure, _ in jobs]


def test_the_command_serves_the_site_on_loopback_until_it_is_interrupted(tmp_path):
    store = str(Store.open(tmp_path / "empty").root)
    command = [sys.executable, "-m", "tests.slow.drawing", "report", "--store", store, "--serve"]
    process = subprocess.Popen(
        [*command, "--port", "0", "--out", str(tmp_path / "site")],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # tests in the background ignore it
    )
    try:
        assert process.stdout is not None
        page, serving = process.stdout.readline().strip(), process.stdout.readline()
        assert page == str(tmp_path / "site" / "index.html")
        address = serving.split()[3]
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(address, timeout=10) as answer:
            assert answer.read() == Path(page).read_bytes()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 130
    finally:
        process.kill()
