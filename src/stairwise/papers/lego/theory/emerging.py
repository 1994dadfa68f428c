"""The induction hypotheses of Appendices B and C, part by part, as facts of every kept moment of the winners' features.

Arrays are (moments, classes, values): one feature psi = (j, r, y) per class and value, that of the neuron that wins it.
Constants that the paper leaves open: Omega(mu) is read as mu/2, and O(mu), with or without logarithms, as mu
sqrt(log d), as in Lemma B.3.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

Moments = Float[np.ndarray, "moments classes values"]
Facts = Bool[np.ndarray, "moments classes values"]


class Winners(NamedTuple):
    """What a run says of the neurons that win.

    psi        V_psi
    highest    the largest V of an action off the fiber or of another value, V(g') and V(y')
    lowest     the smallest of them
    residual   the largest |V(g) + V(y')|/2 of a pair that shares only g or only y with psi
    imbalance  |V(g) - C V(y)|, the largest over the fiber
    logit      the largest logit of the class on the pairs of psi
    """

    psi: Moments
    highest: Moments
    lowest: Moments
    residual: Moments
    imbalance: Moments
    logit: Moments


def winners(
    action: Float[np.ndarray, "moments classes values actions"],
    value: Float[np.ndarray, "moments classes values others"],
    logit: Float[np.ndarray, "moments classes actions values"],
    fibers: Bool[np.ndarray, "classes values actions"],
    ratio: float,
) -> Winners:
    """From V(g) and V(y') of the winners and the logits of every pair; `fibers` says which actions take y to j."""
    values = value.shape[-1]
    own = np.eye(values, dtype=bool)
    mine = np.einsum("tjyy->tjy", value)
    mean = (action * fibers).sum(axis=-1) / fibers.sum(axis=-1)
    ends = [
        [f(np.where(fibers, fill, action), axis=-1), f(np.where(own, fill, value), axis=-1)]
        for f, fill in ((np.max, -np.inf), (np.min, np.inf))
    ]
    pairs = np.abs(action[..., :, None] + value[..., None, :]) / 2
    shares = fibers[..., None] ^ own[None, :, None, :]
    on_fiber = np.where(fibers, np.abs(action - ratio * mine[..., None]), 0).max(axis=-1)
    answers = np.where(np.moveaxis(fibers, 1, 2), logit, 0).max(axis=2)
    return Winners(
        psi=(mean + mine) / 2,
        highest=np.maximum(*ends[0]),
        lowest=np.minimum(*ends[1]),
        residual=np.where(shares, pairs, 0).max(axis=(-1, -2)),
        imbalance=on_fiber,
        logit=answers,
    )


# --- phases -----------------------------------------------------------------------------------------------------------


def passed(psi: Moments, level: float) -> Facts:
    """Whether V_psi has been above a level by then."""
    return np.maximum.accumulate(psi > level, axis=0)


def reached(fact: Facts) -> Facts:
    """Whether a fact has been true by then."""
    return np.maximum.accumulate(fact, axis=0)


def share_until(fact: Facts, phase: Facts) -> float:
    """The share of its phase after which a feature first breaks a fact, the smallest over the features; 1 if none does.

    >>> fact, phase = np.array([True, True, False, True])[:, None, None], np.ones((4, 1, 1), dtype=bool)
    >>> share_until(fact, phase)
    0.5
    """
    kept = ~np.maximum.accumulate(phase & ~fact, axis=0)
    return float(((kept & phase).sum(axis=0) / np.maximum(phase.sum(axis=0), 1))[phase.any(axis=0)].min())


# --- the parts --------------------------------------------------------------------------------------------------------


def never_shrinks(psi: Moments, bias: float) -> Facts:
    """B.1a, C.1a: V_psi + b >= Omega(mu), mu = b."""
    return psi + bias >= bias / 2


def others_are_small(highest: Moments, bias: float, vocabulary: int) -> Facts:
    """B.2a, and the upper end of B.3c and C.3: V(g'), V(y') <= O(mu)."""
    return highest <= bias * np.sqrt(np.log(vocabulary))


def others_are_bounded(lowest: Moments, clip: float, ratio: float) -> Facts:
    """The lower end of B.3c and C.3: V(g'), V(y') >= -B - O(1), where V(g) = V(y) = B at the end; -2BC/(1+C) else."""
    return lowest >= -2 * clip * max(ratio, 1.0) / (1 + ratio) - 2


def unlearned_logit(vocabulary: int) -> float:
    """B.3a: 1 - logit >= 1 - 1/sqrt(d) on the pairs of psi while V_psi < (log d)/2."""
    return vocabulary**-0.5


def shaped(seen: Winners, height: float, error: float) -> Facts:
    """Definitions B.4 and C.6: V_psi is its height, confounders cancel and V(g) = C V(y), all within the error."""
    return (np.abs(seen.psi - height) <= error) & (seen.residual <= error) & (seen.imbalance <= 2 * error)


def intervals_overlap(begin: np.ndarray, end: np.ndarray) -> float:
    """B.1b, C.1b: the share of pairs of features whose intervals [T1, T2] overlap; 0 in the limit of large d."""
    order = np.argsort(begin.reshape(-1))
    begin, end = begin.reshape(-1)[order], end.reshape(-1)[order]
    pairs = [end[i] > begin[j] for i in range(len(begin)) for j in range(i + 1, len(begin))]
    return float(np.mean(pairs))
