"""The five supervisions as data: which subset of the bits each row must tell, and whether the next rows see it.

A sequence is x_1 ... x_n, 0, a_1, a_2, ...: row r (at the 0, at a_1, ...) must tell the parity of a subset of the bits.

    none      one row, the whole secret
    chain     row r: the first r secret bits; its answer is the next token
    tree      row r: the leaves below node r of the balanced tree; its answer is the next token
    mixture   row r: the first r secret bits; one row of each sequence is asked, and all tokens after x are 0
    self      as many rows as the chain; the tokens are the decoder's own draws, and only sequences whose last one is
              the parity are trained on

A tree of two leaves is one node, the answer alone: at k = 2 tree and none are the same training.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int8, Integer, PRNGKeyArray

from stairwise.measure.accuracy import share
from stairwise.nn.transformer import Transformer
from stairwise.papers.crossings.learning import in_looks
from stairwise.papers.crossings.supervisions.config import Supervised
from stairwise.papers.parity_cot.decoder import make_decoder
from stairwise.papers.parity_cot.structured import answer_logits
from stairwise.papers.parity_cot.train import doublings
from stairwise.tasks.decomposition import balanced
from stairwise.tasks.parity import draw_subset
from stairwise.tasks.shuffle import distinct_bits
from stairwise.train.keys import role
from stairwise.train.loop import RunningTrial
from stairwise.train.stage import Stage


class AskedRows(eqx.Module):
    """What a supervision asks: the subset of each row, the rows there are, whether answers are shown to later rows."""

    asks: Bool[Array, "rows inputs"]
    live: Bool[Array, " rows"]
    shown: bool = eqx.field(static=True)

    @property
    def last(self) -> Integer[Array, ""]:
        """The row whose answer is the parity."""
        return jnp.sum(self.live, dtype=jnp.int32) - 1

    def answers(self, bits: Int8[Array, "batch inputs"]) -> Int8[Array, "batch rows"]:
        """The parity of every row's subset."""
        return (bits.astype(jnp.int32) @ self.asks.T.astype(jnp.int32) % 2).astype(jnp.int8)


class Batch(NamedTuple):
    """What is read, what should be told, and what counts."""

    tokens: Int8[Array, "batch length"]
    labels: Int8[Array, "batch rows"]
    weights: Float[Array, "batch rows"]


def training(config: Supervised) -> list[Stage]:
    """The one stage: until the answer is right, or the budget is spent."""
    return [
        in_looks(
            model=lambda trial, key: initial(trial),
            prepare=lambda trial, model, key: lesson_of(trial),
            batch=batch_of,
            loss=lambda trial, model, batch, key: batch_loss(config, model, batch),
            look=look,
            key_role="batch",
            steps=config.look // config.batch,
            looks=config.looks,
            threshold=config.threshold,
            measure_at=doublings(config.looks, 4),
            stop=True,
        )
    ]


# --- what is asked ----------------------------------------------------------------------------------------------------


def lesson_of(trial: RunningTrial[Supervised]) -> AskedRows:
    """The lesson of a seed's secret; the secret is the same under every supervision."""
    config = trial.config
    size = config.size
    secret = draw_subset(trial.key("secret"), config.bits, config.padding, None, size)
    member = secret[:, None] == jnp.arange(config.bits, dtype=jnp.int32)
    row = jnp.arange(config.padding, dtype=jnp.int32)
    if config.supervision == "none":
        return AskedRows(jnp.any(member, axis=0, keepdims=True), row[:1] == 0, shown=False)
    if config.supervision == "tree":
        tree = balanced(secret, config.bits, size, config.bits)
        below = tree.complete(jnp.eye(config.bits, dtype=jnp.int32), jnp.add)[config.bits :] > 0
        asks = jnp.concatenate([below & tree.used[:, None], jnp.zeros((1, config.bits), dtype=bool)])
        return AskedRows(asks, row < size - 1, shown=True)
    prefixes = jnp.cumsum(member, axis=0) > 0
    return AskedRows(prefixes & (row < size)[:, None], row < size, shown=config.supervision != "mixture")


