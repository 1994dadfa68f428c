"""The same running parity, once with bits that are found by name and once with bits that are found by place.

by name    LEGO with C_2: clauses "x_l = g_l x_{l-1}" of two chains over fresh names; the decoder is told no positions
by place   as many clauses that hold a bit and no name; the bits of the chain stand at secret places, the same in every
           sentence; the decoder has learned positions

Decoder (but for positions), optimiser, number of clauses, chain of values, loss and criterion are the same.

The hypotheses below were written before the experiment was run.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from stairwise.lab.contract.checks import at_least, at_most, row, true
from stairwise.lab.contract.claims import Ledger
from stairwise.lab.contract.experiment import Experiment, Figure, Preset
from stairwise.papers.crossings.retrieval import figures, runs, train
from stairwise.papers.crossings.retrieval.config import KINDS, Model, Tracking

FURTHER = 0.5  # exact match at twice the length that counts as going further
CHANCE = 0.1  # how far above 2^-L exact match may seem that comes from guessing the further steps


def arms(lengths: Sequence[int], rates: Sequence[float]) -> dict[str, dict[str, Any]]:
    return {
        f"by {kind}, L={length}, rate {rate:g}": {"retrieval": kind, "length": length, "learning_rate": rate}
        for kind in KINDS
        for length in lengths
        for rate in rates
    }


LARGE = Tracking(names=80, model=Model(width=128, heads=4), batch=128, look=2560, budget=256_000, test_examples=256)
EXPERIMENTS = (
    Experiment(
        id="retrieval",
        says="one running parity, its bits found by name (LEGO with C₂) or by place (the parity chain)",
        Config=Tracking,
        program=train.training,
        opens_with="accuracy",
        figures=(
            Figure(
                "fig-retrieval",
                "Samples to success, exact match at twice the length, and attention entropy, by name and by place",
                figures.by_name_and_place,
            ),
        ),
        presets={
            "quick": Preset(Tracking(), arms((2, 4), (2e-3,)), seeds=3, note="width 64, two lengths"),
            "gpu": Preset(
                LARGE, arms((2, 4, 8, 16), (5e-4, 1e-3, 2e-3)), seeds=5, group=15, note="three rates a length"
            ),
        },
    ),
)

# --- the hypotheses ---------------------------------------------------------------------------------------------------

LEDGER = Ledger()
OURS = "ours: bits found by name or by place"


@LEDGER.empirical(
    "retrieval-samples",
    experiment="retrieval",
    statement=OURS,
    says="bits at fixed places are found from fewer sentences than named ones, at every length that both learn",
)
def places_are_learnt_sooner(records: Sequence[Any]):
    yield from in_proportion(records, "samples, by place / by name", runs.ratios(records))


@LEDGER.empirical(
    "retrieval-length",
    experiment="retrieval",
    statement=OURS,
    says="trained at $L$, finding by name has exact match 1/2 at $2L$ (median); finding by place stays within 0.1 of"
    " $2^{-L}$",
)
def names_go_further(records: Sequence[Any]):
    beyond = runs.beyond(records)
    for kind in KINDS:
        yield true(f"some run finds by {kind}", any(own == kind for own, _ in beyond))
    for (kind, length), value in beyond.items():
        if kind == "name":
            yield at_least(f"exact match at 2L by name, L={length}", value, FURTHER)
        else:
            yield at_most(f"exact match at 2L by place - 2^-L, L={length}", value - 2.0**-length, CHANCE)
    yield from map(row, runs.table(records))


@LEDGER.empirical(
    "retrieval-entropy",
    experiment="retrieval",
    statement=OURS,
    says="when both have learnt, attention that finds by name has the lower normalised entropy (medians, every length)",
)
def names_are_found_sharply(records: Sequence[Any]):
    entropy = runs.entropies(records)
    lengths = sorted(length for kind, length in entropy if kind == "name" and ("place", length) in entropy)
    ratios = {length: entropy["name", length] / entropy["place", length] for length in lengths}
    yield from in_proportion(records, "entropy, by name / by place", ratios)


def in_proportion(records: Sequence[Any], name: str, ratios: Mapping[int, float]):
    """At every length that is learnt both ways the ratio is at most 1, and there is such a length."""
    yield true("some length is learnt both ways", bool(ratios))
    for length, ratio in ratios.items():
        yield at_most(f"{name}, L={length}", ratio, 1.0)
    yield from map(row, runs.table(records))
