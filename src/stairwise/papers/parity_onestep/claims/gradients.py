"""The gradient with teacher forcing: bounded (Lemma 4), in closed form (6), and exact on average."""

import math
from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.lab.checks import identical
from stairwise.lab.config import Config, option, require
from stairwise.lab.contract import Verdict
from stairwise.papers.parity_onestep import gradient, model
from stairwise.papers.parity_onestep.claims.ledger import LEDGER
from stairwise.papers.parity_onestep.claims.sizes import LARGEST_CUBE, bits_of, link_of, tokens_of, tree_of
from stairwise.papers.parity_onestep.config import LinkFunction, Task
from stairwise.papers.parity_onestep.theory import bounds, expansion, population
from stairwise.papers.parity_onestep.theory import links as theory
from stairwise.tasks import parity

POLY4, COS, REQU = LinkFunction("poly4"), LinkFunction("cos"), LinkFunction("requ", 4.0)


def limits(tree, mask: str) -> list[int]:
    """V(m) of every node."""
    if mask == "causal":
        return [tree.slots + i for i in range(tree.nodes)]
    ends = tree.level_ends()
    return [int(ends[height - 1]) for height in np.asarray(tree.height)]


# --- Lemma 4 ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AnyWeights(Config):
    """Random inputs and random weights of several sizes."""

    task: Task = option(Task(16, 8), "the parity")
    link: LinkFunction = option(POLY4, "the link function")
    scales: tuple[float, ...] = option((0.0, 1.0, 4.0, 16.0), "standard deviations of the entries of W", low=0.0)
    samples: int = option(64, "inputs for each W", low=1, high=4096)

    def check(self) -> None:
        tokens = self.task.bits + self.task.size - 1
        numbers = self.samples * tokens * self.task.size
        require(
            numbers <= 2**25, f"samples={self.samples} at task.bits={self.task.bits}: {numbers} must be at most {2**25}"
        )


@LEDGER.theory(
    "lem4",
    kind="bound",
    says="with teacher forcing ||grad_W f|| <= 2K sqrt(k-1) at all x, W; sharp: max_z |phi'(z)|(1-z^2)/sqrt 2 a node",
    cases=(AnyWeights(), AnyWeights(link=COS), AnyWeights(Task(12, 11), LinkFunction("requ", 2.5))),
)
def the_forced_gradient_is_bounded(config: AnyWeights, seed: int) -> Verdict:
    task, link, tree = config.task, link_of(config.link), tree_of(config.task, seed)
    random = np.random.default_rng(seed)
    x = tokens_of(tree, bits_of(task, config.samples, seed))
    x[:, 0], x[:, 1] = 1.0, -1.0  # both signs occur, as they do in almost every input
    x = tokens_of(tree, x[:, : task.bits])
    largest, rows = 0.0, []
    for scale in config.scales:
        W = scale * random.standard_normal((tree.tokens, tree.nodes))
        norms = forced_norms(W, x, tree, link)
        largest = max(largest, float(norms.max()))
        rows.append({"scale of W": scale, "largest norm": float(norms.max())})
    sharp = theory.sharp_node_gradient(link)
    attained = float(forced_norms(two_token_weights(tree, sharp.z), x, tree, link).max())
    W = random.standard_normal((tree.tokens, tree.nodes))
    autodiff = np.asarray(_jacobian_norms()(jnp.asarray(W), jnp.asarray(x[:4]), tree, config.link))
    best = sharp.norm * math.sqrt(task.size - 1)
    verdicts = {
        "largest norm": Verdict.at_most(
            max(largest, attained), bounds.forced_gradient(link.steepest, task.size), details=tuple(rows)
        ),
        "largest norm against the sharp bound": Verdict.at_most(max(largest, attained), best * (1 + 1e-6)),
        "two tokens of opposite sign attain it": Verdict.at_least(attained, best * (1 - 1e-6)),
        "the formula against autodiff": identical({"norms": (forced_norms(W, x[:4], tree, link), autodiff)}, 1e-10),
    }
    return Verdict.worst(verdicts)


def forced_norms(W: np.ndarray, x: np.ndarray, tree, link) -> np.ndarray:
    """||grad_W f|| at every input: |phi'(z_m)|^2 sum_j s_j^2 (x_j - z_m)^2, summed over the nodes."""
    total = np.zeros(len(x))
    for i, visible in enumerate(limits(tree, "causal")):
        logits = W[:visible, i]
        s = np.exp(logits - logits.max())
        s /= s.sum()
        z = x[:, :visible] @ s
        slope = theory.on(link.derivative, z)
        total += slope**2 * ((x[:, :visible] - z[:, None]) ** 2 @ s**2)
    return np.sqrt(total)


def two_token_weights(tree, z: float) -> np.ndarray:
    """All attention on the first two inputs, whose signs differ, so that every node has that z."""
    W = np.full((tree.tokens, tree.nodes), -60.0)
    W[0], W[1] = math.log((1 + z) / 2), math.log((1 - z) / 2)
    return W


@cache
def _jacobian_norms():
    def norm(W, x, tree, link):
        def outputs(W):
            return link_of(link)(model.PositionalAttention(W, tree, link_of(link)).forced(x))

        return jnp.sqrt(jnp.sum(jax.jacrev(outputs)(W) ** 2))

    return jax.jit(jax.vmap(norm, in_axes=(None, 0, None, None)), static_argnums=3)


