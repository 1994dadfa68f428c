"""The right-hand sides of the lemmas, as functions of the sizes; n inputs, k secret bits, 2m neurons, batch B."""

import math

import numpy as np

from stairwise.papers.parity_cot.theory.statistics import lemma7


def eigenvalue_edges(size: int, width: float) -> tuple[float, float]:
    """Where the eigenvalues of M M' end for large sizes: (1 -+ sqrt(2k/d))^2; Lemma 1's 1/12 is met from d = 4k on."""
    ratio = math.sqrt(2 * size / width)
    return (1 - ratio) ** 2, (1 + ratio) ** 2


def overlap_chance(norm: float, width: float, vectors: int) -> float:
    """Lemma 4's union bound: the chance that |<V, e>| > 1/2 for some of the independent sign vectors e.

    Hoeffding: 2 exp(-d / (8 ||V||^2)) for each of them.
    """
    return min(1.0, 2 * vectors * math.exp(-width / (8 * norm**2)))


def overlap_width(size: int, failure: float, vectors: int) -> int:
    """The width at which that chance is `failure`, with ||V||^2 = 2k d / (d - 2k): d = 2k + 16k ln(2 vectors/delta).

    Lemma 4 as printed has 2k where `vectors` = 2(n-k) + 1 belongs.
    """
    return math.ceil(2 * size + 16 * size * math.log(2 * vectors / failure))


def start_deviation(size: int, width: float, m: int, samples: int, failure: float) -> float:
    """Lemma 10: |<W0, e> - nu| / eps <= sqrt(4k ln(100 B m / delta) / d)."""
    return math.sqrt(4 * size * math.log(100 * samples * m / failure) / width)


def own_gradient(inputs: int, m: int, samples: int, failure: float) -> float:
    """Lemma 13: |<dL/dW[r, :d], e>| <= sqrt(ln(300 n B / delta)) / (m sqrt B)."""
    return math.sqrt(math.log(300 * inputs * samples / failure)) / (m * math.sqrt(samples))


def seen_gradient(inputs: int, m: int) -> float:
    """Lemma 15: |<dL/dW[r, d:], e>| <= 3 / (2 m n)."""
    return 1.5 / (m * inputs)


def largest_rate(inputs: int, m: int, samples: int, failure: float, scale: float) -> float:
    """Lemma 5.4: the largest eta0 that Lemma 16 allows."""
    by_noise = 3 * m * scale * math.sqrt(samples) / (80 * math.sqrt(math.log(300 * inputs * samples / failure)))
    return min(by_noise, m * inputs * scale / 120)


def kappa_deviation(
    inputs: float, size: float, width: float, m: float, samples: float, failure: float, rate: float
) -> float:
    """Lemma 19: 10 eta0 / (m n) sqrt(nk / (Bd)) ln(300 m n B / delta)."""
    log = math.log(300 * m * inputs * samples / failure)
    return 10 * rate / (m * inputs) * math.sqrt(inputs * size / (samples * width)) * log


def one_hot_error(others: int, gap: float) -> float:
    """The largest attention off the target: 1 / (1 + e^gap / others) <= others e^-gap."""
    return math.exp(-math.log1p(math.exp(min(gap - math.log(others), 700.0))))


def lemma32(inputs: int, C: float) -> float:
    """4 / n^(C-1)."""
    return 4.0 * inputs ** (1.0 - C)


def inner_product(coefficients: float, width: float, failure: float) -> float:
    """Lemma 30: |<e, v> - lambda| <= sqrt(2 ln(2/delta) / d * sum of the other lambda^2)."""
    return math.sqrt(2 * math.log(2 / failure) / width * coefficients)


def gram_deviation(inputs: int, width: float, failure: float) -> float:
    """Lemma 31: max |G - I| <= sqrt(2 ln(8 n d / delta) / d)."""
    return math.sqrt(2 * math.log(8 * inputs * width / failure) / width)


def width_for_all_pairs(inputs: int, size: int) -> float:
    """The width from which the union over all pairs proves Lemma 31: 2N(N-1)/2 delta/(8nd) <= delta, N = 2(n+k)."""
    atoms = 2 * (inputs + size)
    return atoms * (atoms - 1) / (8 * inputs)


def neuron_shift(steps: int) -> float:
    """Lemmas 16 and 17, over eps: 3/80 after one step, 3/40 after two."""
    return 3 * steps / 80


def third_step_deviation(m: int, rate: float) -> float:
    """Lemma 25: eta2 / (100 m) (eps / 300 would be its eta2 / (400 m))."""
    return rate / (100 * m)


def two_steps_printed(inputs: int, m: int, rate0: float, rate1: float) -> float:
    """Lemma 25's proof: what two steps leave in W[r, d:] is below (eta0 + eta1) / (20 m n)."""
    return (rate0 + rate1) / (20 * m * inputs)


def rates_for_lemma25(inputs: int, last_rate: float) -> float:
    """What eta0 + eta1 must be below for Lemma 25, with the right mean: (n+1) eta2 / 50.

    (eta0 + eta1) / (4 m (n+1)) + eta2 / (200 m) <= eta2 / (100 m).
    """
    return (inputs + 1) * last_rate / 50


def target(inputs: int, m: int, rate0: float, rate1: float) -> float:
    """Lemma 21: scores of secret keys are at least eta0 eta1 / (256 m n^2)."""
    return rate0 * rate1 / (256 * m * inputs**2)


def other(inputs: int, m: int, rate0: float, rate1: float) -> float:
    """Lemma 21: all other scores are at most eta0 eta1 / (512 m n^2) in size."""
    return rate0 * rate1 / (512 * m * inputs**2)


def kappa_parts(inputs: int, size: int, width: float, m: int, samples: int, failure: float, rate: float) -> float:
    """The three parts of Lemma 19's proof, added up, from Lemma 7's bounds on gamma and zeta."""
    n, k, d, B = inputs, size, width, samples
    found = lemma7(n, k, m, B, failure)
    log = math.log(200 * n / failure)
    by_gamma = rate / (4 * B * m**2) * found["gamma"] * B / 2 * (1 + 4 * math.sqrt(k * log / d))
    by_zeta = rate / (4 * B * m**2) * found["zeta"] * (1 + 4 * math.sqrt(n * log / d))
    return by_gamma + by_zeta + rate * 2 * math.sqrt(log) / (8 * m * n * math.sqrt(d))


def operator_norm(rows: int, columns: int, t: float | np.ndarray, K: float, C: float = 1.0) -> float | np.ndarray:
    """Lemma 28: ||A|| <= CK(sqrt m + sqrt n + t) but for a chance of 2 exp(-t^2)."""
    return C * K * (math.sqrt(rows) + math.sqrt(columns) + t)


def singular_gap(columns: int, t: float | np.ndarray, K: float, C: float = 0.5) -> float | np.ndarray:
    """Lemma 29: all singular values lie within CK^2(sqrt n + t) of sqrt m but for that chance."""
    return C * K**2 * (math.sqrt(columns) + t)


def covariance_gap(rows: int, columns: int, t: float | np.ndarray, K: float, C: float = 1.25) -> float | np.ndarray:
    """Lemma 29, furthermore: |A'A/m - 1| <= K^2 max(delta, delta^2), delta = C(sqrt(n/m) + t/sqrt m)."""
    delta = C * (math.sqrt(columns / rows) + t / math.sqrt(rows))
    return K**2 * np.maximum(delta, delta**2)
