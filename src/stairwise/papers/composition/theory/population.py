"""Closed-form population gradients at every stage, from ideal inputs (Lemmas 15, 18, 19, 23, 24, 28).

With W_KQ^(l) = 0 the gradient of loss^(l) in W_KQ^(l) is -(beta0/(kN)) g_l. Blocks of the residual stream are numbered
from 0 here (0: the token's place, 1: its value, l+1: what layer l wrote), and so are positions and layers: `layer=1` is
the first. f_i is the number of fixed points of pi_i, c_i = (f_i - 1)/(N - 1), U = 1 1^T/N.
"""

import math

import numpy as np
from jaxtyping import Float, Integer

Hidden = Integer[np.ndarray, "k N"]


def fixed_points(hidden: Hidden) -> Integer[np.ndarray, " k"]:
    return (hidden == np.arange(hidden.shape[1])).sum(axis=1)


def fixed_share(hidden: Hidden) -> Float[np.ndarray, " k"]:
    """c_i = (f_i - 1)/(N - 1): 1 for the identity, -1/(N-1) for a derangement."""
    return (fixed_points(hidden) - 1) / (hidden.shape[1] - 1)


def centred(alphabet: int) -> Float[np.ndarray, "N N"]:
    """I - U."""
    return np.eye(alphabet) - 1 / alphabet


def key_query_signal(hidden: Hidden, layer: int) -> Float[np.ndarray, "blocks blocks T T"]:
    """g_l: entry [a, b, key index, query index], over the l+1 blocks that layer l reads."""
    if layer == 1:
        g = first_signal(hidden)
    else:
        g = second_signal(hidden) if layer == 2 else later_signal(hidden, layer)
    return g.reshape(layer + 1, layer + 1, hidden.size, hidden.size) / hidden.size


def first_signal(hidden: Hidden) -> Float[np.ndarray, "blocks blocks k N k N"]:
    """kN g_1: block (0, 0) has P_i - U at (i, i), block (1, 1) has c_i (I - U) at (p, i) for every p."""
    k, N = hidden.shape
    g = np.zeros((2, 2, k, N, k, N))
    for i, share in enumerate(fixed_share(hidden)):
        g[0, 0, i, :, i, :] = np.eye(N)[hidden[i]].T - 1 / N
        g[1, 1, :, :, i, :] = share * centred(N)
    return g


def second_signal(hidden: Hidden) -> Float[np.ndarray, "blocks blocks k N k N"]:
    """kN g_2: block (0, 2) has I - U at (i+1, i), block (0, 1) c_i times that."""
    k, N = hidden.shape
    g = later_signal(hidden, 2)
    for i, share in enumerate(fixed_share(hidden)):
        g[0, 1, (i + 1) % k, :, i, :] = share * centred(N)
    return g


def later_signal(hidden: Hidden, layer: int) -> Float[np.ndarray, "blocks blocks k N k N"]:
    """kN g_l for l > 2: only block (0, l), I - U at (i+1, i)."""
    k, N = hidden.shape
    g = np.zeros((layer + 1, layer + 1, k, N, k, N))
    for i in range(k):
        g[0, layer, (i + 1) % k, :, i, :] = centred(N)
    return g


def key_query_gradient(hidden: Hidden, layer: int, beta0: float) -> Float[np.ndarray, "blocks blocks T T"]:
    """The population gradient -(beta0/(kN)) g_l."""
    return -beta0 / hidden.size * key_query_signal(hidden, layer)


def readout_scale(blocks: int, alphabet: int, beta0: float) -> float:
    """1/(Z k) with Z = e^{beta0} + N - 1."""
    return 1 / ((math.exp(beta0) + alphabet - 1) * blocks)


def readout_gradient(hidden: Hidden, head: int, beta0: float) -> Float[np.ndarray, "blocks T N"]:
    """The gradient of Psi_l once layers up to l are saturated, over the l+2 blocks that are filled by then.

    -(1/(Zk)) 1_k (x) (I - U) in block l+1; for l = 1 also -(1/(Zk)) c_i (I - U) at position i of block 1, since the
    residual stream still holds the token's own value, which agrees with its hop where pi_i has fixed points.
    """
    k, N = hidden.shape
    gradient = readout_gradient_printed(hidden, head, beta0)
    if head == 1:
        own = fixed_share(hidden)[:, None, None] * centred(N)
        gradient[1] = -readout_scale(k, N, beta0) * own.reshape(k * N, N)
    return gradient


