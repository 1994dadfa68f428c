"""k-fold composition: sigma_k pi_k ... sigma_1 pi_1, with sigma in the input and pi hidden in the labels.

Blocks i and letters j are numbered from 0, block indices are cyclic, and a query is a token: q = i N + j.

    hop_i^r = sigma_{i+r-1} pi_{i+r-1} ... sigma_i pi_i

>>> import numpy as np
>>> task = composition(np.array([[1, 0], [0, 1]], dtype=np.int32))
>>> sigma = jnp.array([[0, 1], [1, 0]], dtype=jnp.int32)
>>> task.hop(sigma, 1).tolist()  # sigma_0 pi_0 and sigma_1 pi_1
[[1, 0], [1, 0]]
>>> task.hop(sigma, 2).tolist()
[[0, 1], [0, 1]]
"""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Integer, PRNGKeyArray

from stairwise.papers.composition.permutations import first_non_permutation, uniform_permutations, uniform_subset
from stairwise.papers.composition.plan import Layer
from stairwise.tasks.protocols import ANSWER, Axis, Sentence, check_supervision, told_next
from stairwise.train.keys import role


class Example(NamedTuple):
    """sigma, the token (i, j) that is asked for, and hop_i^r(j)."""

    sequence: Integer[Array, "blocks alphabet"]
    query: Integer[Array, ""]
    label: Integer[Array, ""]


class Composition(eqx.Module):
    """The task with hidden permutations pi; `composition` builds it with checks.

    cyclic         queries (i, j) for every block i; otherwise i = 0 only
    allow_repeats  take hops > k, where permutations come round again and no proof applies
    """

    hidden: Integer[Array, "blocks alphabet"]
    cyclic: bool = eqx.field(static=True, default=True)
    allow_repeats: bool = eqx.field(static=True, default=False)

    @property
    def blocks(self) -> int:
        return self.hidden.shape[0]

    @property
    def alphabet(self) -> int:
        return self.hidden.shape[1]

    @property
    def tokens(self) -> int:
        """T = kN."""
        return self.blocks * self.alphabet

    def sequence(self, key: PRNGKeyArray) -> Integer[Array, "blocks alphabet"]:
        """sigma: k independent uniform permutations."""
        return uniform_permutations(key, self.blocks, self.alphabet)

    def query(self, key: PRNGKeyArray) -> Integer[Array, ""]:
        """A uniform token, of block 0 where the task is not cyclic."""
        return jax.random.randint(key, (), 0, self.tokens if self.cyclic else self.alphabet, dtype=jnp.int32)

    def sample(self, key: PRNGKeyArray, hops: int) -> Example:
        """One sequence, one query, one label."""
        sequence, query = self.sequence(role(key, "sequence")), self.query(role(key, "query"))
        return Example(sequence, query, self.hop(sequence, hops).reshape(-1)[query])

    def hop(self, sequence: Integer[Array, "blocks alphabet"], hops: int) -> Integer[Array, "blocks alphabet"]:
        """hop_i^r(j) for all (i, j): r gathers, one after another."""
        self._check_hops(hops)
        once = jnp.take_along_axis(sequence, self.hidden, axis=1)
        reached = once
        for step in range(1, hops):
            reached = jnp.take_along_axis(jnp.roll(once, -step, axis=0), reached, axis=1)
        return reached

    def hop_by_doubling(
        self, sequence: Integer[Array, "blocks alphabet"], hops: int
    ) -> Integer[Array, "blocks alphabet"]:
        """The same by hop_i^{r+s} = hop_{i+r}^s hop_i^r over the binary digits of r: the second oracle."""
        self._check_hops(hops)
        power, size = jnp.take_along_axis(sequence, self.hidden, axis=1), 1
        reached, done = jnp.broadcast_to(jnp.arange(self.alphabet, dtype=jnp.int32), sequence.shape), 0
        while done < hops:
            if hops & size:
                reached = jnp.take_along_axis(jnp.roll(power, -done, axis=0), reached, axis=1)
                done += size
            power = jnp.take_along_axis(jnp.roll(power, -size, axis=0), power, axis=1)
            size *= 2
        return reached

    def steps(self, sequence: Integer[Array, "blocks alphabet"], hops: int) -> Integer[Array, "hops blocks alphabet"]:
        """The chain of intermediate results: hop^1, ..., hop^r."""
        return jnp.stack([self.hop(sequence, done) for done in range(1, hops + 1)])

    def _check_hops(self, hops: int) -> None:
        if hops < 1 or (hops > self.blocks and not self.allow_repeats):
            raise ValueError(
                f"hops={hops} must lie in 1..blocks={self.blocks} unless allow_repeats is set (Composition)"
            )


