"""Samples until every held-out sequence is right, against the size of the secret (Figures 1a, 2b, 2c, 3a)."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.plots import COLUMN, colour, subplots, titled
from stairwise.measure.complexity import kaplan_meier
from stairwise.measure.fits import compare, slope_estimate
from stairwise.papers.parity_cot.figures.run_dots import (
    COT,
    NO_COT,
    chain_text,
    median_line,
    run_dots,
    setting,
    success_curve,
    triangle_key,
)
from stairwise.papers.parity_cot.runs import REPEATS, best_of_rates, factor, fittable, grouped, growth, hits, where

ARMS = ((True, COT, "power"), (False, NO_COT, "exponential"))


def law_text(law: str, estimate: Any) -> str:
    if law == "exponential":
        value, low, high = factor(estimate)
        return f"x {value:.1f} [{low:.1f}, {high:.1f}] per bit"
    return f"~ k^{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


def draw_arm(axes: Any, records: Sequence[Any], cot: bool, hue: str, law: str) -> None:
    """Every seed at its best rate, the medians, and the fitted law."""
    chosen = where(records, lambda config: config.task.cot == cot)
    if not chosen:
        return
    by_size = grouped(chosen, lambda config: config.task.size)
    best = {size: best_of_rates(group) for size, group in by_size.items()}
    for size, found in best.items():
        run_dots(axes, size, found, hue, 0.08 + 0.02 * size)
    observed, label = growth(chosen), chain_text(cot)
    if fittable(observed):
        fitted = next(one for one in compare(observed) if one.law == law)
        estimate = slope_estimate(law, observed, repeats=REPEATS)
        x = np.linspace(min(by_size), max(by_size), 100)
        axes.plot(x, fitted.predict(x), color=hue, linestyle=":", linewidth=1)
        label = f"{label}: {law_text(law, estimate)}"
    median_line(axes, list(best), list(best.values()), hue, label=label)
    if not any(math.isfinite(kaplan_meier(found).median().value) for found in best.values()):
        axes.plot([], [], color=hue, label=label)


def reach(records: Sequence[Any]) -> str:
    """The finding: the largest k at which half of the seeds learn at their best rate, with CoT and without."""
    found = []
    for cot in (True, False):
        by_size = grouped(
            where(records, lambda config, cot=cot: config.task.cot == cot), lambda config: config.task.size
        )
        best = {size: best_of_rates(group) for size, group in by_size.items()}
        learnt = [size for size, runs in best.items() if 2 * runs.reached >= len(runs.times)]
        upto = f"up to k = {max(learnt)}" if learnt else "at no k"
        found += [f"{upto} {chain_text(cot)} (tried: {min(best)} to {max(best)})"] if best else []
    return f"Half of the seeds or more learn {', '.join(found)}"


def floors(axes: Any, records: Sequence[Any]) -> None:
    """What elimination over GF(2) needs, and what the number of secrets alone asks for."""
    n = records[0].config.task.bits
    sizes = range(1, max(record.config.task.size for record in records) + 1)
    axes.axhline(n + 1.6, color="grey", linestyle="--", linewidth=0.8, label="elimination over GF(2): n + 1.6")
    asked = [max(1.0, math.log2(math.comb(n, size))) for size in sizes]
    axes.plot(sizes, asked, color="grey", linestyle=":", linewidth=0.8, label="log2 of the number of secrets")


def against_size(records: Sequence[Any]):
    """Figure 1a: with CoT the samples grow slowly with k, without exponentially."""
    figure, axes = subplots(figsize=(1.35 * COLUMN, 3.0))
    for cot, hue, law in ARMS:
        draw_arm(axes, records, cot, hue, law)
    floors(axes, records)
    triangle_key(axes)
    axes.set(
        yscale="log",
        xlabel="secret bits k",
        ylabel="samples until all is right",
    )
    titled(figure, reach(records), setting(records))
    axes.set_xticks(sorted({record.config.task.size for record in records}))
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, fontsize=6)
    return figure


def every_rate(records: Sequence[Any]):
    """Figures 2b and 2c: every rate and seed, without CoT on the left and with it on the right; lines: best rate."""
    figure, panels = subplots(1, 2, figsize=(2 * COLUMN, 2.7), sharey=True)
    rates = sorted({record.config.learning_rate for record in records})
    for axes, (cot, _, law) in zip(panels, reversed(ARMS), strict=True):
        chosen = where(records, lambda config, cot=cot: config.task.cot == cot)
        for number, rate in enumerate(rates):
            own = where(chosen, lambda config, rate=rate: config.learning_rate == rate)
            for place, (size, group) in enumerate(grouped(own, lambda config: config.task.size).items()):
                at = size + 0.22 * (number - (len(rates) - 1) / 2)
                run_dots(axes, at, hits(group), colour(number), 0.06, f"rate {rate:g}" if place == 0 else None)
        draw_arm_line(axes, chosen, law)
        axes.set(yscale="log", xlabel="secret bits k", title=chain_text(cot))
        axes.set_xticks(sorted({record.config.task.size for record in chosen}))
    triangle_key(panels[0])
    panels[0].set_ylabel("samples until all is right")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(rates) + 1)
    titled(figure, reach(records), setting(records))
    return figure


def draw_arm_line(axes: Any, records: Sequence[Any], law: str) -> None:
    """The median of the best rate, and the growth law in words."""
    by_size = grouped(records, lambda config: config.task.size)
    median_line(axes, list(by_size), [best_of_rates(group) for group in by_size.values()], "black", linewidth=1)
    observed = growth(records)
    if fittable(observed):
        text = f"best rate of each seed: {law_text(law, slope_estimate(law, observed, repeats=REPEATS))}"
        axes.text(0.98, 0.03, text, transform=axes.transAxes, ha="right", fontsize=6)


def success(records: Sequence[Any]):
    """Kaplan-Meier: the share of runs (every rate is a run) that have succeeded after so many samples."""
    figure, panels = subplots(1, 2, figsize=(2 * COLUMN, 2.5), sharey=True)
    for axes, (cot, _, _) in zip(panels, ARMS, strict=True):
        chosen = where(records, lambda config, cot=cot: config.task.cot == cot)
        for number, (size, group) in enumerate(grouped(chosen, lambda config: config.task.size).items()):
            budget, label = group[0].config.budget, f"k={size} ({len(group)} runs)"
            success_curve(axes, hits(group), budget, colour(number), label)
        axes.set(xscale="log", xlabel="samples", ylim=(-0.03, 1.03), title=chain_text(cot))
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize=6)
    panels[0].set_ylabel("share of runs that have succeeded")
    found = []
    for cot, _, _ in ARMS:
        runs = hits(where(records, lambda config, cot=cot: config.task.cot == cot))
        found += [f"{runs.reached} of {len(runs.times)} runs learn {chain_text(cot)}"] if len(runs.times) else []
    titled(figure, ", ".join(found), f"bands: 95 % limits; {setting(records)}")
    return figure


def long(records: Sequence[Any]):
    """Figure 3a: many secret bits with CoT on a straight scale; Section 4.1: few without it."""
    figure, (left, right) = subplots(1, 2, figsize=(2 * COLUMN, 3.0))
    chosen = where(records, lambda config: config.task.cot)
    by_size = grouped(chosen, lambda config: config.task.size)
    gap = min(np.diff(list(by_size)), default=1)
    rates = sorted({record.config.learning_rate for record in chosen})
    for number, rate in enumerate(rates):
        own = where(chosen, lambda config, rate=rate: config.learning_rate == rate)  # not every size has every rate
        for place, (size, group) in enumerate(grouped(own, lambda config: config.task.size).items()):
            run_dots(
                left,
                size + 0.15 * gap * (number - (len(rates) - 1) / 2),
                hits(group),
                colour(number + 2),
                0.04 * gap,
                f"rate {rate:g}" if place == 0 else None,
            )
    observed, laws = growth(chosen), ""
    if fittable(observed):
        fits = {one.law: one for one in compare(observed)}
        x = np.linspace(min(by_size), max(by_size), 100)
        left.plot(x, fits["linear"].predict(x), color=COT, label="linear fit, best rates")
        left.set_title(law_text("power", slope_estimate("power", observed, repeats=REPEATS)))
        laws = "; AIC: " + ", ".join(f"{law} {one.aic:.1f}" for law, one in fits.items())
    left.set(xlabel="secret bits k, with CoT", ylabel=f"samples to accuracy {records[0].config.threshold:g}")
    left.set_ylim(bottom=0)
    left.yaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}k")
    draw_arm(right, records, False, NO_COT, "exponential")
    triangle_key(right)
    right.set(yscale="log", xlabel="secret bits k, without CoT", ylabel="samples")
    right.set_xticks(sorted({r.config.task.size for r in where(records, lambda config: not config.task.cot)}))
    left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.3), ncols=2, fontsize=6)
    right.legend(loc="upper center", bbox_to_anchor=(0.5, -0.3), fontsize=6)
    titled(figure, reach(records), setting(records) + laws)
    return figure
