"""Two ways to k hops: a decoder that writes hop^1, ..., hop^k of one letter, an encoder that answers at every position.

Sequences are fresh, the hidden permutations are the seed's, and both ways share them. The encoder is told which hop to
compute by its first token; with the curriculum the hop of a sequence is uniform among those that have come in.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Integer, Key, PRNGKeyArray

from stairwise.measure.accuracy import share
from stairwise.nn.transformer import Transformer
from stairwise.papers.composition.rules import cross_entropy
from stairwise.papers.composition.task import token_form
from stairwise.papers.composition.train import task_of
from stairwise.papers.crossings import chains
from stairwise.papers.crossings.depth.config import Solver
from stairwise.papers.crossings.learning import in_looks
from stairwise.train.gradient import fresh
from stairwise.train.keys import at, role
from stairwise.train.loop import RunningTrial
from stairwise.train.stage import Stage, every


def training(config: Solver) -> list[Stage]:
    """The one stage: until k hops are right, or the budget is spent."""
    chain = config.solver == "chain"
    return [
        in_looks(
            model=lambda trial, key: make_decoder(trial) if chain else make_encoder(trial),
            batch=fresh(lesson, config.batch, role="fresh") if chain else partial(draw, config),
            loss=lambda trial, model, lessons, key: (chains.loss if chain else depth_loss)(model, lessons),
            look=chain_look if chain else depth_look,
            steps=config.measure_every,
            looks=config.looks,
            threshold=config.threshold,
            measure_at=every(1, config.looks),
            stop=True,
        )
    ]


def held_out(trial: RunningTrial[Solver]) -> Key[Array, " count"]:
    """The keys of the sequences that a look is at."""
    return jax.vmap(partial(at, trial.key("held out")))(jnp.arange(trial.config.test_examples, dtype=jnp.int32))


# --- step by step -----------------------------------------------------------------------------------------------------


def make_decoder(trial: RunningTrial[Solver]) -> Any:
    config = trial.config
    key = trial.key("model")
    return chains.make_decoder(config.model, config.vocabulary, config.length, config.model.std, key)


def lesson(trial: RunningTrial[Solver], key: PRNGKeyArray) -> chains.Lesson:
    """Every step of a chain."""
    return chains.lesson(chains.composition(trial.config.task, trial)(key), True)


def chain_look(trial: RunningTrial[Solver], model: Any) -> dict[str, Float[Array, ""]]:
    """The share of held-out chains that a greedy roll-out gets right to the end."""
    return chains.accuracy(model, jax.vmap(partial(lesson, trial))(held_out(trial)))


# --- at once ----------------------------------------------------------------------------------------------------------


def make_encoder(trial: RunningTrial[Solver]) -> Any:
    """As deep as the construction asks for: a layer for each doubling and one for a hop."""
    config = trial.config
    sizes = config.model.arguments(config.length) | {"layers": config.layers, "causal": False}
    return Transformer(
        vocab=config.vocabulary,
        outputs=config.task.alphabet,
        std=config.model.std,
        key=trial.key("model"),
        **sizes,
    )


def asked(trial: RunningTrial[Solver], kind: Integer[Array, ""], key: PRNGKeyArray) -> chains.Lesson:
    """A sequence, and its hop number `kind` at every position."""
    maps = task_of(trial.config.task, trial)
    sequence = maps.sequence(role(key, "sequence"))
    answers = jnp.stack([maps.hop(sequence, hops).reshape(-1) for hops in trial.config.hops])
    return chains.Lesson(token_form(sequence, kind), answers[kind])


def released(config: Solver, number: Integer[Array, ""]) -> Integer[Array, ""]:
    """How many hops have come in at step `number`."""
    return jnp.minimum(1 + number // config.release, len(config.hops))


def draw(config: Solver, trial: RunningTrial[Solver], aux, model, key, n) -> chains.Lesson:
    """Fresh sequences, each asked for one of the hops that have come in, or all for the hardest."""

    def one(trial: RunningTrial[Solver], key: PRNGKeyArray) -> chains.Lesson:
        kind = jnp.int32(len(config.hops) - 1)
        if config.curriculum:
            kind = jax.random.randint(role(key, "hop"), (), 0, released(trial.config, n), dtype=jnp.int32)
        return asked(trial, kind, key)

    return fresh(one, config.batch, role="fresh")(trial, aux, model, key, n)


def depth_loss(model: Any, lessons: chains.Lesson) -> Float[Array, ""]:
    """-log p(label) at every position."""
    return jnp.mean(jax.vmap(lambda one: jnp.mean(cross_entropy(model(one.tokens)[1:], one.labels)))(lessons))


def depth_look(trial: RunningTrial[Solver], model: Any) -> dict[str, Float[Array, ""]]:
    """Accuracy of every hop at the first block's positions, where the chain starts too; that of k hops decides."""
    config, drawn = trial.config, held_out(trial)

    def of_kind(kind: Integer[Array, ""]) -> Float[Array, ""]:
        def one(key: PRNGKeyArray):
            lesson = asked(trial, kind, key)
            return (jnp.argmax(model(lesson.tokens)[1:], axis=-1) == lesson.labels)[: config.task.alphabet]

        return share(jax.vmap(one)(drawn))

    found = jax.lax.map(of_kind, jnp.arange(len(config.hops), dtype=jnp.int32))
    return {f"hops {hops}": found[place] for place, hops in enumerate(config.hops)} | {"accuracy": found[-1]}
