"""How sparse attention is, and what it looks at; rows are queries, the last axis is keys, leading axes are heads.

The normalised entropy of Wen et al. (2025), eq. (1), of one head on one sequence:

    Ent = min over queries i >= 2 of H(P_i) / ln i,

with H(P) = -sum_j P_j ln P_j and i the number of visible keys. 1 is uniform, 0 is one-hot. Its variants are choices of
`rows` (all queries, the supervised ones, those of an answer), of `mask` (padding, `without_first`) and of the
reduction (`sparsest_row`, `mean_row`). The paper's figures average over a validation set: vmap, then mean.

A mask says which keys a query may see, as `stairwise.nn.attention.attention_mask` makes it: None is all of them. With
padded sequences the mask hides padded keys and `rows` leaves out padded queries.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Integer

from stairwise.measure.accuracy import share

Mask = Bool[Array, "#queries keys"] | None
Rows = Bool[Array, " queries"] | None


def entropy(weights: Float[Array, "*rows keys"]) -> Float[Array, "*rows"]:
    """H(P) = -sum_j P_j ln P_j with 0 ln 0 = 0, in at least single precision."""
    return jnp.sum(jax.scipy.special.entr(_widen(weights)), axis=-1)


def row_entropy(weights: Float[Array, "*heads queries keys"], mask: Mask) -> Float[Array, "*heads queries"]:
    """H(P_i) / ln(number of keys that query i may see); 0 by convention where it may see only one.

    >>> row_entropy(jnp.array([[1.0, 0.0], [0.5, 0.5]], dtype=jnp.float32), None).tolist()
    [0.0, 1.0]
    """
    visible = _visible(weights, mask)
    scale = jnp.log(jnp.maximum(visible, 2).astype(_widen(weights).dtype))
    return jnp.where(visible > 1, entropy(weights) / scale, 0)


def sparsest_row(weights: Float[Array, "*heads queries keys"], mask: Mask, rows: Rows = None) -> Float[Array, "*heads"]:
    """Eq. (1): the smallest normalised entropy among `rows` that see two keys or more; NaN where there is none."""
    counted = _counted(weights, mask, rows)
    smallest = jnp.min(row_entropy(weights, mask), axis=-1, where=counted, initial=jnp.inf)
    return jnp.where(jnp.any(counted), smallest, jnp.nan)


def mean_row(weights: Float[Array, "*heads queries keys"], mask: Mask, rows: Rows = None) -> Float[Array, "*heads"]:
    """The mean over the same rows: unlike the minimum it does not fall just because a sequence is longer."""
    return jnp.mean(row_entropy(weights, mask), axis=-1, where=_counted(weights, mask, rows))


def without_first(
    weights: Float[Array, "*heads queries keys"], mask: Mask
) -> tuple[Float[Array, "*heads queries keys"], Mask]:
    """Attention given that it is not on the first key, the "sink" that drains many heads of language models.

    A row that has all its mass on the sink becomes zero, and its entropy 0: as sparse as can be.
    """
    kept = _widen(weights).at[..., 0].set(0)
    mass = jnp.sum(kept, axis=-1, keepdims=True)
    mask = jnp.ones((1, weights.shape[-1]), dtype=bool) if mask is None else mask
    return kept / jnp.where(mass > 0, mass, 1), mask.at[:, 0].set(False)


def mass_on(
    weights: Float[Array, "*heads queries keys"], members: Bool[Array, "#queries keys"]
) -> Float[Array, "*heads queries"]:
    """The attention that each query pays to a set of keys, its own set or (given one row) the same for all."""
    return jnp.sum(_widen(weights), axis=-1, where=members)


def mass_on_target(
    weights: Float[Array, "*heads queries keys"], targets: Integer[Array, " queries"]
) -> Float[Array, "*heads queries"]:
    """P[i, targets[i]]: the attention of each query to the one key it should find."""
    index = jnp.broadcast_to(targets[:, None], (*weights.shape[:-1], 1))
    return jnp.take_along_axis(_widen(weights), index, axis=-1)[..., 0]


def argmax_agreement(
    weights: Float[Array, "*heads queries keys"], targets: Integer[Array, " queries"], rows: Rows = None
) -> Float[Array, "*heads"]:
    """The fraction of `rows` (all by default) whose most attended key is the target."""
    return share(jnp.argmax(weights, axis=-1) == targets, -1, rows, jnp.result_type(float))


def argmax_inside(
    weights: Float[Array, "*heads queries keys"], members: Bool[Array, "#queries keys"], rows: Rows = None
) -> Float[Array, "*heads"]:
    """The fraction of `rows` (all by default) whose most attended key is in the query's set of keys.

    >>> weights = jnp.array([[0.2, 0.8], [0.6, 0.4]], dtype=jnp.float32)
    >>> float(argmax_inside(weights, jnp.array([[0, 1], [0, 1]], dtype=bool)))
    0.5
    """
    members = jnp.broadcast_to(members, weights.shape[-2:])
    best = jnp.argmax(weights, axis=-1)[..., None]
    inside = jnp.take_along_axis(jnp.broadcast_to(members, weights.shape), best, axis=-1)[..., 0]
    return share(inside, -1, rows, jnp.result_type(float))


def _visible(weights: Float[Array, "*heads queries keys"], mask: Mask) -> Integer[Array, " queries"]:
    """How many keys each query may see."""
    queries, keys = weights.shape[-2:]
    if mask is None:
        return jnp.full((queries,), keys, dtype=jnp.int32)
    return jnp.broadcast_to(jnp.sum(mask, axis=-1), (queries,))


def _counted(weights: Float[Array, "*heads queries keys"], mask: Mask, rows: Rows) -> Bool[Array, " queries"]:
    """The rows that are asked for and have an entropy to speak of."""
    several = _visible(weights, mask) > 1
    return several if rows is None else several & rows


def _widen(weights: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Half-precision weights in single precision; wider ones as they are."""
    return weights.astype(jnp.promote_types(weights.dtype, jnp.float32))
