"""Every experiment of the paper with its presets: complete hyper-parameters, nothing implied."""

from stairwise.papers.parity_cot.presets import language, theorem3, training

EXPERIMENTS = (*training.EXPERIMENTS, *theorem3.EXPERIMENTS, *language.EXPERIMENTS)
