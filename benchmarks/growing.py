"""For each paper the work whose cost is watched as its size grows, and the law that counting operations gives."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.growth import Growth, Law
from stairwise.config import structure
from stairwise.papers.composition import integer
from stairwise.papers.composition import train as composing
from stairwise.papers.composition.plan import layers
from stairwise.papers.composition.task import Composition, draw_hidden
from stairwise.papers.lego.decoder import Decoder
from stairwise.papers.lego.rollout import roll_out
from stairwise.papers.lego.task import lego as lego_task
from stairwise.papers.parity_cot import train as decoding
from stairwise.papers.parity_cot.config.task import PaddedTask
from stairwise.papers.parity_cot.config.training import Decoder as DecoderSizes
from stairwise.papers.parity_cot.config.training import Training
from stairwise.papers.parity_onestep import train as descending
from stairwise.papers.parity_onestep.config import Descent
from stairwise.papers.parity_onestep.config import Task as Parity
from stairwise.papers.selection import train as selecting
from stairwise.papers.selection.config import Encodings, Online
from stairwise.papers.selection.config import Task as Selection
from stairwise.train.loop import RunningTrial
from stairwise.train.stage import Stage

LINEAR, SQUARE = Law("1", lambda size: size), Law("2", lambda size: size**2)


def powers(first: int, last: int) -> tuple[int, ...]:
    """first, 2 first, 4 first, ... up to last.

    >>> powers(4, 32)
    (4, 8, 16, 32)
    """
    return tuple(first * 2**k for k in range((last // first).bit_length()))


def one_tick(stages: Callable[[Any], Sequence[Stage]], config: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A tick of an experiment's first stage as training runs it, compiled, and its arguments."""
    trial = RunningTrial(jax.tree.map(jnp.asarray, config), jnp.uint32(0))
    stage, key = stages(structure(config))[0], jax.random.key(0)
    state = jax.jit(stage.init)(trial, None, key)
    return jax.jit(stage.tick), (trial, state, key, jnp.int32(0))


def selection() -> Growth:
    def program(length: int):
        encoding = Encodings(width=32, threshold=1.0, scheme="none")
        task = Selection(length, 3, 5)
        return one_tick(selecting.online, Online(task=task, encoding=encoding, batch=64, test_sparsities=(3,)))

    return Growth(
        work="a training step, q=3 d=5 d_e=32, batch 64, encodings without rejection",
        size="T, tokens of a sequence",
        sizes=powers(16, 4096),
        program=program,
        time=LINEAR,
        memory=LINEAR,
        why="each of T tokens is drawn, scored against one query and averaged: d + d_e products; Z is never formed",
    )


def parity_onestep() -> Growth:
    block = 128  # a larger one leaves the caches at the largest d
    return Growth(
        work=f"a block of {block} samples of the one step, k=16",
        size="d, bits of the input",
        sizes=powers(32, 8192),
        program=lambda bits: one_tick(descending.descent, Descent(task=Parity(bits, 16), samples=block, block=block)),
        time=LINEAR,
        memory=LINEAR,
        why="a block is one product of its tokens, d+k-1 rows, with k-1 columns; no (d+k-1)-square matrix appears",
    )


def composition() -> Growth:
    alphabet, samples = 2, 64

    def program(blocks: int):
        task, plan = Composition(draw_hidden(jax.random.key(0), blocks, alphabet)), layers(blocks)
        last = len(plan) - 1

        @jax.jit
        def gradient(key):
            sequences, queries = composing.draw_samples(task, key, 0, samples)
            counts = integer.no_counts(last, task.tokens)
            counts = integer.add_pairs(counts, plan, last, task.hidden, sequences, queries)
            return integer.key_query_gradient(counts, alphabet, 1.0, samples)

        return gradient, (jax.random.key(1),)

    entries = Law("k² log² k", lambda k: (k * (np.log2(k) + 2)) ** 2)
    return Growth(
        work=f"gradient of the last W_KQ by counts, N={alphabet}, {samples} samples",
        size="k, hops (blocks of the sequence)",
        sizes=powers(2, 256),
        program=program,
        time=entries,
        memory=entries,
        why="W_KQ has ((log2 k + 2) k N)^2 entries, each written once; a sample adds only k (log2 k + 2)^2 counts",
    )


def lego() -> Growth:
    width, batch = 32, 16

    def program(length: int):
        task = lego_task("C6", length + 1, length)
        model = Decoder(vocabulary=task.vocabulary, width=width, heads=2, key=jax.random.key(0))
        chains = jax.vmap(task.sample)(jax.random.split(jax.random.key(1), batch))
        told = jax.vmap(task.predicates)(chains), jax.vmap(task.answers)(chains)[:, 0]
        return jax.jit(jax.vmap(roll_out, in_axes=(None, 0, 0, None))), (model, *told, jnp.int32(length))

    # a clause, over w: projections and FFN 12 w, attention 4 L, and 5 |V| three times with |V| = L + 14: to embed a
    # predicate and an answer, as products with one-hot vectors, and to name what follows
    products = Law("L (c + L)", lambda L: L * (12 * width + 4 * L + 15 * (L + 14)))
    # a clause: embedded, keys and values of predicate and answer, and the one-hot vectors of the predicate
    held = Law("L (c + L)", lambda L: L * (6 * width + 5 * (L + 14)))
    return Growth(
        work=f"greedy roll-out of {batch} sentences of L+1 variables, C6, width {width}",
        size="L, clauses of the answer",
        sizes=powers(4, 512),
        program=program,
        time=products,
        memory=held,
        why="a clause costs 12 w^2 for itself, 4 w L to attend, 15 w |V| to embed and name tokens; |V| grows with L",
    )


def parity_cot() -> Growth:
    def program(width: int):
        batch, decoder = 16, DecoderSizes(width=width, layers=1, heads=1, std=0.02)
        config = Training(
            task=PaddedTask(bits=30, size=3, padding=3), model=decoder,
            learning_rate=1e-4, batch=batch, look=batch, budget=100 * batch, test_examples=batch, clip=0.0,
        )  # fmt: skip
        return one_tick(decoding.training, config)

    return Growth(
        work="a training step of the one-layer decoder, n=30 k=3 with CoT, batch 16",
        size="w, width of the decoder",
        sizes=powers(8, 1024),
        program=program,
        time=SQUARE,
        memory=SQUARE,
        why="12 w^2 weights, each with a gradient and two moments, multiply a number of rows that w does not change",
    )
