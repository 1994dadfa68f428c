"""What stored trainings say: sample complexities, best rates, growth laws, and traces of the heads. NumPy only."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from stairwise.lab.contract import plots
from stairwise.measure.complexity import Hits, earliest
from stairwise.measure.estimates import Estimate
from stairwise.measure.fits import Data

REPEATS = 400  # bootstrap replicates of a growth law


def grouped(records: Iterable[Any], by: Callable[[Any], Any]) -> dict[Any, list[Any]]:
    """Records by a property of their config, sorted by it."""
    return dict(sorted(plots.grouped(records, lambda record: by(record.config)).items()))


def where(records: Iterable[Any], condition: Callable[[Any], bool]) -> list[Any]:
    """The records whose config meets a condition."""
    return [record for record in records if condition(record.config)]


def shape(config: Any) -> tuple[int, int]:
    """Layers and heads."""
    return config.model.layers, config.model.heads


def shape_text(layers_heads: tuple[int, int]) -> str:
    layers, heads = layers_heads
    return f"{layers} layer{'s' if layers > 1 else ''}, {heads} head{'s' if heads > 1 else ''}"


# --- sample complexity ------------------------------------------------------------------------------------------------


def hits(records: Sequence[Any]) -> Hits:
    """Samples at the first evaluation that reached the threshold, or the budget of a run that never did."""
    found = [record.final("hit") for record in records]
    return Hits.of(
        (record.config.budget, True) if hit < 0 else (hit, False) for record, hit in zip(records, found, strict=True)
    )


def best_of_rates(records: Sequence[Any]) -> Hits:
    """The earliest hit of each seed over its learning rates: the paper's protocol, one entry a seed."""
    by_seed = plots.grouped(records, lambda record: record.seed)
    best = [earliest(*(hits([record]) for record in group)) for _, group in sorted(by_seed.items())]
    return Hits(np.concatenate([one.times for one in best]), np.concatenate([one.censored for one in best]))


def growth(records: Sequence[Any]) -> Data:
    """(k, samples, censored) of every seed at its best rate, known up to the evaluation grid."""
    x, y, censored = [], [], []
    for size, group in grouped(records, lambda config: config.task.size).items():
        best = best_of_rates(group)
        x += [size] * len(best.times)
        y += best.times.tolist()
        censored += best.censored.tolist()
    return Data.of(x, y, censored, float(max(record.config.look for record in records)))


def fittable(observed: Data) -> bool:
    """Whether hits at two sizes pin a slope down."""
    return int(observed.pinned(np.ones((1, len(observed.x))))[0]) > 1


def factor(rate: Estimate) -> Estimate:
    """The growth factor e^b of a rate b; infinite where the data set no limit.

    >>> print(factor(Estimate(0.0, -math.inf, 1e5)))
    1 [0, inf]
    """
    return Estimate(*(math.exp(value) if value < 50 else math.inf for value in rate))


# --- traces -----------------------------------------------------------------------------------------------------------


def trace(record: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """A metric against the sequences processed."""
    ticks, values = record.series(name)
    return ticks * record.config.look, values


def head_names(config: Any) -> list[str]:
    """1.1, 1.2, ..., layer by layer."""
    layers, heads = shape(config)
    return [f"{layer}.{head}" for layer in range(1, layers + 1) for head in range(1, heads + 1)]


def per_head(record: Any, name: str) -> tuple[np.ndarray, Float[np.ndarray, "heads points"]]:
    """A fact about every head against the sequences processed."""
    traces = [trace(record, f"{name} {head}") for head in head_names(record.config)]
    return traces[0][0], np.stack([values for _, values in traces])


def final_heads(record: Any, name: str) -> Float[np.ndarray, "layers heads"]:
    values = [record.final(f"{name} {head}") for head in head_names(record.config)]
    return np.array(values).reshape(shape(record.config))


def value_at(record: Any, name: str, samples: float) -> float:
    """A metric at the last measurement that is not later than so many sequences."""
    when, values = trace(record, name)
    return float(values[np.flatnonzero(when <= samples)[-1]])


def first_time(samples: np.ndarray, condition: np.ndarray) -> float:
    """The first measurement at which a condition holds; infinite where it never does."""
    return float(samples[np.argmax(condition)]) if condition.any() else float("inf")


def jump(record: Any) -> tuple[float, float]:
    """When accuracy first passes 3/4, and when the mean entropy of the heads has made half of its way down."""
    samples, entropies = per_head(record, "entropy")
    mean = entropies.mean(axis=0)
    when, exact = trace(record, "exact match")
    halfway = (mean[1] + mean[-1]) / 2
    return first_time(when, exact >= 0.75), first_time(samples[1:], mean[1:] <= halfway)
