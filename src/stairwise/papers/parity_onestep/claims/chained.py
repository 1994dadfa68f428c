"""The gradient without teacher forcing, through the whole chain: Lemma 6 and its exponent."""

import math
from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import optax

from stairwise.config import Config, option, require
from stairwise.lab.contract.checks import at_least, at_most, equal, note, row, slope, true
from stairwise.papers.parity_onestep import model
from stairwise.papers.parity_onestep.claims.ledger import LEDGER
from stairwise.papers.parity_onestep.claims.sizes import bend, bits_of, complete_tree, link_of, tree_of
from stairwise.papers.parity_onestep.config import LinkFunction, Task
from stairwise.papers.parity_onestep.theory import bounds, exponents
from stairwise.papers.parity_onestep.theory import links as theory
from stairwise.train.draws import draws_of

STRAIGHT = LinkFunction("requ", 2.5)


@dataclass(frozen=True)
class Path(Config):
    """One path through the tree along which the link is as steep as it gets."""

    task: Task = option(Task(16, 16), "the parity")
    link: LinkFunction = option(STRAIGHT, "the link function")

    def check(self) -> None:
        tokens = self.task.bits + self.task.size - 1
        require(tokens <= 200, f"task.bits+task.size-1={tokens} must be at most 200")


def steep_path(tree, link):
    """Inputs and weights of the path, z on it, and the fixed point u.

    phi(u) = -u for one u in (0, 1). Nodes of level 1 look at two inputs of opposite sign so that z = -u; every node
    above looks at the first node of the level below alone, so that z = -u again. For requ that z is on the straight
    part, where |phi'| = K, so that the derivative grows by K per level.
    """
    low, high = 0.0, 1.0
    for _ in range(200):
        u = (low + high) / 2
        low, high = (u, high) if float(theory.on(link.value, np.array([u]))[0]) < -u else (low, u)
    d, height = tree.slots, np.asarray(tree.height)
    x = np.ones(d)
    x[1] = -1.0
    W = np.full((tree.tokens, tree.nodes), -60.0)
    W[0], W[1] = math.log((1 - u) / 2), math.log((1 + u) / 2)  # nodes of level 1: z = -u
    for level in range(2, int(height.max()) + 1):
        first = int(np.flatnonzero(height == level - 1)[0])
        W[:, height == level] = -60.0
        W[d + first, height == level] = 0.0
    return x, W, u


@cache
def _derivative():
    """d x_a/d w[0, 0] of every node a, by forward differentiation."""

    def derivative(W, x, tree, link):
        def chain(w):
            moved = model.PositionalAttention(W.at[0, 0].set(w), tree, link_of(link), "block")
            return moved.by_levels(x)[tree.slots :]

        return jax.jvp(chain, (W[0, 0],), (jnp.ones_like(W[0, 0]),))[1]

    return jax.jit(derivative, static_argnums=3)


@cache
def _jacobian():
    def jacobian(W, x, gates, tree, link):
        def chain(W):
            return model.PositionalAttention(W, tree, link_of(link), "block").by_levels(x, gates)[tree.slots :]

        return jax.jacrev(chain)(W)

    return jax.jit(jacobian, static_argnums=4)


@LEDGER.bound(
    "lem6-path",
    statement=("Lemma 6, induction", "Lemma 6"),
    says=r"$|\partial\hat x_\alpha/\partial w_{j,m}| \le 2\|\phi'\|_\infty^{g+1}\sigma_j(w_m)$ for a node $g$"
    r" levels above"
    r" $m$; along one path it is $(1+u)\|\phi'\|_\infty^{g+1}\sigma_j$, with $\phi(u) = -u$",
    of=(bounds.chain_derivative,),
    hypotheses={
        "k = 2^v": lambda config: complete_tree(config.task),
        "the link bends over more than rounding": lambda config: bend(config.link) >= 1e-6,
    },
    cases=(Path(), Path(Task(16, 16), LinkFunction("requ", 2.1)), Path(Task(8, 8), LinkFunction("poly4"))),
    seeds=3,
)
def a_derivative_grows_by_the_slope_per_level(config: Path, seed: int):
    tree, link = tree_of(config.task, seed), link_of(config.link)
    x, W, u = steep_path(tree, link)
    derivative = np.abs(np.asarray(_derivative()(jnp.asarray(W), jnp.asarray(x), tree, config.link)))
    height, score = np.asarray(tree.height), (1 - u) / 2  # of the input that is 1, at distance 1 + u from z
    first = [int(np.flatnonzero(height == level)[0]) for level in range(1, tree.levels + 1)]
    growth = float(np.abs(theory.on(link.derivative, np.array([u]))[0]))
    for gap, node in enumerate(first):
        bound = bounds.chain_derivative(link.steepest, gap, score)
        yield at_most(f"derivative {gap} levels above", derivative[node], bound)
        yield equal(
            f"derivative {gap} levels above, along the path",
            derivative[node],
            growth ** (gap + 1) * (1 + u) * score,
            1e-9,
        )
        if config.link.name == "requ":
            yield at_least(f"derivative {gap} levels above, over its bound", derivative[node] / bound, 0.6)


