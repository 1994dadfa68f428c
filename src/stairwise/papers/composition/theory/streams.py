"""How far a network's attention and residual stream are from the ideal ones, without loss of digits."""

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from stairwise.papers.composition.model import AttentionOnly
from stairwise.papers.composition.task import ideal_attention, ideal_stream


class Deviation(NamedTuple):
    """Per layer, largest over sequences and tokens.

    leak     attention off the right key, as a sum of the small weights (1 - mass would round to 0)
    trained  sup |block - one-hot| of the block that the layer writes, against the ideal stream
    uniform  sup |block - 1/(kN)| of that block, the ideal of a layer that has not been trained
    spread   sup |S - 1/(kN)| of its attention
    """

    leak: np.ndarray
    trained: np.ndarray
    uniform: np.ndarray
    spread: np.ndarray


def deviation(model: AttentionOnly, hidden: np.ndarray, sequences: np.ndarray) -> Deviation:
    """Over the given sequences, at all tokens."""
    found = _deviations(model, jnp.asarray(hidden, dtype=jnp.int32), jnp.asarray(sequences, dtype=jnp.int32))
    return Deviation(*(np.asarray(part).max(axis=0) for part in found))


@eqx.filter_jit
def _deviations(model: AttentionOnly, hidden: Array, sequences: Array):
    return jax.lax.map(partial(_one, model, hidden), sequences, batch_size=16)


def _one(model: AttentionOnly, hidden: Array, sequence: Array):
    stream, ideal = model.stream(sequence), ideal_stream(model.plan, hidden, sequence)
    keys = ideal_attention(model.plan, hidden, ideal)
    tokens = hidden.size
    leak, trained, uniform, spread = [], [], [], []
    for layer, weights in enumerate(stream.attention):
        off = 1 - jax.nn.one_hot(keys[layer], tokens, axis=0, dtype=weights.dtype)
        leak.append(jnp.max(jnp.sum(weights * off, axis=0)))
        block = stream.blocks[layer + 2]
        off = 1 - jax.nn.one_hot(ideal[layer + 2], tokens, axis=0, dtype=weights.dtype)
        # a column sums to 1, so what its 1 lacks is what stands elsewhere
        trained.append(jnp.max(jnp.sum(block * off, axis=0)))
        uniform.append(jnp.max(jnp.abs(block - 1 / tokens)))
        spread.append(jnp.max(jnp.abs(weights - 1 / tokens)))
    return tuple(jnp.stack(part) for part in (leak, trained, uniform, spread))


def stream_error(model: AttentionOnly, hidden: np.ndarray, sequences: np.ndarray) -> np.ndarray:
    """sup |X-hat^(l) - X^(l)| after each layer: the largest error among the blocks written so far."""
    return np.maximum.accumulate(deviation(model, hidden, sequences).trained)
