"""Training of the practical decoder: on fresh or finitely many sentences, and on its own labels at doubled lengths.

The loss is (6a): -log p summed over the L clauses and their five tokens, averaged over the batch. Sentence n of a pool
is a function of the seed and n, so that a finite data set needs no storage; without a pool, n never comes again.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeGuard

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, Integer, Key, PRNGKeyArray

from stairwise.config import ConfigError
from stairwise.measure.accuracy import share
from stairwise.nn import parts
from stairwise.papers.lego.config.practical import Practical, SelfTraining, Shape
from stairwise.papers.lego.config.task import Task
from stairwise.papers.lego.decoder import Decoder
from stairwise.papers.lego.evaluate import (
    VALUE,
    Tested,
    clause_losses,
    cut,
    equivariance,
    mean_attention,
    places_of,
    rolled_out,
    told_variables,
)
from stairwise.papers.lego.own import OwnDecoder
from stairwise.papers.lego.rollout import roll_out
from stairwise.papers.lego.stack import ClauseModel, Stack
from stairwise.papers.lego.task import SLOTS, Chain, Lego, lego
from stairwise.train.gradient import Training, gradient_training, numbered, with_replacement
from stairwise.train.keys import at, role
from stairwise.train.leaves import named_leaves, rebuilt
from stairwise.train.loop import RunningTrial
from stairwise.train.own import MakeModel, ModelSizes, builder
from stairwise.train.schedules import warm_up_cosine
from stairwise.train.stage import Stage, every

LABELLED_AT_ONCE = 512  # sentences that a stage labels side by side when it begins
WEIGHTS = "weights {number:02d}"  # what a trained decoder's arrays are stored as


class Batch(NamedTuple):
    """Sentences, and a key for the places of each where these are random."""

    sentences: Integer[Array, "batch clauses 5"]
    keys: Key[Array, " batch"] | None


class Labels(NamedTuple):
    """Answers 1..L of every sentence of a pool, as the decoder rolled them out when the stage began.

    exact   share of the sentences all of whose values are right; step: share of the values that are right
    """

    answers: Int[Array, "pool length 5"]
    exact: Float[Array, ""]
    step: Float[Array, ""]


def training(config: Practical) -> list[Stage]:
    """The one stage of training at the task's length."""
    return [base_stage(config, "train")]


def training_own(make_model: MakeModel, config: Practical) -> list[Stage]:
    """The same of a model of the user's own; a position is a clause, and there is no attention to look at."""
    vocabulary, length = config.task.vocabulary, 2 * config.longest + 1
    build = builder(make_model, ModelSizes(vocabulary, vocabulary, length, SLOTS))
    return [base_stage(config, "train", model=lambda trial, key: OwnDecoder(build(role(key, "model"))))]


def self_training(config: SelfTraining) -> list[Stage]:
    """True labels at the first length, then one stage per length with labels by the decoder of the stage before."""
    first = base_stage(config.base, f"L={config.base.task.length}").on(lambda config: config.base)
    return [first, *(own_stage(config, length) for length in config.lengths)]


def base_stage(config: Practical, name: str, model: Callable[..., Any] | None = None) -> Stage:
    """Training on true labels; `config` is the structure, `trial.config` has the numbers."""
    return gradient_training(
        name=name,
        model=model or (lambda trial, key: make_decoder(config, role(key, "model"))),
        batch=with_places(config, draw_sentences),
        loss=lambda trial, model, batch, key: batch_loss(config, model, batch),
        optimizer=optimizer,
        steps=config.steps,
        measure=partial(measure, last=config.steps),
        measure_at=every(config.measure_every, config.steps)[1:],
        keep=partial(named_leaves, name=WEIGHTS) if config.keep_weights else None,
        finish=attention_maps,
    )


def optimizer(config: Practical | SelfTraining) -> optax.GradientTransformation:
    """Adam; linear warm-up, then a cosine from the peak to `final_rate` times the peak."""
    return optax.adam(warm_up_cosine(config.learning_rate, config.warm_up, config.steps, config.final_rate))


