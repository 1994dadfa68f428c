"""Learning from statistical queries: a class of functions, an oracle that answers within a tolerance, and learners.

A function is a vector v_f, whose inner products are those of the class: a parity over the cube is its table over
sqrt(2^d), a function with N values is 1(y = f(x)) - 1/N over the square root of the inputs. A query is a vector g of
norm 1 at most, and its true answer is <g, v_f>. The oracle may answer anything within the tolerance of that.

    game = sq(halving, parities(10, 5), tolerance=0.2)
    game.queries, game.left

A learner of your own is a function of the class and the tolerance that yields queries and is sent the answers:

    def one_by_one(functions, tolerance):
        for vector in functions:
            answer = yield vector
            if answer > tolerance:
                return
"""

import math
from collections.abc import Callable, Generator
from itertools import combinations
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

Vectors = Float[np.ndarray, "functions dimensions"]
Query = Float[np.ndarray, " dimensions"]
Learner = Callable[[Vectors, float], Generator[Query, float, None]]
ROUNDING = 1e-12  # of norms and answers


class Game(NamedTuple):
    """What a learner has reached: `alive` are the functions that fit every answer, `left` their number after each."""

    alive: Bool[np.ndarray, " functions"]
    left: tuple[int, ...]
    answers: tuple[float, ...]

    @property
    def queries(self) -> int:
        return len(self.answers)


def sq(
    learner: Learner, functions: np.ndarray, tolerance: float, *, hidden: int | None = None, most: float = math.inf
) -> Game:
    """Let a learner ask until one function is left, until it stops, or until it has asked `most` queries.

    Without `hidden` the oracle is an adversary: no function is hidden, and each answer keeps as many of those that are
    still possible as one answer can. With the number of a hidden function its answers are exact, and the learner alone
    decides when to stop.

    >>> sq(halving, np.eye(64), 0.25).queries  # 63/16 at least, see `fewest_queries`
    11
    """
    if not 0 < tolerance < 1:
        raise ValueError(f"tolerance={tolerance:g} must be above 0 and below 1 (sq)")
    functions = np.asarray(functions, dtype=np.float64)
    if functions.ndim != 2 or not len(functions):
        raise ValueError(f"functions of shape {functions.shape} must be one row per function (sq)")
    if hidden is not None and not 0 <= hidden < len(functions):
        raise ValueError(f"hidden={hidden} must lie in 0..{len(functions) - 1}, the numbers of the functions (sq)")
    alive, left, answers = np.ones(len(functions), dtype=bool), [], []
    asking = learner(functions, tolerance)
    query = next(asking, None)
    while query is not None and len(answers) < most and (hidden is not None or alive.sum() > 1):
        true = functions @ checked(query, functions.shape[1])
        answer = float(true[hidden]) if hidden is not None else keeping_most(true[alive], tolerance)
        alive &= fits(true, answer, tolerance)
        answers.append(answer)
        left.append(int(alive.sum()))
        try:
            query = asking.send(answer)
        except StopIteration:
            break
    asking.close()
    return Game(alive, tuple(left), tuple(answers))


def checked(query: Query, dimensions: int) -> Query:
    query = np.asarray(query, dtype=np.float64)
    if query.shape != (dimensions,):
        raise ValueError(f"a query of shape {query.shape} must have one entry per dimension, ({dimensions},) (sq)")
    norm = float(np.linalg.norm(query))
    if not norm <= 1 + ROUNDING:
        raise ValueError(f"a query of norm {norm:g} must have norm 1 at most (sq)")
    return query


def fits(true: np.ndarray, answer: float, tolerance: float) -> Bool[np.ndarray, " functions"]:
    """Which functions may have given this answer."""
    return np.abs(true - answer) <= tolerance + ROUNDING


def keeping_most(answers: Float[np.ndarray, " alive"], tolerance: float) -> float:
    """The answer within the tolerance of as many true ones as possible; the one nearest to 0 among such.

    >>> keeping_most(np.array([0.0, 0.0, 0.5]), 0.25), round(keeping_most(np.array([0.0, 0.5, 0.6]), 0.2), 6)
    (0.25, 0.4)
    """
    ordered = np.sort(answers)
    ends = np.searchsorted(ordered, ordered + 2 * tolerance + ROUNDING, side="right")  # a window from each on
    kept = ends - np.arange(len(ordered))
    best = np.flatnonzero(kept == kept.max())
    lows, highs = ordered[ends[best] - 1] - tolerance, ordered[best] + tolerance  # the answers that keep the window
    nearest = np.where(lows > 0, lows, np.where(highs < 0, highs, 0.0))
    return float(nearest[np.argmin(np.abs(nearest))])


# --- bounds -----------------------------------------------------------------------------------------------------------


