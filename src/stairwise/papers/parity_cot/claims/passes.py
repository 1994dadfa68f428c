"""The empirical claims about repeated passes over small sets and what is never learnt: Figures 4, 5, 9, 10, 11."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract import Verdict
from stairwise.measure import complexity
from stairwise.papers.parity_cot import runs
from stairwise.papers.parity_cot.claims.ledger import LEDGER
from stairwise.papers.parity_cot.claims.reading import NO, arm, combined, complexity_rows, success

LEVEL = 0.05
COINCIDENCE = 2.0  # the entropy's halfway point and the accuracy's jump lie within this factor


# --- the same sequences again and again -------------------------------------------------------------------------------


def pool_rows(records: Sequence[Any]) -> list[dict[str, Any]]:
    """Success by model and set size, each against the largest set by the log-rank test."""
    rows = []
    for (layers, heads), group in runs.grouped(records, runs.shape).items():
        pools = runs.grouped(group, lambda c: c.samples or math.inf)
        largest = runs.hits(list(pools.values())[-1])
        for size, own in pools.items():
            found = runs.hits(own)
            rows.append(
                {
                    "layers": layers,
                    "heads": heads,
                    "set": size,
                    "reached": found.reached,
                    "runs": len(own),
                    "median samples": complexity.kaplan_meier(found).median().value,
                    "p against the largest": 1.0 if size == max(pools) else complexity.log_rank(found, largest),
                }
            )
    return rows


def better_sets(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The sets that succeed more often than the largest of their model."""
    largest = {(row["layers"], row["heads"]): row for row in rows if row["set"] == max(r["set"] for r in rows)}
    return [row for row in rows if row["reached"] / row["runs"] > share(largest[row["layers"], row["heads"]])]


def share(row: dict[str, Any]) -> float:
    return row["reached"] / row["runs"]


@LEDGER.empirical(
    "fig5",
    experiment="multipass",
    says="without CoT some small set, repeated, is learnt significantly sooner than the largest (log-rank p < .05)",
)
def repetition_beats_fresh_data(records: Sequence[Any]) -> Verdict:
    rows = pool_rows(records)
    better = better_sets(rows)
    tests = max(1, sum(row["set"] < max(r["set"] for r in rows) for row in rows))
    smallest = min((row["p against the largest"] for row in better), default=1.0)
    note = f"Bonferroni over {tests} comparisons: the smallest p must be below {LEVEL / tests:.3g}"
    return Verdict.at_most(smallest, LEVEL / tests, details=tuple(rows), note=note, **NO)


@LEDGER.empirical(
    "fig10",
    experiment="multipass",
    says="in every model the smallest set succeeds at least as often as the largest",
)
def small_sets_succeed_in_every_model(records: Sequence[Any]) -> Verdict:
    rows = pool_rows(records)
    gaps = []
    for _, group in runs.grouped(records, runs.shape).items():
        pools = list(runs.grouped(group, lambda c: c.samples or math.inf).values())
        gaps.append(success(pools[0]) - success(pools[-1]))
    note = "smallest difference between the success rates; the test of significance is fig5's"
    return Verdict.at_least(min(gaps), 0.0, details=tuple(rows), note=note, **NO)


@LEDGER.empirical(
    "fig11",
    experiment="multipass",
    says="in a successful run accuracy jumps when the heads' entropy falls: within a factor 2 of samples, in 80%",
)
def entropy_falls_as_accuracy_jumps(records: Sequence[Any]) -> Verdict:
    rows = []
    for record in records:
        if record.status == "reached":
            jumped, fell = runs.jump(record)
            row = {"set": record.config.samples, "seed": record.seed, "accuracy jumps": jumped, "entropy falls": fell}
            rows.append(
                row | {"ratio": fell / jumped, "mass on the secret": float(runs.final_heads(record, "mass").max())}
            )
    if not rows:
        return Verdict("not-reproduced", note="no run succeeded")
    near = np.mean([1 / COINCIDENCE <= row["ratio"] <= COINCIDENCE for row in rows])
    failed = [record for record in records if record.status != "reached"]
    sparse = sum(runs.final_heads(record, "entropy").min() < 0.1 for record in failed)
    note = f"sparse is not sufficient: {sparse} of {len(failed)} failed runs end with a head below .1"
    return Verdict.at_least(float(near), 0.8, details=tuple(rows), note=note, **NO)