def own_stage(config: SelfTraining, length: int) -> Stage:
    """Train on a pool of sentences of one length that the decoder has labelled by greedy roll-out."""
    base = config.base
    task = make_task(base.task, length)

    def pool_key(trial) -> PRNGKeyArray:
        return trial.key(f"sentences of length {length}")

    def on_base(trial: RunningTrial[SelfTraining]) -> RunningTrial[Practical]:
        return trial.with_config(trial.config.base)

    def label(trial, model: ClauseModel, key) -> Labels:
        one = partial(own_labels, base, model, task, pool_key(trial))
        answers, right = in_blocks(one, config.samples)
        return Labels(answers, share(jnp.all(right, axis=1)), share(right))

    def sentences(trial, labels: Labels, model, key, n):
        def sentence(trial, i: Integer[Array, ""]) -> Integer[Array, "clauses 5"]:
            return task.bootstrapped(task.example(pool_key(trial), i), labels.answers[i])

        return numbered(sentence, with_replacement(config.batch, config.samples))(trial, labels, model, key, n)

    return gradient_training(
        name=f"L={length}",
        model=lambda trial, key: make_decoder(base, role(key, "model")),
        prepare=label,
        batch=with_places(base, sentences),
        loss=lambda trial, model, batch, key: batch_loss(base, model, batch),
        optimizer=optimizer,
        steps=config.steps,
        measure=lambda trial, *more: measure(on_base(trial), *more),
        measure_at=(config.steps,),
        keep=partial(named_leaves, name=WEIGHTS) if base.keep_weights else None,
        finish=lambda trial, *more: attention_maps(on_base(trial), *more),
    )


# --- sentences --------------------------------------------------------------------------------------------------------


def draw_sentences(trial: RunningTrial[Practical], aux, model, key, n) -> Integer[Array, "batch clauses 5"]:
    """The batch of step n: some of the pool's sentences, or (samples = 0) sentences that never come again."""
    config = trial.config
    task = make_task(config.task)
    # a pool's sentences are not the first ones of the endless stream: arms with and without one share no data
    source = at(trial.key("sentences"), jnp.minimum(config.samples, 1))
    drawn = with_replacement(config.batch, config.samples)(trial, key, n)
    return jax.vmap(lambda i: task.clauses(task.example(source, i)))(drawn)


def with_places(config: Practical, sentences: Callable[..., Integer[Array, "batch clauses 5"]]) -> Callable[..., Batch]:
    """Batches of sentences, each with the key of its places where these are random."""

    def batch(trial, aux, model, key, n) -> Batch:
        drawn = sentences(trial, aux, model, key, n)
        keys = jax.vmap(lambda place: place_key(config, at(key, place)))(jnp.arange(len(drawn), dtype=jnp.int32))
        return Batch(drawn, keys)

    return batch


def own_labels(config: Practical, model: ClauseModel, task: Lego, pool: PRNGKeyArray, n: Integer[Array, ""]):
    """The clauses that the decoder answers to sentence n of a pool, and which of their values are right."""
    chain = task.example(pool, n)
    places = places_of(place_key(config, at(pool, n)), task.length, config.longest)
    answers = task.answers(chain)
    made = roll_out(model, task.predicates(chain), answers[0], task.length, places)
    return made.astype(jnp.int16), made[:, VALUE] == answers[1:, VALUE]


def in_blocks(one: Callable[[Integer[Array, ""]], Any], samples: int) -> Any:
    """one(n) for every n of a pool, some at a time."""
    return jax.lax.map(one, jnp.arange(samples, dtype=jnp.int32), batch_size=min(LABELLED_AT_ONCE, samples))


def batch_loss(config: Practical, model: ClauseModel | OwnDecoder, batch: Batch) -> Float[Array, ""]:
    """(6a): the sum over a sentence's answers of -log p(clause), averaged over sentences."""
    clauses = batch.sentences.shape[1]
    length = clauses // 2

    def one(sentence: Integer[Array, "clauses 5"], key: PRNGKeyArray | None) -> Float[Array, ""]:
        places = places_of(key, length, config.longest)
        logits = model(sentence[:-1], length, positions=places[: clauses - 1])
        return jnp.sum(clause_losses(logits, sentence[length + 1 :]))

    return jnp.mean(jax.vmap(one)(*batch))


# --- what is built and what is measured -------------------------------------------------------------------------------


def make_task(task: Task, length: int | None = None) -> Lego:
    """The task, at its own length or at another."""
    return lego(task.group, task.variables, task.length if length is None else length)


def make_decoder(config: Practical, key: PRNGKeyArray) -> ClauseModel:
    """The paper's decoder of one layer, or the standard one where other parts are asked for."""
    shape: Shape = config.model
    sizes: dict[str, Any] = {
        "vocabulary": config.task.vocabulary,
        "width": shape.width,
        "heads": shape.heads,
        "hidden_multiple": shape.hidden_multiple,
        "positions": "learned" if shape.positions == "randomised" else shape.positions,
        "attention_residual": shape.attention_residual,
        "mlp_residual": shape.mlp_residual,
    }
    if shape.standard:
        return Decoder(max_clauses=config.places, norm=shape.norm, key=key, **sizes)
    norm = "rms" if shape.norm else "none"
    chosen = parts.chosen(shape)
    return Stack(max_length=config.places, norm=norm, layers=shape.layers, key=key, **chosen, **sizes)


