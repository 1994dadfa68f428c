"""Depth against steps: k-fold composition by 1 + log2 k layers with a hop curriculum, or by one layer in k steps.

Both ways compute the same thing, hop^k(j) of composition's hidden permutations. The deep encoder doubles hops from
layer to layer and answers at once; the shallow decoder takes one hop a step and reads its own answers. What do they
cost, in labels and in floating-point operations, until they are right?

The hypotheses below were written before the experiment was run.
"""

from collections.abc import Sequence
from typing import Any

from stairwise.lab.contract.checks import at_least, at_most, note, row
from stairwise.lab.contract.claims import Ledger
from stairwise.lab.contract.experiment import Experiment, Figure, Preset
from stairwise.papers.composition.config import Task
from stairwise.papers.crossings.depth import figures, runs, train
from stairwise.papers.crossings.depth.config import CHAIN, DEPTH, HARDEST, Solver
from stairwise.papers.parity_cot.config.training import Decoder


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
    model=Decoder(width=128, heads=8, std=0.09),
    release=1500,
    learning_rate=5e-4,
    batch=256,
    looks=160,
    test_examples=512,
)
EXPERIMENT = Experiment(
    id="depth",
    says="composition by log k layers with a hop curriculum or by one layer with a chain: labels and operations",
    Config=Solver,
    program=train.training,
    opens_with="accuracy",
    figures=(
        Figure("fig-depth", "Accuracy on k hops against labels and against operations", figures.curves),
        Figure("fig-depth-cost", "Labels and operations to success against k", figures.costs),
    ),
    presets={
        "quick": Preset(Solver(), arms(2, 4), seeds=2, note="N = 4, width 32, 1000 steps of 32 at most"),
        "gpu": Preset(LARGE, arms(2, 4, 8), seeds=5, group=5, note="N = 5, width 128, 8000 steps of 256 at most"),
    },
)
EXPERIMENTS = (EXPERIMENT,)


# --- hypotheses -------------------------------------------------------------------------------------------------------

LEDGER = Ledger()
OURS = "ours: depth against steps"


@LEDGER.empirical(
    "depth-labels",
    experiment="depth",
    statement=OURS,
    says="at every $k$ the chain needs no more labels than depth with a curriculum: ratio of medians 1 or more",
)
def a_chain_needs_fewer_labels(records: Sequence[Any]):
    yield from compared(records, "labels")


@LEDGER.empirical(
    "depth-operations",
    experiment="depth",
    statement=OURS,
    says="at every $k$ the chain needs no more operations than depth with a curriculum: ratio of medians 1 or more",
)
def a_chain_needs_fewer_operations(records: Sequence[Any]):
    yield from compared(records, "operations")


def compared(records: Sequence[Any], cost: str):
    """What depth spends over what the chain does, at every k; a spent budget is a lower bound."""
    ratios = runs.ratios(records, cost)
    if not ratios:
        yield note("no chain succeeded")
    for k, (ratio, bound) in ratios.items():
        yield at_least(f"{cost}, depth / chain, k={k}{', lower bound' if bound else ''}", ratio, 1)
    yield from map(row, runs.table(records))


@LEDGER.empirical(
    "depth-curriculum",
    experiment="depth",
    statement=OURS,
    says="at the largest $k$ no run of the deep encoder succeeds on $k$ hops alone; with a curriculum half of them do",
)
def the_hardest_hop_alone_is_not_learnt(records: Sequence[Any]):
    largest = max(record.config.task.blocks for record in records)
    reached = runs.hits(runs.chosen(records, largest, HARDEST), "labels").reached
    yield at_most(f"runs that succeed, k={largest}", reached, 0)
    taught = runs.hits(
        runs.chosen(records, largest, DEPTH), "labels"
    )  # where nothing is learnt at all, nothing is shown
    yield at_least(
        f"share of runs that succeed with a curriculum, k={largest}", taught.reached / len(taught.times), 0.5
    )
    yield from map(row, runs.table(records))


@LEDGER.empirical(
    "depth-growth",
    experiment="depth",
    statement=OURS,
    says="where $k$ doubles, the chain's median labels grow by a factor of 4 or less",
)
def the_chain_grows_slowly(records: Sequence[Any]):
    factors = runs.growth(records)
    if not factors:
        yield note("fewer than two k were learnt")
    for k, factor in factors.items():
        yield at_most(f"labels at {2 * k} hops / labels at {k}", factor, 4)
    yield from map(row, runs.table(records))
