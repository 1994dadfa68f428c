"""Samples are not cross-referenced: what the chain says of one sample depends on no other (equation 4)."""

from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.config import Config, option
from stairwise.lab.contract.checks import equal, row
from stairwise.nn.taps import trace
from stairwise.papers.parity_onestep import gradient, model
from stairwise.papers.parity_onestep.claims.chain import GENERIC_WEIGHTS
from stairwise.papers.parity_onestep.claims.ledger import LEDGER
from stairwise.papers.parity_onestep.claims.sizes import bits_of, link_of, tokens_of, tree_of
from stairwise.papers.parity_onestep.config import LinkFunction, Task
from stairwise.papers.parity_onestep.theory import links as theory
from stairwise.train.draws import draws_of


@dataclass(frozen=True)
class Together(Config):
    """Samples and unlabelled inputs that go through the chain as coordinates of the same tokens."""

    task: Task = option(Task(16, 8), "the parity")
    link: LinkFunction = option(LinkFunction(), "the link function")
    scale: float = option(1.0, "standard deviation of the entries of W", low=0.0, high=100.0)
    samples: int = option(6, "samples n", low=2, high=512)
    inputs: int = option(5, "unlabelled inputs n'", low=1, high=512)
    eps0: float = option(1.5, "threshold of the filter", above=0.0, high=4.0)


def chain_of_tokens(
    net: model.PositionalAttention, x: np.ndarray, u: np.ndarray, eps0: float
) -> tuple[np.ndarray, list[float]]:
    """Equation (3) as it is written: tokens of n + n' coordinates, level by level, K^T Q = diag(0, W), V = (I 0).

    Also which levels are open (1) or closed (0).
    """
    tree, W = net.tree, np.asarray(net.W)
    d, height = tree.slots, np.asarray(tree.height)
    both = np.concatenate([x, u]).T  # one row per token
    tokens, n = np.zeros((tree.tokens, both.shape[1])), len(x)
    tokens[:d] = both
    closed, opened = False, []
    for level in range(1, int(height.max()) + 1):
        nodes = np.flatnonzero(height == level)
        seen = d + int(np.sum(height < level))
        if level > 1:  # iota looks at the augmented tokens of the level before
            before = tokens[d + np.flatnonzero(height == level - 1), n:]
            closed = bool(np.any(np.abs(before + 1).max(axis=1) < eps0))
        opened.append(float(not closed))
        for i in nodes:
            weights = np.exp(W[:seen, i] - W[:seen, i].max())
            z = weights / weights.sum() @ tokens[:seen]
            tokens[d + i] = 0.0 if closed else theory.on(net.link.value, z)
    return tokens[:, :n].T, opened


@LEDGER.exact(
    "eq4-samples",
    statement=("Equation 4, samples", "Section 3.3, samples are not cross-referenced"),
    says=r"the tokens of all $n$ samples and $n'$ unlabelled inputs give $\hat x_{m,i} = f^\times_m(x^i; W, U)$,"
    r" no other sample enters; the gradient of $L(W, U)$ is the mean of those of single samples",
    of=(model.PositionalAttention.by_levels, model.PositionalAttention.link_levels, model.PositionalAttention.gates),
    hypotheses=GENERIC_WEIGHTS,
    cases=(Together(), Together(Task(12, 8), LinkFunction("cos"), 2.0), Together(Task(20, 4), eps0=0.5)),
    seeds=3,
)
def no_other_sample_enters(config: Together, seed: int):
    tree, link = tree_of(config.task, seed), link_of(config.link)
    W = config.scale * draws_of(seed, "weights").standard_normal((tree.tokens, tree.nodes))
    net = model.PositionalAttention(jnp.asarray(W), tree, link, "block")
    x = bits_of(config.task, config.samples, seed).astype(np.float64)
    u = bits_of(config.task, config.inputs, seed, role="unlabelled").astype(np.float64)
    gates = _gates()(net, jnp.asarray(u), config.eps0)
    single = np.stack([np.asarray(_alone()(net, jnp.asarray(each), gates)) for each in x])
    together, opened = chain_of_tokens(net, x, u, config.eps0)
    yield equal("tokens of every sample, together and alone", together, single, scale=1.0)
    yield equal("levels that the filter leaves open", np.asarray(gates, dtype=float), opened)
    unfiltered = np.stack([np.asarray(_alone()(net, jnp.asarray(each), None)) for each in x])
    looked = np.stack([np.asarray(_looked()(net, jnp.asarray(each), gates)) for each in x[:2]])
    yield equal("tokens where every level is looked at", looked, single[:2])
    yield equal("tokens without a filter", chain_of_tokens(net, x, u, 0.0)[0], unfiltered, scale=1.0)
    y = tokens_of(tree, bits_of(config.task, config.samples, seed))
    slopes = np.asarray(_slopes()(net, gates, jnp.asarray(y)))
    alone = np.mean([_slopes()(net, gates, jnp.asarray(y[i : i + 1])) for i in range(len(y))], axis=0)
    yield equal("gradient of the loss, and the mean over single samples", slopes, alone, scale=1e-3)
    yield row({"open levels": int(np.sum(np.asarray(gates))), "largest gradient": float(np.abs(slopes).max())})


@cache
def _gates():
    return jax.jit(lambda net, u, eps0: net.gates(u, model.Filter(eps0)))


@cache
def _alone():
    return jax.jit(lambda net, x, gates: net.by_levels(x, gates))


@cache
def _looked():
    return jax.jit(lambda net, x, gates: trace(net.by_levels, x, gates)[0])


@cache
def _slopes():
    def slopes(net, gates, y):
        """The gradient of training on these samples."""
        every, ones = jnp.ones(net.tree.nodes, dtype=bool), jnp.ones(len(y), dtype=y.dtype)
        sums = gradient.generated(net, gates, every, y.T, ones)
        return gradient.gradient(net.scores(), sums.S, len(y))

    return jax.jit(slopes)
