"""What the FFN learns on one-step chains: the features V of the value token, on the enumerated population.

On T^1 attention is uniform over two clauses, so neuron r of class j reads (slots 1, 3, 4 are left out)

    Lambda_{j,r}(g, y) = (V_{j,r}(g) + V_{j,r}(y))/2 + b,    F_j = min(sum_r sReLU(Lambda_{j,r}), B),

and the population is the |G| |Y| pairs (g, y), all equally likely, with the answer g(y). Every pair moves V(g) and
V(y) of a neuron by the same amount, so sum_g V(g) - sum_y V(y) never changes.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from stairwise.papers.lego.activation import Number, smooth_relu
from stairwise.papers.lego.reduced import clipped, next_token_loss
from stairwise.train.keys import role


class Features(NamedTuple):
    """V_{j,r}(g) and V_{j,r}(y)."""

    action: Float[Array, "classes neurons actions"]
    value: Float[Array, "classes neurons values"]

    def pairs(self) -> Float[Array, "classes neurons actions values"]:
        """V_{j,r}(phi) = (V(g) + V(y))/2."""
        return (self.action[..., :, None] + self.value[..., None, :]) / 2

    def conserved(self) -> Float[Array, "classes neurons"]:
        """sum_g V(g) - sum_y V(y)."""
        return jnp.sum(self.action, axis=-1) - jnp.sum(self.value, axis=-1)


class ValueToken(eqx.Module):
    """The value token on one-step chains of an action; `others` classes that are no values keep the logit 0.

    `activation(x, rho, q)` is the smoothed ReLU.
    """

    table: Int[Array, "actions values"]
    clip: Number
    bias: Number
    rho: Number
    others: Number
    power: int = eqx.field(static=True)
    activation: Callable[[Array, Number, int], Array] = eqx.field(static=True, default=smooth_relu)

    @property
    def fibers(self) -> Bool[Array, "classes actions values"]:
        """Whether g(y) = j."""
        return self.table[None] == jnp.arange(self.table.shape[1], dtype=self.table.dtype)[:, None, None]

    def start(self, key: PRNGKeyArray, neurons: int, scale: Number, dtype) -> Features:
        """V ~ N(0, sigma_0^2)."""
        actions, values = self.table.shape
        return Features(
            scale * jax.random.normal(role(key, "action"), (values, neurons, actions), dtype=dtype),
            scale * jax.random.normal(role(key, "value"), (values, neurons, values), dtype=dtype),
        )

    def preactivations(self, features: Features) -> Float[Array, "classes neurons actions values"]:
        """Lambda of every neuron on every pair."""
        return features.pairs() + self.bias

    def logits(self, features: Features) -> Float[Array, "classes actions values"]:
        """F_j on every pair."""
        active = self.activation(self.preactivations(features), self.rho, self.power)
        return clipped(jnp.sum(active, axis=1), self.clip)

    def losses(self, features: Features) -> Float[Array, "actions values"]:
        """-log p of the right value, pair by pair."""
        outputs = jnp.moveaxis(self.logits(features), 0, -1)
        pairwise = jax.vmap(jax.vmap(lambda row, target: next_token_loss(row, target, self.others)))
        return pairwise(outputs, self.table)

    def loss(self, features: Features) -> Float[Array, ""]:
        """Loss_5 on T^1."""
        return jnp.mean(self.losses(features))

    def probabilities(self, features: Features) -> Float[Array, "classes actions values"]:
        """logit_j of the paper: the softmax, over values and all other classes."""
        outputs = self.logits(features)
        rest = jnp.broadcast_to(jnp.log(jnp.asarray(self.others, dtype=outputs.dtype)), outputs[:1].shape)
        return jax.nn.softmax(jnp.concatenate([outputs, rest]), axis=0)[:-1]

    def accuracy(self, features: Features) -> Float[Array, ""]:
        """Share of pairs whose right value has the largest logit of all."""
        outputs = self.logits(features)
        best = jnp.argmax(outputs, axis=0) == self.table
        return jnp.mean((best & (jnp.max(outputs, axis=0) > 0)).astype(outputs.dtype))

    def floor(self) -> Float[Array, ""]:
        """The least loss that the clip allows: log(1 + (d - 1) e^-B)."""
        classes = self.others + self.table.shape[1]
        return jnp.log1p((classes - 1) * jnp.exp(-jnp.asarray(self.clip, dtype=jnp.asarray(0.0).dtype)))

    def step_size(self, features: Features, gradient: Features, loss: Float[Array, ""], rate: Number, scale: str):
        """eta_t: the rate over 1, the loss, the largest gradient, or the largest one in units of min(V + b, 1).

        All but the first follow the same path with another clock; "relative" resolves the emergence of every feature.
        """
        each = jnp.concatenate([leaf.ravel() for leaf in gradient])
        size = jnp.minimum(jnp.concatenate([jnp.abs(leaf).ravel() for leaf in features]) + self.bias, 1)
        by = {
            "constant": jnp.ones_like(loss),
            "loss": loss,
            "largest": jnp.max(jnp.abs(each)),
            "relative": jnp.max(jnp.abs(each) / size),
        }[scale]
        return rate / jnp.maximum(by, jnp.finfo(loss.dtype).tiny)

    def descended(self, features: Features, rate: Number, scale: str) -> Features:
        """One gradient step."""
        loss, gradient = jax.value_and_grad(self.loss)(features)
        step = self.step_size(features, gradient, loss, rate, scale)
        return jax.tree.map(lambda v, g: v - step * g, features, gradient)


# --- reading the features ---------------------------------------------------------------------------------------------


class FeatureShape(NamedTuple):
    """The features of Theorems B.1 and C.1: one entry for each class j and value y, read at its best neuron."""

    winner: Int[Array, "classes values"]
    action: Float[Array, "classes values"]
    value: Float[Array, "classes values"]
    other_action: Float[Array, "classes values"]
    other_value: Float[Array, "classes values"]
    cancellation: Float[Array, "classes values"]
    share: Float[Array, "classes values"]

    def ratio(self) -> Float[Array, ""]:
        """V(g) over V(y), of their means."""
        return jnp.mean(self.action) / jnp.mean(self.value)

    def distinct(self) -> Int[Array, ""]:
        """How many different neurons win."""
        ordered = jnp.sort(self.winner, axis=1)
        return jnp.sum(ordered[:, 1:] != ordered[:, :-1]) + len(ordered)


def emergence(
    features: Features, fibers: Bool[Array, "classes actions values"]
) -> Float[Array, "classes neurons values"]:
    """V_psi of psi = (j, r, y): the mean of V_{j,r}(g, y) over the actions that send y to j (Definition C.3)."""
    weights = fibers / jnp.maximum(jnp.sum(fibers, axis=1, keepdims=True), 1)
    return (jnp.einsum("jrg,jgy->jry", features.action, weights.astype(features.action.dtype)) + features.value) / 2


def shape(token: ValueToken, features: Features) -> FeatureShape:
    """What each (j, y) ended with, at the neuron with the largest V_psi."""
    fibers = token.fibers
    winner = jnp.argmax(emergence(features, fibers), axis=1).astype(jnp.int32)

    def one(j, y):
        r = winner[j, y]
        action, value, fiber = features.action[j, r], features.value[j, r], fibers[j, :, y]
        others = jnp.arange(len(value), dtype=jnp.int32) != y
        on, off = _mean(action, fiber), _mean(action, ~fiber)
        # |V(g) + V(y')| over g in the fiber and y' != y, |V(g') + V(y)| over g' off it
        first = _largest(action[:, None] + value, fiber[:, None] & others)
        second = _largest(action + value[y], ~fiber)
        active = jnp.maximum(features.pairs()[j, :, :, y] + token.bias, 0)
        carried = _mean(active[r] / jnp.maximum(jnp.sum(active, axis=0), jnp.finfo(active.dtype).tiny), fiber)
        return on, value[y], off, _mean(value, others), jnp.maximum(first, second), carried

    classes = jnp.arange(winner.shape[0], dtype=jnp.int32)
    rows = jax.vmap(lambda j: jax.vmap(lambda y: one(j, y))(classes))(classes)
    return FeatureShape(winner, *rows)


def _mean(values: Array, mask: Array) -> Array:
    return jnp.sum(jnp.where(mask, values, 0)) / jnp.maximum(jnp.sum(mask), 1)


def _largest(values: Array, mask: Array) -> Array:
    return jnp.max(jnp.abs(jnp.where(mask, values, 0)))
