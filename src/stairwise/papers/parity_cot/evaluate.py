"""What is looked at: exact match on held-out sequences, and how sparse attention is and where it falls."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int8

from stairwise.measure.accuracy import exact_match, share
from stairwise.measure.attention import argmax_inside, mass_on, mean_row, sparsest_row, without_first
from stairwise.nn.attention import attention_mask
from stairwise.nn.transformer import Transformer
from stairwise.papers.parity_cot.decoder import cross_entropy, logits_of
from stairwise.papers.parity_cot.task import Problem
from stairwise.train.own import OwnModel

Sequences = Int8[Array, "sequences tokens"]


def accuracy(
    model: Transformer | OwnModel, problem: Problem, tokens: Sequences, batch: int
) -> dict[str, Float[Array, ""]]:
    """Teacher-forced, on held-out sequences: all steps right, a step right, and the loss.

    All steps of a sequence are right here exactly when they are in a greedy roll-out: up to the first error both read
    the same tokens.
    """
    chunk = math.gcd(len(tokens), batch)

    def one(part):
        logits, labels = logits_of(model, problem.layout, part), problem.labels(part)
        predicted, live = jnp.argmax(logits, axis=-1), jnp.broadcast_to(problem.live, labels.shape)
        whole = exact_match(predicted, labels.astype(predicted.dtype), live)
        single = share(predicted == labels, where=live)
        return whole, single, cross_entropy(logits, labels, problem.live)

    whole, single, loss = jax.lax.map(one, tokens.reshape(-1, chunk, tokens.shape[1]))
    return {
        "exact match": share(whole),
        "step accuracy": share(single),
        "validation loss": jnp.mean(loss),
    }


def step_attention(
    model: Transformer, problem: Problem, sequence: Int8[Array, " tokens"]
) -> Float[Array, "layers heads rows length"]:
    """The attention of the supervised rows of one sequence."""
    layout = problem.layout
    weights = model.with_attention(sequence[: layout.length].astype(jnp.int32))[1]
    return weights[..., layout.first : layout.first + layout.rows, :]


def head_facts(
    model: Transformer, problem: Problem, tokens: Sequences
) -> dict[str, Float[Array, "layers heads"] | Float[Array, "layers heads rows length"]]:
    """Per head, averaged over sequences.

    entropy         eq. (1): the smallest normalised entropy of a row, over all that the sequence has
    mean entropy    the mean over those rows
    step entropy    the smallest over the supervised rows
    unsunk entropy  eq. (1) of attention given that it is not on the first token
    mass            attention of a step to the secret bits it adds; agreement: how often its largest weight is there
    attention       the weights of the supervised rows
    """
    layout = problem.layout
    place = jnp.arange(layout.length, dtype=jnp.int32)
    there = place < layout.first + jnp.sum(problem.live)  # no padding after the last step
    supervised = there & (place >= layout.first)
    steps = jnp.concatenate([jnp.zeros(layout.lead, dtype=bool), problem.alive])
    mask = attention_mask(layout.length, causal=True)

    def one(sequence):
        weights = model.with_attention(sequence[: layout.length].astype(jnp.int32))[1]
        asked = weights[..., layout.first : layout.first + layout.rows, :]
        return {
            "entropy": sparsest_row(weights, mask, there),
            "mean entropy": mean_row(weights, mask, there),
            "step entropy": sparsest_row(weights, mask, supervised),
            "unsunk entropy": sparsest_row(*without_first(weights, mask), there),
            "mass": jnp.mean(mass_on(asked, problem.looks_at), axis=-1, where=steps),
            "agreement": argmax_inside(asked, problem.looks_at, steps),
            "attention": asked,
        }

    return jax.tree.map(lambda per_sequence: jnp.mean(per_sequence, axis=0), jax.lax.map(one, tokens, batch_size=64))


def head_metrics(model: Transformer, problem: Problem, tokens: Sequences) -> dict[str, Float[Array, ""]]:
    """The same as scalars, "entropy 1.1" being that of layer 1, head 1."""
    facts = head_facts(model, problem, tokens)
    del facts["attention"]
    return {
        f"{name} {layer + 1}.{head + 1}": values[layer, head]
        for name, values in facts.items()
        for layer in range(values.shape[0])
        for head in range(values.shape[1])
    }
