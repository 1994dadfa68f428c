"""What the stored runs say: steps and samples to success by pool, runs that spent their budget kept as such. NumPy."""

import math
from collections.abc import Sequence
from typing import Any

from stairwise.measure.complexity import summarise
from stairwise.papers.crossings.hits import hits
from stairwise.papers.crossings.repetition.config import TASKS
from stairwise.papers.parity_cot.runs import grouped, where

FRESH = math.inf  # fresh data are the largest pool


def by_pool(records: Sequence[Any]) -> dict[float, list[Any]]:
    """Smallest pool first, fresh data last."""
    return grouped(records, lambda config: config.samples or FRESH)


def of_task(records: Sequence[Any], task: str, every_step: bool) -> list[Any]:
    return where(records, lambda config: config.task == task and config.every_step == every_step)


def cells(records: Sequence[Any], every_step: bool) -> dict[str, list[Any]]:
    """The runs of each task that there is."""
    found = {task: of_task(records, task, every_step) for task in TASKS}
    return {task: cell for task, cell in found.items() if cell}


def median(records: Sequence[Any]) -> float:
    """The Kaplan-Meier median of the steps; infinite where fewer than half succeed."""
    return summarise(hits(records)).median.value if records else math.inf


def fresh(cell: Sequence[Any]) -> float:
    return median(by_pool(cell).get(FRESH, []))


def best_pool(cell: Sequence[Any]) -> float:
    """The smallest median over the pools."""
    return min((median(group) for pool, group in by_pool(cell).items() if pool != FRESH), default=math.inf)


def decided(cell: Sequence[Any]) -> bool:
    """Fresh data or a pool got half of the runs there, so that a ratio of medians says something."""
    return math.isfinite(fresh(cell)) and math.isfinite(best_pool(cell))


def samples_saved(cell: Sequence[Any]) -> float:
    """Examples that fresh data use up until success, over the smallest pool that succeeds; 0 where none does."""
    enough = [pool for pool, group in by_pool(cell).items() if pool != FRESH and math.isfinite(median(group))]
    return fresh(cell) * cell[0].config.batch / min(enough) if enough else 0.0


def distinct(record: Any, steps: float) -> float:
    """Different examples seen after so many steps."""
    used = steps * record.config.batch
    return min(used, record.config.samples) if record.config.samples else used


def table(records: Sequence[Any]) -> tuple[dict[str, Any], ...]:
    """One row a task, a labelling and a pool."""
    rows = []
    for every_step in (False, True):
        for task, cell in cells(records, every_step).items():
            for pool, group in by_pool(cell).items():
                summary = summarise(hits(group))
                steps = summary.median.value
                row = {"task": task, "labelled": "every step" if every_step else "the answer"}
                row |= {"pool": "fresh" if pool == FRESH else int(pool), "succeeded": summary.reached}
                rows.append(row | {"runs": summary.runs, "median steps": steps if math.isfinite(steps) else None})
    return tuple(rows)
