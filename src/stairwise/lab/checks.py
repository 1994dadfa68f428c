"""What checks of claims share: how two arrays are compared, and what violated hypotheses do to a verdict."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from stairwise.lab.verdict import Verdict

TOLERANCE = 1e-12  # an identity, in float64


def relative_error(a: Any, b: Any) -> float:
    """max|a-b| / max|b|, and max|a-b| where b is zero."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    difference, scale = np.max(np.abs(a - b), initial=0.0), np.max(np.abs(b), initial=0.0)
    return float(difference / scale) if scale > 0 else float(difference)


def identical(pairs: Mapping[str, tuple[Any, Any]], tolerance: float = TOLERANCE, **more: Any) -> Verdict:
    """Holds when every pair (computed, formula) agrees relative to the formula; the largest error is measured.

    >>> print(identical({"half": (0.5 + 1e-14, 0.5)}))
    holds  measured 1.998e-14  required <= 1e-12  margin 50x
    """
    errors = {name: relative_error(*pair) for name, pair in pairs.items()}
    rows = tuple({"quantity": name, "relative error": error} for name, error in errors.items())
    largest = max(errors.values(), key=lambda error: math.inf if math.isnan(error) else error)
    return Verdict.at_most(largest, tolerance, details=rows, **more)


def exactly(facts: Mapping[str, bool], **more: Any) -> Verdict:
    """Holds when no listed fact is false; how many are is measured."""
    wrong = [name for name, true in facts.items() if not true]
    note = more.pop("note", "") or (f"false: {', '.join(wrong)}" if wrong else "")
    return Verdict.at_most(len(wrong), 0, note=note, **more)


def under(violated: tuple[str, ...], verdict: Verdict) -> Verdict:
    """The verdict of a statement with hypotheses: where they are violated, a false conclusion speaks not against it."""
    if violated and verdict.status in ("fails", "refuted"):
        verdict = _because(verdict, "the conclusion does not hold here, and the hypotheses are not met")
    return dataclasses.replace(verdict, hypotheses=verdict.hypotheses + violated)


def empty_if(condition: bool, verdict: Verdict, why: str) -> Verdict:
    """A bound that is met because nothing could break it says nothing."""
    return _because(verdict, why) if condition and verdict.status == "holds" else verdict


def _because(verdict: Verdict, why: str) -> Verdict:
    return dataclasses.replace(verdict, status="vacuous", note="; ".join(filter(None, [verdict.note, why])))
