"""The same running parity, once with bits that are found by name and once with bits that are found by place.

by name    LEGO with C_2: clauses "x_l = g_l x_{l-1}" of two chains over fresh names; the decoder is told no positions
by place   as many clauses that hold a bit and no name; the bits of the chain stand at secret places, the same in every
           sentence; the decoder has learned positions

Decoder (but for positions), optimiser, number of clauses, chain of values, loss and criterion are the same.

The hypotheses below were written before the experiment was run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stairwise.lab.config import Config, option, require
from stairwise.lab.contract import Experiment, Figure, Ledger, Preset, Verdict
from stairwise.lazy import lazy

if TYPE_CHECKING:
    from stairwise.papers.crossings.retrieval import runs
else:
    runs = lazy("stairwise.papers.crossings.retrieval.runs")

HERE = "stairwise.papers.crossings.retrieval"
KINDS = ("name", "place")
FURTHER = 0.5  # exact match at twice the length that counts as going further
CHANCE = 0.1  # how far above 2^-L exact match may seem that comes from guessing the further steps


@dataclass(frozen=True)
class Tracking(Config):
    """A running parity of L bits out of 2L clauses, and how the bits are found."""

    retrieval: str = option("name", "how the next bit is found", choices=KINDS)
    length: int = option(4, "steps L of the chain; tested at 2L, too", low=1, high=64)
    names: int = option(24, "variables to draw names from", low=4, high=2**14)
    width: int = option(64, "width of the decoder", low=4, high=4096)
    heads: int = option(2, "heads; must divide the width", low=1, high=64)
    rate: float = option(1e-3, "learning rate of Adam", above=0.0, high=1.0, numeric=True)
    batch: int = option(64, "sentences of one step", low=1, high=2**16)
    look: int = option(640, "sentences between looks; a multiple of batch", low=1, high=2**24)
    budget: int = option(25_600, "sentences in all; a multiple of look", low=1, high=2**30)
    test: int = option(128, "fresh sentences that are looked at", low=1, high=2**14)
    threshold: float = option(0.99, "exact match that counts as learnt", above=0.0, high=1.0)

    def check(self) -> None:
        require(self.width % self.heads == 0, f"heads={self.heads} must divide width={self.width}")
        require(self.look % self.batch == 0, f"look={self.look} must be a multiple of batch={self.batch}")
        require(self.budget % self.look == 0, f"budget={self.budget} must be a multiple of look={self.look}")
        needed = 2 * (self.longest + 1)
        require(self.names >= needed, f"names={self.names} must be at least {needed} (two chains of {self.longest})")

    @property
    def longest(self) -> int:
        return 2 * self.length

    @property
    def looks(self) -> int:
        return self.budget // self.look


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
        program=f"{HERE}.train:training",
        figures=(
            Figure(
                "fig-retrieval",
                "Samples to success, exact match at twice the length, and attention entropy, by name and by place",
                f"{HERE}.figures:by_name_and_place",
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
