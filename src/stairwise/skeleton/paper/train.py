"""What a trial computes: the stages of training, as a function of the structure of its config.

To change: the algorithm. `stairwise.paper` has online training, curricula, mixtures and self-training, and
`gradient_training`, on which they are built; anything else is a `Stage` of pure functions. Numeric fields have values
in `trial.config` only.
"""

from functools import partial

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray
from stairwise.paper import Stage, online

from stairwise.skeleton.paper.config import Training
from stairwise.skeleton.paper.model import MarkAttention, loss
from stairwise.skeleton.paper.task import MarkedToken

TEST_EXAMPLES = 64


def training(config: Training) -> list[Stage]:
    """The one stage: plain SGD on fresh batches."""
    task = MarkedToken(config.task.length)
    stage = online(
        init=lambda key: MarkAttention(jnp.zeros(2, dtype=jnp.float32)),
        sample=task.sample,
        loss=loss,
        optimizer=lambda config: optax.sgd(config.learning_rate),
        batch=config.batch,
        steps=config.steps,
        measure={"attention": partial(attention_to_mark, task)},
        measure_every=config.measure_every,
    )
    return [stage]


def attention_to_mark(task: MarkedToken, model: MarkAttention, key: PRNGKeyArray) -> Float[Array, ""]:
    """The attention to the mark, averaged over fresh examples."""

    def one(key):
        example = task.sample(key)
        return model.attention(example)[example.mark]

    return jnp.mean(jax.vmap(one)(jax.random.split(key, TEST_EXAMPLES)))
