"""Attention of decoders trained on GSM8K, with and without CoT (ours, after Figures 6 and 7).

The initial standard deviation is about 1 / sqrt(width): at GPT-2's 0.02 the small decoders stay longer on the plateau
where only word frequencies are known (chosen by the loss, which is lower in all arms).
"""

from stairwise.lab.contract.experiment import Experiment, Figure, Preset
from stairwise.papers.parity_cot import figures, language_decoder
from stairwise.papers.parity_cot.config.gsm8k import Corpus, Model, Reading

ARMS = {
    "with CoT": {"reasoning": 1.0, "own": 1.0},
    "borrowed": {"reasoning": 1.0, "own": 0.0},
    "without CoT": {"reasoning": 0.0, "own": 1.0},
}

GSM8K = Experiment(
    id="gsm8k",
    says="decoders trained on GSM8K with CoT, with borrowed reasoning of the same length, and without",
    Config=Reading,
    program=language_decoder.reading,
    opens_with="loss",
    figures=(
        Figure(
            "gsm8k",
            "Attention entropy over training on word problems with CoT, with borrowed reasoning, and without",
            figures.gsm8k.over_training,
        ),
        Figure(
            "gsm8k-heads",
            "Entropy of every head at the end of training, sorted within a layer and a seed",
            figures.gsm8k.heads,
        ),
    ),
    presets={
        "quick": Preset(
            Reading(
                corpus=Corpus(vocabulary=512, length=128, problems=7473, held_out=24),
                model=Model(width=48, layers=2, heads=4, std=0.125),
                batch=8,
                steps=400,
                learning_rate=3e-3,
                measure_every=50,
            ),
            arms=ARMS,
            seeds=3,
            note="GSM8K must be given: --data FOLDER or STAIRWISE_GSM8K",
        ),
        "gpu": Preset(
            Reading(
                corpus=Corpus(vocabulary=2048, length=256, held_out=128),
                model=Model(width=256, layers=4, heads=8, std=0.06, compute="bfloat16"),
                batch=32,
                steps=2000,
                learning_rate=1e-3,
                measure_every=200,
            ),
            arms=ARMS,
            seeds=5,
            group=15,
            note="2000 steps of 32: about ten times through the training problems that fit",
        ),
    },
)

EXPERIMENTS = (GSM8K,)
