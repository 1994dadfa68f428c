"""The paper's answers to the questions that are asked of every paper."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.answers import Answer, Measured


def first_arm(records: Sequence[Any]) -> list[Any]:
    """The seeds of the first config, which has a chain."""
    return [record for record in records if record.config == records[0].config]


def samples(records: Sequence[Any]) -> Measured:
    config = records[0].config
    total = 3 * config.batch
    return Measured(f"{total:,} at n = {config.task.bits}, k = {config.task.size}", total)


def steps(records: Sequence[Any]) -> Measured:
    exact = float(np.median([record.final("exact match") for record in first_arm(records)]))
    return Measured(f"3 steps, exact match {exact:g}", 3)


def attention(records: Sequence[Any]) -> Measured:
    share = float(np.median([record.final("argmax on the secret") for record in first_arm(records)]))
    return Measured(f"{share:.1%} of the steps look first at their secret bit", share)


def chain_against_none(records: Sequence[Any]) -> Measured:
    """Error of the answer, as a share of guessing's: with the chain all of it must be right, without it one bit."""
    without = [record for record in records if not record.config.task.cot]
    chain = 2 * (1 - float(np.median([record.final("exact match") for record in first_arm(records)])))
    alone = 2 * (1 - float(np.median([record.final("accuracy") for record in without])))
    return Measured(f"error over chance: {chain:.3f} with the chain, {alone:.3f} without", chain, alone)


ANSWERS = (
    Answer("samples", "with a chain $n\\,\\mathrm{polylog}(n)$; without, $2^{\\Omega(k)}$", "theorem3", samples),
    Answer("steps", "three, on a fresh batch each", "theorem3", steps),
    Answer("attention", "at every step the secret bit that it adds", "theorem3", attention),
    Answer(
        "supervision",
        "the partial sums: each step then depends on two tokens only",
        "theorem3",
        chain_against_none,
    ),
    Answer("extrapolation", "not asked: n and k are fixed"),
)
