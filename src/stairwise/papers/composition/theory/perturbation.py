"""How far the stream of a trained network is from the ideal one, and how little its other layers move.

eps/2 is the largest mass that attention leaves off the right keys. Lemmas 17, 20 to 22, 25 to 27, 29 to 35, 37.

Appendix D writes its bounds in an eps that makes the distance of the stream from the ideal one
D_t = eps log^{t-1}(1/eps)/(kNL)^{6L-6t+6} after step t of the mixture; that is below 1e-25 at the smallest sizes. Each
lemma turns a given distance into a bound that is linear in it, so the bounds here take the distance itself.
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


def gradient_error(width: int, layers: int, epsilon: float) -> float:
    """Eqs. (7) and (9): 2 d l eps, inputs being off by l eps (l = 1 in Lemma 20); the constant C is taken as 1."""
    return 2 * width * layers * epsilon


def gradient_error_sharp(blocks: int, alphabet: int, layers: int, epsilon: float) -> float:
    """Ours, to first order in eps, for layers that leak alike to all wrong keys: (1-1/N) (3kN-1)/(kN-1) l eps.

    Below 3 l eps: the factor d of eqs. (7) and (9) is not needed. Read off measurements at (k, N) = (4, 2), (4, 3),
    (4, 4), (8, 2) and met at others, (4, 5) and (8, 3) among them; we have no derivation.
    """
    tokens = blocks * alphabet
    return (1 - 1 / alphabet) * (3 * tokens - 1) / (tokens - 1) * layers * epsilon


def trained_gradient(blocks: int, alphabet: int, layers: int, beta0: float, epsilon: float) -> float:
    """Lemma 29: sup |grad of a trained layer| <= 6 beta0 k (kNL)^{3/2} eps."""
    return 6 * beta0 * blocks * (blocks * alphabet * layers) ** 1.5 * epsilon


def trained_gradient_sharp(beta0: float, epsilon: float) -> float:
    """Ours, to first order in eps: beta0 eps/2.

    An entry of W_KQ meets one query. Its softmax Jacobian has entries of eps/2 at most, the cotangents of two letters
    differ by beta0 at most, and what later layers pass on of it are weights that add up to 1.
    """
    return beta0 * epsilon / 2


def trained_gradient_ceiling(blocks: int, alphabet: int, layers: int) -> float:
    """Lemma 29 asks for eps log(1/eps) <= 1/(kNL)^6 (printed without the inverse, which always holds)."""
    return 1 / float((blocks * alphabet * layers) ** 6)


# --- mixture training -------------------------------------------------------------------------------------------------


def mixture_distance(blocks: int, alphabet: int, layers: int, epsilon: float, step: int) -> float:
    """D_t of Lemmas 30 (t = 1), 32 (t = 2) and 35: eps log^{t-1}(1/eps)/(kNL)^{6L-6t+6}."""
    power = 6 * layers - 6 * step + 6
    return epsilon * math.log(1 / epsilon) ** (step - 1) / float(blocks * alphabet * layers) ** power


def mixture_growth(blocks: int, alphabet: int, layers: int, epsilon: float) -> float:
    """Lemmas 32 and 35, one step: D_t/D_{t-1} = (kNL)^6 log(1/eps)."""
    return float(blocks * alphabet * layers) ** 6 * math.log(1 / epsilon)


def untrained_error(leak: float) -> float:
    """Lemma 30: blocks that untrained layers write are within eps, twice the leak of layer 1, of uniform."""
    return 2 * leak


def step_two_gradient(blocks: int, alphabet: int, layers: int, beta0: float, distance: float) -> float:
    """Lemma 31: beta0 (kNL)^{2.5} D_1 for the gradients at step 2 that are not the signal."""
    return beta0 * (blocks * alphabet * layers) ** 2.5 * distance


def trained_own_gradient(blocks: int, alphabet: int, layers: int, beta0: float, distance: float) -> float:
    """Lemma 33, layers below t under their own loss: beta0 kNL D, D twice the largest leak."""
    return beta0 * blocks * alphabet * layers * distance


def untrained_own_gradient(beta0: float, distance: float) -> float:
    """Lemma 33, layers above t under their own loss: beta0 D_{t-1}."""
    return beta0 * distance


def uniform_cross_gradient(blocks: int, alphabet: int, layers: int, beta0: float, distance: float) -> float:
    """Lemma 37: 6 beta0 kNL s under a later loss, s the distance of untrained attention from 1/(kN)."""
    return 6 * beta0 * blocks * alphabet * layers * distance


def uniform_cross_gradient_sharp(blocks: int, alphabet: int, beta0: float, distance: float) -> float:
    """Ours, to first order in s: beta0 s/(kN).

    An entry of W_KQ meets one key and one query. Uniform attention passes on 1/(kN) of the cotangent, whose letters
    differ by beta0 at most; the values of two keys differ by s in each of kN entries, and a weight is 1/(kN).
    """
    return beta0 * distance / (blocks * alphabet)


def first_untrained_gradient(blocks: int, alphabet: int, beta0: float) -> float:
    """What Lemmas 31 and 37 leave out: beta0 (1 - 1/N)/(kN)^2, the gradient of the first untrained layer, one sample.

    The block that this layer copies is one-hot, so a later loss moves it even on ideal inputs; its mean is 0.
    """
    return beta0 * (1 - 1 / alphabet) / (blocks * alphabet) ** 2
