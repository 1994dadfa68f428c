"""A parity of k bits as a binary tree of k-1 products of two, numbered from the bottom up.

Tokens are numbered from 0: the inputs take `slots` places, of which the first d are in use, and internal node i is
token slots + i. Padding (inputs from d on, nodes from k-1 on) lets one compiled program serve every d and k up to a
size; the numbers d and k may then be traced. Without padding slots = d, and a token's number is the papers' less one.
"""

from collections.abc import Callable
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Integer, Num

TREES = ("balanced", "chain")
MASKS = ("causal", "block")


class Tree(eqx.Module):
    """Children c1 < c2, heights h and visibility of the internal nodes.

    children   the two tokens whose product is node i
    height     h = 1 + the larger height of the children (inputs have 0), non-decreasing in i; 0 marks padding
    inputs     d, the inputs in use
    levels     the largest height that there is room for
    """

    children: Integer[Array, "nodes 2"]
    height: Integer[Array, " nodes"]
    inputs: Integer[Array, ""]
    slots: int = eqx.field(static=True)
    levels: int = eqx.field(static=True)

    @property
    def nodes(self) -> int:
        """Places for internal nodes, k-1 of them in use."""
        return len(self.height)

    @property
    def tokens(self) -> int:
        """N = d+k-1 without padding."""
        return self.slots + self.nodes

    @property
    def used(self) -> Bool[Array, " nodes"]:
        return self.height > 0

    @property
    def root(self) -> Integer[Array, ""]:
        """The node (counted from the first one) that holds the parity."""
        return jnp.sum(self.used, dtype=jnp.int32) - 1

    def nodes_before(self, mask: str) -> Integer[Array, " nodes"]:
        """How many internal nodes each node sees: all earlier ones (causal), or all of lower height (block)."""
        if mask not in MASKS:
            raise ValueError(f"mask={mask} must be one of {', '.join(MASKS)} (Tree)")
        earlier = jnp.arange(self.nodes, dtype=jnp.int32)
        if mask == "causal":
            return earlier
        height = jnp.where(self.used, self.height, self.nodes + 1)  # padding lies above everything
        return jnp.searchsorted(height, height, side="left").astype(jnp.int32)

    def visible(self, mask: str) -> Bool[Array, "tokens nodes"]:
        """visible[j, i]: whether node i may attend to token j."""
        token = jnp.arange(self.tokens, dtype=jnp.int32)[:, None]
        input = token < self.inputs
        node = (token >= self.slots) & (token < self.slots + self.nodes_before(mask))
        return (input | node) & self.used

    def visible_count(self, mask: str) -> Integer[Array, " nodes"]:
        """V(m): m-1 with the causal mask, d_{h[m]-1} with the block mask (paper's numbering); 0 for padding."""
        return jnp.where(self.used, self.inputs + self.nodes_before(mask), 0)

    def is_child(self) -> Bool[Array, "tokens nodes"]:
        """is_child[j, i]: whether token j is a child of node i."""
        token = jnp.arange(self.tokens, dtype=jnp.int32)[:, None]
        return ((token == self.children[:, 0]) | (token == self.children[:, 1])) & self.used

    def level_ends(self) -> np.ndarray:
        """d_0, ..., d_v: how many tokens have height at most l (for a tree without padding).

        >>> balanced(jnp.array([0, 3, 4, 6, 8, 10, 12, 15]), 16).level_ends()
        array([16, 20, 22, 23])
        """
        height = np.asarray(self.height)
        return np.array([int(self.inputs) + np.sum((height > 0) & (height <= l)) for l in range(height.max() + 1)])

    def complete(
        self,
        inputs: Num[Array, "slots *rest"],
        combine: Callable[[Array, Array], Array] = jnp.multiply,
    ) -> Num[Array, "tokens *rest"]:
        """The inputs followed by the true values of all nodes; `combine` is XOR for packed 0/1 words.

        >>> tree = balanced(jnp.array([0, 1, 3]), 4)
        >>> tree.complete(jnp.array([-1, 1, 1, -1])).tolist()
        [-1, 1, 1, -1, -1, 1]
        """
        room = jnp.zeros((self.nodes, *inputs.shape[1:]), dtype=inputs.dtype)
        if self.levels**2 <= self.nodes:  # flat: all nodes at once, once a level, after which those up to it are right
            left, right = self.children.T
            values = jnp.concatenate([inputs, room])
            for _ in range(self.levels):
                values = jnp.concatenate([inputs, combine(values[left], values[right])])
            return values

        def fill(i, values):
            left, right = self.children[i]
            return values.at[self.slots + i].set(combine(values[left], values[right]))

        return jax.lax.fori_loop(0, self.nodes, fill, jnp.concatenate([inputs, room]))


