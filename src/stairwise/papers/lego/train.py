"""Training of the practical decoder: on fresh or finitely many sentences, and on its own labels at doubled lengths.

The loss is (6a): -log p summed over the L clauses and their five tokens, averaged over the batch. Sentence n of a pool
is a function of the seed and n, so that a finite data set needs no storage; without a pool, n never comes again.
"""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, Integer, PRNGKeyArray

from stairwise.lab.config import ConfigError
from stairwise.measure.accuracy import share
from stairwise.papers.lego.config.practical import Practical, SelfTraining, Shape
from stairwise.papers.lego.config.task import Task
from stairwise.papers.lego.decoder import Decoder
from stairwise.papers.lego.evaluate import (
    VALUE,
    clause_losses,
    cut,
    equivariance,
    mean_attention,
    places_of,
    rolled_out,
)
from stairwise.papers.lego.rollout import roll_out
from stairwise.papers.lego.task import Chain, Lego, lego
from stairwise.train.keys import at, role, role_key
from stairwise.train.loop import RunningTrial
from stairwise.train.stage import Stage, every

LABELLED_AT_ONCE = 512  # sentences that a stage labels side by side when it begins
ADAM = optax.scale_by_adam(b1=0.9, b2=0.999, eps=1e-8)


class State(NamedTuple):
    """The decoder, Adam's memory, the last batch's loss; where it labels itself, the labels and how many are right.

    labels       answers 1..L of every sentence of the pool, as the decoder rolled them out when the stage began
    label_exact  sentences all of whose values are right; label_step: values that are right
    """

    model: Any
    optimizer: Any
    loss: Float[Array, ""]
    labels: Int[Array, "pool length 5"] | None = None
    label_exact: Float[Array, ""] | None = None
    label_step: Float[Array, ""] | None = None


def training(config: Practical) -> list[Stage]:
    """The one stage of training at the task's length."""
    return [base_stage(config, "train")]


def self_training(config: SelfTraining) -> list[Stage]:
    """True labels at the first length, then one stage a length with labels by the decoder of the stage before."""
    first = base_stage(config.base, f"L={config.base.task.length}").on(lambda config: config.base)
    return [first, *(own_stage(config, length) for length in config.lengths)]


def base_stage(config: Practical, name: str) -> Stage:
    """Training on true labels; `config` is the structure, `trial.config` has the numbers."""

    def init(trial, carry, key) -> State:
        return fresh_memory(make_decoder(config, role(key, "model")))

    def tick(trial, state: State, key, t) -> State:
        lessons = trial.config.lessons
        sentences = draw_sentences(config, trial.seed, lessons.pool, key, t)
        step = rate(lessons.learning_rate, lessons.final_rate, lessons.warm_up, lessons.steps, t)
        return adam_step(config, state, key, sentences, step)

    return Stage(
        name=name,
        init=init,
        tick=tick,
        max_ticks=config.lessons.steps,
        measure=measure,
        measure_at=every(config.measure_every, config.lessons.steps)[1:],
        finish=finish,
    )


def draw_sentences(
    config: Practical,
    seed: Integer[Array, ""],
    pool: int | Integer[Array, ""],
    key: PRNGKeyArray,
    t: Integer[Array, ""],
) -> Integer[Array, "batch clauses 5"]:
    """The batch of step t: some of the pool's sentences, or (pool = 0) sentences that never come again."""
    batch, task = config.lessons.batch, make_task(config.task)
    drawn = jax.random.randint(key, (batch,), 0, jnp.maximum(pool, 1), dtype=jnp.int32)
    new = t * batch + jnp.arange(batch, dtype=jnp.int32)
    # a pool's sentences are not the first ones of the endless stream: arms with and without one share no data
    source = at(role_key(seed, "sentences"), jnp.minimum(pool, 1))
    chains = jax.vmap(partial(task.example, source))(jnp.where(pool > 0, drawn, new))
    return jax.vmap(task.clauses)(chains)


