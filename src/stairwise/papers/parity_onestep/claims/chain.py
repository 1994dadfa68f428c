"""The masks, and the chain as a fixed point of the transformer: Section 2.2, Figures 2 and 3."""

from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.lab.checks import exactly, identical, under
from stairwise.lab.config import Config, option, require
from stairwise.lab.contract import Verdict
from stairwise.papers.parity_onestep import model
from stairwise.papers.parity_onestep.claims.ledger import LEDGER
from stairwise.papers.parity_onestep.claims.sizes import bits_of, link_of, tokens_of, tree_of
from stairwise.papers.parity_onestep.config import LinkFunction, Task
from stairwise.papers.parity_onestep.theory import links as theory

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
        W = self.scale * np.random.default_rng(seed).standard_normal((tree.tokens, tree.nodes))
        return model.PositionalAttention(jnp.asarray(W), tree, link_of(self.link), mask)


@LEDGER.theory(
    "masks",
    kind="construction",
    says="node m sees j < m (causal) or j <= d_{h[m]-1} (block); the gradient is 0 everywhere else (Figure 3)",
    cases=(Weights(Task(16, 8)), Weights(Task(16, 7), scale=2.0)),
)
def hidden_entries_have_no_gradient(config: Weights, seed: int) -> Verdict:
    d, facts = config.task.bits, {}
    for mask in ("causal", "block"):
        net = config.model(mask, seed)
        ends, height = net.tree.level_ends(), np.asarray(net.tree.height)
        limit = d + np.arange(net.tree.nodes) if mask == "causal" else ends[height - 1]
        visible = np.asarray(jax.jit(lambda net=net: net.tree.visible(net.mask))())
        expected = np.arange(net.tree.tokens)[:, None] < limit
        x = jnp.asarray(tokens_of(net.tree, bits_of(config.task, config.samples, seed)))
        forced, free = (np.asarray(slope) for slope in jax.jit(_slopes)(net, x))
        facts[f"{mask}: visible tokens are those before the limit"] = bool(np.all(visible == expected))
        facts[f"{mask}: no gradient elsewhere with teacher forcing"] = bool(np.all(forced[~expected] == 0))
        facts[f"{mask}: no gradient elsewhere without"] = bool(np.all(free[~expected] == 0))
        if 0 < config.scale <= GENERIC:
            facts[f"{mask}: a gradient at every visible token"] = bool(np.all(forced[expected] != 0))
    return exactly(facts)


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


@LEDGER.theory(
    "tf-fixpoint",
    kind="identity",
    says="applying TF to its own output stops changing after k-1 passes (causal mask), after v passes (block mask)",
    cases=(Weights(), Weights(Task(16, 7), LinkFunction("cos"))),
)
def the_chain_is_a_fixed_point(config: Weights, seed: int) -> Verdict:
    x = bits_of(config.task, config.samples, seed).astype(np.float64)
    verdicts = {}
    for mask in ("causal", "block"):
        net = config.model(mask, seed)
        count = net.tree.nodes if mask == "causal" else int(np.asarray(net.tree.height).max())
        same = identical({f"after {count} passes": (passes(net, x, count), rolled(net, x))})
        verdicts[f"{mask}, {count} passes against one sequential one"] = same
        looking_back = backward_weights(net)
        early = float(np.abs(passes(looking_back, x, count - 1) - rolled(looking_back, x)).max())
        verdicts[f"{mask}, still moving one pass before"] = Verdict.at_least(early, 1e-9)
    violated = (
        () if config.scale <= GENERIC else (f"scale={config.scale:g} must be at most {GENERIC:g} (generic weights)",)
    )
    return under(violated, Verdict.worst(verdicts))


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


@LEDGER.theory(
    "tf-fixpoint-printed",
    kind="identity",
    says="as printed: the chain of the causal mask is TF^(v)",
    cases=Weights(),
)
def v_passes_do_not_finish_the_causal_chain(config: Weights, seed: int) -> Verdict:
    x = bits_of(config.task, config.samples, seed).astype(np.float64)
    net = config.model("causal", seed)
    v = int(np.asarray(net.tree.height).max())
    return identical(
        {f"after {v} passes": (passes(net, x, v), rolled(net, x))},
        otherwise="refuted",
        note="with the causal mask k-1 passes are needed; v is right for the block mask",
    )
