"""An atlas of models that track states: which recurrences do parity and S_3, what attention needs for S_5, how far.

Cells are chosen by what is proved elsewhere:

- A linear recurrence whose eigenvalues lie in [0, 1] cannot do parity at every length; with [-1, 1] it can (Grazzi et
  al., 2025).
- One Householder step per token and layer does not do the words of S_3, two steps do (Siems et al., 2025).
- Attention of constant depth does not track S_5 unless NC^1 = TC^0 (Merrill, Sabharwal, 2023); with a chain it does.
- LEGO's decoder without positions extrapolates; a learned table has rows that were never trained.

The hypotheses below are those of `registered/atlas.toml`, which was written before any cell was run at its sizes.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.checks import at_least, at_most, hypothesis, row, skip_if
from stairwise.lab.contract.claims import Ledger
from stairwise.lab.contract.experiment import Experiment, Figure, Preset
from stairwise.papers.crossings.atlas import figures, runs, train
from stairwise.papers.crossings.atlas.config import HOUSEHOLDERS, PARITY, POSITIONS, POSITIVE, SUPERVISED, Cell
from stairwise.papers.parity_cot.config.training import Decoder

RUNS = 5  # seeds of a cell, as registered
DOES, DOES_NOT = 0.9, 0.1  # exact match: at least so much in the median, at most so much in every run
CHANCE = 0.3  # exact match on S_5 that is still called chance: 1/5 and as much again as half of it
SIGNIFICANCE = 0.05  # of the whole family, by Holm


def arms(cells: Mapping[str, Mapping[str, Any]], rates: Sequence[float]) -> dict[str, dict[str, Any]]:
    return {
        f"{name}, rate {rate:g}": {**fields, "learning_rate": rate} for name, fields in cells.items() for rate in rates
    }


def words(parity: Sequence[str], householders: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Recurrences on words of C_2 and of S_3."""
    found = {f"parity, {name}": dict(PARITY[name]) for name in parity}
    return found | {f"S_3, {name}": dict(HOUSEHOLDERS[name]) for name in householders}


def clauses(lengths: Sequence[int], shared: int, positions: Sequence[str], **sizes: Any) -> dict[str, dict[str, Any]]:
    """Attention on LEGO's clauses: answer and chain at some lengths, and a chain with positions at one of them."""
    told = {
        f"{name}, L={length}": {**fields, "length": length} for name, fields in SUPERVISED.items() for length in lengths
    }
    told |= {f"chain, {name}, L={shared}": {**POSITIONS[name], "length": shared} for name in positions}
    return {f"{sizes['action']}, {name}": fields | sizes for name, fields in told.items()}


ALL_WORDS = words(tuple(PARITY), tuple(HOUSEHOLDERS))
S5 = {"action": "S5", "model.width": 128, "model.std": 0.09, "looks": 80}
GPU = ALL_WORDS | clauses((2, 4, 8), 4, ("learned", "rotary", "alibi"), **S5)
QUICK = words(("DeltaNet, [0, 1]", "DeltaNet, [-1, 1]"), ("2 steps, [-1, 1]",))
QUICK |= clauses((2,), 2, ("learned",), action="C3", variables=12)

EXPERIMENT = Experiment(
    id="atlas",
    says="which mixer, how many Householder steps, which supervision and which positions track a group, and how far",
    Config=Cell,
    program=train.training,
    opens_with="accuracy",
    own=train.training_own,
    figures=(
        Figure("fig-atlas-parity", "Which recurrences do parity: exact match at L, 2L, 4L", figures.parity),
        Figure("fig-atlas-s3", "How many Householder steps do S₃: exact match at L, 2L, 4L", figures.householders),
        Figure("fig-atlas-s5", "Samples until a sequence is solved, with a chain and without", figures.supervised),
        Figure("fig-atlas-positions", "Which positions carry a chain: exact match at L, 2L, 4L", figures.positions),
    ),
    presets={
        "quick": Preset(
            Cell(
                length=8,
                model=Decoder(width=32, std=0.18, positions="none"),
                batch=32,
                measure_every=15,
                looks=20,
                test_examples=64,
            ),
            arms(QUICK, (3e-3,)),
            seeds=2,
            note="6 cells, words of 8, C_3 instead of S_5, 300 steps of 32",
        ),
        "gpu": Preset(
            Cell(),
            arms(GPU, (1e-3, 3e-3)),
            seeds=RUNS,
            group=2 * RUNS,
            note="the registered cells",
        ),
    },
)
EXPERIMENTS = (EXPERIMENT,)

# --- the registered hypotheses ----------------------------------------------------------------------------------------

LEDGER = Ledger()
OURS = "ours: an atlas of state tracking"