def own_stage(config: SelfTraining, length: int) -> Stage:
    """Train on a pool of sentences of one length that the decoder has labelled by greedy roll-out."""
    base = config.base
    task = make_task(base.task, length)

    def init(trial, carry, key) -> State:
        label = partial(own_labels, base, carry, task, pool_key(trial))
        numbered = jnp.arange(config.pool, dtype=jnp.int32)
        labels, right = jax.lax.map(label, numbered, batch_size=min(LABELLED_AT_ONCE, config.pool))
        exact, step = share(jnp.all(right, axis=1)), share(right)
        return fresh_memory(carry)._replace(labels=labels, label_exact=exact, label_step=step)

    def tick(trial, state: State, key, t) -> State:
        drawn = jax.random.randint(key, (config.batch,), 0, config.pool, dtype=jnp.int32)

        def sentence(n: Integer[Array, ""]) -> Integer[Array, "clauses 5"]:
            assert state.labels is not None
            return task.bootstrapped(task.example(pool_key(trial), n), state.labels[n])

        step = rate(trial.config.learning_rate, trial.config.final_rate, config.warm_up, config.steps, t)
        return adam_step(base, state, key, jax.vmap(sentence)(drawn), step)

    def on_base(trial: RunningTrial[SelfTraining]) -> RunningTrial[Practical]:
        return trial.with_config(trial.config.base)

    def pool_key(trial) -> PRNGKeyArray:
        return trial.key(f"sentences of length {length}")

    return Stage(
        name=f"L={length}",
        init=init,
        tick=tick,
        max_ticks=config.steps,
        measure=lambda trial, *more: measure(on_base(trial), *more),
        measure_at=(config.steps,),
        finish=lambda trial, *more: finish(on_base(trial), *more),
    )


def own_labels(config: Practical, model: Decoder, task: Lego, pool: PRNGKeyArray, n: Integer[Array, ""]):
    """The clauses that the decoder answers to sentence n of a pool, and which of their values are right."""
    chain = task.example(pool, n)
    places = places_of(place_key(config, at(pool, n)), task.length, config.longest)
    answers = task.answers(chain)
    made = roll_out(model, task.predicates(chain), answers[0], task.length, places)
    return made.astype(jnp.int16), made[:, VALUE] == answers[1:, VALUE]


# --- one step ---------------------------------------------------------------------------------------------------------


def adam_step(
    config: Practical,
    state: State,
    key: PRNGKeyArray,
    sentences: Integer[Array, "batch clauses 5"],
    rate: Float[Array, ""],
) -> State:
    """Differentiate the batch loss, and step."""
    loss, gradient = jax.value_and_grad(partial(batch_loss, config, key, sentences))(state.model)
    direction, memory = ADAM.update(gradient, state.optimizer)
    model = jax.tree.map(lambda p, d: p - rate * d, state.model, direction)
    return state._replace(model=model, optimizer=memory, loss=loss)


def batch_loss(
    config: Practical, key: PRNGKeyArray, sentences: Integer[Array, "batch clauses 5"], model: Decoder
) -> Float[Array, ""]:
    """(6a): the sum over a sentence's answers of -log p(clause), averaged over sentences."""
    clauses = sentences.shape[1]
    length = clauses // 2

    def one(n: Integer[Array, ""], sentence: Integer[Array, "clauses 5"]) -> Float[Array, ""]:
        places = places_of(place_key(config, at(key, n)), length, config.longest)
        logits = model(sentence[:-1], length, positions=places[: clauses - 1])
        return jnp.sum(clause_losses(logits, sentence[length + 1 :]))

    return jnp.mean(jax.vmap(one)(jnp.arange(len(sentences), dtype=jnp.int32), sentences))


def rate(
    peak: float | Float[Array, ""], final: float | Float[Array, ""], warm_up: int, steps: int, t: Integer[Array, ""]
) -> Float[Array, ""]:
    """Linear warm-up, then a cosine from the peak to `final` times the peak."""
    done = jnp.clip((t - warm_up) / max(1, steps - warm_up), 0, 1)
    cosine = final + (1 - final) * 0.5 * (1 + jnp.cos(jnp.pi * done))
    return peak * jnp.minimum((t + 1) / max(1, warm_up), cosine)


