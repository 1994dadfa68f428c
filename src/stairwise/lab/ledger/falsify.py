"""Falsify: search the space of a claim for a counterexample, inside its hypotheses and with each of them dropped.

Every point is looked at in a forked process with a time limit. Points are proposed where the signed log-margin is
small: log(margin) where the conclusion is true, at most 0 where it is false. A counterexample is made as small as
bisection makes it, field by field, and comes with the command that reproduces it. With a hypothesis dropped, only
points that break this hypothesis and no other are looked at.
"""

import math
import time

from stairwise.config import ConfigError
from stairwise.lab import registry
from stairwise.lab.contract import manifest
from stairwise.lab.contract.claims import ABOUT_PRINT, Claim
from stairwise.lab.ledger.asked import MOST_JOBS
from stairwise.lab.ledger.searching.findings import Falsification
from stairwise.lab.ledger.searching.points import declared
from stairwise.lab.ledger.searching.search import CounterexampleSearch, answers, asked
from stairwise.lab.ledger.searching.space import space
from stairwise.lab.progress import Silent
from stairwise.lab.run.forks import Forks
from stairwise.lab.store.store import Store

LIMIT = 20.0  # seconds for one point


def falsify(
    claim: Claim,
    *,
    minutes: float = 5.0,
    drop: str | None = None,
    jobs: int = 1,
    limit: float = LIMIT,
    points: int | None = None,
    seed: int = 0,
    store: Store | None = None,
    fresh: bool = False,
    progress: Silent | None = None,
    inside: float = 0.5,
) -> Falsification:
    """Search inside the hypotheses for a share `inside` of the time, then with each of them dropped.

    `drop` searches only where this hypothesis is broken; an empty one only inside the hypotheses.
    `limit` is how many seconds a point may take, `points` after how many of them a search ends at the latest. What
    `store` has of the same search is taken up again, unless `fresh`. To be called only in a process that has started no
    device: it is forked.
    """
    import jax  # noqa: F401  once, and not in every process that is forked

    check(minutes, jobs, limit, points)
    axes, end = space(claim), time.monotonic() + 60 * minutes
    progress = progress or Silent()
    forks = Forks(jobs, answers(claim))
    try:
        names = asked(forks, ("names", claim.name), limit)
        if names is None:  # the first case takes too long
            names = forks.alone(lambda: declared(claim, claim.cases[0])) or []
        if drop and drop not in names:
            raise ConfigError(f"drop={drop} must be a hypothesis of {claim.name}: {'; '.join(names) or 'it has none'}")
        root = None if store is None else store.root
        searches = [
            CounterexampleSearch(claim, dropped, seed, limit, root, fresh)
            for dropped in ([drop] if drop is not None else ["", *names])
        ]
        progress.begin(f"searches of {claim.name}", len(searches), 0)
        for number, search in enumerate(searches):
            left, waiting = end - time.monotonic(), len(searches) - number
            share = left * inside if number == 0 and waiting > 1 else left / waiting
            search.run(forks, share, math.inf if points is None else points, progress)
            progress.finished(search.label, search.finding.outcome)
    finally:
        forks.end()
        progress.end()
    findings = tuple(search.finding for search in searches)
    return Falsification(claim.name, claim.kind, tuple(map(str, axes)), expected(claim), findings)


def check(minutes: float, jobs: int, limit: float, points: int | None) -> None:
    """ConfigError for what cannot be asked of any claim."""
    for name, value in {"minutes": minutes, "limit": limit}.items():
        if not 0 < value < math.inf:
            raise ConfigError(f"{name}={value} must be above 0 and finite")
    if points is not None and points < 1:
        raise ConfigError(f"points={points} must be at least 1")
    if not 1 <= jobs <= MOST_JOBS:
        raise ConfigError(f"jobs={jobs} must lie in 1..{MOST_JOBS}")


def claim_of(target: str) -> Claim:
    """The claim that a name means, if it can be searched."""
    if "/" not in target or manifest.is_pattern(target):
        raise ConfigError(f"claim={target} must name one claim, as PAPER/CLAIM")
    ((claim, _),) = registry.claims([target])
    return claim


def expected(claim: Claim) -> bool:
    """Whether the statement is known to be false: it is about print, or the manifest says so."""
    return claim.kind in ABOUT_PRINT or "fails" in manifest.expected(claim.name).values()
