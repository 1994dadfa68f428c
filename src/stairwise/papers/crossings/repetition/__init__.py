"""Repetition against fresh data on three tasks in one design: one decoder, one optimiser, equal steps, many pools.

Parity papers find that seeing few sequences often makes parities learnable sooner than seeing new ones; composition
sees the same. Both ask for the answer alone. Does it hold for LEGO, and does it survive where every step is labelled?

The hypotheses below were written before the experiment was run.
"""

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

from stairwise.lab.contract.checks import at_least, note, row
from stairwise.lab.contract.claims import Ledger
from stairwise.lab.contract.experiment import Experiment, Figure, Preset
from stairwise.papers.composition.config import Task as CompositionTask
from stairwise.papers.crossings.repetition import figures, runs, train
from stairwise.papers.crossings.repetition.config import TASKS, Repeated
from stairwise.papers.lego.config.task import Task as LegoTask
from stairwise.papers.parity_cot.config.task import Task as ParityTask
from stairwise.papers.parity_cot.config.training import Decoder


def arms(pools: tuple[int, ...]) -> dict[str, dict[str, Any]]:
    """Every task, both ways to label, every pool; fresh examples last."""
    return {
        f"{task}, {'every step' if every_step else 'the answer'}, {f'{pool:,}' if pool else 'fresh'}": {
            "task": task,
            "every_step": every_step,
            "samples": pool,
        }
        for task, every_step, pool in product(TASKS, (False, True), (*pools, 0))
    }


LARGE = Repeated(
    parity=ParityTask(bits=20, size=4),
    composition=CompositionTask(blocks=2, alphabet=8),
    lego=LegoTask("S4", 12, 4),
    learning_rate=1e-3,
    batch=128,
    measure_every=20,
    looks=600,
    test_examples=1024,
)
SMALL = Repeated(
    parity=ParityTask(bits=12, size=3),
    composition=CompositionTask(blocks=2, alphabet=4),
    lego=LegoTask("S3", 6, 2),
    model=Decoder(width=32, layers=2, std=0.18),
    learning_rate=3e-3,
    batch=32,
    test_examples=256,
)
EXPERIMENT = Experiment(
    id="repetition",
    says="repetition against fresh data on parity, composition and LEGO: steps and samples until a chain is right",
    Config=Repeated,
    program=train.training,
    opens_with="accuracy",
    figures=(Figure("fig-repetition", "Steps to success against distinct examples seen", figures.both_axes),),
    presets={
        "quick": Preset(
            SMALL, arms((250, 1000)), seeds=2, note="parity 3 of 12, composition k=2, N=4, LEGO S_3, L=2; width 32"
        ),
        "gpu": Preset(
            LARGE,
            arms((500, 2000, 8000, 32_000)),
            seeds=8,
            group=40,
            note="parity 4 of 20, composition k=2, N=8, LEGO S_4, L=4",
        ),
    },
)
EXPERIMENTS = (EXPERIMENT,)


# --- hypotheses -------------------------------------------------------------------------------------------------------

LEDGER = Ledger()
OURS = "ours: repetition against fresh data"


@LEDGER.empirical(
    "repetition-answer",
    experiment="repetition",
    statement=OURS,
    says="with the answer alone labelled, on two of three tasks or more some pool succeeds sooner than fresh data",
)
def repetition_helps_without_steps(records: Sequence[Any]):
    """Kaplan-Meier medians; a task on which nothing succeeds does not count."""
    found = runs.cells(records, every_step=False)
    sooner = [task for task, cell in found.items() if runs.best_pool(cell) < runs.fresh(cell)]
    yield at_least("tasks on which some pool succeeds sooner", len(sooner), 2)
    yield note(f"sooner on: {', '.join(sooner) or 'none'}")
    yield from map(row, runs.table(records))


@LEDGER.empirical(
    "repetition-steps",
    experiment="repetition",
    statement=OURS,
    says="with every step labelled no pool succeeds in fewer than 0.8 of the steps that fresh data take, on any task",
)
def repetition_does_not_help_with_steps(records: Sequence[Any]):
    decided = {task: cell for task, cell in runs.cells(records, every_step=True).items() if runs.decided(cell)}
    if not decided:
        yield note("no task was learnt from fresh data and from a pool")
    for task, cell in decided.items():
        yield at_least(f"steps, best pool / fresh data, {task}", runs.best_pool(cell) / runs.fresh(cell), 0.8)
    yield from map(row, runs.table(records))


@LEDGER.empirical(
    "repetition-samples",
    experiment="repetition",
    statement=OURS,
    says="with every step labelled, on every task some pool at most a quarter of what fresh data use up succeeds",
)
def repetition_saves_samples(records: Sequence[Any]):
    for task, cell in runs.cells(records, every_step=True).items():
        saved = runs.samples_saved(cell)
        yield at_least(f"samples, fresh data / smallest pool, {task}", saved if math.isfinite(saved) else 0.0, 4)
    yield from map(row, runs.table(records))
