"""The gradient with teacher forcing: bounded (Lemma 4), in closed form (6), and exact on average."""

import math
from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.config import Config, option, require
from stairwise.lab.contract.checks import at_most, equal, measured, row, true
from stairwise.nn.taps import trace
from stairwise.papers.parity_onestep import gradient, model
from stairwise.papers.parity_onestep.claims.ledger import LEDGER
from stairwise.papers.parity_onestep.claims.sizes import LARGEST_CUBE, bits_of, link_of, tokens_of, tree_of
from stairwise.papers.parity_onestep.config import LinkFunction, Task
from stairwise.papers.parity_onestep.theory import bounds, expansion, population
from stairwise.papers.parity_onestep.theory import links as theory
from stairwise.tasks import parity
from stairwise.train.draws import draws_of

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


@LEDGER.bound(
    "lem4",
    statement="Lemma 4",
    says=r"with teacher forcing $\|\nabla_W f\| \le 2\|\phi'\|_\infty\sqrt{k-1}$ at all $x$, $W$; sharp:"
    r" $\max_z |\phi'(z)|(1-z^2)/\sqrt{2}$ per node",
    of=(bounds.forced_gradient, theory.sharp_node_gradient),
    cases=(
        AnyWeights(),
        AnyWeights(link=COS),
        AnyWeights(Task(12, 11), LinkFunction("requ", 2.5)),
        AnyWeights(Task(128, 128), scales=(1.0,), samples=8),
    ),
    seeds=3,
)
def the_forced_gradient_is_bounded(config: AnyWeights, seed: int):
    task, link, tree = config.task, link_of(config.link), tree_of(config.task, seed)
    random = draws_of(seed, "weights and inputs")
    x = bits_of(task, config.samples, seed)
    x[:, 0], x[:, 1] = 1, -1  # both signs occur, as they do in almost every input
    x = tokens_of(tree, x)
    bound, nodes = bounds.forced_gradient(link.steepest, task.size), task.size - 1
    sharp = theory.sharp_node_gradient(link)
    best = sharp.norm * math.sqrt(nodes)
    for scale in config.scales:
        norms = forced_norms(scale * random.standard_normal((tree.tokens, tree.nodes)), x, tree, link)
        yield at_most(f"largest norm at W of scale {scale:g}", norms.max(), bound)
        yield at_most(f"largest norm at W of scale {scale:g}, sharp", norms.max(), best, rounding=1e-6)
    attained = forced_norms(two_token_weights(tree, sharp.z), x, tree, link).max()
    yield equal("two tokens of opposite sign attain the sharp bound", attained, best, 1e-6)
    entries = [bounds.chain_derivative(link.steepest, 0, 1.0)] * nodes  # every score at most 1
    yield equal("the bound, entry by entry", bound, np.linalg.norm(entries))
    W = random.standard_normal((tree.tokens, tree.nodes))
    autodiff = np.asarray(_jacobian_norms()(jnp.asarray(W), jnp.asarray(x[:4]), tree, config.link))
    yield equal("norms against autodiff", forced_norms(W, x[:4], tree, link), autodiff, 1e-10)


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


