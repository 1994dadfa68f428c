"""The study: the queries of a random network on all inputs, and their means over every target of the class.

A coordinate of the gradient of the cross-entropy is E_x q(x, f(x)) with q(x, y) = d log p(y | x), centred over y, but
for what does not depend on the target f. In units of ||f||^2 E_x sum_y q^2, where ||f||^2 = 1 - 1/outputs is the norm
of a centred one-hot label, its variance over the class is at most 1/M.
"""

import numpy as np
from jaxtyping import Float

from stairwise.papers.composition.hardness import all_tuples, answers, centred_queries, random_network
from stairwise.papers.crossings.variance.config import Spectrum
from stairwise.tasks.parity import cube
from stairwise.train.keys import role_key
from stairwise.train.stage import Outcome


def variance(config: Spectrum, seed: int) -> Outcome:
    """The largest variance of a coordinate and that of the whole gradient, as shares of their queries' norms."""
    tokens = inputs(config)
    model = random_network(
        config.network,
        config.vocabulary,
        config.tokens,
        config.outputs,
        config.width,
        config.gain,
        role_key(seed, "network"),
    )
    queries = centred_queries(model, tokens)
    norms = (1 - 1 / config.outputs) * np.mean(np.sum(queries**2, axis=1), axis=0)
    means = parity_means(config, queries) if config.targets == "parity" else composition_means(config, queries)
    spread = np.var(means, axis=0)
    seen = norms > 1e-12 * norms.max()
    outcome = Outcome()
    shares = {"largest share": np.max(spread[seen] / norms[seen]), "share": spread.sum() / norms.sum()}
    outcome.add("study", 0, shares | {"dimensions": config.dimensions, "targets": len(means)})
    return outcome


def inputs(config: Spectrum) -> np.ndarray:
    """All inputs as tokens: the bits, or the permutations and the letter that is asked for."""
    if config.targets == "parity":
        return (cube(config.length) < 0).astype(np.int32)
    tuples = all_tuples(config.size, config.length)
    rows = [[*sigma.reshape(-1), config.length + letter] for sigma in tuples for letter in range(config.length)]
    return np.array(rows, dtype=np.int32)


def parity_means(
    config: Spectrum, queries: Float[np.ndarray, "inputs 2 parameters"]
) -> Float[np.ndarray, "targets parameters"]:
    """E_x q(x, parity_S(x)) for every S of size k: centred queries are odd in y, so it is a Fourier coefficient."""
    coefficients = -walsh_hadamard(queries[:, 1]) / len(queries)
    sizes = np.bitwise_count(np.arange(len(queries)))
    return coefficients[sizes == config.size]


def walsh_hadamard(values: Float[np.ndarray, "inputs parameters"]) -> Float[np.ndarray, "inputs parameters"]:
    """sum_x (-1)^{<S, x>} values(x) for every code S, by butterflies: n 2^n additions."""
    inputs, parameters = values.shape
    table, half = values, 1
    while half < inputs:
        pairs = table.reshape(-1, 2, half, parameters)
        sums, differences = pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]
        table, half = np.stack([sums, differences], axis=1).reshape(inputs, parameters), 2 * half
    return table


def composition_means(
    config: Spectrum, queries: Float[np.ndarray, "inputs outputs parameters"]
) -> Float[np.ndarray, "targets parameters"]:
    """E_x q(x, f_pi(x)) for every tuple of hidden permutations."""
    tuples = all_tuples(config.size, config.length)
    labels = np.stack([answers(hidden, tuples) for hidden in tuples])
    chosen = np.eye(config.outputs)[labels].reshape(len(tuples), -1) / len(queries)
    return chosen @ queries.reshape(-1, queries.shape[2])