@LEDGER.empirical(
    "fig4",
    experiment="shapes",
    says="without CoT, repeated passes over a small set are learnt by some shape in half of the seeds; CoT needs fewer",
)
def some_shape_learns_from_a_small_set(records: Sequence[Any]) -> Verdict:
    without = runs.grouped(arm(records, False), runs.shape)
    rows = [{"CoT": False, **shape_row(pair, group)} for pair, group in without.items()]
    checks = {"best shape": Verdict.at_least(max(success(group) for group in without.values()), 0.5, **NO)}
    reference = arm(records, True)
    if reference:
        rows.append({"CoT": True, **shape_row(runs.shape(reference[0].config), reference)})
        fastest = min(complexity.kaplan_meier(runs.hits(group)).median().value for group in without.values())
        median = complexity.kaplan_meier(runs.hits(reference)).median().value
        checks["samples with CoT over the fastest without"] = Verdict.at_most(
            median / fastest if math.isfinite(fastest) else 0.0, 1.0, **NO
        )
    return combined(checks, rows)


def shape_row(pair: tuple[int, int], group: Sequence[Any]) -> dict[str, Any]:
    found = runs.hits(group)
    return {
        "layers": pair[0],
        "heads": pair[1],
        "reached": found.reached,
        "runs": len(group),
        "median samples": complexity.kaplan_meier(found).median().value,
        "mean exact match": float(np.mean([record.final("exact match") for record in group])),
    }


@LEDGER.empirical(
    "fig4-heads",
    experiment="shapes",
    says="more heads help more than more layers: mean final accuracy gains more from heads (1 layer) than from layers",
)
def heads_help_more_than_layers(records: Sequence[Any]) -> Verdict:
    cells = runs.grouped(arm(records, False), runs.shape)
    rows = [shape_row(pair, group) for pair, group in cells.items()]
    mean = {(row["layers"], row["heads"]): row["mean exact match"] for row in rows}
    heads = max(pair[1] for pair in mean if pair[0] == 1)
    layers = max(pair[0] for pair in mean if pair[1] == 1)
    gain_heads, gain_layers = mean[1, heads] - mean[1, 1], mean[layers, 1] - mean[1, 1]
    p = complexity.log_rank(runs.hits(cells[1, heads]), runs.hits(cells[layers, 1]))
    note = f"1x{heads} gains {gain_heads:.3f}, {layers}x1 gains {gain_layers:.3f}; log-rank between the two p={p:.2g}"
    verdict = Verdict.at_least(gain_heads - gain_layers, 0.0, details=tuple(rows), note=note, **NO)
    return verdict if gain_heads != gain_layers else dataclasses.replace(verdict, status="not-reproduced")


@LEDGER.empirical(
    "fig9",
    experiment="negative",
    says="without CoT no model, set size or rate learns so many secret bits within the budget",
)
def too_many_bits_without_chain(records: Sequence[Any]) -> Verdict:
    chosen = arm(records, False)
    best = max(record.series("exact match")[1].max() for record in chosen)
    config = chosen[0].config
    note = f"n={config.task.inputs}, k={config.task.size}; runs that learn, of {len(chosen)}; best accuracy {best:.3f}"
    return Verdict.at_most(runs.hits(chosen).reached, 0, note=note, details=tuple(pool_rows(chosen)), **NO)


@LEDGER.empirical(
    "c2-k12-cot",
    experiment="negative",
    says="with CoT the same secret is learnt: by every run at its best rate, within 6 passes over 1e4 sequences",
)
def many_bits_with_chain(records: Sequence[Any]) -> Verdict:
    chosen = arm(records, True)
    rows = complexity_rows(chosen)
    pools = runs.grouped(chosen, lambda c: c.samples or math.inf)
    best = {size: runs.best_of_rates(group) for size, group in pools.items()}
    checks = {
        f"share that learns, set {size:g}": Verdict.at_least(one.reached / len(one.times), 1.0, **NO)
        for size, one in best.items()
    }
    finite = {size: one for size, one in best.items() if math.isfinite(size) and one.reached}
    for size, one in finite.items():
        checks[f"passes, set {size:g}"] = Verdict.at_most(float(one.times.max()) / size, 6.0, **NO)
    return combined(checks, rows)
