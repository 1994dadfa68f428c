"""Full-batch descent of W from zero: one step with teacher forcing (Theorem 5), or a few without (Theorem 7).

A step sums over n samples, which are drawn and contracted a block a tick; the only memory of them is the matrix S (see
`gradient`). Samples, secret, augmented and test inputs are functions of the seed and of counters alone, so all arms of
an experiment see the same data, and the first n samples are those of any smaller data set. With one step, the update is
therefore known after every block: `looks` tries it at several n in one pass.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float

from stairwise.papers.parity_onestep import gradient, oracles
from stairwise.papers.parity_onestep.config import Descent
from stairwise.papers.parity_onestep.evaluate import evaluate, outcome
from stairwise.papers.parity_onestep.gradient import Compensated, Sums
from stairwise.papers.parity_onestep.links import Link, make_link
from stairwise.papers.parity_onestep.model import Filter, PositionalAttention
from stairwise.papers.parity_onestep.quantise import quantise
from stairwise.tasks.decomposition import Tree, balanced, chain
from stairwise.tasks.parity import draw_subset
from stairwise.train.keys import at, role_key
from stairwise.train.stage import Stage, every


class State(NamedTuple):
    """The secret's tree, W, the gates that its filter leaves open, and the sums of the step that is under way."""

    tree: Tree
    W: Float[Array, "tokens nodes"]
    optimizer: Any
    gates: Bool[Array, " levels"]
    S: Compensated
    loss: Compensated