def most_ruled_out(tolerance: float, overlap: float = 0.0) -> float:
    """1/(tau^2 - overlap): how many functions have an answer above tau in size, where |<f, f'>| <= overlap.

    With the signs s_f of m such answers, m tau <= <g, sum s_f v_f> <= sqrt(m + m^2 overlap). The norms are 1 at most.
    """
    if not tolerance**2 > overlap:
        raise ValueError(f"tolerance={tolerance:g} must be above {math.sqrt(max(overlap, 0.0)):g}, the root of overlap")
    return 1 / (tolerance**2 - overlap)


def fewest_queries(functions: int, tolerance: float, overlap: float = 0.0) -> float:
    """(n - 1)(tau^2 - overlap): no learner needs fewer to leave one of n functions, if the oracle is an adversary.

    >>> round(fewest_queries(64, 0.25), 2)
    3.94
    """
    return (functions - 1) / most_ruled_out(tolerance, overlap)


# --- classes ----------------------------------------------------------------------------------------------------------


def parities(bits: int, size: int) -> Vectors:
    """All parities of `size` out of `bits` bits over the uniform cube, which are orthonormal."""
    if not 0 <= size <= bits:
        raise ValueError(f"size={size} must lie in 0..bits={bits} (parities)")
    cube = 1.0 - 2 * (np.arange(2**bits)[:, None] >> np.arange(bits) & 1)
    chosen = combinations(range(bits), size)
    return np.stack([cube[:, list(subset)].prod(axis=1) for subset in chosen]) / math.sqrt(2**bits)


def of_gram(gram: Float[np.ndarray, "functions functions"]) -> Vectors:
    """Vectors with these inner products: for a class whose functions are too long to be written out.

    >>> vectors = of_gram(np.array([[1.0, 0.5], [0.5, 1.0]]))
    >>> np.allclose(vectors @ vectors.T, [[1.0, 0.5], [0.5, 1.0]])
    True
    """
    try:
        return np.linalg.cholesky(gram)
    except np.linalg.LinAlgError:  # some are combinations of others
        values, basis = np.linalg.eigh(gram)
    if values[0] < -1e-9 * values[-1]:
        raise ValueError(f"gram has the eigenvalue {values[0]:.3g}, which must not be negative (of_gram)")
    return basis * np.sqrt(np.maximum(values, 0.0))


# --- learners ---------------------------------------------------------------------------------------------------------


def halving(functions: Vectors, tolerance: float) -> Generator[Query, float, None]:
    """Asks for sums of functions that are left, with alternating signs, as many as rule out most of them.

    It keeps the functions that fit all answers, and stops when no such query rules any of them out.
    """
    left, most = functions, max(1, int(1 / tolerance**2))
    sizes = sorted({max(1, round(most * share)) for share in (0.25, 0.5, 0.75, 0.9, 1.0)} | {1})
    members, ruled = 0, 0
    while len(left) > 1:
        query = signed_sum(left[:members]) if members else None
        if query is None or ruled_out(left, query, tolerance) < ruled:  # the last size no longer does what it did
            tried = [(ruled_out(left, signed_sum(left[:size]), tolerance), size) for size in sizes]
            ruled, members = max(tried)
            if not ruled:
                return
            query = signed_sum(left[:members])
        answer = yield query
        left = left[fits(left @ query, answer, tolerance)]


def ruled_out(functions: Vectors, query: Query, tolerance: float) -> int:
    """How many the adversary has to give up."""
    found = functions @ query
    return int((~fits(found, keeping_most(found, tolerance), tolerance)).sum())


def signed_sum(vectors: Vectors) -> Query:
    """Their sum with alternating signs, of norm 1."""
    total = ((-1.0) ** np.arange(len(vectors))) @ vectors
    return total / np.linalg.norm(total)


Model = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]  # parameters -> outputs and Jacobian over all inputs


def descent(model: Model, start: np.ndarray, rate: float, steps: int, path: list[np.ndarray] | None = None) -> Learner:
    """Gradient descent on (1/2) E (f_theta - f)^2 as a learner: a step is one query per parameter.

    Its gradient E[(f_theta - f) J_j] is known but for E[f J_j], the answer to the query J_j of norm 1, times that norm.
    The points that it visits are added to `path`.
    """

    def learner(functions: Vectors, tolerance: float) -> Generator[Query, float, None]:
        theta = np.array(start, dtype=np.float64)
        for _ in range(steps):
            outputs, jacobian = model(theta)
            columns = jacobian / math.sqrt(len(outputs))
            norms = np.linalg.norm(columns, axis=0)
            correlations = np.zeros(len(theta))
            for j in np.flatnonzero(norms):
                answer = yield columns[:, j] / norms[j]
                correlations[j] = norms[j] * answer
            theta = theta - rate * (np.mean(outputs[:, None] * jacobian, axis=0) - correlations)
            if path is not None:
                path.append(theta)

    return learner
