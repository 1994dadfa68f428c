"""The right-hand sides of the lemmas, as functions of the sizes; n inputs, k secret bits, 2m neurons, batch B."""

import math


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


def kappa_deviation(inputs: int, size: int, width: float, m: int, samples: int, failure: float, rate: float) -> float:
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


def gram_union(inputs: int, size: int, width: float, failure: float) -> float:
    """The chance that the union bound over all pairs gives to a violation of Lemma 31: at most delta only for
    d >= about (n+k)^2 / (2n)."""
    atoms = 2 * (inputs + size)
    return min(1.0, atoms * (atoms - 1) / 2 * 2 * failure / (8 * inputs * width))
