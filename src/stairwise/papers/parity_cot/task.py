"""The sequences: a parity with its chain of partial sums, or with the answer alone; the paper's layout or the authors'.

Positions are counted from 0. With the chain: x_0 ... x_{n-1}, 0, s_1, ..., s_K, where step i adds its secret bits to
s_{i-1} (s_0 = 0) and s_K is the parity. Without it: x_0 ... x_{n-1}, 0, s with the whole secret in one step. The last
token is only ever a label. All that depends on the secret is one matrix, `absorbs`, so k, g and the secret itself are
traced, and one compiled program serves them all.

>>> problem = problem_of(Task(5, 3, secret=(0, 1, 3)), 0)
>>> problem.tokens(jnp.array([0, 1, 0, 1, 0], dtype=jnp.int8)).tolist()
[0, 1, 0, 1, 0, 0, 0, 1, 0]
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int8, Integer, PRNGKeyArray

from stairwise.papers.parity_cot.config.task import Task
from stairwise.tasks.parity import coin_flips, draw_subset
from stairwise.tasks.shuffle import MOST_BITS, distinct_bits
from stairwise.train.keys import role, role_key


class Layout(eqx.Module):
    """Where things stand in a sequence.

    length   tokens that the model reads
    first    the first position whose next token it must tell
    rows     how many such positions follow each other
    lead     rows before the first step: 1 where the 0 token is itself a label
    zero     whether a 0 stands between the inputs and the steps
    """

    length: int = eqx.field(static=True)
    first: int = eqx.field(static=True)
    rows: int = eqx.field(static=True)
    lead: int = eqx.field(static=True, default=0)
    zero: bool = eqx.field(static=True, default=True)

    @staticmethod
    def of(task: Task) -> "Layout":
        steps, n = task.room if task.cot else 1, task.bits
        if task.layout == "paper":
            return Layout(length=n + steps, first=n, rows=steps)
        if task.cot:
            return Layout(length=n + steps, first=n - 1, rows=steps + 1, lead=1)
        return Layout(length=n, first=n - 1, rows=1, zero=False)


class Problem(eqx.Module):
    """One secret: which inputs each step adds (row i of `absorbs`), and which steps there are (`alive`)."""

    absorbs: Bool[Array, "steps inputs"]
    alive: Bool[Array, " steps"]
    layout: Layout

    def tokens(
        self, bits: Int8[Array, " inputs"], wrong: Bool[Array, " steps"] | None = None
    ) -> Int8[Array, " tokens"]:
        """The whole sequence; where a step is `wrong`, it and all that builds on it are flipped."""
        added = jnp.sum(jnp.where(self.absorbs, bits, 0), axis=1, dtype=jnp.int32)
        added = added if wrong is None else added + wrong
        steps = (jnp.cumsum(added) % 2).astype(jnp.int8)
        return jnp.concatenate([bits, jnp.zeros(int(self.layout.zero), dtype=jnp.int8), steps])

    def labels(self, tokens: Int8[Array, "*batch tokens"]) -> Int8[Array, "*batch rows"]:
        """What the supervised rows must tell."""
        first = self.layout.first + 1
        return tokens[..., first : first + self.layout.rows]

    @property
    def live(self) -> Bool[Array, " rows"]:
        """The supervised rows that count; what follows the last step is padding."""
        return jnp.concatenate([jnp.ones(self.layout.lead, dtype=bool), self.alive])

    @property
    def looks_at(self) -> Bool[Array, "rows length"]:
        """The keys that a supervised row needs: the secret bits of its step."""
        wanted = jnp.zeros((self.layout.rows, self.layout.length), dtype=bool)
        return wanted.at[self.layout.lead :, : self.absorbs.shape[1]].set(self.absorbs)


def problem_of(task: Task, seed: int | Integer[Array, ""]) -> Problem:
    """The secret that a seed means; the sizes k and g may be traced."""
    secret = secret_of(task, role_key(seed, "secret"), task.size)
    place = jnp.arange(task.room, dtype=jnp.int32)
    steps = task.room if task.cot else 1
    turn = place // task.absorbed if task.cot else jnp.zeros_like(place)
    here = secret[:, None] == jnp.arange(task.bits, dtype=jnp.int32)  # (place, input)
    now = turn[:, None] == jnp.arange(steps, dtype=jnp.int32)  # (place, step)
    absorbs = jnp.any(now[:, :, None] & here[:, None, :], axis=0)
    return Problem(absorbs, jnp.any(absorbs, axis=1), Layout.of(task))


def secret_of(task: Task, key: PRNGKeyArray, size: int | Integer[Array, ""]) -> Integer[Array, " room"]:
    """The secret positions in the order of the chain; places after the k-th hold n, which is no position."""
    if task.secret:
        named = task.secret if task.order != "ascending" else sorted(task.secret)
        secret = jnp.array(named, dtype=jnp.int32)
    else:
        # the authors draw until the last input is not in the secret, unless all are
        eligible = jnp.where(size < task.bits, task.bits - 1, task.bits) if task.layout == "authors" else None
        secret = draw_subset(role(key, "subset"), task.bits, task.room, eligible, size)
    if task.order != "random":
        return secret
    lots = jax.random.bits(role(key, "order"), (task.room,), dtype=jnp.uint32) >> 1
    lots = jnp.where(secret < task.bits, lots, jnp.uint32(2**32 - 1))
    return secret[jnp.argsort(lots, stable=True)]


# --- inputs -----------------------------------------------------------------------------------------------------------


def fresh_bits(key: PRNGKeyArray, task: Task) -> Int8[Array, " inputs"]:
    """Independent uniform inputs."""
    return coin_flips(key, task.bits)


def pool_bits(key: PRNGKeyArray, task: Task, index: Integer[Array, ""]) -> Int8[Array, " inputs"]:
    """Input number `index` of a pool without repeats (beyond 62 bits: of independent ones, which do not collide).

    Training sets are the first indices and validation sets the last, so they are disjoint, and sets are nested.
    """
    if task.bits > MOST_BITS:
        return coin_flips(jax.random.fold_in(key, index), task.bits)
    return distinct_bits(key, index, task.bits)


def wrong_steps(key: PRNGKeyArray, problem: Problem, noise) -> Bool[Array, " steps"]:
    """Each step is wrong with the same small chance."""
    draws = jax.random.uniform(key, problem.alive.shape, dtype=jnp.float32)
    return draws < noise
