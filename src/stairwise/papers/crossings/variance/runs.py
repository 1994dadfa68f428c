"""Slopes of log variance against log M. NumPy, SciPy."""

from collections.abc import Mapping, Sequence
from typing import Any

from stairwise.measure.estimates import Estimate
from stairwise.measure.fits import Data, slope_estimate
from stairwise.papers.crossings.variance.config import CLASSES, NETWORKS

Slopes = Mapping[tuple[str, str], Estimate]


def of(records: Sequence[Any], targets: str, network: str) -> list[Any]:
    """The records of a class and a network, from the smallest class to the largest."""
    chosen = [r for r in records if (r.config.targets, r.config.network) == (targets, network)]
    return sorted(chosen, key=lambda record: (record.config.dimensions, record.seed))


def observed(records: Sequence[Any]) -> Data:
    """(M, variance of the whole gradient) of every network."""
    return Data.of([record.config.dimensions for record in records], [record.final("share") for record in records])


def slopes(records: Sequence[Any]) -> dict[tuple[str, str], Estimate]:
    """The power of M with which the variance falls, with its interval over random networks."""
    found = {}
    for targets in CLASSES:
        for network in NETWORKS:
            own = of(records, targets, network)
            if len({record.config.dimensions for record in own}) > 1:
                found[targets, network] = slope_estimate("power", observed(own), repeats=400)
    return found


def words(found: Slopes) -> str:
    return "; ".join(f"{targets}, {network}: M^{slope}" for (targets, network), slope in found.items())


def table(records: Sequence[Any]) -> tuple[dict[str, Any], ...]:
    """One row a network and class."""
    return tuple(
        {
            "class": record.config.targets,
            "network": record.config.network,
            "length": record.config.length,
            "size": record.config.size,
            "seed": record.seed,
            "M": record.config.dimensions,
            "share": record.final("share"),
            "largest share": record.final("largest share"),
        }
        for targets in CLASSES
        for network in NETWORKS
        for record in of(records, targets, network)
    )
