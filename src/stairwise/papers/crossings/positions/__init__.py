"""Selection's stochastic positions on LEGO: random sign vectors name the places of clauses, drawn once or afresh.

In sparse selection the query carries the codes of the places it asks for, and drawing the codes anew makes attention
learn "match the code" instead of a table. A LEGO clause never names a place, only variables: codes can say nothing
that is needed. What they can do is mislead, and the question is which ones do.
"""

from collections.abc import Sequence
from typing import Any

from stairwise.lab.contract.checks import at_most, row, skip_if
from stairwise.lab.contract.claims import Ledger
from stairwise.lab.contract.experiment import Experiment, Figure, Preset
from stairwise.papers.crossings.positions import figures, train
from stairwise.papers.crossings.positions.config import ADDED, OWN, Told, coded, kind
from stairwise.papers.lego.config.practical import Practical, Shape
from stairwise.papers.lego.config.task import Task

CLOSE = 0.1  # two medians of exact match that are called equal
LOST = 0.2  # at most so much exact match: the length is not solved

QUICK = Practical(
    task=Task("C4", 24, 5),
    batch=32,
    steps=1000,
    test_lengths=(5, 10, 20),
    test_examples=200,
    curve_examples=50,
    measure_every=50,
)
LARGE = Practical(
    task=Task("C6", 48, 5),
    model=Shape(width=128),
    batch=256,
    steps=6000,
    test_lengths=(5, 10, 20, 40),
    test_examples=512,
    measure_every=2000,
)


EXPERIMENT = Experiment(
    id="positions",
    says="selection's stochastic positions on LEGO: which encodings carry a decoder trained at L to 2L and 4L?",
    Config=Told,
    program=train.training,
    opens_with="exact *",
    figures=(Figure("fig-positions", "Exact match at L, 2L, 4L by how places are encoded", figures.lengths),),
    presets={
        "quick": Preset(Told(lego=QUICK), OWN | coded(32), seeds=2, note="C_4, L = 5, 1000 steps of 32"),
        "gpu": Preset(Told(lego=LARGE), OWN | coded(256) | ADDED, seeds=5, group=5, note="C_6, width 128"),
    },
)
EXPERIMENTS = (EXPERIMENT,)


# --- hypotheses, written before the experiment was run ----------------------------------------------------------------

LEDGER = Ledger()
OURS = "ours: positions given by random codes"


def medians(records: Sequence[Any], times: int) -> dict[str, float]:
    """Median exact match of every arm at so many times the training length."""
    import numpy as np

    found: dict[str, list[float]] = {}
    for record in records:
        length = times * record.config.lego.task.length
        found.setdefault(kind(record.config), []).append(record.final(f"exact {length}"))
    return {name: float(np.median(values)) for name, values in found.items()}


def rows(records: Sequence[Any]):
    """Every arm's medians at L, 2L and 4L."""
    tables = {times: medians(records, times) for times in (1, 2, 4)}
    for name in tables[1]:
        yield row({"arm": name} | {f"{times}L": table[name] for times, table in tables.items()})


def has(records: Sequence[Any], *names: str):
    """A run of other arms than the preset's cannot be judged."""
    absent = [name for name in names if name not in medians(records, 2)]
    return skip_if(absent, f"not among the arms: {', '.join(absent)}")


def carries_as_far(records: Sequence[Any], arm: str, standard: str):
    """One arm's median at 2L is at most CLOSE below another's."""
    yield has(records, arm, standard)
    found = medians(records, 2)
    yield at_most(f"exact match at 2L, {standard} - {arm}", found[standard] - found[arm], CLOSE)
    yield from rows(records)


LEDGER.family(
    carries_as_far,
    {
        "positions-fresh": {
            "says": "codes drawn anew for every sentence carry to $2L$: median exact match at most 0.1 below that of no"
            " positions",
            "given": {"arm": "codes, new every sentence", "standard": "none (NoPE)"},
        },
        "positions-step": {
            "says": "one new set of codes per step, shared by the batch (selection's way), carries to $2L$ as well, to"
            " within 0.1",
            "given": {"arm": "codes, new every step", "standard": "codes, new every sentence"},
        },
        "positions-coverage": {
            "says": "random places among one fixed draw carry to $2L$ like a learned table's, to within 0.1: coverage,"
            " not learning",
            "given": {"arm": "codes, one draw, random places", "standard": "learned, random places"},
        },
    },
    form="empirical",
    experiment="positions",
    statement=OURS,
)


@LEDGER.empirical(
    "positions-fixed",
    experiment="positions",
    statement=OURS,
    says="one fixed draw of codes fails at $2L$ like a learned table: median exact match at most 0.2 for both",
)
def a_fixed_draw_fails(records: Sequence[Any]):
    arms = "codes, one draw", "learned"
    yield has(records, *arms)
    for arm in arms:
        yield at_most(f"exact match at 2L, {arm}", medians(records, 2)[arm], LOST)
    yield from rows(records)


@LEDGER.empirical(
    "positions-best",
    experiment="positions",
    statement=OURS,
    says="no way of telling places beats telling none: at $4L$ no median exact match is more than 0.05 above NoPE's",
)
def nothing_beats_no_positions(records: Sequence[Any]):
    standard = "none (NoPE)"
    yield has(records, standard)
    found = medians(records, 4)
    for arm in (name for name in found if name != standard):
        yield at_most(f"exact match at 4L, {arm} - {standard}", found[arm] - found[standard], 0.05)
    yield from rows(records)
