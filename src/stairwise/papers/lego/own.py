"""A model of the user's own as a decoder of clauses: it reads whole clauses and says which clause comes next."""

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Integer

from stairwise.train.own import OwnModel


class OwnDecoder(eqx.Module):
    """What training and evaluation ask of a decoder, by a causal model from clauses to logits of the next clause."""

    model: OwnModel

    def __call__(
        self,
        clauses: Integer[Array, "clauses 5"],
        predicates: int,
        *,
        positions: Integer[Array, " clauses"] | None = None,
        present: Bool[Array, " clauses"] | None = None,
    ) -> Float[Array, "answers 5 vocabulary"]:
        """Logits of the clause after each answer; padding goes to the end, where a causal model does not see it.

        `positions` are not handed on: the model counts for itself.
        """
        if present is None:
            return self.model(clauses)[predicates:]
        order = jnp.argsort(~present, stable=True)
        return self.model(clauses[order])[jnp.argsort(order)][predicates:]

    def roll_out(
        self,
        predicates: Integer[Array, "longest 5"],
        start: Integer[Array, " 5"],
        length: int | Integer[Array, ""],
    ) -> Integer[Array, "longest 5"]:
        """Greedy answers 1..length; zeros after them. Every step reads the sentence anew."""
        longest = len(predicates)
        place = jnp.arange(2 * longest + 1, dtype=jnp.int32)[:, None]
        told = jnp.concatenate([predicates, jnp.zeros((longest + 1, predicates.shape[1]), predicates.dtype)])
        sentence = jnp.where(place < length, told, jnp.where(place == length, start, 0))

        def step(l, carry):
            sentence, answers = carry
            following = jnp.argmax(self.model(sentence)[length + l], axis=-1).astype(sentence.dtype)
            sentence = lax.dynamic_update_index_in_dim(sentence, following, length + l + 1, axis=0)
            return sentence, lax.dynamic_update_index_in_dim(answers, following, l, axis=0)

        return lax.fori_loop(0, length, step, (sentence, jnp.zeros_like(predicates)))[1]
