"""The empirical claims: what Figures 1 to 3 and 8 say, with pass lines written down before the runs.

A run that spends its budget is censored; where several learning rates were tried, each seed counts at its best one,
and the details list every rate.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.checks import at_least, at_most, note, row, true
from stairwise.measure import complexity, fits
from stairwise.papers.parity_cot import runs
from stairwise.papers.parity_cot.claims.ledger import LEDGER
from stairwise.papers.parity_cot.claims.reading import arm, coinciding, complexity_rows, jump_rows

GROWTH, EXPONENT = 4.0, 1.3  # no CoT: at least this factor per bit; CoT: at most this power of k
UNIFORM = 0.9  # Figure 8: "almost uniform", as normalised entropy
AGREEMENT, SEEDS = 0.95, 2 / 3  # Figure 3b: argmax = secret on this share of steps, in this share of seeds


def growth_checks(records: Sequence[Any]):
    """Growth of the samples with k in both arms, each with the end of its 95% interval that is nearer the line."""
    with_chain, without = runs.growth(arm(records, True)), runs.growth(arm(records, False))
    yield true("two sizes or more are learnt with CoT", runs.fittable(with_chain))
    if runs.fittable(with_chain):
        power = fits.slope_estimate("power", with_chain, runs.REPEATS)
        yield at_most("exponent of k with CoT, upper end of its interval", power.high, EXPONENT)
        yield note(f"with CoT samples ~ k^p, p = {power}; AIC {aic_text(with_chain)}")
    if runs.fittable(without):
        factor = runs.factor(fits.slope_estimate("exponential", without, runs.REPEATS))
        yield at_least("growth per bit without CoT, lower end of its interval", factor.low, GROWTH)
        yield note(f"without CoT x {factor} per bit; AIC {aic_text(without)}")
    else:
        yield note("without CoT fewer than two sizes are learnt: no factor")


def aic_text(observed: Any) -> str:
    return ", ".join(f"{one.law} {one.aic:.1f}" for one in fits.compare(observed))


def grows_exponentially_only_without(records: Sequence[Any]):
    """Both growth laws, from every seed at its best rate."""
    yield from growth_checks(records)
    yield from map(row, complexity_rows(records))


LEDGER.family(
    grows_exponentially_only_without,
    {
        "fig1a": {
            "statement": "Figure 1a",
            "says": "4 layers, 4 heads (quick: 1 layer): samples grow by over 4 per bit without CoT (95% interval),"
            " slower than $k^{1.3}$ with it",
        },
        "fig2c": {
            "statement": "Figure 2c",
            "says": "4 layers, 4 heads, best of three rates: samples grow by over 4 per bit without CoT (95% interval),"
            " slower than $k^{1.3}$ with it",
        },
    },
    form="empirical",
    experiment="complexity",
)


@LEDGER.empirical(
    "fig2b",
    experiment="shallow",
    statement="Figure 2b",
    says="1 layer, 1 head: the same growth laws, and with CoT half of the seeds or more learn every $k$ (best rate)",
)
def one_head_suffices_with_chain(records: Sequence[Any]):
    yield from growth_checks(records)
    for size, group in runs.grouped(arm(records, True), lambda c: c.task.size).items():
        found = runs.best_of_rates(group)
        yield at_least(f"share of seeds that learn with CoT, k={size}", found.reached / len(found.times), 0.5)
    yield from map(row, complexity_rows(records))


def size_of_both(records: Sequence[Any]) -> int:
    """k = 3, or the largest k that both arms have."""
    sizes = [{record.config.task.size for record in arm(records, cot)} for cot in (True, False)]
    shared = sorted(sizes[0] & sizes[1])
    return 3 if 3 in shared else shared[-1]


@LEDGER.empirical(
    "fig1b-coincidence",
    experiment="complexity",
    statement="Figure 1b",
    says="$k=3$, with CoT and without: in 80% of the successful runs accuracy jumps when the heads' entropy falls,"
    " within a factor 2 of samples (the line of Figure 11)",
)
def accuracy_jumps_as_entropy_falls(records: Sequence[Any]):
    chosen = runs.where(records, lambda config: config.task.size == size_of_both(records))
    for words, cot in (("with", True), ("without", False)):
        rows = jump_rows(arm(chosen, cot))
        yield true(f"some run {words} CoT succeeds", len(rows) > 0)
        if rows:
            yield at_least(f"share of successful runs {words} CoT where the two coincide", coinciding(rows), 0.8)
        yield from (row({"CoT": cot, **each}) for each in rows)


@LEDGER.empirical(
    "fig1b",
    experiment="complexity",
    statement="Figure 1b",
    says="$k=3$: when CoT has learnt, its sparsest head has lower entropy than without CoT after as many samples: eq."
    " (1), and supervised rows",
)
def chain_makes_heads_sparse(records: Sequence[Any]):
    """Rows that are supervised only: eq. (1) is a minimum over all rows, which a longer text lowers by itself."""
    size, rows = size_of_both(records), []
    for record in runs.where(arm(records, True), lambda c: c.task.size == size):
        same = [
            r
            for r in arm(records, False)
            if (r.config.task.size, r.seed, r.config.learning_rate) == (size, record.seed, record.config.learning_rate)
        ]
        samples = record.final("hit") if record.final("hit") > 0 else record.config.budget
        found = {}
        for words, one in (("with", record), ("without", same[0])):
            for name in ("entropy", "step entropy", "mass"):
                values = [runs.value_at(one, f"{name} {head}", samples) for head in runs.head_names(one.config)]
                found[f"{name} {words} CoT"] = max(values) if name == "mass" else min(values)
        rows.append({"k": size, "seed": record.seed, "rate": record.config.learning_rate, "samples": samples, **found})
    for name in ("entropy", "step entropy"):
        lower = np.mean([each[f"{name} with CoT"] < each[f"{name} without CoT"] for each in rows])
        what = "eq. (1)" if name == "entropy" else "the mean entropy of supervised rows"
        yield at_least(f"share of runs where {what} is lower with CoT, paired by seed and rate", lower, 1.0)
    yield from map(row, rows)


@LEDGER.empirical(
    "fig2a",
    experiment="grid",
    statement="Figure 2a",
    says=r"for every number of layers and heads and $k \ge 2$, CoT needs fewer samples than no CoT (medians)",
)
def chain_helps_every_shape(records: Sequence[Any]):
    cells = runs.grouped(records, lambda c: (runs.shape(c), c.task.size))
    for ((layers, heads), size), group in cells.items():
        found = [runs.best_of_rates(arm(group, cot)) for cot in (True, False)]
        medians = [complexity.kaplan_meier(one).median().value for one in found]
        if size >= 2:
            yield true(f"CoT is faster, {layers}x{heads}, k={size}", medians[0] < medians[1])
        p = complexity.log_rank(*found)
        yield row({"layers": layers, "heads": heads, "k": size, "CoT": medians[0], "no CoT": medians[1], "p": p})
    yield note("a median is infinite where fewer than half of the runs succeed")


@LEDGER.empirical(
    "fig3a",
    experiment="long",
    statement="Figure 3a",
    says="1 layer, 1 head (quick: 4) with CoT learns every $k$, and samples grow slower than $k^{1.3}$ (95% interval)",
)
def many_bits_in_linear_samples(records: Sequence[Any]):
    chosen = arm(records, True)
    for size, group in runs.grouped(chosen, lambda c: c.task.size).items():
        found = runs.best_of_rates(group)
        yield at_least(f"share of seeds that learn, k={size}", found.reached / len(found.times), 1.0)
    observed = runs.growth(chosen)
    if runs.fittable(observed):
        power = fits.slope_estimate("power", observed, runs.REPEATS)
        yield at_most("exponent of k, upper end of its interval", power.high, EXPONENT)
        yield note(f"samples ~ k^p, p = {power}; AIC {aic_text(observed)}")
    yield from map(row, complexity_rows(chosen))


@LEDGER.empirical(
    "sec4.1-n100-nocot",
    experiment="long",
    statement="Section 4.1",
    says=r"without CoT no run learns $k \ge 4$ within the budget (the paper: $n=100$, $10^7$ samples)",
)
def four_bits_are_too_many(records: Sequence[Any]):
    hard = runs.where(arm(records, False), lambda c: c.task.size >= 4)
    config = hard[0].config
    yield at_most("runs that learn k >= 4", runs.hits(hard).reached, 0)
    yield note(f"n={config.task.bits}, budget {config.budget:,}, {len(hard)} runs")
    yield from map(row, complexity_rows(arm(records, False)))


# --- where attention goes ---------------------------------------------------------------------------------------------


def head_row(record: Any) -> dict[str, Any]:
    """The final facts of every head as short lists, layer by layer."""
    row: dict[str, Any] = {"seed": record.seed, "initial scale": record.config.model.std}
    for name in ("agreement", "mass", "step entropy", "entropy", "unsunk entropy"):
        layers = runs.final_heads(record, name)
        row[name] = " | ".join(" ".join(f"{value:.2f}" for value in layer) for layer in layers)
    return row | {"exact match": record.final("exact match")}


@LEDGER.empirical(
    "fig3b",
    experiment="attention",
    statement="Figure 3b",
    says="1 layer, 1 head: step $i$ attends most to $S[i]$ on at least 0.95 of the steps, in at least 2/3 of the seeds",
)
def steps_look_at_their_bit(records: Sequence[Any]):
    chosen = runs.where(records, lambda c: runs.shape(c) == (1, 1))
    standard = runs.where(chosen, lambda c: c.model.std <= 0.05)
    share = np.mean([runs.final_heads(record, "agreement")[0, 0] >= AGREEMENT for record in standard])
    yield at_least("share of seeds with the argmax on S[i]", share, SEEDS)
    yield note("judged at GPT-2's initial scale; a larger one learns as well with attention that cannot be read")
    yield from (row(head_row(record)) for record in chosen)


@LEDGER.empirical(
    "fig8",
    experiment="attention",
    statement="Figure 8",
    says="2 layers: attention is sparser in layer 1 than in layer 2, which is nearly uniform (entropy over 0.9), in 2/3"
    " of the seeds",
)
def first_layer_is_sparse(records: Sequence[Any]):
    deep = runs.where(records, lambda c: c.model.layers == 2)
    entropies = np.array([runs.final_heads(record, "step entropy").mean(axis=1) for record in deep])
    yield at_least(
        "share of seeds with layer 1 sparser than layer 2", np.mean(entropies[:, 0] < entropies[:, 1]), SEEDS
    )
    yield at_least("share of seeds with layer 2 above 0.9", np.mean(entropies[:, 1] > UNIFORM), SEEDS)
    yield from (row(head_row(record)) for record in deep)