def place_key(config: Practical, key: PRNGKeyArray) -> PRNGKeyArray | None:
    """The key of a sentence's places, where these are random."""
    return role(key, "places") if config.model.positions == "randomised" else None


def fresh_chains(
    trial: RunningTrial[Practical], purpose: str, length: int, numbers: Integer[Array, " chains"]
) -> tuple[Chain, Any]:
    """Chains that no training step sees, by number, and a key for the places of each where these are random."""
    keys = jax.vmap(partial(at, trial.key(purpose)))(numbers)
    chains = jax.vmap(make_task(trial.config.task, length).sample)(keys)
    return chains, jax.vmap(partial(place_key, trial.config))(keys)


def in_size(config: Practical, t, last: int | None, test: Callable[[Integer[Array, " sentences"]], Any]) -> Any:
    """test(n) over all fresh sentences n, and before step `last`, where one is given, over the first few of them.

    All of them are then tested in blocks of as many, so that there is one program to compile.
    """
    few = config.block
    if few == config.test_examples or last is None:
        return test(jnp.arange(config.test_examples, dtype=jnp.int32))
    first = jnp.arange(few, dtype=jnp.int32)
    blocks = jnp.where(t >= last, config.test_examples // few, 1)

    def add(block: Integer[Array, ""], sums: Any) -> Any:
        return jax.tree.map(jnp.add, sums, test(block * few + first))

    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(test, first))
    return jax.tree.map(lambda leaf: leaf / blocks, jax.lax.fori_loop(0, blocks, add, nothing))


def measure(trial: RunningTrial[Practical], state: Training, key, t, *, last: int | None = None) -> dict[str, Array]:
    """The last batch's loss, every test length on the same fresh sentences, and how good the labels were.

    `last` is the step after which a test has all of its sentences; there may be fewer before.
    """
    config = trial.config
    task = make_task(config.task, config.longest)

    every_test = jnp.arange(config.test_examples, dtype=jnp.int32)
    chains, keys = fresh_chains(trial, "test", config.longest, every_test)  # once: drawing takes long to compile

    def test(numbers: Integer[Array, " sentences"]) -> Tested:
        chosen, places = jax.tree.map(lambda leaf: leaf[numbers], (chains, keys))
        return rolled_out(state.model, task, chosen, config.test_lengths, places)

    tested = in_size(config, t, last, test)
    metrics: dict[str, Array] = {"loss": state.loss}
    for place, length in enumerate(config.test_lengths):
        metrics |= {f"{name} {length}": values[place] for name, values in tested._asdict().items()}
    if config.tell_variables and not isinstance(state.model, OwnDecoder):
        told = told_variables(state.model, task, chains, config.test_lengths, keys)
        metrics |= {f"told {length}": told[place] for place, length in enumerate(config.test_lengths)}
    if config.map_lengths and attends(state.model, config):
        short = make_task(config.task, min(config.map_lengths))
        change = equivariance(state.model, short, cut(chains, short.length), short.predicate_order(key))
        metrics |= {f"order {name}": value for name, value in change._asdict().items()}
    if state.aux is not None:
        metrics |= {"label exact": state.aux.exact, "label step": state.aux.step}
    return metrics


def attends(model: ClauseModel | OwnDecoder, config: Practical) -> TypeGuard[ClauseModel]:
    """Whether it has attention weights that can be looked at."""
    return config.model.mixer == parts.SOFTMAX and not isinstance(model, OwnDecoder)


def attention_maps(trial: RunningTrial[Practical], state: Training, key) -> dict[str, Array]:
    """The mean attention at some lengths, with the predicates in order and in another."""
    config = trial.config
    if not config.map_lengths or not attends(state.model, config):
        return {}
    arrays = {}
    sentences = jnp.arange(config.map_sequences, dtype=jnp.int32)
    chains, keys = fresh_chains(trial, "attention", max(config.map_lengths), sentences)
    for length in config.map_lengths:
        task = make_task(config.task, length)
        order = task.predicate_order(key)
        places = None if keys is None else jax.vmap(lambda key, n=length: places_of(key, n, config.longest))(keys)
        look = partial(mean_attention, state.model, task, cut(chains, length), places=places)
        arrays |= {f"attention {length}": look(), f"attention permuted {length}": look(order), f"order {length}": order}
    return arrays


def stored_model(config: Practical, arrays: dict[str, Any]) -> ClauseModel:
    """The trained decoder of a stored trial."""
    if not config.keep_weights:
        raise ConfigError("keep_weights=false must be true for a trial whose decoder is asked for")
    return rebuilt(lambda: make_decoder(config, jax.random.key(0)), arrays, WEIGHTS)
