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
from stairwise.train.keys import at
from stairwise.train.loop import RunningTrial
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
            init=precise(init),
            tick=precise(tick),
            max_ticks=last,
            measure=precise(measure),
            measure_at=points,
            snapshot=lambda trial, state: {"W": state.W, "gates": state.gates},
            snapshot_at=() if config.steps == 1 else points,
            finish=precise(finish),
            counts="samples" if config.steps == 1 else "gradient steps",
            per_tick=config.block if config.steps == 1 else 1 / config.blocks,
            graph=True,
        )
    ]


def precise(function: Callable[..., Any]) -> Callable[..., Any]:
    """Products of float32 matrices in float32: a GPU would otherwise round their factors to 10 bits."""

    def run(*arguments):
        with jax.default_matmul_precision("highest"):
            return function(*arguments)

    return run


# --- the problem that a seed means ------------------------------------------------------------------------------------


def tree_of(trial: RunningTrial[Any]) -> Tree:
    """The secret's decomposition; d and k are traced where the task is padded."""
    task = trial.config.task
    bits, size = task.bits, task.size
    if task.secret:
        leaves = jnp.array(sorted(task.secret), dtype=jnp.int32)
    else:
        leaves = draw_subset(trial.key("secret"), task.slots, task.leaves, bits, size)
    return {"balanced": balanced, "chain": chain}[task.tree](leaves, bits, size, task.slots)


def link_of(config: Descent) -> Link:
    return make_link(config.link.name, config.link.slope)


def model_of(config: Descent, tree: Tree, W: Float[Array, "tokens nodes"]) -> PositionalAttention:
    return PositionalAttention(W, tree, link_of(config), config.mask)


def samples_of(trial: RunningTrial[Descent], tree: Tree, block):
    """Block number `block` of the training samples, and which of them are among the n of their step."""
    config = trial.config
    tokens = gradient.draw_block(at(trial.key("samples"), block), tree, config.block)
    number = (block % config.blocks) * config.block + jnp.arange(config.block, dtype=jnp.int32)
    return tokens, (number < config.samples).astype(tokens.dtype)


def test_tokens(trial: RunningTrial[Descent], tree: Tree) -> Float[Array, "tokens samples"]:
    """Fresh inputs with their true tokens, of which a roll-out sees the inputs only."""
    return gradient.draw_block(trial.key("test"), tree, trial.config.test_examples)


def gates_of(trial: RunningTrial[Descent], model: PositionalAttention) -> Bool[Array, " levels"]:
    """Which levels the filter leaves open under the current weights."""
    config = trial.config
    chosen, count = config.augmentation, config.augmentation.inputs
    if config.mask == "causal":  # no filter here
        return jnp.ones(model.tree.levels, dtype=bool)
    if chosen.source == "training":
        tokens, count = samples_of(trial, model.tree, 0)[0], min(config.block, config.samples)
    else:
        tokens = gradient.draw_block(trial.key("augmented"), model.tree, chosen.room)
    filter = Filter(config.augmentation.eps0, chosen.reading, config.augmentation.propagate)
    return model.gates(tokens[: model.tree.slots].T, filter, count)


# --- one step ---------------------------------------------------------------------------------------------------------


def init(trial: RunningTrial[Descent], carry, key) -> State:
    tree = tree_of(trial)
    W = jnp.zeros((tree.tokens, tree.nodes), dtype=jnp.float32)
    gates = gates_of(trial, model_of(trial.config, tree, W))
    memory = optax.scale_by_adam().init(W) if trial.config.optimizer == "adam" else None
    return State(tree, W, memory, gates, Compensated.zero(W.shape), Compensated.zero(()))


def tick(trial: RunningTrial[Descent], state: State, key, t) -> State:
    """Add one block; the last block of a step also takes the step (a lone step is left to whoever looks)."""
    config = trial.config
    model = model_of(config, state.tree, state.W)
    tokens, weights = samples_of(trial, model.tree, t if config.fresh else t % config.blocks)
    sums = contract(config, model, state.gates, tokens, weights)
    state = state._replace(S=state.S.add(sums.S), loss=state.loss.add(sums.loss))
    if config.steps == 1:
        return state
    return jax.lax.cond((t + 1) % config.blocks == 0, partial(step, trial, t=t), lambda state: state, state)


