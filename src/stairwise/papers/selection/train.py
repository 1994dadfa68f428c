"""Online training of (W, V): fresh tokens, subsets and encodings every step, one SGD or Adam step on the batch loss.

The arms differ in one number, the pool of encodings K: the set of encodings of step t is draw(key, index), with
index = t (stochastic), 0 (fixed), or uniform in 0..K-1. Everything is drawn on the device from keys, so all arms share
one compiled program and, seed by seed, the same data.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray

from stairwise.nn.encodings import EncodingDraw, near_orthogonal, subset_encoding
from stairwise.papers.selection.config import Online
from stairwise.papers.selection.model import SelectionAttention, ideal
from stairwise.papers.selection.similarity import cosine
from stairwise.papers.selection.task import Selection, SparseSelection, draw_tokens, uniform_subset
from stairwise.train import schedules
from stairwise.train.gradient import Training, gradient_training
from stairwise.train.keys import at, role
from stairwise.train.leaves import named_leaves
from stairwise.train.loop import RunningTrial
from stairwise.train.stage import Stage, every

FRESH_SETS = 20  # Corollary E.16: how many new fixed encodings the trained weights are tried on


class Batch(NamedTuple):
    """What a step sees: the keys of its examples, its sets of encodings, and which of them are above the threshold."""

    examples: Key[Array, " batch"]
    encodings: Float[Array, "sets length encoding"]
    above: Bool[Array, " sets"]


def online(config: Online) -> list[Stage]:
    """The one stage of online training."""
    counts = config.encoding.scheme != "none"
    return [
        gradient_training(
            model=start,
            batch=batch,
            loss=batch_loss,
            optimizer=optimizer,
            steps=config.steps,
            prepare=(lambda trial, parameters, key: jnp.int32(0)) if counts else None,
            follow=(lambda trial, above, batch: above + jnp.sum(batch.above, dtype=jnp.int32)) if counts else None,
            measure=measure,
            measure_at=every(config.measure_every, config.steps),
            snapshot=lambda trial, state: named_leaves(assemble(state.model)),
            snapshot_at=tuple(step for step in config.snapshots if step <= config.steps),
            keep=lambda parameters: named_leaves(assemble(parameters)),
            finish=fresh_losses,
            train_only=None if config.train_value else lambda parameters: {name: name != "V" for name in parameters},
            tuned=True,
        )
    ]


# --- parameters -------------------------------------------------------------------------------------------------------


def assemble(parameters: dict[str, Array]) -> SelectionAttention:
    """The model that the parameters mean: W itself, or W = K^T Q."""
    W = parameters["W"] if "W" in parameters else parameters["K"].T @ parameters["Q"]
    return SelectionAttention(W=W, V=parameters["V"])


def start(trial: RunningTrial[Online], key: PRNGKeyArray) -> dict[str, Array]:
    """Zero, or Gaussian entries of variance 1/(d+d_e); a factorised W needs a random start (zero is a saddle)."""
    config = trial.config
    width, joint = config.task.width, config.task.width + config.encoding.width
    std = jnp.where(config.start_std > 0, config.start_std, joint**-0.5)
    std = jnp.where(config.start == "random", std, 0.0).astype(jnp.float32)

    def draw(name: str, rows: int, std) -> Array:
        return std * jax.random.normal(role(key, name), (rows, joint), dtype=jnp.float32)

    if config.factorised:
        factor_std = jnp.where(config.start_std > 0, config.start_std, 0.1).astype(jnp.float32)
        parameters = {name: draw(name, config.factorised, factor_std) for name in ("K", "Q")}
    else:
        parameters = {"W": draw("W", joint, std)}
    parameters["V"] = draw("V", width, std) if config.train_value else jnp.eye(width, joint, dtype=jnp.float32)
    return parameters


def optimizer(config: Online) -> optax.GradientTransformation:
    """Adam or SGD; the learning rate drops once."""
    rate = schedules.drop(config.learning_rate, config.drop_at, config.drop_by)
    return optax.adam(rate) if config.optimizer == "adam" else optax.sgd(rate)


# --- one step ---------------------------------------------------------------------------------------------------------


def batch(trial: RunningTrial[Online], aux, parameters, key, n) -> Batch:
    """The examples and the encodings of step n."""
    config = trial.config
    index = encoding_index(trial, role(key, "pool"), n)
    drawn = jax.vmap(partial(draw_set, trial, config.task.length))(
        index * config.encoding.per_step + jnp.arange(config.encoding.per_step, dtype=jnp.int32)
    )
    keys = jax.vmap(partial(example_key, trial, role(key, "data")))(jnp.arange(config.batch, dtype=jnp.int32))
    return Batch(keys, drawn.encodings, drawn.above)


def encoding_index(trial, key, t):
    """Which set of encodings step t uses: t itself, or one of a pool."""
    pool = trial.config.encoding.pool
    chosen = jax.random.randint(key, (), 0, jnp.maximum(pool, 1), dtype=jnp.int32)
    return jnp.where(pool == 0, t, chosen)


def encoding_set(trial: RunningTrial[Online], length: int, index):
    """Set number `index` of a trial's encodings; sets of different lengths are prefixes of each other."""
    return draw_set(trial, length, index).encodings


