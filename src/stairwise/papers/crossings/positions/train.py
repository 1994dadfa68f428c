"""Training of the LEGO decoder whose clauses are marked by random sign vectors.

A set holds a code for every place of the longest sentence, entries +-1/sqrt(5) as large as those of a learned table at
its start. Codes are data: a sentence brings its own, and nothing trains them. Where the decoder's own encoding is
asked for, LEGO's stage runs as it is.
"""

from functools import partial
from typing import Any

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
    ADAM,
    State,
    base_stage,
    draw_sentences,
    fresh_chains,
    fresh_memory,
    make_decoder,
    make_task,
    rate,
)
from stairwise.train.keys import at, role
from stairwise.train.loop import RunningTrial
from stairwise.train.stage import Stage, every


def training(config: Told) -> list[Stage]:
    """The one stage of training at the task's length."""
    if not config.codes:
        return [base_stage(config.lego, "train").on(lambda config: config.lego)]
    steps = config.lego.lessons.steps
    return [
        Stage(
            name="train",
            init=lambda trial, carry, key: fresh_memory(make_model(config, role(key, "model"))),
            tick=tick,
            max_ticks=steps,
            measure=measure,
            measure_at=every(config.lego.measure_every, steps)[1:],
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


def tick(trial: RunningTrial[Told], state: State, key, t) -> State:
    """Draw sentences and their codes, differentiate the batch loss, and step."""
    config = trial.config
    lessons = config.lego.lessons
    sentences = draw_sentences(config.lego, trial.seed, config.lego.lessons.pool, key, t)
    number = t * lessons.batch + jnp.arange(lessons.batch, dtype=jnp.int32)
    loss, gradient = jax.value_and_grad(partial(batch_loss, trial, sentences, number))(state.model)
    direction, memory = ADAM.update(gradient, state.optimizer)
    peak, final = config.lego.lessons.learning_rate, config.lego.lessons.final_rate
    step = rate(peak, final, lessons.warm_up, lessons.steps, t)
    model = jax.tree.map(lambda p, d: p - step * d, state.model, direction)
    return state._replace(model=model, optimizer=memory, loss=loss)


def batch_loss(
    trial: RunningTrial[Told],
    sentences: Integer[Array, "batch clauses 5"],
    number: Integer[Array, " batch"],
    model: Decoder,
) -> Float[Array, ""]:
    """LEGO's loss, each sentence with its own codes."""
    clauses = sentences.shape[1]
    length = clauses // 2

    def one(n: Integer[Array, ""], sentence: Integer[Array, "clauses 5"]) -> Float[Array, ""]:
        places = places_of(place_key(trial, "training", n), length, trial.config.lego.longest)
        marked = told(model, codes_of(trial, "training", n))
        logits = marked(sentence[:-1], length, positions=places[: clauses - 1])
        return jnp.sum(clause_losses(logits, sentence[length + 1 :]))

    return jnp.mean(jax.vmap(one)(number, sentences))


def measure(trial: RunningTrial[Told], state: State, key, t) -> dict[str, Array]:
    """The last batch's loss, and every test length on the same fresh sentences: LEGO's measurements."""
    lego = trial.config.lego
    chains, _ = fresh_chains(trial.with_config(lego), "test", lego.longest, lego.test_sequences)
    task = make_task(lego.task, lego.longest)

    def one(n: Integer[Array, ""], chain: Chain):
        marked = told(state.model, codes_of(trial, "test", n))
        key = place_key(trial, "test", n)
        alone = jax.tree.map(lambda leaf: leaf[None], chain)
        return rolled_out(marked, task, alone, lego.test_lengths, None if key is None else key[None])

    tested = jax.vmap(one)(jnp.arange(lego.test_sequences, dtype=jnp.int32), chains)
    metrics: dict[str, Array] = {"loss": state.loss}
    for place, length in enumerate(lego.test_lengths):
        metrics |= {f"{name} {length}": jnp.mean(values[:, place]) for name, values in tested._asdict().items()}
    return metrics
