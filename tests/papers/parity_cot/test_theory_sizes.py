"""Sizes at which claims once raised, or failed without a word on why."""

import math

import jax
import pytest

from stairwise.lab.config import ConfigError, update
from stairwise.papers.parity_cot.claims.ledger import LEDGER
from stairwise.papers.parity_cot.theory import hyperparameters

CLAIMS = {claim.id: claim for claim in LEDGER.claims if claim.check is not None}
# claim, sizes, and the hypothesis that the verdict must name
VIOLATED = [
    ("thm1", {"width": 7}, "width=7 must be"),
    ("thm1", {"width": 6}, "width=6 must be"),
    ("thm1", {"inputs": 2, "size": 2, "width": 4}, "width=4 must be"),
    ("thm1", {"size": 10, "width": 20}, "width=20 must be at least about 10 k ln"),
    ("lem2", {"width": 6}, "width=6 must be"),
    ("lem2", {"width": 7}, "width=7 must be"),
    ("lem2", {"width": 8}, "width=8 must be"),
    ("lem2", {"size": 1, "width": 2}, "width=2 must be"),
    ("lem3", {"width": 6}, "width=6 must be"),
    ("lem4", {"width": 6}, "width=6 must be at least"),
    ("thm1-overlap-printed", {"size": 1, "width": 2}, "linearly independent"),
    ("lem5", {"power": 1.0}, "power=1 must lie in 4..5"),
    ("thm1-precision", {"ratio": 3}, "width=9 must be at least"),
    ("thm1-precision", {"most": 3}, "most=3 must be at least"),
    ("thm1-precision", {"factor": 0.05}, "factor=0.05 must be at least 5"),
]
REFUSED = [
    ("lem5", {"scale": 1e-200}, "scale=1e-200 must"),
    ("lem7-mean-printed", {"task.inputs": 20, "task.size": 20}, "task.size=20 must be at most"),
]


@pytest.mark.parametrize(("name", "sizes", "hypothesis"), VIOLATED)
def test_a_violated_hypothesis_is_named(name, sizes, hypothesis):
    claim = CLAIMS[name]
    with jax.enable_x64(True):
        verdict = claim.check(update(claim.cases[0], sizes), 0)
    assert verdict.status != "fails"
    assert verdict.status == "refuted" or any(hypothesis in named for named in verdict.hypotheses)


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
