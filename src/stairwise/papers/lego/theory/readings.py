"""Lambda of the neurons that Appendices D, E and F name, event by event, from the attention that clauses get.

near, far, own, past are the attention to the asked predicate, to the other one, to the own answer, and to the earlier
one. At step 1 they are g_1, g_2, y_0 and nothing; at step 2 they are g_2, g_1, y_1, y_0. "g2(y0)" names the neuron of
class g_2(y_0) that carries y_0, "g2(y)" one that carries a value of no answer, "both" one where g_1(y) = g_2(y).
A neuron that the tables leave out fits one clause at most.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Lambdas = dict[str, np.ndarray]


class Shares(NamedTuple):
    """Attention to the four kinds of clauses of a chain of two."""

    near: np.ndarray
    far: np.ndarray
    own: np.ndarray
    past: np.ndarray


# --- simply transitive: one function per event ------------------------------------------------------------------------


def first_differ(m: Shares, height: float) -> Lambdas:
    """Step 1, g_1 != g_2 (Lemmas D.12, D.24 and D.36)."""
    return {
        "g1(y0)": (1 - 2 * m.far) * height,
        "g2(y0)": (1 - 2 * m.near) * height,
        "g1(y)": (2 * m.near - 1) * height,
    }


def first_same(m: Shares, height: float) -> Lambdas:
    """Step 1, g_1 = g_2 (Lemmas D.14, D.26 and D.38)."""
    return {"g1(y0)": np.full_like(m.own, height), "g1(y)": (1 - 2 * m.own) * height}


def second_differ(m: Shares, height: float) -> Lambdas:
    """Step 2, g_1 != g_2 and y_0 != y_1 (Lemmas D.12, D.24 and D.36)."""
    return {
        "g2(y1)": (1 - 2 * m.far - 2 * m.past) * height,
        "g2(y0)": (m.near - m.own + m.past - m.far) * height,
        "g1(y0)": (m.far - m.own + m.past - m.near) * height,
        "g1(y1)": (m.own - m.near + m.far - m.past) * height,
        "g2(y)": (2 * m.near - 1) * height,
    }


def second_same_action(m: Shares, height: float) -> Lambdas:
    """Step 2, g_1 = g_2 and y_0 != y_1 (Lemmas D.14, D.26 and D.38)."""
    return {
        "g2(y1)": (1 - 2 * m.past) * height,
        "g2(y0)": (1 - 2 * m.own) * height,
        "g2(y)": (1 - 2 * m.own - 2 * m.past) * height,
    }


def second_same_value(m: Shares, height: float) -> Lambdas:
    """Step 2, g_1 != g_2 and y_0 = y_1 (Lemmas D.14, D.26 and D.38)."""
    return {
        "g2(y1)": (1 - 2 * m.far) * height,
        "g1(y1)": (1 - 2 * m.near) * height,
        "g2(y)": (2 * m.near - 1) * height,
    }


def second_same(m: Shares, height: float) -> Lambdas:
    """Step 2, g_1 = g_2 and y_0 = y_1 (Lemmas D.14, D.26 and D.38)."""
    return {"g2(y1)": np.full_like(m.own, height), "g2(y)": (1 - 2 * m.own - 2 * m.past) * height}


FIRST = {False: first_differ, True: first_same}  # by whether the actions are the same
SECOND = {  # by whether the actions and the values are the same
    (False, False): second_differ,
    (True, False): second_same_action,
    (False, True): second_same_value,
    (True, True): second_same,
}


# --- not free: V is alpha on a fiber and -beta off it, beta at the own value and -alpha at another --------------------
# The paper has 2B and 2B/n_Y for alpha and beta, and leaves some terms with beta to its O(delta).


def on_e1(m: Shares, alpha: float, beta: float) -> Lambdas:
    """Lemmas E.13 and E.25: y_0 != y_1, and the actions differ on both."""
    near, far, own, past = m
    return {
        "g2(y1)": (near - past) * alpha + (own - far) * beta,
        "g2(y0)": (near - own) * alpha + (past - far) * beta,
        "g1(y0)": (far - own) * alpha + (past - near) * beta,
        "g1(y1)": (far - past) * alpha + (own - near) * beta,
        "both": _both(m, alpha),
    }


def on_e2(m: Shares, alpha: float, beta: float) -> Lambdas:
    """Lemmas E.14 and E.26: the actions agree on y_0 only."""
    near, far, own, past = m
    return {
        "g2(y1)": (near - past) * alpha + (own - far) * beta,
        "g2(y0)": (near + far - own) * alpha + past * beta,
        "g1(y1)": (far - past) * alpha + (own - near) * beta,
        "both": _both(m, alpha),
    }


def on_e3(m: Shares, alpha: float, beta: float) -> Lambdas:
    """Lemmas E.15 and E.27: y_0 = y_1, and the actions differ there."""
    near, far, own, past = m
    return {
        "g2(y1)": near * alpha + (own + past - far) * beta,
        "g1(y1)": far * alpha + (own + past - near) * beta,
        "g(y1)": (own + past - near - far) * beta,
        "both": _both(m, alpha),
    }


def on_e4(m: Shares, alpha: float, beta: float) -> Lambdas:
    """Lemmas E.16 and E.28: y_0 != y_1, and the actions agree on both."""
    near, far, own, past = m
    return {
        "g2(y1)": (near + far - past) * alpha + own * beta,
        "g2(y0)": (near + far - own) * alpha + past * beta,
        "both": _both(m, alpha),
    }


def on_e5(m: Shares, alpha: float, beta: float) -> Lambdas:
    """Lemmas E.17 and E.29: y_0 != y_1, and the actions agree on y_1 only."""
    near, far, own, past = m
    return {
        "g2(y1)": (near + far - past) * alpha + own * beta,
        "g2(y0)": (near - own) * alpha + (past - far) * beta,
        "g1(y0)": (far - own) * alpha + (past - near) * beta,
        "both": _both(m, alpha),
    }


def on_e6(m: Shares, alpha: float, beta: float) -> Lambdas:
    """Lemmas E.18 and E.30: y_0 = y_1, and the actions agree there."""
    near, far, own, past = m
    return {
        "g2(y1)": (near + far) * alpha + (own + past) * beta,
        "g(y1)": (own + past - near - far) * beta,
        "both": _both(m, alpha),
    }


def _both(m: Shares, alpha: float) -> np.ndarray:
    """A neuron that both predicates fit, and no answer."""
    near, far, own, past = m
    return (near + far - own - past) * alpha


EVENTS = {"E1": on_e1, "E2": on_e2, "E3": on_e3, "E4": on_e4, "E5": on_e5, "E6": on_e6}


def longer(agree: np.ndarray, others: np.ndarray, own: np.ndarray, past: np.ndarray, alpha: float, beta: float):
    """Lemmas F.10 and F.11: Lambda of the neuron of class g_2(y) that carries y, in a chain of any length.

    `agree` is the attention to predicates that send y to that class, the asked one included, `others` that to the rest;
    `own` is the attention to answers that are y, `past` that to other answers.
    """
    return (agree - past) * alpha + (own - others) * beta


# --- which neuron has which name --------------------------------------------------------------------------------------


class SeenImages(NamedTuple):
    """Images of g_1 and g_2, and y_0, y_1, of many contexts: (contexts, values) and (contexts,)."""

    first: np.ndarray
    second: np.ndarray
    start: np.ndarray
    middle: np.ndarray

    @property
    def same_action(self) -> np.ndarray:
        return (self.first == self.second).all(axis=1)

    @property
    def same_value(self) -> np.ndarray:
        return self.start == self.middle

    def image(self, action: int, value: np.ndarray) -> np.ndarray:
        """g_1(value) or g_2(value) of each context."""
        table = self.first if action == 1 else self.second
        return np.take_along_axis(table, value[:, None], axis=1)[:, 0]

    @property
    def distinct(self) -> np.ndarray:
        """Event (63): the four images of y_0 and y_1 differ."""
        images = np.stack([self.image(action, value) for action in (1, 2) for value in (self.start, self.middle)])
        ordered = np.sort(images, axis=0)
        return (ordered[1:] != ordered[:-1]).all(axis=0)

    def events(self) -> dict[str, np.ndarray]:
        """(103) to (108), as masks of the contexts."""
        moved = ~self.same_value
        agree0 = self.image(1, self.start) == self.image(2, self.start)
        agree1 = self.image(1, self.middle) == self.image(2, self.middle)
        return {
            "E1": moved & ~agree0 & ~agree1,
            "E2": agree0 & ~agree1,
            "E3": ~moved & ~agree1,
            "E4": moved & agree0 & agree1,
            "E5": moved & agree1 & ~agree0,
            "E6": ~moved & agree1,
        }

    def neurons(self, name: str) -> np.ndarray:
        """Where a neuron of this name is, (contexts, classes, values)."""
        size = self.first.shape[1]
        classes, values = np.arange(size)[:, None], np.arange(size)
        at = lambda value: values == value[:, None, None]  # noqa: E731
        sent = lambda images: classes == images[:, None, :]  # noqa: E731
        idle = ~at(self.start) & ~at(self.middle)
        found: dict[str, Callable[[], np.ndarray]] = {
            "g1(y0)": lambda: sent(self.first) & at(self.start),
            "g2(y0)": lambda: sent(self.second) & at(self.start),
            "g1(y1)": lambda: sent(self.first) & at(self.middle),
            "g2(y1)": lambda: sent(self.second) & at(self.middle),
            "g1(y)": lambda: sent(self.first) & idle,
            "g2(y)": lambda: sent(self.second) & idle,
            "both": lambda: sent(self.first) & sent(self.second) & idle,
            "g(y1)": lambda: ~sent(self.first) & ~sent(self.second) & at(self.middle),
        }
        return found[name]()


# --- logits -----------------------------------------------------------------------------------------------------------


def chances(right: np.ndarray, wrong: np.ndarray, rest: np.ndarray, values: int, vocabulary: int):
    """p of the answer's class, p of the one it is confused with, and 1 - p, where the other values' logits are `rest`.

    The d - n_Y classes that are no values have the logit 0.
    """
    crowd = np.exp(wrong) + (values - 2) * np.exp(rest) + vocabulary - values
    total = np.exp(right) + crowd
    return np.exp(right) / total, np.exp(wrong) / total, crowd / total
