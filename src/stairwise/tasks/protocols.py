"""What tasks have in common, so that any of them can be put to any model that reads its kind of input.

A task is an `equinox.Module`: what is secret (permutations, a subset, a table of actions) is a leaf, sizes are static.
All methods are for one example; `vmap` makes batches. The theories' own models (attention on positions only,
coefficients) and texts that come from files stay outside.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Integer, PRNGKeyArray, Shaped

ANSWER = "answer"  # the supervision that every sequence task has: the answer alone


@dataclass(frozen=True)
class Axis:
    """The number along which a task gets harder: a field of the task, and some values from easy to hard."""

    field: str
    values: tuple[int, ...]


class Sentence(NamedTuple):
    """What a model reads, what it must tell at each row, and how much a row counts (0: nothing is asked there)."""

    tokens: Integer[Array, "length *slots"]
    targets: Integer[Array, "length *slots"]
    weights: Float[Array, "length *slots"]


@runtime_checkable
class Task(Protocol):
    """A distribution of examples with one right answer each."""

    @property
    def difficulty(self) -> Axis:
        """k, L, T or hops."""
        ...

    def sample(self, key: PRNGKeyArray) -> Any:
        """One example as a function of its key."""
        ...

    def answer(self, example: Any) -> Shaped[Array, "*answer"]:
        """The answer, in the tokens or the numbers in which it is asked for."""
        ...

    def at(self, difficulty: int) -> "Task":
        """The same secret at another difficulty: what curricula climb and tests extrapolate to."""
        ...


@runtime_checkable
class StepTask(Task, Protocol):
    """A task whose answer is reached step by step."""

    def chain(self, example: Any) -> Shaped[Array, "steps *answer"]:
        """The results of all steps; the last one is the answer."""
        ...


@runtime_checkable
class SequenceTask(Task, Protocol):
    """A task that is told in tokens; the slots of an item (5 in LEGO's clauses) are a last axis of `tokens`.

    reads  "next": a row must tell the item after it; "here": it must tell something about its own
    """

    @property
    def vocabulary(self) -> int: ...

    @property
    def slots(self) -> int: ...

    @property
    def reads(self) -> str: ...

    @property
    def causal(self) -> bool: ...

    @property
    def supervisions(self) -> tuple[str, ...]:
        """What can be asked for; `answer`, the answer alone, is always among them."""
        ...

    def sentence(self, example: Any, supervision: str = ANSWER, key: PRNGKeyArray | None = None) -> Sentence:
        """An example as it is read; `key` is for supervisions that draw something themselves."""
        ...


@runtime_checkable
class VectorTask(Task, Protocol):
    """A task whose input is a vector per position; the answer is a vector that the last position must tell."""

    def inputs(self, example: Any) -> Float[Array, "positions width"]: ...


def check_supervision(task: Any, supervision: str) -> None:
    """The supervision must be one of the sequence task's."""
    if supervision not in task.supervisions:
        named = type(task).__name__
        raise ValueError(f"supervision={supervision} must be one of {', '.join(task.supervisions)} ({named})")


def told_next(prompt: Integer[Array, "prompt *slots"], asked: Integer[Array, "asked *slots"]) -> Sentence:
    """A prompt and then what is asked for, item by item: each must be told by the row before it, which sees the others.

    >>> told_next(jnp.array([7, 8]), jnp.array([1, 2])).tokens.tolist()
    [7, 8, 1]
    """
    tokens = jnp.concatenate([prompt, asked[:-1]])
    before = len(prompt) - 1
    targets = jnp.concatenate([jnp.zeros_like(prompt[:-1]), asked])
    row = jnp.arange(len(tokens), dtype=jnp.int32).reshape(-1, *[1] * (tokens.ndim - 1))
    return Sentence(tokens, targets, jnp.broadcast_to(row >= before, tokens.shape).astype(jnp.float32))


def sentence_loss(logits: Float[Array, "length *slots vocabulary"], sentence: Sentence) -> Float[Array, ""]:
    """-log p(target), averaged with the weights of the rows."""
    log_odds = jax.nn.log_softmax(logits.astype(jnp.promote_types(logits.dtype, jnp.float32)))
    losses = -jnp.take_along_axis(log_odds, sentence.targets[..., None].astype(jnp.int32), axis=-1)[..., 0]
    return jnp.sum(sentence.weights * losses) / jnp.sum(sentence.weights)
