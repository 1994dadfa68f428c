"""What a check found. The statuses, from the one to look at first to the one that needs no look:

fails            we claim it and it does not hold: a defect
not-reproduced   an empirical criterion, written down before the run, was not met
refuted          the statement as printed is false; the verdict carries the counterexample
vacuous          true, but it says nothing at this size
reported         measured; the statement has no pass line
holds            measured and within what is required
skipped          not checked: its tier was not asked for, or its trials are not in the store
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

STATUSES = ("fails", "not-reproduced", "refuted", "vacuous", "reported", "holds", "skipped")


@dataclass(frozen=True)
class Verdict:
    """What a check found: `measured` against `required`, and the margin between them (a ratio, above 1 is good).

    `details` is a small table (a list of flat dictionaries); `hypotheses` names those of the statement that the
    chosen sizes violate (empty when all are met); `direction` is <= or >=, the side of `required` that is good.
    """

    status: str
    measured: float | None = None
    required: float | None = None
    margin: float | None = None
    note: str = ""
    hypotheses: tuple[str, ...] = ()
    details: tuple[Mapping[str, Any], ...] = ()
    direction: str = ""

    def __post_init__(self):
        if self.status not in STATUSES:
            raise ValueError(f"status={self.status!r} must be one of {', '.join(STATUSES)}")
        for name in ("measured", "required", "margin"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else float(value))
        object.__setattr__(self, "details", tuple(dict(row) for row in self.details))

    @property
    def hypotheses_met(self) -> bool:
        return not self.hypotheses

    @staticmethod
    def at_most(measured: float, required: float, *, otherwise: str = "fails", **more: Any) -> "Verdict":
        """Holds when measured <= required; NaN never does.

        >>> print(Verdict.at_most(1e-13, 1e-12))
        holds  measured 1e-13  required <= 1e-12  margin 10x
        """
        measured, required = float(measured), float(required)
        margin = _ratio(required, measured)
        status = "holds" if measured <= required else otherwise
        return Verdict(status, measured, required, margin, direction="<=", **more)

    @staticmethod
    def at_least(measured: float, required: float, *, otherwise: str = "fails", **more: Any) -> "Verdict":
        """Holds when measured >= required; NaN never does."""
        measured, required = float(measured), float(required)
        margin = _ratio(measured, required)
        status = "holds" if measured >= required else otherwise
        return Verdict(status, measured, required, margin, direction=">=", **more)

    @staticmethod
    def reported(measured: float, **more: Any) -> "Verdict":
        """A measurement of a statement that has no pass line."""
        return Verdict("reported", measured, **more)

    @staticmethod
    def worst(verdicts: Mapping[str, "Verdict"]) -> "Verdict":
        """Several checks as one: the status to look at first, and the smallest margin among those with that status.

        `details` lists every check under its name.
        """
        if not verdicts:
            raise ValueError("there is no verdict to combine")
        order = sorted(
            verdicts.items(),
            key=lambda item: (
                STATUSES.index(item[1].status),
                math.inf if item[1].margin is None else item[1].margin,
            ),
        )
        first = order[0][1]
        rows: list[Mapping[str, Any]] = []
        for name, verdict in verdicts.items():
            row = {"check": name, "status": verdict.status, "measured": verdict.measured}
            rows.append({**row, "required": verdict.required, "margin": verdict.margin})
            rows.extend({"check": name, **detail} for detail in verdict.details)
        hypotheses = tuple(dict.fromkeys(h for verdict in verdicts.values() for h in verdict.hypotheses))
        notes = dict.fromkeys(verdict.note for verdict in verdicts.values() if verdict.note)
        return dataclasses.replace(first, details=tuple(rows), hypotheses=hypotheses, note="; ".join(notes))

    def with_rows(self, rows: Iterable[Mapping[str, Any]], note: str = "") -> "Verdict":
        """The same with more details, and another note if one is given."""
        return dataclasses.replace(self, details=(*self.details, *rows), note=note or self.note)

    def __str__(self) -> str:
        parts = [self.status]
        if self.measured is not None:
            parts.append(f"measured {self.measured + 0:.4g}")
        if self.required is not None:
            parts.append(f"required {self.direction} {self.required + 0:.4g}")
        if self.margin is not None:
            parts.append(f"margin {self.margin:.3g}x")
        return "  ".join(parts)


def _ratio(good: float, bad: float) -> float | None:
    """good/bad as a margin: none when undefined; infinite margins (an exact zero error) are reported as none too."""
    if not (math.isfinite(good) and math.isfinite(bad)) or bad == 0 or good * bad < 0:
        return None
    return good / bad
