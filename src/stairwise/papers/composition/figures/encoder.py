"""The standard transformer: mixtures against single hops, few examples against many."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.plots import COLUMN, DASHES, all_seeds, colour, count_axis, grouped, subplots, titled
from stairwise.measure.complexity import kaplan_meier, log_rank
from stairwise.papers.composition.figures.after_steps import LEARNT, arms_of, hits, hops, size, takeoffs

ABOVE = 0.05  # accuracy beyond 1/N that is called above chance


def describe(config: Any) -> str:
    return f"{size(config)}; {config.model.layers} layers of width {config.model.width}, batch {config.batch}"


def mix(records: Sequence[Any]):
    """Figure 3 right: accuracy at the hardest hop run by run, what the mixture learns of the others, and when."""
    config, mixed_runs, alone = records[0].config, *arms_of(records)
    hardest = max(hop for record in records for hop in record.config.hops)
    figure, (left, middle, right) = subplots(1, 3, figsize=(2.2 * COLUMN, 2.9))
    for number, (runs, name) in enumerate(((mixed_runs, "mixture"), (alone, f"{hops(hardest)} only"))):
        run_by_run(left, runs, hardest, number, name)
        survival(middle, runs, hardest, number, name)
    for place, hop in enumerate(hop for record in mixed_runs[:1] for hop in record.config.hops):
        runs = [record.series(f"accuracy {hop}") for record in mixed_runs]
        all_seeds(right, runs, hops(hop), colour(place + 2), DASHES[place])
    for axes in (left, right):
        axes.axhline(1 / config.task.alphabet, color="grey", linestyle=":", linewidth=0.8)
        axes.set(xlabel="step", ylabel="held-out accuracy", ylim=(0, 1.03))
    left.set_title(f"{hops(hardest)}, run by run")
    middle.set(xlabel="step", ylabel=f"share of runs at {LEARNT:g} or above", ylim=(-0.02, 1.03))
    middle.set_title(f"runs that have learnt {hops(hardest)}")
    right.set_title("mixture, all hops")
    for axes in (left, middle, right):
        count_axis(axes)
    for axes in (left, middle, right):
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=1 if axes is middle else 3, fontsize=6)
    titled(
        figure,
        finding(mixed_runs, alone, hardest),
        f"{describe(config)}; {len(alone or mixed_runs)} seeds; dotted: chance",
    )
    return figure


def run_by_run(axes: Any, runs: Sequence[Any], hop: int, number: int, name: str) -> None:
    """A line for each run: it learns a hop or does not, and quartiles between the two would show what no run does."""
    label: str | None = name
    for record in runs:
        style = {"color": colour(number), "linestyle": DASHES[number], "linewidth": 0.8, "alpha": 0.8}
        axes.plot(*record.series(f"accuracy {hop}"), label=label, **style)
        label = None


def survival(axes: Any, runs: Sequence[Any], hop: int, number: int, name: str) -> None:
    """The share of runs that have learnt a hop, with its limits."""
    if not runs:
        return
    reached = hits(runs, hop)
    end = max(float(record.series(f"accuracy {hop}")[0][-1]) for record in runs)
    steps, share, low, high = success_steps(kaplan_meier(reached), end)
    axes.fill_between(steps, low, high, step="post", color=colour(number), alpha=0.15, linewidth=0)
    said = f"{name}: {reached.reached} of {len(runs)}"
    axes.step(steps, share, where="post", color=colour(number), linestyle=DASHES[number], label=said)


def letters(records: Sequence[Any]):
    """Figure 3 right at several N: accuracy at the hardest hop run by run at each, and when it is learnt."""
    sizes = grouped(records, lambda record: record.config.task.alphabet)
    hardest = max(hop for record in records for hop in record.config.hops)
    figure, panels = subplots(1, len(sizes) + 1, figsize=(0.75 * COLUMN * (len(sizes) + 1), 2.9))
    *each, last = panels
    found = []
    for place, (axes, N) in enumerate(zip(each, sorted(sizes), strict=True)):
        mixed, alone = arms_of(sizes[N])
        for number, (runs, name) in enumerate(((mixed, "mixture"), (alone, f"{hops(hardest)} only"))):
            run_by_run(axes, runs, hardest, number, name)
            survival(last, runs, hardest, 2 * place + number, f"N={N}, {name}")
        axes.axhline(1 / N, color="grey", linestyle=":", linewidth=0.8)
        axes.set(xlabel="step", ylabel="held-out accuracy", ylim=(0, 1.03), title=f"{hops(hardest)}, N={N}, run by run")
        counts = [f"{hits(runs, hardest).reached} of {len(runs)}" if runs else "none" for runs in (mixed, alone)]
        found.append(f"in {counts[0]} runs on the mixture at N={N} and in {counts[1]} on {hops(hardest)} alone")
    last.set(xlabel="step", ylabel=f"share of runs at {LEARNT:g} or above", ylim=(-0.02, 1.03))
    last.set_title(f"runs that have learnt {hops(hardest)}")
    for axes in panels:
        count_axis(axes)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, fontsize=6)
    seeds, config = len({record.seed for record in records}), records[0].config
    titled(
        figure,
        f"{hops(hardest)} are learnt " + ",\n".join(found),
        f"k={config.task.blocks}; {config.model.layers} layers of width {config.model.width}, batch {config.batch};"
        f" {seeds} seed{'s' if seeds != 1 else ''}; dotted: chance",
    )
    return figure


def success_steps(curve: Any, end: float) -> tuple[np.ndarray, ...]:
    """A success curve from step 0 to the last one: (steps, share, low, high)."""
    steps = np.concatenate([[0.0], curve.times, [end]])
    return steps, *(np.concatenate([[0.0], part, part[-1:]]) for part in (curve.success, curve.low, curve.high))


def finding(mixed_runs: Sequence[Any], alone: Sequence[Any], hop: int) -> str:
    """What the two arms show, in words and with the log-rank test."""
    if not mixed_runs or not alone:
        return f"{hops(hop)}: one arm only"
    config, ahead, behind = mixed_runs[0].config, hits(mixed_runs, hop), hits(alone, hop)
    chance = 1 / config.task.alphabet + 0.05
    left, stayed = (sum(record.final(f"accuracy {hop}") > chance for record in runs) for runs in (mixed_runs, alone))
    p = log_rank(ahead, behind)
    return (
        f"{hops(hop)} are learnt in {ahead.reached} of {len(mixed_runs)} runs on the mixture ({left} leave chance) and"
        f" in {behind.reached} of {len(alone)} on {hops(hop)} alone ({stayed} leave it): log-rank p = {p:.2g}"
    )


def pools(records: Sequence[Any]):
    """Accuracy on every trained hop by the number of distinct examples; last, how the hardest hop ends."""
    mixed, _ = arms_of(records)
    config = (mixed or records)[0].config
    hardest = config.hops[-1]
    arms = grouped(records, lambda record: (record.config.samples, record.config.hops))
    ordered = sorted(arms, key=lambda arm: (-len(arm[1]), arm[0] or float("inf")))  # the hardest hop alone comes last

    def told(arm: tuple[int, tuple[int, ...]], short: bool = False) -> str:
        samples, hopped = arm
        count = (EngFormatter(sep="")(samples) if short else f"{samples:,} examples") if samples else "fresh"
        alone = "" if hopped == config.hops else (f",\n{hardest} only" if short else f", {hops(hardest)} only")
        return f"{count}{'' if samples or short else ' examples'}{alone}"

    from matplotlib.ticker import EngFormatter

    count = len(config.hops) + 1
    across = min(2, count)
    down = -(-count // across)
    figure, grid = subplots(down, across, figsize=(COLUMN * across, 2.4 * down + 0.2), sharey=True, squeeze=False)
    *panels, map_ = grid.flat[:count]
    for axes in grid.flat[count:]:
        axes.axis("off")
    for number, arm in enumerate(ordered):
        style = {"color": colour(number), "linestyle": DASHES[number % len(DASHES)]}
        for axes, hop in zip(panels, config.hops, strict=True):
            label: str | None = told(arm)
            for record in arms[arm]:
                # a run learns a hop or does not: quartiles between the two would show what no run does
                axes.plot(*record.series(f"accuracy {hop}"), linewidth=0.9, label=label, **style)
                label = None
        ends = [record.final(f"accuracy {hardest}") for record in arms[arm]]
        spread = [number + 0.12 * (place - (len(ends) - 1) / 2) for place in range(len(ends))]
        map_.plot(spread, ends, "o", color=colour(number), alpha=0.8)
        map_.text(number, 1.06, f"{sum(end > LEARNT for end in ends)}/{len(ends)}", ha="center", fontsize=7)
    for axes, hop in zip(panels, config.hops, strict=True):
        axes.set(xlabel="step", title=hops(hop))
        count_axis(axes)
    for axes in (*panels, map_):
        axes.axhline(1 / config.task.alphabet, color="grey", linestyle=":", linewidth=0.8)
    map_.set(xlabel=f"examples (above: runs over {LEARNT:g})", title=f"{hops(hardest)}, at the end")
    map_.set_xticks(range(len(ordered)), [told(arm, short=True) for arm in ordered])
    for row in grid:
        row[0].set(ylabel="held-out accuracy", ylim=(0, 1.16))
    panels[0].legend(loc="lower right", bbox_to_anchor=(1, 0.2))
    seeds = len({record.seed for record in records})
    learnt = {arm: hits(arms[arm], hardest).reached for arm in ordered}
    best, most = max(ordered, key=lambda arm: learnt[arm]), ordered[-1]
    found = [f"in {learnt[arm]} of {len(arms[arm])} runs from {told(arm)}" for arm in dict.fromkeys((best, most))]
    title = f"{hops(hardest)} are learnt {', '.join(found)}"
    if not any(learnt.values()):
        left = [
            sum(r.final(f"accuracy {hardest}") > 1 / config.task.alphabet + ABOVE for r in runs)
            for runs in arms.values()
        ]
        counts = [
            f"{above} of {len(runs)} with {told(arm)}" for above, (arm, runs) in zip(left, arms.items(), strict=True)
        ]
        title = f"No run learns {hops(hardest)} to the end; above chance are\n{'; '.join(counts)}"
    titled(
        figure,
        title,
        f"{describe(config)}; {seeds} seed{'s' if seeds != 1 else ''}, each a line and a dot; dotted: chance",
    )
    return figure


def takeoff(records: Sequence[Any]):
    """Share of runs that learn k hops alone by the size of their pool, and the smallest such pool against theory."""
    sizes = takeoffs(records)
    figure, (left, right) = subplots(1, 2, figsize=(1.5 * COLUMN, 2.6))
    for number, each in enumerate(sizes):
        pools = [pool for pool in each.learnt if pool]
        shares = [sum(each.learnt[pool]) / len(each.learnt[pool]) for pool in pools]
        style = {"color": colour(number), "marker": "o", "markersize": 3}
        name = f"k={each.k}, N={each.N}"
        left.plot(pools, shares, label=name, linestyle=DASHES[number % len(DASHES)], **style)
        found = np.isfinite(each.pool)
        place = each.pool if found else max(pools)
        right.plot([each.labels], [place], linestyle="", fillstyle="full" if found else "none", label=name, **style)
    ends = [min(each.labels for each in sizes), max(each.labels for each in sizes)]
    right.plot(ends, ends, color="grey", linestyle=":", linewidth=0.8, label="$N(N-1)^{2k-1}$ labels")
    left.set(
        xscale="log", xlabel="labels in the pool", ylabel=f"share of runs at {LEARNT:g} or above", ylim=(-0.03, 1.03)
    )
    right.set(
        xscale="log", yscale="log", xlabel="labels predicted, $N(N-1)^{2k-1}$", ylabel="smallest pool that suffices"
    )
    figure.legend(*left.get_legend_handles_labels(), fontsize=6, loc="outside right center")
    left.set_title("runs that learn k hops alone")
    right.set_title("smallest pool for half of the runs")
    right.plot([], [], color="grey", marker="o", markersize=3, linestyle="", fillstyle="none", label="no pool sufficed")
    right.legend(fontsize=6, loc="lower right", handles=right.get_legend_handles_labels()[0][-2:])
    seeds = len({record.seed for record in records})
    model = records[0].config.model
    found = sum(bool(np.isfinite(each.pool)) for each in sizes)
    titled(
        figure,
        f"{found} of {len(sizes)} sizes are learnt alone from some pool of labels",
        f"{model.layers} layers of width {model.width}; {seeds} seeds per point",
    )
    return figure
