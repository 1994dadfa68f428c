"""What lemmas of Appendices D to F say along a descent: broken formulas are noticed, hypotheses end where they do."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest

from stairwise.papers.lego import PAPER, figures
from stairwise.papers.lego.claims import inductions as claims
from stairwise.papers.lego.claims import seen
from stairwise.papers.lego.claims.readings import SYMMETRIC
from stairwise.papers.lego.config.dynamics import AttentionRun
from stairwise.papers.lego.theory import inductions, pushes, readings


def at(id, config=None):
    claim = PAPER.claim(id)
    with jax.enable_x64(True):
        return claim.at(claim.cases[-1] if config is None else config, 0)


SHARES = readings.Shares(*(np.array([x]) for x in (0.4, 0.2, 0.3, 0.1)))


def test_what_fits_all_clauses_reads_the_whole_height_and_what_fits_half_of_them_nothing():
    assert readings.second_same(SHARES, 7.0)["g2(y1)"] == 7.0
    even = readings.Shares(*(np.array([0.25]),) * 4)
    assert readings.second_differ(even, 7.0)["g2(y1)"] == 0.0
    assert readings.on_e1(even, 5.0, 2.0)["g2(y1)"] == 0.0


@pytest.mark.parametrize("event", ["E1", "E2", "E3", "E4", "E5", "E6"])
def test_equal_magnitudes_make_a_symmetric_action_read_like_a_simply_transitive_one(event):
    """alpha = beta = B: twice the attention that fits, less all of it."""
    fits = {
        "E1": {"g2(y1)": (0, 2), "g2(y0)": (0, 3), "g1(y0)": (1, 3), "g1(y1)": (1, 2), "both": (0, 1)},
        "E2": {"g2(y1)": (0, 2), "g2(y0)": (0, 1, 3), "g1(y1)": (1, 2), "both": (0, 1)},
        "E3": {"g2(y1)": (0, 2, 3), "g1(y1)": (1, 2, 3), "g(y1)": (2, 3), "both": (0, 1)},
        "E4": {"g2(y1)": (0, 1, 2), "g2(y0)": (0, 1, 3), "both": (0, 1)},
        "E5": {"g2(y1)": (0, 1, 2), "g2(y0)": (0, 3), "g1(y0)": (1, 3), "both": (0, 1)},
        "E6": {"g2(y1)": (0, 1, 2, 3), "g(y1)": (2, 3), "both": (0, 1)},
    }
    found = readings.EVENTS[event](SHARES, 3.0, 3.0)
    assert found.keys() == fits[event].keys()
    for name, clauses in fits[event].items():
        expected = 3.0 * (2 * sum(SHARES[k][0] for k in clauses) - 1)
        assert found[name][0] == pytest.approx(expected)


def test_chances_add_up_with_the_classes_that_are_no_values():
    p, wrong, miss = readings.chances(np.log([9.0]), np.log([3.0]), np.log([2.0]), 4, 10)
    assert p == pytest.approx(9 / (9 + 3 + 2 * 2 + 6))
    assert wrong == pytest.approx(3 / 22)
    assert miss == pytest.approx(13 / 22)


def test_a_fact_holds_until_its_first_break():
    assert inductions.until(np.array([True, True, False, True])) == 2
    assert inductions.until(np.array([True, True])) == 2


@pytest.mark.slow
def test_along_one_run_every_broken_formula_is_noticed_and_the_second_hypothesis_ends_early(monkeypatch):
    """One descent of S_3, compiled once, serves all of it."""
    config = SYMMETRIC[-1]
    assert at("lemE13", config).status == at("lemE31", config).status == at("indE1", config).status == "holds"
    with jax.enable_x64(True):
        times, facts = claims.tracked(config, "1.2.2")
    assert 0 < inductions.until(facts["(d) own - near <= far - c2"]) < len(times)
    assert inductions.until(facts["(a) a + c increases"]) == len(times)
    real, split = dict(readings.EVENTS), pushes.split
    for id, event in (("lemE13", "E1"), ("lemE29", "E5")):
        for broken in (lambda m, a, b, f=real[event]: f(m, a, -b), lambda m, a, b, f=real[event]: f(m, 2 * a, b)):
            monkeypatch.setitem(readings.EVENTS, event, broken)
            assert at(id, config).status == "fails"
    monkeypatch.setattr(pushes, "split", lambda *args: tuple(2 * part for part in split(*args)))
    seen._moments.cache_clear()
    assert at("lemE31", config).status == "fails"
    seen._moments.cache_clear()


def test_the_figure_of_the_hypotheses_shows_where_a_part_ends():
    """A run whose b leaves O(a/d) at step 3 of stage 2.1, in a record that holds what it is told."""
    config = AttentionRun(action="C6")
    a = np.linspace(0.0, 0.15, 6)
    scores = {"a": a, "b": np.where(np.arange(6) < 3, 0.0, 0.01), "c": a / 2, "e": 0 * a}
    record = SimpleNamespace(config=config, series=lambda name: (np.arange(6), scores[name]))
    ends = {(stage, part[:3]): count for stage, part, _, count in figures.inductions.parts(record)}
    assert ends == {("2.1", "(a)"): 6, ("2.1", "(b)"): 6, ("2.1", "(c)"): 3}
    figures.inductions.held([record])
