"""What holds at the start and at the end of training whatever the task: logit bounds, concentration, tails."""

import math


def logit_floor(tokens: int, clip: float) -> float:
    """Fact B.2, lambda: 1 - logit >= (d-1)/(d-1+e^B), as 0 <= F <= B."""
    return (tokens - 1) / (tokens - 1 + math.exp(clip))


def loss_floor(tokens: int, clip: float) -> float:
    """The least loss, log(1 + (d-1) e^{-B})."""
    return math.log1p((tokens - 1) * math.exp(-clip))


def smallest_logit(tokens: int, values: int, clip: float) -> float:
    """Fact B.2, 2: with all other classes at 0 no logit is below 1/(d - |Y| + |Y| e^B)."""
    return 1 / (tokens - values + values * math.exp(clip))


def separation(values: int, neurons: int, tokens: int, sigma0: float) -> float:
    """Fact B.3 (b): the gap sigma_0 / (|Y|^4 m^2 log d) between initial features."""
    return sigma0 / (values**4 * neurons**2 * math.log(tokens))


def close_pairs(features: int, gap: float, deviation: float) -> float:
    """How many pairs of independent features are closer than the gap, on average, to first order in the gap.

    N(N-1)/2 pairs, each with chance 2 gap density(0); `deviation` is that of a difference of two features. It bounds
    the chance that any pair is (the union bound of Fact B.3).
    """
    return features * (features - 1) / 2 * 2 * gap / (math.sqrt(2 * math.pi) * deviation)


def feature_deviation(sigma0: float, fiber: int = 1) -> float:
    """The standard deviation of V_psi = (mean of V(g) over the fiber + V(y))/2 at the start."""
    return sigma0 / 2 * math.sqrt(1 / fiber + 1)


def largest_weight(count: int, sigma0: float, chance: float) -> float:
    """No one of `count` weights exceeds this but for the given chance: sigma_0 sqrt(2 log(count/chance))."""
    return sigma0 * math.sqrt(2 * math.log(count / chance))


def activation_deviation(sigma0: float) -> float:
    """Fact B.4: Lambda^(0) is b plus half the sum of five weights, so its deviation is sigma_0 sqrt(5)/2."""
    return sigma0 * math.sqrt(5) / 2


# --- Lemma B.11 -------------------------------------------------------------------------------------------------------


def pseudo_u_tail(n: int, order: int, bound: float, t: float) -> float:
    """Hoeffding's 2 exp(-floor(n/m) t^2 / (2 M^2)) for |h| <= M."""
    return 2 * math.exp(-(n // order) * t**2 / (2 * bound**2))


def sign_products_tail(n: int, order: int, t: float) -> float:
    """The exact P(|U| > t) for h = x_1 ... x_m on n fair signs: U is a Krawtchouk polynomial of the number of -1."""
    total = math.comb(n, order)
    mass = 0
    for minus in range(n + 1):
        signed = sum((-1) ** j * math.comb(minus, j) * math.comb(n - minus, order - j) for j in range(order + 1))
        if abs(signed) > t * total:
            mass += math.comb(n, minus)
    return mass / 2**n
