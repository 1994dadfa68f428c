"""Training on parities until every held-out sequence is right, or the budget is spent.

A tick is the stretch between two evaluations: `look` sequences, then exact match on the validation set. The sample
complexity of a run is the number of sequences processed at the first evaluation that reaches the threshold; a run that
never does is censored at its budget. Secret, inputs and weights are functions of the seed and of counters alone, so
arms (rates, set sizes, options) share them, and what is looked at how often changes no draw.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeGuard

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int8, PRNGKeyArray

from stairwise.nn import parts
from stairwise.nn.transformer import Transformer
from stairwise.papers.parity_cot.config.training import Training as Config
from stairwise.papers.parity_cot.decoder import cross_entropy, logits_of, make_decoder
from stairwise.papers.parity_cot.evaluate import accuracy, head_facts, head_metrics, step_attention
from stairwise.papers.parity_cot.task import Layout, Problem, fresh_bits, pool_bits, problem_of, secret_of, wrong_steps
from stairwise.train.gradient import Reached, Training, epochs, gradient_training
from stairwise.train.keys import at
from stairwise.train.leaves import named_leaves, stored
from stairwise.train.loop import RunningTrial
from stairwise.train.own import MakeModel, ModelSizes, OwnModel, builder
from stairwise.train.schedules import descent, linear_decay
from stairwise.train.stage import Stage

Trial = RunningTrial[Config]
WEIGHTS = "weights {path}"  # what a decoder's arrays are stored as, where it is kept


class Batch(NamedTuple):
    """The sequences of a step, the problem that they are about, and the key of what is dropped."""

    tokens: Int8[Array, "batch tokens"]
    problem: Problem
    key: PRNGKeyArray


def training(config: Config) -> list[Stage]:
    """The one stage, of one tick for each evaluation."""
    return [stage(config, keep=False)]


def training_kept(config: Config) -> list[Stage]:
    """The same, and the decoder is stored."""
    return [stage(config, keep=True)]


def training_own(make_model: MakeModel, config: Config) -> list[Stage]:
    """The same of a model of the user's own, which has no attention to look at."""
    build = builder(make_model, ModelSizes(vocabulary=2, outputs=2, length=Layout.of(config.task).length))
    return [stage(config, keep=True, model=lambda trial, key: build(trial.key("model")))]


def stage(config: Config, keep: bool, model: Callable[..., Any] | None = None) -> Stage:
    points = doublings(config.looks, config.points)
    return gradient_training(
        **steps(model),
        steps=config.steps,
        steps_per_tick=config.look // config.batch,
        look=look,
        look_at_start=False,
        until=Reached(
            "exact match",
            threshold=lambda own: own.threshold,
            patience=lambda own: own.past,
            unit=config.look,
        ),
        measure=measure,
        measure_at=points,
        snapshot=snapshot,
        snapshot_at=points if config.watch and model is None else (),
        keep=partial(named_leaves, name=WEIGHTS) if keep else None,
        finish=finish,
    )


def steps(model: Callable[..., Any] | None = None) -> dict[str, Any]:
    """What the steps of `gradient_training` are made of."""
    return {
        "model": model or (lambda trial, key: decoder(trial.config, trial.key("model"))),
        "prepare": lambda trial, model, key: problem_of(trial.config.task, trial.seed),
        "batch": batch,
        "loss": lambda trial, model, batch, key: loss(model, batch),
        "optimizer": optimizer,
        "key_role": "dropout",
    }


def doublings(last: int, points: int) -> tuple[int, ...]:
    """Ticks that grow by a factor 2^(1/points), as far as whole numbers can.

    >>> doublings(20, 2)
    (0, 1, 2, 3, 4, 6, 8, 11, 16, 20)
    """
    found, power = {0, last}, 0
    while (tick := round(2 ** (power / points))) < last:
        found.add(tick)
        power += 1
    return tuple(sorted(found))


# --- data: functions of the seed and of counters ----------------------------------------------------------------------


