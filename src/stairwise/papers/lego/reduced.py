"""The exact four-scalar reduction of the attention dynamics on the ideal network (value token).

Where the network ignores variables, population descent from Q = 0 keeps Q43 = a I + b (J - I) and
Q44 = c I + e (J - I) on the variables. At step l of a chain of L the query then weighs

    predicate l: e^a    each other predicate: e^b    its own clause: e^c    each earlier answer: e^e,

and everything that the value token sees are the shares of these four kinds. Neuron y of class j reads

    Lambda_{j,y} = 2B' M_{j,y} - beta P - alpha (1 - P),    B' = B + rho (1 - 1/q),

with P the mass on predicates and M_{j,y} the mass on predicates that send y to j and on answers whose value is y.
Losses are in their log1p form: a difference of log-sum-exps would cancel to 0 and freeze the descent.
"""

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from stairwise.papers.lego.activation import Number, smooth_relu
from stairwise.papers.lego.groups import Action
from stairwise.papers.lego.model import feature_scale, logit_clip, surprise
from stairwise.papers.lego.theory import features, orbits

Scores = Float[Array, "4"]  # a, b, c, e


class IdealValues(eqx.Module):
    """The value token of the ideal network: V_{j,y}(g) is alpha or -beta, V_{j,y}(y') is beta or -alpha.

    `clip` is B, `others` the number of classes that are no values, whose logit is 0.
    """

    alpha: Number
    beta: Number
    clip: Number
    rho: Number
    others: Number
    power: int = eqx.field(static=True)

    def preactivations(self, matches: Float[Array, "values values"], predicates: Number):
        """Lambda_{j,y}, given M and the mass P on predicates."""
        return (self.alpha + self.beta) * matches - self.beta * predicates - self.alpha * (1 - predicates)

    def logits(self, matches: Float[Array, "values values"], predicates: Number) -> Float[Array, " values"]:
        """F_j of every value class."""
        active = smooth_relu(self.preactivations(matches, predicates), self.rho, self.power)
        return clipped(jnp.sum(active, axis=1), self.clip)


def clipped(total: Float[Array, "*shape"], clip: Number) -> Float[Array, "*shape"]:
    """min(F, B) whose derivative is 0 from B on (`minimum` would halve it at B)."""
    return jnp.where(total < clip, total, clip)


def next_token_loss(outputs: Float[Array, " values"], target: int | Int[Array, ""], others: Number) -> Float[Array, ""]:
    """-log softmax at the target, among the values and `others` more classes with logit 0."""
    rest = jnp.log(jnp.asarray(others, dtype=outputs.dtype))
    return surprise(jnp.append(outputs, rest), jnp.asarray(target, dtype=jnp.int32))


def ideal_values(
    action: Action, variables: int, clip_factor: Number = 4.0, rho: Number = 0.8, power: int = 4
) -> IdealValues:
    """The ideal network for an action at |X| = `variables`: B = clip_factor log d, d = |X| + |G| + |Y| + 1."""
    vocabulary = features.vocabulary(action, variables)
    clip = logit_clip(vocabulary, 1.0) * clip_factor
    alpha, beta = features.magnitudes(action, feature_scale(clip, rho, power))
    return IdealValues(alpha, beta, clip, rho, float(vocabulary - action.values), power)


# --- attention --------------------------------------------------------------------------------------------------------


def shares(scores: Scores, length: Number | Int[Array, ""], step: Number | Int[Array, ""]) -> Scores:
    """Attention mass on: the right predicate, all other predicates, the own answer, all earlier answers."""
    clauses = jnp.array([1, length - 1, 1, step - 1], dtype=scores.dtype)
    return jax.nn.softmax(scores + jnp.log(clauses))


class Context(NamedTuple):
    """What step l of a chain of L sees: M of each of the four kinds (means where it is several clauses)."""

    near: Float[Array, "values values"]
    far: Float[Array, "values values"]
    own: Float[Array, " values"]
    past: Float[Array, " values"]
    target: Int[Array, ""]
    length: Int[Array, ""]
    step: Int[Array, ""]


