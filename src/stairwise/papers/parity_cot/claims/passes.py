"""The empirical claims about repeated passes over small sets and what is never learnt: Figures 4, 5, 9, 10, 11."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.checks import at_least, at_most, note, row, true
from stairwise.measure import complexity
from stairwise.papers.parity_cot import runs
from stairwise.papers.parity_cot.claims.ledger import LEDGER
from stairwise.papers.parity_cot.claims.reading import arm, coinciding, complexity_rows, jump_rows, success

LEVEL = 0.05
ALMOST_ALL = 0.75  # of the shapes of Figure 4


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
    statement="Figure 5",
    says="without CoT some small set, repeated, is learnt significantly sooner than the largest (log-rank $p < 0.05$)",
)
def repetition_beats_fresh_data(records: Sequence[Any]):
    rows = pool_rows(records)
    better = better_sets(rows)
    tests = max(1, sum(each["set"] < max(r["set"] for r in rows) for each in rows))
    smallest = min((each["p against the largest"] for each in better), default=1.0)
    yield at_most(f"smallest p (Bonferroni over {tests} comparisons)", smallest, LEVEL / tests)
    yield from map(row, rows)


@LEDGER.empirical(
    "fig10",
    experiment="multipass",
    statement="Figure 10",
    says="every model learns from some small set in half of its runs or more, and from the largest less often",
)
def small_sets_succeed_in_every_model(records: Sequence[Any]):
    for shape, group in runs.grouped(records, runs.shape).items():
        pools = list(runs.grouped(group, lambda c: c.samples or math.inf).values())
        best = max(success(pool) for pool in pools[:-1])
        yield at_least(f"best success of a smaller set, {runs.shape_text(shape)}", best, 0.5)
        yield true(f"the largest set succeeds less often, {runs.shape_text(shape)}", success(pools[-1]) < best)
    yield from map(row, pool_rows(records))


@LEDGER.empirical(
    "fig11",
    experiment="multipass",
    statement=("Figure 11", "Section 4.2"),
    says="in 80% of the successful runs accuracy jumps when the heads' entropy falls: within a factor 2 of samples",
)
def entropy_falls_as_accuracy_jumps(records: Sequence[Any]):
    reached = [record for record in records if record.status == "reached"]
    rows = jump_rows(reached)
    yield true("some run succeeds", len(rows) > 0)
    if rows:
        yield at_least("share of successful runs where the two coincide", coinciding(rows), 0.8)
    failed = [record for record in records if record.status != "reached"]
    sparse = sum(runs.final_heads(record, "entropy").min() < 0.1 for record in failed)
    yield note(f"sparse is not sufficient: {sparse} of {len(failed)} failed runs end with a head below 0.1")
    for record, each in zip(reached, rows, strict=True):
        mass = float(runs.final_heads(record, "mass").max())
        yield row({"set": record.config.samples, **each, "mass on the secret": mass})


@LEDGER.empirical(
    "fig4",
    experiment="shapes",
    statement="Figure 4",
    says="without CoT, repeated passes over a small set are learnt by almost all shapes (3 of 4, in half of the runs);"
    " CoT needs fewer",
)
def almost_all_shapes_learn_from_a_small_set(records: Sequence[Any]):
    """The paper: almost all layer-head configurations reach perfect accuracy."""
    without = runs.grouped(arm(records, False), runs.shape)
    learnt = np.mean([success(group) >= 0.5 for group in without.values()])
    yield at_least("share of shapes that learn in half of their runs", learnt, ALMOST_ALL)
    yield from (row({"CoT": False, **shape_row(pair, group)}) for pair, group in without.items())
    reference = arm(records, True)
    if reference:
        yield row({"CoT": True, **shape_row(runs.shape(reference[0].config), reference)})
        fastest = min(complexity.kaplan_meier(runs.hits(group)).median().value for group in without.values())
        yield true("CoT learns in half of its runs", success(reference) >= 0.5)
        median = complexity.kaplan_meier(runs.hits(reference)).median().value
        yield true("CoT has fewer samples, by medians, than the fastest shape without", median < fastest)


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
    statement="Figure 4",
    says="more heads help more than more layers: mean final accuracy gains more from heads (1 layer) than from layers",
)
def heads_help_more_than_layers(records: Sequence[Any]):
    cells = runs.grouped(arm(records, False), runs.shape)
    rows = [shape_row(pair, group) for pair, group in cells.items()]
    mean = {(each["layers"], each["heads"]): each["mean exact match"] for each in rows}
    heads = max(pair[1] for pair in mean if pair[0] == 1)
    layers = max(pair[0] for pair in mean if pair[1] == 1)
    gain_heads, gain_layers = mean[1, heads] - mean[1, 1], mean[layers, 1] - mean[1, 1]
    p = complexity.log_rank(runs.hits(cells[1, heads]), runs.hits(cells[layers, 1]))
    yield true("heads gain more than layers", gain_heads > gain_layers)
    yield note(f"1x{heads} gains {gain_heads:.3f}, {layers}x1 gains {gain_layers:.3f}; log-rank between them p={p:.2g}")
    yield from map(row, rows)


@LEDGER.empirical(
    "fig9",
    experiment="negative",
    statement="Figure 9",
    says="without CoT no model, set size or rate learns so many secret bits within the budget",
)
def too_many_bits_without_chain(records: Sequence[Any]):
    chosen = arm(records, False)
    best = max(record.series("exact match")[1].max() for record in chosen)
    config = chosen[0].config
    yield at_most("runs that learn", runs.hits(chosen).reached, 0)
    yield note(f"n={config.task.bits}, k={config.task.size}, {len(chosen)} runs; best accuracy {best:.3f}")
    yield from map(row, pool_rows(chosen))


@LEDGER.empirical(
    "c2-k12-cot",
    experiment="negative",
    statement="Appendix C.2",
    says="with CoT the same secret is learnt: by every run at its best rate, within 6 passes over $10^4$ sequences",
)
def many_bits_with_chain(records: Sequence[Any]):
    chosen = arm(records, True)
    for size, group in runs.grouped(chosen, lambda c: c.samples or math.inf).items():
        found = runs.best_of_rates(group)
        yield at_least(f"share of runs that learn, set {size:g}", found.reached / len(found.times), 1.0)
        if math.isfinite(size) and found.reached:
            yield at_most(f"passes, set {size:g}", float(found.times.max()) / size, 6.0)
    yield from map(row, complexity_rows(chosen))
