"""Depth against steps: k-fold composition by 1 + log2 k layers with a hop curriculum, or by one layer in k steps.

Both ways compute the same thing, hop^k(j) of composition's hidden permutations. The deep encoder doubles hops from
layer to layer and answers at once; the shallow decoder takes one hop a step and reads its own answers. What do they
cost, in labels and in floating-point operations, until they are right?

The hypotheses below were written before the experiment was run.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from stairwise.lab.contract import Experiment, Figure, Ledger, Preset, Verdict
from stairwise.papers.composition.config import Task
from stairwise.papers.crossings.depth import figures, runs, train
from stairwise.papers.crossings.depth.config import CHAIN, DEPTH, HARDEST, Solver
from stairwise.papers.parity_cot.config.training import Decoder

NO = {"otherwise": "not-reproduced"}


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
    program=train.training,
    figures=(
        Figure("fig-depth", "Accuracy on k hops against labels and against operations", figures.curves),
        Figure("fig-depth-cost", "Labels and operations to success against k", figures.costs),
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
