"""Parity's filter inside LEGO self-training: labels of an unreliable annotator, kept only where two tellings agree.

In one-step parity a filter on unlabelled inputs keeps a level from learning on the noise of the level below. In LEGO
self-training the labels of a longer chain come from the decoder itself. Each of them is garbled with chance p, and the
filter lets a chain through only if the annotator says the same when it is told again, with other variables and its
predicates in another order.

The hypotheses below were written before the experiment was run.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from stairwise.lab.contract import Experiment, Figure, Ledger, Preset, Trial, Verdict
from stairwise.papers.crossings.filter import figures, runs, train
from stairwise.papers.crossings.filter.config import Filtered
from stairwise.papers.lego import figures as lego_figures
from stairwise.papers.lego import train as lego_train
from stairwise.papers.lego.config.practical import Lessons, Practical, Shape
from stairwise.papers.lego.config.task import Task

LOUD = 0.2  # the noise at which the filter is asked to help
NO = {"otherwise": "not-reproduced"}


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
    program=lego_train.training,
    model=lego_train.stored_model,
    figures=(
        Figure(
            "fig-filter-base",
            "The annotator's exact match against length",
            lego_figures.lengths.controls,
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
    program=train.training,
    needs=needs,
    figures=(Figure("fig-filter", "Labels kept, and exact match after self-training, against noise", figures.noise),),
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