def contract(config: Descent, model: PositionalAttention, gates, tokens, weights) -> Sums:
    """What a block adds to the sums, by the cheapest form of the gradient that the config allows."""
    if not config.forcing:
        here = jnp.arange(model.tree.nodes, dtype=jnp.int32) == model.tree.root
        supervised = model.tree.used if config.supervision == "chain" else here
        return gradient.generated(model, gates, supervised, tokens, weights)
    if config.steps == 1:
        return gradient.forced_at_zero(model.tree, model.link, config.mask, tokens, weights)
    return gradient.forced(model, tokens, weights)


def step(trial: RunningTrial[Descent], state: State, t) -> State:
    """W <- r[W - eta (gradient)], new gates, and empty sums."""
    config = trial.config
    W, memory = stepped(trial, state, config.samples, t // config.blocks)
    gates = gates_of(trial, model_of(config, state.tree, W))
    return State(state.tree, W, memory, gates, Compensated.zero(W.shape), Compensated.zero(()))


def stepped(trial: RunningTrial[Descent], state: State, samples, number) -> tuple[Float[Array, "tokens nodes"], Any]:
    """The weights after step `number`, given the sums over `samples` samples, and the optimiser's memory."""
    config = trial.config
    model, memory = model_of(config, state.tree, state.W), state.optimizer
    exact = gradient.gradient(model.scores(), state.S.total, samples)
    direction, rate = asked(trial, model, exact, number), learning_rate(trial, model, exact)
    if config.optimizer == "adam":
        updates, memory = optax.scale_by_adam().update(direction, memory)
        direction, rate = jnp.asarray(updates), config.rate.adam
    W = quantise(state.W - rate * direction, config.quantiser.spacing, config.quantiser.bound)
    return W, memory


def asked(trial: RunningTrial[Descent], model: PositionalAttention, exact, number):
    """The oracle's answer: the gradient, disturbed by at most C d^(-2-eps/8) where a node looks."""
    config = trial.config
    delta = config.oracle.strength * model.tree.inputs ** (-2 - config.rate.eps / 8)
    if config.oracle.kind == "exact":
        return exact
    if config.oracle.kind == "noisy":
        disturbed = oracles.noisy(at(trial.key("oracle"), number), exact, delta)
    else:
        disturbed = oracles.adversarial(model.tree, exact, delta)
    return jnp.where(model.tree.visible(model.mask), disturbed, 0)


def learning_rate(trial: RunningTrial[Any], model: PositionalAttention, exact) -> Float[Array, ""]:
    """eta, such that one step from zero gives the root's children the logit lam (see `Rate`)."""
    config = trial.config
    tree, lam = model.tree, config.rate.lam
    if config.rate.scale == "paper":
        return config.rate.eta0 * tree.inputs ** (2 + config.rate.eps / 16)
    if config.rate.scale == "measured":
        return lam / -jnp.mean(exact[tree.children[tree.root], tree.root])
    seen = tree.visible_count(model.mask)[tree.root].astype(jnp.float32)
    return lam * seen**2 / (2 * model.link.curvature)


# --- measurements -----------------------------------------------------------------------------------------------------


def current(trial: RunningTrial[Descent], state: State, samples) -> tuple[PositionalAttention, Bool[Array, " levels"]]:
    """The model that the samples so far mean, and its gates."""
    config = trial.config
    if config.steps > 1:
        return model_of(config, state.tree, state.W), state.gates
    model = model_of(config, state.tree, stepped(trial, state, samples, 0)[0])
    return model, gates_of(trial, model)


def measure(trial: RunningTrial[Descent], state: State, key, t) -> dict[str, Array]:
    """Errors of the roll-out on fresh inputs, and how well W has found the tree."""
    config = trial.config
    seen = jnp.minimum(t * config.block, config.samples).astype(jnp.float32)
    model, gates = current(trial, state, seen)
    found = evaluate(model, gates, test_tokens(trial, model.tree))
    return found | (step_facts(trial, state, seen) if config.steps == 1 else {})


def step_facts(trial: RunningTrial[Descent], state: State, samples) -> dict[str, Array]:
    """L(0), and the logit lam that the step's eta means to leading order, whatever eta was set by."""
    model = model_of(trial.config, state.tree, state.W)
    exact = gradient.gradient(model.scores(), state.S.total, samples)
    seen = state.tree.visible_count(trial.config.mask)[state.tree.root].astype(jnp.float32)
    nominal = learning_rate(trial, model, exact) * 2 * model.link.curvature / seen**2
    return {"initial loss": state.loss.total / samples, "nominal logit": nominal}


def finish(trial: RunningTrial[Descent], state: State, key):
    """The final weights, the tree, and the errors on the test inputs."""
    model, gates = current(trial, state, jnp.float32(trial.config.samples))
    tokens = test_tokens(trial, model.tree)
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
