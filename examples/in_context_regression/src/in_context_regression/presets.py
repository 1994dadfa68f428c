"""The experiments with their presets: complete hyper-parameters, nothing implied."""

from dataclasses import replace

from stairwise.paper import Experiment, Figure, Preset

from in_context_regression import figures, shift, train
from in_context_regression.config import Prompts, Shift, Training

QUICK = Training()
GPU = Training(Prompts(width=20, length=100), batch=4096, steps=10_000, measure_every=100, learning_rate=3e-3)
PAPER = replace(GPU, optimizer="sgd", learning_rate=0.01, batch=16_384, steps=100_000, measure_every=1000)
LENGTHS = (25, 50, 100, 200, 400, 800)


def spectra(prefix: str, *decays: float) -> dict[str, dict[str, float]]:
    """One arm a spectrum, of the prompts at `prefix`."""
    return {f"decay {decay:g}": {f"{prefix}.decay": decay} for decay in decays}


TRAINING = Experiment(
    id="training",
    says="all weights of the layer trained on fresh prompts: the way to the optimum",
    Config=Training,
    program=train.training,
    figures=(Figure("fig-training", "Excess loss and distance to the optimum", figures.training, headline=True),),
    presets={
        "quick": Preset(QUICK, spectra("prompts", 0, 2), seeds=3),
        "gpu": Preset(GPU, spectra("prompts", 0, 1, 2), seeds=8, group=8),
        "paper": Preset(PAPER, spectra("prompts", 0, 1, 2), seeds=10, group=10, hours=2.0, note="SGD, near the flow"),
    },
)
SHIFT = Experiment(
    id="shift",
    says="trained layers on prompts of other covariances and lengths",
    Config=Shift,
    program=shift.shift,
    study=True,
    needs=shift.trained,
    figures=(Figure("fig-shift", "A shift of the covariance breaks it", figures.shift),),
    presets={
        "quick": Preset(Shift(QUICK), spectra("training.prompts", 0, 2), seeds=3),
        "gpu": Preset(Shift(GPU, test_lengths=LENGTHS), spectra("training.prompts", 0, 1, 2), seeds=8),
        "paper": Preset(Shift(PAPER, test_lengths=LENGTHS), spectra("training.prompts", 0, 1, 2), seeds=10, hours=2.0),
    },
)
EXPERIMENTS = (TRAINING, SHIFT)
