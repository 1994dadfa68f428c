"""Does sparsity come before accuracy? Normalised attention entropy and accuracy over training, on all five tasks.

Each task has its own data and its own paper's model in a small size; the optimiser (Adam), the looks and the two
numbers are the same: how right the supervised answers are, and the entropy H(P) / ln(visible keys) of the rows that
give them, averaged over rows, heads and layers. For every seed the step at which entropy has made half of its way down
is compared with the step at which accuracy has made half of its way up.

The hypotheses below were written before the experiment was run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stairwise.lab.config import Config, option, require
from stairwise.lab.contract import Experiment, Figure, Ledger, Preset, Verdict
from stairwise.lazy import lazy

if TYPE_CHECKING:
    from stairwise.papers.crossings.sparsity import runs
else:
    runs = lazy("stairwise.papers.crossings.sparsity.runs")

HERE = "stairwise.papers.crossings.sparsity"
TASKS = ("composition", "lego", "parity_cot", "parity_onestep", "selection")
SHARE = 0.75  # of the seeds that learn


@dataclass(frozen=True)
class Watched(Config):
    """One task, its model, and how it is trained and watched."""

    task: str = option("parity_cot", "whose task and model", choices=TASKS)
    length: int = option(
        12, "composition: letters N; lego: steps L; parities: bits n; selection: tokens T", low=2, high=2**10
    )
    parts: int = option(
        4,
        "composition: blocks k, all hops up to k; lego: order of the cyclic group; parities: secret bits; selection:"
        " named tokens q",
        low=2,
        high=64,
    )
    width: int = option(64, "width of the model (selection: of an encoding; parity_onestep: has none)", low=4)
    layers: int = option(1, "layers (composition and parity_cot; the others' models have one)", low=1, high=16)
    rate: float = option(1e-3, "learning rate of Adam", above=0.0, high=10.0, numeric=True)
    batch: int = option(64, "examples of one step", low=1, high=2**16)
    look: int = option(10, "steps between looks", low=1, high=2**20)
    looks: int = option(40, "looks in all", low=2, high=10**5)
    test: int = option(64, "fresh examples that are looked at", low=1, high=2**14)

    def check(self) -> None:
        bound = {"composition": 64, "lego": 64, "parity_cot": self.length, "parity_onestep": self.length}
        largest = bound.get(self.task, self.length)
        require(self.parts <= largest, f"parts={self.parts} must be at most {largest} where task={self.task}")
        require(self.width % 4 == 0, f"width={self.width} must be a multiple of 4 (four heads)")
        require(
            self.task in ("composition", "parity_cot") or self.layers == 1,
            f"layers={self.layers} must be 1 where task={self.task}",
        )


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
        program=f"{HERE}.train:training",
        figures=(
            Figure("fig-sparsity", "Entropy and accuracy over training on the five tasks", f"{HERE}.figures:traces"),
            Figure(
                "fig-sparsity-order",
                "Step of half of the fall in entropy against step of half of the rise in accuracy, every seed",
                f"{HERE}.figures:order",
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
