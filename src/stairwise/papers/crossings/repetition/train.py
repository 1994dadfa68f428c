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
from stairwise.train.keys import at, role_key
from stairwise.train.stage import Stage, every


def training(config: Repeated) -> list[Stage]:
    """The one stage: until enough held-out chains are right, or the budget is spent."""
    return [
        in_looks(
            init=partial(initial, config),
            loss=partial(batch_loss, config),
            look=partial(look, config),
            steps=config.look,
            looks=config.looks,
            threshold=config.threshold,
            measure_at=every(max(1, config.looks // 30), config.looks),
            stop=True,
        )
    ]


def draws(config: Repeated, numbers) -> Draw:
    """The task of a seed."""
    if config.task == "parity":
        return chains.parity(config.parity, numbers)
    if config.task == "composition":
        return chains.composition(config.composition, numbers)
    return chains.lego(config.lego, numbers)


def vocabulary(config: Repeated) -> int:
    return {"parity": 2, "composition": config.composition.alphabet, "lego": config.lego.vocabulary}[config.task]


def initial(config: Repeated, numbers) -> Any:
    read = jax.eval_shape(partial(examples, config, numbers, "pool"), jnp.zeros(1, dtype=jnp.int32)).tokens.shape[1]
    key = role_key(numbers["seed"], "model")
    return chains.make_decoder(config.decoder, vocabulary(config), read, numbers["decoder.std"], key)


def examples(config: Repeated, numbers, purpose: str, index: Integer[Array, " batch"]) -> Lesson:
    """Examples by their numbers."""
    draw, key = draws(config, numbers), role_key(numbers["seed"], purpose)
    return jax.vmap(lambda n: chains.lesson(draw(at(key, n)), config.every_step))(index)


def batch_loss(config: Repeated, numbers, model: Any, number: Integer[Array, ""]) -> Float[Array, ""]:
    """The loss of step `number`: examples of the pool, or (pool = 0) examples that never come again."""
    pool = jnp.asarray(numbers["pool"], dtype=jnp.int32)
    order = at(role_key(numbers["seed"], "order"), number)
    drawn = jax.random.randint(order, (config.batch,), 0, jnp.maximum(pool, 1), dtype=jnp.int32)
    new = number * config.batch + jnp.arange(config.batch, dtype=jnp.int32)
    return chains.loss(model, examples(config, numbers, "pool", jnp.where(pool > 0, drawn, new)))


def look(config: Repeated, numbers, model: Any) -> dict[str, Array]:
    """How many held-out chains are right."""
    held_out = examples(config, numbers, "held out", jnp.arange(config.validation, dtype=jnp.int32))
    return chains.accuracy(model, held_out)
