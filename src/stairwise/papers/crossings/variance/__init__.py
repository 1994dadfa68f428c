"""How much of its target a random network's gradient sees: parities and compositions on one axis.

Both lower bounds say the same: over a class whose centred targets fill a space of M dimensions, the variance of any
statistical query is at most 1/M of its norm (for parities of k out of n bits M = C(n, k), the number of targets, which
are pairwise uncorrelated; for k hidden permutations of N letters M = (N-1)^{2k}, the most that can be). Here the same
two families of networks meet both classes, every target is enumerated, and the variance is in these units.

The hypotheses below were written before the study was run.
"""

from collections.abc import Sequence
from typing import Any

from stairwise.lab.contract.checks import at_least, at_most, note, row
from stairwise.lab.contract.claims import Ledger
from stairwise.lab.contract.experiment import Experiment, Figure, Preset
from stairwise.papers.crossings.variance import figures, runs, train
from stairwise.papers.crossings.variance.config import CLASSES, NETWORKS, Spectrum

ROUNDING = 1e-9
STEEPNESS, APART = 1.0, 0.5


def arms(parity: Sequence[tuple[int, int]], composition: Sequence[tuple[int, int]]) -> dict[str, dict[str, Any]]:
    """Every network on parities (n, k) and compositions (N, k)."""
    sizes = [("parity", *pair) for pair in parity] + [("composition", *pair) for pair in composition]
    return {
        f"{network}, {targets} {length}, {size}": {
            "network": network,
            "targets": targets,
            "length": length,
            "size": size,
        }
        for network in NETWORKS
        for targets, length, size in sizes
    }


QUICK = arms([(10, k) for k in (1, 2, 3, 4)], [(3, 1), (3, 2), (3, 3), (4, 1)])
FULL = arms([(n, k) for n in (8, 12) for k in range(1, n // 2 + 1)], [(3, 1), (3, 2), (3, 3), (4, 1), (4, 2), (5, 1)])
EXPERIMENTS = (
    Experiment(
        id="variance",
        says="variance of a random network's gradient over all parities and over all hidden permutations, against 1/M",
        Config=Spectrum,
        program=train.variance,
        opens_with="share",
        study=True,
        precision=64,
        figures=(
            Figure(
                "fig-variance",
                "Variance of the gradient over targets against the dimensions of the class, with the SQ bound 1/M",
                figures.against_dimensions,
                headline=True,
            ),
        ),
        presets={
            "quick": Preset(Spectrum(), QUICK, seeds=3, note="every target enumerated, width 8"),
            "gpu": Preset(Spectrum(), FULL, seeds=5, note="runs on the host"),
        },
    ),
)

# --- the hypotheses ---------------------------------------------------------------------------------------------------

LEDGER = Ledger()
OURS = "ours: variance of gradients over targets"


@LEDGER.empirical(
    "variance-bound",
    kind="bound",  # a theorem: where it is not met, something is wrong here
    experiment="variance",
    statement=OURS,
    says="no coordinate of any network's gradient varies over targets by more than $1/M$ of its query, in either class",
    of=(train.variance,),
)
def bound_is_kept(records: Sequence[Any]):
    largest = [record.final("largest share") * record.config.dimensions for record in records]
    yield at_most("largest variance times M", largest, 1.0, rounding=ROUNDING)
    yield from map(row, runs.table(records))


@LEDGER.empirical(
    "variance-slope",
    experiment="variance",
    statement=OURS,
    says="as classes grow, the variance of the whole gradient falls at least as fast as $1/M$: slopes are -1 or below",
)
def falls_as_fast_as_the_bound(records: Sequence[Any]):
    slopes = runs.slopes(records)
    for (targets, network), slope in slopes.items():
        yield at_least(f"exponent of 1/M, {targets}, {network}", -slope.value, STEEPNESS)
    yield note(runs.words(slopes))
    yield from map(row, runs.table(records))


@LEDGER.empirical(
    "variance-one-law",
    experiment="variance",
    statement=OURS,
    says=r"for each network one law holds for both classes: their slopes of log variance against $\log M$ differ by"
    " 1/2 at most",
)
def one_law_for_both(records: Sequence[Any]):
    slopes = runs.slopes(records)
    both = [network for network in NETWORKS if all((targets, network) in slopes for targets in CLASSES)]
    if not both:
        yield note("one class only: nothing to compare")
    for network in both:
        first, second = (slopes[targets, network].value for targets in CLASSES)
        yield at_most(f"difference of the slopes, {network}", abs(first - second), APART)
    yield note(runs.words(slopes))
    yield from map(row, runs.table(records))