# --- equation (6) -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AtWeights(Config):
    """A data set and weights at which the gradient is taken."""

    task: Task = option(Task(16, 8), "the parity")
    link: LinkFunction = option(POLY4, "the link function")
    mask: str = option("causal", "which tokens a node sees", choices=("causal", "block"))
    samples: int = option(64, "samples n", low=1, high=2**16)
    scale: float = option(2.0, "standard deviation of the entries of W; 0 = the start of training", low=0.0, high=100.0)

    def check(self) -> None:
        tokens = self.task.bits + self.task.size - 1
        require(tokens * self.samples <= 2**24, f"samples={self.samples} times tokens={tokens} must be at most {2**24}")


@LEDGER.theory(
    "eq6",
    kind="identity",
    says="dL/dw[j,m] = s_j(m) <phi(z_m)-x_m, phi'(z_m), x_j-z_m>/n at every W (equation 6)",
    cases=(
        AtWeights(),
        AtWeights(Task(16, 8), POLY4, "block", scale=0.0),
        AtWeights(Task(24, 11), COS),
        AtWeights(Task(64, 32), LinkFunction("requ", 2.5), samples=16),
    ),
)
def the_closed_form_gradient_equals_autodiff(config: AtWeights, seed: int) -> Verdict:
    task, link, tree = config.task, link_of(config.link), tree_of(config.task, seed)
    W = config.scale * np.random.default_rng(seed).standard_normal((tree.tokens, tree.nodes))
    x = tokens_of(tree, bits_of(task, config.samples, seed))
    shipped, autodiff = (np.asarray(part) for part in _two_gradients()(W, x, tree, config.link, config.mask))
    formula = np.zeros_like(W)
    for i, visible in enumerate(limits(tree, config.mask)):
        s = np.exp(W[:visible, i] - W[:visible, i].max())
        s /= s.sum()
        seen = x[:, :visible]
        z = seen @ s
        A = (theory.on(link.value, z) - x[:, task.bits + i]) * theory.on(link.derivative, z)
        formula[:visible, i] = s * (A @ seen - A @ z) / len(x)
    return identical({"autodiff": (autodiff, formula), "the shipped gradient": (shipped, formula)})


@cache
def _two_gradients():
    def both(W, x, tree, link, mask):
        net = model.PositionalAttention(W, tree, link_of(link), mask)

        def loss(W):
            net = model.PositionalAttention(W, tree, link_of(link), mask)
            z = jax.vmap(net.forced)(x)
            return jnp.sum((net.link(z) - x[:, tree.slots :]) ** 2) / (2 * len(x))

        sums = gradient.forced(net, x.T, jnp.ones(len(x), dtype=x.dtype))
        return gradient.gradient(net.scores(), sums.S, len(x)), jax.grad(loss)(W)

    return jax.jit(both, static_argnums=(3, 4))


# --- exact population gradients (beyond the paper) --------------------------------------------------------------------


@dataclass(frozen=True)
class Exact(Config):
    """A node that sees d independent bits, and a whole tree."""

    task: Task = option(Task(8, 4), "the parity")
    link: LinkFunction = option(POLY4, "the link function")
    mask: str = option("causal", "which tokens a node sees", choices=("causal", "block"))

    def check(self) -> None:
        tokens = self.task.bits + self.task.size - 1
        require(tokens <= 1000, f"task.bits+task.size-1={tokens} must be at most 1000")


@LEDGER.theory(
    "exact-gradient",
    kind="identity",
    says="beyond the paper: the exact mean gradient at W = 0, closed at the first node, by convolution at any other",
    cases=(
        Exact(),
        Exact(Task(8, 8)),
        Exact(Task(12, 11), COS, "block"),
        Exact(Task(12, 6), LinkFunction("requ", 2.5)),
    ),
)
def the_mean_gradient_is_known_exactly(config: Exact, seed: int) -> Verdict:
    task, link, tree = config.task, link_of(config.link), tree_of(config.task, seed)
    children, d = np.asarray(tree.children), task.bits
    pairs, rows = {}, []
    if task.bits <= LARGEST_CUBE:
        x = tokens_of(tree, parity.cube(d))
    for i, visible in enumerate(limits(tree, config.mask)):
        law = population.node_law(children, d, i, visible - d)
        found = population.node_gradient(law, link)
        rows.append({"node": i, "child": float(found[children[i, 0]]), "leading": population.leading(link, visible)})
        if task.bits <= LARGEST_CUBE:
            z = x[:, :visible].mean(axis=1)
            error = theory.on(link.value, z) - x[:, d + i]
            pairs[f"gradient of node {i}, cube"] = (found, expansion.terms(x[:, :visible], x[:, d + i], link).gradient)
            pairs[f"loss of node {i}, cube"] = (population.node_loss(law, link), np.mean(error**2) / 2)
        if i == 0 and config.link.name in ("poly4", "cos"):
            closed = {"poly4": population.first_node_poly4, "cos": population.first_node_cos}[config.link.name](d)
            first = np.where(np.isin(np.arange(d), children[0]), closed.child, closed.other)
            pairs["the first node against its closed form"] = (found, first)
    if not pairs:
        return Verdict.reported(rows[-1]["child"] / rows[-1]["leading"], details=tuple(rows))
    return identical(pairs, 1e-10)
