"""The paper's answers to the questions that are asked of every paper."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.answers import Answer, Measured


def chance(accuracies: Sequence[float]) -> float:
    """The median error as a share of guessing's."""
    return 2 * (1 - float(np.median(accuracies)))


def samples(records: Sequence[Any]) -> Measured:
    config = records[0].config
    bits = config.task.bits
    exponent = np.log(config.samples) / np.log(bits)
    return Measured(
        f"{config.samples:,} at d = {bits}, k = {config.task.size} ($d^{{{exponent:.2f}}}$)", config.samples
    )


def steps(records: Sequence[Any]) -> Measured:
    accuracy = float(np.median([record.final("accuracy") for record in records]))
    return Measured(f"{records[0].config.steps} step, accuracy {accuracy:g}", records[0].config.steps)


def support(records: Sequence[Any]) -> Measured:
    share = float(np.median([record.final("support") for record in records]))
    return Measured(f"{share:.1%} of the nodes have their children on top", share)


def chain_against_none(records: Sequence[Any]) -> Measured:
    """The paper's method against the same steps with the root's label alone."""
    without = [record for record in records if record.config.supervision == "root"]
    method = [
        record
        for record in records
        if record.config.supervision == "chain"
        and not record.config.forcing
        and record.config.augmentation.eps0 > 0
        and record.config.quantiser.spacing > 0
    ]
    found = [chance([record.final("accuracy") for record in chosen]) for chosen in (method, without)]
    return Measured(f"error over chance: {found[0]:.3f} with a chain of thought, {found[1]:.3f} without", *found)


ANSWERS = (
    Answer("samples", "$d^{2+\\varepsilon}$ with teacher forcing", "onestep", samples),
    Answer("steps", "one with teacher forcing, $\\log_2 k$ without", "onestep", steps),
    Answer("attention", "the two children of every node of the tree", "onestep", support),
    Answer(
        "supervision",
        "intermediate products: without them an oracle can hide the parity from any gradient method",
        "regimes",
        chain_against_none,
    ),
    Answer("extrapolation", "not asked: d and k are fixed"),
)
