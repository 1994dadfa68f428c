"""How many samples make the attention right: the gradient of every layer on ideal inputs, looked at as M grows.

After one step W_KQ is proportional to g-hat = -(kN/beta0) gradient, so whether the right key has the largest logit
depends on g-hat alone. Layers above the first do the same at every position; `shared` averages their g-hat over
the k common shifts of row and column positions, which costs nothing and has k times less noise.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Integer

from stairwise.papers.composition import integer
from stairwise.papers.composition.config import Threshold
from stairwise.papers.composition.task import ideal_attention, ideal_stream
from stairwise.papers.composition.train import draw_samples, task_of, test_sequences
from stairwise.train.loop import RunningTrial
from stairwise.train.stage import Stage

SHARED = {"": False, " shared": True}


class LayerCounts(NamedTuple):
    """The counts of every layer, and the samples in them."""

    counts: list[integer.Counts]
    samples: Integer[Array, ""]


def threshold(config: Threshold) -> list[Stage]:
    """One stage that counts samples and looks at the attention they would give."""
    return [
        Stage(
            name="count",
            init=init,
            tick=tick,
            max_ticks=config.ticks[-1],
            measure=measure,
            measure_at=config.ticks,
            finish=lambda trial, state, key: (None, {}),
            counts="samples",
            per_tick=config.block,
        )
    ]


def init(trial: RunningTrial[Threshold], carry, key) -> LayerCounts:
    layers = range(trial.config.task.layers)
    return LayerCounts([integer.no_counts(layer, trial.config.task.tokens) for layer in layers], jnp.int32(0))


def tick(trial: RunningTrial[Threshold], state: LayerCounts, key, t) -> LayerCounts:
    config = trial.config
    task, plan = task_of(config.task, trial), config.task.plan
    samples = draw_samples(task, trial.key("training"), t * config.block, config.block)
    counts = [integer.add_pairs(one, plan, layer, task.hidden, *samples) for layer, one in enumerate(state.counts)]
    return LayerCounts(counts, state.samples + config.block)


def measure(trial: RunningTrial[Threshold], state: LayerCounts, key, t) -> dict[str, Array]:
    """For every layer, over all tokens of fresh sequences: how often the largest logit is wrong, and the least margin.

    Margins (right key minus best other) are in units of 1/(kN^2), where the population's are N-1 or so.
    """
    config = trial.config
    task, sizes = task_of(config.task, trial), config.task
    sequences = test_sequences(trial)
    metrics: dict[str, Array] = {"samples": state.samples}
    for layer, counts in enumerate(state.counts):
        estimate = signal(counts, sizes.alphabet, state.samples)
        for suffix, share in SHARED.items():
            if share and layer == 0:
                continue
            g = shared(estimate, sizes.blocks) if share else estimate
            margins = jax.lax.map(partial(key_margins, config, task, layer, g), sequences)
            metrics[f"wrong layer {layer + 1}{suffix}"] = jnp.mean(margins <= 0, dtype=jnp.float32)
            metrics[f"margin layer {layer + 1}{suffix}"] = jnp.min(margins) * sizes.tokens * sizes.alphabet
    for suffix in SHARED:
        wrong = [metrics[f"wrong layer {n}{suffix if n > 1 else ''}"] for n in range(1, sizes.layers + 1)]
        metrics[f"wrong{suffix}"] = jnp.max(jnp.stack(wrong))
    return metrics


def signal(counts: integer.Counts, alphabet: int, samples: Integer[Array, ""]) -> Float[Array, "stream stream T T"]:
    """g-hat of one layer, blocks first."""
    tokens = counts.queries.shape[1]
    return -tokens * integer.key_query_gradient(counts, alphabet, 1.0, jnp.maximum(samples, 1).astype(jnp.float32))


def shared(g: Float[Array, "stream stream T T"], blocks: int) -> Float[Array, "stream stream T T"]:
    """The mean over common shifts of the positions of rows and columns."""
    alphabet = g.shape[2] // blocks
    apart = g.reshape(*g.shape[:2], blocks, alphabet, blocks, alphabet)

    def add(shift, total):
        return total + jnp.roll(apart, (shift, shift), axis=(2, 4))

    return (jax.lax.fori_loop(0, blocks, add, jnp.zeros_like(apart)) / blocks).reshape(g.shape)


def key_margins(
    config: Threshold, task, layer: int, g: Float[Array, "stream stream T T"], sequence
) -> Float[Array, " T"]:
    """The logit of the right key less the largest other one, for every query of an ideal stream."""
    plan = config.task.plan
    stream = ideal_stream(plan, task.hidden, sequence)
    right = ideal_attention(plan, task.hidden, stream)[layer]
    seen = range(layer + 2)
    rows = jnp.sum(jnp.stack([g[a][:, stream[a], :] for a in seen]), axis=0)
    scores = jnp.sum(jnp.stack([rows[b][:, stream[b]] for b in seen]), axis=0)
    here = right[None] == jnp.arange(len(right), dtype=jnp.int32)[:, None]
    return jnp.max(scores, axis=0, where=here, initial=-jnp.inf) - jnp.max(
        scores, axis=0, where=~here, initial=-jnp.inf
    )
