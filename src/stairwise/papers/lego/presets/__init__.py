"""Every experiment of the paper with its presets: complete hyper-parameters, nothing implied."""

from stairwise.papers.lego.presets import practical, theory

EXPERIMENTS = (*practical.EXPERIMENTS, *theory.EXPERIMENTS)
