"""What the three steps of Theorem 3 do."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.plots import COLOURS, COLUMN, DASHES, all_seeds, empty_figure, grouped, seeds_note, titled

FLOOR = 1e-100  # errors below this are drawn here


def three_steps(records: Sequence[Any]):
    """Exact match and worst-case attention error after each step, every seed; the attention of one run."""
    arms = grouped(records, lambda record: words(record.config))
    figure = empty_figure(figsize=(2.3 * COLUMN, 4.8))
    panels: Any = [["match", "match", "error", "error"], ["0", "1", "2", "3"]]
    axes = figure.subplot_mosaic(panels, height_ratios=[2, 1.1])
    for number, (arm, chosen) in enumerate(arms.items()):
        colour, dash = COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]
        all_seeds(axes["match"], [by_step(record, "exact match") for record in chosen], arm, colour, dash)
        if chosen[0].config.task.cot:
            errors = [by_step(record, "worst attention error") for record in chosen]
            all_seeds(axes["error"], [(t, np.maximum(e, FLOOR)) for t, e in errors], arm, colour, dash)
    axes["match"].set(xlabel="gradient steps", ylabel="exact match", xticks=range(4), ylim=(-0.03, 1.05))
    axes["error"].set(xlabel="gradient steps", ylabel="attention error, all inputs", xticks=range(4), yscale="log")
    for number, inputs in enumerate(sorted({record.config.task.bits for record in records})):
        axes["error"].axhline(inputs**-8.0, color="black", linewidth=0.8, linestyle=DASHES[3 - number % 3])
        place = {"va": "top" if number else "bottom", "fontsize": 6}  # a larger n has the lower line
        axes["error"].annotate(f"$n^{{-8}}$, n={inputs}", (0, inputs**-8.0), **place)
    figure.legend(*axes["match"].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=6)
    draw_attention([axes[str(step)] for step in range(4)], shown(records))
    kinds = {"practical": "practical rates", "literal": "literal rates"}
    chains = {kind: [r for r in records if r.config.task.cot and r.config.rates == kind] for kind in kinds}
    learnt = [
        f"{sum(r.final('exact match') == 1 for r in chains[kind])} of {len(chains[kind])} at {words}"
        for kind, words in kinds.items()
        if chains[kind]
    ]
    titled(figure, f"Three steps on chains of thought, runs right everywhere: {', '.join(learnt)}", seeds_note(records))
    return figure


def draw_attention(axes: Sequence[Any], record: Any) -> None:
    """Mean attention of every supervised position; circles: the secret bit of each."""
    config = record.config
    secret = record.array("steps/secret")
    for step, panel in enumerate(axes):
        weights = record.array(f"steps/attention@{step * config.blocks}")
        panel.imshow(weights, aspect="auto", cmap="Greys", vmin=0, vmax=1, interpolation="nearest")
        panel.plot(secret, np.arange(len(secret)), "o", mfc="none", color=COLOURS[1], markersize=5)
        panel.grid(False)
        panel.set(title=f"attention after step {step}" if step else "attention at the start", xlabel="key position")
        panel.set_yticks(range(0, len(secret), max(1, len(secret) // 5)))
    axes[0].set_ylabel("step of the chain")


def shown(records: Sequence[Any]) -> Any:
    """The first run with a chain of thought."""
    return next((record for record in records if record.config.task.cot), records[0])


def words(config: Any) -> str:
    """What tells the arms apart."""
    parts = [f"n={config.task.bits}, k={config.task.size}", f"{config.loss} loss, B={config.batch:,}"]
    parts += [f"eps={config.scale:g}"] if config.loss == "linear" else []
    parts += ["literal rates"] if config.rates == "literal" else []
    parts += [] if config.task.cot else ["no chain"]
    parts += [f"noise {config.task.noise:g}"] if config.task.noise else []
    return "; ".join(parts)


def by_step(record: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """A metric against the number of gradient steps taken."""
    ticks, values = record.series(name)
    return ticks // record.config.blocks, values
