"""The tree over the secret bits, which products of tokens are trivial, and the exact solver: Section 2.1, Figure 1."""

from dataclasses import dataclass

import numpy as np

from stairwise.lab.checks import exactly
from stairwise.lab.config import Config, option, require
from stairwise.lab.contract import Verdict
from stairwise.papers.parity_onestep.claims.ledger import LEDGER
from stairwise.papers.parity_onestep.claims.sizes import Sizes, bits_of, secret_of, tokens_of, tree_of
from stairwise.papers.parity_onestep.config import Task
from stairwise.papers.parity_onestep.theory import census
from stairwise.tasks import gf2

FIGURE_1 = Task(16, 8, (0, 3, 4, 6, 8, 10, 12, 15))
CHILDREN_OF_FIGURE_1 = ((0, 3), (4, 6), (8, 10), (12, 15), (16, 17), (18, 19), (20, 21))
LARGEST_CENSUS = 600  # tokens, whose pairs are listed


@LEDGER.theory(
    "tree",
    kind="construction",
    says="the binary tree over the secret bits: numbering, children, heights, d_l; its root is the parity (Figure 1)",
    cases=(Sizes(Task(64, 32)), Sizes(FIGURE_1), *(Sizes(Task(16, k)) for k in (2, 3, 5, 6, 7, 16))),
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
        *(Census(Task(16, k)) for k in (8, 2, 3, 7, 11, 16)),
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
