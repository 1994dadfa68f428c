"""LEGO sentences: a chain of actions on a value, told in clauses of five tokens.

Variables x_0..x_L are drawn without replacement, y_0 and each g_l uniformly, and y_l = g_l(y_{l-1}). A sentence is

    predicate l   (x_l, g_l, x_{l-1}, blank, blank),  l = 1..L
    answer l      (blank, blank, blank, x_l, y_l),    l = 0..L

with token ids 0 for the blank, then variables, actions, values. After L steps the product is g_L o ... o g_1 (the word
problem writes g_1 o ... o g_L: the same words, read from the other end).

>>> task = lego("C3", variables=4, length=2)
>>> chain = Chain(*(jnp.array(row, dtype=jnp.int32) for row in ([3, 0, 1], [2, 2], [1, 0, 2])))
>>> task.clauses(chain).tolist()
[[1, 7, 4, 0, 0], [2, 7, 1, 0, 0], [0, 0, 0, 4, 9], [0, 0, 0, 1, 8], [0, 0, 0, 2, 10]]
>>> [task.token_kind(token) for token in (0, 4, 7, 10)]
['blank', 'variable', 'action', 'value']
"""

import dataclasses
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Integer, PRNGKeyArray

from stairwise.papers.lego.groups import Action, named
from stairwise.tasks.protocols import ANSWER, Axis, Sentence, check_supervision, told_next
from stairwise.train.keys import at, role

SLOTS = 5
BLANK = 0
KINDS = ("blank", "variable", "action", "value")


class Chain(NamedTuple):
    """x_0..x_L, g_1..g_L and y_0..y_L, each numbered from 0 within its own alphabet."""

    variables: Integer[Array, " points"]
    actions: Integer[Array, " length"]
    values: Integer[Array, " points"]


