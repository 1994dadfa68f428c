"""The same running parity, once with bits that are found by name and once with bits that are found by place.

by name    LEGO with C_2: clauses "x_l = g_l x_{l-1}" of two chains over fresh names; the decoder is told no positions
by place   as many clauses that hold a bit and no name; the bits of the chain stand at secret places, the same in every
           sentence; the decoder has learned positions

Decoder (but for positions), optimiser, number of clauses, chain of values, loss and criterion are the same.

The hypotheses below were written before the experiment was run.
"""

from collections.abc import Sequence
from typing import Any

from stairwise.lab.contract import Experiment, Figure, Ledger, Preset, Verdict
from stairwise.papers.crossings.retrieval import figures, runs, train
from stairwise.papers.crossings.retrieval.config import KINDS, Tracking

FURTHER = 0.5  # exact match at twice the length that counts as going further
CHANCE = 0.1  # how far above 2^-L exact match may seem that comes from guessing the further steps


def arms(lengths: Sequence[int], rates: Sequence[float]) -> dict[str, dict[str, Any]]:
    return {
        f"by {kind}, L={length}, rate {rate:g}": {"retrieval": kind, "length": length, "rate": rate}
        for kind in KINDS
        for length in lengths
        for rate in rates
    }


LARGE = Tracking(names=80, width=128, heads=4, batch=128, look=2560, budget=256_000, test=256)
EXPERIMENTS = (
    Experiment(
        id="retrieval",
        says="one running parity, its bits found by name (LEGO with C_2) or by place (the parity chain)",
        Config=Tracking,
        program=train.training,
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
            "paper": Preset(
                Tracking(names=160, width=256, heads=4, batch=256, look=5120, budget=2_560_000, test=512),
                arms((4, 8, 16, 32), (3e-4, 1e-3)),
                seeds=5,
                group=10,
                hours=1.0,
                note="not in a paper: longer chains, ten times the sentences",
            ),
        },
    ),
)

# --- the hypotheses ---------------------------------------------------------------------------------------------------

LEDGER = Ledger()
NO = {"otherwise": "not-reproduced"}


@LEDGER.empirical(
    "retrieval-samples",
    experiment="retrieval",
    says="bits at fixed places are found from fewer sentences than named ones, at every length that both learn",
)
def places_are_learnt_sooner(records: Sequence[Any]) -> Verdict:
    ratios = runs.ratios(records)
    if not ratios:
        return Verdict("not-reproduced", note="no length is learnt both ways", details=runs.table(records))
    note = "median samples, by place over by name: " + ", ".join(f"L={l}: {ratio:.2f}" for l, ratio in ratios.items())
    return Verdict.at_most(max(ratios.values()), 1.0, note=note, details=runs.table(records), **NO)


@LEDGER.empirical(
    "retrieval-length",
    experiment="retrieval",
    says="trained at L, finding by name has exact match 1/2 at 2L (median); finding by place stays within .1 of 2^-L",
)
def names_go_further(records: Sequence[Any]) -> Verdict:
    beyond = runs.beyond(records)
    further = [value for (kind, _), value in beyond.items() if kind == "name"]
    stuck = [value - 2.0**-length for (kind, length), value in beyond.items() if kind == "place"]
    checks = {
        "by name": Verdict.at_least(min(further, default=0.0), FURTHER, **NO),
        "by place": Verdict.at_most(max(stuck, default=1.0), CHANCE, **NO),
    }
    verdict = Verdict.worst(checks)
    note = ", ".join(f"{kind}, L={length}: {value:.2f}" for (kind, length), value in beyond.items())
    return verdict.with_rows(runs.table(records), note=f"exact match at 2L: {note}")


@LEDGER.empirical(
    "retrieval-entropy",
    experiment="retrieval",
    says="when both have learnt, attention that finds by name has the lower normalised entropy (medians, every length)",
)
def names_are_found_sharply(records: Sequence[Any]) -> Verdict:
    entropy = runs.entropies(records)
    lengths = sorted(
        {length for kind, length in entropy if ("name", length) in entropy and ("place", length) in entropy}
    )
    if not lengths:
        return Verdict("not-reproduced", note="no length is learnt both ways", details=runs.table(records))
    ratios = {length: entropy["name", length] / entropy["place", length] for length in lengths}
    note = "entropy by name over by place: " + ", ".join(f"L={l}: {ratio:.2f}" for l, ratio in ratios.items())
    return Verdict.at_most(max(ratios.values()), 1.0, note=note, details=runs.table(records), **NO)
