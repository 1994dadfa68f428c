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
from stairwise.papers.composition.encoder import Lesson
from stairwise.papers.composition.rules import cross_entropy
from stairwise.papers.composition.task import token_form
from stairwise.papers.composition.train import task_of
from stairwise.papers.crossings import chains
from stairwise.papers.crossings.depth.config import Solver
from stairwise.papers.crossings.learning import in_looks
from stairwise.train.keys import at, role
from stairwise.train.loop import RunningTrial
from stairwise.train.stage import Stage, every


def training(config: Solver) -> list[Stage]:
    """The one stage: until k hops are right, or the budget is spent."""
    chain = config.solver == "chain"
    return [
        in_looks(
            init=make_decoder if chain else make_encoder,
            loss=chain_loss if chain else depth_loss,
            look=chain_look if chain else depth_look,
            steps=config.look,
            looks=config.looks,
            threshold=config.threshold,
            measure_at=every(1, config.looks),
            stop=True,
        )
    ]


def keys(trial, purpose: str, first: Integer[Array, ""] | int, count: int) -> Key[Array, " count"]:
    """The keys of sequences by their numbers."""
    numbered = first + jnp.arange(count, dtype=jnp.int32)
    return jax.vmap(partial(at, trial.key(purpose)))(numbered)


# --- step by step -----------------------------------------------------------------------------------------------------


def make_decoder(trial: RunningTrial[Solver]) -> Any:
    config = trial.config
    key = trial.key("model")
    return chains.make_decoder(config.decoder, config.vocabulary, config.length, config.decoder.std, key)


def lessons(trial: RunningTrial[Solver], drawn: Key[Array, " count"]) -> chains.Lesson:
    draw = chains.composition(trial.config.task, trial)
    return jax.vmap(lambda key: chains.lesson(draw(key), True))(drawn)


def chain_loss(trial: RunningTrial[Solver], model: Any, number: Integer[Array, ""]) -> Float[Array, ""]:
    """The loss of every step of fresh chains."""
    return chains.loss(model, lessons(trial, keys(trial, "fresh", number * trial.config.batch, trial.config.batch)))


def chain_look(trial: RunningTrial[Solver], model: Any) -> dict[str, Float[Array, ""]]:
    """The share of held-out chains that a greedy roll-out gets right to the end."""
    return chains.accuracy(model, lessons(trial, keys(trial, "held out", 0, trial.config.validation)))


# --- at once ----------------------------------------------------------------------------------------------------------


def make_encoder(trial: RunningTrial[Solver]) -> Any:
    """As deep as the construction asks for: a layer for each doubling and one for a hop."""
    config = trial.config
    return Transformer(
        vocab=config.vocabulary,
        width=config.decoder.width,
        layers=config.layers,
        heads=config.decoder.heads,
        causal=False,
        positions="learned",
        max_length=config.length,
        outputs=config.task.alphabet,
        std=config.decoder.std,
        compute_dtype=config.decoder.compute,
        key=trial.key("model"),
    )


def asked(trial: RunningTrial[Solver], kind: Integer[Array, ""], key: PRNGKeyArray) -> Lesson:
    """A sequence, and its hop number `kind` at every position."""
    maps = task_of(trial.config.task, trial)
    sequence = maps.sequence(role(key, "sequence"))
    answers = jnp.stack([maps.hop(sequence, hops).reshape(-1) for hops in trial.config.hops])
    return Lesson(token_form(sequence, kind), answers[kind])


def released(config: Solver, number: Integer[Array, ""]) -> Integer[Array, ""]:
    """How many hops have come in at step `number`."""
    return jnp.minimum(1 + number // config.release, len(config.hops))


def depth_loss(trial: RunningTrial[Solver], model: Any, number: Integer[Array, ""]) -> Float[Array, ""]:
    """The loss at every position of fresh sequences, on the hops that have come in or on the hardest."""
    config = trial.config
    drawn = keys(trial, "fresh", number * config.batch, config.batch)
    last = jnp.int32(len(config.hops) - 1)

    def one(key: PRNGKeyArray) -> Float[Array, ""]:
        kind = last
        if config.curriculum:
            kind = jax.random.randint(role(key, "hop"), (), 0, released(config, number), dtype=jnp.int32)
        lesson = asked(trial, kind, key)
        return jnp.mean(cross_entropy(model(lesson.tokens)[1:], lesson.labels))

    return jnp.mean(jax.vmap(one)(drawn))


def depth_look(trial: RunningTrial[Solver], model: Any) -> dict[str, Float[Array, ""]]:
    """Accuracy of every hop at the first block's positions, where the chain starts too; that of k hops decides."""
    config = trial.config
    drawn = keys(trial, "held out", 0, config.validation)

    def of_kind(kind: Integer[Array, ""]) -> Float[Array, ""]:
        def one(key: PRNGKeyArray):
            lesson = asked(trial, kind, key)
            return (jnp.argmax(model(lesson.tokens)[1:], axis=-1) == lesson.labels)[: config.task.alphabet]

        return share(jax.vmap(one)(drawn))

    found = jax.lax.map(of_kind, jnp.arange(len(config.hops), dtype=jnp.int32))
    return {f"hops {hops}": found[place] for place, hops in enumerate(config.hops)} | {"accuracy": found[-1]}
