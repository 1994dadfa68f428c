"""The standard decoder on clauses: any number of layers, any mixer, any positions of `stairwise.nn.parts`.

The paper's decoder has one layer of softmax attention, and `Decoder` computes it at answers only. With more layers, or
with a recurrence, predicates are read like answers: the sentence is embedded clause by clause as there, the standard
transformer reads it, and five heads tell the next clause at every position.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Integer, PRNGKeyArray

from stairwise.nn.attention import normals
from stairwise.nn.transformer import Transformer
from stairwise.papers.lego.decoder import Decoder, clause_vectors
from stairwise.papers.lego.task import SLOTS
from stairwise.train.rollout import greedy


class Stack(eqx.Module):
    """Embedding of clauses, the standard transformer, five heads; for one sentence, `vmap` makes batches."""

    table: Float[Array, "slots vocabulary width"]
    body: Transformer

    def __init__(self, *, vocabulary: int, width: int, key: PRNGKeyArray, **parts: Any):
        """`parts` are arguments of `Transformer`."""
        table_key, body_key = jax.random.split(key)
        self.table = SLOTS**-0.5 * normals(table_key, (SLOTS, vocabulary, width))[0]
        self.body = Transformer(
            vocab=None, outputs=SLOTS * vocabulary, width=width, causal=True, std=width**-0.5, key=body_key, **parts
        )

    def __call__(
        self,
        clauses: Integer[Array, "clauses 5"],
        predicates: int,
        *,
        positions: Integer[Array, " clauses"] | None = None,
        present: Bool[Array, " clauses"] | None = None,
    ) -> Float[Array, "answers 5 vocabulary"]:
        """Logits of the clause after each answer, as `Decoder` gives them."""
        logits = self.body(self._read(clauses), positions=_places(positions, clauses), present=present)
        return self._by_slot(logits[predicates:])

    def with_attention(
        self,
        clauses: Integer[Array, "clauses 5"],
        predicates: int,
        *,
        positions: Integer[Array, " clauses"] | None = None,
        present: Bool[Array, " clauses"] | None = None,
    ) -> tuple[Float[Array, "answers 5 vocabulary"], Float[Array, "heads answers clauses"]]:
        """The same, and the attention weights of answers, the heads of all layers behind one another."""
        places = _places(positions, clauses)
        logits, weights = self.body.with_attention(self._read(clauses), positions=places, present=present)
        asked = weights[:, :, predicates:]
        return self._by_slot(logits[predicates:]), asked.reshape(-1, *asked.shape[2:])

    def empty_cache(self, total: int) -> Any:
        return self.body.empty_cache(total)

    def decode(
        self, clause: Integer[Array, " 5"], position: Integer[Array, ""], cache: Any, places: Integer[Array, " total"]
    ) -> tuple[Float[Array, "5 vocabulary"], Any]:
        """The logits of the clause that follows, and what is then remembered."""
        logits, cache = self.body.decode(self._read(clause[None])[0], position, cache, places)
        return self._by_slot(logits), cache

    def _read(self, clauses: Integer[Array, "clauses 5"]) -> Float[Array, "clauses width"]:
        return clause_vectors(self.table, clauses)

    def _by_slot(self, logits: Float[Array, "*rows outputs"]) -> Float[Array, "*rows 5 vocabulary"]:
        return logits.reshape(*logits.shape[:-1], SLOTS, -1)


ClauseModel = Decoder | Stack


class Placed(eqx.Module):
    """A stack that reads a sentence whose clauses have these places: what `greedy` rolls out."""

    model: Stack
    places: Integer[Array, " clauses"]

    def empty_cache(self, total: int) -> Any:
        return self.model.empty_cache(total)

    def decode(self, item: Integer[Array, " 5"], position: Integer[Array, ""], cache: Any) -> tuple[Array, Any]:
        return self.model.decode(item, position, cache, self.places)


def roll_out(
    model: Stack,
    predicates: Integer[Array, "longest 5"],
    start: Integer[Array, " 5"],
    length: int | Integer[Array, ""],
    places: Integer[Array, " clauses"],
) -> Integer[Array, "longest 5"]:
    """Answers 1..length, from the first `length` predicates and answer 0; zeros after them.

    The prompt is the predicates that there are and answer 0 right behind them.
    """
    longest = len(predicates)
    told = jnp.arange(len(places), dtype=jnp.int32) < length
    padded = jnp.pad(predicates, ((0, len(places) - longest), (0, 0)))
    sentence = greedy(Placed(model, places), jnp.where(told[:, None], padded, start), length + 1)
    answers = lax.dynamic_slice_in_dim(sentence, length + 1, longest)
    return jnp.where(told[:longest, None], answers, 0)


def _places(positions: Integer[Array, " clauses"] | None, clauses: Integer[Array, "clauses 5"]):
    return jnp.arange(len(clauses), dtype=jnp.int32) if positions is None else positions
