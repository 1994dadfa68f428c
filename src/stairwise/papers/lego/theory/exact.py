"""Gradients by autodiff, each compiled once for its shapes: what closed forms are compared with."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from stairwise.papers.lego import reduced
from stairwise.papers.lego.model import ClauseTransformer, loss
from stairwise.papers.lego.task import Chain, Lego


def traced(module: Any) -> Any:
    """Its numbers as arrays: other constants then run through the same compiled program."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=jnp.result_type(float)), module)


@eqx.filter_jit
def descent(model: ClauseTransformer, task: Lego, chains: Chain, steps: tuple[int, ...]) -> ClauseTransformer:
    """Minus the gradient of the mean over chains of the sum over steps of Loss^{L,l}, in every leaf of the model."""

    def objective(model: ClauseTransformer) -> Float[Array, ""]:
        return -jnp.mean(jax.vmap(lambda chain: loss(model, task, chain, steps))(chains))

    return eqx.filter_grad(objective)(model)


@eqx.filter_jit
def reduced_gradient(
    network: reduced.IdealValues, scores: Float[Array, "4"], populations: list[reduced.Population]
) -> Float[Array, "4"]:
    """(dL/da, dL/db, dL/dc, dL/de) of the sum of the populations' mean losses."""
    return jax.grad(lambda s: sum(reduced.mean_loss(network, s, space) for space in populations))(scores)