def draw_set(trial: RunningTrial[Online], length: int, index) -> EncodingDraw:
    encoding = trial.config.encoding
    key = at(trial.key("encodings"), index)
    return near_orthogonal(key, length, encoding.width, encoding.threshold, encoding.scheme)


def example_key(trial, key, b):
    """The key of the batch's b-th example: a fresh one, or that of a random member of the finite training set."""
    member = jax.random.randint(at(key, b), (), 0, jnp.maximum(trial.config.samples, 1), dtype=jnp.int32)
    fixed = at(trial.key("training set"), member)
    return jnp.where(trial.config.samples > 0, fixed, at(key, b))


def batch_loss(trial: RunningTrial[Online], parameters, batch: Batch, key) -> Float[Array, ""]:
    """Mean of 1/2 ||target - f||^2; over several sets of encodings either the losses or the outputs are averaged."""
    config = trial.config
    model = assemble(parameters)
    sizes = config.task
    task = SparseSelection(sizes.length, sizes.sparsity, sizes.width, config.tokens)

    def residuals(key, encodings):
        example = task.sample(key)
        query = query_vector(config, role(key, "query"), encodings, example)
        output = model(example.tokens, encodings, query, None, config.beta, config.attend_query)
        return task.answer(example) - output

    over_batch = jax.vmap(residuals, in_axes=(0, None))
    if config.encoding.per_step == 1:
        errors = over_batch(batch.examples, batch.encodings[0])[None]
    else:
        errors = jax.lax.map(partial(over_batch, batch.examples), batch.encodings)
    if config.encoding.average == "output":
        errors = jnp.mean(errors, axis=0, keepdims=True)
    return 0.5 * jnp.mean(jnp.sum(errors**2, axis=-1))


def query_vector(config: Online, key, encodings, example: Selection, used=None) -> Float[Array, " joint"]:
    """z_query = [x_query; e_y]."""
    token = jnp.zeros((config.task.width,), dtype=jnp.float32)
    if config.query_token == "gaussian":
        token = jax.random.normal(key, token.shape, dtype=jnp.float32)
    return jnp.concatenate([token, subset_encoding(encodings, example.subset, used)])


# --- measurements -----------------------------------------------------------------------------------------------------


def test_tasks(config: Online) -> dict[str, tuple[int, int]]:
    """The validation tasks: name -> (length, sparsity)."""
    sizes = config.task
    tasks = {"in": (sizes.length, sizes.sparsity)}
    tasks |= {f"length={length}": (length, sizes.sparsity) for length in config.test_lengths}
    tasks |= {f"sparsity={sparsity}": (sizes.length, sparsity) for sparsity in config.test_sparsities}
    return tasks


