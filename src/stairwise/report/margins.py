"""A claim's margins against its sizes: what its page draws from the verdicts at the ledger's sizes and at others."""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from stairwise.config import as_dict
from stairwise.lab.contract.claims import Claim
from stairwise.lab.ledger.checking import case_names
from stairwise.report.ledger import Entry
from stairwise.words import flat, is_number, plain

MOST = 2000  # points


def margins(entry: Entry) -> dict[str, Any] | None:
    """The points, and the numeric fields of the config in which they differ; None where there is nothing to compare."""
    at = _cases(entry.claim)
    points = [
        _point(row["case"], at[row["case"]], row["margin"], row["status"])
        for row in entry.verdict.cases
        if row.get("case") in at and _drawable(row.get("margin"))
    ]
    first = next(iter(at.values()), {})
    for other in entry.elsewhere:
        sizes = {**first, **_numbers(other.sizes)}
        margin = other.verdict.margin
        if margin is not None and _drawable(margin):
            points.append(_point(other.at, sizes, margin, other.verdict.status))
    points = points[:MOST]
    fields = [name for name in first if len({point["sizes"].get(name) for point in points}) > 1]
    return {"points": points, "fields": fields} if fields else None


def _cases(claim: Claim) -> dict[str, dict[str, float]]:
    names = case_names(claim.cases) if claim.cases else []
    return {name: _numbers(as_dict(case)) for name, case in zip(names, claim.cases, strict=True)}


def _numbers(config: Mapping[str, Any]) -> dict[str, float]:
    return {plain(path): value for path, value in flat(config).items() if is_number(value) and isfinite(value)}


def _drawable(margin: Any) -> bool:
    return is_number(margin) and isfinite(margin) and margin > 0


def _point(name: Any, sizes: Mapping[str, float], margin: float, status: Any) -> dict[str, Any]:
    return {"name": plain(name), "sizes": dict(sizes), "margin": float(f"{margin:.6g}"), "status": plain(status)}
