"""The masks, and the chain as a fixed point of the transformer: Section 2.2, Figures 2 and 3."""

from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.config import Config, option, require
from stairwise.lab.contract.checks import at_least, equal, row, true
from stairwise.papers.parity_onestep import model
from stairwise.papers.parity_onestep.claims.ledger import LEDGER
from stairwise.papers.parity_onestep.claims.sizes import bits_of, link_of, tokens_of, tree_of
from stairwise.papers.parity_onestep.config import LinkFunction, Task
from stairwise.papers.parity_onestep.theory import links as theory
from stairwise.tasks import decomposition
from stairwise.train.draws import draws_of

GENERIC = 4.0  # largest scale of random weights whose softmax does not underflow or saturate


@dataclass(frozen=True)
class Weights(Config):
    """A model with random weights, and inputs to run it on."""

    task: Task = option(Task(64, 32), "the parity")
    link: LinkFunction = option(LinkFunction(), "the link function")
    scale: float = option(1.0, "standard deviation of the entries of W", low=0.0, high=100.0)
    samples: int = option(16, "inputs", low=1, high=4096)

    def check(self) -> None:
        nodes = self.task.size - 1
        require(nodes <= 512, f"task.size={self.task.size} must be at most 513")

    def model(self, mask: str, seed: int):
        tree = tree_of(self.task, seed)
        W = self.scale * draws_of(seed, "weights").standard_normal((tree.tokens, tree.nodes))
        return model.PositionalAttention(jnp.asarray(W), tree, link_of(self.link), mask)


GENERIC_WEIGHTS = {"generic weights (scale at most 4)": lambda config: config.scale <= GENERIC}


@LEDGER.exact(
    "eq1",
    statement=("Equation 1", "Figure 2"),
    says=r"the tokens $(x_j, e_j)$ of all $n$ samples at once under $K^\top Q = \mathrm{diag}(0, W)$, $V = (I\;0)$ give"
    r" $\hat x_m = \phi(\sum_j\sigma_j(w_m)x_j)$, sample by sample",
    of=(model.PositionalAttention.forced, model.PositionalAttention.scores, model.masked_softmax),
    hypotheses=GENERIC_WEIGHTS,
    cases=(Weights(Task(16, 8)), Weights(Task(12, 7), LinkFunction("cos"), 3.0)),
    seeds=3,
)
def samples_are_not_cross_referenced(config: Weights, seed: int):
    net = config.model("causal", seed)
    d, n, tokens = config.task.bits, config.samples, net.tree.tokens
    x = tokens_of(net.tree, bits_of(config.task, n, seed))
    W = np.zeros((tokens, tokens))
    W[:, d:] = np.asarray(net.W)
    P = np.concatenate([x.T, np.eye(tokens)], axis=1)  # one row per token: its n values and its position
    KQ = np.zeros((n + tokens, n + tokens))
    KQ[n:, n:] = W
    made = []
    for m in range(d, tokens):
        logits = P[:m] @ KQ @ P[m]
        weights = np.exp(logits) / np.exp(logits).sum()
        made.append(weights @ P[:m, :n])
        yield equal(f"attention of token {m}", np.asarray(net.scores())[:m, m - d], weights)
    forced = np.asarray(jax.vmap(net.forced)(jnp.asarray(x)))
    # z is a mean of signs, so a small one keeps the rounding of its terms
    yield equal("z of every node and sample", forced, np.array(made).T, scale=1.0)


@LEDGER.exact(
    "masks",
    statement=("Figure 3", "Section 3.3, mask"),
    says=r"node $m$ sees $j < m$ (causal) or $j \le d_{h[m]-1}$ (block); the gradient is 0 everywhere else",
    of=(decomposition.Tree.visible, decomposition.Tree.nodes_before),
    free={"Tree.nodes_before": "no node of a tree with padding is as high as the number of nodes"},
    hypotheses=GENERIC_WEIGHTS,
    cases=(Weights(Task(16, 8)), Weights(Task(16, 7), scale=2.0)),
    seeds=3,
)
def hidden_entries_have_no_gradient(config: Weights, seed: int):
    d = config.task.bits
    for mask in ("causal", "block"):
        net = config.model(mask, seed)
        height = np.asarray(net.tree.height)
        ends = [d + int(np.sum(height <= level)) for level in range(height.max() + 1)]
        limit = d + np.arange(net.tree.nodes) if mask == "causal" else np.array(ends)[height - 1]
        visible = np.asarray(jax.jit(lambda net=net: net.tree.visible(net.mask))())
        expected = np.arange(net.tree.tokens)[:, None] < limit
        x = jnp.asarray(tokens_of(net.tree, bits_of(config.task, config.samples, seed)))
        forced, free = (np.asarray(slope) for slope in jax.jit(_slopes)(net, x))
        yield true(f"{mask}: visible tokens are those before the limit", visible == expected)
        yield true(f"{mask}: no gradient elsewhere with teacher forcing", forced[~expected] == 0)
        yield true(f"{mask}: no gradient elsewhere without", free[~expected] == 0)
        if config.scale > 0:
            yield true(f"{mask}: a gradient at every visible token", forced[expected] != 0)


