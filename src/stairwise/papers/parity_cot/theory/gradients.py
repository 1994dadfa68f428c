"""Closed forms of the three steps while activations follow the start's signs: Lemmas 12, 14, 18, 20, 21, 23, 25, 26.

NumPy; all gradients are those of the mean linear loss in coefficient space, h = +-1/(2m). Printed and corrected forms
stand side by side: `_printed` is what the paper says.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Integer, Shaped

from stairwise.papers.parity_cot.theory.statistics import (
    BatchCounts,
    both_positive,
    gamma,
    mean_alpha,
    place,
    psi,
    weigh,
    zeta,
)

Signs = Bool[np.ndarray, "neurons queries 2"]
Secret = Integer[np.ndarray, " queries"]
Neurons = Float[np.ndarray, "neurons positions 2"]
Kappa = Float[np.ndarray, "queries 2 positions 2"]
Scores = Float[np.ndarray, "positions 2 queries 2"]


def output_weights(positive: Signs) -> Float[np.ndarray, " neurons"]:
    m = len(positive) // 2
    return np.repeat([1.0, -1.0], m) / (2 * m)


# --- the first step ---------------------------------------------------------------------------------------------------


def own_gradient(batch: BatchCounts, positive: Signs, inputs: int) -> Neurons:
    """Lemma 12: (h_r / B) sum_{i,b} 1(nu_{r,i,b} > 0) delta_{i,b} e_{i,b}."""
    h = output_weights(positive)
    found = np.zeros((len(positive), inputs + positive.shape[1], 2))
    found[:, inputs:] = h[:, None, None] * positive * batch.delta / batch.samples
    return found


def seen_gradient(batch: BatchCounts, positive: Signs) -> Neurons:
    """Lemma 14, exact: (h_r / B) sum_j sum_b1 e_{j,b1} sum_{i,b2} 1(nu_{r,i,b2} > 0) alpha_{i,j,b1,b2} / i."""
    return output_weights(positive)[:, None, None] * weigh(batch.alpha, positive) / batch.samples


def seen_gradient_printed(batch: BatchCounts, positive: Signs, secret: Secret) -> Neurons:
    """Lemma 14 as printed: the mean alpha-bar at j = S[i], and noise at all other j only."""
    mean = batch.samples * mean_alpha(batch.alpha.shape[1] - len(secret), secret)
    parts = weigh(mean, positive) + psi(batch, positive, secret)
    return output_weights(positive)[:, None, None] * parts / batch.samples


def kappa(batch: BatchCounts, positive: Signs, rate: float) -> Kappa:
    """Lemma 18, exact: kappa_{1,i,b} = eta0 / (4 B m^2) sum_r 1(nu_{r,i,b} > 0) sum ... alpha / i'."""
    k, positions = batch.alpha.shape[:2]
    m = len(positive) // 2
    scaled = batch.alpha / place(positions - k, k)[:, None, None, None]
    return rate / (4 * batch.samples * m**2) * np.einsum("qbpc,pjdc->qbjd", both_positive(positive), scaled)


def kappa_leading(inputs: int, secret: Secret, m: int, rate: float) -> Kappa:
    """The mean of kappa_1 over batch and start.

    eta0 (-1)^{b1+b} / (32 m i) on e_{S[i],b1}, and eta0 (-1)^{b1} / (16 m (n+1)) on e_{S[n+1],b1} for every i and b;
    for i = n+1, b = 0 the latter is doubled. The first query's bit is 0, so its alpha-bar does not cancel over b2.
    """
    k = len(secret)
    sign = np.array([1.0, -1.0])
    found = np.zeros((k, 2, inputs + k, 2))
    for q in range(1, k):
        found[q, :, secret[q]] = rate * np.outer(sign, sign) / (32 * m * (inputs + 1 + q))
    found[:, :, secret[0]] += leak(inputs, m, rate) * sign
    found[0, 0, secret[0]] *= 2
    return found


