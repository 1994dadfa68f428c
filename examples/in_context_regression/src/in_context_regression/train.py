"""Training of the whole layer on fresh prompts."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray
from stairwise.paper import Stage, online

from in_context_regression import theory
from in_context_regression.config import Prompts, Training
from in_context_regression.model import LinearSelfAttention, corner_blocks, loss
from in_context_regression.task import LinearRegression


def training(config: Training) -> list[Stage]:
    """The one stage: Adam or SGD on all weights, fresh prompts, a learning rate that falls linearly to zero."""
    prompts = config.prompts
    rule = {"adam": optax.adam, "sgd": optax.sgd}[config.optimizer]
    stage = online(
        init=lambda key: balanced_start(key, prompts.width, config.start),
        sample=regression(prompts).sample,
        loss=loss,
        optimizer=lambda own: rule(lambda step: own.learning_rate * (1 - step / config.steps)),
        batch=config.batch,
        steps=config.steps,
        measure=measurements(prompts),
        measure_every=config.measure_every,
    )
    return [stage]


def regression(prompts: Prompts) -> LinearRegression:
    """The task of a config."""
    eigenvalues = theory.spectrum(prompts.width, prompts.decay)
    return LinearRegression(jnp.asarray(eigenvalues, dtype=jnp.float32), prompts.noise, prompts.length)


def balanced_start(key: PRNGKeyArray, width: int, scale: float) -> LinearSelfAttention:
    """The paper's: U = sigma T T^T with |T T^T|_F = 1, and u = sigma, so that |U|_F = u."""
    factor = jax.random.normal(key, (width, width), dtype=jnp.float32)
    start = factor @ factor.T
    return corner_blocks(scale * start / jnp.linalg.norm(start), jnp.asarray(scale, dtype=jnp.float32))


def measurements(prompts: Prompts) -> dict[str, Callable[[LinearSelfAttention, PRNGKeyArray], Array]]:
    """How far the layer is from the optimum: in loss (closed form), in its preconditioner, outside its blocks."""
    eigenvalues = regression(prompts).eigenvalues
    best = jnp.diag(1 / theory.gamma(eigenvalues, prompts.length, prompts.noise))
    least = theory.minimum(eigenvalues, prompts.length, prompts.noise)

    def excess(model: LinearSelfAttention, key: PRNGKeyArray) -> Float[Array, ""]:
        return theory.loss(model.preconditioner(), eigenvalues, prompts.length, prompts.noise) / least - 1

    def distance(model: LinearSelfAttention, key: PRNGKeyArray) -> Float[Array, ""]:
        return jnp.linalg.norm(model.preconditioner() - best) / jnp.linalg.norm(best)

    def outside(model: LinearSelfAttention, key: PRNGKeyArray) -> Float[Array, ""]:
        """The largest of the weights that matter and that the optimum has at zero."""
        return jnp.maximum(jnp.abs(model.value[-1, :-1]).max(), jnp.abs(model.key_query[-1, :-1]).max())

    return {"excess": excess, "distance": distance, "outside": outside}
