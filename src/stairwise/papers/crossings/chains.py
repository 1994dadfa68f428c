"""Three papers' tasks in one form: a prompt, and the chain of answers that leads from it to the last one.

    parity        x_1 ... x_n, 0                               s_1, ..., s_k       partial sums of the secret bits
    composition   sigma_1(1..N), ..., sigma_k(1..N), j         hop^1(j), ..., hop^k(j)
    lego          (x_l, g_l, x_{l-1}) for l = 1..L, x_0, y_0   y_1, ..., y_L

A decoder is asked for every answer of the chain, reading those before it, or for the last one alone.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Integer, PRNGKeyArray

from stairwise.measure.accuracy import share
from stairwise.nn.transformer import Transformer
from stairwise.papers.composition.config import Task as CompositionTask
from stairwise.papers.composition.rules import cross_entropy
from stairwise.papers.composition.train import task_of
from stairwise.papers.lego.config.task import Task as LegoTask
from stairwise.papers.lego.train import make_task
from stairwise.papers.parity_cot.config.task import Task as ParityTask
from stairwise.papers.parity_cot.config.training import Decoder
from stairwise.papers.parity_cot.task import fresh_bits, problem_of
from stairwise.train.keys import role


class Chain(NamedTuple):
    """What is given, and what follows from it step by step."""

    prompt: Integer[Array, " prompt"]
    answers: Integer[Array, " steps"]


class Lesson(NamedTuple):
    """What a decoder reads, and what it should tell at the last positions of it."""

    tokens: Integer[Array, " length"]
    labels: Integer[Array, " rows"]


Draw = Callable[[PRNGKeyArray], Chain]


def parity(task: ParityTask, trial) -> Draw:
    """The parity of a seed's secret bits."""
    problem = problem_of(task, trial.seed)

    def draw(key: PRNGKeyArray) -> Chain:
        tokens = problem.tokens(fresh_bits(key, task)).astype(jnp.int32)
        return Chain(tokens[: task.bits + 1], tokens[task.bits + 1 :])

    return draw


def composition(task: CompositionTask, trial) -> Draw:
    """A letter's way through the blocks, from the first on."""
    maps = task_of(task, trial)

    def draw(key: PRNGKeyArray) -> Chain:
        sequence = maps.sequence(role(key, "sequence"))
        letter = jax.random.randint(role(key, "letter"), (1,), 0, task.alphabet, dtype=jnp.int32)
        answers = maps.steps(sequence, task.blocks)[:, 0, letter[0]]
        return Chain(jnp.concatenate([sequence.reshape(-1), letter]), answers)

    return draw


def lego(task: LegoTask, trial) -> Draw:
    """LEGO's predicates in order, three tokens each, the first answer, and the values of the others."""
    chains = make_task(task)

    def draw(key: PRNGKeyArray) -> Chain:
        chain = chains.sample(key)
        answers = chains.answers(chain)
        return Chain(jnp.concatenate([chains.predicates(chain)[:, :3].reshape(-1), answers[0, 3:]]), answers[1:, 4])

    return draw


def lesson(chain: Chain, every_step: bool) -> Lesson:
    """All answers asked for, each with those before it in view, or the last one alone."""
    if every_step:
        return Lesson(jnp.concatenate([chain.prompt, chain.answers[:-1]]), chain.answers)
    return Lesson(chain.prompt, chain.answers[-1:])


# --- the decoder ------------------------------------------------------------------------------------------------------


def make_decoder(config: Decoder, vocabulary: int, length: int, std: Any, key: PRNGKeyArray) -> Any:
    """Parity's decoder on another alphabet: causal, tied head."""
    return Transformer(vocab=vocabulary, std=std, key=key, **config.arguments(length))


def loss(model: Transformer, lessons: Lesson) -> Float[Array, ""]:
    """-log p(label), averaged over rows and lessons."""
    rows = lessons.labels.shape[1]
    return jnp.mean(jax.vmap(lambda one: cross_entropy(model(one.tokens)[-rows:], one.labels))(lessons))


def accuracy(model: Transformer, lessons: Lesson) -> dict[str, Float[Array, ""]]:
    """All rows right, which is when a greedy roll-out is right to its end; and the last row given those before it."""
    rows = lessons.labels.shape[1]
    right = jax.vmap(lambda one: jnp.argmax(model(one.tokens)[-rows:], axis=-1) == one.labels)(lessons)
    return {
        "accuracy": share(jnp.all(right, axis=1)),
        "last": share(right[:, -1]),
    }
