"""The three steps of Theorem 3."""

from dataclasses import replace

from stairwise.lab.contract.experiment import Experiment, Figure, Preset
from stairwise.papers.parity_cot import figures, microscope, steps
from stairwise.papers.parity_cot.config.task import Task
from stairwise.papers.parity_cot.config.theorem3 import ThreeSteps

QUICK = ThreeSteps()
# with the linear loss only ratios to eps matter: a large eps meets eta0 <= m n eps / 120 (Lemma 5.4) at logits that
# Lemma 22 asks for, which the hinge loss (outputs below 1) does not allow at small sizes
LARGE_SCALE = {"loss": "linear", "scale": 1000.0, "logit": 200.0, "shift": 3.0, "width": 2**20}
ARMS = {
    "hinge loss": {},
    "hinge loss, B=64,000": {"batch": 64_000, "logit": 48.0, "neurons": 1000},
    "linear loss, large eps": LARGE_SCALE,
    "literal rates": {"rates": "literal"},
    "without chain": {"task.cot": False},
}
TWENTY = replace(QUICK, task=Task(20, 4), width=16_384, neurons=1000, batch=80_000, block=4000, logit=48.0)
HUNDRED = {
    "task.bits": 100,
    "task.size": 10,
    "width": 65_536,
    "neurons": 2000,
    "batch": 400_000,
    "block": 2000,
    "logit": 96.0,
}
THREE_STEPS = Experiment(
    id="theorem3",
    says="Theorem 3: three gradient steps on chains of thought find the secret and put all attention on it",
    Config=ThreeSteps,
    program=steps.three_steps,
    opens_with="exact match",
    microscope=microscope.secret_found,
    precision=64,
    figures=(
        Figure(
            "fig-theorem3",
            "Theorem 3: exact match, worst-case attention error over all inputs, and attention after each step",
            figures.theorem3.three_steps,
        ),
    ),
    presets={
        "quick": Preset(QUICK, ARMS, seeds=5),
        "gpu": Preset(
            TWENTY,
            {
                "n=20, k=4": {},
                "n=20, k=4, linear loss, large eps": LARGE_SCALE,
                "n=20, k=4, without chain": {"task.cot": False},
                "n=20, k=4, label noise 0.2": {"task.noise": 0.2},
                "n=20, k=4, literal rates": {"rates": "literal"},
                "n=100, k=10": HUNDRED,
            },
            seeds=10,
            group=5,
        ),
        "paper": Preset(
            replace(TWENTY, rates="literal"),
            {"n=20, k=4": {}, "n=100, k=10": HUNDRED},
            seeds=5,
            group=5,
            hours=0.1,
            note="rates of Assumption 2; its own batch, 1.28e7 n ln(n/delta)^20 / eps^2, is beyond any machine (lem5)",
        ),
    },
)

EXPERIMENTS = (THREE_STEPS,)
