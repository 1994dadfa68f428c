"""NumPy's random numbers from names and counters: what `train/keys.py` is for JAX, for checks that run outside it."""

import zlib

import numpy as np


def draws_of(seed: int, role: str, *counters: int) -> np.random.Generator:
    """The random numbers of one role under a seed; counters tell its uses apart, by a size or by a repeat.

    Two roles share no numbers, so a check may draw weights and inputs from one seed and have them independent.

    >>> draws_of(0, "inputs").random() == draws_of(0, "inputs").random()
    True
    >>> draws_of(0, "inputs").random() == draws_of(0, "weights").random()
    False
    """
    return np.random.default_rng([seed, zlib.crc32(role.encode()), *counters])