def readout_gradient_printed(hidden: Hidden, head: int, beta0: float) -> Float[np.ndarray, "blocks T N"]:
    """As printed: block l+1 only, for every l."""
    k, N = hidden.shape
    gradient = np.zeros((head + 2, k * N, N))
    gradient[head + 1] = -readout_scale(k, N, beta0) * np.tile(centred(N), (k, 1))
    return gradient


def readout_separation(hidden: Hidden, head: int, beta0: float, rate: float) -> float:
    """The least logit of a right answer over a wrong one after the step on Psi_l."""
    separation = first_separation if head == 1 else later_separation
    return separation(hidden, beta0, rate)


def later_separation(hidden: Hidden, beta0: float, rate: float) -> float:
    """beta0 + eta/(Zk), for l > 1."""
    k, N = hidden.shape
    return beta0 + rate * readout_scale(k, N, beta0)


def first_separation(hidden: Hidden, beta0: float, rate: float) -> float:
    """For l = 1, where the token's own value v = sigma_i(j) has a say.

    Where pi_i moves j, v is wrong and trails by beta0 + eta/(Zk) (1 - c_i); where it does not, v is right and leads by
    beta0 + eta/(Zk) (1 + c_i).
    """
    k, N = hidden.shape
    step = rate * readout_scale(k, N, beta0)
    share, fixed = fixed_share(hidden), fixed_points(hidden)
    leads = [1 + c for c, f in zip(share, fixed, strict=True) if f > 0]
    leads += [1 - c for c, f in zip(share, fixed, strict=True) if f < N]
    if N > 2 and (fixed < N).any():
        leads.append(1.0)
    return float(beta0 + step * min(leads))


def plateau(alphabet: int, beta0: float) -> float:
    """The loss of a head whose layer is learned and whose readout is not yet: log(1 + (N-1) e^{-beta0}).

    >>> round(plateau(5, 1.0), 4)
    0.9048
    """
    return math.log1p((alphabet - 1) * math.exp(-beta0))


# --- margins ----------------------------------------------------------------------------------------------------------


def population_margin(alphabet: int, fixed: int, layer: int) -> float:
    """Score of the right key under g_l less that of the best wrong one, least over queries of one block, times k N^2.

    l = 1: N-1 if f in {0, 1, N}, else N - f - c. l = 2: min(N-1-c, N(1-c)) if f < N, else 2N-2. l > 2: N-1. For k >= 2.

    >>> [population_margin(5, f, 1) for f in (0, 1, 2, 3, 5)]
    [4.0, 4.0, 2.75, 1.5, 4.0]
    """
    N, f = alphabet, fixed
    c = (f - 1) / (N - 1)
    if layer > 2:
        return float(N - 1)
    if layer == 2:
        return float(2 * N - 2) if f == N else min(N - 1 - c, N * (1 - c))
    return float(N - 1) if f in (0, 1, N) else N - f - c


def first_scores(alphabet: int, fixed: int) -> dict[str, float]:
    """Lemma 15's score table for a block that is not the identity and a j that it moves, corrected; times k N^2."""
    N, f = alphabet, fixed
    c = (f - 1) / (N - 1)
    return {
        "right key": N - 1 - c,
        "own key": f - 2.0,
        "own block, other keys": -1 - c,
        "other block, same value": f - 1.0,
        "other block, other value": -c,
    }


def first_scores_printed(alphabet: int, fixed: int) -> dict[str, float]:
    """The same table as printed."""
    N, f = alphabet, fixed
    return {
        "right key": N - 1.0,
        "own key": f - 1.0,
        "own block, other keys": -1 - (f - 1) / (N - 1),
        "other block, same value": f - 1.0,
        "other block, other value": -1.0,
    }
