"""Numbers of the story of sparse token selection."""

from typing import Any

import numpy as np

from stairwise.papers.selection.config import Task
from stairwise.papers.selection.theory import encodings, fcn, generalisation, onehot
from stairwise.stories.numbers import line, plot

SHOWN = Task(20, 2, 5)
LENGTHS = (8, 16, 32, 64, 128, 256)
TRAINED = Task(200, 3, 5)
LONGER = (200, 220, 250, 300, 350, 400, 500, 600, 800)


def numbers() -> dict[str, Any]:
    plots = {"width": _width(), "theorem": _theorem(), "ratio": _ratio(), "untrue": _untrue()}
    return {"plots": plots, "widgets": {"selection-flow": _flow(), "selection-attention": {"checks": _checks()}}}


def _width() -> dict[str, Any]:
    T, d = 20, 1
    widths = np.arange(0, T * d + 1)
    families = []
    for q in (2, 3, 5):
        best = [fcn.optimal_risk(T, q, d, int(m)) for m in widths]
        bound = fcn.lower_bound(Task(T, q, d))
        below = widths[widths < T * d]
        lines = [line("best possible", widths, best), line("Theorem 3.5", below, [bound] * len(below), "dash")]
        families.append((str(q), lines))
    return plot("width of the first layer", "smallest squared error", families, choose="named tokens $q$")


def _flow() -> dict[str, Any]:
    times = np.concatenate([[0.0], np.geomspace(0.3, 3e4, 120)])
    path = onehot.flow(SHOWN, times)
    loss = onehot.loss(SHOWN, path.alpha, path.C)
    series = {"time": times, "alpha": path.alpha, "C": path.C, "loss": loss}
    return {name: [float(f"{value:.6g}") for value in values] for name, values in series.items()}


def _checks() -> list[dict[str, float]]:
    """Points at which a browser's loss is compared with ours."""
    task = Task(12, 3, 1)
    return [
        {"q": 3, "C": C, "alpha": alpha, "loss": float(onehot.loss(task, alpha, C))}
        for C, alpha in ((0.0, 0.0), (2.0, 1.5), (5.0, 1.0))
    ]


def _theorem() -> dict[str, Any]:
    clock = np.geomspace(1, 1e7, 300)
    tasks = [Task(T, 2, 5) for T in LENGTHS]
    flows = [onehot.flow(task, clock) for task in tasks]
    losses = [onehot.loss(task, path.alpha, path.C) for task, path in zip(tasks, flows, strict=True)]
    families = []
    for epsilon in (0.1, 0.01, 0.001):
        times = [np.exp(np.interp(-np.log(epsilon), -np.log(loss), np.log(clock))) for loss in losses]
        sharp = [(task.length - 1) / (4 * epsilon) for task in tasks]
        bound = [task.length**2 * task.width / epsilon for task in tasks]
        lines = [line("time it takes", LENGTHS, times), line("sharp law", LENGTHS, sharp, "dash")]
        families.append((str(epsilon), [*lines, line("order of Theorem 3.1", LENGTHS, bound, "dash")]))
    return plot("length $T$", "time in units of $1/\\eta$", families, log="xy", choose="loss $\\varepsilon$")


def _ratio() -> dict[str, Any]:
    tested = [Task(T, TRAINED.sparsity, TRAINED.width) for T in LONGER]
    descent = [generalisation.loss_ratio_limit(TRAINED, task) for task in tested]
    held = [generalisation.loss_ratio_at_one(TRAINED, task) for task in tested]
    order = [generalisation.order_bound(TRAINED, task, 1.0) for task in tested]
    lines = [line("gradient descent", LONGER, descent), line("$\\alpha$ held at 1", LONGER, held)]
    lines.append(line("$(T_2/T_1)^2$", LONGER, order, "dash"))
    return plot("test length $T_2$", "loss at $T_2$ over loss at 200", [("", lines)], log="y")


def _untrue() -> dict[str, Any]:
    sizes = (3, 5, 7, 9)
    found = [encodings.counterexample(q + 8, q, 2 ** (q + 1 + q % 2 + 5)) for q in sizes]
    printed = [encodings.overlap_bound_printed(one.delta) for one in found]
    corrected = [encodings.overlap_bound(one.delta, q) for q, one in zip(sizes, found, strict=True)]
    overlap = [one.overlap for one in found]
    lines = [line("overlap of the counterexample", sizes, overlap, "dots"), line("printed bound", sizes, printed)]
    lines.append(line("corrected bound", sizes, corrected, "dash"))
    return plot("named tokens $q$", "largest overlap with the query", [("", lines)])
