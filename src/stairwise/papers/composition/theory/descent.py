"""Algorithms 1 and 2 to the letter: one large gradient step after another, through soft attention, nothing skipped."""

from typing import NamedTuple

import numpy as np

from stairwise.papers.composition import plan as plans
from stairwise.papers.composition.model import AttentionOnly, untrained
from stairwise.papers.composition.theory import exact
from stairwise.train.draws import draws_of


class Taken(NamedTuple):
    """A step: its name, the weights after it, and max |eta grad| of each layer's key-query matrix."""

    name: str
    model: AttentionOnly
    moved: np.ndarray


def start(hidden: np.ndarray, beta0: float) -> AttentionOnly:
    """W_KQ = 0 and the readouts' start, in double precision."""
    blocks, alphabet = hidden.shape
    return untrained(plans.layers(blocks), blocks, alphabet, beta0, dtype="float64")


def key_query_step(model: AttentionOnly, examples: exact.Examples, rate: float, *heads: int):
    """One step on every key-query matrix: (weights, max |eta grad| per layer)."""
    gradient = exact.mean_gradient(model, exact.of_heads(examples, *heads)).key_query
    moved = np.array([rate * float(abs(part).max()) for part in gradient])
    matrices = tuple(W - rate * part for W, part in zip(model.key_query, gradient, strict=True))
    return exact.with_key_query(model, matrices), moved


def readout_step(model: AttentionOnly, examples: exact.Examples, rate: float, *heads: int) -> AttentionOnly:
    """One step on every readout; those of other heads have no gradient."""
    gradient = exact.mean_gradient(model, exact.of_heads(examples, *heads)).readout
    return exact.with_readout(model, model.readout - rate * gradient)


def curriculum(hidden: np.ndarray, samples: int, rate: float, beta0: float, seed: int) -> list[Taken]:
    """Algorithm 1: at stage t a step on all W_KQ with loss^(t), then one on Psi_t, on the same batch."""
    model, taken = start(hidden, beta0), []
    for stage in range(1, model.layers + 1):
        examples = exact.batch(hidden, model.layers, samples, draws_of(seed, "batch", stage))
        model, moved = key_query_step(model, examples, rate, stage)
        taken.append(Taken(f"KQ{stage}", model, moved))
        model = readout_step(model, examples, rate, stage)
        taken.append(Taken(f"Psi{stage}", model, np.zeros(model.layers)))
    return taken


def mixture(hidden: np.ndarray, samples: int, rate: float, beta0: float, seed: int) -> list[Taken]:
    """Algorithm 2: L steps on all W_KQ with the sum of all losses, on fresh samples, then one on all Psi."""
    model, taken = start(hidden, beta0), []
    heads = tuple(range(1, model.layers + 1))
    for step in (*heads, len(heads) + 1):
        examples = exact.batch(hidden, model.layers, samples, draws_of(seed, "batch", step))
        if step <= len(heads):
            model, moved = key_query_step(model, examples, rate, *heads)
            taken.append(Taken(f"KQ{step}", model, moved))
    model = readout_step(model, examples, rate, *heads)
    return [*taken, Taken("Psi", model, np.zeros(model.layers))]
