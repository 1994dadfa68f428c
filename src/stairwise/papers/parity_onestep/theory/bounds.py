"""The explicit bounds of the lemmas, as printed and as corrected; K = sup |phi'|."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

# --- gradients of the model: Lemmas 4 and 6 ---------------------------------------------------------------------------


def forced_gradient(steepest: float, size: int) -> float:
    """Lemma 4: ||grad_W f|| <= 2K sqrt(k-1) with teacher forcing, at every x and W."""
    return 2 * steepest * math.sqrt(size - 1)


def chain_derivative(steepest: float, gap: int, score: float) -> float:
    """Proof of Lemma 6: |d x_a/d w[j, m]| <= 2 K^(gap+1) s_j, where a lies `gap` levels above m (0: a = m)."""
    return 2 * steepest ** (gap + 1) * score


def chained_gradient(steepest: float, levels: int) -> float:
    """Lemma 6 for k = 2^v: sqrt(4K^4/((K^2-2)(2K^2-1))) (2K^2)^(v/2), at every x, W and U."""
    return _chained(4 * steepest**4, steepest, levels)


def chained_gradient_printed(steepest: float, levels: int) -> float:
    """As printed, with 4K^2 where the line before it gives 4K^4."""
    return _chained(4 * steepest**2, steepest, levels)


def _chained(front: float, K: float, levels: int) -> float:
    return math.sqrt(front / ((K**2 - 2) * (2 * K**2 - 1)) * (2 * K**2) ** levels)


def chained_gradient_line(steepest: float, levels: int) -> float:
    """The line before the last: sqrt(4K^4/(K^2-2) sum_{l=1..v} (2K^2)^(v-l))."""
    K = steepest
    return math.sqrt(4 * K**4 / (K**2 - 2) * sum((2 * K**2) ** (levels - level) for level in range(1, levels + 1)))


def chained_gradient_levels(steepest: float, nodes_per_level: Sequence[int]) -> float:
    """The same argument for any tree: sum over m of 4 K^2 (1 + sum_{l > h[m]} (nodes of level l) K^(2(l-h[m])))."""
    K, counts = steepest, list(nodes_per_level)
    total = 0.0
    for level, count in enumerate(counts):
        above = sum(nodes * K ** (2 * gap) for gap, nodes in enumerate(counts[level + 1 :], start=1))
        total += count * 4 * K**2 * (1 + above)
    return math.sqrt(total)


# --- concentration: Lemmas 9 and 10 -----------------------------------------------------------------------------------


def interaction(samples: int, bits: int, failure: float) -> float:
    """Lemma 9: kappa = sqrt((2/n) log(32 d^4/p)).

    >>> round(interaction(500, 12, 0.1), 4)
    0.2507
    """
    return math.sqrt(2 / samples * math.log(32 * bits**4 / failure))


def level_means(bits: int, rows: int, failure: float) -> float:
    """Lemma 10: 2(sqrt 2 + 1) sqrt(log(2 rows/p)/d), where `rows` counts training and augmented inputs.

    >>> round(level_means(64, 64, 0.1), 2)
    1.61
    """
    return 2 * (math.sqrt(2) + 1) * math.sqrt(math.log(2 * rows / failure) / bits)


def level_means_exact(ends: Sequence[int], rows: int, failure: float) -> list[float]:
    """The same before it is simplified, for each level l: sum_{l' <= l} sqrt(2 (d_l' - d_{l'-1}) log(2 rows/p))/d_l."""
    sizes = np.diff([0, *ends])
    sums = np.cumsum(np.sqrt(2 * sizes * math.log(2 * rows / failure)))
    return (sums / np.asarray(ends)).tolist()


def level_zero_sum_printed(size: int, rows: int, failure: float) -> float:
    """The proof's bound on the sum over level 0, sqrt(2k log(2 rows/p)), as if there were k inputs and not d."""
    return math.sqrt(2 * size * math.log(2 * rows / failure))


def uninformative_bound(tokens: int, inputs: int) -> float:
    """P(some token is -1 on all of n' inputs) <= (d+k-1) 2^-n'."""
    return min(1.0, tokens * 2.0**-inputs)


def uninformative_chance(children: np.ndarray, bits: int, inputs: int) -> float:
    """The same probability exactly, for any tree.

    A token is a vector of F_2^n' (1 where it is -1), uniform for inputs, a sum for nodes; the bad one is all ones. The
    chance that a subtree holds no bad vector and its root is v depends only on whether v is zero or not, since the
    linear maps that fix the bad vector move all others into each other. Kept are the losses x, y of those chances,
    2^-n' (1 - y) for zero and 2^-n' (1 - x) for each of the others: sums of positive terms, which keep their digits.
    """
    alone = 2.0**-inputs
    x, y = dict.fromkeys(range(bits), 0.0), dict.fromkeys(range(bits), 0.0)

    def either(a: float, b: float) -> float:
        return a + b - a * b

    for i, (left, right) in enumerate(np.asarray(children).tolist()):
        both = either(x[left], x[right])
        y[bits + i] = alone * (1 + either(y[left], y[right])) + (1 - 2 * alone) * both
        crossed = either(y[left], x[right]) + either(x[left], y[right])
        x[bits + i] = alone * (2 + crossed) + max(0.0, 1 - 4 * alone) * both  # at n' = 1 there are no others
    root = bits + len(children) - 1
    bad = alone * (1 + y[root]) + (1 - 2 * alone) * x[root]
    used = {int(token) for pair in children for token in pair}
    unused = sum(token not in used for token in range(bits))
    return float(-np.expm1(np.log1p(-min(bad, 1.0)) + unused * np.log1p(-alone)))


# --- hardness: Proposition 3, Theorems 1 and 2 ------------------------------------------------------------------------


def full_rank_chance(bits: int, samples: int) -> float:
    """The chance that n uniform vectors of F_2^d span it: the product of 1 - 2^-i over i = n-d+1..n."""
    return math.prod(1 - 2.0**-i for i in range(samples - bits + 1, samples + 1))


def orthogonal_variance(squared_norm: float, functions: int) -> float:
    """Proposition 3: Var <= E||grad f||^2/|H| for the loss (1/2) E(h-f)^2 and |H| orthonormal h."""
    return squared_norm / functions


def overlap(bits: int, samples: int) -> float:
    """delta = sqrt(4d/n), which no |<p, p'>_n| exceeds but with the chance `overlap_chance`."""
    return math.sqrt(4 * bits / samples)


def overlap_chance(parities: int, samples: int, delta: float) -> float:
    """P(max |<p, p'>_n| >= delta) <= |P|(|P|-1) exp(-n delta^2/2)."""
    return parities * (parities - 1) * math.exp(-samples * delta**2 / 2)


def overlap_chance_of_half(bits: int) -> float:
    """(2/e)^(2d), which bounds it at delta = sqrt(4d/n) for every k."""
    return (2 / math.e) ** (2 * bits)


def typical_overlap(samples: int) -> float:
    """The root mean square of <p, p'>_n for p != p', which are means of n random signs."""
    return samples**-0.5


def gram_eigenvalue(bits: int, samples: int, parities: int) -> float:
    """lambda_max(G_P) <= 2 max(1, |P| delta)."""
    return 2 * max(1.0, parities * overlap(bits, samples))


def gershgorin(parities: int, largest_overlap: float) -> float:
    """lambda_max(G_P) <= 1 + (|P|-1) max |<p, p'>_n|."""
    return 1 + (parities - 1) * largest_overlap


def gradient_variance(bits: int, samples: int, parities: int, largest: float) -> float:
    """Var_n <= 2 max(1/|P|, sqrt(4d/n)) sup ||grad f||^2."""
    return 2 * max(1 / parities, overlap(bits, samples)) * largest


def revealed_chance(queries: int, variance: float, epsilon: float) -> float:
    """1 - Pr(Q) <= T Var/eps^2: Chebyshev's inequality at every query."""
    return queries * variance / epsilon**2


def hidden_squared(chance: float, mean_magnitude: float) -> float:
    """E(p-f)^2 >= 2 - 1/Pr(Q) - 2 E_x|E_p p(x)| of a p-free f, when the oracle hides all p of a set Q."""
    return 2 - 1 / chance - 2 * mean_magnitude if chance > 0 else -math.inf


def hidden_sup(chance: float) -> float:
    """E_p sup|p-f| >= Pr(Q) when Q holds two parities."""
    return chance


def hidden_loss_exact(chance: float, parities: int) -> float:
    """min over f of E_p[1_Q E_x(p-f)^2] = Pr(Q) - 1/|P|: the best f is the mean of Q, and parities are orthonormal."""
    return chance - 1 / parities


def loss_after(queries: float, variance: float, epsilon: float, mean_magnitude: float) -> float:
    """Equation (5): E(p-f)^2 >= 1 - 2 T Var/eps^2 - 2 E_x|E_p p(x)|, where T Var/eps^2 <= 1/2."""
    return 1 - 2 * queries * variance / epsilon**2 - 2 * mean_magnitude


def zero_one_error(parities: int) -> float:
    """Averaged over P, any predictor errs with probability at least 1/2 - 1/(2 sqrt|P|)."""
    return 0.5 - 0.5 / math.sqrt(parities)


def unlucky_share(parities: int, correlation: float) -> float:
    """The share of P with which one +-1 predictor can correlate by more than s is at most 1/(|P| s^2) (Bessel)."""
    return min(1.0, 1 / (parities * correlation**2))


def cheap_share(parities: int, gain: float) -> float:
    """The share of P on which one predictor gets squared loss below 1 - gain is at most 1/(|P| gain).

    The loss is 1 - 2<p,f> + ||f||^2, so <p,f> > (gain + ||f||^2)/2 there, and sum_p <p,f>^2 <= ||f||^2.
    """
    return min(1.0, 1 / (parities * gain))


class Sandwich(NamedTuple):
    """Bounds on ln C(d, k)."""

    low: float
    high: float


def class_size(bits: int, size: int) -> Sandwich:
    """k ln(d/k) <= ln C(d, k) <= k ln(ed/k)."""
    return Sandwich(size * math.log(bits / size), size * (1 + math.log(bits / size)))