def measure(trial: RunningTrial[Online], state: Training, key, t) -> dict[str, Array]:
    """Validation losses (halved), cosines to the ideal directions, and the two order parameters alpha and C."""
    config = trial.config
    model, best = assemble(state.model), ideal(config.task.width, config.encoding.width)
    losses = validation_losses(trial, model, fresh_index(key))
    metrics = {"train_loss": state.loss} | losses
    metrics["cosine W"] = cosine(model.W, best.W)
    metrics["cosine V"] = cosine(model.V, best.V)
    metrics["alpha"] = jnp.trace(model.V[:, : config.task.width]) / config.task.width
    metrics["C"] = jnp.trace(model.W[config.task.width :, config.task.width :]) / config.encoding.width
    return metrics if state.aux is None else metrics | {"sets above threshold": state.aux}


def fresh_index(key, number: int | Int[Array, ""] = 0):
    """The index of an encoding set that training, which counts from 0, never gets to."""
    return jax.random.randint(at(key, number), (), 2**30, 2**31 - 64, dtype=jnp.int32)


def validation_losses(trial: RunningTrial[Online], model: SelectionAttention, fresh) -> dict[str, Array]:
    """The loss on every validation task, all padded to the largest so that one compiled body serves them.

    A fixed encoding is tested on its own longer prefix, every other arm on fresh encodings; "fresh" is the training
    task on a fresh set for every arm.
    """
    tasks = test_tasks(trial.config)
    names = [*tasks, "fresh"]
    sizes = [*tasks.values(), tasks["in"]]
    fixed = trial.config.encoding.pool == 1
    indices = jnp.stack([jnp.where(fixed & (name != "fresh"), 0, fresh + k) for k, name in enumerate(names)])
    sets = [0 if name == "fresh" else k for k, name in enumerate(names)]
    lengths, sparsities = (jnp.array(column, dtype=jnp.int32) for column in zip(*sizes, strict=True))
    longest, largest = max(length for length, _ in sizes), max(sparsity for _, sparsity in sizes)

    def one(task):
        index, number, length, sparsity = task
        encodings = encoding_set(trial, longest, index)
        key = at(trial.key("test"), number)
        return padded_loss(trial, model, encodings, key, length, sparsity, largest)

    losses = jax.lax.map(one, (indices, jnp.array(sets, dtype=jnp.int32), lengths, sparsities))
    return {f"loss {name}": losses[k] for k, name in enumerate(names)}


def padded_loss(trial: RunningTrial[Online], model, encodings, key, length, sparsity, largest: int):
    """Mean loss over a validation set at a traced length and sparsity; positions beyond them are masked."""
    config = trial.config
    positions = jnp.arange(len(encodings), dtype=jnp.int32)
    used = jnp.arange(largest, dtype=jnp.int32) < sparsity

    def one(key):
        tokens = draw_tokens(role(key, "tokens"), len(encodings), config.task.width, config.tokens)
        example = Selection(tokens, uniform_subset(role(key, "subset"), length, largest, sparsity))
        query = query_vector(config, role(key, "query"), encodings, example, used)
        output = model(tokens, encodings, query, positions < length, config.beta, config.attend_query)
        target = jnp.where(used, 1 / sparsity, 0) @ tokens[example.subset]
        return 0.5 * jnp.sum((target - output) ** 2)

    keys = jax.vmap(partial(at, key))(jnp.arange(config.test_examples, dtype=jnp.int32))
    return jnp.mean(jax.vmap(one)(keys))


def fresh_losses(trial: RunningTrial[Online], state: Training, key) -> dict[str, Array]:
    """The losses of the final weights on new fixed encodings (Corollary E.16)."""
    model = assemble(state.model)

    def loss_on(number):
        encodings = encoding_set(trial, trial.config.task.length, fresh_index(key, number))
        test = at(trial.key("test"), 0)
        sizes = trial.config.task
        return padded_loss(trial, model, encodings, test, sizes.length, sizes.sparsity, sizes.sparsity)

    return {"fresh losses": jax.lax.map(loss_on, jnp.arange(FRESH_SETS, dtype=jnp.int32))}
