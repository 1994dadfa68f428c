"""Every experiment of the paper with its presets: complete hyper-parameters, nothing implied."""

from stairwise.papers.parity_cot.presets import kept, language, theorem3, training

EXPERIMENTS = (*training.EXPERIMENTS, kept.KEPT, *theorem3.EXPERIMENTS, *language.EXPERIMENTS)
