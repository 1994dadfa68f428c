"""The empirical claims: the three panels of Figure 3, with pass lines written down before the runs."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from stairwise.lab.contract.checks import at_least, at_most, equal, hypothesis, note, row, skip_if, true
from stairwise.measure.complexity import log_rank, stratified_log_rank
from stairwise.measure.fits import Data, slope_estimate
from stairwise.papers.composition.claims.ledger import LEDGER
from stairwise.papers.composition.figures.after_steps import arms_of, hits, hops, takeoffs
from stairwise.papers.composition.theory.spectrum import gram_eigenvalue

LOSS = 1e-3  # a head has learned: loss below this, and every held-out answer right
PLATEAU = 0.02  # how near the plateau log(1+(N-1)e^-beta0) a head must come before its readout step
PAIRS = 1000  # held-out (sequence, position) pairs a head
# Figure 3 right, as registered: accuracy above 1/N that may still be chance, and the significance of the log-rank test
CHANCE, SIGNIFICANCE, RUNS = 0.05, 0.01, 16
LETTERS, LETTER_RUNS = (6, 8), 12  # `registered/letters.toml`
FEW, POOL_RUNS, MOST_LEARN = 30_000, 8, 6  # `registered/repetition.toml`
LOWEST, HIGHEST, ENOUGH = 0.5, 1.5, 3  # `registered/takeoff.toml`: the exponent, and sizes that are learnt


def _after(record: Any, name: str) -> dict[int, float]:
    """A metric after so many gradient steps; the soft stage goes on where the counting one stopped."""
    taken, values = record.series("steps taken")[1], record.series(name)[1]
    return {int(step): float(value) for step, value in zip(taken, values, strict=True)}


def _head_by_head(records: Sequence[Any], key_query_step: Callable[[int], int]):
    """Every head waits at log N, falls to the plateau at its own key-query step, and to 0 at its readout step."""
    for record in records:
        config = record.config
        N, tokens = config.task.alphabet, config.task.tokens
        plateau = math.log1p((N - 1) * math.exp(-config.beta0))
        for head, layer in enumerate(config.task.plan):
            name, step = f"{hops(layer.hops)}, seed {record.seed}", key_query_step(head)
            losses = _after(record, f"loss {hops(layer.hops)}")
            yield at_most(f"loss off log N before its step, {name}", abs(losses[step - 1] - math.log(N)), PLATEAU)
            yield at_most(f"loss off the plateau after its step, {name}", abs(losses[step] - plateau), PLATEAU)
            yield at_most(f"loss at the end, {name}", losses[max(losses)], LOSS)
            yield at_most(f"sup error at the end, {name}", record.final(f"sup error {hops(layer.hops)}"), LOSS)
            yield equal(f"exact match at the end, {name}", record.final(f"exact match {hops(layer.hops)}"), 1.0)
        yield at_least(f"held-out answers per head, seed {record.seed}", config.test_examples * tokens, PAIRS)


@LEDGER.empirical(
    "fig3-left",
    experiment="curriculum",
    statement="Figure 3, left",
    says=(
        r"Algorithm 1 at $k = 16$, $N = 5$: every head falls from $\log N$ to the plateau and to 0 at its own two "
        r"steps, exact match 1"
    ),
    hypotheses={"k = 16, N = 5": lambda config: (config.task.blocks, config.task.alphabet) == (16, 5)},
)
def curriculum_learns_head_by_head(records: Sequence[Any]):
    yield from _head_by_head(records, lambda head: 2 * head + 1)


@LEDGER.empirical(
    "fig3-mid",
    experiment="mixture",
    statement="Figure 3, middle",
    says=(
        r"Algorithm 2 at $k = 8$, $N = 5$: head $\ell$ falls to the plateau at key-query step $\ell$, all heads to 0 "
        r"at the readout step"
    ),
    hypotheses={"k = 8, N = 5": lambda config: (config.task.blocks, config.task.alphabet) == (8, 5)},
)
def mixture_learns_one_layer_a_step(records: Sequence[Any]):
    yield from _head_by_head(records, lambda head: head + 1)


def registered_sizes(config: Any, steps: int = 12_000, rate: float = 5e-4) -> dict[str, bool]:
    """The sizes of `registered/encoder.toml` and, with other steps and rate, of `registered/waiting.toml`."""
    model = config.model
    return {
        "one query per sequence": config.supervise == "one",
        "k = 4, N = 5": (config.task.blocks, config.task.alphabet) == (4, 5),
        "M = 100,000": config.samples == 100_000,
        f"{steps:,} steps of 512 at a constant rate of {rate:g}": (
            (config.steps, config.batch, config.learning_rate, config.final_rate) == (steps, 512, rate, 1.0)
        ),
        "4 layers of width 256 with 8 heads": (model.layers, model.width, model.heads) == (4, 256, 8),
        "512 fresh sequences per test": config.test_examples == 512,
    }


@LEDGER.empirical(
    "fig3-right",
    experiment="encoder",
    statement="Figure 3, right",
    says=(
        r"a transformer learns 4 hops sooner from 1, 2 and 4 hops than from 4 alone (log-rank test, $p < 0.01$), and "
        r"from 4 alone every run ends below $1/N + 0.05$"
    ),
    hypotheses=registered_sizes,
)
def mixture_helps_a_standard_transformer(records: Sequence[Any]):
    yield from mixture_ahead(records)


@LEDGER.empirical(
    "fig3-right-waiting",
    experiment="waiting",
    statement="Figure 3, right",
    says=(
        r"the same at a rate of $2 \cdot 10^{-4}$ and 14,000 steps: 4 hops are learnt sooner from 1, 2 and 4 hops than "
        r"from 4 alone (log-rank test, $p < 0.01$), and from 4 alone every run ends below $1/N + 0.05$"
    ),
    hypotheses=partial(registered_sizes, steps=14_000, rate=2e-4),
)
def mixture_helps_at_a_smaller_rate(records: Sequence[Any]):
    yield from mixture_ahead(records)


def mixture_ahead(records: Sequence[Any]):
    """The registered lines: 4 hops alone stay at chance, and the mixture learns them sooner."""
    mixed, alone = arms_of(records)
    yield skip_if(not mixed or not alone, "one arm only: nothing to compare")
    if not mixed or not alone:
        return
    yield hypothesis("16 runs per arm", len(mixed) == len(alone) == RUNS)
    hop = max(records[0].config.hops)
    chance = 1 / records[0].config.task.alphabet + CHANCE
    yield at_most("accuracy at the end, 4 hops only", [record.final(f"accuracy {hop}") for record in alone], chance)
    ahead, behind = hits(mixed, hop), hits(alone, hop)
    yield at_most("log-rank p of the two arms", log_rank(ahead, behind), SIGNIFICANCE)
    yield true("the mixture is ahead", ahead.reached > behind.reached)
    for arm, runs, reached in (("1, 2, 4 hops", mixed, ahead.reached), ("4 hops only", alone, behind.reached)):
        left = sum(record.final(f"accuracy {hop}") > chance for record in runs)
        yield row({"trained on": arm, "runs": len(runs), "learnt 4 hops": reached, "above chance at the end": left})
    yield note(
        f"4 hops are learnt in {ahead.reached} of {len(mixed)} runs on the mixture and in {behind.reached} of"
        f" {len(alone)} on 4 hops alone"
    )


def sizes_of_letters(config: Any) -> dict[str, bool]:
    """Those of `registered/letters.toml`."""
    sizes = registered_sizes(config, 14_000, 2e-4)
    named = {"k = 4, N = 6 or 8": config.task.blocks == 4 and config.task.alphabet in LETTERS}
    return named | {name: met for name, met in sizes.items() if name != "k = 4, N = 5"}


@LEDGER.empirical(
    "fig3-right-letters",
    experiment="letters",
    statement="ours",
    says=(
        r"beyond the paper: at $N = 6$ and 8 too, 4 hops are learnt sooner from 1, 2 and 4 hops than from 4 alone "
        r"(log-rank test within each $N$, $p < 0.01$), and from 4 alone every run ends below $1/N + 0.05$"
    ),
    hypotheses=sizes_of_letters,
)
def mixture_helps_with_more_letters(records: Sequence[Any]):
    pairs = []
    for N in LETTERS:
        mixed, alone = arms_of([record for record in records if record.config.task.alphabet == N])
        yield skip_if(not mixed or not alone, f"an arm is missing at N = {N}: nothing to compare")
        if not mixed or not alone:
            return
        yield hypothesis(f"12 runs per arm, N = {N}", len(mixed) == len(alone) == LETTER_RUNS)
        hop, chance = max(mixed[0].config.hops), 1 / N + CHANCE
        yield at_most(
            f"accuracy at the end, 4 hops only, N = {N}", [record.final(f"accuracy {hop}") for record in alone], chance
        )
        pairs.append((hits(mixed, hop), hits(alone, hop)))
        for arm, runs, reached in zip(("1, 2, 4 hops", "4 hops only"), (mixed, alone), pairs[-1], strict=True):
            left = sum(record.final(f"accuracy {hop}") > chance for record in runs)
            yield row({"N": N, "trained on": arm, "runs": len(runs), "learnt 4 hops": reached.reached,
                       "above chance at the end": left})  # fmt: skip
    yield at_most("log-rank p of the two arms, within each N", stratified_log_rank(pairs), SIGNIFICANCE)
    yield true("the mixture is ahead", sum(a.reached for a, _ in pairs) > sum(b.reached for _, b in pairs))


def sizes_of_pools(config: Any) -> dict[str, bool]:
    """Those of `registered/repetition.toml`."""
    sizes = registered_sizes(config, 14_000, 2e-4)
    return {name: met for name, met in sizes.items() if name != "M = 100,000"}


@LEDGER.empirical(
    "fig3-right-pools",
    experiment="repetition",
    statement="ours",
    says=(
        r"beyond the paper: where no example comes twice, the mixture learns 4 hops in 6 of 8 runs or more, sooner than"
        r" from 30,000 examples and than 4 hops alone (log-rank tests, $p < 0.01$), and from 4 alone every run ends"
        r" below $1/N + 0.05$"
    ),
    hypotheses=sizes_of_pools,
)
def repeated_examples_are_memorised(records: Sequence[Any]):
    mixed, alone = arms_of(records)
    fresh = [record for record in mixed if record.config.samples == 0]
    few = [record for record in mixed if record.config.samples == FEW]
    yield skip_if(not (fresh and few and alone), "an arm is missing: nothing to compare")
    if not (fresh and few and alone):
        return
    yield hypothesis("8 runs per arm", len(fresh) == len(few) == len(alone) == POOL_RUNS)
    hop = max(records[0].config.hops)
    chance = 1 / records[0].config.task.alphabet + CHANCE
    yield at_most("accuracy at the end, 4 hops only", [record.final(f"accuracy {hop}") for record in alone], chance)
    found = {"fresh": hits(fresh, hop), "30,000 examples": hits(few, hop), "4 hops only": hits(alone, hop)}
    ahead = found["fresh"]
    yield at_least("runs that learn 4 hops from fresh examples", ahead.reached, MOST_LEARN)
    for name in ("30,000 examples", "4 hops only"):
        yield at_most(f"log-rank p of fresh examples and {name}", log_rank(ahead, found[name]), SIGNIFICANCE)
        yield true(f"fresh examples are ahead of {name}", ahead.reached > found[name].reached)
    for samples in sorted({record.config.samples for record in mixed}):
        runs = [record for record in mixed if record.config.samples == samples]
        yield row({"trained on": f"{samples:,} examples" if samples else "fresh examples", "runs": len(runs),
                   "learnt 4 hops": hits(runs, hop).reached})  # fmt: skip


@LEDGER.empirical(
    "takeoff",
    experiment="takeoff",
    statement="ours",
    says=(
        r"beyond the paper: the smallest pool of labels from which $k$ hops alone are learnt grows like "
        r"$N(N-1)^{2k-1}$: exponent between 0.5 and 1.5, with 1 in its interval"
    ),
    of=(gram_eigenvalue,),
)
def labels_needed_follow_the_best_query(records: Sequence[Any]):
    sizes = takeoffs(records)
    for each in sizes:
        yield row(
            {
                "k": each.k,
                "N": each.N,
                "N(N-1)^(2k-1)": each.labels,
                "smallest pool of half of the runs": each.pool,
                "learn from fresh data": f"{sum(each.learnt.get(0, []))} of {len(each.learnt.get(0, []))}",
            }
        )
    enough = sum(math.isfinite(each.pool) for each in sizes)
    yield at_least("sizes at which half of the runs learn from some pool", enough, ENOUGH)
    if enough < ENOUGH:
        return
    predicted = np.repeat([each.labels for each in sizes], [len(each.smallest.times) for each in sizes])
    pools, late = (np.concatenate([getattr(each.smallest, name) for each in sizes]) for name in ("times", "censored"))
    slope = slope_estimate("power", Data.of(predicted, pools, late))
    yield at_least("exponent", slope.value, LOWEST)
    yield at_most("exponent", slope.value, HIGHEST)
    yield at_most("lower end of its interval", slope.low, 1.0)
    yield at_least("upper end of its interval", slope.high, 1.0)
