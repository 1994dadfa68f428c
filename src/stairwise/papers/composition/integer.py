"""Stage gradients by counting: what autodiff gives where the layers below are saturated and right.

Then every block of the stream is one-hot, and the current layer attends uniformly. With the query q, its label y and
the tokens p whose value block shows the letter y, one in each block of letters, the gradient of the cross-entropy is

    dL/dW_ab = (beta0 / T) (1/N  1  -  sum_p e_{idx_a(p)}) e_{idx_b(q)}^T,

so a batch is a table of counts. Counts are integers: sums are exact, in any order, on any device.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Integer

from stairwise.papers.composition.permutations import inverse
from stairwise.papers.composition.plan import Layer
from stairwise.papers.composition.task import ideal_stream


class Counts(NamedTuple):
    """pairs[a, u, b, v]: how often (idx_a(p), idx_b(q)) = (u, v); queries[b, v]: how often idx_b(q) = v."""

    pairs: Integer[Array, "stream tokens stream tokens"]
    queries: Integer[Array, "stream tokens"]


def no_counts(layer: int, tokens: int) -> Counts:
    """Of layer `layer` (from 0), which sees the blocks up to layer+1."""
    seen = layer + 2
    return Counts(jnp.zeros((seen, tokens, seen, tokens), dtype=jnp.int32), jnp.zeros((seen, tokens), dtype=jnp.int32))


def add_pairs(
    counts: Counts,
    plan: tuple[Layer, ...],
    layer: int,
    hidden: Integer[Array, "blocks alphabet"],
    sequences: Integer[Array, "samples blocks alphabet"],
    queries: Integer[Array, " samples"],
) -> Counts:
    """The counts with those of a batch for the key-query matrix of a layer."""
    blocks, alphabet = hidden.shape
    seen, tokens = counts.queries.shape
    offset = tokens * jnp.arange(seen, dtype=jnp.int32)

    def places(sequence, query):
        stream = ideal_stream(plan[: layer + 1], hidden, sequence)
        label = stream[-1, query] % alphabet
        shown = alphabet * jnp.arange(blocks, dtype=jnp.int32) + label
        keys = inverse(stream[plan[layer].value])[shown]
        rows = offset[:, None] + stream[:seen, keys]
        columns = offset + stream[:seen, query]
        return (rows[:, :, None] * (seen * tokens) + columns).reshape(-1), columns

    pairs, columns = jax.vmap(places)(sequences, queries)
    return Counts(
        counts.pairs.reshape(-1).at[pairs.reshape(-1)].add(1).reshape(counts.pairs.shape),
        counts.queries.reshape(-1).at[columns.reshape(-1)].add(1).reshape(counts.queries.shape),
    )


def key_query_gradient(
    counts: Counts, alphabet: int, beta0: float | Float[Array, ""], samples: int | Array, dtype: str = "float32"
) -> Float[Array, "stream stream tokens tokens"]:
    """The mean gradient of W_KQ of the layer that was counted, blocks first."""
    tokens = counts.queries.shape[1]
    uniform = counts.queries[None, None].astype(dtype) / alphabet
    excess = uniform - counts.pairs.astype(dtype)
    return (beta0 / (tokens * samples) * excess).transpose(0, 2, 1, 3)


def add_letters(
    letters: Integer[Array, "stream tokens alphabet"],
    plan: tuple[Layer, ...],
    hidden: Integer[Array, "blocks alphabet"],
    sequences: Integer[Array, "samples blocks alphabet"],
    queries: Integer[Array, " samples"],
    layer: int | Integer[Array, ""],
) -> Integer[Array, "stream tokens alphabet"]:
    """How often block b of the query shows u in the ideal stream while the label of head `layer` is y."""
    stream, tokens, alphabet = letters.shape
    offset = tokens * jnp.arange(stream, dtype=jnp.int32)

    def places(sequence, query):
        column = ideal_stream(plan, hidden, sequence)[:, query]
        return (offset + column) * alphabet + column[layer + 2] % alphabet

    found = jax.vmap(places)(sequences, queries)
    return letters.reshape(-1).at[found.reshape(-1)].add(1).reshape(letters.shape)


def readout_gradient(
    letters: Integer[Array, "stream tokens alphabet"],
    layer: int | Integer[Array, ""],
    beta0: float | Float[Array, ""],
    samples: int,
    dtype: str = "float32",
) -> Float[Array, "stream tokens alphabet"]:
    """The mean gradient of head `layer`'s Psi at its start, layers up to its own saturated, those above uniform.

    With Z = e^{beta0} + N - 1 it is (n - N c)/(Z M), n the number of samples that show u and c those with label y too.
    A uniform layer writes 1/T everywhere, so the blocks above show every u with weight 1/T.
    """
    stream, tokens, alphabet = letters.shape
    c = letters.astype(dtype)
    shown = jnp.sum(c, axis=2, keepdims=True) - alphabet * c
    uniform = jnp.sum(shown[0], axis=0) / tokens
    below = jnp.arange(stream, dtype=jnp.int32) <= layer + 2
    signal = jnp.where(below[:, None, None], shown, uniform)
    return signal / ((jnp.exp(beta0) + alphabet - 1) * samples)
