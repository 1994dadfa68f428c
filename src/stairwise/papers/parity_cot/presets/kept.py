"""Decoders that are trained to be kept: small ones, whose weights are stored."""

from dataclasses import replace

from stairwise.lab.contract.arms import crossed
from stairwise.lab.contract.experiment import Experiment, Figure, Preset
from stairwise.papers.parity_cot import figures, train
from stairwise.papers.parity_cot.config.training import Decoder, Training
from stairwise.papers.parity_cot.presets.arms import SMALL, WIDE, chain, sizes

KEPT = Experiment(
    id="kept",
    says="decoders trained with a chain of thought whose weights are stored, for `stairwise export` and `load_model`",
    Config=Training,
    program=train.training_kept,
    opens_with="exact match",
    model=train.stored_model,
    figures=(
        Figure("fig-kept", "Entropy of every head and accuracy of the decoders that are kept", figures.traces.by_size),
    ),
    presets={
        "quick": Preset(
            replace(SMALL, attention=32),
            crossed(chain(True, 4, 51_200, 1024), sizes(2, 4)),
            seeds=2,
            note="one layer, four heads, width 64, n = 16",
        ),
        "gpu": Preset(
            replace(SMALL, model=Decoder(width=128, layers=2, std=128**-0.5), batch=512, attention=32),
            crossed(chain(True, 16, 409_600, 2048), sizes(4)),
            seeds=5,
            group=5,
            hours=0.02,
            note="two layers, four heads, width 128, n = 16; 1.6 MB of weights a trial",
        ),
        "paper": Preset(
            replace(WIDE, attention=64),
            crossed(chain(True, 4, 524_288, 2048), sizes(3)),
            seeds=1,
            hours=0.01,
            note="Figure 2b's decoder, width 720, n = 30, at the largest of the paper's rates (most seeds learn at"
            " 3e-5, few at 1e-4); 25 MB of weights",
        ),
    },
)
