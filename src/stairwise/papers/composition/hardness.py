"""What the population gradient of a network knows of the hidden permutations, by enumeration.

A coordinate of the gradient of the cross-entropy on hop^k labels is a statistical query: with q(x, y) the derivative of
log p(y | x), centred over y, it is -E_x q(x, f_pi(x)) plus what does not depend on pi. The Gram operator has one
nonzero eigenvalue, so over uniform pi

    Var_pi E_x[q(x, f_pi(x))] <= lambda E_x sum_y q(x, y)^2,      lambda = 1 / (N (N-1)^{2k-1}),

and the variance in units of the right-hand side tells how much of the possible signal a network's gradient sees.
"""

from functools import lru_cache
from itertools import product

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import PRNGKeyArray

from stairwise.nn.transformer import Transformer
from stairwise.papers.composition.config import Hardness
from stairwise.papers.composition.permutations import all_permutations
from stairwise.train.keys import role_key
from stairwise.train.stage import Outcome


def gradient_variance(config: Hardness, seed: int) -> Outcome:
    """The study: variance over pi of every gradient coordinate, over the norm of its query."""
    k, N = config.hops, config.alphabet
    tuples = all_tuples(k, N)
    inputs = np.array([[*sigma.reshape(-1), N + letter] for sigma in tuples for letter in range(N)], dtype=np.int32)
    labels = np.stack([answers(hidden, tuples) for hidden in tuples])
    queries = centred_queries(network(config, seed), inputs)
    norms = np.mean(np.sum(queries**2, axis=1), axis=0)
    one_hot = np.eye(N)[labels].reshape(len(tuples), -1) / len(inputs)
    means = one_hot @ queries.reshape(-1, queries.shape[2])
    variance = np.mean((means - means.mean(axis=0)) ** 2, axis=0)
    seen = norms > 1e-12 * norms.max()
    ratios = variance[seen] / norms[seen]
    eigenvalue = 1 / (N * (N - 1) ** (2 * k - 1))
    outcome = Outcome(arrays={"ratios": ratios})
    outcome.add(
        "study",
        0,
        {
            "eigenvalue": eigenvalue,
            "largest ratio": ratios.max(),
            "mean ratio": variance.sum() / norms.sum(),
            "largest share of the bound": ratios.max() / eigenvalue,
            "parameters": int(seen.sum()),
        },
    )
    return outcome


def all_tuples(k: int, N: int) -> np.ndarray:
    """All (N!)^k tuples of permutations."""
    table = all_permutations(N)
    return np.array([table[list(choice)] for choice in product(range(len(table)), repeat=k)])


def answers(hidden: np.ndarray, tuples: np.ndarray) -> np.ndarray:
    """f_pi(sigma, x) for every sigma and then every letter x."""
    count, k, N = tuples.shape
    reached = np.tile(np.arange(N), (count, 1))
    for block in range(k):
        reached = np.take_along_axis(tuples[:, block], hidden[block][reached], axis=1)
    return reached.reshape(-1)


def centred_queries(model: eqx.Module, inputs: np.ndarray) -> np.ndarray:
    """d log p(y | x) / d theta for all inputs, letters and parameters, centred over letters."""
    flat, _ = ravel_pytree(eqx.filter(model, eqx.is_array))
    shapes = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) if eqx.is_array(leaf) else leaf, model
    )
    jacobian = np.asarray(_jacobian(shapes)(flat, jnp.asarray(inputs)))
    return jacobian - jacobian.mean(axis=1, keepdims=True)


@lru_cache(maxsize=64)
def _jacobian(shapes: eqx.Module):
    """The derivatives of log p on all inputs as a function of flat parameters: one program for models of one shape."""
    arrays, static = eqx.partition(shapes, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
    _, restore = ravel_pytree(jax.tree.map(lambda each: np.zeros(each.shape, each.dtype), arrays))

    def log_p(flat, tokens):
        return jax.nn.log_softmax(eqx.combine(restore(flat), static)(tokens))

    return jax.jit(jax.vmap(jax.jacrev(log_p), in_axes=(None, 0)))


class Reader(eqx.Module):
    """A one-layer encoder that answers at the query token."""

    encoder: Transformer

    def __call__(self, tokens):
        return self.encoder(tokens)[-1]


class HopPerceptron(eqx.Module):
    """tanh over all one-hot tokens together."""

    first: jax.Array
    second: jax.Array
    vocab: int = eqx.field(static=True)

    def __call__(self, tokens):
        return self.second @ jnp.tanh(self.first @ jax.nn.one_hot(tokens, self.vocab, dtype=jnp.float64).reshape(-1))


def network(config: Hardness, seed: int) -> eqx.Module:
    """The random network on N hidden and N asked letters."""
    k, N = config.hops, config.alphabet
    return random_network(config.network, 2 * N, k * N + 1, N, config.width, config.gain, role_key(seed, "network"))


def random_network(
    kind: str, vocab: int, length: int, outputs: int, width: int, gain: float, key: PRNGKeyArray
) -> eqx.Module:
    """A network on sequences of tokens, in double precision, its weights `gain` times the usual."""
    if kind == "encoder":
        encoder = Transformer(
            vocab=vocab,
            width=width,
            layers=1,
            heads=2,
            causal=False,
            positions="learned",
            max_length=length,
            outputs=outputs,
            std=0.02 * gain,
            compute_dtype="float64",
            parameter_dtype="float64",
            key=key,
        )
        return Reader(encoder)
    first, second = jax.random.split(key)
    scale = gain * (length * vocab) ** -0.5
    return HopPerceptron(
        scale * jax.random.normal(first, (width, length * vocab), dtype=jnp.float64),
        gain * width**-0.5 * jax.random.normal(second, (outputs, width), dtype=jnp.float64),
        vocab,
    )
