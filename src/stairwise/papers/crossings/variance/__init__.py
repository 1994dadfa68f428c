"""How much of its target a random network's gradient sees: parities and compositions on one axis.

Both lower bounds say the same: over a class whose centred targets fill a space of M dimensions, the variance of any
statistical query is at most 1/M of its norm (for parities of k out of n bits M = C(n, k), the number of targets, which
are pairwise uncorrelated; for k hidden permutations of N letters M = (N-1)^{2k}, the most that can be). Here the same
two families of networks meet both classes, every target is enumerated, and the variance is in these units.

The hypotheses below were written before the study was run.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stairwise.lab.config import Config, option, require
from stairwise.lab.contract import Experiment, Figure, Ledger, Preset, Verdict
from stairwise.lazy import lazy

if TYPE_CHECKING:
    from stairwise.papers.crossings.variance import runs
else:
    runs = lazy("stairwise.papers.crossings.variance.runs")

HERE = "stairwise.papers.crossings.variance"
CLASSES = ("parity", "composition")
NETWORKS = ("perceptron", "encoder")
LARGEST = 2**28  # numbers in the table of queries
ROUNDING = 1e-9
STEEPNESS, APART = 1.0, 0.5


@dataclass(frozen=True)
class Spectrum(Config):
    """A class of targets and a random network."""

    targets: str = option("parity", "the class", choices=CLASSES)
    length: int = option(10, "parity: bits n; composition: letters N", low=2, high=16)
    size: int = option(3, "parity: secret bits k; composition: hops k", low=1, high=16)
    network: str = option("perceptron", "the random network", choices=NETWORKS)
    width: int = option(8, "its width", low=2, high=256)
    gain: float = option(5.0, "factor on its initial weights, so that it is far from linear", above=0.0)

    def check(self) -> None:
        if self.targets == "parity":
            require(self.size <= self.length, f"size={self.size} must be at most length={self.length}")
        else:
            require(self.length >= 3, f"length={self.length} must be at least 3 where targets=composition")
        pairs = self.inputs * (self.inputs if self.targets == "composition" else 1)
        table = max(self.inputs * self.parameters, pairs)
        require(table <= LARGEST, f"size={self.size} makes a table of {table} numbers, which must be at most {LARGEST}")

    @property
    def inputs(self) -> int:
        """All inputs: the cube, or (N!)^k permutations and a letter."""
        if self.targets == "parity":
            return 2**self.length
        return math.factorial(self.length) ** self.size * self.length

    @property
    def outputs(self) -> int:
        return 2 if self.targets == "parity" else self.length

    @property
    def tokens(self) -> int:
        return self.length if self.targets == "parity" else self.length * self.size + 1

    @property
    def vocabulary(self) -> int:
        return 2 if self.targets == "parity" else 2 * self.length

    @property
    def parameters(self) -> int:
        """Roughly: weights times outputs."""
        return self.width * (self.tokens * self.vocabulary + 12 * self.width) * self.outputs

    @property
    def dimensions(self) -> int:
        """M: the dimensions that the centred targets fill."""
        if self.targets == "parity":
            return math.comb(self.length, self.size)
        return (self.length - 1) ** (2 * self.size)


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
        program=f"{HERE}.train:variance",
        study=True,
        precision=64,
        figures=(
            Figure(
                "fig-variance",
                "Variance of the gradient over targets against the dimensions of the class, with the SQ bound 1/M",
                f"{HERE}.figures:against_dimensions",
                headline=True,
            ),
        ),
        presets={
            "quick": Preset(Spectrum(), QUICK, seeds=3, note="every target enumerated, width 8"),
            "gpu": Preset(Spectrum(), FULL, seeds=5, note="runs on the host"),
            "paper": Preset(Spectrum(), FULL, seeds=32, hours=0.5, note="not in a paper; runs on the host"),
        },
    ),
)

# --- the hypotheses ---------------------------------------------------------------------------------------------------

LEDGER = Ledger()
NO = {"otherwise": "not-reproduced"}


@LEDGER.empirical(
    "variance-bound",
    experiment="variance",
    says="no coordinate of any network's gradient varies over targets by more than 1/M of its query, in either class",
)
def bound_is_kept(records: Sequence[Any]) -> Verdict:
    worst = max(record.final("largest share") * record.config.dimensions for record in records)
    return Verdict.at_most(worst, 1 + ROUNDING, note="largest variance times M", details=runs.table(records))


@LEDGER.empirical(
    "variance-slope",
    experiment="variance",
    says="as classes grow, the variance of the whole gradient falls at least as fast as 1/M: slopes are -1 or below",
)
def falls_as_fast_as_the_bound(records: Sequence[Any]) -> Verdict:
    slopes = runs.slopes(records)
    shallowest = min(-slope.value for slope in slopes.values())
    return Verdict.at_least(shallowest, STEEPNESS, note=runs.words(slopes), details=runs.table(records), **NO)


@LEDGER.empirical(
    "variance-one-law",
    experiment="variance",
    says="for each network one law holds for both classes: their slopes of log variance against log M differ by < 1/2",
)
def one_law_for_both(records: Sequence[Any]) -> Verdict:
    slopes = runs.slopes(records)
    gaps = [
        abs(slopes["parity", network].value - slopes["composition", network].value)
        for network in NETWORKS
        if ("parity", network) in slopes and ("composition", network) in slopes
    ]
    if not gaps:
        return Verdict("reported", note="one class only: nothing to compare")
    return Verdict.at_most(max(gaps), APART, note=runs.words(slopes), details=runs.table(records), **NO)
