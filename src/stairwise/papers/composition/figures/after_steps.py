"""What the figures share: a metric after every gradient step, words for a config."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from stairwise.lab.contract.plots import grouped
from stairwise.measure.complexity import Hits
from stairwise.papers.composition.theory.spectrum import gram_eigenvalue

LEARNT = 0.95  # held-out accuracy from which on a run has learnt a hop


def after_steps(record: Any, name: str) -> np.ndarray:
    """A metric before any and after every gradient step, by whichever way the step was taken."""
    taken, values = record.series("steps taken")[1], record.series(name)[1]
    found = {int(step): float(value) for step, value in zip(taken, values, strict=True)}
    return np.array([found[step] for step in sorted(found)])


def step_names(config: Any) -> list[str]:
    """KQ1, Psi1, KQ2, ... (curriculum) or KQ1, KQ2, ..., Psi (mixture), after the start."""
    steps = range(1, config.steps + 1)
    if config.algorithm == "mixture":
        return ["start", *(f"KQ{t}" for t in steps), "Ψ"]
    return ["start", *(name for t in steps for name in (f"KQ{t}", f"Ψ{t}"))]


def hops(count: int) -> str:
    return f"{count} hop{'s' if count > 1 else ''}"


def size(config: Any) -> str:
    return f"k={config.task.blocks}, N={config.task.alphabet}"


# --- the standard transformer -----------------------------------------------------------------------------------------


def arms_of(records: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """The runs on a mixture of hops, and those on the hardest hop alone."""
    by_arm = grouped(records, lambda record: len(record.config.hops) > 1)
    return by_arm.get(True, []), by_arm.get(False, [])


def hits(records: Iterable[Any], hop: int) -> Hits:
    """The first measured step at which each run has learnt a hop; censored at its last one."""
    pairs = []
    for record in records:
        steps, accuracy = record.series(f"accuracy {hop}")
        learnt = np.flatnonzero(np.asarray(accuracy) >= LEARNT)
        pairs.append((float(steps[learnt[0]]), False) if len(learnt) else (float(steps[-1]), True))
    return Hits.of(pairs)


class Takeoff(NamedTuple):
    """Runs on k hops alone at one size, by the number of labels in their pool; fresh data is not a pool."""

    k: int
    N: int
    learnt: dict[int, list[bool]]  # by pool, seed by seed; 0: fresh data
    smallest: Hits  # the smallest pool from which each seed learns, censored at the largest

    @property
    def labels(self) -> float:
        """N (N-1)^(2k-1): one over the largest mean square of an answer, see `thm5-average`."""
        return float(1 / gram_eigenvalue(self.k, self.N))

    @property
    def pool(self) -> float:
        """The smallest pool from which at least half of the seeds learn; infinite where there is none."""
        enough = [pool for pool, runs in self.learnt.items() if pool and 2 * sum(runs) >= len(runs)]
        return min(enough, default=math.inf)


def takeoffs(records: Iterable[Any]) -> list[Takeoff]:
    """One entry for each size, by the labels that are predicted."""
    by_size = grouped(records, lambda record: (record.config.task.blocks, record.config.task.alphabet))
    return sorted((_takeoff(k, N, own) for (k, N), own in by_size.items()), key=lambda each: each.labels)


def _takeoff(k: int, N: int, records: Sequence[Any]) -> Takeoff:
    by_pool = grouped(sorted(records, key=lambda record: record.seed), lambda record: record.config.samples)
    learnt = {pool: [hits([run], k).reached > 0 for run in runs] for pool, runs in sorted(by_pool.items())}
    largest, pairs = max(learnt), []
    for place in range(min(map(len, learnt.values()))):
        enough = [pool for pool, runs in learnt.items() if pool and runs[place]]
        pairs.append((float(min(enough)), False) if enough else (float(largest), True))
    return Takeoff(k, N, learnt, Hits.of(pairs))
