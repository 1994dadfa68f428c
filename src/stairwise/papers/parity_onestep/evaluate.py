"""How good a model is: its roll-out on fresh inputs against the truth, and its weights against the tree.

The roll-out sees the inputs alone; the true tokens enter only in the comparison afterwards.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from stairwise.measure.accuracy import share
from stairwise.papers.parity_onestep.model import PositionalAttention
from stairwise.tasks.decomposition import Tree

SOLVED = 0.5  # an output within this of the truth has the right sign, with room


def outcome(
    model: PositionalAttention, gates: Bool[Array, " levels"], inputs: Float[Array, "slots samples"]
) -> Float[Array, "tokens samples"]:
    """All tokens as the model generates them: by tokens under the causal mask, by levels under the block mask."""
    if model.mask == "causal":
        return jax.vmap(model.by_tokens, in_axes=1, out_axes=1)(inputs)
    return jax.vmap(model.by_levels, in_axes=(1, None), out_axes=1)(inputs, gates)


def evaluate(
    model: PositionalAttention, gates: Bool[Array, " levels"], truth: Float[Array, "tokens samples"]
) -> dict[str, Array]:
    """Scalars about the roll-out (sup errors, accuracies, losses) and about the weights."""
    tree = model.tree
    values = truth[tree.slots :]
    made = outcome(model, gates, truth[: tree.slots])[tree.slots :]
    forced = model.link(model.scores().T @ truth)
    sup = jnp.where(tree.used, jnp.max(jnp.abs(made - values), axis=1), 0)
    accuracy = share(jnp.sign(made) == values, axis=1, dtype=values.dtype)
    loss = jnp.where(tree.used, 0.5 * jnp.mean((made - values) ** 2, axis=1), 0)
    forced_loss = jnp.where(tree.used, 0.5 * jnp.mean((forced - values) ** 2, axis=1), 0)
    found = {
        "root sup": sup[tree.root],
        "nodes sup": jnp.max(sup),
        "accuracy": accuracy[tree.root],
        "success": (sup[tree.root] < SOLVED).astype(values.dtype),
        "abstain": (~gates[tree.height[tree.root] - 1]).astype(values.dtype),
        "loss": jnp.sum(loss),
        "root loss": loss[tree.root],
        "forced loss": jnp.sum(forced_loss),
    }
    return found | levels(tree, gates, sup, accuracy) | weights(model)


def levels(
    tree: Tree, gates: Bool[Array, " levels"], sup: Float[Array, " nodes"], accuracy: Float[Array, " nodes"]
) -> dict[str, Array]:
    """Sup error, worst accuracy and gate of every level; a level that does not exist has error 0 and accuracy 1."""
    here = tree.height == jnp.arange(1, tree.levels + 1, dtype=jnp.int32)[:, None]
    tables = {
        "sup": jnp.max(jnp.where(here, sup, 0), axis=1),
        "accuracy": jnp.min(jnp.where(here, accuracy, 1), axis=1),
        "gate": gates.astype(sup.dtype),
    }
    return {f"{name} level {l + 1}": table[l] for name, table in tables.items() for l in range(tree.levels)}


def weights(model: PositionalAttention) -> dict[str, Array]:
    """Whether W has found the children, how equal their logits are, and how much attention goes elsewhere."""
    tree = model.tree
    children = child_logits(tree, model.W)
    scores = model.scores()
    attended = jnp.sum(jnp.take_along_axis(scores, tree.children.T, axis=0), axis=0)
    others = other_logits(model)
    seen = jnp.maximum(tree.visible_count(model.mask) - 2, 1)
    mean_other = jnp.sum(jnp.where(jnp.isfinite(others), others, 0), axis=0) / seen
    apart = jnp.where(tree.used, jnp.abs(children[0] - children[1]), 0)
    return {
        "support": support(model),
        "imbalance": jnp.max(apart),
        "leakage": jnp.max(jnp.where(tree.used, 1 - attended, 0)),
        "root logit": (jnp.mean(children, axis=0) - mean_other)[tree.root],
        "largest other": jnp.max(others),
    }


def child_logits(tree: Tree, W: Float[Array, "tokens nodes"]) -> Float[Array, "2 nodes"]:
    return jnp.take_along_axis(W, tree.children.T, axis=0)


def other_logits(model: PositionalAttention) -> Float[Array, "tokens nodes"]:
    """The weights of visible tokens that are not children; -inf elsewhere."""
    elsewhere = model.tree.visible(model.mask) & ~model.tree.is_child()
    return jnp.where(elsewhere, model.W, -jnp.inf)


def support(model: PositionalAttention) -> Float[Array, ""]:
    """The fraction of nodes whose two largest weights are those of their children."""
    tree = model.tree
    lowest_child = jnp.min(child_logits(tree, model.W), axis=0)
    found = lowest_child > jnp.max(other_logits(model), axis=0)
    return share(found, where=tree.used)
