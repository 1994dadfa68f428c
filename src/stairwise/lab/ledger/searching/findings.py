"""What a search has found, and what all searches of a claim have."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

OUTCOMES = ("counterexample", "none found", "none in the whole space", "nothing to look at")


@dataclass(frozen=True)
class Finding:
    """What one search has found: the counterexample, made small, or the point with the smallest margin.

    `dropped` is the hypothesis that the points break, empty inside the hypotheses. `log_margin` is at most 0 where the
    conclusion is false. `judged` counts the points that said something, `looked_at` all of them. A counterexample was
    `found_after` so many seconds, and the rest of `seconds` made it small. `note` says why no point was judged.
    """

    dropped: str
    outcome: str
    sizes: Mapping[str, Any]
    seed: int
    log_margin: float | None
    quantity: str
    measured: float | None
    required: float | None
    command: str
    judged: int
    looked_at: int
    stopped: int
    raised: str
    found_after: float | None  # seconds
    seconds: float
    note: str = ""


def nothing(dropped: str, note: str) -> Finding:
    """What is found where nothing can be looked at."""
    return Finding(
        dropped,
        outcome="nothing to look at",
        sizes={},
        seed=0,
        log_margin=None,
        quantity="",
        measured=None,
        required=None,
        command="",
        judged=0,
        looked_at=0,
        stopped=0,
        raised="",
        found_after=None,
        seconds=0.0,
        note=note,
    )


@dataclass(frozen=True)
class Falsification:
    """What `falsify` found about a claim, one finding for each search."""

    claim: str
    kind: str
    space: tuple[str, ...]
    expected: bool  # that the statement is false inside its hypotheses
    findings: tuple[Finding, ...]

    @property
    def counterexample(self) -> Finding | None:
        """The one inside the hypotheses, if any."""
        inside = [each for each in self.findings if not each.dropped and each.outcome == "counterexample"]
        return inside[0] if inside else None

    @property
    def exit_status(self) -> int:
        """1 where a statement that should hold is false inside its hypotheses."""
        return 1 if self.counterexample is not None and not self.expected else 0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> "Falsification":
        findings = tuple(Finding(**each) for each in data["findings"])
        return Falsification(**{**data, "space": tuple(data["space"]), "findings": findings})
