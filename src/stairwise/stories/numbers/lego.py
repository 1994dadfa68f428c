"""Numbers of the story of LEGO state tracking."""

import json
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from stairwise.papers.lego import groups
from stairwise.papers.lego.activation import smooth_relu, smooth_relu_printed
from stairwise.papers.lego.model import feature_ratio
from stairwise.papers.lego.theory import lengths
from stairwise.papers.lego.theory.features import vocabulary
from stairwise.stories.numbers import line, plot

SCORES = Path(__file__).with_name("lego_scores.json")  # of a descent that takes too long to repeat for every page
COMPARED = {"C6": "cyclic, 6 values", "S4": "symmetric, 4 values"}
REACHED = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)


def numbers() -> dict[str, Any]:
    scores = {name: _scores(name) for name in COMPARED}
    actions = {name: _action(name) for name in ("C6", "S3", "S4")}
    small = {name: actions[name] for name in ("C6", "S3")}
    return {
        "plots": {"dilution": _dilution(scores), "theorem": _theorem(scores), "untrue": _untrue()},
        "widgets": {
            "lego-task": small,
            "lego-order": small,
            "lego-pairs": actions,
            "lego-clauses": {"checks": _checks()},
            "lego-doubling": {"values": 4, "checks": _lengths()},
        },
    }


def _action(name: str) -> dict[str, Any]:
    action = groups.named(name)
    rows = action.table.tolist()
    cyclic = name.startswith("C")
    return {
        "table": rows,
        "names": [f"+{row[0]}" if cyclic else "".join(str(value + 1) for value in row) for row in rows],
        "values": [str(value + (not cyclic)) for value in range(action.values)],
        "fiber": int(action.fiber_sizes[0, 0]),
        "ratio": float(feature_ratio(action.actions, action.values)),
    }


def _scores(name: str) -> dict[int, list[float]]:
    """The four scalars of attention after 8 |X| steps on chains of two, by |X|."""
    found = json.loads(SCORES.read_text(encoding="utf-8"))[name]
    return {int(size): scores for size, scores in found.items()}


def _dilution(scores: dict[str, dict[int, list[float]]]) -> dict[str, Any]:
    families = []
    for name, about in COMPARED.items():
        trained, values = scores[name][256], groups.named(name).values
        misses = [float(lengths.concentration(trained, L, L)) for L in REACHED]
        limit = lengths.critical_concentration(values)
        lines = [
            line("attention that misses", REACHED, misses),
            line("more than it can bear", REACHED, [limit] * 19, "dash"),
        ]
        families.append((about, lines))
    return plot("length $L$", "share of attention at the last step", families, log="x", choose="group")


def _theorem(scores: dict[str, dict[int, list[float]]]) -> dict[str, Any]:
    lines = []
    for name, about in COMPARED.items():
        action = groups.named(name)
        vocabularies = [vocabulary(action, size) for size in scores[name]]
        carried = [lengths.critical_length(found, action.values) for found in scores[name].values()]
        lines.append(line(about, vocabularies, carried))
    return plot("vocabulary $d$", "longest chain that attention carries, $L^\\star$", [("", lines)], log="xy")


def _untrue() -> dict[str, Any]:
    x = jnp.linspace(-1.6, 1.6, 65, dtype=jnp.float32)
    families = []
    for q in (4, 6):
        printed, used = smooth_relu_printed(x, rho=0.8, q=q), smooth_relu(x, rho=0.8, q=q)
        families.append(
            (str(q), [line("as printed", x, np.asarray(printed)), line("as it is meant", x, np.asarray(used), "dash")])
        )
    return plot("input $x$", "activation", families, choose="power $q$")


def _checks() -> list[dict[str, float]]:
    """Points at which a browser's attention is compared with ours."""
    points = ((0.0, 6, 1), (2.0, 6, 4), (5.0, 6, 6))
    return [
        {"a": a, "length": L, "step": step, "misses": float(lengths.concentration([a, 0.0, a, 0.0], L, step))}
        for a, L, step in points
    ]


def _lengths() -> list[dict[str, float]]:
    """Scores a = c with b = e = 0, and the length that they carry."""
    return [{"a": a, "length": lengths.critical_length([a, 0.0, a, 0.0], 4)} for a in (1.0, 3.0, 6.0)]