def noise_to_signal(inputs: int, size: int) -> Float[np.ndarray, " later"]:
    """What one sample leaves on kappa at keys that are no secret, squared, over its mean at the secret one, i > n+1.

    8 (sum over all other queries p of (i/p)^2 + 5/2), which is 8k + 12 but for the ratios. Each of these queries adds
    1/(128 m^2 p^2), the query itself 5/2 of that, since all of its active neurons agree with themselves; the mean is
    1/(32 m i). A batch of B samples has 1/B of it, whence the samples of Theorem 3: B >> k ln n.
    """
    i = place(inputs, size)
    return 8 * ((i[1:, None] / i) ** 2 @ np.ones(size) + 1.5)


def leak(inputs: float, m: float, rate: float) -> float:
    """What the first query leaves at every other one: eta0 / (16 m (n+1)), twice what is wanted there."""
    return rate / (16 * m * (inputs + 1))


def kappa_leading_printed(inputs: int, secret: Secret, m: int, rate: float) -> Kappa:
    """Lemma 18's first term as printed: eta0 / (8 B m i) sum_b1 alpha-bar_{i,S[i],b1,b} e_{S[i],b1}, and no more."""
    k = len(secret)
    mean = mean_alpha(inputs, secret)
    return np.einsum("qjcb->qbjc", mean) * rate / (8 * m * place(inputs, k)[:, None, None, None])


def kappa_printed(batch: BatchCounts, positive: Signs, secret: Secret, rate: float) -> Kappa:
    """Lemma 18 as printed: first term, gamma term, zeta term."""
    k, positions = batch.alpha.shape[:2]
    inputs, m = positions - k, len(positive) // 2
    mean = mean_alpha(inputs, secret)
    by_gamma = np.einsum("qbpc,pjdc->qbjd", gamma(positive, inputs), mean)
    by_zeta = zeta(psi(batch, positive, secret), positive) / batch.samples
    return kappa_leading_printed(inputs, secret, m, rate) + rate / (4 * m**2) * (by_gamma + by_zeta)


# --- the second step --------------------------------------------------------------------------------------------------


def attention_gradient(
    tokens: Shaped[np.ndarray, "samples tokens"],
    kappa: Kappa,
    scores: Float[np.ndarray, "positions 2 positions 2"] | None = None,
    times: Float[np.ndarray, " samples"] | None = None,
) -> Scores:
    """Lemma 20: the mean loss's gradient in A, as coefficients on e_{j,b1} e_{i,b2}'.

    A sample adds -(-1)^{b[i+1]} P_j (w_j - sum_p P_p w_p) at (j, b[j]), (i, b[i]), where w_j is the inner product of
    kappa_{i,b[i]} and e_{j,b[j]} (`kappa` holds these) and P its attention: softmax of the scores, uniform without any.
    """
    return _attention_gradient(tokens, kappa, scores, times, -1, (0, 1))


def attention_gradient_sign_printed(tokens: Shaped[np.ndarray, "samples tokens"], kappa: Kappa, times=None) -> Scores:
    """Lemma 21's proof, the loss of one sequence: as printed, the mean over the keys is added, not subtracted."""
    return _attention_gradient(tokens, kappa, None, times, 1, (0, 1))


def attention_gradient_sum_printed(tokens: Shaped[np.ndarray, "samples tokens"], kappa: Kappa, times=None) -> Scores:
    """Lemma 21's proof, the loss of the batch: as printed, the mean over the keys is subtracted for b2 = 1 only."""
    return _attention_gradient(tokens, kappa, None, times, -1, (1,))


