"""One parity under five supervisions: nothing but the answer, a chain, a tree, shorter parities, labels of its own.

What is supervised is the only thing that differs: decoder, optimiser, rates, inputs, secrets and the criterion (the
answer is right on held-out inputs, rolled out greedily) are the same, seed by seed.

The hypotheses below were written before the experiment was run.
"""

from collections.abc import Sequence
from typing import Any

from stairwise.lab.contract.checks import at_least, at_most, note, row, true
from stairwise.lab.contract.claims import Ledger
from stairwise.lab.contract.experiment import Experiment, Figure, Preset
from stairwise.papers.crossings.supervisions import figures, runs, train
from stairwise.papers.crossings.supervisions.config import SUPERVISIONS, Supervised
from stairwise.papers.parity_cot.config.training import Decoder


def arms(sizes: Sequence[int], rates: Sequence[float]) -> dict[str, dict[str, Any]]:
    """Every supervision at every k and rate."""
    return {
        f"{supervision}, k={size}, rate {rate:g}": {"supervision": supervision, "size": size, "learning_rate": rate}
        for supervision in SUPERVISIONS
        for size in sizes
        for rate in rates
    }


EXPERIMENTS = (
    Experiment(
        id="supervisions",
        says="one parity, five supervisions, one decoder: samples until the answer is right on held-out inputs",
        Config=Supervised,
        program=train.training,
        opens_with="accuracy",
        figures=(
            Figure(
                "fig-supervisions",
                "Samples to success against the secret's size k under five supervisions; censored runs hollow",
                figures.against_size,
            ),
            Figure(
                "fig-supervisions-rates",
                "The same, every learning rate: how the rate was chosen",
                figures.rates,
            ),
        ),
        presets={
            "quick": Preset(
                Supervised(), arms((2, 3, 4, 6), (1e-3,)), seeds=2, note="n = 12, one layer, parity_cot's quick rate"
            ),
            "gpu": Preset(
                Supervised(
                    bits=16,
                    padding=8,
                    model=Decoder(layers=2),
                    look=2048,
                    budget=2**18,
                    test_examples=1024,
                ),
                arms((2, 3, 4, 5, 6, 8), (3e-4, 1e-3, 3e-3)),
                seeds=5,
                group=90,
                note="n = 16, two layers, three rates; a program is a supervision, all its runs side by side",
            ),
        },
    ),
)

# --- the hypotheses ---------------------------------------------------------------------------------------------------

LEDGER = Ledger()
OURS = "ours: five supervisions"


def reaches_further(records: Sequence[Any], better: str, worse: str, gain: int):
    """`better` reaches at least `gain` more secret bits than `worse`."""
    reach = runs.reaches(records)
    yield at_least(f"secret bits learnt, {better} - {worse}", reach[better] - reach[worse], gain)
    yield note(", ".join(f"{supervision} reaches k={size}" for supervision, size in reach.items()))
    yield from map(row, runs.table(records))


LEDGER.family(
    reaches_further,
    {
        "supervisions-chain": {
            "says": "told every partial sum, the decoder learns at least two secret bits more than told the answer"
            " alone",
            "given": {"better": "chain", "worse": "none", "gain": 2},
        },
        "supervisions-mixture": {
            "says": "with shorter parities mixed in, and no answer ever shown, it learns a secret bit more than"
            " without",
            "given": {"better": "mixture", "worse": "none", "gain": 1},
        },
        "supervisions-self": {
            "says": "chains of its own, kept where they end right, reach no further than the answer alone: they bring"
            " no news",
            "given": {"better": "none", "worse": "self", "gain": 0},
        },
    },
    form="empirical",
    experiment="supervisions",
    statement=OURS,
)


@LEDGER.empirical(
    "supervisions-tree",
    experiment="supervisions",
    statement=OURS,
    says="wherever both are learnt, a chain needs no more samples than a tree, whose steps are parities of two bits",
)
def chain_is_no_slower_than_tree(records: Sequence[Any]):
    chain, tree = runs.medians(records, "chain"), runs.medians(records, "tree")
    both = [size for size in chain if max(chain[size], tree.get(size, float("inf"))) < float("inf")]
    yield true("some k is learnt under both", bool(both))
    for size in both:
        yield at_most(f"samples, chain / tree, k={size}", chain[size] / tree[size], 1.0)
    yield from map(row, runs.table(records))
