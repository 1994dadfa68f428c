"""The paper's answers to the questions that are asked of every paper."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.answers import Answer, Measured


def arm(records: Sequence[Any], pool: int) -> list[Any]:
    """Stochastic (0) or fixed (1) encodings."""
    return [record for record in records if record.config.encoding.pool == pool]


def trivial(config: Any) -> float:
    """The loss of predicting zero: d/(2q)."""
    return config.task.width / (2 * config.task.sparsity)


def longest(records: Sequence[Any]) -> float:
    """The median loss at the longest test length, over that of predicting zero."""
    config = records[0].config
    losses = [record.final(f"loss length={max(config.test_lengths)}") for record in records]
    return float(np.median(losses)) / trivial(config)


def samples(records: Sequence[Any]) -> Measured:
    config = records[0].config
    total = config.batch * config.steps
    return Measured(f"{total:,} were drawn (batch {config.batch})", total)


def steps(records: Sequence[Any]) -> Measured:
    """The first measured step at which the median in-distribution loss is below a tenth of the trivial one."""
    chosen = arm(records, 0)
    line = trivial(chosen[0].config) / 10
    ticks = chosen[0].series("loss in")[0]
    losses = np.median([record.series("loss in")[1] for record in chosen], axis=0)
    below = np.flatnonzero(losses < line)
    if not len(below):
        return Measured(f"not below a tenth of the trivial loss in {int(ticks[-1]):,}")
    return Measured(f"{int(ticks[below[0]]):,} to a tenth of the trivial loss", float(ticks[below[0]]))


def attention(records: Sequence[Any]) -> Measured:
    cosine = float(np.median([record.final("cosine W") for record in arm(records, 0)]))
    return Measured(f"cosine of W to its ideal {cosine:.4f}", cosine)


def stochastic_against_fixed(records: Sequence[Any]) -> Measured:
    fresh, fixed = longest(arm(records, 0)), longest(arm(records, 1))
    return Measured(f"loss at the longest length over trivial: {fresh:.3f} stochastic, {fixed:.3f} fixed", fresh, fixed)


def lengths(records: Sequence[Any]) -> Measured:
    chosen = arm(records, 0)
    config = chosen[0].config
    within = float(np.median([record.final("loss in") for record in chosen])) / trivial(config)
    beyond = longest(chosen)
    factor = max(config.test_lengths) / config.task.length
    return Measured(
        f"at {factor:g} times the length {beyond:.3f} of the trivial loss, {within:.3f} within", beyond, within
    )


ANSWERS = (
    Answer("samples", "fresh samples every step; the theory is of the population loss", "online", samples),
    Answer("steps", "the loss falls like 1/t: steps grow as 1/loss", "online", steps),
    Answer("attention", "the q positions that the query names, out of T", "online", attention),
    Answer(
        "supervision",
        "none in between; fresh encodings every step take its place",
        "online",
        stochastic_against_fixed,
    ),
    Answer(
        "extrapolation",
        "to any length whose encodings stay nearly orthogonal, if encodings were stochastic",
        "online",
        lengths,
    ),
)