def balanced(
    leaves: Integer[Array, " room"],
    inputs: int | Integer[Array, ""],
    count: int | Integer[Array, ""] | None = None,
    slots: int | None = None,
) -> Tree:
    """The balanced tree for any k >= 2; for k = 2^v it is the complete one, in the papers' numbering.

    The leaves stand in a queue, new nodes join at its end, and node i multiplies entries 2i and 2i+1. With E_0 = k
    and E_{l+1} = k + floor(E_l / 2) entries of height at most l, node i has height 1 + |{l: i >= floor(E_l / 2)}|,
    and the tree has height ceil(log2 k). The first `count` leaves are in use (all of them, unless it is given).

    >>> tree = balanced(jnp.array([0, 3, 4]), 16)
    >>> tree.children.tolist(), tree.height.tolist()
    ([[0, 3], [4, 16]], [1, 2])
    """
    slots, count = _sizes(leaves, inputs, count, slots)
    return _balanced(leaves, inputs, count, slots)


@partial(jax.jit, static_argnames="slots", inline=True)  # one program, where a dozen would run one after another
def _balanced(leaves, inputs, count, slots: int) -> Tree:
    room = len(leaves)
    entry = jnp.arange(2 * (room - 1), dtype=jnp.int32)
    token = jnp.where(entry < count, leaves[jnp.minimum(entry, room - 1)], slots + entry - count)
    node = jnp.arange(room - 1, dtype=jnp.int32)
    levels = (room - 1).bit_length()
    height, entries = jnp.ones_like(node), jnp.asarray(count, dtype=jnp.int32)
    for _ in range(levels):
        height = height + (node >= entries // 2)
        entries = count + entries // 2
    return _tree(token.reshape(room - 1, 2), height, inputs, count, slots, levels)


def chain(
    leaves: Integer[Array, " room"],
    inputs: int | Integer[Array, ""],
    count: int | Integer[Array, ""] | None = None,
    slots: int | None = None,
) -> Tree:
    """One leaf at a time: node 0 multiplies the first two leaves, node i the next leaf and node i-1.

    >>> tree = chain(jnp.array([0, 3, 4]), 16)
    >>> tree.children.tolist(), tree.height.tolist()
    ([[0, 3], [4, 16]], [1, 2])
    """
    slots, count = _sizes(leaves, inputs, count, slots)
    return _chain(leaves, inputs, count, slots)


@partial(jax.jit, static_argnames="slots", inline=True)
def _chain(leaves, inputs, count, slots: int) -> Tree:
    node = jnp.arange(len(leaves) - 1, dtype=jnp.int32)
    before = jnp.where(node == 0, leaves[0], slots + node - 1)
    children = jnp.stack([leaves[1:], before], axis=1)
    return _tree(children, node + 1, inputs, count, slots, len(leaves) - 1)


def _sizes(leaves, inputs, count, slots):
    if len(leaves) < 2:
        raise ValueError(f"leaves={len(leaves)} must be at least 2 (Tree)")
    if slots is None:
        slots = int(inputs)
    return slots, len(leaves) if count is None else count


def _tree(children, height, inputs, count, slots: int, levels: int) -> Tree:
    used = jnp.arange(len(height), dtype=jnp.int32) < count - 1
    children = jnp.where(used[:, None], jnp.sort(children, axis=1), 0).astype(jnp.int32)
    height = jnp.where(used, height, 0).astype(jnp.int32)
    return Tree(children, height, jnp.asarray(inputs, dtype=jnp.int32), slots, levels)
