"""Parity's filter inside LEGO self-training: labels of an unreliable annotator, kept only where two tellings agree.

In one-step parity a filter on unlabelled inputs keeps a level from learning on the noise of the level below. In LEGO
self-training the labels of a longer chain come from the decoder itself. Each of them is garbled with chance p, and the
filter lets a chain through only if the annotator says the same when it is told again, with other variables and its
predicates in another order.

The hypotheses below were written before the experiment was run.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

from stairwise.lab.config import Config, option, require
from stairwise.lab.contract import Experiment, Figure, Ledger, Preset, Trial, Verdict
from stairwise.lazy import lazy
from stairwise.papers.lego.config.practical import Lessons, Practical, Shape
from stairwise.papers.lego.config.task import Task

if TYPE_CHECKING:
    from stairwise.papers.crossings.filter import runs
else:
    runs = lazy("stairwise.papers.crossings.filter.runs")

HERE = "stairwise.papers.crossings.filter"
LOUD = 0.2  # the noise at which the filter is asked to help
NO = {"otherwise": "not-reproduced"}


@dataclass(frozen=True)
class Filtered(Config):
    """A decoder trained with true labels, then at a longer length with its own, garbled and perhaps filtered."""

    base: Practical = option(Practical(keep_weights=True), "the annotator, and how everything is tested")
    length: int = option(10, "length of the chains that it labels", low=1)
    noise: float = option(0.1, "chance p that a label is replaced by a wrong one", low=0.0, high=1.0, numeric=True)
    systematic: bool = option(False, "the same labels go wrong in every telling of a chain", numeric=True)
    filter: bool = option(True, "train on the chains whose tellings agree only", numeric=True)
    tellings: int = option(2, "how often the annotator labels a chain", low=1, high=16)
    pool: int = option(1000, "chains that are labelled", low=1, high=2**20)
    batch: int = option(32, "chains a step", low=1, high=2**16)
    steps: int = option(200, "steps", low=1, high=10**6)
    learning_rate: float = option(5e-4, "peak learning rate", above=0.0, numeric=True)
    final_rate: float = option(0.05, "last learning rate over the peak", low=0.0, high=1.0, numeric=True)

    def check(self) -> None:
        longest = self.base.longest
        require(self.length <= longest, f"length={self.length} must be at most the longest that base sees, {longest}")
        own = self.base.model.positions
        require(own == "none", f"base.model.positions={own} must be none (predicates are told in another order)")
        require(self.base.keep_weights, "base.keep_weights must be true: the annotator is trained once a seed")


def kept_share(noise: float, values: int, length: int, tellings: int = 2) -> float:
    """The chance that all tellings of a chain agree, if only the noise is wrong and it is independent.

    ((1-p)^R + (|Y|-1) (p/(|Y|-1))^R)^L: at each step all are right, or all are wrong in the same way.

    >>> round(kept_share(0.1, 4, 10), 4)
    0.1267
    """
    return ((1 - noise) ** tellings + (values - 1) * (noise / (values - 1)) ** tellings) ** length


def right_share(noise: float, values: int, length: int, tellings: int = 2) -> float:
    """The chance that a chain whose tellings agree is right: (1-p)^{RL} over the chance that they agree.

    >>> round(right_share(0.1, 4, 10), 4)
    0.9598
    """
    return (1 - noise) ** (tellings * length) / kept_share(noise, values, length, tellings)


def arms(levels: tuple[float, ...], systematic: tuple[float, ...]) -> dict[str, dict[str, Any]]:
    """Every noise level with and without the filter; some of them with noise that repeats itself."""
    pairs = [(p, False) for p in levels] + [(p, True) for p in systematic]
    return {
        f"p={p:g}{', systematic' if same else ''}, {'filter' if kept else 'all'}": {
            "noise": p,
            "systematic": same,
            "filter": kept,
        }
        for (p, same), kept in product(pairs, (False, True))
    }


def needs(config: Filtered, seed: int) -> dict[str, Trial]:
    """The annotator: one training a seed, whatever is then done with its labels."""
    from stairwise.papers.crossings import PAPER

    return {"base": Trial(PAPER.experiment("filter-base"), config.base, seed)}


QUICK = Practical(
    task=Task("S4", 24, 5),
    lessons=Lessons(steps=2000),
    test_lengths=(5, 10, 20),
    test_sequences=200,
    measure_every=2000,
    keep_weights=True,
)
LARGE = Practical(
    task=Task("S5", 64, 5),
    model=Shape(width=128),
    lessons=Lessons(batch=128, steps=2500),
    test_lengths=(5, 10, 20, 40),
    test_sequences=512,
    measure_every=2500,
    keep_weights=True,
)
BASE = Experiment(
    id="filter-base",
    says="the annotator of the filter crossing: a LEGO decoder trained at L with true labels",
    Config=Practical,
    program="stairwise.papers.lego.train:training",
    model="stairwise.papers.lego.train:stored_model",
    figures=(
        Figure(
            "fig-filter-base",
            "The annotator's exact match against length",
            "stairwise.papers.lego.figures.lengths:controls",
        ),
    ),
    presets={
        "quick": Preset(QUICK, seeds=2),
        "gpu": Preset(LARGE, seeds=5, group=5),
        "paper": Preset(LARGE, seeds=8, group=8, hours=0.05, note="not in a paper"),
    },
)
LONG = Filtered(base=LARGE, pool=10_000, batch=128, steps=2000)
LEVELS = (0.0, 0.05, 0.1, LOUD, 0.4)
EXPERIMENT = Experiment(
    id="filter",
    says="self-training of LEGO on garbled labels, with and without a filter that keeps chains on which tellings agree",
    Config=Filtered,
    program=f"{HERE}.train:training",
    needs=f"{HERE}:needs",
    figures=(
        Figure(
            "fig-filter", "Labels kept, and exact match after self-training, against noise", f"{HERE}.figures:noise"
        ),
    ),
    presets={
        "quick": Preset(Filtered(base=QUICK), arms(LEVELS, (LOUD,)), seeds=2, note="S_4, from L = 5 to 10"),
        "gpu": Preset(
            LONG,
            arms((0.0, 0.02, *LEVELS[1:]), LEVELS[1:]),
            seeds=5,
            group=20,
            note="S_5, from L = 5 to 10",
        ),
        "paper": Preset(
            replace(LONG, pool=100_000, steps=20_000),
            arms((0.0, 0.02, *LEVELS[1:]), LEVELS[1:]),
            seeds=8,
            group=20,
            hours=0.8,
            note="not in a paper",
        ),
    },
)
EXPERIMENTS = (BASE, EXPERIMENT)


# --- hypotheses -------------------------------------------------------------------------------------------------------

LEDGER = Ledger()


@LEDGER.empirical(
    "filter-labels",
    experiment="filter",
    says="under independent noise the shares of chains kept, and of right ones among them, are the formula's to .1",
)
def labels_follow_the_formula(records: Sequence[Any]) -> Verdict:
    rows = runs.against_formula(records)
    worst = max((row["off"] for row in rows), default=0.0)
    return Verdict.at_most(worst, 0.1, details=tuple(rows), **NO)


@LEDGER.empirical(
    "filter-helps",
    experiment="filter",
    says="at p=.2 the filter adds .05 or more to the median exact match at the next length",
)
def the_filter_helps(records: Sequence[Any]) -> Verdict:
    return Verdict.at_least(runs.gain(records, LOUD, False), 0.05, details=runs.table(records), **NO)


@LEDGER.empirical(
    "filter-systematic",
    experiment="filter",
    says="at p=.2 of noise that every telling repeats, the filter changes the median exact match by less than .05",
)
def systematic_errors_pass(records: Sequence[Any]) -> Verdict:
    return Verdict.at_most(abs(runs.gain(records, LOUD, True)), 0.05, details=runs.table(records), **NO)


@LEDGER.empirical(
    "filter-mild",
    experiment="filter",
    says="up to p=.1 self-training without a filter lowers the median exact match at the next length by at most .02",
)
def mild_noise_does_no_harm(records: Sequence[Any]) -> Verdict:
    return Verdict.at_most(runs.largest_loss(records, 0.1), 0.02, details=runs.table(records), **NO)
