"""The tree over the secret bits, which products of tokens are trivial, and the exact solver: Section 2.1, Figure 1."""

from dataclasses import dataclass
from functools import partial

import jax
import numpy as np

from stairwise.config import Config, option, require
from stairwise.lab.contract.checks import at_least, at_most, equal, row, true
from stairwise.papers.parity_onestep.claims.ledger import LEDGER
from stairwise.papers.parity_onestep.claims.sizes import Sizes, bits_of, secret_of, tokens_of, tree_of
from stairwise.papers.parity_onestep.config import Task
from stairwise.papers.parity_onestep.theory import bounds, census
from stairwise.tasks import decomposition, gf2

FIGURE_1 = Task(16, 8, (0, 3, 4, 6, 8, 10, 12, 15))
CHILDREN_OF_FIGURE_1 = ((0, 3), (4, 6), (8, 10), (12, 15), (16, 17), (18, 19), (20, 21))
SPARE = 3  # places for inputs and for nodes that a padded tree does not use
LARGEST_CENSUS = 600  # tokens, whose pairs are listed


@LEDGER.exact(
    "tree",
    statement=("Section 2.1", "Figure 1"),
    says=r"the binary tree over the secret bits: numbering, children $c_1[m] < c_2[m] < m$, heights, $d_\ell = d +"
    r" \sum_{j\le\ell} 2^{v-j}$; its root is the parity",
    of=(decomposition.balanced, decomposition.Tree.level_ends),
    free={"balanced": "leaves beyond the last are read by no entry in use, and a reshape knows its first size"},
    cases=(Sizes(Task(64, 32)), Sizes(FIGURE_1), *(Sizes(Task(16, k)) for k in (2, 3, 5, 6, 7, 16))),
    seeds=3,
)
def the_tree_multiplies_the_secret_bits(config: Sizes, seed: int):
    task, secret, tree = config.task, secret_of(config.task, seed), tree_of(config.task, seed)
    children, height, ends = np.asarray(tree.children), np.asarray(tree.height), tree.level_ends().tolist()
    d, k = task.bits, task.size
    v = (k - 1).bit_length()
    heights = np.concatenate([np.zeros(d, dtype=np.int64), height])
    x = bits_of(task, 256, seed)
    yield true("the smaller child comes first", children[:, 0] < children[:, 1])
    yield true("children come before their node", children[:, 1] < d + np.arange(k - 1))
    parents = sorted([*secret, *range(d, d + k - 2)])
    yield true("every secret bit and every node but the root has one parent", sorted(children.reshape(-1)) == parents)
    yield true("h = 1 + the larger height of the children", height == 1 + heights[children].max(axis=1))
    yield true("heights do not decrease", np.append(np.diff(height) >= 0, True))
    yield true(
        "the root is the product of the secret bits", tokens_of(tree, x)[:, -1] == np.prod(x[:, list(secret)], axis=1)
    )
    counted = [int(np.sum(heights <= level)) for level in range(height.max() + 1)]
    yield true("d_l counts the tokens of height at most l", ends == counted)
    if task.tree == "balanced":
        yield true("the height is ceil(log2 k)", bool(height.max() == v) and tree.levels == v)
        padded = _padded(np.array([*secret, *[0] * SPARE], dtype=np.int32), k, d)
        shifted = children + SPARE * (children >= d)
        yield true("children with room to spare", np.asarray(padded.children) == np.pad(shifted, ((0, SPARE), (0, 0))))
        yield true("heights with room to spare", np.asarray(padded.height) == np.pad(height, (0, SPARE)))
        if k == 2**v:
            printed = [d + sum(2 ** (v - j) for j in range(1, level + 1)) for level in range(v + 1)]
            yield true("d_l = d + sum_{j <= l} 2^(v-j)", ends == printed)
    if task == FIGURE_1:
        yield true("the children of Figure 1", children.tolist() == [list(pair) for pair in CHILDREN_OF_FIGURE_1])
    yield row({"height": int(height.max()), "d_l": str(ends)})


@partial(jax.jit, static_argnums=2)
def _padded(leaves, count, inputs: int):
    return decomposition.balanced(leaves, inputs, count, inputs + SPARE)


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