def matches(scores: Scores, context: Context) -> tuple[Float[Array, "values values"], Float[Array, ""]]:
    """M, and the mass P on predicates, that attention makes of a context."""
    near, far, own, past = shares(scores, context.length, context.step)
    return near * context.near + far * context.far + own * context.own + past * context.past, near + far


def logits(network: IdealValues, scores: Scores, context: Context) -> Float[Array, " values"]:
    """F_j of the value token, for one context."""
    return network.logits(*matches(scores, context))


def loss(network: IdealValues, scores: Scores, context: Context) -> Float[Array, ""]:
    """-log p of the target value, for one context."""
    return next_token_loss(logits(network, scores, context), context.target, network.others)


class Population(NamedTuple):
    """Contexts and their probabilities."""

    contexts: Context
    weights: Float[Array, " contexts"]


def mean_loss(network: IdealValues, scores: Scores, population: Population) -> Float[Array, ""]:
    """Loss_5 over a population of contexts."""
    return population.weights @ jax.vmap(partial(loss, network, scores))(population.contexts)


def descended(scores: Scores, gradient: Scores, rate: Number, variables: Number) -> Scores:
    """One step on all of Q43 and Q44: a diagonal entry has dL/da / |X|, the others dL/db / (|X| (|X| - 1))."""
    pairs = variables * (variables - 1)
    return scores - rate * gradient / jnp.stack([jnp.asarray(n, dtype=scores.dtype) for n in (variables, pairs) * 2])


# --- the populations of two steps -------------------------------------------------------------------------------------


def two_steps(action: Action, step: int) -> Population:
    """All contexts of step 1 or 2 of chains of two, exactly, up to relabellings that the ideal network cannot see.

    Relabelling outputs makes g_1 the identity and g_2 = k; what is left is k with the two marked values (`orbits`).
    """
    if step not in (1, 2):
        raise ValueError(f"step={step} must be 1 or 2 (two_steps)")
    found = orbits.marked_pairs(action)
    count, unit = len(found.weights), np.eye(action.values)
    first = np.broadcast_to(unit, (count, *unit.shape))
    second = unit[found.second].transpose(0, 2, 1)
    sizes = np.full(count, 2, dtype=np.int32), np.full(count, step, dtype=np.int32)
    if step == 1:
        seen = (first, second, unit[found.start], 0 * unit[found.start], found.start)
    else:
        end = np.take_along_axis(found.second, found.middle[:, None], axis=1)[:, 0]
        seen = (second, first, unit[found.middle], unit[found.start], end)
    contexts = Context(*(_on_device(leaf) for leaf in (*seen, *sizes)))
    return Population(contexts, _on_device(found.weights))


def _on_device(leaf: np.ndarray) -> Array:
    return jnp.asarray(leaf, dtype=jnp.int32 if leaf.dtype.kind == "i" else jnp.asarray(0.0).dtype)


def matrix(image: Int[Array, " values"], dtype) -> Float[Array, "values values"]:
    """M_{j,y} = 1 where y goes to j."""
    return jax.nn.one_hot(image, len(image), dtype=dtype).T


def chain_context(
    table: Int[Array, "actions values"],
    actions: Int[Array, " most"],
    values: Int[Array, " answers"],
    length: int | Int[Array, ""],
    step: int | Int[Array, ""],
    dtype,
) -> Context:
    """Step l of one chain of `length`, told with the answers `values`, whose entry l is the target.

    Actions beyond the length and answers beyond l are padding.
    """
    unit = jnp.eye(table.shape[1], dtype=dtype)
    inside = jnp.arange(len(actions), dtype=jnp.int32) < length
    near = matrix(table[actions[step - 1]], dtype)
    far = (_sum_of_matrices(table[actions], dtype, inside) - near) / jnp.maximum(length - 1, 1)
    earlier = (jnp.arange(len(values), dtype=jnp.int32) < step - 1).astype(dtype)
    past = earlier @ unit[values] / jnp.maximum(step - 1, 1)
    sizes = jnp.asarray(length, dtype=jnp.int32), jnp.asarray(step, dtype=jnp.int32)
    return Context(near, far, unit[values[step - 1]], past, values[step], *sizes)