@dataclass(frozen=True)
class Ascent(Config):
    """Weights that make the gradient of the chain large: random ones, then gradient ascent on its logarithm."""

    task: Task = option(Task(8, 8), "the parity")
    link: LinkFunction = option(LinkFunction(), "the link function")
    starts: int = option(8, "random weights to begin with, at scales from 0 to 4", low=1, high=1024)
    steps: int = option(300, "steps of ascent from each of them", low=0, high=10_000)

    def check(self) -> None:
        tokens = self.task.bits + self.task.size - 1
        numbers = self.starts * tokens * self.task.size**2
        require(
            numbers <= 2**23, f"starts={self.starts} at task.size={self.task.size}: {numbers} must be at most {2**23}"
        )


@LEDGER.bound(
    "lem6",
    statement="Lemma 6",
    says=r"without teacher forcing $\|\nabla_W f\| \le \sqrt{\frac{4K^4}{(K^2-2)(2K^2-1)}}(2K^2)^{v/2}$ at all"
    r" $x$, $W$, $U$,"
    r" $K = \|\phi'\|_\infty$; tree by tree the bounds of all entries",
    of=(bounds.chained_gradient, bounds.chained_gradient_line, bounds.chained_gradient_levels),
    hypotheses={"k = 2^v": lambda config: complete_tree(config.task)},
    cases=(Ascent(Task(4, 4)), Ascent(Task(8, 8)), Ascent(Task(12, 8), STRAIGHT), Ascent(Task(16, 16))),
    tier="minutes",
    seeds=3,
)
def the_chained_gradient_is_bounded(config: Ascent, seed: int):
    tree, link = tree_of(config.task, seed), link_of(config.link)
    K, levels, height = link.steepest, tree.levels, np.asarray(tree.height)
    counts = np.bincount(height)[1:]
    bound = bounds.chained_gradient(K, levels)
    # every entry by its own bound: a node m reaches itself and all nodes of higher levels
    entries = [bounds.chain_derivative(K, 0, 1.0) ** 2] * len(height)
    entries += [bounds.chain_derivative(K, a - m, 1.0) ** 2 for m in height.tolist() for a in height.tolist() if a > m]
    any_tree = bounds.chained_gradient_levels(K, counts.tolist())
    yield equal("the sum of the squares of the derivatives' bounds", any_tree, math.sqrt(sum(entries)))
    line = bounds.chained_gradient_line(K, levels)
    yield at_most("that sum against the line before the last", any_tree, line, rounding=1e-12)
    yield at_most("the line before the last against the last", line, bound, rounding=1e-12)
    yield at_least(
        "the line before the last over the last", line / bound, math.sqrt(1 - (2 * K**2) ** -levels), rounding=1e-12
    )
    scale = np.linspace(0, 4, config.starts)[:, None, None]
    W = scale * draws_of(seed, "weights").standard_normal((config.starts, tree.tokens, tree.nodes))
    x = bits_of(config.task, config.starts, seed).astype(np.float64)
    for name, norms in zip(
        ("random W", "W after ascent"), _climb()(W, x, tree, config.link, config.steps), strict=True
    ):
        yield at_most(f"largest norm, {name}", np.max(np.asarray(norms)), any_tree)
    path_x, path_W, _ = steep_path(tree, link)
    for open_levels in range(1, levels + 1):  # U decides which levels are closed
        gates = np.arange(levels) < open_levels
        J = np.asarray(_jacobian()(jnp.asarray(path_W), jnp.asarray(path_x), gates, tree, config.link))
        yield at_most(f"norm along a steep path, {open_levels} levels open", np.sqrt(np.sum(J**2)), any_tree)


