"""Keys from names and counters, never from call order.

`fold_in(fold_in(key(seed), crc32(role)), t)`: adding a measurement, other chunk sizes or a resume changes no draw.
"""

import zlib

import jax
from jaxtyping import Array, Integer, PRNGKeyArray


def role_key(seed: int | Integer[Array, ""], role: str) -> PRNGKeyArray:
    """The key of one role ("train/data", "test") under a seed; the stage is part of the role."""
    return jax.random.fold_in(jax.random.key(seed), zlib.crc32(role.encode()))


def at(key: PRNGKeyArray, counter: int | Integer[Array, ""]) -> PRNGKeyArray:
    """The key of the `counter`-th use of a role: tick t, example i, position p."""
    return jax.random.fold_in(key, counter)


def role(key: PRNGKeyArray, name: str) -> PRNGKeyArray:
    """A named branch of a key."""
    return jax.random.fold_in(key, zlib.crc32(name.encode()))
