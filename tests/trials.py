"""One trial of a config: as its stages see it, and run to its end."""

import jax
import jax.numpy as jnp

from stairwise.config import structure
from stairwise.train.loop import Member, Program, RunningTrial
from stairwise.train.stage import Outcome


def running(config, seed: int = 0) -> RunningTrial:
    """The trial whose numeric fields are arrays, as in a compiled program."""
    return RunningTrial(jax.tree.map(jnp.asarray, config), jnp.uint32(seed))


def run(make, config, seed: int = 0) -> Outcome:
    """What a trial of the stages that `make` gives leaves behind."""
    return Program(make(structure(config))).run([Member(seed, config)])[0]