def validation_tokens(trial: Trial, problem: Problem) -> Int8[Array, "sequences tokens"]:
    """The last inputs of the pool, whose first ones may be trained on."""
    config = trial.config
    key = trial.key("pool")
    index = config.pool - 1 - jnp.arange(config.test_examples, dtype=jnp.int32)
    return jax.vmap(lambda i: problem.tokens(pool_bits(key, config.task, i)))(index)


def training_tokens(trial: Trial, problem: Problem, number) -> Int8[Array, " tokens"]:
    """Sequence `number`: a fresh input, or that one of a set of `samples`."""
    config = trial.config
    fresh = fresh_bits(at(trial.key("fresh"), number), config.task)
    bits = jnp.where(config.samples == 0, fresh, pool_bits(trial.key("pool"), config.task, number))
    # noise belongs to the example: a repeated one is wrong in the same places every time
    wrong = wrong_steps(at(trial.key("noise"), number), problem, config.task.noise)
    return problem.tokens(bits, wrong)


def batch(trial: Trial, problem: Problem, model, key, n) -> Batch:
    """Fresh sequences, or those of a set that every epoch shuffles anew."""
    config = trial.config
    numbers = epochs(config.batch, config.samples)(trial, key, n)
    return Batch(jax.vmap(partial(training_tokens, trial, problem))(numbers), problem, key)


# --- training ---------------------------------------------------------------------------------------------------------


def decoder(config: Config, key: PRNGKeyArray) -> Transformer:
    return make_decoder(config.model, Layout.of(config.task).length, config.model.std, key)


stored_model = stored(lambda config: decoder(config, jax.random.key(0)), WEIGHTS)


def loss(model: Transformer | OwnModel, batch: Batch):
    """Cross-entropy over the supervised tokens."""
    tokens, problem, key = batch
    return cross_entropy(logits_of(model, problem.layout, tokens, key), problem.labels(tokens), problem.live)


def optimizer(config: Config) -> optax.GradientTransformation:
    """Adam on clipped gradients; the rate is constant, or falls linearly over the whole budget."""
    clip = optax.clip_by_global_norm(config.clip) if config.clip > 0 else optax.identity()
    rate = linear_decay(config.learning_rate, config.steps, config.decay)
    return optax.chain(clip, optax.scale_by_adam(), descent(rate))


def look(trial: Trial, model: Transformer | OwnModel) -> dict[str, Array]:
    """Whether every token of a held-out sequence is right."""
    problem = problem_of(trial.config.task, trial.seed)
    found = accuracy(model, problem, validation_tokens(trial, problem), trial.config.batch)
    return {"exact match": found["exact match"]}


# --- measurements -----------------------------------------------------------------------------------------------------


def measure(trial: Trial, state: Training, key, t) -> dict[str, Array]:
    """Accuracy and losses, the sample complexity (-1 while unknown), and facts about every head."""
    config = trial.config
    problem = state.aux
    tokens = validation_tokens(trial, problem)
    assert state.hit is not None
    found = accuracy(state.model, problem, tokens, config.batch) | {"hit": state.hit.tick}
    found["loss"] = jnp.where(t == 0, found["validation loss"], state.loss)  # there is no batch before the first
    if not attends(state.model, config):
        return found
    return found | head_metrics(state.model, problem, tokens[: config.attention])


def attends(model: Any, config: Config) -> TypeGuard[Transformer]:
    """Whether attention is measured: it is asked for, and the model has attention weights."""
    return config.attention > 0 and config.model.mixer == parts.SOFTMAX and isinstance(model, Transformer)


def snapshot(trial: Trial, state: Training) -> dict[str, Array]:
    """The mean attention of the supervised rows."""
    config = trial.config
    problem = state.aux
    tokens = validation_tokens(trial, problem)[: config.attention]
    return {"attention": head_facts(state.model, problem, tokens)["attention"]}


def finish(trial: Trial, state: Training, key) -> dict[str, Array]:
    """The secret in the order of the chain; attention of the supervised rows, averaged and of one sequence."""
    config = trial.config
    found = {"secret": secret_of(config.task, trial.key("secret"), config.task.size)}
    if attends(state.model, config):
        problem = state.aux
        first = validation_tokens(trial, problem)[0]
        found |= snapshot(trial, state)
        found["attention of one"] = step_attention(state.model, problem, first)
    return found