@cache
def _climb():
    """Norms of the Jacobian of the whole chain, before and after ascent, for every pair of weights and input."""

    def climb(W, x, tree, link, steps):
        def log_norm(W):
            net = model.PositionalAttention(W, tree, link_of(link), "block")
            J = jax.jacrev(lambda W: model.PositionalAttention(W, tree, net.link, "block").by_levels(x)[tree.slots :])(
                W
            )
            return 0.5 * jnp.log(jnp.sum(J**2) + 1e-30)

        adam = optax.adam(0.1)

        def up(carry, _):
            W, memory, best = carry
            value, slope = jax.value_and_grad(log_norm)(W)
            update, memory = adam.update(-slope, memory)
            return (W + update, memory, jnp.maximum(best, value)), None

        start = log_norm(W)
        (W, _, best), _ = jax.lax.scan(up, (W, adam.init(W), start), length=steps)
        return jnp.exp(start), jnp.exp(jnp.maximum(best, log_norm(W)))

    return jax.jit(jax.vmap(climb, in_axes=(0, 0, None, None, None)), static_argnums=(3, 4))


@dataclass(frozen=True)
class Levels(Config):
    """A link and a depth, for arithmetic."""

    link: LinkFunction = option(LinkFunction(), "the link function")
    levels: int = option(3, "height v of the tree, k = 2^v", low=1, high=60)


@LEDGER.misprint(
    "lem6-printed",
    statement="Lemma 6, last line",
    says=r"as printed: the last line of the proof, $\frac{4K^2}{(K^2-2)(2K^2-1)}(2K^2)^v$, bounds the line before it",
    means=r"$4K^4$ for $4K^2$, as in the line before; the order in $d$ is unaffected",
    of=(bounds.chained_gradient_printed,),
    corrected="lem6",
    cases=(Levels(), Levels(levels=10)),
)
def the_last_line_has_lost_a_factor(config: Levels, seed: int):
    K, v = link_of(config.link).steepest, config.levels
    yield at_most("the line before the last", bounds.chained_gradient_line(K, v), bounds.chained_gradient_printed(K, v))
    yield row({"with 4K^4": bounds.chained_gradient(K, v)})
    yield note("no W is known whose gradient exceeds even the printed value")


@dataclass(frozen=True)
class Slopes(Config):
    """ReQU links and trees of several sizes."""

    slope: float = option(2.5, "K, the slope of the ReQU link", above=2.0, high=4.0)
    sizes: tuple[int, ...] = option((4, 8, 16), "k = d, powers of two", low=2, high=64)

    def check(self) -> None:
        require(len(set(self.sizes)) > 2, f"sizes={self.sizes} must be three sizes or more")


@LEDGER.rate(
    "lem6-exponent",
    statement=("Lemma 6, exponent", "Lemma 6"),
    says=r"$\|\nabla_W f\| = O(d^g)$, $g = \log_2\|\phi'\|_\infty + \frac{1}{2}$; along a steep path it grows like"
    r" $d^{g-1/2}$, and locally quadratic links bring $g$ as near to $\frac{3}{2}$ as wanted",
    of=(exponents.gradient_power_end_to_end, bounds.chained_gradient),
    hypotheses={"k = 2^v": lambda config: not any(k & (k - 1) for k in config.sizes)},
    cases=(Slopes(), Slopes(2.05)),
    seeds=3,
)
def the_gradient_grows_by_its_exponent(config: Slopes, seed: int):
    chosen = LinkFunction("requ", config.slope)
    link, g = link_of(chosen), exponents.gradient_power_end_to_end(config.slope)
    norms, closed = [], []
    for k in sorted(config.sizes):
        tree = tree_of(Task(k, k), seed)
        x, W, _ = steep_path(tree, link)
        gates = np.ones(tree.levels, dtype=bool)
        J = np.asarray(_jacobian()(jnp.asarray(W), jnp.asarray(x), gates, tree, chosen))
        norms.append(float(np.sqrt(np.sum(J**2))))
        closed.append(bounds.chained_gradient(config.slope, tree.levels))
    yield slope("exponent of the bound", sorted(config.sizes), closed, g, within=1e-6)
    levels, start = max(config.sizes).bit_length() - 1, bounds.chained_gradient(config.slope, 0)
    summed = bounds.chained_gradient_line(config.slope, levels) ** 2
    yield equal("the bound squared, less its start, against the sum over levels", closed[-1] ** 2 - start**2, summed)
    yield slope(
        "exponent along a steep path", sorted(config.sizes), norms, g, side="at most", against="d", bound=closed
    )
    yield at_least("exponent along a steep path, last doubling", math.log2(norms[-1] / norms[-2]), g - 0.75)
    near = [exponents.gradient_power_end_to_end(2 + 10.0**-power) - 1.5 for power in (1, 2, 3)]
    yield at_most("g - 3/2 at K = 2.1, 2.01, 2.001", near, [0.0725, 0.0073, 0.00073])
    yield true("g is above 3/2", [excess > 0 for excess in near])
    yield equal("sup|phi'| of the link", theory.steepest(link), config.slope, 1e-5)
