"""Figures 4 and 5 of the ICLR version: four ways to supervise the chain, over hundreds of epochs."""

from stairwise.lab.contract.experiment import Experiment, Figure, Preset
from stairwise.papers.parity_onestep import figures, learning
from stairwise.papers.parity_onestep.config import Learning, Task
from stairwise.papers.parity_onestep.presets.descents import TREE

METHODS = {
    "direct": "direct",
    "CoT": "chain",
    "CoT + teacher forcing": "forcing",
    "CoT + self-consistency": "consistency",
}
DIRECT = 0.01  # its rate over that of the others


def arms(rates: dict[int, float]) -> dict[str, dict]:
    """Every method at every k, with the rate of that k."""
    return {
        f"{name}, k={k}": {
            "task.size": k,
            "method": method,
            "learning_rate": rate * (DIRECT if method == "direct" else 1.0),
        }
        for k, rate in rates.items()
        for name, method in METHODS.items()
    }


PAPER_RATES = {32: 100.0, 16: 50.0, 8: 15.0}
# a step moves a child's logit by rate 2c/(V^2 (k-1)): three times what the paper's rates do at d = 64
QUICK_RATES = {8: 3.0, 4: 1.5}
LEARNING = Experiment(
    id="learning",
    says="Section 4 of the ICLR version: which supervision learns k = 8, 16, 32 of 64 bits in 350 epochs",
    Config=Learning,
    program=learning.training,
    opens_with="prediction loss",
    model=learning.stored_model,
    microscope=TREE,
    figures=(
        Figure("fig4", "CoT loss and prediction loss against epochs at the largest k", figures.learning.fig4),
        Figure("fig5", "CoT loss and prediction loss against epochs, for every k", figures.learning.fig5),
    ),
    presets={
        "quick": Preset(
            Learning(Task(16, 8), samples=4000, batch=4000, test_examples=1000, measure_every=5),
            arms(QUICK_RATES),
            seeds=3,
        ),
        "gpu": Preset(Learning(Task(64, 32)), arms(PAPER_RATES), seeds=5, group=5, note="the paper's sizes"),
    },
)
