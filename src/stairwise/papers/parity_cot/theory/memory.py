"""Theorem 2: where its memory bound applies, and the Gaussian elimination that it speaks of."""

import math
from typing import NamedTuple


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
