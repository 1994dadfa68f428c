"""Hardness without chain of thought (Theorems 1 and 2)."""

from stairwise.lab.contract.experiment import Experiment, Figure, Preset
from stairwise.papers.parity_onestep import figures, hardness
from stairwise.papers.parity_onestep.config import Hardness

SAMPLE_SIZES = {"all inputs": {"samples": 0}, "n=2000": {"samples": 2000}, "n=500": {"samples": 500}}
ORACLE = Experiment(
    id="oracle",
    says="Theorems 1 and 2: an oracle of small error hides the parity from gradient descent",
    Config=Hardness,
    program=hardness.hidden_descent,
    study=True,
    counts="queries",
    opens_with="variance",
    precision=64,
    figures=(
        Figure(
            "fig-oracle",
            "Gradient variance over all parities, and how many an oracle of error ε hides",
            figures.hardness.oracle,
        ),
    ),
    presets={
        "quick": Preset(Hardness(), SAMPLE_SIZES, seeds=3),
        "gpu": Preset(Hardness(queries=200), SAMPLE_SIZES, seeds=10, note="runs on the host"),
    },
)