def _slopes(net, x):
    """Autodiff gradients of the squared error, from true tokens and along the model's own chain."""
    d = net.tree.slots

    def forced(W):
        moved = model.PositionalAttention(W, net.tree, net.link, net.mask)
        return jnp.sum((net.link(jax.vmap(moved.forced)(x)) - x[:, d:]) ** 2) / 2

    def free(W):
        moved = model.PositionalAttention(W, net.tree, net.link, net.mask)
        tokens = x[:, :d]
        for _ in range(net.tree.nodes if net.mask == "causal" else net.tree.levels):
            full = jnp.concatenate([tokens, jnp.zeros((len(x), net.tree.nodes), dtype=x.dtype)], axis=1)[
                :, : x.shape[1]
            ]
            tokens = jnp.concatenate([x[:, :d], net.link(full @ moved.scores())], axis=1)
        return jnp.sum((tokens - x) ** 2) / 2

    return jax.grad(forced)(net.W), jax.grad(free)(net.W)


def passes(net, x: np.ndarray, count: int) -> np.ndarray:
    """TF applied `count` times to its own output, from zeros in the places of the nodes; every pass at full width."""
    scores = np.asarray(net.scores())
    tokens = np.concatenate([x, np.zeros((len(x), net.tree.nodes))], axis=1)
    for _ in range(count):
        made = theory.on(net.link.value, tokens @ scores)
        tokens = np.concatenate([x, made], axis=1)
    return tokens


@LEDGER.exact(
    "tf-fixpoint",
    statement=("Section 2.2, chain of thought", "Equation 3"),
    says=r"applying TF to its own output stops changing after $k-1$ passes (causal mask), after $v = \log_2 k$"
    r" passes (block"
    r" mask), and not before",
    of=(model.PositionalAttention.by_tokens, model.PositionalAttention.by_levels),
    hypotheses=GENERIC_WEIGHTS,
    cases=(Weights(Task(24, 16)), Weights(Task(16, 7), LinkFunction("cos"))),
    seeds=3,
)
def the_chain_is_a_fixed_point(config: Weights, seed: int):
    x = bits_of(config.task, config.samples, seed).astype(np.float64)
    for mask in ("causal", "block"):
        net = config.model(mask, seed)
        count = net.tree.nodes if mask == "causal" else int(np.asarray(net.tree.height).max())
        yield equal(f"{mask}: {count} passes against one sequential one", rolled(net, x), passes(net, x, count))
        looking_back = backward_weights(net)
        early = np.abs(passes(looking_back, x, count - 1) - rolled(looking_back, x)).max()
        yield at_least(f"{mask}: movement in pass {count}", early, 1e-9)


def rolled(net, x: np.ndarray) -> np.ndarray:
    """The chain in one sequential pass."""
    return np.asarray(_roller()(net, jnp.asarray(x)))


@cache
def _roller():
    return jax.jit(lambda net, x: jax.vmap(net.by_tokens if net.mask == "causal" else net.by_levels)(x))


def backward_weights(net):
    """The same model, but half of a node's attention goes to the last node before it that it sees.

    Under random weights a change of the first node reaches the last one through k-2 small factors, below rounding.
    """
    d, before = net.tree.slots, np.asarray(jax.jit(lambda: net.tree.nodes_before(net.mask))())
    W = np.asarray(net.W).copy()
    for i, count in enumerate(before):
        if count:
            W[d + count - 1, i] = np.log(np.exp(W[: d + count - 1, i]).sum())
    return model.PositionalAttention(jnp.asarray(W), net.tree, net.link, net.mask)


@LEDGER.misprint(
    "tf-fixpoint-printed",
    statement=("Section 2.2, chain of thought", "Section 2.2, TF^(v)"),
    says=r"as printed: the chain of the causal mask is $\mathrm{TF}^{(v)}$",
    means=r"$\mathrm{TF}^{(k-1)}$, as the sentence before says; $v$ is right for the block mask of Section 3.3",
    corrected="tf-fixpoint",
    cases=Weights(Task(24, 16)),
    seeds=3,
)
def v_passes_do_not_finish_the_causal_chain(config: Weights, seed: int):
    x = bits_of(config.task, config.samples, seed).astype(np.float64)
    net = config.model("causal", seed)
    v = int(np.asarray(net.tree.height).max())
    yield equal(f"{v} passes against one sequential one", passes(net, x, v), rolled(net, x))
    yield row({"passes": v, "nodes": net.tree.nodes})
