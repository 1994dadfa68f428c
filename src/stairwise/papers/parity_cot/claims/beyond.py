"""Claims of our own: what decides for one layer and one head, several bits a step, label noise."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from stairwise.lab.contract import Verdict
from stairwise.measure import complexity
from stairwise.papers.parity_cot import runs
from stairwise.papers.parity_cot.claims.ledger import LEDGER
from stairwise.papers.parity_cot.claims.reading import NO, arm, success

# --- ours -------------------------------------------------------------------------------------------------------------


@LEDGER.empirical(
    "one-head-puzzle",
    experiment="puzzle",
    says="ours: how often one layer and one head learn k = 2, 3 with CoT, and what the authors' choices change",
)
def what_decides_for_one_head(records: Sequence[Any]) -> Verdict:
    by_arm: dict[str, list[Any]] = {}
    for record in records:
        by_arm.setdefault(record.arm, []).append(record)
    base = {record.config.task.size: [] for record in records}
    for name, group in by_arm.items():
        if name.startswith("base") and "rate" not in name:
            base[group[0].config.task.size] = group
    rows = []
    for name, group in by_arm.items():
        found, same = runs.hits(group), base[group[0].config.task.size]
        rows.append(
            {
                "arm": name,
                "reached": found.reached,
                "runs": len(group),
                "median samples": complexity.kaplan_meier(found).median().value,
                "worst exact match": min(record.final("exact match") for record in group),
                "p against base": complexity.log_rank(found, runs.hits(same)) if same else 1.0,
            }
        )
    chosen = [record for group in base.values() for record in group] or list(records)
    return Verdict.reported(success(chosen), details=tuple(rows), note="share of base runs that learn")


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
    says="ours: a chain whose steps add g secret bits needs more samples the larger g, by medians",
)
def larger_steps_cost_more(records: Sequence[Any]) -> Verdict:
    rows = by_value(records, "bits a step", lambda c: c.task.absorbed)
    medians = [row["median samples"] for row in rows if row["order"] == "ascending"]
    worse = sum(later < earlier for earlier, later in pairwise(medians))
    return Verdict.at_most(worse, 0, details=tuple(rows), note="steps of g that make learning faster", **NO)


@LEDGER.empirical(
    "label-noise",
    experiment="noise",
    says="ours: with CoT wrong steps (up to 10%) only slow learning down; elimination over GF(2) breaks at once",
)
def noise_only_slows_down(records: Sequence[Any]) -> Verdict:
    rows = by_value(records, "noise", lambda c: c.task.noise)
    small = runs.where(arm(records, True), lambda c: 0 < c.task.noise <= 0.1)
    return Verdict.at_least(success(small), 0.9, details=tuple(rows), note="share of noisy CoT runs that learn", **NO)
