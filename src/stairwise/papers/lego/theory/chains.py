"""Chains to take exact expectations over: all of them where they are few, or a drawn handful as a population."""

import itertools
import math

import jax.numpy as jnp
import numpy as np

from stairwise.measure.population import Enumeration, uniform
from stairwise.papers.lego.task import SLOTS, Chain, Lego
from stairwise.train.draws import draws_of

LARGEST = 100_000


def count(variables: int, actions: int, values: int, length: int) -> int:
    """|X|! / (|X|-L-1)! |Y| |G|^L."""
    return math.perm(variables, length + 1) * values * actions**length


def every_chain(task: Lego) -> Enumeration:
    """D^L itself: every chain, all equally likely."""
    number = count(task.variables, task.actions, task.values, task.length)
    if number > LARGEST:
        raise ValueError(f"{number} chains must be at most {LARGEST} to be listed (every_chain)")
    names = np.array(list(itertools.permutations(range(task.variables), task.length + 1)), dtype=np.int32)
    words = _words(task)
    name, word = (index.reshape(-1) for index in np.indices((len(names), len(words))))
    return uniform(_tracked(task, names[name], words[word, 0], words[word, 1:]))


def every_word(task: Lego) -> Enumeration:
    """The same with x_l = l: enough wherever the network ignores which variables are used."""
    words = _words(task)
    names = np.broadcast_to(np.arange(task.length + 1, dtype=np.int32), (len(words), task.length + 1))
    return uniform(_tracked(task, names, words[:, 0], words[:, 1:]))


def _words(task: Lego) -> np.ndarray:
    """Every (y_0, g_1, ..., g_L)."""
    rows = itertools.product(range(task.values), *[range(task.actions)] * task.length)
    return np.array(list(rows), dtype=np.int32)


def drawn(task: Lego, seed: int, samples: int) -> Chain:
    """A handful of chains; identities that hold chain by chain hold for their mean. NumPy: nothing to compile."""
    rng = draws_of(seed, "chains", task.variables, task.length)
    names = rng.permuted(np.tile(np.arange(task.variables), (samples, 1)), axis=1)[:, : task.length + 1]
    start = rng.integers(task.values, size=samples)
    return _tracked(task, names, start, rng.integers(task.actions, size=(samples, task.length)))


def sentences(task: Lego, chain: Chain) -> np.ndarray:
    """The clauses of every chain, (chains, 2L+1, 5), written down in NumPy."""
    names, actions, values = (np.asarray(leaf) for leaf in chain)
    variable, action, value = task.starts
    L = task.length
    made = np.zeros((len(names), 2 * L + 1, SLOTS), dtype=np.int64)
    made[:, :L, 0], made[:, :L, 1], made[:, :L, 2] = names[:, 1:] + variable, actions + action, names[:, :-1] + variable
    made[:, L:, 3], made[:, L:, 4] = names + variable, values + value
    return made


def _tracked(task: Lego, names: np.ndarray, start: np.ndarray, actions: np.ndarray) -> Chain:
    table = np.asarray(task.table)
    values = [start]
    for step in range(task.length):
        values.append(table[actions[:, step], values[-1]])
    rows = (names, actions, np.stack(values, axis=1))
    return Chain(*(jnp.asarray(row, dtype=jnp.int32) for row in rows))