def composition(
    hidden: Integer[np.ndarray, "blocks alphabet"], *, cyclic: bool = True, allow_repeats: bool = False
) -> Composition:
    """The task with the given hidden permutations, which must be such."""
    wrong = first_non_permutation(hidden)
    if wrong is not None:
        row = hidden[wrong].tolist()
        raise ValueError(f"hidden[{wrong}]={row} must be a permutation of 0..{hidden.shape[1] - 1} (composition)")
    return Composition(jnp.asarray(hidden, dtype=jnp.int32), cyclic, allow_repeats)


class Hops(eqx.Module):
    """hop_i^r(j) for one query (i, j): the task of a composition at r = `hops`, as models of tokens see it.

    Told to an encoder ("here"): r as token N+r-1, then sigma; every row must tell hop^r of its own letter, and
    supervision "answer" asks at the query alone. Told to a decoder ("next"): sigma, the block i as token N+i, the
    letter j; then come hop^1, ..., hop^r ("chain"), or at once the last of them ("answer").

    >>> sigma, hidden = (jnp.array(rows, dtype=jnp.int32) for rows in ([[0, 1], [1, 0]], [[1, 0], [0, 1]]))
    >>> task = Hops(Composition(hidden), hops=2, reads="next")
    >>> task.sentence(Example(sigma, jnp.int32(1), jnp.int32(1)), "chain").tokens.tolist()
    [0, 1, 1, 0, 2, 1, 0]
    """

    composition: Composition
    hops: int = eqx.field(static=True)
    reads: str = eqx.field(static=True, default="here")

    def __check_init__(self):
        if self.reads not in ("here", "next"):
            raise ValueError(f"reads={self.reads} must be one of here, next (Hops)")

    @property
    def difficulty(self) -> Axis:
        return Axis("hops", tuple(range(1, self.composition.blocks + 1)))

    @property
    def vocabulary(self) -> int:
        """Letters, and as many kinds of hop or blocks."""
        return self.composition.alphabet + max(self.composition.blocks, self.hops)

    @property
    def slots(self) -> int:
        return 1

    @property
    def causal(self) -> bool:
        return self.reads == "next"

    @property
    def supervisions(self) -> tuple[str, ...]:
        return (ANSWER, "chain") if self.causal else (ANSWER, "every query")

    def at(self, difficulty: int) -> "Hops":
        return dataclasses.replace(self, hops=difficulty)

    def sample(self, key: PRNGKeyArray) -> Example:
        return self.composition.sample(key, self.hops)

    def answer(self, example: Example) -> Integer[Array, ""]:
        """The letter that is reached, found by doubling."""
        return self.composition.hop_by_doubling(example.sequence, self.hops).reshape(-1)[example.query]

    def chain(self, example: Example) -> Integer[Array, " hops"]:
        """hop^1, ..., hop^r of the query."""
        return self.composition.steps(example.sequence, self.hops).reshape(self.hops, -1)[:, example.query]

    def sentence(self, example: Example, supervision: str = ANSWER, key: PRNGKeyArray | None = None) -> Sentence:
        check_supervision(self, supervision)
        return self._decoded(example, supervision) if self.causal else self._encoded(example, supervision)

    def _encoded(self, example: Example, supervision: str) -> Sentence:
        tokens = token_form(example.sequence, self.hops - 1)
        reached = self.composition.hop(example.sequence, self.hops).reshape(-1)
        row = jnp.arange(len(tokens), dtype=jnp.int32)
        asked = row == 1 + example.query if supervision == ANSWER else row > 0
        return Sentence(tokens, jnp.append(jnp.zeros_like(reached[:1]), reached), asked.astype(jnp.float32))

    def _decoded(self, example: Example, supervision: str) -> Sentence:
        N, steps = self.composition.alphabet, self.chain(example)
        told = [example.sequence.reshape(-1), N + example.query[None] // N, example.query[None] % N]
        asked = steps if supervision == "chain" else steps[-1:]
        return told_next(jnp.concatenate(told).astype(jnp.int32), asked)


def draw_hidden(
    key: PRNGKeyArray, blocks: int, alphabet: int, moved: int | None = None
) -> Integer[Array, "blocks alphabet"]:
    """Uniform hidden permutations, or the identity but for `moved` = m uniformly chosen blocks (m-sparse)."""
    hidden = uniform_permutations(role(key, "permutations"), blocks, alphabet)
    if moved is None:
        return hidden
    if not 0 <= moved <= blocks:
        raise ValueError(f"moved={moved} must lie in 0..blocks={blocks} (draw_hidden)")
    support = uniform_subset(role(key, "support"), blocks, moved)
    return jnp.where(support[:, None], hidden, jnp.arange(alphabet, dtype=jnp.int32))


def shift(blocks: int, alphabet: int) -> Integer[Array, " tokens"]:
    """Where the shift by one block sends a token: (i, j) to (i+1, j)."""
    tokens = blocks * alphabet
    return (jnp.arange(tokens, dtype=jnp.int32) + alphabet) % tokens


def ideal_stream(
    plan: tuple[Layer, ...],
    hidden: Integer[Array, "blocks alphabet"],
    sequence: Integer[Array, "blocks alphabet"],
) -> Integer[Array, "stream tokens"]:
    """The one-hot blocks of the ideal residual stream as indices: entry [b, q] is the 1 in block b of token q.

    Block 0 is q itself, block 1 (i, sigma_i(j)), block l+2 (i+r-1, hop_i^r(j)) for the r of layer l.
    """
    blocks, alphabet = sequence.shape
    start = alphabet * jnp.arange(blocks, dtype=jnp.int32)[:, None]
    stream = [jnp.arange(blocks * alphabet, dtype=jnp.int32), (start + sequence).reshape(-1)]
    following, looks = shift(blocks, alphabet), (start + hidden).reshape(-1)
    for layer in plan:
        attended = looks if layer.query == 0 else following[stream[layer.query]]
        stream.append(stream[layer.value][attended])
    return jnp.stack(stream)


def ideal_attention(
    plan: tuple[Layer, ...],
    hidden: Integer[Array, "blocks alphabet"],
    stream: Integer[Array, "stream tokens"],
) -> Integer[Array, "layers tokens"]:
    """The token that each token should attend to in each layer, from the ideal stream."""
    blocks, alphabet = hidden.shape
    start = alphabet * jnp.arange(blocks, dtype=jnp.int32)[:, None]
    following, looks = shift(blocks, alphabet), (start + hidden).reshape(-1)
    return jnp.stack([looks if layer.query == 0 else following[stream[layer.query]] for layer in plan])


def token_form(
    sequence: Integer[Array, "blocks alphabet"], kind: int | Integer[Array, ""]
) -> Integer[Array, " length"]:
    """What a standard transformer reads: the kind of hop as token N + kind, then sigma_1(1..N), ..., sigma_k(1..N)."""
    first = jnp.asarray(sequence.shape[1] + kind, dtype=jnp.int32)
    return jnp.concatenate([first[None], sequence.reshape(-1).astype(jnp.int32)])
