"""Sizes at which claims once raised, or failed without a word on why."""

import math

import jax
import pytest

from stairwise.config import ConfigError, update
from stairwise.papers.parity_cot.claims.ledger import LEDGER
from stairwise.papers.parity_cot.theory import hyperparameters

CLAIMS = {claim.id: claim for claim in LEDGER.claims if claim.check is not None}
# claim, sizes, and the hypothesis that the verdict must name
VIOLATED = [
    ("thm1", {"width": 7}, "d >= 10 k ln(n/0.1)"),
    ("thm1", {"width": 6}, "d >= 10 k ln(n/0.1)"),
    ("thm1", {"bits": 2, "size": 2, "width": 4}, "d >= 10 k ln(n/0.1)"),
    ("thm1", {"size": 10, "width": 20}, "d >= 10 k ln(n/0.1)"),
    ("lem2", {"size": 1, "width": 2}, "d >= 6k"),
    ("lem3", {"width": 50}, "d >= 6k"),
    ("lem4", {"width": 6}, "d >= 2k + 16k ln(2N/delta)"),
    ("lem5", {"power": 1.0}, "4 <= p <= 5"),
    ("lem25", {"shift": 0.01}, "eta0 + eta1 < (n+1) eta2/50"),
    ("lem26", {"shift": 3.0}, "eta2 = 4k eps/3 with m = 2k, that is 2 m eps/3"),
    ("thm1-precision", {"ratio": 3}, "d >= 10 k ln(n/0.1)"),
    ("thm1-precision", {"most": 3}, "most >= c log2 n"),
    ("thm1-precision", {"factor": 0.05}, "c >= 3.5"),
]
REFUSED = [
    ("lem5", {"scale": 1e-200}, "scale=1e-200 must"),
    ("lem7-mean-printed", {"task.bits": 20, "task.size": 20}, "task.size=20 must be at most"),
]


@pytest.mark.parametrize(("name", "sizes", "hypothesis"), VIOLATED)
def test_a_violated_hypothesis_is_named_without_running(name, sizes, hypothesis):
    claim = CLAIMS[name]
    assert hypothesis in claim.unmet(update(claim.cases[0], sizes))


@pytest.mark.parametrize(
    ("name", "sizes", "hypothesis"), [each for each in VIOLATED if each[0] in ("thm1", "lem2", "lem4")]
)
def test_sizes_at_which_claims_once_raised_are_outside(name, sizes, hypothesis):
    claim = CLAIMS[name]
    with jax.enable_x64(True):
        verdict = claim.at(update(claim.cases[0], sizes), 0)
    assert verdict.status == "outside", verdict.note
    assert hypothesis in verdict.hypotheses


@pytest.mark.parametrize(("name", "sizes", "line"), REFUSED)
def test_a_meaningless_size_is_one_line(name, sizes, line):
    with pytest.raises(ConfigError, match=line):
        update(CLAIMS[name].cases[0], sizes)


@pytest.mark.parametrize(("power", "failure", "scale"), [(10.0, 0.1, 1.0), (5.0, 0.9, 1e6)])
def test_conditions_without_a_logarithm_do_not_hold(power, failure, scale):
    grid = [(name, 0.7 * 1.1**step) for name in hyperparameters.CONDITIONS for step in range(100)]
    gaps = [hyperparameters.gap(name, x, power, failure, scale) for name, x in grid]
    assert -math.inf in gaps
    assert not any(math.isnan(gap) for gap in gaps)
