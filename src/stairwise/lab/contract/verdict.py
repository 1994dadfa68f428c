"""What a check found. The statuses, from the one to look at first to the one that needs no look:

fails            false inside the hypotheses, not a number, or an exception: a defect of ours until shown otherwise
not-reproduced   an empirical criterion, written down before the run, was not met
refuted          a legible printed statement is false inside its hypotheses; the claim carries a certificate
misprint         a slip in print whose intended reading is plain; the claim says what is meant
outside          the hypotheses are not met at these sizes: no evidence, whether the conclusion is true there or not
vacuous          the bound is trivially true at these sizes
reported         measured; the statement has no pass line
holds            true, inside the hypotheses
skipped          not checked: its tier was not asked for, or its trials are not in the store
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

STATUSES = (
    "fails",
    "not-reproduced",
    "refuted",
    "misprint",
    "outside",
    "vacuous",
    "reported",
    "holds",
    "skipped",
)
# which status of a case decides that of its claim: one that says nothing never outweighs one that says something
DECIDING = ("fails", "not-reproduced", "refuted", "misprint", "holds", "reported", "vacuous", "outside", "skipped")


@dataclass(frozen=True)
class Verdict:
    """What a check found: `measured` against `required`, and the margin between them (a ratio, above 1 is good).

    `quantity` names what was measured; `direction` is <= or >=, the side of `required` that is good. `details` is a
    small table (a list of flat dictionaries); `hypotheses` names those of the statement that the chosen sizes do not
    meet; `cases` has a row for every case and seed where a claim has several.
    """

    status: str
    measured: float | None = None
    required: float | None = None
    margin: float | None = None
    note: str = ""
    hypotheses: tuple[str, ...] = ()
    details: tuple[Mapping[str, Any], ...] = ()
    direction: str = ""
    quantity: str = ""
    cases: tuple[Mapping[str, Any], ...] = ()

    def __post_init__(self):
        if self.status not in STATUSES:
            raise ValueError(f"status={self.status!r} must be one of {', '.join(STATUSES)}")
        for name in ("measured", "required", "margin"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else float(value))
        for name in ("details", "cases"):
            object.__setattr__(self, name, tuple(dict(row) for row in getattr(self, name)))

    @property
    def hypotheses_met(self) -> bool:
        return not self.hypotheses

    @property
    def sharpest(self) -> float | None:
        """The constant by which a bound may be multiplied and is still met: measured over required.

        >>> Verdict.at_most(0.25, 2).sharpest
        0.125
        """
        if self.direction not in ("<=", ">=") or self.measured is None or not self.required:
            return None
        return self.measured / self.required

    @staticmethod
    def at_most(measured: float, required: float, **more: Any) -> "Verdict":
        """Holds when measured <= required; fails otherwise, and when one is not a number.

        >>> print(Verdict.at_most(1e-13, 1e-12))
        holds  measured 1e-13  required <= 1e-12  margin 10x
        """
        measured, required = float(measured), float(required)
        margin = ratio(required, measured)
        return Verdict("holds" if measured <= required else "fails", measured, required, margin, direction="<=", **more)

    @staticmethod
    def at_least(measured: float, required: float, **more: Any) -> "Verdict":
        """Holds when measured >= required; fails otherwise, and when one is not a number."""
        measured, required = float(measured), float(required)
        margin = ratio(measured, required)
        return Verdict("holds" if measured >= required else "fails", measured, required, margin, direction=">=", **more)

    @staticmethod
    def over(cases: Sequence[tuple[str, int, "Verdict"]]) -> "Verdict":
        """The verdict of a claim from those of its cases, each with its name and seed.

        The worst status among the cases that say something decides, and among those the smallest margin. What a case
        outside the hypotheses says is kept in `cases`, and counts only where there is no other.
        """
        if len(cases) == 1:
            ((name, seed, verdict),) = cases
            return dataclasses.replace(verdict, cases=(_line(name, seed, verdict),))
        name, seed, first = min(cases, key=lambda case: (DECIDING.index(case[2].status), _room(case[2])))
        several = len({name for name, _, _ in cases}) > 1, len({seed for _, seed, _ in cases}) > 1
        rows = [
            {**_label(name, seed, *several), **detail} for name, seed, verdict in cases for detail in verdict.details
        ]
        alike = [verdict for _, _, verdict in cases if verdict.status == first.status]
        notes = dict.fromkeys(verdict.note for verdict in alike if verdict.note)
        hypotheses = tuple(dict.fromkeys(h for verdict in alike for h in verdict.hypotheses))
        lines = tuple(_line(*case) for case in cases)
        return dataclasses.replace(
            first, details=tuple(rows), hypotheses=hypotheses, note="; ".join(notes), cases=lines
        )

    def __str__(self) -> str:
        parts = [self.status]
        if self.measured is not None:
            parts.append(f"{self.quantity or 'measured'} {self.measured + 0:.4g}")
        if self.required is not None:
            parts.append(f"required {self.direction} {self.required + 0:.4g}")
        if self.margin is not None:
            parts.append(f"margin {self.margin:.3g}x")
        return "  ".join(parts)


def ratio(good: float, bad: float) -> float | None:
    """good/bad as a margin: none when undefined; infinite margins (an exact zero error) are reported as none too."""
    if not (math.isfinite(good) and math.isfinite(bad)) or bad == 0 or good * bad < 0:
        return None
    return good / bad


def _room(verdict: Verdict) -> float:
    """Sorts by margin; what has none comes last, but for what is not a number."""
    if any(value is not None and math.isnan(value) for value in (verdict.measured, verdict.required)):
        return -math.inf
    return math.inf if verdict.margin is None else verdict.margin


def _label(name: str, seed: int, cases: bool, seeds: bool) -> dict[str, Any]:
    return ({"case": name} if cases else {}) | ({"seed": seed} if seeds else {})


def _line(name: str, seed: int, verdict: Verdict) -> dict[str, Any]:
    return {
        "case": name,
        "seed": seed,
        "status": verdict.status,
        "quantity": verdict.quantity,
        "measured": verdict.measured,
        "required": verdict.required,
        "margin": verdict.margin,
        "hypotheses": "; ".join(verdict.hypotheses),
    }