def _attention_gradient(tokens, kappa, scores, times, sign: int, bits: tuple[int, ...]) -> Scores:
    """`sign` is that of the mean over the keys, which counts where the query's bit is one of `bits`."""
    shares = np.full(len(tokens), 1 / len(tokens)) if times is None else times / times.sum()
    if scores is None:
        return _uniform_gradient(tokens, kappa, shares, sign, bits)
    length, queries = tokens.shape[1], len(kappa)
    first = length - 1 - queries
    found = np.zeros((length - 1, 2, queries, 2))
    for q in range(queries):
        i = first + q
        key = np.arange(i + 1)
        seen, bit = tokens[:, : i + 1].astype(np.int64), tokens[:, i].astype(np.int64)
        w = kappa[q, bit[:, None], key, seen]
        logits = scores[key, seen, i, bit[:, None]]
        P = np.exp(logits - logits.max(axis=1, keepdims=True))
        P /= P.sum(axis=1, keepdims=True)
        mean = np.where(np.isin(bit, bits)[:, None], np.sum(P * w, axis=1, keepdims=True), 0)
        value = -(1.0 - 2 * tokens[:, i + 1, None]) * P * (w + sign * mean) * shares[:, None]
        atom = ((2 * key + seen) * queries + q) * 2 + bit[:, None]  # of found, flat
        found += np.bincount(atom.ravel(), weights=value.ravel(), minlength=found.size).reshape(found.shape)
    return found


def _uniform_gradient(tokens, kappa, shares, sign: int, bits: tuple[int, ...]) -> Scores:
    """The same with P = 1/i: w_j is then a function of the bit of j alone, and sums over samples are products."""
    queries, positions = len(kappa), tokens.shape[1] - 1
    shown = tokens[:, :-1].astype(np.float64)
    by_bit = (1 - shown, shown)
    first = positions - queries
    seen = np.arange(positions) <= first + np.arange(queries)[:, None]
    P = shares[:, None] / seen.sum(axis=1)
    found = np.zeros((positions, 2, queries, 2))
    for bit in (0, 1):
        w = np.where(seen[:, None], np.swapaxes(kappa[:, bit], 1, 2), 0.0)  # by query, bit of the key, key
        value = -(1.0 - 2 * tokens[:, first + 1 :]) * P * by_bit[bit][:, first:]
        mean = (by_bit[0] @ w[:, 0].T + by_bit[1] @ w[:, 1].T) / seen.sum(axis=1) if bit in bits else 0.0
        for b, has in enumerate(by_bit):
            found[:, b, :, bit] = w[:, b].T * (has.T @ value) + sign * seen.T * (has.T @ (value * mean))
    return found


def target_logit(inputs: int, size: int, m: int, rate0: float, rate1: float) -> Float[np.ndarray, "queries 2"]:
    """The mean score of the secret key after step 2, by query i and the secret bit b1.

    eta0 eta1 / (128 m i^2) (1 - 1/i), and 8 times that at i = n+1; at i = n+2 the query's bit is the first secret bit,
    so that its leak (`kappa_leading`) takes eta0 eta1 (-1)^{b1} / (64 m (n+1) i^2) away.
    """
    i = place(inputs, size)
    found = np.repeat((rate0 * rate1 / (128 * m * i**2) * (1 - 1 / i))[:, None], 2, axis=1)
    found[0] *= 8
    if size > 1:
        found[1] -= rate0 * rate1 / (64 * m * (inputs + 1) * i[1] ** 2) * np.array([1.0, -1.0])
    return found


def target_logit_printed(inputs: int, size: int, m: int, rate0: float, rate1: float) -> Float[np.ndarray, " queries"]:
    """Lemma 21's R: eta0 eta1 alpha-bar^2 / (8 B^2 m i'), with i' not squared."""
    found = rate0 * rate1 / (8 * m * place(inputs, size)) / 16
    found[0] *= 4
    return found


# --- the third step ---------------------------------------------------------------------------------------------------


class Shift(NamedTuple):
    """What step 3 adds, where attention is one-hot: to <W[r, d:], e_{S[i],b1}>, and to the output.

    by_neuron   neuron, query, b1
    output      by query: times (-1)^{b[i+1]+1}
    """

    by_neuron: Float[np.ndarray, "neurons queries 2"]
    output: Float[np.ndarray, " queries"]


