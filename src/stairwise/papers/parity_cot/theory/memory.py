"""Theorem 2: where its memory bound applies, how well a gradient hides the secret, and Gaussian elimination."""

import math
from typing import NamedTuple

import numpy as np


class Memory(NamedTuple):
    """The two sides of d^2 + dm = o(nk / ln n), and the parameters of the model.

    used        d^2 + dm
    threshold   nk / ln n
    parameters  d^2 + 4md: A and W
    """

    used: float
    threshold: float
    parameters: float

    @property
    def ratio(self) -> float:
        return self.used / self.threshold

    @property
    def applies(self) -> bool:
        """A model that is not even smaller than the threshold is none that the theorem speaks of."""
        return self.ratio < 1


def memory(inputs: float, size: float, width: float, m: float) -> Memory:
    """Sizes of the simplified transformer against the threshold.

    >>> round(memory(10**5, 10, 200, 22).ratio, 2)
    0.51
    """
    used = float(width) ** 2 + float(width) * m
    parameters = float(width) ** 2 + 4.0 * m * width
    return Memory(used, inputs * size / math.log(inputs), parameters)


def samples_to_full_rank(inputs: int) -> tuple[float, float]:
    """Mean and variance of the number of random samples that determine a parity of n bits.

    At rank r a sample is new with chance 1 - 2^{r-n}: the mean is n + sum_{i=1}^n 1/(2^i - 1), about n + 1.6067.

    >>> samples_to_full_rank(50)[0] - 50
    1.6066951524152...
    """
    chances = [1 - 2.0**-i for i in range(1, min(inputs, 1000) + 1)]
    extra = sum((1 - p) / p for p in chances)
    return inputs + extra, sum((1 - p) / p**2 for p in chances)


def largest_model(inputs: int, size: int) -> tuple[int, int]:
    """Width d and m of a model just below the threshold: d^2 takes half of nk / ln n, and m the rest.

    >>> largest_model(12, 6), memory(12, 6, *largest_model(12, 6)).applies
    ((3, 6), True)
    """
    threshold = memory(inputs, size, 1, 1).threshold
    width = max(1, math.floor(math.sqrt(threshold / 2)))
    return width, max(1, math.ceil((threshold - width**2) / width) - 1)


def fourier(values: np.ndarray) -> np.ndarray:
    """The coefficients E_b[f(b) (-1)^{b summed over S}] of f on {0,1}^n, by the code of S; values by the code of b.

    >>> fourier(np.array([1.0, -1.0, 1.0, -1.0]))
    array([0., 1., 0., 0.])
    """
    found = np.array(values, dtype=np.float64)
    half = 1
    while half < len(found):
        pairs = found.reshape(-1, 2, half, *found.shape[1:])
        zero = pairs[:, 0].copy()
        pairs[:, 0] += pairs[:, 1]
        np.subtract(zero, pairs[:, 1], out=pairs[:, 1])
        half *= 2
    return found / len(found)


def samples_to_see(noise: float, signals: np.ndarray) -> float:
    """After how many samples the mean gradient of a secret is as large as its noise, over all secrets.

    `noise` is E|g|^2 of one sample, `signals` are the squared norms of the mean gradients; where all of them are zero,
    no number of samples is enough.
    """
    signal = float(np.mean(signals))
    return noise / signal if signal > 0 else math.inf