def registered(records: Sequence[Any]) -> Iterator[Any]:
    """Whether the runs are those of `registered/atlas.toml`."""
    found = [record.config for record in records]
    steps = {(config.told, config.batch, config.measure_every * config.looks) for config in found}
    yield hypothesis(
        "2,000 steps of 256 words, 4,000 of clauses", steps == {("word", 256, 2000), ("clauses", 256, 4000)}
    )
    tests = {(config.measure_every, config.test_examples) for config in found}
    yield hypothesis("tests of 256 every 50 steps", tests == {(50, 256)})
    yield hypothesis("rates 0.001 and 0.003", {config.learning_rate for config in found} == {1e-3, 3e-3})
    yield hypothesis("exact match of 0.95 is solved", {config.threshold for config in found} == {0.95})
    shapes = {(config.told, config.action, config.model.width, config.model.heads) for config in found}
    known = {("word", "C2", 64, 4), ("word", "S3", 64, 4), ("clauses", "S5", 128, 4)}
    yield hypothesis("parity and S_3 at width 64, S_5 at width 128, 4 heads", shapes == known)
    yield hypothesis("words of 16", {config.length for config in found if config.told == "word"} == {16})
    yield hypothesis("5 seeds", {record.seed for record in records} == set(range(RUNS)))


def tested(records: Sequence[Any], test: str) -> Iterator[Any]:
    """Both rows are there, the runs are the registered ones, and the difference stands after Holm's correction."""
    values = runs.p_values(records)
    yield skip_if(test not in values, "not among the cells: the two rows that are compared")
    yield from registered(records)
    yield hypothesis("all seven tests", len(values) == len(runs.TESTS))
    yield at_most("p after Holm's correction over all tests", runs.holm(values)[test], SIGNIFICANCE)


def reaches_further(records: Sequence[Any], test: str):
    """One row does the task at so many times its length, the other does not, and the difference is significant."""
    yield from tested(records, test)
    rows, high, low, times = runs.TESTS[test]
    good, bad = runs.compared(records, test)
    yield at_least(f"median exact match at {times}L, {high}", np.median(runs.exact(good, times)), DOES)
    limit = CHANCE if test == "s5" else DOES_NOT
    yield at_most(f"largest exact match at {times}L, {low}", max(runs.exact(bad, times)), limit)
    yield from map(row, runs.table(records, rows))


LEDGER.family(
    reaches_further,
    {
        "atlas-parity-delta": {
            "says": "on parity, DeltaNet with eigenvalues in $[-1, 1]$ has median exact match 0.9 at $4L$, with"
            " $[0, 1]$ at most 0.1 in every run",
            "given": {"test": "parity-delta"},
        },
        "atlas-parity-diagonal": {
            "says": "on parity, a diagonal recurrence with eigenvalues in $[-1, 1]$ has median exact match 0.9 at"
            " $4L$, with $[0, 1]$ at most 0.1 in every run",
            "given": {"test": "parity-diagonal"},
        },
        "atlas-parity-lstm": {
            "says": "on parity, an LSTM has median exact match 0.9 at $4L$, a minGRU at most 0.1 in every run",
            "given": {"test": "parity-lstm"},
        },
        "atlas-householders": {
            "says": "on words of $S_3$, two Householder steps per token have median exact match 0.9 at $4L$, one step"
            " at most 0.1 in every run",
            "given": {"test": "householders"},
        },
        "atlas-s5": {
            "says": "on $S_5$ at the longest length, two layers of attention have median exact match 0.9 with a chain,"
            " and with the answer alone at most 0.3 in every run",
            "given": {"test": "s5"},
        },
        "atlas-positions": {
            "says": "trained on chains of $S_5$, no positions have median exact match 0.9 at $4L$, learned positions at"
            " most 0.1 in every run",
            "given": {"test": "positions"},
        },
    },
    form="empirical",
    experiment="atlas",
    statement=OURS,
)


@LEDGER.empirical(
    "atlas-positive",
    experiment="atlas",
    statement=OURS,
    says="no linear recurrence with eigenvalues in $[0, 1]$ does parity at $4L$: exact match at most 0.1 in every run"
    " of all five",
)
def positive_eigenvalues_do_no_parity(records: Sequence[Any]):
    cells = {name: runs.cell(records, PARITY[name]) for name in POSITIVE}
    absent = [name for name, found in cells.items() if not found]
    yield skip_if(absent, f"not among the cells: {', '.join(absent)}")
    yield from registered(records)
    for name, found in cells.items():
        yield at_most(f"largest exact match at 4L, {name}", max(runs.exact(found, 4)), DOES_NOT)
    yield from map(row, runs.table(records, PARITY))


@LEDGER.empirical(
    "atlas-chain",
    experiment="atlas",
    statement=OURS,
    says="a chain needs no more samples of $S_5$ than the answer alone at every length, and significantly fewer at the"
    " shortest (log-rank test)",
)
def a_chain_needs_fewer_samples(records: Sequence[Any]):
    yield from tested(records, "chain")
    for length in runs.lengths(records, SUPERVISED):
        chain, answer = (runs.samples(runs.cell(records, SUPERVISED[name], length)) for name in ("chain", "answer"))
        yield at_most(f"median samples, chain / answer, L={length}", _ratio(chain, answer), 1.0)
    yield from map(row, runs.table(records, SUPERVISED))


def _ratio(first: float, second: float) -> float:
    """Of medians that may be infinite: 0 where only the second is, and where both are no more can be said than inf."""
    return np.inf if np.isinf(first) else first / second
