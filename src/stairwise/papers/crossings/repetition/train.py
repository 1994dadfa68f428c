"""The one training: a decoder on prompts and chains, fresh or from a pool, until held-out chains are right.

Example n of a pool is a function of the seed and n. Held-out examples are drawn by themselves; of composition's 72,000
at k=2, N=5 a pool of 2000 holds about 3 in a hundred of them, of the other tasks next to none.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Integer

from stairwise.papers.crossings import chains
from stairwise.papers.crossings.chains import Draw, Lesson
from stairwise.papers.crossings.learning import in_looks
from stairwise.papers.crossings.repetition.config import Repeated
from stairwise.train.keys import at
from stairwise.train.loop import RunningTrial
from stairwise.train.stage import Stage, every


def training(config: Repeated) -> list[Stage]:
    """The one stage: until enough held-out chains are right, or the budget is spent."""
    return [
        in_looks(
            init=initial,
            loss=batch_loss,
            look=look,
            steps=config.look,
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
    read = jax.eval_shape(partial(examples, trial, "pool"), jnp.zeros(1, dtype=jnp.int32)).tokens.shape[1]
    key = trial.key("model")
    return chains.make_decoder(config.decoder, vocabulary(config), read, config.decoder.std, key)


def examples(trial: RunningTrial[Repeated], purpose: str, index: Integer[Array, " batch"]) -> Lesson:
    """Examples by their numbers."""
    draw, key = draws(trial), trial.key(purpose)
    return jax.vmap(lambda n: chains.lesson(draw(at(key, n)), trial.config.every_step))(index)


def batch_loss(trial: RunningTrial[Repeated], model: Any, number: Integer[Array, ""]) -> Float[Array, ""]:
    """The loss of step `number`: examples of the pool, or (pool = 0) examples that never come again."""
    config = trial.config
    pool = jnp.asarray(config.pool, dtype=jnp.int32)
    order = at(trial.key("order"), number)
    drawn = jax.random.randint(order, (config.batch,), 0, jnp.maximum(pool, 1), dtype=jnp.int32)
    new = number * config.batch + jnp.arange(config.batch, dtype=jnp.int32)
    return chains.loss(model, examples(trial, "pool", jnp.where(pool > 0, drawn, new)))


def look(trial: RunningTrial[Repeated], model: Any) -> dict[str, Array]:
    """How many held-out chains are right."""
    held_out = examples(trial, "held out", jnp.arange(trial.config.validation, dtype=jnp.int32))
    return chains.accuracy(model, held_out)
