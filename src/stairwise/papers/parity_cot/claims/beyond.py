"""Claims of our own: what decides for one layer and one head, several bits a step, label noise."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from stairwise.lab.contract.checks import at_least, at_most, measured, row, true
from stairwise.measure import complexity
from stairwise.papers.parity_cot import runs
from stairwise.papers.parity_cot.claims.ledger import LEDGER
from stairwise.papers.parity_cot.claims.reading import arm, success

# --- ours -------------------------------------------------------------------------------------------------------------


@LEDGER.empirical(
    "one-head-puzzle",
    experiment="puzzle",
    statement="ours",
    says="how often one layer and one head learn $k = 2, 3$ with CoT, and what the authors' choices change",
)
def what_decides_for_one_head(records: Sequence[Any]):
    by_arm: dict[str, list[Any]] = {}
    for record in records:
        by_arm.setdefault(record.arm, []).append(record)
    base = {record.config.task.size: [] for record in records}
    for name, group in by_arm.items():
        if name.startswith("base") and "rate" not in name:
            base[group[0].config.task.size] = group
    chosen = [record for group in base.values() for record in group] or list(records)
    yield measured("share of base runs that learn", success(chosen))
    for name, group in by_arm.items():
        found, same = runs.hits(group), base[group[0].config.task.size]
        yield row(
            {
                "arm": name,
                "reached": found.reached,
                "runs": len(group),
                "median samples": complexity.kaplan_meier(found).median().value,
                "worst exact match": min(record.final("exact match") for record in group),
                "p against base": complexity.log_rank(found, runs.hits(same)) if same else 1.0,
            }
        )


def by_value(records: Sequence[Any], name: str, value: Callable[[Any], float]) -> list[dict[str, Any]]:
    """Success and median samples against one field."""
    rows = []
    for key, group in runs.grouped(records, lambda c: (c.task.cot, c.task.size, c.task.order, value(c))).items():
        found = runs.hits(group)
        median = complexity.kaplan_meier(found).median()
        rows.append(
            {
                "CoT": key[0],
                "k": key[1],
                "order": key[2],
                name: key[3],
                "reached": found.reached,
                "runs": len(group),
                "median samples": median.value,
                "interval": f"[{median.low:.4g}, {median.high:.4g}]",
            }
        )
    return rows


@LEDGER.empirical(
    "bits-a-step",
    experiment="steps",
    statement="ours",
    says="a chain whose steps add $g$ secret bits needs more samples the larger $g$, by medians",
)
def larger_steps_cost_more(records: Sequence[Any]):
    rows = by_value(records, "bits a step", lambda c: c.task.absorbed)
    medians = [each["median samples"] for each in rows if each["order"] == "ascending"]
    yield at_most("values of g that make learning faster", sum(b < a for a, b in pairwise(medians)), 0)
    yield true("the largest g needs more samples than the smallest", medians[-1] > medians[0])
    yield from map(row, rows)


@LEDGER.empirical(
    "label-noise",
    experiment="noise",
    statement="ours",
    says="with CoT wrong steps (up to 10%) only slow learning down; elimination over GF(2) breaks at once",
)
def noise_only_slows_down(records: Sequence[Any]):
    small = runs.where(arm(records, True), lambda c: 0 < c.task.noise <= 0.1)
    yield at_least("share of noisy CoT runs that learn", success(small), 0.9)
    yield from map(row, by_value(records, "noise", lambda c: c.task.noise))
