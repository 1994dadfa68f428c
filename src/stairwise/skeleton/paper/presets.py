"""Every experiment with its presets: complete hyper-parameters, nothing implied.

To change: `quick` is about a minute on a CPU, `gpu` a few minutes on one GPU with five seeds or more, `paper` the
literal protocol with the hours you expect it to take. Leave `paper` out where the paper prescribes no protocol. Arms
are what the experiment compares.
"""

from dataclasses import replace

from stairwise.paper import Experiment, Figure, Preset

from stairwise.skeleton.paper import figures, train
from stairwise.skeleton.paper.config import Training

LONG = Training(steps=5000, measure_every=50)


def lengths(*choices: int) -> dict[str, dict[str, int]]:
    """One arm a length."""
    return {f"T={length}": {"task.length": length} for length in choices}


TRAINING = Experiment(
    id="training",
    says="SGD from zero: the attention to the mark over training, at several lengths",
    Config=Training,
    program=train.training,
    figures=(Figure("fig1", "Attention to the marked token", figures.attention, headline=True),),
    presets={
        "quick": Preset(Training(), lengths(4, 16, 64), seeds=3),
        "gpu": Preset(LONG, lengths(4, 16, 64, 256), seeds=8, group=8),
        "paper": Preset(replace(LONG, batch=4096), lengths(4, 16, 64, 256), seeds=10, group=10, hours=0.1),
    },
)
EXPERIMENTS = (TRAINING,)
