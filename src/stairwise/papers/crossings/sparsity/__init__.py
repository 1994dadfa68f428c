"""Does sparsity come before accuracy? Normalised attention entropy and accuracy over training, on all five tasks.

Each task has its own data and its own paper's model in a small size; the optimiser (Adam), the looks and the two
numbers are the same: how right the supervised answers are, and the entropy H(P) / ln(visible keys) of the rows that
give them, averaged over rows, heads and layers. For every seed the step at which entropy has made half of its way down
is compared with the step at which accuracy has made half of its way up.

The hypotheses below were written before the experiment was run.
"""

from collections.abc import Sequence
from typing import Any

from stairwise.lab.contract.checks import at_least, note, row, true
from stairwise.lab.contract.claims import Ledger
from stairwise.lab.contract.experiment import Experiment, Figure, Preset
from stairwise.papers.crossings.sparsity import figures, runs, train
from stairwise.papers.crossings.sparsity.config import Watched

SHARE = 0.75  # of the seeds that learn
SAYS = "entropy is half-way down before accuracy is half-way up, in 3/4 of the seeds that learn"


def arms(**sizes: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {task: {"task": task, **fields} for task, fields in sizes.items()}


SMALL = arms(
    composition={"length": 4, "parts": 2, "model.layers": 2, "learning_rate": 2e-3, "looks": 60},
    lego={"length": 4, "parts": 4, "learning_rate": 2e-3, "measure_every": 20},
    parity_cot={"length": 12, "parts": 4, "measure_every": 5},
    parity_onestep={"length": 16, "parts": 8, "learning_rate": 0.05, "measure_every": 5},
    selection={"length": 24, "parts": 3, "model.width": 48, "learning_rate": 5e-3},
)
LARGE = arms(
    composition={"length": 5, "parts": 2, "model.layers": 2, "model.width": 128, "batch": 256, "looks": 200},
    lego={"length": 5, "parts": 6, "model.width": 128, "measure_every": 50, "looks": 200},
    parity_cot={"length": 24, "parts": 8, "model.layers": 2, "measure_every": 10, "looks": 300},
    parity_onestep={"length": 64, "parts": 32, "learning_rate": 0.02, "measure_every": 5, "looks": 200},
    selection={"length": 100, "parts": 3, "model.width": 128, "learning_rate": 2e-3, "measure_every": 20, "looks": 200},
)
EXPERIMENTS = (
    Experiment(
        id="sparsity",
        says="five tasks: normalised attention entropy and accuracy over training, and which of them moves first",
        Config=Watched,
        program=train.training,
        opens_with="accuracy",
        figures=(
            Figure("fig-sparsity", "Entropy and accuracy over training on the five tasks", figures.traces),
            Figure(
                "fig-sparsity-order",
                "Step of half of the fall in entropy against step of half of the rise in accuracy, every seed",
                figures.order,
            ),
        ),
        presets={
            "quick": Preset(Watched(), SMALL, seeds=4, note="the smallest sizes that are learnt in seconds"),
            "gpu": Preset(
                Watched(test_examples=128), LARGE, seeds=16, group=16, note="16 seeds side by side, a program a task"
            ),
        },
    ),
)

# --- the hypotheses ---------------------------------------------------------------------------------------------------

LEDGER = Ledger()


def entropy_moves_first(records: Sequence[Any], task: str):
    found = [(record.seed, runs.halves(record)) for record in records if record.config.task == task]
    learnt = [one for _, one in found if one.learnt]
    first = sum(one.sparse_first for one in learnt)
    yield true("some seed learns", bool(learnt))
    if learnt:
        yield at_least("share of seeds in which entropy moves first", first / len(learnt), SHARE)
        p = runs.sign_test(first, len(learnt))
        yield note(f"{first} of {len(learnt)} seeds that learn (of {len(found)}), sign test p = {p:.2g}")
    for seed, one in found:
        yield row({"seed": seed, **one.described})


LEDGER.family(
    entropy_moves_first,
    {
        "sparsity-composition": {"says": f"composition: {SAYS}", "given": {"task": "composition"}},
        "sparsity-lego": {"says": f"lego: {SAYS}", "given": {"task": "lego"}},
        "sparsity-parity-cot": {"says": f"parity_cot: {SAYS}", "given": {"task": "parity_cot"}},
        "sparsity-parity-onestep": {"says": f"parity_onestep: {SAYS}", "given": {"task": "parity_onestep"}},
        "sparsity-selection": {"says": f"selection: {SAYS}", "given": {"task": "selection"}},
    },
    form="empirical",
    experiment="sparsity",
    statement="ours: sparsity before accuracy",
)