@LEDGER.exact(
    "triple-census",
    statement=("Theorem 5, trivial products", "Appendix B, cases (i) to (iv)"),
    says=r"$x_m x_\alpha x_\beta = 1$ with $\alpha, \beta < m$ only for the children of $m$; four tokens"
    r" multiply to 1 only as a node, a child and"
    r" the children of the other: $3V^2-2V+24q$ tuples",
    of=(census.trivial_triples, census.trivial_quadruples, census.trivial_tuples, census.quadruples_among),
    cases=(
        *(Census(Task(16, k)) for k in (8, 2, 3, 7, 11, 16)),
        Census(Task(12, 9, tree="chain")),
        Census(Task(48, 32)),
    ),
    seeds=3,
)
def only_children_multiply_to_their_node(config: Census, seed: int):
    task = config.task
    tree = tree_of(task, seed)
    children, d = np.asarray(tree.children), task.bits
    tokens = d + len(children)
    masks = census.token_masks(children, d)
    # products that are 1 on 256 random inputs are 1 on all, but for a chance of 2^-200
    x = tokens_of(tree, bits_of(task, 256, seed)).astype(np.float32)
    one, two = np.triu_indices(tokens, 1)
    pairs = x[:, one] * x[:, two]
    found = {(int(a), int(b), m) for m in range(d, tokens) for a, b in _ones(pairs, x[:, m], one, two) if b < m}
    triples = census.trivial_triples(masks, d)
    yield true("the trivial triples are those of random inputs", set(triples) == found and len(triples) == len(found))
    yield true(
        "they are the nodes with their children",
        found == {(int(a), int(b), d + i) for i, (a, b) in enumerate(children)},
    )
    fours = census.trivial_quadruples(masks)
    alike = np.argwhere(np.triu(pairs.T @ pairs == len(x), 1))
    sets = {tuple(sorted((one[i], two[i], one[j], two[j]))) for i, j in alike}
    yield true("the trivial sets of four are those of random inputs", set(fours) == sets and len(fours) == len(sets))
    by_tree = {
        tuple(sorted((d + i, int(a), *children[int(b) - d].tolist())))
        for i, pair in enumerate(children)
        for a, b in (pair, pair[::-1])
        if b >= d
    }
    yield true("they are a node, one child and the children of the other", sets == by_tree)
    yield true("there are k-2 of them", len(fours) == task.size - 2)
    for visible in range(d, tokens + 1):
        inside, holding = census.quadruples_among(fours, visible)
        own = [four for four in by_tree if max(four) < visible]
        counted = [sum(j in four for four in own) for j in range(visible)]
        yield true(f"those among the first {visible} tokens", inside == len(own) and holding.tolist() == counted)
        products = np.bincount(np.unique(_codes(masks[:visible]), return_inverse=True)[1].reshape(-1))
        yield true(
            f"ordered tuples of {visible} tokens", census.trivial_tuples(visible, inside) == int(np.sum(products**2))
        )


def _ones(pairs: np.ndarray, target: np.ndarray, one: np.ndarray, two: np.ndarray):
    """The pairs whose product is `target` on every sample."""
    alike = np.flatnonzero(target @ pairs == len(target))
    return zip(one[alike], two[alike], strict=True)


def _codes(masks: list[int]) -> np.ndarray:
    """The products of all ordered pairs of tokens, as bit masks."""
    codes = np.array(masks, dtype=np.uint64)
    return codes[:, None] ^ codes


@dataclass(frozen=True)
class Elimination(Config):
    """Labelled samples for Gaussian elimination."""

    task: Task = option(Task(64, 32), "the parity")
    extra: int = option(5, "samples beyond d", low=0, high=1000)
    repeats: int = option(200, "data sets to try", low=1, high=10_000)

    def check(self) -> None:
        require(self.task.bits <= 512, f"task.bits={self.task.bits} must be at most 512")


@LEDGER.bound(
    "sep-remark",
    statement=("Section 3.1, Gaussian elimination", "Raz (2018)"),
    says=r"Gaussian elimination solves parity from $O(d)$ samples: $d+s$ of them have full rank with chance"
    r" $\prod_{i>s}(1-2^{-i}) \ge 1-2^{-s}$",
    of=(gf2.solve_parity, bounds.full_rank_chance),
    cases=(Elimination(), Elimination(Task(64, 32), extra=0), Elimination(Task(48, 5), extra=1)),
    seeds=3,
)
def elimination_needs_few_more_than_d_samples(config: Elimination, seed: int):
    task, n = config.task, config.task.bits + config.extra
    secret = np.zeros(task.bits, dtype=np.int8)
    secret[list(secret_of(task, seed))] = 1
    solved, wrong = 0, 0
    for repeat in range(config.repeats):
        x = bits_of(task, n, seed, repeat)
        found = gf2.solve_parity(x, np.prod(x[:, secret == 1], axis=1))
        solved += found.unique
        wrong += found.unique and not np.array_equal(found.values, secret)
    chance = bounds.full_rank_chance(task.bits, n)
    spread = 4.5 * np.sqrt(chance * (1 - chance) / config.repeats) + 1 / config.repeats
    yield at_most("share solved, off the chance of full rank by", abs(solved / config.repeats - chance), spread)
    yield at_least("chance of full rank", chance, 1 - 0.5**config.extra)
    yield at_most("wrong answers", wrong, 0)
    # every matrix over two elements, at a size where all can be listed
    for rows in (3, 4, 5):
        entries = np.arange(8**rows)[:, None] >> np.arange(3 * rows) & 1
        spans = np.zeros((len(entries), 8), dtype=bool)
        spans[:, 0] = True
        for vector in (entries.reshape(-1, rows, 3) @ [1, 2, 4]).T:
            spans = spans | np.take_along_axis(spans, np.arange(8) ^ vector[:, None], axis=1)
        yield equal(
            f"share of {rows} x 3 matrices of full rank", spans.all(axis=1).mean(), bounds.full_rank_chance(3, rows)
        )
