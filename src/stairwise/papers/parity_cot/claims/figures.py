"""The empirical claims: what Figures 1 to 3 and 8 say, with pass lines written down before the runs.

A run that spends its budget is censored; where several learning rates were tried, each seed counts at its best one,
and the details list every rate.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract import Verdict
from stairwise.measure import complexity, fits
from stairwise.papers.parity_cot import runs
from stairwise.papers.parity_cot.claims.ledger import LEDGER
from stairwise.papers.parity_cot.claims.reading import NO, arm, combined, complexity_rows

GROWTH, EXPONENT = 4.0, 1.3  # no CoT: at least this factor per bit; CoT: at most this power of k
AGREEMENT, SEEDS = 0.95, 2 / 3  # Figure 3b: argmax = secret on this share of steps, in this share of seeds


def growth_checks(records: Sequence[Any]) -> dict[str, Verdict]:
    """Growth of the samples with k in both arms, each with the end of its 95% interval that is nearer the line."""
    checks = {}
    with_chain, without = runs.growth(arm(records, True)), runs.growth(arm(records, False))
    if runs.fittable(with_chain):
        power = fits.slope_estimate("power", with_chain, runs.REPEATS)
        note = f"with CoT samples ~ k^p, p = {power}; AIC {aic_text(with_chain)}"
        checks["exponent with CoT, upper end"] = Verdict.at_most(power.high, EXPONENT, note=note, **NO)
    else:
        checks["exponent with CoT"] = Verdict("not-reproduced", note="with CoT fewer than two sizes are learnt")
    if runs.fittable(without):
        rate = fits.slope_estimate("exponential", without, runs.REPEATS)
        factor = runs.factor(rate)
        note = f"without CoT x {factor} per bit; AIC {aic_text(without)}"
        checks["growth without CoT, lower end"] = Verdict.at_least(factor.low, GROWTH, note=note, **NO)
    else:
        checks["growth without CoT"] = Verdict(
            "reported", note="without CoT fewer than two sizes are learnt: no factor"
        )
    return checks


def aic_text(observed: Any) -> str:
    return ", ".join(f"{one.law} {one.aic:.1f}" for one in fits.compare(observed))


def grows_exponentially_only_without(records: Sequence[Any]) -> Verdict:
    """Both growth laws, from every seed at its best rate."""
    return combined(growth_checks(records), complexity_rows(records))


for figure_id, experiment, what in (
    ("fig1a", "complexity", "4 layers, 4 heads (quick: 1 layer)"),
    ("fig2c", "complexity", "4 layers, 4 heads, best of three rates"),
):
    LEDGER.empirical(
        figure_id,
        experiment=experiment,
        says=f"{what}: samples grow by over 4 per bit without CoT (95% interval), slower than k^1.3 with it",
    )(grows_exponentially_only_without)


@LEDGER.empirical(
    "fig2b",
    experiment="shallow",
    says="1 layer, 1 head: the same growth laws, and with CoT half of the seeds or more learn every k (best rate)",
)
def one_head_suffices_with_chain(records: Sequence[Any]) -> Verdict:
    by_size = runs.grouped(arm(records, True), lambda c: c.task.size)
    shares = {size: runs.best_of_rates(group) for size, group in by_size.items()}
    worst = min(found.reached / len(found.times) for found in shares.values())
    text = ", ".join(f"k={size}: {found.reached} of {len(found.times)}" for size, found in shares.items())
    checks = growth_checks(records)
    checks["seeds that learn with CoT"] = Verdict.at_least(worst, 0.5, note=f"with CoT {text}", **NO)
    return combined(checks, complexity_rows(records))


@LEDGER.empirical(
    "fig1b",
    experiment="complexity",
    says="k=3: when CoT has learnt, its sparsest head has lower entropy (eq. 1) than without CoT after as many samples",
)
def chain_makes_heads_sparse(records: Sequence[Any]) -> Verdict:
    sizes = [{record.config.task.size for record in arm(records, cot)} for cot in (True, False)]
    shared = sorted(sizes[0] & sizes[1])
    size = 3 if 3 in shared else shared[-1]
    rows = []
    for record in runs.where(arm(records, True), lambda c: c.task.size == size):
        same = [
            r
            for r in arm(records, False)
            if (r.config.task.size, r.seed, r.config.rate) == (size, record.seed, record.config.rate)
        ]
        samples = record.final("hit") if record.final("hit") > 0 else record.config.budget
        found = {}
        for words, one in (("with", record), ("without", same[0])):
            for name in ("entropy", "step entropy", "mass"):
                values = [runs.value_at(one, f"{name} {head}", samples) for head in runs.head_names(one.config)]
                found[f"{name} {words} CoT"] = max(values) if name == "mass" else min(values)
        rows.append({"k": size, "seed": record.seed, "rate": record.config.rate, "samples": samples, **found})
    lower = np.mean([row["entropy with CoT"] < row["entropy without CoT"] for row in rows])
    note = "share of runs, paired by seed and rate; the rows of a chain are more, so its minimum is taken over more"
    return Verdict.at_least(float(lower), 1.0, details=tuple(rows), note=note, **NO)


@LEDGER.empirical(
    "fig2a",
    experiment="grid",
    says="for every number of layers and heads and k >= 2, CoT needs fewer samples than no CoT (medians)",
)
def chain_helps_every_shape(records: Sequence[Any]) -> Verdict:
    rows = []
    cells = runs.grouped(records, lambda c: (runs.shape(c), c.task.size))
    for ((layers, heads), size), group in cells.items():
        found = [runs.best_of_rates(arm(group, cot)) for cot in (True, False)]
        medians = [complexity.kaplan_meier(one).median().value for one in found]
        rows.append(
            {
                "layers": layers,
                "heads": heads,
                "k": size,
                "CoT": medians[0],
                "no CoT": medians[1],
                "p": complexity.log_rank(*found),
                "CoT is faster": medians[0] < medians[1],
            }
        )
    hard = [row for row in rows if row["k"] >= 2]
    share = float(np.mean([row["CoT is faster"] for row in hard]))
    note = "a median is infinite where fewer than half of the runs succeed"
    return Verdict.at_least(share, 1.0, details=tuple(rows), note=note, **NO)


@LEDGER.empirical(
    "fig3a",
    experiment="long",
    says="1 layer, 1 head (quick: 4) with CoT learns every k, and samples grow slower than k^1.3 (95% interval)",
)
def many_bits_in_linear_samples(records: Sequence[Any]) -> Verdict:
    chosen = arm(records, True)
    by_size = runs.grouped(chosen, lambda c: c.task.size)
    best = {size: runs.best_of_rates(group) for size, group in by_size.items()}
    worst = min(one.reached / len(one.times) for one in best.values())
    checks = {"seeds that learn, smallest share over k": Verdict.at_least(worst, 1.0, **NO)}
    observed = runs.growth(chosen)
    if runs.fittable(observed):
        power = fits.slope_estimate("power", observed, runs.REPEATS)
        note = f"samples ~ k^p, p = {power}; AIC {aic_text(observed)}"
        checks["exponent, upper end"] = Verdict.at_most(power.high, EXPONENT, note=note, **NO)
    return combined(checks, complexity_rows(chosen))


@LEDGER.empirical(
    "sec4.1-n100-nocot",
    experiment="long",
    says="without CoT no run learns k >= 4 within the budget (the paper: n=100, 1e7 samples)",
)
def four_bits_are_too_many(records: Sequence[Any]) -> Verdict:
    hard = runs.where(arm(records, False), lambda c: c.task.size >= 4)
    config = hard[0].config
    note = f"n={config.task.inputs}, budget {config.budget:,}; runs that learn k >= 4, of {len(hard)}"
    return Verdict.at_most(
        runs.hits(hard).reached, 0, details=tuple(complexity_rows(arm(records, False))), note=note, **NO
    )


# --- where attention goes ---------------------------------------------------------------------------------------------


def head_row(record: Any) -> dict[str, Any]:
    """The final facts of every head as short lists, layer by layer."""
    row: dict[str, Any] = {"seed": record.seed, "initial scale": record.config.decoder.std}
    for name in ("agreement", "mass", "step entropy", "entropy", "unsunk entropy"):
        layers = runs.final_heads(record, name)
        row[name] = " | ".join(" ".join(f"{value:.2f}" for value in layer) for layer in layers)
    return row | {"exact match": record.final("exact match")}


@LEDGER.empirical(
    "fig3b",
    experiment="attention",
    says="1 layer, 1 head: step i attends most to S[i] on at least .95 of the steps, in at least 2/3 of the seeds",
)
def steps_look_at_their_bit(records: Sequence[Any]) -> Verdict:
    chosen = runs.where(records, lambda c: runs.shape(c) == (1, 1))
    standard = runs.where(chosen, lambda c: c.decoder.std <= 0.05)
    share = np.mean([runs.final_heads(record, "agreement")[0, 0] >= AGREEMENT for record in standard])
    note = "judged at GPT-2's initial scale; a larger one learns as well with attention that cannot be read"
    return Verdict.at_least(float(share), SEEDS, details=tuple(head_row(r) for r in chosen), note=note, **NO)


@LEDGER.empirical(
    "fig8",
    experiment="attention",
    says="2 layers: the steps' attention is sparser in layer 1 than in layer 2 (mean over heads), in 2/3 of the seeds",
)
def first_layer_is_sparse(records: Sequence[Any]) -> Verdict:
    deep = runs.where(records, lambda c: c.decoder.layers == 2)
    entropies = [runs.final_heads(record, "step entropy").mean(axis=1) for record in deep]
    share = np.mean([layers[0] < layers[1] for layers in entropies])
    return Verdict.at_least(float(share), SEEDS, details=tuple(head_row(record) for record in deep), **NO)