class Lego(eqx.Module):
    """The distribution D^L over chains of an action `table[g, y] = g(y)`; `lego` builds it from a name."""

    variables: int = eqx.field(static=True)
    length: int = eqx.field(static=True)
    table: Integer[Array, "actions values"]
    slots: ClassVar[int] = SLOTS
    reads: ClassVar[str] = "next"
    causal: ClassVar[bool] = True
    supervisions: ClassVar[tuple[str, ...]] = (ANSWER, "chain")

    def __check_init__(self):
        if self.length < 1:
            raise ValueError(f"length={self.length} must be at least 1 (Lego)")
        if self.length + 1 > self.variables:
            raise ValueError(
                f"length={self.length} needs {self.length + 1} variables, which must be at most"
                f" variables={self.variables} (Lego)"
            )

    @property
    def actions(self) -> int:
        return self.table.shape[0]

    @property
    def values(self) -> int:
        return self.table.shape[1]

    @property
    def vocabulary(self) -> int:
        """d, the blank included."""
        return 1 + self.variables + self.actions + self.values

    @property
    def starts(self) -> tuple[int, int, int]:
        """The first token of the variables, of the actions and of the values."""
        return 1, 1 + self.variables, 1 + self.variables + self.actions

    @property
    def difficulty(self) -> Axis:
        return Axis("length", tuple(range(1, self.variables)))

    def at(self, difficulty: int) -> "Lego":
        """Chains of another length, over the same variables."""
        return dataclasses.replace(self, length=difficulty)

    # --- sampling -----------------------------------------------------------------------------------------------------

    def sample(self, key: PRNGKeyArray) -> Chain:
        """One chain from D^L; a longer chain from the same key begins with it."""
        return jax.tree.map(lambda leaf: leaf[0], self.disjoint(key, 1))

    def example(self, key: PRNGKeyArray, index: int | Integer[Array, ""]) -> Chain:
        """Example `index` of the pool that the key means: a fixed data set that nobody stores."""
        return self.sample(at(key, index))

    def disjoint(self, key: PRNGKeyArray, chains: int) -> Chain:
        """Several chains over variables none of which occurs twice: the first is the question, others distract."""
        points = chains * (self.length + 1)
        if points > self.variables:
            raise ValueError(
                f"chains={chains} of length={self.length} need {points} variables, which must be at most"
                f" variables={self.variables} (Lego)"
            )
        variables = draw_distinct(role(key, "variables"), self.variables, points).reshape(chains, self.length + 1)
        actions = jax.random.randint(role(key, "actions"), (chains, self.length), 0, self.actions, dtype=jnp.int32)
        start = jax.random.randint(role(key, "start"), (chains,), 0, self.values, dtype=jnp.int32)
        return Chain(variables, actions, jax.vmap(self.track)(start, actions))

    def predicate_order(self, key: PRNGKeyArray) -> Integer[Array, " length"]:
        """A uniform order in which to tell the predicates."""
        return jax.random.permutation(key, jnp.arange(self.length, dtype=jnp.int32))

    # --- oracles ------------------------------------------------------------------------------------------------------

    def track(self, start: Integer[Array, ""], actions: Integer[Array, " length"]) -> Integer[Array, " points"]:
        """y_0, ..., y_L, one action after another."""

        def step(value: Integer[Array, ""], action: Integer[Array, ""]):
            reached = self.table[action, value]
            return reached, reached

        first = start.astype(self.table.dtype)
        return jnp.concatenate([first[None], jax.lax.scan(step, first, actions)[1]])

    def track_by_products(
        self, start: Integer[Array, ""], actions: Integer[Array, " length"]
    ) -> Integer[Array, " points"]:
        """The same from the products g_l o ... o g_1, all found in log L parallel rounds: the second oracle."""
        products = jax.lax.associative_scan(
            lambda first, then: jnp.take_along_axis(then, first, axis=-1), self.table[actions]
        )
        return jnp.concatenate([start.astype(self.table.dtype)[None], products[:, start]])

    def answer(self, example: Chain) -> Integer[Array, " 5"]:
        """The last clause, its value found from the products."""
        values = self.track_by_products(example.values[0], example.actions)
        return self.answers(example._replace(values=values))[-1]

    def chain(self, example: Chain) -> Integer[Array, "length 5"]:
        """Answers 1..L, clause by clause."""
        return self.answers(example)[1:]

    # --- clauses ------------------------------------------------------------------------------------------------------

    def sentence(self, example: Chain, supervision: str = ANSWER, key: PRNGKeyArray | None = None) -> Sentence:
        """Predicates and answer 0, and then every further clause ("chain"), or at once the last ("answer")."""
        check_supervision(self, supervision)
        asked = self.chain(example) if supervision == "chain" else self.answer(example)[None]
        return told_next(self.truncated(example, 0), asked)

    def clauses(self, chain: Chain, order: Integer[Array, " length"] | None = None) -> Integer[Array, "clauses 5"]:
        """The sentence Z^L as token ids: L predicates (in the given order), then answers 0..L."""
        predicates = self.predicates(chain)
        return jnp.concatenate([predicates if order is None else predicates[order], self.answers(chain)])

    def predicates(self, chain: Chain) -> Integer[Array, "length 5"]:
        variable, action, _ = self.starts
        names, blank = chain.variables + variable, jnp.zeros_like(chain.actions)
        return jnp.stack([names[1:], chain.actions + action, names[:-1], blank, blank], axis=1)

    def answers(self, chain: Chain) -> Integer[Array, "points 5"]:
        variable, _, value = self.starts
        blank = jnp.zeros_like(chain.variables)
        return jnp.stack([blank, blank, blank, chain.variables + variable, chain.values + value], axis=1)

    def truncated(self, chain: Chain, steps: int) -> Integer[Array, "clauses 5"]:
        """Z^{L,L'}: all L predicates, and answers 0..L' = `steps`."""
        if not 0 <= steps <= self.length:
            raise ValueError(f"steps={steps} must lie in 0..length={self.length} (Lego)")
        return self.clauses(chain)[: self.length + steps + 1]

    def bootstrapped(self, chain: Chain, answers: Integer[Array, "steps 5"]) -> Integer[Array, "clauses 5"]:
        """Z^{L,L'} with answers 1..L' replaced by an annotator's clauses, right or wrong."""
        return jnp.concatenate([self.truncated(chain, 0), answers.astype(chain.values.dtype)])

    def among(self, chains: Chain) -> Integer[Array, "clauses 5"]:
        """The first chain's sentence with the predicates of all others told between its own and its answers."""
        first = jax.tree.map(lambda leaf: leaf[0], chains)
        predicates = jax.vmap(self.predicates)(chains).reshape(-1, SLOTS)
        return jnp.concatenate([predicates, self.answers(first)])

    def decode(self, clauses: Integer[Array, "clauses 5"]) -> Chain:
        """The chain whose sentence this is."""
        variable, action, value = self.starts
        predicates, answers = clauses[: self.length], clauses[self.length :]
        return Chain(answers[:, 3] - variable, predicates[:, 1] - action, answers[:, 4] - value)

    def embed(self, clauses: Integer[Array, "clauses 5"], dtype=jnp.float32) -> Float[Array, "clauses five_d"]:
        """Five one-hot vectors side by side, the blank as the zero vector."""
        hot = jax.nn.one_hot(clauses, self.vocabulary, dtype=dtype).at[..., BLANK].set(0)
        return hot.reshape(clauses.shape[0], SLOTS * self.vocabulary)

    def token_kind(self, token: int) -> str:
        """blank, variable, action or value."""
        if not 0 <= token < self.vocabulary:
            raise ValueError(f"token={token} must lie in 0..{self.vocabulary - 1} (Lego)")
        return KINDS[int(np.searchsorted(self.starts, token, side="right"))]


def lego(action: str | Action, variables: int, length: int) -> Lego:
    """The task of an action, by name or given."""
    chosen = named(action) if isinstance(action, str) else action
    return Lego(variables, length, jnp.asarray(chosen.table, dtype=jnp.int32))


def draw_distinct(key: PRNGKeyArray, size: int, count: int) -> Integer[Array, " count"]:
    """`count` of 0..size-1 without replacement, in uniform order; asking for more changes none of the first.

    The first swaps of a Fisher-Yates shuffle: seven times cheaper here than a sort, forty at six of 170.
    """
    turn = jnp.arange(count, dtype=jnp.int32)
    words = jax.random.bits(key, (count,), dtype=jnp.uint32)
    chosen = turn + (words % (size - turn).astype(jnp.uint32)).astype(jnp.int32)

    def swap(deck: Integer[Array, " size"], places: tuple[Integer[Array, ""], Integer[Array, ""]]):
        top, place = places
        return deck.at[place].set(deck[top]), deck[place]

    return jax.lax.scan(swap, jnp.arange(size, dtype=jnp.int32), (turn, chosen))[1]


def relabelled(chain: Chain, names: Integer[Array, " variables"]) -> Chain:
    """The same chain told with other variables: x becomes names[x]."""
    return chain._replace(variables=names[chain.variables])
