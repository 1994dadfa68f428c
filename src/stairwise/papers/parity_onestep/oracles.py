"""Gradient oracles: disturbances of at most delta in every entry, and the one that hides the parity (Theorem 2)."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from stairwise.tasks.decomposition import Tree


def noisy(
    key: PRNGKeyArray, gradient: Float[Array, "tokens nodes"], delta: float | Float[Array, ""]
) -> Float[Array, "tokens nodes"]:
    """Every entry moved by delta in a random direction."""
    heads = jax.random.bits(key, gradient.shape, dtype=jnp.uint8) & 1
    return gradient + delta * (1 - 2 * heads.astype(gradient.dtype))


def adversarial(
    tree: Tree, gradient: Float[Array, "tokens nodes"], delta: float | Float[Array, ""]
) -> Float[Array, "tokens nodes"]:
    """Per column +delta on the first child and -delta on everything else, which tears the two children apart."""
    first = jnp.arange(tree.tokens, dtype=jnp.int32)[:, None] == tree.children[:, 0]
    return gradient + jnp.where(first, delta, -delta).astype(gradient.dtype)


def hiding(
    gradient: Float[Array, "*shape"], mean: Float[Array, "*shape"], epsilon: float | Float[Array, ""]
) -> tuple[Float[Array, "*shape"], Bool[Array, ""]]:
    """The epsilon-approximate oracle of Theorem 2, and whether it revealed the true gradient.

    It answers with the mean over all parities where that is within epsilon of the truth. (The paper prints the two
    cases the other way round, which would be neither an approximation nor uninformative.)
    """
    revealed = jnp.sqrt(jnp.sum((gradient - mean) ** 2)) > epsilon
    return jnp.where(revealed, gradient, mean), revealed


def hiding_as_printed(
    gradient: Float[Array, "*shape"], mean: Float[Array, "*shape"], epsilon: float | Float[Array, ""]
) -> Float[Array, "*shape"]:
    """The printed oracle: the mean where it is far from the truth, the truth where it is near."""
    far = jnp.sqrt(jnp.sum((gradient - mean) ** 2)) > epsilon
    return jnp.where(far, mean, gradient)