def batch_of(trial: RunningTrial[Supervised], lesson: AskedRows, model: Transformer, key: PRNGKeyArray, n) -> Batch:
    """The batch of a step, by its key."""
    config = trial.config
    index = jax.random.randint(
        role(key, "inputs"), (config.batch,), 0, config.pool - config.test_examples, dtype=jnp.int32
    )
    bits = inputs_at(trial, index)
    answers = lesson.answers(bits)
    counted = jnp.broadcast_to(lesson.live, answers.shape).astype(jnp.float32)
    if config.supervision == "mixture":
        asked = jax.random.randint(role(key, "asked"), (config.batch,), 0, config.size, dtype=jnp.int32)
        counted = jax.nn.one_hot(asked, config.padding, dtype=jnp.float32)
    if config.supervision == "self":
        parity = answers[:, lesson.last]
        answers = own_answers(config, lesson, model, bits, role(key, "own"))
        counted = counted * (answers[:, lesson.last] == parity)[:, None]
    return Batch(sequence(lesson, bits, answers), answers, counted)


def inputs_at(trial: RunningTrial[Supervised], index: Integer[Array, " batch"]) -> Int8[Array, "batch inputs"]:
    """Inputs of the seed's pool, of which the last are held out."""
    key = trial.key("pool")
    return jax.vmap(lambda one: distinct_bits(key, one, trial.config.bits))(index)


def sequence(
    lesson: AskedRows, bits: Int8[Array, "batch inputs"], answers: Int8[Array, "batch rows"]
) -> Int8[Array, "batch length"]:
    """x, 0, and the answers of all rows but the last, or zeros where none is shown."""
    shown = answers[:, :-1] if lesson.shown else jnp.zeros_like(answers[:, :-1])
    return jnp.concatenate([bits, jnp.zeros((len(bits), 1), dtype=jnp.int8), shown], axis=1)


def own_answers(
    config: Supervised,
    lesson: AskedRows,
    model: Transformer,
    bits: Int8[Array, "batch inputs"],
    key: PRNGKeyArray | None,
) -> Int8[Array, "batch rows"]:
    """Row after row, what the decoder says: drawn at temperature 1, or (without a key) the likelier answer."""
    shape = (len(bits), len(lesson.live))
    level = 0.5 if key is None else jax.random.uniform(key, shape, dtype=jnp.float32)

    def say(_, answers):
        # the rows before this one have been said already, and say the same again
        logits = logits_of(config, model, sequence(lesson, bits, answers))
        return (jax.nn.sigmoid(logits[..., 1] - logits[..., 0]) > level).astype(jnp.int8)

    # what no row sees need not be said row by row
    passes = lesson.last + 1 if lesson.shown else 1
    return jax.lax.fori_loop(0, passes, say, jnp.zeros(shape, dtype=jnp.int8))


def logits_of(
    config: Supervised, model: Transformer, tokens: Int8[Array, "batch length"]
) -> Float[Array, "batch rows 2"]:
    """What every row says of 0 and 1."""
    return answer_logits(model, tokens, config.bits, tokens.shape[1] - config.bits)


# --- training ---------------------------------------------------------------------------------------------------------


def initial(trial: RunningTrial[Supervised]) -> Transformer:
    config = trial.config
    length = config.bits + config.padding
    return make_decoder(config.model, length, config.model.std, trial.key("model"))


def batch_loss(config: Supervised, model: Transformer, batch: Batch) -> Float[Array, ""]:
    """-log p(answer), averaged over what counts in the batch."""
    logits = logits_of(config, model, batch.tokens)
    wrong_over_right = jnp.where(batch.labels == 1, -1, 1) * (logits[..., 1] - logits[..., 0])
    return jnp.sum(batch.weights * jax.nn.softplus(wrong_over_right)) / jnp.maximum(jnp.sum(batch.weights), 1)


def look(trial: RunningTrial[Supervised], model: Transformer) -> dict[str, Float[Array, ""]]:
    """The share of held-out inputs whose answer is right at the end of a greedy roll-out."""
    config = trial.config
    lesson = lesson_of(trial)
    index = config.pool - 1 - jnp.arange(config.test_examples, dtype=jnp.int32)
    bits = inputs_at(trial, index)
    said = own_answers(config, lesson, model, bits, None)[:, lesson.last]
    return {"accuracy": share(said == lesson.answers(bits)[:, lesson.last])}