def descent(config: Descent) -> list[Stage]:
    """The one stage: `steps` gradient steps of `blocks` ticks each."""
    last = config.steps * config.blocks
    looks = tuple(look // config.block for look in config.looks)
    points = (*looks, last) if config.steps == 1 else every(config.measure_every * config.blocks, last)
    return [
        Stage(
            name="descent",
            init=precise(partial(init, config)),
            tick=precise(partial(tick, config)),
            max_ticks=last,
            measure=precise(partial(measure, config)),
            measure_at=points,
            snapshot=lambda numbers, state: {"W": state.W, "gates": state.gates},
            snapshot_at=() if config.steps == 1 else points,
            finish=precise(partial(finish, config)),
        )
    ]


def precise(function: Callable[..., Any]) -> Callable[..., Any]:
    """Products of float32 matrices in float32: a GPU would otherwise round their factors to 10 bits."""

    def run(*arguments):
        with jax.default_matmul_precision("highest"):
            return function(*arguments)

    return run


# --- the problem that a seed means ------------------------------------------------------------------------------------


def tree_of(config: Descent, numbers) -> Tree:
    """The secret's decomposition; d and k are numbers of the trial where the task is padded."""
    task = config.task
    bits, size = numbers.get("task.bits", task.bits), numbers.get("task.size", task.size)
    if task.subset:
        leaves = jnp.array(sorted(task.subset), dtype=jnp.int32)
    else:
        leaves = draw_subset(role_key(numbers["seed"], "secret"), task.slots, task.leaves, bits, size)
    return {"balanced": balanced, "chain": chain}[task.tree](leaves, bits, size, task.slots)


def link_of(config: Descent) -> Link:
    return make_link(config.link.name, config.link.slope)


def model_of(config: Descent, tree: Tree, W: Float[Array, "tokens nodes"]) -> PositionalAttention:
    return PositionalAttention(W, tree, link_of(config), config.mask)


def samples_of(config: Descent, numbers, tree: Tree, block):
    """Block number `block` of the training samples, and which of them are among the n of their step."""
    tokens = gradient.draw_block(at(role_key(numbers["seed"], "samples"), block), tree, config.block)
    number = (block % config.blocks) * config.block + jnp.arange(config.block, dtype=jnp.int32)
    return tokens, (number < config.samples).astype(tokens.dtype)


def test_tokens(config: Descent, numbers, tree: Tree) -> Float[Array, "tokens samples"]:
    """Fresh inputs with their true tokens, of which a roll-out sees the inputs only."""
    return gradient.draw_block(role_key(numbers["seed"], "test"), tree, config.test_inputs)


def gates_of(config: Descent, numbers, model: PositionalAttention) -> Bool[Array, " levels"]:
    """Which levels the filter leaves open under the current weights."""
    chosen, count = config.augmentation, numbers["augmentation.inputs"]
    if config.mask == "causal":  # no filter here
        return jnp.ones(model.tree.levels, dtype=bool)
    if chosen.source == "training":
        tokens, count = samples_of(config, numbers, model.tree, 0)[0], min(config.block, config.samples)
    else:
        tokens = gradient.draw_block(role_key(numbers["seed"], "augmented"), model.tree, chosen.room)
    filter = Filter(numbers["augmentation.eps0"], chosen.reading, numbers["augmentation.propagate"])
    return model.gates(tokens[: model.tree.slots].T, filter, count)


# --- one step ---------------------------------------------------------------------------------------------------------


def init(config: Descent, numbers, carry, key) -> State:
    tree = tree_of(config, numbers)
    W = jnp.zeros((tree.tokens, tree.nodes), dtype=jnp.float32)
    gates = gates_of(config, numbers, model_of(config, tree, W))
    memory = optax.scale_by_adam().init(W) if config.optimizer == "adam" else None
    return State(tree, W, memory, gates, Compensated.zero(W.shape), Compensated.zero(()))


def tick(config: Descent, numbers, state: State, key, t) -> State:
    """Add one block; the last block of a step also takes the step (a lone step is left to whoever looks)."""
    model = model_of(config, state.tree, state.W)
    tokens, weights = samples_of(config, numbers, model.tree, t if config.fresh else t % config.blocks)
    sums = contract(config, model, state.gates, tokens, weights)
    state = state._replace(S=state.S.add(sums.S), loss=state.loss.add(sums.loss))
    if config.steps == 1:
        return state
    return jax.lax.cond((t + 1) % config.blocks == 0, partial(step, config, numbers, t=t), lambda state: state, state)


def contract(config: Descent, model: PositionalAttention, gates, tokens, weights) -> Sums:
    """What a block adds to the sums, by the cheapest form of the gradient that the config allows."""
    if not config.forcing:
        here = jnp.arange(model.tree.nodes, dtype=jnp.int32) == model.tree.root
        supervised = model.tree.used if config.supervision == "chain" else here
        return gradient.generated(model, gates, supervised, tokens, weights)
    if config.steps == 1:
        return gradient.forced_at_zero(model.tree, model.link, config.mask, tokens, weights)
    return gradient.forced(model, tokens, weights)


def step(config: Descent, numbers, state: State, t) -> State:
    """W <- r[W - eta (gradient)], new gates, and empty sums."""
    W, memory = stepped(config, numbers, state, config.samples, t // config.blocks)
    gates = gates_of(config, numbers, model_of(config, state.tree, W))
    return State(state.tree, W, memory, gates, Compensated.zero(W.shape), Compensated.zero(()))


def stepped(config: Descent, numbers, state: State, samples, number) -> tuple[Float[Array, "tokens nodes"], Any]:
    """The weights after step `number`, given the sums over `samples` samples, and the optimiser's memory."""
    model, memory = model_of(config, state.tree, state.W), state.optimizer
    exact = gradient.gradient(model.scores(), state.S.total, samples)
    direction, rate = asked(config, numbers, model, exact, number), learning_rate(config, numbers, model, exact)
    if config.optimizer == "adam":
        updates, memory = optax.scale_by_adam().update(direction, memory)
        direction, rate = jnp.asarray(updates), numbers["rate.adam"]
    W = quantise(state.W - rate * direction, numbers["quantiser.spacing"], numbers["quantiser.bound"])
    return W, memory


def asked(config: Descent, numbers, model: PositionalAttention, exact, number):
    """The oracle's answer: the gradient, disturbed by at most C d^(-2-eps/8) where a node looks."""
    delta = numbers["oracle.strength"] * model.tree.inputs ** (-2 - numbers["rate.eps"] / 8)
    if config.oracle.kind == "exact":
        return exact
    if config.oracle.kind == "noisy":
        disturbed = oracles.noisy(at(role_key(numbers["seed"], "oracle"), number), exact, delta)
    else:
        disturbed = oracles.adversarial(model.tree, exact, delta)
    return jnp.where(model.tree.visible(model.mask), disturbed, 0)


def learning_rate(config: Descent, numbers, model: PositionalAttention, exact) -> Float[Array, ""]:
    """eta, such that one step from zero gives the root's children the logit lam (see `Rate`)."""
    tree, lam = model.tree, numbers["rate.lam"]
    if config.rate.scale == "paper":
        return numbers["rate.eta0"] * tree.inputs ** (2 + numbers["rate.eps"] / 16)
    if config.rate.scale == "measured":
        return lam / -jnp.mean(exact[tree.children[tree.root], tree.root])
    seen = tree.visible_count(model.mask)[tree.root].astype(jnp.float32)
    return lam * seen**2 / (2 * model.link.curvature)


# --- measurements -----------------------------------------------------------------------------------------------------


def current(config: Descent, numbers, state: State, samples) -> tuple[PositionalAttention, Bool[Array, " levels"]]:
    """The model that the samples so far mean, and its gates."""
    if config.steps > 1:
        return model_of(config, state.tree, state.W), state.gates
    model = model_of(config, state.tree, stepped(config, numbers, state, samples, 0)[0])
    return model, gates_of(config, numbers, model)


def measure(config: Descent, numbers, state: State, key, t) -> dict[str, Array]:
    """Errors of the roll-out on fresh inputs, and how well W has found the tree."""
    seen = jnp.minimum(t * config.block, config.samples).astype(jnp.float32)
    model, gates = current(config, numbers, state, seen)
    found = evaluate(model, gates, test_tokens(config, numbers, model.tree))
    return found | (step_facts(config, numbers, state, seen) if config.steps == 1 else {})


def step_facts(config: Descent, numbers, state: State, samples) -> dict[str, Array]:
    """L(0), and the logit lam that the step's eta means to leading order, whatever eta was set by."""
    model = model_of(config, state.tree, state.W)
    exact = gradient.gradient(model.scores(), state.S.total, samples)
    seen = state.tree.visible_count(config.mask)[state.tree.root].astype(jnp.float32)
    nominal = learning_rate(config, numbers, model, exact) * 2 * model.link.curvature / seen**2
    return {"initial loss": state.loss.total / samples, "nominal logit": nominal}


def finish(config: Descent, numbers, state: State, key):
    """The final weights, the tree, and the errors on the test inputs."""
    model, gates = current(config, numbers, state, jnp.float32(config.samples))
    tokens = test_tokens(config, numbers, model.tree)
    tree = {"children": model.tree.children, "height": model.tree.height, "inputs": model.tree.inputs}
    root = outcome(model, gates, tokens[: model.tree.slots])[model.tree.slots + model.tree.root]
    return None, {
        "W": model.W,
        "gates": gates,
        "root outputs": root,
        "labels": tokens[model.tree.slots + model.tree.root],
        **tree,
    }


def stored_model(config: Descent, arrays: dict) -> PositionalAttention:
    """The trained model of a stored trial."""
    height = jnp.asarray(arrays["descent/height"])
    levels = len(height) if config.task.tree == "chain" else len(height).bit_length()
    inputs = jnp.asarray(arrays["descent/inputs"])
    tree = Tree(jnp.asarray(arrays["descent/children"]), height, inputs, config.task.slots, levels)
    return PositionalAttention(jnp.asarray(arrays["descent/W"]), tree, link_of(config), config.mask)
