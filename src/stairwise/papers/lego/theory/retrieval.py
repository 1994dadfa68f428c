"""Appendix A as a run: the variable token's weights W_4 on T^1, by gradient steps of the paper's update.

Gradients after separation are as small as 1 - logit, so a step is eta over the largest gradient entry, and shrinks
with the loss once that is below `stop`: the same path as constant steps, on another clock.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Integer, PRNGKeyArray

from stairwise.papers.lego.model import ClauseTransformer, surprise
from stairwise.papers.lego.task import Lego
from stairwise.train.keys import at, role

STOP = 1e-4


class RetrievalHistory(NamedTuple):
    """Per step: the loss, eta_t, and Gamma_x before the step."""

    loss: Float[Array, " steps"]
    rate: Float[Array, " steps"]
    gamma: Float[Array, "steps variables"]


def diagonal(weights: Float[Array, "5 tokens 1 tokens neurons"], variables: int) -> Float[Array, "variables neurons"]:
    """<W_{4,x,r,1}, e_x> of each variable x and neuron r."""
    own = jnp.arange(1, variables + 1, dtype=jnp.int32)
    return weights[0, own, 0, own]


@eqx.filter_jit
def train(
    model: ClauseTransformer, task: Lego, key: PRNGKeyArray, rate: float, steps: int, batch: int
) -> tuple[ClauseTransformer, RetrievalHistory]:
    """`model.only(3)` on fresh chains of length 1, each batch of its own key."""

    def mean_loss(weights: Float[Array, "..."], clauses: Integer[Array, "batch 3 5"]) -> Float[Array, ""]:
        network = eqx.tree_at(lambda m: m.weights, model, weights)
        logits = jax.vmap(lambda row: network.first_step_logits(row[:2])[0])(clauses)
        return jnp.mean(surprise(logits, clauses[:, 2, 3]))

    def advance(weights: Float[Array, "..."], tick: Integer[Array, ""]):
        keys = jax.random.split(at(role(key, "batch"), tick), batch)
        clauses = jax.vmap(lambda k: task.clauses(task.sample(k)))(keys)
        loss, gradient = jax.value_and_grad(mean_loss)(weights, clauses)
        largest = jnp.maximum(jnp.max(jnp.abs(gradient)), jnp.finfo(gradient.dtype).tiny)  # 0 once all is clipped
        eta = rate / largest * jnp.minimum(1, loss / STOP)
        gamma = jnp.max(diagonal(weights, task.variables), axis=1) + model.bias
        return weights - eta * gradient, RetrievalHistory(loss, eta, gamma)

    weights, history = jax.lax.scan(advance, model.weights, jnp.arange(steps, dtype=jnp.int32))
    return eqx.tree_at(lambda m: m.weights, model, weights), history


class Correlations(NamedTuple):
    """The largest |<W_4, e>| of each kind that Appendix A bounds, and the diagonal that should grow."""

    diagonal: Float[Array, "variables neurons"]
    actions: Float[Array, ""]
    values: Float[Array, ""]
    off_diagonal: Float[Array, ""]
    other_slots: Float[Array, ""]
    other_classes: Float[Array, ""]


def correlations(weights: Float[Array, "5 tokens 1 tokens neurons"], task: Lego) -> Correlations:
    """Lemmas A.6 (actions), A.7 (values), A.8 (other variables in slot 1), A.9 (slots 3, 4), A.10 (other classes)."""
    size = jnp.abs(weights[:, :, 0])
    _, action, value = task.starts
    variable = slice(1, action)
    eye = jnp.eye(task.variables, dtype=bool)[..., None]
    read = [size[0, variable], size[1, action:value], size[2, variable], size[3, variable], size[4, value:]]
    beyond = [jnp.max(jnp.delete(part, jnp.arange(1, action), axis=1, assume_unique_indices=True)) for part in read]
    return Correlations(
        diagonal(weights, task.variables),
        jnp.max(read[1][:, variable]),
        jnp.max(read[4][:, variable]),
        jnp.max(jnp.where(eye, 0, read[0][:, variable])),
        jnp.maximum(jnp.max(read[2][:, variable]), jnp.max(read[3][:, variable])),
        jnp.max(jnp.stack(beyond)),
    )
