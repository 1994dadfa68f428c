"""The claims about groups, task, model and gradients: each at a size its ledger does not list, and its bad sizes."""

import jax
import pytest

from stairwise.lab.config import ConfigError, update
from stairwise.papers.lego import PAPER

HOLD = {
    "def2.1-word": {"actions": ("A4", "C7", "<[[1,2,3,0],[2,1,0,3]]>"), "words": 20, "length": 9},
    "thm2.1-barrington": {"actions": ("S6", "D7", "C12", "[[1,2,0],[0,1,2]]")},
    "factC1-fiber": {"actions": ("D7", "A6", "C4-regular")},
    "ev-E": {"actions": ("A4", "D5")},
    "sec6.3-parity": {"words": 40, "length": 33},
    "factD1": {"task.action": "C2", "task.length": 3, "neurons": 2, "samples": 3, "q": 3, "clip": 2.0},
    "lemF1": {"task.action": "D4", "task.variables": 5, "task.length": 3, "samples": 3},
    "lemD3": {"task.action": "Q8"},
    "lemE3": {"task.action": "D5", "clip_factor": 7.0},
    "lemD7": {"task.action": "C7", "samples": 5},
    "lemF3": {"task.length": 3, "samples": 5, "scores": (2.0, 0.5, -1.0, 0.0)},
    "lemF8": {"task.action": "A4", "task.length": 3, "samples": 6, "scores": (2.0, 0.5, 1.0, 0.0)},
    "factF1": {"task.action": "S4", "samples": 6},
    "factB1": {"task.action": "C4", "rho": 0.7},
    "factB2": {"tokens": (17,), "clip_factor": 1.5, "values": 5, "draws": 50},
    "factB3": {"action": "C4", "neurons": 5, "draws": 100},
    "factB4": {"tokens": 100, "sigma0": 0.1, "draws": 100},
    "lemC1": {"action": "A4", "neurons": 3, "draws": 100},
    "lemB9": {"task.action": "Q8", "clip_factor": 2.0},
    "lemB11": {"n": 40, "order": 4},
    "dilution": {"task.length": 4, "scores": (4.0, 0.3, 4.0, -0.3), "lengths": (3, 99)},
    "fig3": {"task.action": "S3", "task.length": 4, "scores": (6.0, 0.0, 6.0, 0.0)},
    "fig4": {"task.action": "Q8", "scores": (6.0, 0.0, 6.0, 0.0)},
    "eq6-loss": {"task.action": "S4", "task.length": 2},
    "def3.4-srelu": {"rho": 0.3, "q": 6},
}
REFUTED = {
    "def3.4-srelu-printed": {"rho": 1.0, "q": 8},
    "lemE3-printed": {"task.action": "D5"},
    "lemF3-printed": {"task.length": 3, "samples": 5},
    "lemB11-printed": {"n": 10, "t": (0.5,)},
    "lemF1-printed": {"task.action": "D4", "task.variables": 5, "task.length": 3, "samples": 3},
    "lemF8-printed": {"task.action": "A4", "task.length": 3, "samples": 6, "scores": (2.0, 0.5, 1.0, 0.0)},
}
# claim, sizes, and the hypothesis that the verdict must name
VIOLATED = [
    ("lemD3", {"task.action": "S3"}, "action=S3 must be free"),
    ("lemE3", {"task.action": "C5"}, "action=C5 must not be free"),
    ("lemD4", {"task.action": "[[0,1,2],[1,0,2]]"}, "must be transitive"),
    ("factC1-fiber", {"actions": ("[[0,1,2],[1,0,2]]",)}, "must be transitive"),
    ("ev-E", {"actions": ("C4",)}, "action=C4 must not be free"),
    ("lemB11", {"n": 25, "order": 4}, "n=25 must be a multiple of order=4"),
    ("factB4", {"sigma0": 1.0, "draws": 50}, "must be below rho"),
    ("factF1", {"scores": (0.0, 0.0, 0.0, 0.0), "samples": 6}, "the annotator must be right at steps 1 and 2"),
]
BAD = [
    ("red4", {"task.length": 3}, "task.length=3 must be 2"),
    ("red4", {"task.action": "S5"}, "chains must be at most 20000"),
    ("lemD8", {"scores": (1.0, 2.0)}, "scores has 2 entries, which must be 4"),
    ("factA1", {"task.action": "S5", "task.variables": 60}, "weights, which must be at most"),
    ("lemA1", {"task.length": 2}, "task.length=2 must be 1"),
    ("thm2.1-barrington", {"actions": ("C3", "X")}, "X must be C<n>"),
    ("def2.1-word", {"actions": ("[[1,2,0]]",)}, "must be a group for its word problem"),
    ("factB3", {"tokens": 8, "action": "C5"}, "tokens=8 must be at least 12"),
    ("lemB11", {"order": 19, "n": 5}, "order=19 must be at most n=5"),
]


def run(id, sizes, seed=1):
    claim = PAPER.claim(id)
    assert claim.check is not None
    with jax.enable_x64(claim.precision == 64):
        return claim.check(update(claim.cases[0], sizes), seed)


@pytest.mark.parametrize("id", HOLD)
def test_claims_hold_at_sizes_of_the_user(id):
    verdict = run(id, HOLD[id])
    assert verdict.status == "holds", (verdict, verdict.details)
    assert verdict.hypotheses_met, verdict.hypotheses


@pytest.mark.parametrize("id", REFUTED)
def test_printed_statements_are_refuted_with_what_was_found(id):
    verdict = run(id, REFUTED[id])
    assert verdict.status == "refuted"
    assert verdict.measured is not None
    assert PAPER.claim(id).says.startswith("as printed")


@pytest.mark.parametrize(("id", "sizes", "hypothesis"), VIOLATED)
def test_a_violated_hypothesis_is_named(id, sizes, hypothesis):
    verdict = run(id, sizes)
    assert any(hypothesis in one for one in verdict.hypotheses), verdict.hypotheses
    assert verdict.status != "fails"


@pytest.mark.parametrize(("id", "sizes", "message"), BAD)
def test_a_size_that_cannot_be_is_refused_in_one_line(id, sizes, message):
    with pytest.raises(ConfigError, match=message) as error:
        update(PAPER.claim(id).cases[0], sizes)
    assert "\n" not in str(error.value)


def test_four_scalars_reproduce_the_full_gradient_at_a_size_of_the_user():
    verdict = run("red4", {"task.action": "C2", "task.variables": 3, "scores": (2.0, 0.3, -0.5, 0.1)})
    assert verdict.status == "holds"


@pytest.mark.filterwarnings("error")
def test_four_scalars_that_do_not_move_reproduce_a_gradient_of_zero():
    verdict = run("red4", {"task.action": "C1", "task.variables": 3})
    assert verdict.status == "holds"
