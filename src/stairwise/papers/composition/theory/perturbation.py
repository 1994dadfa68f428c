"""How far the stream of a trained network is from the ideal one, and how little its trained layers still move.

eps/2 is the largest mass that attention leaves off the right keys. Lemmas 17, 20 to 22, 25 to 27, 29 to 35, 37.
"""

import math


def stream_error(layer: int, epsilon: float) -> float:
    """Lemmas 17, 22, 27: sup |X-hat^(l) - X^(l)| <= l eps."""
    return layer * epsilon


def stream_error_sharp(leaks: list[float]) -> float:
    """What the proof gives: the sum of the layers' leaks, since entries of a block lie in [0, 1] and errors add."""
    return sum(leaks)


def construction_error(blocks: int, alphabet: int, layers: int, beta: float, cyclic: bool) -> float:
    """The error of Theorem 4's weights at finite beta, for the readout 1_k (x) I (cyclic) or e_{k,k} (x) I.

    If the stream is off by delta, a right key leads by beta (1 - 2 delta), so each wrong one gets at most
    e^{-beta (1 - 2 delta)}; k(N-1) of them show a wrong letter. To first order L k(N-1) e^-beta and L (kN-1) e^-beta.
    """
    others, misleading = blocks * alphabet - 1, blocks * (alphabet - 1)
    error = delta = 0.0
    for _ in range(layers):
        share = math.exp(-beta * (1 - 2 * min(delta, 0.5)))
        error += (misleading if cyclic else others) * share
        delta += others * share
    return error


def sparse_construction_error(tokens: int, layers: int, beta: float, margin: float) -> float:
    """The error of Theorem 9's weights, whose right key leads by `margin` if the stream is ideal; at most 2.

    On the circle codes have products in [-1, 1], so a stream that is off by a mass delta takes at most 2 beta delta
    from the lead, and each wrong key gets at most e^{-lead}. Readouts lie in [-1, 1]: a mass delta costs 2 delta.
    """
    delta = 0.0
    for _ in range(layers):
        lead = max(0.0, margin * (1 - delta) - 2 * beta * delta)
        delta = min(1.0, delta + (tokens - 1) * math.exp(-lead))
    return 2 * delta


def gradient_error(width: int, layer: int, epsilon: float) -> float:
    """The perturbation term of Lemmas 20 and 25: d l eps (l = 1 in Lemma 20)."""
    return width * layer * epsilon


def trained_gradient(blocks: int, alphabet: int, layers: int, beta0: float, epsilon: float) -> float:
    """Lemma 29: sup |grad of a trained layer| <= 6 beta0 k (kNL)^{3/2} eps."""
    return 6 * beta0 * blocks * (blocks * alphabet * layers) ** 1.5 * epsilon


def trained_gradient_ceiling_printed(blocks: int, alphabet: int, layers: int) -> float:
    """Lemma 29 asks for eps log(1/eps) <= k^6 N^6 L^6 as printed, which always holds; the inverse is meant."""
    return float((blocks * alphabet * layers) ** 6)


def log_size(blocks: int, alphabet: int, layers: int) -> float:
    """log(kNL), in whose powers the bounds of mixture training are written."""
    return math.log(blocks * alphabet * layers)


def mixture_epsilon(blocks: int, alphabet: int, layers: int, leak: float) -> float:
    """The eps of Theorem 8's proof that a leak means: eps = 2 leak (kNL)^{6L}."""
    return 2 * leak * math.exp(6 * layers * log_size(blocks, alphabet, layers))


def mixture_stream_error(blocks: int, alphabet: int, layers: int, epsilon: float, step: int) -> float:
    """Lemmas 30 (t = 1), 32 (t = 2) and 35: eps log^{t-1}(1/eps)/(kNL)^{6L-6t+6}."""
    power = 6 * layers - 6 * step + 6
    logs = math.log(1 / epsilon) ** (step - 1) if epsilon else 0.0
    return epsilon * logs * math.exp(-power * log_size(blocks, alphabet, layers))


def mixture_trained_error(blocks: int, alphabet: int, layers: int, epsilon: float) -> float:
    """Lemma 34: eps/(2 (kNL)^{6L}) for the blocks of trained layers (as printed, with the 1/2)."""
    return epsilon / 2 * math.exp(-6 * layers * log_size(blocks, alphabet, layers))


def mixture_step_two_gradient(blocks: int, alphabet: int, layers: int, beta0: float, epsilon: float) -> float:
    """Lemma 31: beta0 eps/(kNL)^{6L-2.5} off the signal, at step 2."""
    return beta0 * epsilon * math.exp(-(6 * layers - 2.5) * log_size(blocks, alphabet, layers))


def mixture_trained_gradient(blocks: int, alphabet: int, layers: int, beta0: float, epsilon: float) -> float:
    """Lemma 33, layers below t: beta0 eps/(kNL)^{6L-1}."""
    return beta0 * epsilon * math.exp(-(6 * layers - 1) * log_size(blocks, alphabet, layers))


def mixture_untrained_gradient(
    blocks: int, alphabet: int, layers: int, beta0: float, epsilon: float, step: int
) -> float:
    """Lemma 33, layers above t: beta0 eps log^{t-2}(1/eps)/(kNL)^{6L-6t+12}."""
    power = 6 * layers - 6 * step + 12
    logs = math.log(1 / epsilon) ** (step - 2)
    return beta0 * epsilon * logs * math.exp(-power * log_size(blocks, alphabet, layers))


def mixture_cross_gradient(blocks: int, alphabet: int, layers: int, beta0: float, epsilon: float, step: int) -> float:
    """Lemma 37: 6 beta0 eps log^{l0-1}(1/eps)/(kNL)^{6L-6 l0+5} for layers l' >= l0 under a later loss."""
    power = 6 * layers - 6 * step + 5
    logs = math.log(1 / epsilon) ** (step - 1)
    return 6 * beta0 * epsilon * logs * math.exp(-power * log_size(blocks, alphabet, layers))


def uniform_cross_gradient(blocks: int, alphabet: int, layers: int, beta0: float, deviation: float) -> float:
    """Lemma 37 in terms of what eps stands for, the distance s of untrained attention from 1/(kN): 6 beta0 kNL s."""
    return 6 * beta0 * blocks * alphabet * layers * deviation
