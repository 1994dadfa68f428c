"""A trained layer on prompts that it was not trained on: other covariances, other lengths."""

from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from stairwise.paper import Outcome, Trial, at, rebuilt, role_key

from in_context_regression.config import Shift, Training
from in_context_regression.model import LinearSelfAttention, gradient_step, loss
from in_context_regression.task import LinearRegression
from in_context_regression.train import regression


def trained(config: Shift, seed: int) -> dict[str, Trial]:
    """The trial that this one starts from; it is run first where the store does not have it."""
    from in_context_regression import PAPER

    return {"trained": Trial(PAPER.experiment("training"), config.training, seed)}


def shift(config: Shift, seed: int, upstream: Mapping[str, Mapping[str, np.ndarray]]) -> Outcome:
    """Losses of the layer, by the scale of the covariance (step: percent) and by length (step: M)."""
    model, task = stored_model(config.training, upstream["trained"]), regression(config.training.prompts)
    key = role_key(jnp.uint32(seed), "shift")
    outcome = Outcome()
    for scale in config.scales:
        other = LinearRegression(scale / 100 * task.eigenvalues, task.noise, task.length)
        outcome.add("scale", scale, {"loss": mean_loss(model, other, config.test_examples, key)})
    for length in config.test_lengths:
        other = LinearRegression(task.eigenvalues, task.noise, length)
        outcome.add("length", length, {"loss": mean_loss(model, other, config.test_examples, key)})
    return outcome


def stored_model(config: Training, arrays: Mapping[str, np.ndarray]) -> LinearSelfAttention:
    """The layer that a training stored."""
    return rebuilt(lambda: gradient_step(jnp.eye(config.prompts.width, dtype=jnp.float32)), arrays)


@eqx.filter_jit
def mean_loss(model: LinearSelfAttention, task: LinearRegression, examples: int, key: PRNGKeyArray) -> Float[Array, ""]:
    """The mean loss on fresh prompts, a thousand at a time."""
    indices = jnp.arange(examples, dtype=jnp.int32)
    return jnp.mean(jax.lax.map(lambda index: loss(model, task.sample(at(key, index))), indices, batch_size=1024))
