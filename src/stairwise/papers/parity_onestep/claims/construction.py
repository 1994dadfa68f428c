"""The tree, the masks, the link functions, and the fixed point of the chain: Section 2 and Figures 1 to 3."""

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from stairwise.lab.config import Config, option, require
from stairwise.lab.contract import Verdict
from stairwise.lazy import lazy
from stairwise.papers.parity_onestep.claims.ledger import LEDGER
from stairwise.papers.parity_onestep.claims.sizes import (
    SHIPPED,
    Linked,
    Sizes,
    bits_of,
    exactly,
    identical,
    link_of,
    secret_of,
    tokens_of,
    tree_of,
)
from stairwise.papers.parity_onestep.config import LinkFunction, Task

if TYPE_CHECKING:
    import jax
    import jax.numpy as jnp

    from stairwise.papers.parity_onestep import model
    from stairwise.papers.parity_onestep.theory import census
    from stairwise.papers.parity_onestep.theory import links as theory
    from stairwise.tasks import gf2
else:
    jax, jnp = lazy("jax"), lazy("jax.numpy")
    model = lazy("stairwise.papers.parity_onestep.model")
    census = lazy("stairwise.papers.parity_onestep.theory.census")
    theory = lazy("stairwise.papers.parity_onestep.theory.links")
    gf2 = lazy("stairwise.tasks.gf2")

FIGURE_1 = Task(16, 8, (0, 3, 4, 6, 8, 10, 12, 15))
CHILDREN_OF_FIGURE_1 = ((0, 3), (4, 6), (8, 10), (12, 15), (16, 17), (18, 19), (20, 21))
LARGEST_CENSUS = 600  # tokens, whose pairs are listed


# --- the tree ---------------------------------------------------------------------------------------------------------


@LEDGER.theory(
    "tree",
    kind="construction",
    says="the binary tree over the secret bits: numbering, children, heights, d_l; its root is the parity (Figure 1)",
    cases=(Sizes(FIGURE_1), Sizes(Task(64, 32)), *(Sizes(Task(16, k)) for k in (2, 3, 5, 6, 7, 16))),
)
def the_tree_multiplies_the_secret_bits(config: Sizes, seed: int) -> Verdict:
    task, secret, tree = config.task, secret_of(config.task, seed), tree_of(config.task, seed)
    children, height = np.asarray(tree.children), np.asarray(tree.height)
    d, k = task.bits, task.size
    heights = np.concatenate([np.zeros(d, dtype=np.int64), height])
    x = bits_of(task, 256, seed)
    used = children.reshape(-1)
    v = (k - 1).bit_length()
    facts = {
        "children come before their node, the smaller first": bool(
            np.all(children[:, 0] < children[:, 1]) and np.all(children[:, 1] < d + np.arange(k - 1))
        ),
        "every secret bit and every node but the root has one parent": sorted(used.tolist())
        == sorted([*secret, *range(d, d + k - 2)]),
        "h = 1 + the larger height of the children": bool(np.all(height == 1 + heights[children].max(axis=1))),
        "heights do not decrease": bool(np.all(np.diff(height) >= 0)),
        "the root is the product of the secret bits": bool(
            np.all(tokens_of(tree, x)[:, -1] == np.prod(x[:, list(secret)], axis=1))
        ),
        "d_l counts the tokens of height at most l": tree.level_ends().tolist()
        == [int(np.sum(heights <= level)) for level in range(height.max() + 1)],
    }
    if task.tree == "balanced":
        facts["the height is ceil(log2 k)"] = height.max() == v
        if k == 2**v:
            ends = [d + sum(2 ** (v - j) for j in range(1, level + 1)) for level in range(v + 1)]
            facts["d_l = d + sum_{j <= l} 2^(v-j)"] = tree.level_ends().tolist() == ends
    if task == FIGURE_1:
        facts["the children of Figure 1"] = children.tolist() == [list(pair) for pair in CHILDREN_OF_FIGURE_1]
    return exactly(facts, details=({"height": int(height.max()), "d_l": str(tree.level_ends().tolist())},))


