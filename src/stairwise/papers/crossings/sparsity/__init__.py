"""Does sparsity come before accuracy? Normalised attention entropy and accuracy over training, on all five tasks.

Each task has its own data and its own paper's model in a small size; the optimiser (Adam), the looks and the two
numbers are the same: how right the supervised answers are, and the entropy H(P) / ln(visible keys) of the rows that
give them, averaged over rows, heads and layers. For every seed the step at which entropy has made half of its way down
is compared with the step at which accuracy has made half of its way up.

The hypotheses below were written before the experiment was run.
"""

from collections.abc import Sequence
from typing import Any

from stairwise.lab.contract import Experiment, Figure, Ledger, Preset, Verdict
from stairwise.papers.crossings.sparsity import figures, runs, train
from stairwise.papers.crossings.sparsity.config import TASKS, Watched

SHARE = 0.75  # of the seeds that learn


def arms(**sizes: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {task: {"task": task, **fields} for task, fields in sizes.items()}


SMALL = arms(
    composition={"length": 4, "parts": 2, "layers": 2, "rate": 2e-3, "looks": 60},
    lego={"length": 4, "parts": 4, "rate": 2e-3, "look": 20},
    parity_cot={"length": 12, "parts": 4, "look": 5},
    parity_onestep={"length": 16, "parts": 8, "rate": 0.05, "look": 5},
    selection={"length": 24, "parts": 3, "width": 48, "rate": 5e-3},
)
LARGE = arms(
    composition={"length": 5, "parts": 2, "layers": 2, "width": 128, "batch": 256, "looks": 200},
    lego={"length": 5, "parts": 6, "width": 128, "look": 50, "looks": 200},
    parity_cot={"length": 24, "parts": 8, "layers": 2, "look": 10, "looks": 300},
    parity_onestep={"length": 64, "parts": 32, "rate": 0.02, "look": 5, "looks": 200},
    selection={"length": 100, "parts": 3, "width": 128, "rate": 2e-3, "look": 20, "looks": 200},
)
EXPERIMENTS = (
    Experiment(
        id="sparsity",
        says="five tasks: normalised attention entropy and accuracy over training, and which of them moves first",
        Config=Watched,
        program=train.training,
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
            "gpu": Preset(Watched(test=128), LARGE, seeds=16, group=16, note="16 seeds side by side, a program a task"),
            "paper": Preset(
                Watched(test=256),
                {task: {**fields, "looks": 4 * fields["looks"]} for task, fields in LARGE.items()},
                seeds=32,
                group=32,
                hours=0.5,
                note="not in a paper: four times as long, twice the seeds",
            ),
        },
    ),
)

# --- the hypotheses ---------------------------------------------------------------------------------------------------

LEDGER = Ledger()


def _entropy_first(task: str):
    def judge(records: Sequence[Any]) -> Verdict:
        return runs.verdict([record for record in records if record.config.task == task], SHARE)

    return judge


for _task in TASKS:
    LEDGER.empirical(
        f"sparsity-{_task.replace('_', '-')}",
        experiment="sparsity",
        says=f"{_task}: entropy is half-way down before accuracy is half-way up, in 3/4 of the seeds that learn",
    )(_entropy_first(_task))
