"""Every experiment of the paper with its presets: complete hyper-parameters, nothing implied."""

from stairwise.papers.parity_cot.presets import gsm8k, kept, theorem3, training

EXPERIMENTS = (*training.EXPERIMENTS, kept.KEPT, *theorem3.EXPERIMENTS, *gsm8k.EXPERIMENTS)