@dataclass(frozen=True)
class Census(Config):
    """A tree whose tokens are compared pair by pair."""

    task: Task = option(Task(16, 8), "the parity")

    def check(self) -> None:
        tokens = self.task.bits + self.task.size - 1
        require(
            tokens <= LARGEST_CENSUS,
            f"task.bits={self.task.bits} and task.size={self.task.size} make {tokens} tokens,"
            f" which must be at most {LARGEST_CENSUS}",
        )


@LEDGER.theory(
    "triple-census",
    kind="identity",
    says="x_m x_a x_b = 1 with a, b < m only for the children of m; k-2 sets of four distinct tokens multiply to 1",
    cases=(
        *(Census(Task(16, k)) for k in (2, 3, 7, 8, 11, 16)),
        Census(Task(12, 9, tree="chain")),
        Census(Task(64, 32)),
    ),
)
def only_children_multiply_to_their_node(config: Census, seed: int) -> Verdict:
    task = config.task
    tree = tree_of(task, seed)
    children = np.asarray(tree.children)
    masks = census.token_masks(children, task.bits)
    triples = census.trivial_triples(masks, task.bits)
    expected = [(int(a), int(b), task.bits + i) for i, (a, b) in enumerate(children)]
    fours = census.trivial_quadruples(masks)
    row = {"trivial triples": len(triples), "nodes": len(children), "trivial sets of four": len(fours)}
    return exactly(
        {
            "the trivial triples are the nodes with their children": triples == expected,
            "no token is trivial and no two are equal": len(set(masks) - {0}) == len(masks),
            "there are k-2 trivial sets of four": len(fours) == task.size - 2,
        },
        details=(row,),
    )


@dataclass(frozen=True)
class Elimination(Config):
    """Labelled samples for Gaussian elimination."""

    task: Task = option(Task(64, 32), "the parity")
    extra: int = option(5, "samples beyond d", low=0, high=1000)
    repeats: int = option(200, "data sets to try", low=1, high=10_000)

    def check(self) -> None:
        require(self.task.bits <= 512, f"task.bits={self.task.bits} must be at most 512")


@LEDGER.theory(
    "sep-remark",
    kind="algorithm",
    says="Gaussian elimination solves parity from O(d) samples: d+s of them have full rank with chance above 1 - 2^-s",
    cases=(Elimination(), Elimination(Task(64, 32), extra=0), Elimination(Task(128, 5), extra=10, repeats=50)),
)
def elimination_needs_few_more_than_d_samples(config: Elimination, seed: int) -> Verdict:
    task, n = config.task, config.task.bits + config.extra
    secret = np.zeros(task.bits, dtype=np.int8)
    secret[list(secret_of(task, seed))] = 1
    solved, wrong = 0, 0
    for repeat in range(config.repeats):
        x = bits_of(task, n, seed + repeat)
        found = gf2.solve_parity(x, np.prod(x[:, secret == 1], axis=1))
        solved += found.unique
        wrong += found.unique and not np.array_equal(found.values, secret)
    chance = float(np.prod(1 - 0.5 ** np.arange(config.extra + 1, n + 1)))
    spread = np.sqrt(chance * (1 - chance) / config.repeats)
    row = {
        "samples": n,
        "solved": solved / config.repeats,
        "chance of full rank": chance,
        "1 - 2^-s": 1 - 0.5**config.extra,
    }
    return Verdict.worst(
        {
            "share solved": Verdict.at_least(solved / config.repeats, chance - 4 * spread - 1e-12, details=(row,)),
            "wrong answers": Verdict.at_most(wrong, 0),
        }
    )


