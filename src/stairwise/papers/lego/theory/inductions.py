"""The induction hypotheses of Appendices D, E and F, part by part: by how much each holds at every time of a descent.

A part is a difference that is positive where it holds.

Constants that the paper leaves open: O(x) is read as at most 2x, a small constant as 0.05, Omega(1/log d) as a quarter.
`scores` are (times, 4); `first` and `second` the attention of steps 1 and 2, (times, 4).
"""

import numpy as np

from stairwise.papers.lego.theory import lengths

Parts = dict[str, np.ndarray]
SLACK = 1e-12


def first(fact: np.ndarray) -> int:
    """The first index at which it is true; their number if it never is."""
    return int(np.argmax(fact)) if fact.any() else len(fact)


def stages(scores: np.ndarray, vocabulary: int, clip_factor: float, both_steps: bool) -> dict[str, np.ndarray]:
    """The times of each stage, with the constants that the paper leaves open set by its own conditions.

    2.1 ends when a reaches 1/log d. 2.2 ends when 2 C_B (c_1 + c_2) <= 1 - c_6 C_B or 1 - 4 c_5 C_B > 0 (after Lemma
    D.22) does, the constants being what attention has moved by. Where only step 2 is trained: 1.2.1 ends at eps = 0.4,
    and 1.2.2 with the run, at the loss of Lemma E.35.
    """
    times, eps = np.arange(len(scores)), lengths.concentration(scores, 2, 2)
    if not both_steps:
        end = first(eps < 0.4)
        return {"1.2.1": times[:end], "1.2.2": times[end:]}
    shares = lengths.masses(scores, 2, 1)
    lead, gap = shares[:, 0] - shares[:, 1], lengths.gap(scores, 2, 2)
    small = first(scores[:, 0] > 1 / np.log(vocabulary))
    end = first((2 * lead + gap > 1 / clip_factor) | (1 - 2 * eps > 1 / clip_factor))
    return {"2.1": times[:small], "2.2": times[small:end], "2.3": times[end:]}


def increases(values: np.ndarray) -> np.ndarray:
    """By how much it has increased since the time before; at the first time, until the next."""
    steps = np.diff(values)
    return np.append(steps[:1], steps) if len(steps) else np.ones(len(values))


def small_elsewhere(scores: np.ndarray, vocabulary: int) -> np.ndarray:
    """|b|, |e| <= O(1/d) of the larger diagonal."""
    return 2 * scores[:, [0, 2]].max(axis=1) / vocabulary + SLACK - np.abs(scores[:, [1, 3]]).max(axis=1)


def d1(scores: np.ndarray, vocabulary: int, clip_factor: float) -> Parts:
    """Stage 2.1."""
    a, _, c, _ = scores.T
    return {
        "(a) a increases": increases(a),
        "(b) |c| = O(a)": 2 * a - np.abs(c) + SLACK,
        "(b) 0 <= a - c": a - c + SLACK,
        "(c) other entries are O(a/d)": small_elsewhere(scores, vocabulary),
    }


def d2(scores: np.ndarray, vocabulary: int, clip_factor: float) -> Parts:
    """Stage 2.2."""
    a, _, c, _ = scores.T
    return {
        "(a) a and c increase": np.minimum(increases(a), increases(c)),
        "(b) a - c >= 1/(4 log d)": a - c - 0.25 / np.log(vocabulary),
        "(c) other entries are O(a/d)": small_elsewhere(scores, vocabulary),
    }


def d3(scores: np.ndarray, vocabulary: int, clip_factor: float) -> Parts:
    """Stage 2.3."""
    a, _, c, _ = scores.T
    gaps = [lengths.gap(scores, 2, step) for step in (1, 2)]
    return {
        "(a) a and c increase": np.minimum(increases(a), increases(c)),
        "(b) the gap is not negative": np.min(gaps, axis=0) + SLACK,
        "(c) the predicate has at most 0.55": 0.55 - lengths.masses(scores, 2, 2)[:, 0],
        "(d) other entries are O(a/d)": small_elsewhere(scores, vocabulary),
    }


def e1(scores: np.ndarray, vocabulary: int, clip_factor: float) -> Parts:
    """Stage 1.2.1."""
    near, far, own, _ = lengths.masses(scores, 2, 2).T
    size = np.log(vocabulary)
    return {
        "(a) a + c increases": increases(scores[:, [0, 2]].sum(axis=1)),
        "(b) other entries are O(1/d)": small_elsewhere(scores, vocabulary),
        "(c) near - far >= -O(log log d/log d)": near - far + 2 * np.log(size) / size,
        "(d) near - own <= c1": lengths.window_constant(clip_factor) - (near - own),
    }


def e2(scores: np.ndarray, vocabulary: int, clip_factor: float) -> Parts:
    """Stage 1.2.2, in (d) as far as Lemma E.34 shows it; see `not_ahead` for the rest."""
    near, far, own, _ = lengths.masses(scores, 2, 2).T
    return {
        "(a) a + c increases": increases(scores[:, [0, 2]].sum(axis=1)),
        "(b) other entries are O(1/d)": small_elsewhere(scores, vocabulary),
        "(c) near - own <= c1": lengths.window_constant(clip_factor) - (near - own),
        "(d) own - near <= far - c2": far - answer_lead(clip_factor) - (own - near),
    }


def not_ahead(scores: np.ndarray) -> np.ndarray:
    """What (d) of stage 1.2.2 also says: own <= near."""
    near, _, own, _ = lengths.masses(scores, 2, 2).T
    return near - own + SLACK


def _e2_as_printed(scores: np.ndarray, vocabulary: int, clip_factor: float) -> Parts:
    """Stage 1.2.2; in (d) own - near <= min(far - c2, 0)."""
    return e2(scores, vocabulary, clip_factor) | {"(d) own <= near": not_ahead(scores)}


def answer_lead(clip_factor: float) -> float:
    """c_2 = log d/(4.02 B), from the proof of Lemma E.34: at most log d/2.01 is then read by g_2(y_0)."""
    return 1 / (4.02 * clip_factor)


HYPOTHESES = {"2.1": d1, "2.2": d2, "2.3": d3, "1.2.1": e1, "1.2.2": _e2_as_printed}


def until(part: np.ndarray) -> int:
    """For how many of the times it holds without a break."""
    return len(part) if (part > 0).all() else int(np.argmin(part > 0))
