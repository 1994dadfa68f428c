"""The paper's answers to the questions that are asked of every paper."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.answers import Answer, Measured
from stairwise.papers.lego.microscope import kept_lengths


def samples(records: Sequence[Any]) -> Measured:
    config = records[0].config
    total = config.batch * config.steps
    distinct = f"{config.samples:,} distinct" if config.samples else "all fresh"
    return Measured(f"{total:,} sentences, {distinct}", total)


def steps(records: Sequence[Any]) -> Measured:
    config = records[0].config
    return Measured(f"{config.steps:,} Adam steps", config.steps)


def attention(records: Sequence[Any]) -> Measured:
    """Attention on the two clauses, at the shortest kept length, median over trials."""
    shares = []
    for record in records:
        length = min(kept_lengths(record), default=None)
        if length is None:
            continue
        mean = record.array(f"train/attention {length}").mean(axis=0)
        shares.append(np.diagonal(mean[:, :length]).mean() + np.diagonal(mean[:, length:]).mean())
    if not shares:
        return Measured("no attention was kept")
    share = float(np.median(shares))
    return Measured(f"{share:.1%} of an answer's attention is on its two clauses", share)


def lengths(records: Sequence[Any]) -> Measured:
    """Exact match at the longest and at the shortest test length, over all arms."""
    config = records[0].config
    far, near = max(config.test_lengths), min(config.test_lengths)
    beyond, within = (1 - float(np.median([r.final(f"exact {length}") for r in records])) for length in (far, near))
    return Measured(f"sentences with an error: {beyond:.1%} at L = {far}, {within:.1%} at L = {near}", beyond, within)


ANSWERS = (
    Answer("samples", "the theory descends on the population; the experiments draw sentences", "length", samples),
    Answer("steps", "polynomially many, in two stages: one-step chains, then two-step ones", "length", steps),
    Answer("attention", "two clauses: the next predicate and the answer itself", "length", attention),
    Answer(
        "supervision",
        "the answers of every step; self-training then labels chains twice as long",
    ),
    Answer(
        "extrapolation",
        "lengths polynomial in d for simply transitive actions; for symmetric ones by doubling",
        "length",
        lengths,
    ),
)