# --- masks and the chain ----------------------------------------------------------------------------------------------


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
    scores, d = np.asarray(net.scores()), net.tree.slots
    tokens = np.concatenate([x, np.zeros((len(x), net.tree.nodes))], axis=1)
    for _ in range(count):
        made = np.asarray(net.link.value(tokens @ scores), dtype=np.float64)
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
    return Verdict.worst(verdicts)


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
            visible = np.exp(W[: d + count, i])
            W[d + count - 1, i] = np.log(visible.sum() - visible[-1])
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


# --- link functions ---------------------------------------------------------------------------------------------------


@LEDGER.theory(
    "link",
    kind="construction",
    says="phi(0) = -1, phi(+-1) = 1, phi' = 0 there, even, phi((a+b)/2) = ab, curvatures c and c1, K = sup|phi'| > 2",
    cases=tuple(Linked(link) for link in SHIPPED),
)
def links_multiply_signs(config: Linked, seed: int) -> Verdict:
    link = link_of(config.link)
    t = np.linspace(-1, 1, 2001)
    value, slope = (np.asarray(f(t), dtype=np.float64) for f in (link.value, link.derivative))
    h = min(1e-4, (1 - 2 / config.link.slope) / 2) if config.link.name == "requ" else 1e-4  # before the first corner
    near_zero, near_one = (np.asarray(link.value(np.array([at])), dtype=np.float64)[0] for at in (h, 1 - h))
    step = 1e-6
    numeric = (np.asarray(link.value(t[1:-1] + step)) - np.asarray(link.value(t[1:-1] - step))) / (2 * step)
    verdicts = {
        "values at -1, 0, 1": identical({"phi": (value[[0, 1000, 2000]], [1.0, -1.0, 1.0])}),
        "slopes there": Verdict.at_most(float(np.abs(slope[[0, 1000, 2000]]).max()), 1e-12),
        "even": identical({"phi(-t)": (value[::-1], value)}),
        "derivative against differences": Verdict.at_most(
            float(np.abs(numeric - slope[1:-1]).max()), 4 * step * link.curvature
        ),
        "c against phi near 0": Verdict.at_most(abs((near_zero + 1) / h**2 / link.curvature - 1), 1e-3),
        "c1 against phi near 1": Verdict.at_most(abs((1 - near_one) / h**2 / link.end_curvature - 1), 1e-3),
        "K against sup |phi'|": Verdict.at_most(abs(theory.steepest(link) / link.steepest - 1), 1e-5),
        "K above 2": Verdict.at_least(link.steepest, 2.0 + 1e-12),
        "leaves [-1, 1] by": Verdict.at_most(max(0.0, float(np.abs(value).max()) - 1), 1e-12),
    }
    return Verdict.worst(verdicts)


@LEDGER.theory(
    "link-requ",
    kind="construction",
    says="parabolas at 0 and +-1 joined by straight lines of slope K = 2 + eps: six ReQU units and a bias, any K > 2",
    cases=tuple(Linked(LinkFunction("requ", slope)) for slope in (2.1, 2.5, 3.0, 4.0)),
)
def six_units_make_the_locally_quadratic_link(config: Linked, seed: int) -> Verdict:
    slope, t = config.link.slope, np.linspace(-1, 1, 40_001)
    units, pieces = theory.requ_units(t, slope), theory.requ_pieces(t, slope)
    shipped = link_of(LinkFunction("requ", slope))
    row = {"slope": slope, "corner a": 1 - 2 / slope, "c": shipped.curvature}
    return Verdict.worst(
        {
            "six units against the pieces": Verdict.at_most(
                float(np.abs(units - pieces).max()), 1e-14 * max(1.0, shipped.curvature), details=(row,)
            ),
            "the shipped link against the pieces": Verdict.at_most(
                float(np.abs(np.asarray(shipped.value(t)) - pieces).max()), 1e-14 * max(1.0, shipped.curvature)
            ),
            "sup |phi'| against the slope": Verdict.at_most(abs(theory.steepest(shipped) / slope - 1), 1e-5),
        }
    )
