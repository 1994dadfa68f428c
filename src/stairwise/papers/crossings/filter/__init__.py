"""Parity's filter inside LEGO self-training: labels of an unreliable annotator, kept only where two tellings agree.

In one-step parity a filter on unlabelled inputs keeps a level from learning on the noise of the level below. In LEGO
self-training the labels of a longer chain come from the decoder itself. Each of them is garbled with chance p, and the
filter lets a chain through only if the annotator says the same when it is told again, with other variables and its
predicates in another order.

The hypotheses below were written before the experiment was run.
"""

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from stairwise.lab.contract.checks import at_least, at_most, measured, row, skip_if, vacuous_if
from stairwise.lab.contract.claims import Ledger
from stairwise.lab.contract.experiment import Experiment, Figure, Preset, Trial
from stairwise.papers.crossings.filter import figures, runs, train
from stairwise.papers.crossings.filter.config import Filtered, kept_share, right_share
from stairwise.papers.lego import figures as lego_figures
from stairwise.papers.lego import train as lego_train
from stairwise.papers.lego.config.practical import Practical, Shape
from stairwise.papers.lego.config.task import Task

LOUD = 0.2  # the noise at which the filter is asked to help
NEARLY_RIGHT = 0.9  # exact match of labels above which noise cannot be said to have passed
UNPAIRED = f"the trials have no pair with and without the filter at p={LOUD:g}"


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
    steps=2000,
    test_lengths=(5, 10, 20),
    test_examples=200,
    curve_examples=50,
    measure_every=100,
    keep_weights=True,
)
LARGE = Practical(
    task=Task("S5", 64, 5),
    model=Shape(width=128),
    batch=128,
    steps=2500,
    test_lengths=(5, 10, 20, 40),
    test_examples=512,
    measure_every=2500,
    keep_weights=True,
)
BASE = Experiment(
    id="filter-base",
    says="the annotator of the filter crossing: a LEGO decoder trained at L with true labels",
    Config=Practical,
    program=lego_train.training,
    opens_with="exact *",
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
    },
)
LONG = Filtered(base=LARGE, samples=10_000, batch=128, steps=2000)
LEVELS = (0.0, 0.05, 0.1, LOUD, 0.4)
EXPERIMENT = Experiment(
    id="filter",
    says="self-training of LEGO on garbled labels, with and without a filter that keeps chains on which tellings agree",
    Config=Filtered,
    program=train.training,
    opens_with="exact *",
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
    },
)
EXPERIMENTS = (BASE, EXPERIMENT)


# --- hypotheses -------------------------------------------------------------------------------------------------------

LEDGER = Ledger()
OURS = "ours: a filter in self-training"


@LEDGER.empirical(
    "filter-labels",
    experiment="filter",
    statement=OURS,
    says="under independent noise the shares of chains kept, and of right ones among them, are the formula's to 0.1",
    of=(kept_share, right_share),
)
def labels_follow_the_formula(records: Sequence[Any]):
    for found in runs.against_formula(records):
        yield at_most(f"distance from the formula, p={found['p']:g}, seed {found['seed']}", found["off"], 0.1)
        yield row(found)


@LEDGER.empirical(
    "filter-helps",
    experiment="filter",
    statement=OURS,
    says="at $p = 0.2$ the filter adds 0.05 or more to the median exact match at the next length",
)
def the_filter_helps(records: Sequence[Any]):
    gain = runs.gain(records, LOUD, False)
    yield skip_if(math.isnan(gain), UNPAIRED)
    yield at_least("gain in median exact match", gain, 0.05)
    yield from map(row, runs.table(records))


@LEDGER.empirical(
    "filter-systematic",
    experiment="filter",
    statement=OURS,
    says="a control: of noise that every telling repeats ($p = 0.2$) the filter lets wrong chains pass, so the median"
    " exact match changes by 0.05 at most",
)
def systematic_errors_pass(records: Sequence[Any]):
    gain = runs.gain(records, LOUD, True)
    yield skip_if(math.isnan(gain), UNPAIRED)
    loud = runs.chosen(records, LOUD, True, True)
    right = np.median([record.final("label exact") for record in loud])
    yield vacuous_if(right > NEARLY_RIGHT, "hardly a label was wrong, so there was nothing to let pass")
    yield measured("share of chains kept, least", min(record.final("kept") for record in loud))
    yield measured("exact match of their labels, median", right)
    yield at_most("change of median exact match", abs(gain), 0.05)
    yield from map(row, runs.table(records))


@LEDGER.empirical(
    "filter-mild",
    experiment="filter",
    statement=OURS,
    says="up to $p = 0.1$ self-training without a filter lowers median exact match at the next length by 0.02 at most",
)
def mild_noise_does_no_harm(records: Sequence[Any]):
    for noise, loss in runs.losses(records, 0.1).items():
        yield at_most(f"fall of median exact match, p={noise:g}", loss, 0.02)
    yield from map(row, runs.table(records))