def _sum_of_matrices(images: Int[Array, "most values"], dtype, inside: Bool[Array, " most"]):
    """The sum of M over the images inside, by counting: no (length, values, values) array."""
    size = images.shape[1]
    places = images, jnp.broadcast_to(jnp.arange(size, dtype=jnp.int32), images.shape)
    return jnp.zeros((size, size), dtype=dtype).at[places].add(inside[:, None].astype(dtype))


# --- roll-out ---------------------------------------------------------------------------------------------------------


class Walk(NamedTuple):
    """What happened at every step of a chain: the value said, whether it was right, and p of the right one."""

    values: Int[Array, " steps"]
    right: Bool[Array, " steps"]
    probability: Float[Array, " steps"]


def rollout(
    network: IdealValues,
    table: Int[Array, "actions values"],
    scores: Scores,
    actions: Int[Array, " steps"],
    start: Int[Array, ""],
    length: int | Int[Array, ""],
    steps: int | None = None,
    forced: bool = False,
) -> Walk:
    """A greedy roll-out over a chain of `length`, in O(|Y|^2) a step: context enters through running counts.

    `actions` may be padded; steps beyond `length` count as right. Only the first `steps` are taken, if given. A step
    with no logit above 0 is wrong: the other classes tie there. With `forced` the true values are fed back, which
    gives the accuracy of eq. (5).
    """
    dtype, size = scores.dtype, table.shape[1]
    inside = jnp.arange(len(actions), dtype=jnp.int32) < length
    total = _sum_of_matrices(table[actions], dtype, inside)
    crowd = jnp.maximum(jnp.asarray(length, dtype=dtype) - 1, 1)

    def advance(carry, item):
        value, truth, past, step = carry
        action, counts = item
        near = matrix(table[action], dtype)
        own = jax.nn.one_hot(value, size, dtype=dtype)
        answer = table[action, truth]
        sizes = jnp.asarray(length, dtype=jnp.int32), step
        seen = Context(near, (total - near) / crowd, own, past / jnp.maximum(step - 1, 1), answer, *sizes)
        outputs = logits(network, scores, seen)
        guess = jnp.argmax(outputs).astype(jnp.int32)
        right = ((guess == answer) & (outputs[guess] > 0)) | ~counts
        following = answer if forced else guess
        probability = jnp.where(counts, jnp.exp(-next_token_loss(outputs, answer, network.others)), 1)
        return (following, answer, past + own, step + 1), Walk(guess, right, probability)

    begin = (start, start, jnp.zeros(size, dtype=dtype), jnp.asarray(1, dtype=jnp.int32))
    return jax.lax.scan(advance, begin, (actions[:steps], inside[:steps]))[1]


def draw_chain(key: PRNGKeyArray, table: Int[Array, "actions values"], steps: int):
    """y_0 and g_1..g_steps, uniform."""
    first, rest = jax.random.split(key)
    start = jax.random.randint(first, (), 0, table.shape[1], dtype=jnp.int32)
    return start, jax.random.randint(rest, (steps,), 0, table.shape[0], dtype=jnp.int32)


@eqx.filter_jit
def chain_accuracy(
    network: IdealValues,
    table: Int[Array, "actions values"],
    scores: Scores,
    key: PRNGKeyArray,
    length: Int[Array, ""],
    steps: int,
    sequences: int,
) -> dict[str, Float[Array, ""]]:
    """Exact match, per-step and final accuracy of greedy roll-outs, and eq. (5), over fresh chains.

    `steps` is the padding: one compiled program serves every `length` up to it.
    """

    def one(index):
        start, actions = draw_chain(jax.random.fold_in(key, index), table, steps)
        free = rollout(network, table, scores, actions, start, length)
        forced = rollout(network, table, scores, actions, start, length, forced=True)
        wrong = jnp.sum(~free.right) / length
        expected = 1 - jnp.sum(1 - forced.probability) / length
        return jnp.all(free.right), 1 - wrong, free.right[length - 1], expected

    found = jax.vmap(one)(jnp.arange(sequences, dtype=jnp.int32))
    names = ("exact match", "per step", "final", "expected probability")
    return {name: jnp.mean(row.astype(scores.dtype)) for name, row in zip(names, found, strict=True)}
