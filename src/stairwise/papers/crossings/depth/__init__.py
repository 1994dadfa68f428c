"""Depth against steps: k-fold composition by 1 + log2 k layers with a hop curriculum, or by one layer in k steps.

Both ways compute the same thing, hop^k(j) of composition's hidden permutations. The deep encoder doubles hops from
layer to layer and answers at once; the shallow decoder takes one hop a step and reads its own answers. What do they
cost, in labels and in floating-point operations, until they are right?

The hypotheses below were written before the experiment was run.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from stairwise.lab.config import Config, option, require
from stairwise.lab.contract import Experiment, Figure, Ledger, Preset, Verdict
from stairwise.lazy import lazy
from stairwise.papers.composition.config import Task
from stairwise.papers.parity_cot.config.training import Decoder

if TYPE_CHECKING:
    from stairwise.papers.crossings.depth import runs
else:
    runs = lazy("stairwise.papers.crossings.depth.runs")

HERE = "stairwise.papers.crossings.depth"
CHAIN, DEPTH, HARDEST = "one layer, k steps", "log k layers, curriculum", "log k layers, k hops only"
NO = {"otherwise": "not-reproduced"}


@dataclass(frozen=True)
class Solver(Config):
    """Composition by a chain of thought in few layers, or at once in 1 + log2 k of them."""

    task: Task = option(Task(blocks=4, alphabet=4), "the composition")
    solver: str = option("chain", "chain: step by step; depth: at once, at every position", choices=("chain", "depth"))
    curriculum: bool = option(True, "depth: hops 1, 2, 4, ... come in one after another; otherwise k hops alone")
    release: int = option(200, "steps until the next hop comes in", low=1, high=10**7)
    decoder: Decoder = option(Decoder(width=32, std=0.18), "the model; depth takes its own number of layers")
    rate: float = option(3e-3, "learning rate of Adam", above=0.0, high=1.0, numeric=True)
    batch: int = option(32, "sequences of one step", low=1, high=2**16)
    look: int = option(50, "steps between evaluations", low=1, high=10**6)
    looks: int = option(20, "evaluations at most", low=1, high=10**6)
    validation: int = option(256, "held-out sequences", low=1, high=2**16)
    threshold: float = option(0.95, "share of right k-hop answers that counts as learnt", above=0.0, high=1.0)

    def check(self) -> None:
        require(self.decoder.dropout == 0, f"decoder.dropout={self.decoder.dropout:g} must be 0")
        blocks = self.task.blocks
        require(blocks >= 2 and not self.task.any_blocks, f"task.blocks={blocks} must be a power of two from 2 on")

    @property
    def hops(self) -> tuple[int, ...]:
        """1, 2, 4, ..., k."""
        return tuple(2**power for power in range(self.task.layers))

    @property
    def layers(self) -> int:
        """1 + log2 k where depth does it."""
        return self.decoder.layers if self.solver == "chain" else self.task.layers

    @property
    def length(self) -> int:
        """Tokens that are read: the sequence, then a letter and all answers but the last, or a token for the hop."""
        return self.task.tokens + (self.task.blocks if self.solver == "chain" else 1)

    @property
    def vocabulary(self) -> int:
        return self.task.alphabet + (0 if self.solver == "chain" else len(self.hops))

    @property
    def labels(self) -> int:
        """Labels of one sequence: every step of one chain, or one answer at every position."""
        return self.task.blocks if self.solver == "chain" else self.task.tokens

    @property
    def operations(self) -> int:
        """Floating-point operations of training on one sequence: three times a forward pass.

        Forward, T tokens of width w: 24 w^2 + 4 T w a token and layer (projections and perceptron, attention), and
        2 V w + 2 O w a token for the table of V tokens and the head of O outputs.
        """
        width, length = self.decoder.width, self.length
        layer = 24 * width**2 + 4 * length * width
        ends = 2 * width * (self.vocabulary + self.task.alphabet)
        return 3 * length * (self.layers * layer + ends)

    @property
    def name(self) -> str:
        return CHAIN if self.solver == "chain" else DEPTH if self.curriculum else HARDEST


def arms(*blocks: int) -> dict[str, dict[str, Any]]:
    """Every k by every solver."""
    solvers = {
        CHAIN: {"solver": "chain"},
        DEPTH: {"solver": "depth", "curriculum": True},
        HARDEST: {"solver": "depth", "curriculum": False},
    }
    return {f"k={k}, {name}": {"task.blocks": k, **fields} for k in blocks for name, fields in solvers.items()}


LARGE = Solver(
    task=Task(blocks=4, alphabet=5),
    decoder=Decoder(width=128, heads=8, std=0.09),
    release=1500,
    rate=5e-4,
    batch=256,
    looks=160,
    validation=512,
)
EXPERIMENT = Experiment(
    id="depth",
    says="composition by log k layers with a hop curriculum or by one layer with a chain: labels and operations",
    Config=Solver,
    program=f"{HERE}.train:training",
    figures=(
        Figure("fig-depth", "Accuracy on k hops against labels and against operations", f"{HERE}.figures:curves"),
        Figure("fig-depth-cost", "Labels and operations to success against k", f"{HERE}.figures:costs"),
    ),
    presets={
        "quick": Preset(Solver(), arms(2, 4), seeds=2, note="N = 4, width 32, 1000 steps of 32 at most"),
        "gpu": Preset(LARGE, arms(2, 4, 8), seeds=5, group=5, note="N = 5, width 128, 8000 steps of 256 at most"),
        "paper": Preset(
            replace(LARGE, looks=1000, release=8000),
            arms(2, 4, 8, 16),
            seeds=8,
            group=8,
            hours=3.0,
            note="not in a paper",
        ),
    },
)
EXPERIMENTS = (EXPERIMENT,)


# --- hypotheses -------------------------------------------------------------------------------------------------------

LEDGER = Ledger()


@LEDGER.empirical(
    "depth-labels",
    experiment="depth",
    says="at every k the chain needs no more labels than depth with a curriculum: ratio of medians 1 or more",
)
def a_chain_needs_fewer_labels(records: Sequence[Any]) -> Verdict:
    return compared(records, "labels")


@LEDGER.empirical(
    "depth-operations",
    experiment="depth",
    says="at every k the chain needs no more operations than depth with a curriculum: ratio of medians 1 or more",
)
def a_chain_needs_fewer_operations(records: Sequence[Any]) -> Verdict:
    return compared(records, "operations")


def compared(records: Sequence[Any], cost: str) -> Verdict:
    """What depth spends over what the chain does, at the k where that is smallest; a spent budget is a lower bound."""
    ratios = runs.ratios(records, cost)
    if not ratios:
        return Verdict.reported(0.0, note="no chain succeeded", details=runs.table(records))
    note = "; ".join(f"k={k}: {'over ' if bound else ''}{ratio:.3g}" for k, (ratio, bound) in ratios.items())
    worst = min(ratio for ratio, _ in ratios.values())
    return Verdict.at_least(worst, 1, note=note, details=runs.table(records), **NO)


@LEDGER.empirical(
    "depth-curriculum",
    experiment="depth",
    says="at the largest k no run of the deep encoder succeeds on k hops alone",
)
def the_hardest_hop_alone_is_not_learnt(records: Sequence[Any]) -> Verdict:
    largest = max(record.config.task.blocks for record in records)
    reached = runs.hits(runs.chosen(records, largest, HARDEST), "labels").reached
    return Verdict.at_most(reached, 0, note=f"k={largest}", details=runs.table(records), **NO)


@LEDGER.empirical(
    "depth-growth",
    experiment="depth",
    says="where k doubles, the chain's median labels grow by a factor of 4 or less",
)
def the_chain_grows_slowly(records: Sequence[Any]) -> Verdict:
    factors = runs.growth(records)
    if not factors:
        return Verdict.reported(0.0, note="fewer than two k were learnt", details=runs.table(records))
    return Verdict.at_most(max(factors), 4, details=runs.table(records), **NO)
