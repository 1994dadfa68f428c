"""The practical one-layer decoder of the experiments, on clauses instead of tokens.

    e_k   = sum over slots s of E_s[token s of clause k]          the blank adds nothing
    a_l   = sum_k softmax_k <q_l, k_k> / sqrt(d_h) v_k  per head  over all predicates and answers 0..l, from norm(e)
    h_l   = e_l + W_o a_l,   h_l <- h_l + FFN(norm(h_l)),         each residual connection is an option
    p(token s of clause l+1) = softmax(H_s norm(h_l))             five heads

One layer: predicates are looked at and never look, so queries, FFN and heads are computed at answers only. Keys and
values of a clause depend on that clause alone, so a roll-out computes each once.
"""

import functools
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Integer, PRNGKeyArray

from stairwise.nn.attention import (
    Linear,
    attend_packed,
    attention_mask,
    attention_weights,
    normals,
    weighted_values,
)
from stairwise.nn.fused import in_eights, on_gpu
from stairwise.nn.positions import AtInput, Positions
from stairwise.nn.relative import make_positions
from stairwise.nn.rows import norm_rows
from stairwise.nn.taps import scope, tap, tapped
from stairwise.nn.transformer import MLP
from stairwise.papers.lego.task import BLANK, SLOTS

Norm = eqx.nn.RMSNorm | None


class Memory(NamedTuple):
    """What answers can look at: keys and values, one row a clause."""

    keys: Float[Array, "clauses heads head_width"]
    values: Float[Array, "clauses heads head_width"]


