"""The stories in a real browser: every widget reacts, nothing overflows a phone, and numbers are those of Python."""

import json

import numpy as np
import pytest

from stairwise.lab.contract.manifest import read
from stairwise.papers.composition.theory import literal
from stairwise.papers.lego.claims.lengths import GrowingVocabulary
from stairwise.papers.parity_onestep.theory.census import complete
from stairwise.stories import PAPERS, build, write
from stairwise.stories.numbers.lego import SCORES
from stairwise.tasks.parity import cube
from tests.slow.browsing import Visit

pytestmark = pytest.mark.slow
# what a widget shows: its words, its drawing and the state of its buttons
STATE = "node => node.innerHTML"
MOVE = """node => {
  const to = +node.value === +node.max ? node.min : node.max;
  node.value = to;
  node.dispatchEvent(new Event("input", { bubbles: true }));
}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(tmp_path_factory.mktemp("stories")).parent


@pytest.fixture(params=PAPERS)
def visit(request, browser, folder):
    with Visit(browser, folder) as made:
        made.open(f"{request.param}.html")
        made.paper = request.param  # type: ignore[attr-defined]
        yield made
        assert made.complaints == []


def test_every_control_of_every_widget_changes_what_is_shown(visit):
    for widget in visit.page.query_selector_all(".widget[data-widget]"):
        name = widget.get_attribute("id")
        controls = widget.query_selector_all("input[type=range], .stage button, .stage select")
        assert controls, name
        for place in range(len(controls)):
            found = widget.query_selector_all("input[type=range], .stage button, .stage select")
            if place >= len(found) or found[place].get_attribute("aria-pressed") == "true":
                continue
            control, before = found[place], widget.evaluate(STATE)
            if control.get_attribute("type") == "range":
                control.evaluate(MOVE)
            elif control.evaluate("node => node.tagName") == "SELECT":
                control.select_option(index=0 if control.evaluate("node => node.selectedIndex") else 1)
            elif control.is_disabled():
                continue
            else:
                control.click()
            assert widget.evaluate(STATE) != before, (name, place)


@pytest.mark.parametrize("width", [390, 1400])
def test_nothing_is_wider_than_the_window(visit, width):
    visit.page.set_viewport_size({"width": width, "height": 844})
    visit.until("true")
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
    wide = "[...document.querySelectorAll('.screen *')].filter(n => n.getBoundingClientRect().right > innerWidth + 1"
    wide += " && !n.closest('math, .scroll, .errata p, svg, pre')).map(n => n.outerHTML.slice(0, 80))"
    assert visit.page.evaluate(wide) == []


def test_every_formula_has_a_size(visit):
    flat = (
        "[...document.querySelectorAll('.screen math')].filter(n => n.checkVisibility() && n.offsetHeight < 4).length"
    )
    assert visit.page.evaluate(flat) == 0


def test_the_claims_page_opens_at_its_claim(visit):
    link = visit.page.query_selector(".claim-name a")
    visit.page.goto((visit.site / link.get_attribute("href").partition("#")[0]).as_uri())
    assert visit.page.query_selector_all("section.row")


def test_the_claims_page_shows_the_claims_with_the_words_that_are_looked_for(browser, folder):
    with Visit(browser, folder) as visit:
        visit.open("selection-claims.html")
        visit.page.fill("input.find", "theorem 3.5")
        shown = visit.page.locator("section.row:visible h2").all_inner_texts()
        assert shown
        assert all("Theorem 3.5" in text for text in shown)
        visit.page.fill("input.find", "")
        assert visit.page.locator("section.row:visible").count() == len(read("selection")["claims"])


def test_selection_computes_the_loss_that_python_does(browser, folder):
    checks = build.numbers("selection")["widgets"]["selection-attention"]["checks"]
    with Visit(browser, folder) as visit:
        visit.open("selection.html")
        for check in checks:
            call = f"Story.selection.loss(12, {check['q']}, 1, {check['alpha']}, {check['C']})"
            assert visit.page.evaluate(call) == pytest.approx(check["loss"], rel=1e-9)


def test_lego_computes_the_attention_that_python_does(browser, folder):
    widgets = build.numbers("lego")["widgets"]
    with Visit(browser, folder) as visit:
        visit.open("lego.html")
        for check in widgets["lego-clauses"]["checks"]:
            call = f"Story.lego.misses({check['a']}, {check['length']}, {check['step']})"
            assert visit.page.evaluate(call) == pytest.approx(check["misses"], rel=1e-9)
        for check in widgets["lego-doubling"]["checks"]:
            assert visit.page.evaluate(f"Story.lego.reach({check['a']}, 4)") == pytest.approx(check["length"], rel=1e-9)
        back = "Story.lego.misses(Story.lego.score(16, 0.2), 16, 2)"
        assert visit.page.evaluate(back) == pytest.approx(0.2, rel=1e-9)


@pytest.mark.parametrize("action", ["C6", "S4"])
def test_the_scores_that_the_lego_story_shows_are_those_of_the_descent(action):
    kept = json.loads(SCORES.read_text())[action]
    for size, (_, scores) in zip(
        (64, 128), GrowingVocabulary(action=action, sizes=(64, 128), steps=1024).runs(), strict=True
    ):
        assert np.asarray(scores) == pytest.approx(np.array(kept[str(size)]), abs=2e-3)


def test_composition_hops_as_the_python_oracle_does(browser, folder):
    rng = np.random.default_rng(0)
    hidden, shown = rng.permuted(np.tile(np.arange(4), (2, 4, 1)), axis=2)
    with Visit(browser, folder) as visit:
        visit.open("composition.html")
        for token, hops in ((0, 1), (5, 2), (10, 3), (15, 4)):
            call = (
                f"Story.composition.hop({hidden.tolist()}, {shown.tolist()}, {token // 4}, {token % 4}, {hops}).answer"
            )
            assert visit.page.evaluate(call) == literal.hop(hidden, shown, token, hops)


def test_parity_chains_and_trees_are_those_of_the_tasks(browser, folder):
    with Visit(browser, folder) as visit:
        visit.open("parity_cot.html")
        for bits in cube(4):
            zeros_and_ones = ((1 - bits) // 2).tolist()
            sums = visit.page.evaluate(f"Story.cot.chain({zeros_and_ones}, [3, 0, 1])")
            assert (1 - 2 * np.array(sums)).tolist() == [1, bits[3], bits[3] * bits[0], bits[3] * bits[0] * bits[1]]
        assert visit.page.evaluate("Story.cot.entropy([1, 1, 1])") == pytest.approx(1.0)
        visit.open("parity_onestep.html")
        children = np.array([[1, 2], [4, 7], [8, 9]])
        for bits in cube(8)[::17]:
            assert (
                visit.page.evaluate(f"Story.onestep.complete({bits.tolist()})")
                == complete(children, bits[None])[0].tolist()
            )
        product = (
            "Story.onestep.mean(8, bits => { const x = Story.onestep.complete(bits); return x[10] * x[8] * x[%d]; })"
        )
        assert [visit.page.evaluate(product % other) for other in (9, 1)] == [1, 0]


@pytest.mark.parametrize("threshold", [0.9, 1.5, 2.1])
def test_the_filter_opens_the_right_levels_only_between_1_and_2(browser, folder, threshold):
    with Visit(browser, folder) as visit:
        visit.open("parity_onestep.html")
        gates = [visit.page.evaluate(f"Story.onestep.gates(4, {t}, {threshold})") for t in range(4)]
        right = [[level <= t for level in range(4)] for t in range(4)]
        assert (gates == right) == (1 < threshold < 2)
