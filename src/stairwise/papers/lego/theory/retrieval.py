"""Appendix A as a run: the variable token's weights W_4 on T^1, by gradient steps of the paper's update.

`train` draws its chains, as training does; `descend` follows the gradient of the loss itself, over every chain.
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


def _mean_loss(model: ClauseTransformer, weights: Float[Array, "..."], clauses: Integer[Array, "batch 3 5"]):
    network = eqx.tree_at(lambda m: m.weights, model, weights)
    logits = jax.vmap(lambda row: network.first_step_logits(row[:2])[0])(clauses)
    return jnp.mean(surprise(logits, clauses[:, 2, 3]))


def _stepped(model: ClauseTransformer, weights: Float[Array, "..."], clauses: Integer[Array, "batch 3 5"], rate: float):
    """The weights after one step on these chains, with the loss and eta_t."""
    loss, gradient = jax.value_and_grad(lambda chosen: _mean_loss(model, chosen, clauses))(weights)
    largest = jnp.maximum(jnp.max(jnp.abs(gradient)), jnp.finfo(gradient.dtype).tiny)  # 0 once all is clipped
    eta = rate / largest * jnp.minimum(1, loss / STOP)
    return weights - eta * gradient, loss, eta


@eqx.filter_jit
def train(
    model: ClauseTransformer, task: Lego, key: PRNGKeyArray, rate: float, steps: int, batch: int
) -> tuple[ClauseTransformer, RetrievalHistory]:
    """`model.only(3)` on fresh chains of length 1, each batch of its own key."""

    def advance(weights: Float[Array, "..."], tick: Integer[Array, ""]):
        keys = jax.random.split(at(role(key, "batch"), tick), batch)
        clauses = jax.vmap(lambda k: task.clauses(task.sample(k)))(keys)
        gamma = jnp.max(diagonal(weights, task.variables), axis=1) + model.bias
        weights, loss, eta = _stepped(model, weights, clauses, rate)
        return weights, RetrievalHistory(loss, eta, gamma)

    weights, history = jax.lax.scan(advance, model.weights, jnp.arange(steps, dtype=jnp.int32))
    return eqx.tree_at(lambda m: m.weights, model, weights), history


@eqx.filter_jit
def descend(
    model: ClauseTransformer, clauses: Integer[Array, "chains 3 5"], rate: float, steps: int
) -> tuple[ClauseTransformer, Float[Array, " steps"]]:
    """The same on the mean loss over all these chains, and that loss before every step."""

    def advance(weights: Float[Array, "..."], _: None):
        weights, loss, _eta = _stepped(model, weights, clauses, rate)
        return weights, loss

    weights, losses = jax.lax.scan(advance, model.weights, None, length=steps)
    return eqx.tree_at(lambda m: m.weights, model, weights), losses


def largest_diagonal(clip: float, neurons: int, rho: float, q: int) -> float:
    """Lemma A.5 with its constants: 2B + 2m rho (1 - 1/q).

    A class below the clip has F = sum_r sReLU(Lambda_r) < B, where sReLU(x) >= x - rho (1 - 1/q), and Lambda_r is at
    least half of its diagonal weight as long as b outweighs what the other slots take away.

    >>> largest_diagonal(10.0, 4, 0.5, 2)
    22.0
    """
    return 2 * clip + 2 * neurons * rho * (1 - 1 / q)


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
