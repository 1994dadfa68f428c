"""The paper's answers to the questions that are asked of every paper."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.answers import Answer, Measured


def longest_hop(config: Any) -> str:
    hops = max(layer.hops for layer in config.task.plan)
    return f"{hops} hop{'s' if hops > 1 else ''}"


def samples(records: Sequence[Any]) -> Measured:
    config = records[0].config
    batches = config.steps if config.readout_batch == "same" else config.turns
    total = config.samples * batches
    theorem = config.task.blocks**4 * config.task.alphabet**6
    return Measured(f"{total:,} in all, {config.samples:,} per step ($k^4 N^6$ = {theorem:.1e})", total)


def steps(records: Sequence[Any]) -> Measured:
    config = records[0].config
    exact = float(np.median([record.final(f"exact match {longest_hop(config)}") for record in records]))
    return Measured(f"{config.turns} steps, exact match {exact:g} on {longest_hop(config)}", config.turns)


def mass(records: Sequence[Any]) -> Measured:
    layers = range(1, records[0].config.task.layers + 1)
    share = float(np.median([min(record.final(f"attending layer {layer}") for layer in layers) for record in records]))
    return Measured(f"{share:.1%} of the tokens attend rightly in the worst layer", share)


def mixture_against_hardest(records: Sequence[Any]) -> Measured:
    """Held-out error on the most hops, trained on the mixture or on them alone; 1 is chance."""
    config = records[0].config
    hop = max(config.test_hops)

    def error(chosen: list[Any]) -> float:
        accuracy = np.median([record.final(f"accuracy {hop}") for record in chosen])
        return float((1 - accuracy) / (1 - 1 / config.task.alphabet)) if chosen else math.nan

    mixed = error([record for record in records if len(record.config.hops) > 1])
    alone = error([record for record in records if record.config.hops == (hop,)])
    return Measured(f"error on {hop} hops over chance: {mixed:.3f} from the mixture, {alone:.3f} alone", mixed, alone)


ANSWERS = (
    Answer("samples", "$k^4 N^6$ per step by the theorem; $kN(L+1)^2$ up to a constant in fact", "curriculum", samples),
    Answer("steps", "one key-query and one readout step per layer: $2(1 + \\log_2 k)$", "curriculum", steps),
    Answer("attention", "in layer $l$ the token $2^{l-1}$ hops on, by the hidden permutations", "curriculum", mass),
    Answer(
        "supervision",
        "labels of shorter hops: from the longest alone no gradient method learns",
        "encoder",
        mixture_against_hardest,
    ),
    Answer("extrapolation", "not asked: k is fixed, and every sequence of it is covered"),
)
