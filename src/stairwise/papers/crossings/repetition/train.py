"""The one training: a decoder on prompts and chains, fresh or from a pool, until held-out chains are right.

Example n of a pool is a function of the seed and n. Held-out examples are drawn by themselves; of composition's 72,000
at k=2, N=5 a pool of 2000 holds about 3 in a hundred of them, of the other tasks next to none.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from stairwise.papers.crossings import chains
from stairwise.papers.crossings.chains import Draw, Lesson
from stairwise.papers.crossings.learning import in_looks
from stairwise.papers.crossings.repetition.config import Repeated
from stairwise.train.gradient import pool
from stairwise.train.keys import at
from stairwise.train.loop import RunningTrial
from stairwise.train.stage import Stage, every


def training(config: Repeated) -> list[Stage]:
    """The one stage: until enough held-out chains are right, or the budget is spent."""
    return [
        in_looks(
            model=lambda trial, key: initial(trial),
            batch=pool(example, config.batch, lambda own: own.samples),
            loss=lambda trial, model, lessons, key: chains.loss(model, lessons),
            look=look,
            key_role="order",
            steps=config.measure_every,
            looks=config.looks,
            threshold=config.threshold,
            measure_at=every(max(1, config.looks // 30), config.looks),
            stop=True,
        )
    ]


def draws(trial: RunningTrial[Repeated]) -> Draw:
    """The task of a seed."""
    config = trial.config
    if config.task == "parity":
        return chains.parity(config.parity, trial)
    if config.task == "composition":
        return chains.composition(config.composition, trial)
    return chains.lego(config.lego, trial)


def vocabulary(config: Repeated) -> int:
    return {"parity": 2, "composition": config.composition.alphabet, "lego": config.lego.vocabulary}[config.task]


def initial(trial: RunningTrial[Repeated]) -> Any:
    config = trial.config
    key = trial.key("model")
    read = len(jax.eval_shape(partial(example, trial), key).tokens)
    return chains.make_decoder(config.model, vocabulary(config), read, config.model.std, key)


def example(trial: RunningTrial[Repeated], key: PRNGKeyArray) -> Lesson:
    return chains.lesson(draws(trial)(key), trial.config.every_step)


def look(trial: RunningTrial[Repeated], model: Any) -> dict[str, Array]:
    """How many held-out chains are right."""
    keys = jax.vmap(partial(at, trial.key("held out")))(jnp.arange(trial.config.test_examples, dtype=jnp.int32))
    return chains.accuracy(model, jax.vmap(partial(example, trial))(keys))
