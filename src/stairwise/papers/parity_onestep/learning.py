"""Gradient descent over hundreds of epochs, by four ways to supervise the chain (Section 4 of the ICLR version).

Attention depends on positions only, so a chain is a product of matrices per group of nodes that do not see each other:
a level of the tree with the block mask, a single node with the causal one. All n samples are in every step; they are
drawn anew from their counters, block by block, so that nothing of size n x d is kept.
"""

from itertools import pairwise

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float

from stairwise.papers.parity_onestep.config import Learning
from stairwise.papers.parity_onestep.gradient import draw_block
from stairwise.papers.parity_onestep.links import Link, make_link
from stairwise.papers.parity_onestep.model import PositionalAttention
from stairwise.papers.parity_onestep.train import precise, tree_of
from stairwise.tasks.decomposition import Tree
from stairwise.train.gradient import Training, gradient_training
from stairwise.train.keys import at
from stairwise.train.loop import RunningTrial
from stairwise.train.stage import Stage, every

Tokens = Float[Array, "tokens samples"]


def training(config: Learning) -> list[Stage]:
    """The one stage: a step takes `blocks` ticks, one per block of samples."""
    return [
        gradient_training(
            model=start,
            batch=block,
            loss=precise(loss),
            optimizer=lambda config: optax.sgd(config.learning_rate),
            steps=config.steps,
            micro_batches=config.blocks,
            measure=precise(measure),
            measure_at=every(config.measure_every * config.blocks, config.steps * config.blocks),
            keep=None,
            finish=finish,
            name="descent",
        )
    ]


def start(trial: RunningTrial[Learning], key) -> Float[Array, "tokens nodes"]:
    """W = 0: every node looks at all that it sees alike."""
    tree = tree_of(trial)
    return jnp.zeros((tree.tokens, tree.nodes), dtype=jnp.float32)


def block(trial: RunningTrial[Learning], aux, model, key, n) -> Tokens:
    """Block number n of the fixed samples, round and round, with the true values of all nodes."""
    return draw_block(at(trial.key("samples"), n % trial.config.blocks), tree_of(trial), trial.config.batch)


# --- chains -----------------------------------------------------------------------------------------------------------


def groups(config: Learning) -> tuple[int, ...]:
    """Where each group of nodes that do not see each other begins, and the end of the last.

    >>> from stairwise.papers.parity_onestep.config import Task
    >>> groups(Learning(Task(16, 8), method="chain")), groups(Learning(Task(16, 4), method="direct"))
    ((0, 4, 6, 7), (0, 1, 2, 3))
    """
    size = config.task.size
    if config.mask == "causal":
        return tuple(range(size))
    entries, ends = size, [0]
    while ends[-1] < size - 1:
        ends.append(entries // 2)  # nodes of this level and below: two entries of the queue each
        entries = size + entries // 2
    return tuple(ends)


def link_of(config: Learning) -> Link:
    return make_link(config.link.name, config.link.slope)


def scores_of(config: Learning, tree: Tree, W: Float[Array, "tokens nodes"]) -> Float[Array, "tokens nodes"]:
    return PositionalAttention(W, tree, link_of(config), config.mask).scores()


def rolled(
    config: Learning,
    scores: Float[Array, "tokens nodes"],
    inputs: Float[Array, "slots samples"],
    gates: Bool[Array, " groups"] | None = None,
) -> Float[Array, "nodes samples"]:
    """The model's own chain: TF applied to its own output until nothing changes. A closed group outputs 0."""
    slots, link = len(inputs), link_of(config)
    from_inputs = scores[:slots].T @ inputs
    nodes = jnp.zeros((0, inputs.shape[1]), dtype=inputs.dtype)
    for number, (first, end) in enumerate(pairwise(groups(config))):
        made = link(from_inputs[first:end] + scores[slots : slots + first, first:end].T @ nodes)
        nodes = jnp.concatenate([nodes, made if gates is None else jnp.where(gates[number], made, 0)])
    return nodes


def open_levels(config: Learning, scores: Float[Array, "tokens nodes"]) -> Bool[Array, " groups"]:
    """The filter by weights: a group is open when every node of the groups before it is trained."""
    trained = jnp.max(scores, axis=0) > config.threshold
    following = [jnp.all(trained[:end]) for end in groups(config)[1:-1]]
    return jnp.stack([jnp.asarray(True), *following])


def gates_of(config: Learning, scores: Float[Array, "tokens nodes"]) -> Bool[Array, " groups"] | None:
    return jax.lax.stop_gradient(open_levels(config, scores)) if config.method == "consistency" else None


# --- losses -----------------------------------------------------------------------------------------------------------


def chain_loss(made: Float[Array, "nodes samples"], true: Float[Array, "nodes samples"]) -> Float[Array, ""]:
    """(1/(2n(k-1))) sum over nodes and samples of the squared error."""
    return jnp.mean((made - true) ** 2) / 2


def losses(config: Learning, tree: Tree, W, tokens: Tokens) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The loss of the chain (with teacher forcing where the method has it), and that of the own prediction."""
    scores, true = scores_of(config, tree, W), tokens[tree.slots :]
    own = rolled(config, scores, tokens[: tree.slots], gates_of(config, scores))
    made = link_of(config)(scores.T @ tokens) if config.method == "forcing" else own
    return chain_loss(made, true), chain_loss(own[-1:], true[-1:])


def loss(trial: RunningTrial[Learning], W, tokens: Tokens, key) -> Float[Array, ""]:
    """What is differentiated."""
    config = trial.config
    chain, prediction = losses(config, tree_of(trial), W, tokens)
    if config.method == "direct":
        return prediction
    return chain + config.prediction * prediction if config.method == "consistency" else chain


# --- measurements -----------------------------------------------------------------------------------------------------


def measure(trial: RunningTrial[Learning], state: Training, key, t) -> dict[str, Array]:
    """Losses and accuracy on fresh inputs, how far attention is from uniform, and the levels that the filter opens."""
    config, tree = trial.config, tree_of(trial)
    tokens = draw_block(trial.key("test"), tree, config.test_examples)
    chain, prediction = losses(config, tree, state.model, tokens)
    scores = scores_of(config, tree, state.model)
    own = rolled(config, scores, tokens[: tree.slots], gates_of(config, scores))[-1]
    children = jnp.take_along_axis(scores, tree.children.T, axis=0)
    return {
        "CoT loss": chain,
        "prediction loss": prediction,
        "accuracy": jnp.mean(own * tokens[-1] > 0),
        "largest score": jnp.max(scores),
        "least on children": jnp.min(jnp.sum(children, axis=0)),
        "open groups": jnp.sum(open_levels(config, scores)),
    }


def finish(trial: RunningTrial[Learning], state: Training, key) -> dict[str, Array]:
    """The weights and the tree."""
    tree = tree_of(trial)
    return {"W": state.model, "children": tree.children, "height": tree.height, "inputs": tree.inputs}


def stored_model(config: Learning, arrays: dict) -> PositionalAttention:
    """The trained model of a stored trial."""
    children, height, inputs, W = (
        jnp.asarray(arrays[f"descent/{name}"]) for name in ("children", "height", "inputs", "W")
    )
    tree = Tree(children, height, inputs, config.task.slots, len(height).bit_length())
    return PositionalAttention(W, tree, link_of(config), config.mask)
