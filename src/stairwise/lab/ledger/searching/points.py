"""One point of a space: whether the conclusion of a claim is true there, and by how much."""

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any

from stairwise.config import ConfigError, update
from stairwise.lab.contract.checks import Hypothesis
from stairwise.lab.contract.claims import ABOUT_PRINT, Claim
from stairwise.lab.contract.verdict import Verdict
from stairwise.lab.ledger.searching.proposals import Region, reach
from stairwise.lab.run.execute import prepare_jax

MEMORY = 4 << 30  # bytes that one point may take
FLAT = 700.0  # the log-margin where there is no margin, as of an error that is exactly zero
SILENT, STOPPED = 1000.0, 2000.0  # beyond every log-margin: points that say nothing, and those that took too long
REPAIRS = 300  # moves at most from a proposal to a point that can be judged


def assumptions(claim: Claim) -> list[str]:
    """The names of the hypotheses: those of the config, and those that the check yields at its first case."""
    drawn: list[Hypothesis] = []
    _at(_relaxed(claim, "", drawn), claim.cases[0], 0)
    return list(dict.fromkeys([*declared(claim, claim.cases[0]), *(each.name for each in drawn)]))


def declared(claim: Claim, config: Any) -> list[str]:
    """The names of the hypotheses of the config."""
    given = claim.hypotheses or {}
    return list(given(config) if callable(given) else given)


def look(region: Region, sizes: Mapping[str, Any], seed: int, *, repair: bool = False) -> dict[str, Any]:
    """The claim at one point, in a process of its own: whether the conclusion is true there, and by how much.

    `said` is true, false, raised, or why the point says nothing. With `repair`, a point that breaks other hypotheses
    than it should, or that the config refuses, gives way to one nearby that does not.
    """
    _limit_memory()
    chosen = dict(sizes)
    if repair and (near := reach(region, chosen, Random(repr(sorted(sizes.items()))), REPAIRS)) is not None:
        chosen = near
    try:
        config = update(region.claim.cases[0], chosen)
        unmet = set(region.claim.unmet(config))
    except (ConfigError, ArithmeticError, ValueError, LookupError) as error:
        return {"said": "refused", "value": SILENT, "note": str(error)[:200]}
    return {"sizes": chosen, **_judged(region.claim, region.dropped, config, unmet, seed)}


def _judged(claim: Claim, dropped: str, config: Any, unmet: set[str], seed: int) -> dict[str, Any]:
    if unmet - {dropped}:
        return {"said": "outside", "value": SILENT + len(unmet - {dropped})}
    if dropped and dropped not in unmet and dropped in declared(claim, config):
        return {"said": "inside", "value": SILENT + 1}
    drawn: list[Hypothesis] = []
    try:
        verdict = _at(_relaxed(claim, dropped, drawn), config, seed)
    except ConfigError as error:
        return {"said": "refused", "value": SILENT, "note": str(error)[:200]}
    unmet |= {each.name for each in drawn if not each.met}
    names = {"drawn": sorted({each.name for each in drawn})}
    if dropped and dropped not in unmet:
        return {"said": "inside", "value": SILENT + 1, **names}
    if verdict.status not in ("holds", "fails", *ABOUT_PRINT):
        return {"said": verdict.status, "value": SILENT, **names}
    if verdict.measured is None or "not a number" in verdict.note:
        return {"said": "raised", "value": SILENT, "note": verdict.note[:200]}
    holds = verdict.status == "holds"
    size = FLAT if verdict.margin is None or not verdict.margin > 0 else min(abs(math.log(verdict.margin)), FLAT)
    found = {"quantity": verdict.quantity, "measured": verdict.measured, "required": verdict.required, **names}
    return {"said": "true" if holds else "false", "value": size if holds else -size, **found}


def _relaxed(claim: Claim, dropped: str, drawn: list[Hypothesis]) -> Claim:
    """The claim without one of its hypotheses; what its check draws of them is gathered."""
    check = claim.check
    assert check is not None

    def without(config: Any, seed: int) -> Iterator[Any]:
        for each in check(config, seed):
            if isinstance(each, Hypothesis):
                drawn.append(each)
                if each.name == dropped:
                    continue
            yield each

    return replace(claim, check=without, hypotheses=None)


def _at(claim: Claim, config: Any, seed: int) -> Verdict:
    import jax

    prepare_jax()
    with jax.enable_x64(claim.precision == 64):
        return claim.at(config, seed)


def _limit_memory() -> None:
    """A point that asks for too much ends its own process, not the machine."""
    with suppress(ImportError, OSError, ValueError):  # some systems have no such limit
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, resource.getrlimit(resource.RLIMIT_DATA)[1]))
