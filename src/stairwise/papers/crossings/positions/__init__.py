"""Selection's stochastic positions on LEGO: clauses are told their place by random sign vectors, drawn once or afresh.

In sparse selection the query carries the codes of the places it asks for, and drawing the codes anew makes attention
learn "match the code" instead of a table. A LEGO clause never names a place, only variables: codes can say nothing
that is needed. What they can do is mislead, and the question is which ones do.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from stairwise.lab.contract import Experiment, Figure, Ledger, Preset, Verdict
from stairwise.papers.crossings.positions import figures, train
from stairwise.papers.crossings.positions.config import ADDED, OWN, Told, coded, kind
from stairwise.papers.lego.config.practical import Lessons, Practical, Shape
from stairwise.papers.lego.config.task import Task

CLOSE = 0.1  # two medians of exact match that are called equal
LOST = 0.2  # at most so much exact match: the length is not solved
NO = {"otherwise": "not-reproduced"}


QUICK = Practical(
    task=Task("C4", 24, 5),
    lessons=Lessons(batch=32, steps=1000),
    test_lengths=(5, 10, 20),
    test_sequences=200,
    measure_every=1000,
)
LARGE = Practical(
    task=Task("C6", 48, 5),
    model=Shape(width=128),
    lessons=Lessons(batch=256, steps=6000),
    test_lengths=(5, 10, 20, 40),
    test_sequences=512,
    measure_every=2000,
)


EXPERIMENT = Experiment(
    id="positions",
    says="selection's stochastic positions on LEGO: which encodings carry a decoder trained at L to 2L and 4L?",
    Config=Told,
    program=train.training,
    figures=(Figure("fig-positions", "Exact match at L, 2L, 4L by how places are told", figures.lengths),),
    presets={
        "quick": Preset(Told(lego=QUICK), OWN | coded(32), seeds=2, note="C_4, L = 5, 1000 steps of 32"),
        "gpu": Preset(Told(lego=LARGE), OWN | coded(256) | ADDED, seeds=5, group=5, note="C_6, width 128"),
        "paper": Preset(
            Told(lego=replace(LARGE, lessons=Lessons(batch=256, steps=40_000), test_sequences=1000)),
            OWN | coded(256) | ADDED,
            seeds=8,
            group=8,
            hours=0.6,
            note="not in a paper",
        ),
    },
)
EXPERIMENTS = (EXPERIMENT,)


# --- hypotheses, written before the experiment was run ----------------------------------------------------------------

LEDGER = Ledger()


def medians(records: Sequence[Any], times: int) -> dict[str, float]:
    """Median exact match of every arm at so many times the training length."""
    import numpy as np

    found: dict[str, list[float]] = {}
    for record in records:
        length = times * record.config.lego.task.length
        found.setdefault(kind(record.config), []).append(record.final(f"exact {length}"))
    return {name: float(np.median(values)) for name, values in found.items()}


def rows(records: Sequence[Any]) -> tuple[dict[str, Any], ...]:
    tables = {times: medians(records, times) for times in (1, 2, 4)}
    return tuple({"arm": name} | {f"{times}L": table[name] for times, table in tables.items()} for name in tables[1])


def missing(records: Sequence[Any], *names: str) -> Verdict | None:
    """A run of other arms than the preset's cannot be judged."""
    absent = [name for name in names if name not in medians(records, 2)]
    return Verdict.reported(0.0, note=f"not among the arms: {', '.join(absent)}") if absent else None


def close(records: Sequence[Any], arm: str, standard: str) -> Verdict:
    """One arm's median at 2L is at most CLOSE below another's."""
    found = medians(records, 2)
    note = f"at 2L: {arm} {found[arm]:.3f}, {standard} {found[standard]:.3f}"
    return Verdict.at_most(found[standard] - found[arm], CLOSE, note=note, details=rows(records), **NO)


@LEDGER.empirical(
    "positions-fresh",
    experiment="positions",
    says="codes drawn anew for every sentence carry to 2L: median exact match at most .1 below that of no positions",
)
def fresh_codes_carry(records: Sequence[Any]) -> Verdict:
    arms = "codes, new every sentence", "none (NoPE)"
    return missing(records, *arms) or close(records, *arms)


@LEDGER.empirical(
    "positions-step",
    experiment="positions",
    says="one new set of codes a step, shared by the batch (selection's way), carries to 2L as well, to within .1",
)
def fresh_every_step_is_enough(records: Sequence[Any]) -> Verdict:
    arms = "codes, new every step", "codes, new every sentence"
    return missing(records, *arms) or close(records, *arms)


@LEDGER.empirical(
    "positions-fixed",
    experiment="positions",
    says="one fixed draw of codes fails at 2L like a learned table: median exact match at most .2 for both",
)
def a_fixed_draw_fails(records: Sequence[Any]) -> Verdict:
    arms = "codes, one draw", "learned"
    if (refusal := missing(records, *arms)) is not None:
        return refusal
    found = medians(records, 2)
    return Verdict.at_most(max(found[arm] for arm in arms), LOST, details=rows(records), **NO)


@LEDGER.empirical(
    "positions-coverage",
    experiment="positions",
    says="random places among one fixed draw carry to 2L like a learned table's, to within .1: coverage, not learning",
)
def coverage_is_what_helps(records: Sequence[Any]) -> Verdict:
    arms = "codes, one draw, random places", "learned, random places"
    return missing(records, *arms) or close(records, *arms)


@LEDGER.empirical(
    "positions-best",
    experiment="positions",
    says="no way of telling places beats telling none: at 4L no median exact match is more than .05 above NoPE's",
)
def nothing_beats_no_positions(records: Sequence[Any]) -> Verdict:
    standard = "none (NoPE)"
    if (refusal := missing(records, standard)) is not None:
        return refusal
    found = medians(records, 4)
    best = max(found, key=lambda name: found[name])
    note = f"best at 4L: {best} {found[best]:.3f}; none {found[standard]:.3f}"
    return Verdict.at_most(found[best] - found[standard], 0.05, note=note, details=rows(records), **NO)
