"""What the training tests share: one trial of a config, with or without its measurements."""

import jax.numpy as jnp

from stairwise.config import structure
from stairwise.papers.parity_onestep import train
from stairwise.train.loop import Member, Program


def run(config, seed=0, program=None):
    program = program or Program(train.descent(structure(config)))
    return program.run([Member(seed, config)])[0]


def bare(config, width=1):
    """The same descent with nothing but the secret and W at its end: little to compile."""
    stage = train.descent(structure(config))[0]

    def finish(trial, state, key):
        model = train.current(trial, state, jnp.float32(config.samples))[0]
        return None, {"W": model.W, "children": model.tree.children}

    return Program([type(stage)(stage.name, stage.init, stage.tick, stage.max_ticks, finish=finish)], width)


def weights(config, seed=0, program=None):
    return run(config, seed, program or bare(config)).arrays["descent/W"]


def series(found, name):
    return [value for label, value in zip(found.name, found.value, strict=True) if label == name]