@LEDGER.exact(
    "eq6",
    statement=("Equation 6", "Equation 2"),
    says=r"$\partial L/\partial w_{j,m} ="
    r" \frac{\sigma_j(w_m)}{n}\langle\phi(z_m)-x_m, \phi'(z_m), x_j-z_m\rangle$ at every $W$",
    of=(gradient.forced, gradient.gradient, gradient.forced_at_zero, expansion.equation_6),
    cases=(
        AtWeights(),
        AtWeights(Task(16, 8), POLY4, "block", scale=0.0),
        AtWeights(Task(24, 11), COS),
        AtWeights(Task(24, 11), COS, scale=0.0),
        AtWeights(Task(64, 32), LinkFunction("requ", 2.5), samples=16),
    ),
    search={"scale": (0.0, 4.0, "linear")},
    seeds=3,
)
def the_closed_form_gradient_equals_autodiff(config: AtWeights, seed: int):
    task, link, tree = config.task, link_of(config.link), tree_of(config.task, seed)
    W = config.scale * draws_of(seed, "weights").standard_normal((tree.tokens, tree.nodes))
    x = tokens_of(tree, bits_of(task, config.samples, seed))
    found = _two_gradients()(W, x, tree, config.link, config.mask)
    shipped, autodiff, at_zero, loss, plain, weighed, weighed_autodiff = (np.asarray(part) for part in found)
    formula = np.zeros_like(W)
    for i, visible in enumerate(limits(tree, config.mask)):
        formula[:visible, i] = expansion.equation_6(x[:, :visible], x[:, task.bits + i], W[:visible, i], link)
    yield equal("equation (6)", formula, autodiff)
    yield equal("the gradient of training", shipped, autodiff)
    yield equal("the loss of training", loss, plain)
    yield equal("the gradient of training, samples weighed", weighed, weighed_autodiff)
    if config.scale == 0:
        yield equal("the gradient of training at W = 0", at_zero, autodiff)


@cache
def _two_gradients():
    def both(W, x, tree, link, mask):
        net = model.PositionalAttention(W, tree, link_of(link), mask)

        def loss(W, weights):
            net = model.PositionalAttention(W, tree, link_of(link), mask)
            z = jax.vmap(net.forced)(x)
            return jnp.sum(weights[:, None] * (net.link(z) - x[:, tree.slots :]) ** 2) / (2 * len(x))

        scores, ones = net.scores(), jnp.ones(len(x), dtype=x.dtype)
        forced, at_zero = gradient.forced(net, x.T, ones), gradient.forced_at_zero(tree, net.link, mask, x.T, ones)
        anywhere, start = (gradient.gradient(scores, found.S, len(x)) for found in (forced, at_zero))
        plain, slopes = jax.value_and_grad(loss)(W, ones)
        unequal = 1 + jnp.arange(len(x), dtype=x.dtype) % 3
        weighed = gradient.gradient(scores, gradient.forced(net, x.T, unequal).S, len(x))
        return anywhere, slopes, start, forced.loss / len(x), plain, weighed, jax.grad(loss)(W, unequal)

    return jax.jit(both, static_argnums=(3, 4))


# --- equation (4) -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Generated(Config):
    """A data set, weights, and the levels that the filter leaves open."""

    task: Task = option(Task(16, 8), "the parity")
    link: LinkFunction = option(POLY4, "the link function")
    samples: int = option(32, "samples n", low=1, high=2**14)
    scale: float = option(2.0, "standard deviation of the entries of W", low=0.0, high=100.0)
    open: int = option(2, "levels that the filter leaves open", low=1, high=20)


@LEDGER.exact(
    "eq4",
    statement=("Equation 4", "Equation 3"),
    says=r"without teacher forcing the gradient of $L(W, U)$ runs back through the whole chain; levels that the"
    r" filter has"
    r" closed output 0 and have none",
    of=(gradient.generated, model.PositionalAttention.link_levels),
    cases=(Generated(), Generated(open=3), Generated(Task(20, 11), COS, open=4)),
    seeds=3,
)
def the_gradient_of_the_chain_equals_autodiff(config: Generated, seed: int):
    tree = tree_of(config.task, seed)
    W = config.scale * draws_of(seed, "weights").standard_normal((tree.tokens, tree.nodes))
    x = tokens_of(tree, bits_of(config.task, config.samples, seed))
    is_open = np.arange(tree.levels) < config.open
    found = _chain_gradients()(W, x, is_open, tree, config.link)
    shipped, loss, autodiff, plain, free, expected = (np.asarray(part) for part in found)
    yield equal("the chain with every level open", free, expected)
    net = model.PositionalAttention(jnp.asarray(W), tree, link_of(config.link), "block")
    read, _ = trace(net.link_levels, jnp.asarray(x[0, : tree.slots], dtype=W.dtype))  # level by level, not by a scan
    yield equal("the chain of one sample while its values are read", read[1], expected[0], scale=1.0)
    yield equal("the gradient of training", shipped, autodiff)
    yield equal("the loss", loss, plain)
    closed = np.asarray(tree.height) > config.open
    yield true("no gradient at closed levels", np.all(shipped[:, closed] == 0))
    yield row({"largest entry": float(np.abs(autodiff).max()), "closed nodes": int(closed.sum())})


