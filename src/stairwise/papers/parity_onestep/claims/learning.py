"""Figures 4 and 5 of the ICLR version: which supervision learns, with pass lines registered before any run.

The lines stand in `registered/learning-*.toml`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.checks import at_least, at_most, row, true
from stairwise.papers.parity_onestep.claims.ledger import LEDGER
from stairwise.papers.parity_onestep.figures.learning import openings

SOLVED, UNSOLVED = 0.05, 0.45  # prediction losses; a constant 0 has 0.5
PAPER_SIZES = {
    "d = 64, n = 100,000, 350 epochs": lambda config: (
        (config.task.bits, config.samples, config.steps) == (64, 100_000, 350)
    ),
}


def of(records: Sequence[Any], method: str, size: int | None = None) -> list[Any]:
    return [r for r in records if r.config.method == method and size in (None, r.config.task.size)]


def sizes(records: Sequence[Any]) -> list[int]:
    return sorted({record.config.task.size for record in records})


def final(records: Sequence[Any], name: str) -> list[float]:
    return [record.final(name) for record in records]


def lowest(records: Sequence[Any], name: str) -> list[float]:
    return [float(np.min(record.series(name)[1])) for record in records]


def table(records: Sequence[Any]):
    for r in records:
        values = {name: r.final(name) for name in ("CoT loss", "prediction loss", "accuracy", "largest score")}
        yield row({"arm": r.arm, "seed": r.seed, **values, "least prediction loss": lowest([r], "prediction loss")[0]})


@LEDGER.empirical(
    "fig4",
    statement="Figure 4",
    experiment="learning",
    says="at k = 32 the direct model and plain CoT never predict the parity; with teacher forcing and with"
    " self-consistency CoT does, every seed",
    hypotheses=PAPER_SIZES,
)
def only_two_methods_learn_the_largest(records: Sequence[Any]):
    k = max(sizes(records))
    for name, method in (("direct", "direct"), ("CoT", "chain")):
        yield at_least(f"{name}: least prediction loss", lowest(of(records, method, k), "prediction loss"), UNSOLVED)
    for name, method in (("teacher forcing", "forcing"), ("self-consistency", "consistency")):
        yield at_most(f"{name}: prediction loss at the end", final(of(records, method, k), "prediction loss"), SOLVED)
    yield from table([record for record in records if record.config.task.size == k])


@LEDGER.empirical(
    "fig5-direct",
    statement=("Figure 5", "Figure 5, direct"),
    experiment="learning",
    says="the direct model stays at prediction loss 0.5 with nearly uniform attention, at every k and seed",
    hypotheses=PAPER_SIZES,
)
def direct_training_does_not_move(records: Sequence[Any]):
    for k in sizes(records):
        chosen = of(records, "direct", k)
        yield at_most(f"prediction loss at the end, k = {k}", final(chosen, "prediction loss"), 0.55)
        yield at_least(f"prediction loss at the end, k = {k}, from below", final(chosen, "prediction loss"), UNSOLVED)
        yield at_most(f"largest score at the end, k = {k}", final(chosen, "largest score"), 0.05)
    yield from table(of(records, "direct"))


@LEDGER.empirical(
    "fig5-cot",
    statement=("Figure 5", "Figure 5, CoT"),
    experiment="learning",
    says="plain CoT solves k = 8 only; for k = 16, 32 the CoT loss falls, then becomes unstable, and the prediction"
    " loss is never below 0.5",
    hypotheses=PAPER_SIZES,
)
def own_chains_solve_the_smallest_only(records: Sequence[Any]):
    first, *larger = sizes(records)
    solved = final(of(records, "chain", first), "prediction loss")
    yield at_most(f"prediction loss at the end, k = {first}", solved, SOLVED)
    for k in larger:
        chosen = of(records, "chain", k)
        yield at_least(f"least prediction loss, k = {k}", lowest(chosen, "prediction loss"), UNSOLVED)
        curves = [np.asarray(record.series("CoT loss")[1]) for record in chosen]
        fallen = [float(curve.min() / curve[0]) for curve in curves]
        risen = [float(curve[curve.argmin() :].max() / curve.min()) for curve in curves]
        yield at_most(f"least CoT loss over the first, k = {k}", fallen, 0.9)
        yield at_least(f"CoT loss after its minimum over the minimum, k = {k}", risen, 1.1)
    yield from table(of(records, "chain"))


@LEDGER.empirical(
    "fig5-forcing",
    statement=("Figure 5", "Figure 5, teacher forcing"),
    experiment="learning",
    says="with teacher forcing every k is solved: after a burn-in the CoT loss goes to nearly 0, and then the"
    " prediction loss",
    hypotheses=PAPER_SIZES,
)
def teacher_forcing_solves_all(records: Sequence[Any]):
    for k in sizes(records):
        chosen = of(records, "forcing", k)
        yield at_most(f"CoT loss at the end, k = {k}", final(chosen, "CoT loss"), 0.01)
        yield at_most(f"prediction loss at the end, k = {k}", final(chosen, "prediction loss"), SOLVED)
        for record in chosen:
            epochs, chain = by_epoch(record, "CoT loss")
            early = chain[epochs <= record.config.steps // 10][-1] / chain[0]
            yield at_least(f"CoT loss after a tenth of the epochs over the first, k = {k}", early, 0.5)
            first, second = (tenth(record, name) for name in ("CoT loss", "prediction loss"))
            yield true(f"the CoT loss gets to a tenth no later than the prediction loss, k = {k}", first <= second)
    yield from table(of(records, "forcing"))


@LEDGER.empirical(
    "fig5-consistency",
    statement=("Figure 5", "Figure 5, self-consistency"),
    experiment="learning",
    says="with self-consistency every k is solved, in visible stages: one level of the tree opens after the other",
    hypotheses=PAPER_SIZES,
)
def self_consistency_solves_all_level_by_level(records: Sequence[Any]):
    for k in sizes(records):
        chosen = of(records, "consistency", k)
        yield at_most(f"prediction loss at the end, k = {k}", final(chosen, "prediction loss"), SOLVED)
        for record in chosen:
            opened = openings(record)
            yield true(
                f"levels open one after the other, k = {k}", np.all(np.isfinite(opened)) and np.all(np.diff(opened) > 0)
            )
            yield row({"k": k, "seed": record.seed, "levels open at": " ".join(f"{epoch:g}" for epoch in opened)})
    yield from table(of(records, "consistency"))


def by_epoch(record: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    ticks, values = record.series(name)
    return np.asarray(ticks) // record.config.blocks, np.asarray(values)


def tenth(record: Any, name: str) -> float:
    """The first measured epoch at which a loss is at most a tenth of its first value; infinity where it never is."""
    epochs, values = by_epoch(record, name)
    low = values <= values[0] / 10
    return float(epochs[low][0]) if low.any() else float("inf")
