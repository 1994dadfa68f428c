"""Numbers of the story of k-fold composition."""

import math
from typing import Any

from stairwise.papers.composition.theory import noise, population, queries, spectrum
from stairwise.stories.numbers import line, plot

BLOCKS = (2, 4, 8, 16, 32, 64)
HOPS = tuple(range(1, 9))
LABELS = 100_000


def numbers() -> dict[str, Any]:
    plots = {"blind": _blind(), "express": _express(), "theorem": _theorem(), "untrue": _untrue()}
    return {
        "plots": plots,
        "widgets": {
            "composition-scores": {str(f): population.first_scores(5, f) for f in (0, 1, 2, 3)},
            "composition-mixture": {"start": math.log(5), "plateau": population.plateau(5, 1.0), "heads": 4},
        },
    }


def _blind() -> dict[str, Any]:
    families = []
    for N in (3, 5, 10):
        signal = [float(spectrum.gram_eigenvalue(k, N)) for k in HOPS]
        noise_line = line("noise of 100,000 labels", HOPS, [1 / LABELS] * len(HOPS), "dash")
        families.append((str(N), [line("signal of the best question", HOPS, signal), noise_line]))
    return plot("hops $k$", "mean squared answer", families, log="y", choose="letters $N$")


def _express() -> dict[str, Any]:
    layers = [noise.layers_of(k) for k in BLOCKS]
    lines = [line("layers of Theorem 4", BLOCKS, layers), line("one layer per hop", BLOCKS, BLOCKS, "dash")]
    return plot("hops $k$", "layers", [("", lines)], log="xy")


def _theorem() -> dict[str, Any]:
    families = []
    for N in (5, 10):
        shown = BLOCKS[:5]
        asked = [noise.samples_theorem(k, N) for k in shown]
        enough = [noise.sample_rule(k, N) for k in shown]
        alone = [10 ** min(300.0, spectrum.log10_average_queries(k, N)) for k in shown]
        lines = [line("enough with easy examples", shown, enough), line("order of Theorem 7", shown, asked, "dash")]
        families.append((str(N), [*lines, line("hard examples alone", shown, alone)]))
    return plot("hops $k$", "samples", families, log="xy", choose="letters $N$")


def _untrue() -> dict[str, Any]:
    letters = [10**power for power in (2, 3, 4, 5, 6, 8)]
    families = []
    for k in (8, 16):
        printed = [queries.log10_queries_printed(k, N) for N in letters]
        proof = [queries.log10_queries_at_log(k, N) for N in letters]
        useful = [queries.sq_bound(k, N, queries.useful_r(N)).log10_queries for N in letters]
        lines = [line("as printed", letters, printed), line("what the printed choice gives", letters, proof)]
        families.append((str(k), [*lines, line("with a better choice", letters, useful, "dash")]))
    return plot("letters $N$", "number of questions, as a power of ten", families, log="x", choose="hops $k$")