# --- what is built and what is measured -------------------------------------------------------------------------------


def make_task(task: Task, length: int | None = None) -> Lego:
    """The task, at its own length or at another."""
    return lego(task.group, task.variables, task.length if length is None else length)


def make_decoder(config: Practical, key: PRNGKeyArray) -> Decoder:
    shape: Shape = config.model
    return Decoder(
        vocabulary=config.task.vocabulary,
        width=shape.width,
        heads=shape.heads,
        hidden_multiple=shape.hidden_multiple,
        positions="learned" if shape.positions == "randomised" else shape.positions,
        max_clauses=config.places,
        norm=shape.norm,
        attention_residual=shape.attention_residual,
        mlp_residual=shape.mlp_residual,
        key=key,
    )


def place_key(config: Practical, key: PRNGKeyArray) -> PRNGKeyArray | None:
    """The key of a sentence's places, where these are random."""
    return role(key, "places") if config.model.positions == "randomised" else None


def fresh_memory(model: Any) -> State:
    return State(model, ADAM.init(model), jnp.float32(0))


def fresh_chains(trial: RunningTrial[Practical], purpose: str, length: int, count: int) -> tuple[Chain, Any]:
    """Chains that no training step sees, and a key for the places of each where these are random."""
    key = trial.key(purpose)
    keys = jax.vmap(partial(at, key))(jnp.arange(count, dtype=jnp.int32))
    chains = jax.vmap(make_task(trial.config.task, length).sample)(keys)
    return chains, jax.vmap(partial(place_key, trial.config))(keys)


def measure(trial: RunningTrial[Practical], state: State, key, t) -> dict[str, Array]:
    """The last batch's loss, every test length on the same fresh sentences, and how good the labels were."""
    config = trial.config
    chains, keys = fresh_chains(trial, "test", config.longest, config.test_sequences)
    task = make_task(config.task, config.longest)
    tested = rolled_out(state.model, task, chains, config.test_lengths, keys)
    metrics: dict[str, Array] = {"loss": state.loss}
    for place, length in enumerate(config.test_lengths):
        metrics |= {f"{name} {length}": values[place] for name, values in tested._asdict().items()}
    if config.map_lengths:
        short = make_task(config.task, min(config.map_lengths))
        change = equivariance(state.model, short, cut(chains, short.length), short.predicate_order(key))
        metrics |= {f"order {name}": value for name, value in change._asdict().items()}
    if state.label_exact is not None and state.label_step is not None:
        metrics |= {"label exact": state.label_exact, "label step": state.label_step}
    return metrics


def finish(trial: RunningTrial[Practical], state: State, key) -> tuple[Any, dict[str, Array]]:
    """The decoder goes on; kept are its mean attention at some lengths and, if asked for, its weights."""
    config = trial.config
    arrays = weights(state.model) if config.keep_weights else {}
    if not config.map_lengths:
        return state.model, arrays
    chains, keys = fresh_chains(trial, "attention", max(config.map_lengths), config.map_sequences)
    for length in config.map_lengths:
        task = make_task(config.task, length)
        order = task.predicate_order(key)
        places = None if keys is None else jax.vmap(lambda key, n=length: places_of(key, n, config.longest))(keys)
        look = partial(mean_attention, state.model, task, cut(chains, length), places=places)
        arrays |= {f"attention {length}": look(), f"attention permuted {length}": look(order), f"order {length}": order}
    return state.model, arrays


def weights(model: Decoder) -> dict[str, Array]:
    """What is stored of a trained decoder."""
    return {f"weights {number:02d}": leaf for number, leaf in enumerate(jax.tree.leaves(model))}


def stored_model(config: Practical, arrays: dict[str, Any]) -> Decoder:
    """The trained decoder of a stored trial."""
    kept = sorted(name for name in arrays if "weights " in name)
    if not kept:
        raise ConfigError("keep_weights=false must be true for a trial whose decoder is asked for")
    skeleton = eqx.filter_eval_shape(make_decoder, config, jax.random.key(0))
    return jax.tree.unflatten(jax.tree.structure(skeleton), [jnp.asarray(arrays[name]) for name in kept])
