"""The events of Appendices D, E and F: exact probabilities by counting, and how full the fullest bin gets.

>>> from stairwise.papers.lego.groups import named
>>> [str(p) for p in partition(named("S3")).values()]
['1/3', '1/9', '2/9', '1/9', '1/9', '1/9']
"""

import math
from fractions import Fraction

import numpy as np

from stairwise.papers.lego.groups import Action
from stairwise.train.draws import draws_of

LARGEST = 20_000_000  # triples (y_0, g_1, g_2)


def triples(action: Action) -> tuple[np.ndarray, ...]:
    """y_0, y_1, g_1(y_1), g_2(y_0), g_2(y_1) for every (g_1, g_2, y_0)."""
    number = action.actions**2 * action.values
    if number > LARGEST:
        raise ValueError(f"{action.name}: {number} triples must be at most {LARGEST} to be counted (events)")
    first, second, start = (index.reshape(-1) for index in np.indices((action.actions, action.actions, action.values)))
    middle = action.table[first, start]
    return start, middle, action.table[first, middle], action.table[second, start], action.table[second, middle]


def partition(action: Action) -> dict[str, Fraction]:
    """P(E_1), ..., P(E_6) of (103)-(108); with y_1 = g_1(y_0), whether the two actions agree on y_0 and on y_1."""
    y0, y1, first_y1, second_y0, second_y1 = triples(action)
    moved, agree0, agree1 = y0 != y1, y1 == second_y0, first_y1 == second_y1
    events = {
        "E1": moved & ~agree0 & ~agree1,
        "E2": agree0 & ~agree1,
        "E3": ~moved & ~agree1,
        "E4": moved & agree0 & agree1,
        "E5": moved & agree1 & ~agree0,
        "E6": ~moved & agree1,
    }
    return {name: Fraction(int(event.sum()), len(y0)) for name, event in events.items()}


def partition_doubly_transitive(values: int) -> dict[str, Fraction]:
    """The same in closed form where any two values go to any two values equally often, as under S_n and A_n, n >= 4."""
    n = Fraction(values)
    return {
        "E1": 1 - 1 / n - (2 * n - 3) / n**2,
        "E2": (n - 2) / n**2,
        "E3": (n - 1) / n**2,
        "E4": 1 / n**2,
        "E5": (n - 2) / n**2,
        "E6": 1 / n**2,
    }


def different_actions(action: Action) -> Fraction:
    """P(g_1 != g_2) (62), as tokens."""
    return 1 - Fraction(1, action.actions)


def four_distinct(action: Action) -> Fraction:
    """P(g_1(y_0), g_1(y_1), g_2(y_0), g_2(y_1) all differ) (63)."""
    y0, y1, first_y1, second_y0, second_y1 = triples(action)
    images = np.stack([y1, first_y1, second_y0, second_y1])
    ordered = np.sort(images, axis=0)
    return Fraction(int((ordered[1:] != ordered[:-1]).all(axis=0).sum()), len(y0))


# --- balls into bins (F.1.2) ------------------------------------------------------------------------------------------


def load_order(values: int, length: int) -> float:
    """W_k up to its constant: log n / log(n log n / L) below n log n balls, L/n above."""
    threshold = values * math.log(values)
    return length / values if length >= threshold else math.log(values) / math.log(threshold / length)


def agreeing(action: Action, length: int, samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """For random chains of length L: how many of the L-1 other actions agree with g_2 at y_1, and at their best y."""
    rng = draws_of(seed, "agreeing chains", length)
    others = action.table[rng.integers(action.actions, size=(samples, length - 1))]
    asked = action.table[rng.integers(action.actions, size=samples)]
    loads = (others == asked[:, None]).sum(axis=1)
    return loads[np.arange(samples), rng.integers(action.values, size=samples)], loads.max(axis=1)


def tail(values: int, length: int, least: int) -> float:
    """P(Binomial(L-1, 1/n) >= least): the law of the load at y_1 under a transitive action."""
    from scipy.stats import binom

    return float(binom.sf(least - 1, length - 1, 1 / values))


def values_of_remark_c2(loglog: float) -> float:
    """n_Y = log log d / log log log d, with which n_Y! stays below log d; `loglog` is log log d."""
    return loglog / math.log(loglog)
