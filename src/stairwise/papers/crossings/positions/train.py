"""Training of the LEGO decoder whose clauses are marked by random sign vectors.

A set holds a code for every place of the longest sentence, entries +-1/sqrt(5) as large as those of a learned table at
its start. Codes are data: a sentence brings its own, and nothing trains them. Where the decoder's own encoding is
asked for, LEGO's stage runs as it is.
"""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Integer, PRNGKeyArray

from stairwise.nn.encodings import random_signs
from stairwise.nn.positions import LearnedPositions, NoPositions
from stairwise.papers.crossings.positions.config import Told
from stairwise.papers.lego.decoder import Decoder
from stairwise.papers.lego.evaluate import clause_losses, places_of, rolled_out
from stairwise.papers.lego.task import SLOTS, Chain
from stairwise.papers.lego.train import (
    base_stage,
    draw_sentences,
    fresh_chains,
    in_size,
    make_decoder,
    make_task,
    optimizer,
)
from stairwise.train.gradient import Training, gradient_training, in_turn
from stairwise.train.keys import at, role
from stairwise.train.loop import RunningTrial
from stairwise.train.stage import Stage, every


class Batch(NamedTuple):
    """Sentences with their numbers, which say what marks their places."""

    sentences: Integer[Array, "batch clauses 5"]
    numbers: Integer[Array, " batch"]


def training(config: Told) -> list[Stage]:
    """The one stage of training at the task's length."""
    if not config.codes:
        return [base_stage(config.lego, "train").on(lambda config: config.lego)]
    steps = config.lego.steps
    return [
        gradient_training(
            model=lambda trial, key: make_model(config, role(key, "model")),
            batch=draw,
            loss=lambda trial, model, batch, key: batch_loss(trial, model, batch),
            optimizer=lambda own: optimizer(own.lego),
            steps=steps,
            measure=partial(measure, last=steps),
            measure_at=every(config.lego.measure_every, steps)[1:],
            keep=None,
        )
    ]


def make_model(config: Told, key: PRNGKeyArray) -> Any:
    """LEGO's decoder; where codes stand apart, the tokens' vectors leave their coordinates empty at the start."""
    model = make_decoder(config.lego, key)
    if not config.apart:
        return model
    width = config.lego.model.width
    tokens = jnp.arange(width, dtype=jnp.int32) < width - config.code_width
    return eqx.tree_at(lambda model: model.table, model, model.table * tokens)


# --- codes: functions of the seed and of counters ---------------------------------------------------------------------


def codes_of(trial: RunningTrial[Told], purpose: str, n: Integer[Array, ""]) -> Float[Array, "places width"]:
    """The codes of sentence n: of a new set, or of one of a few."""
    config = trial.config
    sets, own = config.sets, trial.key(f"codes of {purpose}")
    chosen = jax.random.randint(at(role(own, "which"), n), (), 0, jnp.maximum(sets, 1), dtype=jnp.int32)
    known = at(trial.key("codes"), chosen)
    # the counter of sentences may be traced as a float number of the config
    new = at(own, n // jnp.asarray(config.share, dtype=jnp.int32))
    signs = random_signs(jnp.where(sets > 0, known, new), config.lego.places, config.code_width)
    return jnp.pad(SLOTS**-0.5 * signs, ((0, 0), (config.lego.model.width - config.code_width, 0)))


def told(model: Decoder, codes: Float[Array, "places width"]) -> Decoder:
    """The decoder that marks places by these codes."""
    return eqx.tree_at(
        lambda model: model.positions, model, LearnedPositions(codes), is_leaf=lambda x: isinstance(x, NoPositions)
    )


def place_key(trial: RunningTrial[Told], purpose: str, n: Integer[Array, ""]) -> PRNGKeyArray | None:
    """The key of sentence n's places, where these are random."""
    return at(trial.key(f"places of {purpose}"), n) if trial.config.places == "any" else None


# --- one step and one look --------------------------------------------------------------------------------------------


def draw(trial: RunningTrial[Told], aux, model, key, n) -> Batch:
    """LEGO's sentences of step n, counted on."""
    lego = trial.config.lego
    sentences = draw_sentences(trial.with_config(lego), aux, model, key, n)
    return Batch(sentences, in_turn(lego.batch)(trial, key, n))


def batch_loss(trial: RunningTrial[Told], model: Decoder, batch: Batch) -> Float[Array, ""]:
    """LEGO's loss, each sentence with its own codes."""
    clauses = batch.sentences.shape[1]
    length = clauses // 2

    def one(sentence: Integer[Array, "clauses 5"], n: Integer[Array, ""]) -> Float[Array, ""]:
        places = places_of(place_key(trial, "training", n), length, trial.config.lego.longest)
        marked = told(model, codes_of(trial, "training", n))
        logits = marked(sentence[:-1], length, positions=places[: clauses - 1])
        return jnp.sum(clause_losses(logits, sentence[length + 1 :]))

    return jnp.mean(jax.vmap(one)(*batch))


def measure(trial: RunningTrial[Told], state: Training, key, t, *, last: int) -> dict[str, Array]:
    """The last batch's loss, and every test length on the same fresh sentences: LEGO's measurements."""
    lego = trial.config.lego
    task = make_task(lego.task, lego.longest)

    def one(n: Integer[Array, ""], chain: Chain):
        marked = told(state.model, codes_of(trial, "test", n))
        key = place_key(trial, "test", n)
        alone = jax.tree.map(lambda leaf: leaf[None], chain)
        return rolled_out(marked, task, alone, lego.test_lengths, None if key is None else key[None])

    def test(numbers: Integer[Array, " sentences"]) -> dict[str, Array]:
        chains, _ = fresh_chains(trial.with_config(lego), "test", lego.longest, numbers)
        tested = jax.vmap(one)(numbers, chains)
        return {
            f"{name} {length}": jnp.mean(values[:, place])
            for place, length in enumerate(lego.test_lengths)
            for name, values in tested._asdict().items()
        }

    return {"loss": state.loss, **in_size(lego, t, last, test)}