@cache
def _chain_gradients():
    def both(W, x, is_open, tree, link):
        phi, inputs = link_of(link), x[:, : tree.slots]

        def chain(W, is_open):
            """TF applied to its own output, at full width."""
            scores = model.PositionalAttention(W, tree, phi, "block").scores()
            tokens = jnp.concatenate([inputs, jnp.zeros((len(x), tree.nodes), dtype=x.dtype)], axis=1)
            for _ in range(tree.levels):
                made = jnp.where(is_open[tree.height - 1], phi(tokens @ scores), 0)
                tokens = jnp.concatenate([inputs, made], axis=1)
            return tokens

        def loss(W):
            return jnp.sum((chain(W, is_open) - x) ** 2) / (2 * len(x))

        net = model.PositionalAttention(W, tree, phi, "block")
        ones = jnp.ones(len(x), dtype=x.dtype)
        sums = gradient.generated(net, is_open, jnp.ones(tree.nodes, dtype=bool), x.T, ones)
        plain, slopes = jax.value_and_grad(loss)(W)
        free, expected = jax.vmap(net.link_levels)(inputs)[1], chain(W, jnp.ones(tree.levels, dtype=bool))
        shipped = gradient.gradient(net.scores(), sums.S, len(x))
        return shipped, sums.loss / len(x), slopes, plain, free, expected[:, tree.slots :]

    return jax.jit(both, static_argnums=4)


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


@LEDGER.exact(
    "exact-gradient",
    statement="ours: the exact gradient at the start",
    says=r"beyond the paper: the exact mean gradient at $W = 0$, closed at the first node, by convolution at any other",
    of=(
        population.node_gradient,
        population.node_loss,
        population.shape_law,
        population.first_node_poly4,
        population.first_node_cos,
    ),
    cases=(
        Exact(),
        Exact(Task(8, 8)),
        Exact(Task(10, 7), COS, "block"),
        Exact(Task(12, 6), LinkFunction("requ", 2.5)),
    ),
    seeds=3,
)
def the_mean_gradient_is_known_exactly(config: Exact, seed: int):
    task, link, tree = config.task, link_of(config.link), tree_of(config.task, seed)
    children, d = np.asarray(tree.children), task.bits
    x = tokens_of(tree, parity.cube(d)) if d <= LARGEST_CUBE else None
    for i, visible in enumerate(limits(tree, config.mask)):
        law = population.node_law(children, d, i, visible - d)
        found = population.node_gradient(law, link)
        leading = population.leading(link, visible)
        yield row({"node": i, "child": float(found[children[i, 0]]), "leading": leading})
        if x is not None:
            seen, target = x[:, :visible], x[:, d + i]
            on_cube = expansion.equation_6(seen, target, np.zeros(visible), link)
            yield equal(f"gradient of node {i}, cube", found, on_cube, 1e-10)
            errors = theory.on(link.value, seen.mean(axis=1)) - target
            yield equal(f"loss of node {i}, cube", population.node_loss(law, link), np.mean(errors**2) / 2, 1e-10)
        if i == 0 and config.link.name in ("poly4", "cos"):
            closed = {"poly4": population.first_node_poly4, "cos": population.first_node_cos}[config.link.name](d)
            first = np.where(np.isin(np.arange(d), children[0]), closed.child, closed.other)
            yield equal("the first node against its closed form", found, first, 1e-10)
    yield measured("child gradient of the root over its leading order", found[children[-1, 0]] / leading)
