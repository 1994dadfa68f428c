"""The ledger as the page shows it: every claim with the newest stored verdict at its own sizes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from stairwise.lab.contract import manifest
from stairwise.lab.contract.claims import Claim
from stairwise.lab.contract.verdict import DECIDING, Verdict
from stairwise.words import flat, is_number, plain

# for those who do not see the colours
SYMBOLS = {
    "fails": "✗",
    "not-reproduced": "≠",
    "refuted": "⊥",
    "misprint": "✎",
    "outside": "○",
    "vacuous": "∅",
    "reported": "#",
    "holds": "✓",
    "skipped": "…",
}
LOOK_FIRST = ("fails", "not-reproduced", "refuted")


@dataclass(frozen=True)
class Stored:
    """A verdict from the store, and where it comes from."""

    claim: str
    digest: str
    verdict: Verdict
    sizes: Mapping[str, Any]
    seconds: Any = None
    checked: Any = None
    sources: frozenset[str] = frozenset()

    @property
    def age(self) -> tuple[float, str]:
        """Sorts by time; the digest decides between equals, so that the choice never depends on the file system."""
        return (float(self.checked) if is_number(self.checked) else 0.0, self.digest)

    @property
    def at(self) -> str:
        return " ".join(f"{plain(path)}={plain(value)}" for path, value in flat(self.sizes).items())


@dataclass(frozen=True)
class Entry:
    """A claim on the page: what was found at its own sizes, and at others."""

    claim: Claim
    verdict: Verdict
    stored: Stored | None = None
    elsewhere: tuple[Stored, ...] = ()
    other_code: bool = False
    known: bool = False  # the status is the one that the package's own tests find; this store has no verdict

    @cached_property
    def columns(self) -> list[str]:
        """Those of the verdict's table."""
        return list(dict.fromkeys(name for row in self.verdict.details for name in row))


def parse(data: Mapping[str, Any], trial_sources: Mapping[str, Any]) -> Stored:
    """A stored verdict from its data; ValueError where it is none. `trial_sources`: source hashes by trial digest."""
    try:
        found = dict(data["verdict"])
        found["hypotheses"] = tuple(map(plain, found.get("hypotheses", ())))
        found["note"] = plain(found.get("note", ""))
        found |= {name: tuple(dict(row) for row in found.get(name, ())) for name in ("details", "cases")}
        verdict = Verdict(**found)
        sizes = data.get("sizes") or {}
        inputs = [each for each in data.get("inputs") or () if isinstance(each, str)]
        made_by = [data.get("source_hash"), *(trial_sources.get(digest) for digest in inputs)]
        return Stored(
            data["claim"],
            data["digest"],
            verdict,
            dict(sizes),
            data.get("seconds"),
            data.get("checked"),
            frozenset(each for each in made_by if isinstance(each, str)),
        )
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise ValueError(f"not a verdict: {plain(error)[:200]}") from error


def entry(claim: Claim, stored: Sequence[Stored], installed: frozenset[str]) -> Entry:
    """The newest verdict at default sizes, and the newest at each of the others; `installed`: today's hashes.

    A claim about an experiment that was judged at one preset only, such as a published one, is shown with that.
    """
    newest: dict[str, Stored] = {}
    for verdict in sorted(stored, key=lambda each: each.age):
        newest[verdict.at] = verdict
    only = next(iter(newest), "") if claim.judge is not None and len(newest) == 1 else ""
    own = newest.pop(only, None)
    elsewhere = tuple(newest[sizes] for sizes in sorted(newest))
    if own is None:
        statuses = set(manifest.expected(claim.name).values())
        status = next((each for each in DECIDING if each in statuses), "skipped")
        return Entry(claim, Verdict(status), elsewhere=elsewhere, known=bool(statuses))
    return Entry(claim, own.verdict, own, elsewhere, other_code=bool(installed) and not own.sources <= installed)