def third_gradient(alpha: Float[np.ndarray, "queries positions 2 2"], positive: Signs, secret: Secret) -> Neurons:
    """Lemma 23 corrected: h_r sum_{i,b1,b2} 1(nu_{r,i,b2} > 0) alpha_{i,S[i],b1,b2} e_{S[i],b1}, with alpha per sample.

    Its mean has alpha-bar/B: 1/4 in size, 1/2 at i = n+1 (`mean_alpha`).
    """
    found = np.zeros((len(positive), alpha.shape[1], 2))
    for q, j in enumerate(secret):
        found[:, j] = positive[:, q].astype(np.float64) @ alpha[q, j].T
    return output_weights(positive)[:, None, None] * found


def third_gradient_printed(positive: Signs, inputs: int, secret: Secret) -> Neurons:
    """Lemma 23 as printed: h_r sum (1/i) 1(nu_{r,i,b2} > 0) (-1)^{b1+b2} e_{S[i],b1}."""
    mean = 4 * mean_alpha(inputs, secret)
    mean[0, secret[0]] = [[1.0, -1.0], [-1.0, 1.0]]
    return output_weights(positive)[:, None, None] * weigh(mean, positive)


def third_step(positive: Signs, rate: float) -> Shift:
    """Lemmas 25 and 26 corrected.

    <W[r, d:], e_{S[i],b1}> moves by -eta2 h_r (-1)^{b1} (1(nu_0 > 0) - 1(nu_1 > 0)) / 4, at i = n+1 by
    -eta2 h_r (-1)^{b1} 1(nu_0 > 0) / 2; the output by eta2 / (32 m), and by eta2 / (8 m) at i = n+1.
    """
    m, k = len(positive) // 2, positive.shape[1]
    sign = np.array([1.0, -1.0])
    signal = positive.astype(np.float64) @ sign / 4  # sum over b2 of 1(nu > 0) (-1)^{b2} / 4
    signal[:, 0] = positive[:, 0, 0] / 2
    by_neuron = -rate * output_weights(positive)[:, None, None] * signal[:, :, None] * sign
    output = np.full(k, rate / (32 * m))
    output[0] = rate / (8 * m)
    return Shift(by_neuron, output)


def third_step_printed(positive: Signs, rate: float) -> Shift:
    """Lemmas 25 and 26 as printed: -sign(nu h_r) eta2 / (2m) where the two nu differ in sign, an output of eta2 / (4m).

    With eta2 = 4 eps m / 3, as the proof has it, these are 2 eps / 3 and eps / 3.
    """
    m, k = len(positive) // 2, positive.shape[1]
    differ = positive[:, :, 0] ^ positive[:, :, 1]
    sign = np.where(positive, 1.0, -1.0)
    by_neuron = -rate * output_weights(positive)[:, None, None] * sign * differ[..., None]
    return Shift(by_neuron, np.full(k, rate / (4 * m)))


def two_steps(inputs: int, size: int, m: int, rate0: float, rate1: float) -> Float[np.ndarray, " queries"]:
    """The largest mean of |<W_2[r, d:], e_{S[i],b1}>| over the neurons: (eta0 + eta1) / (8 m i), at i = n+1 twice that.

    Lemma 25's proof has (eta0 + eta1) / (20 m n) in its place.
    """
    found = (rate0 + rate1) / (8 * m * place(inputs, size))
    found[0] *= 2
    return found


def step2_margin(inputs: int, size: int, m: int, rate0: float, rate1: float) -> Float[np.ndarray, " queries"]:
    """Output margin that W[:, d:] has after two steps where attention is one-hot: (eta0 + eta1) / (32 m i), and 4 times
    that for i = n+1."""
    found = (rate0 + rate1) / (32 * m * place(inputs, size))
    found[0] *= 4
    return found
