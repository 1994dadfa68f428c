"""The attention-only transformer of the theory, in its structured form.

The residual stream is L+2 blocks; block 0 of token q = (i, j) is E(i, j), block 1 is E(i, sigma_i(j)), and layer l
(from 0) writes block l+2:

    B_{l+2} = V B_v S,   S = softmax over keys p of  sum_{a,b <= l+1} B_a[:, p]^T W_ab B_b[:, q].

Only the blocks a, b <= l+1 of W_KQ^(l) can matter, so only they are stored; block 0 is the identity and block 1 a
permutation matrix, so products with them are gathers; the value matrix copies one block. All of it is exact, and none
of it is what a dense implementation would do (that one is in the tests).

With `codes` the one-hot E(i, .) = e_i (x) e_. becomes p_i (x) e_. for a given code p_i of each block (Theorem 9).
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Integer

from stairwise.nn.taps import scope, tap, tapped
from stairwise.papers.composition.plan import Layer

Sequence = Integer[Array, "blocks alphabet"]
Blocks = list[Array]


class Stream(NamedTuple):
    """What the tokens hold: `blocks[b]` has a column a token; `attention[l]` is S of layer l, keys by queries."""

    blocks: list[Array]
    attention: list[Array]


class AttentionOnly(eqx.Module):
    """Weights of the theory's transformer.

    key_query  layer l: W_KQ as (row block a, column block b, row, column), a, b = 0..l+1
    readout    Psi of each head: (head, block, row, letter); head l reads out the hop that layer l completes
    values     layer l: the matrix V on the block that it copies; None = the identity
    codes      p_i of every block; None = one-hot
    """

    key_query: tuple[Float[Array, "_ _ width width"], ...]
    readout: Float[Array, "heads stream width alphabet"]
    values: tuple[Float[Array, "width width"], ...] | None = None
    codes: Float[Array, "blocks code"] | None = None
    plan: tuple[Layer, ...] = eqx.field(static=True, kw_only=True)

    @property
    def layers(self) -> int:
        return len(self.plan)

    def stream(self, sequence: Sequence, depth: int | None = None) -> Stream:
        """All blocks after `depth` layers (all of them, unless it is given)."""
        seen, blocks = self._embed(sequence)
        attention = []
        for layer in range(self.layers if depth is None else depth):
            with scope(f"blocks.{layer}"):
                scores = tap("attn.scores", self._scores(layer, blocks, seen))
                attention.append(tap("attn.pattern", jax.nn.softmax(scores, axis=0)))
                mixed = jnp.matmul(self._value(layer, blocks), attention[-1], precision="highest")
                blocks.append(tap("attn_out", mixed))
        return Stream(blocks, attention)

    def head(self, head: int, sequence: Sequence, query: Integer[Array, ""]) -> Float[Array, " alphabet"]:
        """Logits of one head at one token: layers above the head's own are not run.

        Right while Psi of that head reads no block above its own, as it does until its own gradient step.
        """
        columns = self.columns(sequence, query, head + 1)
        return jnp.einsum("bu,bun->n", columns, self.readout[head, : head + 3], precision="highest")

    def heads_at(self, sequence: Sequence, query: Integer[Array, ""]) -> Float[Array, "heads alphabet"]:
        """Logits of all heads at one token, from one stream."""
        return jnp.einsum("bu,hbun->hn", self.columns(sequence, query), self.readout, precision="highest")

    def columns(
        self, sequence: Sequence, query: Integer[Array, ""], depth: int | None = None
    ) -> Float[Array, "_ width"]:
        """All blocks of one token after `depth` layers, the last of which is run for this token only."""
        if tapped():
            return jnp.stack([block[:, query] for block in self.stream(sequence, depth).blocks])
        last = (self.layers if depth is None else depth) - 1
        blocks = self.stream(sequence, last).blocks
        attention = jax.nn.softmax(self._column_scores(last, blocks, self._seen(sequence), query))
        return jnp.stack([*(block[:, query] for block in blocks), self._value(last, blocks) @ attention])

    def heads(self, sequence: Sequence) -> Float[Array, "heads tokens alphabet"]:
        """Psi^T X: what every head says at every token."""
        return self.read(self.stream(sequence).blocks)

    def read(self, blocks: Blocks) -> Float[Array, "heads tokens alphabet"]:
        return jnp.einsum("buq,hbun->hqn", jnp.stack(blocks), self.readout, precision="highest")

    def attention(self, sequence: Sequence) -> list[Array]:
        """S of every layer, keys by queries."""
        return self.stream(sequence).attention

    # --- one layer ----------------------------------------------------------------------------------------------------

    def _seen(self, sequence: Sequence) -> Integer[Array, " tokens"]:
        """Where block 1 of each token has its 1."""
        blocks, alphabet = sequence.shape
        return (alphabet * jnp.arange(blocks, dtype=jnp.int32)[:, None] + sequence).reshape(-1)

    def _embed(self, sequence: Sequence) -> tuple[Integer[Array, " tokens"], Blocks]:
        seen, dtype = self._seen(sequence), self.readout.dtype
        if self.codes is None:
            place = jnp.eye(sequence.size, dtype=dtype)
        else:
            place = jnp.kron(self.codes.T, jnp.eye(sequence.shape[1], dtype=dtype))
        return seen, [place, place[:, seen]]

    def _value(self, layer: int, blocks: Blocks) -> Array:
        copied = blocks[self.plan[layer].value]
        return copied if self.values is None else jnp.matmul(self.values[layer], copied, precision="highest")

    def _scores(self, layer: int, blocks: Blocks, seen: Integer[Array, " tokens"]) -> Float[Array, "tokens tokens"]:
        """The logits of all keys for all queries."""
        W = self.key_query[layer]
        if self.codes is not None:
            X = jnp.stack(blocks)
            return jnp.einsum("aup,abuv,bvq->pq", X, W, X, precision="highest")
        rows = W[0] + W[1][:, seen, :]
        if layer > 0:
            X = jnp.stack(blocks[2:])
            rows = rows + jnp.einsum("aup,abuv->bpv", X, W[2:], precision="highest")
        scores = rows[0] + rows[1][:, seen]
        if layer > 0:
            scores = scores + jnp.einsum("bpv,bvq->pq", rows[2:], X, precision="highest")
        return scores

    def _column_scores(
        self, layer: int, blocks: Blocks, seen: Integer[Array, " tokens"], query: Integer[Array, ""]
    ) -> Float[Array, " tokens"]:
        """The logits of all keys for one query."""
        W = self.key_query[layer]
        if self.codes is not None:
            X = jnp.stack(blocks)
            rows = jnp.einsum("abuv,bv->au", W, X[:, :, query], precision="highest")
            return jnp.einsum("aup,au->p", X, rows, precision="highest")
        rows = W[:, 0, :, query] + W[:, 1, :, seen[query]]
        if layer > 0:
            X = jnp.stack(blocks[2:])
            rows = rows + jnp.einsum("abuv,bv->au", W[:, 2:], X[:, :, query], precision="highest")
        scores = rows[0] + rows[1][seen]
        if layer > 0:
            scores = scores + jnp.einsum("aup,au->p", X, rows[2:], precision="highest")
        return scores


def untrained(
    plan: tuple[Layer, ...],
    blocks: int,
    alphabet: int,
    beta0: float | Float[Array, ""],
    *,
    values: tuple[Float[Array, "width width"], ...] | None = None,
    codes: Float[Array, "blocks code"] | None = None,
    dtype: str = "float32",
) -> AttentionOnly:
    """The start of both algorithms: W_KQ = 0, and Psi_l = beta0 times "read the letter of block l+2"."""
    width = alphabet * (blocks if codes is None else codes.shape[1])
    key_query = tuple(jnp.zeros((layer + 2, layer + 2, width, width), dtype=dtype) for layer in range(len(plan)))
    code = jnp.ones(blocks, dtype=dtype) if codes is None else constant_coordinate(codes.shape[1], dtype)
    readout = readouts(len(plan), jnp.kron(code[:, None], jnp.eye(alphabet, dtype=dtype)))
    return AttentionOnly(key_query, jnp.asarray(beta0, dtype=dtype) * readout, values, codes, plan=plan)


def readouts(layers: int, letter: Float[Array, "width alphabet"]) -> Float[Array, "layers stream width alphabet"]:
    """One head a layer, each with the given matrix at the block that its layer writes."""
    place = jnp.eye(layers, layers + 2, 2, dtype=letter.dtype)
    return place[:, :, None, None] * letter


def constant_coordinate(width: int, dtype: str = "float32") -> Float[Array, " width"]:
    """Reads the last coordinate of a code, the one that is 1 for every block."""
    return jnp.zeros(width, dtype=dtype).at[-1].set(1.0)