class Decoder(eqx.Module):
    """Embedding, one attention layer of several heads, FFN, five heads; for one sentence, `vmap` makes batches.

    >>> model = Decoder(vocabulary=9, width=8, heads=2, key=jax.random.key(0))
    >>> clauses = jnp.zeros((5, 5), dtype=jnp.int32)  # two predicates, answers 0..2
    >>> model(clauses, predicates=2).shape
    (3, 5, 9)
    """

    table: Float[Array, "slots vocabulary width"]
    positions: Positions
    attention_norm: Norm
    query: Linear
    key_value: Linear
    out: Linear
    mlp_norm: Norm
    mlp: MLP
    norm: Norm
    unembedding: Float[Array, "slots width vocabulary"]
    heads: int = eqx.field(static=True)
    attention_residual: bool = eqx.field(static=True)
    mlp_residual: bool = eqx.field(static=True)

    def __init__(
        self,
        *,
        vocabulary: int,
        width: int,
        heads: int,
        hidden_multiple: int = 4,
        positions: str = "none",
        max_clauses: int | None = None,
        norm: bool = True,
        attention_residual: bool = True,
        mlp_residual: bool = True,
        dtype: str = "float32",
        key: PRNGKeyArray,
    ):
        """`positions` is none, learned or rotary; `max_clauses` is the size of the learned table."""
        if heads < 1 or width % heads:
            raise ValueError(f"heads={heads} must be at least 1 and divide width={width} (Decoder)")
        weights_key, positions_key, mlp_key = jax.random.split(key, 3)
        table, query, key_value, out, unembedding = normals(
            weights_key,
            (SLOTS, vocabulary, width),
            (width, width),
            (width, 2 * width),
            (width, width),
            (SLOTS, width, vocabulary),
        )

        def rms_norm() -> Norm:
            return eqx.nn.RMSNorm(width, use_bias=False, dtype=jnp.dtype(dtype)) if norm else None

        def position_table(rows: int) -> Float[Array, "rows width"]:
            return (SLOTS**-0.5 * normals(positions_key, (rows, width))[0]).astype(dtype)

        scale, hidden = width**-0.5, hidden_multiple * width
        self.table = (SLOTS**-0.5 * table).astype(dtype)
        self.positions = make_positions(positions, max_clauses, position_table, heads=heads)
        self.attention_norm, self.mlp_norm, self.norm = rms_norm(), rms_norm(), rms_norm()
        self.query = Linear((scale * query).astype(dtype))
        self.key_value = Linear((scale * key_value).astype(dtype))
        self.out = Linear((scale * out).astype(dtype))
        self.mlp = MLP(width, hidden, std=2**0.5 * scale, out_std=hidden**-0.5, dtype=dtype, key=mlp_key)
        self.unembedding = (scale * unembedding).astype(dtype)
        self.heads = heads
        self.attention_residual = attention_residual
        self.mlp_residual = mlp_residual

    def __call__(
        self,
        clauses: Integer[Array, "clauses 5"],
        predicates: int,
        *,
        positions: Integer[Array, " clauses"] | None = None,
        present: Bool[Array, " clauses"] | None = None,
    ) -> Float[Array, "answers 5 vocabulary"]:
        """Logits of the clause after each answer; the first `predicates` clauses are predicates, the rest answers.

        `positions` defaults to 0, 1, ...; `present` marks what is no padding.
        """
        if on_gpu(self.table.dtype) and isinstance(self.positions, AtInput) and not tapped():
            return self._by_kernel(clauses, predicates, positions, present)
        return self.with_attention(clauses, predicates, positions=positions, present=present)[0]

    def _by_kernel(
        self,
        clauses: Integer[Array, "clauses 5"],
        predicates: int,
        positions: Integer[Array, " clauses"] | None,
        present: Bool[Array, " clauses"] | None,
    ) -> Float[Array, "answers 5 vocabulary"]:
        """The same through the kernel of attention: predicates look, too, and what they see is not used."""
        counted = jnp.arange(len(clauses), dtype=jnp.int32)
        embedded = self.embed(clauses, counted if positions is None else positions)
        weight = jnp.concatenate([self.query.weight, self.key_value.weight], axis=1)
        shift = jnp.concatenate([self.query.bias, self.key_value.bias]).reshape(3, self.heads, -1)
        packed = (norm_rows(self.attention_norm, embedded) @ weight).reshape(len(clauses), *shift.shape)
        mask = attention_mask(len(clauses), causal=True, present=present)
        return self._read(embedded[predicates:], attend_packed(packed, mask, shift)[predicates:])

    def with_attention(
        self,
        clauses: Integer[Array, "clauses 5"],
        predicates: int,
        *,
        positions: Integer[Array, " clauses"] | None = None,
        present: Bool[Array, " clauses"] | None = None,
    ) -> tuple[Float[Array, "answers 5 vocabulary"], Float[Array, "heads answers clauses"]]:
        """The same, and the attention weights (head, answer, clause)."""
        places = jnp.arange(len(clauses), dtype=jnp.int32)
        positions = places if positions is None else positions
        embedded = self.embed(clauses, positions)
        seen = places[None, :] <= places[predicates:, None]
        mask = seen if present is None else seen & present[None, :]
        with scope("blocks.0"):
            memory = self.remember(embedded, positions)
            return self.answer(embedded[predicates:], positions[predicates:], memory, mask)

    def embed(
        self, clauses: Integer[Array, "clauses 5"], positions: Integer[Array, " clauses"]
    ) -> Float[Array, "clauses width"]:
        """The sum of the five tokens' vectors, and the position where positions are told."""
        return tap("embed", self.positions.add(clause_vectors(self.table, clauses), positions))

    def remember(self, embedded: Float[Array, "clauses width"], positions: Integer[Array, " clauses"]) -> Memory:
        """Keys and values of clauses."""
        key_value = self.key_value(norm_rows(self.attention_norm, embedded))
        keys, values = jnp.moveaxis(key_value.reshape(len(embedded), 2, self.heads, -1), 1, 0)
        return Memory(tap("attn.k", self.positions.rotate(keys, positions)), tap("attn.v", values))

    def answer(
        self,
        embedded: Float[Array, "answers width"],
        positions: Integer[Array, " answers"],
        memory: Memory,
        mask: Bool[Array, "answers clauses"],
    ) -> tuple[Float[Array, "answers 5 vocabulary"], Float[Array, "heads answers clauses"]]:
        """What follows each of some answers, given what they may look at."""
        query = self.query(norm_rows(self.attention_norm, embedded)).reshape(len(embedded), self.heads, -1)
        query = tap("attn.q", self.positions.rotate(query, positions))
        weights = attention_weights(query, memory.keys, mask)
        return self._read(embedded, weighted_values(weights, memory.values)), weights

    def _read(
        self, embedded: Float[Array, "answers width"], attended: Float[Array, "answers heads head_width"]
    ) -> Float[Array, "answers 5 vocabulary"]:
        """What follows each of some answers, given what they saw."""
        mixed = tap("attn_out", self.out(attended.reshape(embedded.shape)))
        stream = tap("resid_mid", embedded + mixed if self.attention_residual else mixed)
        update = tap("mlp_out", self.mlp(norm_rows(self.mlp_norm, stream)))
        stream = tap("resid_post", stream + update if self.mlp_residual else update)
        weight, vocabulary = self.unembedding, self.unembedding.shape[-1]
        weight = in_eights(weight, axis=-1) if on_gpu(weight.dtype) else weight
        return jnp.einsum("kw,swv->ksv", norm_rows(self.norm, stream), weight)[..., :vocabulary]


def clause_vectors(
    table: Float[Array, "slots vocabulary width"], clauses: Integer[Array, "clauses 5"]
) -> Float[Array, "clauses width"]:
    """The sum of each clause's five tokens' vectors; the blank adds nothing."""
    if on_gpu(table.dtype):
        return summed_rows(table, clauses)
    rows = table[jnp.arange(SLOTS, dtype=jnp.int32), clauses]
    return jnp.sum(rows * (clauses != BLANK)[..., None], axis=1)


@jax.custom_jvp
def summed_rows(
    table: Float[Array, "slots vocabulary width"], clauses: Integer[Array, "clauses 5"]
) -> Float[Array, "clauses width"]:
    """The same with a gradient that is a product with one-hot vectors: a GPU adds it up in the same order every time,
    which it does not where indices are scattered."""
    tokens = [clauses[:, slot, None] for slot in range(SLOTS)]
    rows = [jnp.where(token != BLANK, table[slot, token[:, 0]], 0) for slot, token in enumerate(tokens)]
    return functools.reduce(jnp.add, rows)


@summed_rows.defjvp
def _summed_rows_tangents(primals, tangents):
    (table, clauses), (moved, _) = primals, tangents
    moved = in_eights(moved, axis=1)
    told = jax.nn.one_hot(clauses, moved.shape[1], dtype=moved.dtype) * (clauses != BLANK)[..., None]
    return summed_rows(table, clauses), jnp.einsum("ksv,svw->kw", told, moved)
