"""Training on parities until every held-out sequence is right, or the budget is spent.

A tick is the stretch between two evaluations: `look` sequences, then exact match on the validation set. The sample
complexity of a run is the number of sequences processed at the first evaluation that reaches the threshold; a run that
never does is censored at its budget. Secret, inputs and weights are functions of the seed and of counters alone, so
arms (rates, set sizes, options) share them, and what is looked at how often changes no draw.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int8, Integer

from stairwise.measure.probes import FirstPassage
from stairwise.nn.transformer import Transformer
from stairwise.papers.parity_cot.config.training import Training
from stairwise.papers.parity_cot.decoder import cross_entropy, logits_of, make_decoder
from stairwise.papers.parity_cot.evaluate import accuracy, head_facts, head_metrics, step_attention
from stairwise.papers.parity_cot.task import Layout, Problem, fresh_bits, pool_bits, problem_of, secret_of, wrong_steps
from stairwise.tasks.shuffle import shuffled
from stairwise.train.keys import at, role_key
from stairwise.train.loop import RunningTrial
from stairwise.train.stage import Stage


class State(NamedTuple):
    """The model under training, and what its evaluations have said so far.

    model  and Adam's memory are kept in float32, whatever precision they are trained in
    hit    sequences processed at the first evaluation that reached the threshold
    left   evaluations to go on for after that
    loss   of the last batch
    """

    model: Transformer
    memory: Any
    hit: FirstPassage
    left: Integer[Array, ""]
    exact: Float[Array, ""]
    loss: Float[Array, ""]


def training(config: Training) -> list[Stage]:
    """The one stage, of one tick for each evaluation."""
    points = doublings(config.looks, config.points)
    return [
        Stage(
            name="train",
            init=init,
            tick=tick,
            max_ticks=config.looks,
            measure=measure,
            measure_at=points,
            snapshot=snapshot,
            snapshot_at=points if config.watch else (),
            done=lambda trial, state: state.hit.reached & (state.left < 1),
            finish=finish,
        )
    ]


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


def validation_tokens(trial: RunningTrial[Training], problem: Problem) -> Int8[Array, "sequences tokens"]:
    """The last inputs of the pool, whose first ones may be trained on."""
    config = trial.config
    key = trial.key("pool")
    index = config.pool - 1 - jnp.arange(config.validation, dtype=jnp.int32)
    return jax.vmap(lambda i: problem.tokens(pool_bits(key, config.task, i)))(index)


def training_tokens(trial: RunningTrial[Training], problem: Problem, number) -> Int8[Array, " tokens"]:
    """Sequence `number` of the training: a fresh input, or one of a set that every epoch shuffles anew."""
    config = trial.config
    seed, size = trial.seed, jnp.asarray(config.samples, dtype=jnp.int32)
    fresh = at(role_key(seed, "fresh"), number)
    epoch, place = jnp.divmod(number, jnp.maximum(size, 1))
    index = shuffled(at(role_key(seed, "epoch"), epoch), place, jnp.maximum(size, 1))
    repeated = pool_bits(role_key(seed, "pool"), config.task, index)
    bits = jnp.where(size == 0, fresh_bits(fresh, config.task), repeated)
    # noise belongs to the example: a repeated one is wrong in the same places every time
    example = jnp.where(size == 0, number, index.astype(jnp.int32))
    wrong = wrong_steps(at(role_key(seed, "noise"), example), problem, config.task.noise)
    return problem.tokens(bits, wrong)


# --- training ---------------------------------------------------------------------------------------------------------


def init(trial: RunningTrial[Training], carry, key) -> State:
    config = trial.config
    length = Layout.of(config.task).length
    model: Any = make_decoder(config.decoder, length, config.decoder.std, trial.key("model"))
    left = jnp.asarray(config.past, dtype=jnp.int32) + 1
    model, memory = in_dtype((model, optax.scale_by_adam().init(model)), "float32")
    return State(model, memory, FirstPassage.start(), left, jnp.float32(0), jnp.float32(0))


def in_dtype(tree: Any, dtype: str) -> Any:
    """The tree with its floating-point leaves in another precision; up and down again loses nothing."""
    return jax.tree.map(lambda leaf: leaf.astype(dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf, tree)


def model_of(config: Training, state: State) -> Transformer:
    return in_dtype(state.model, config.decoder.parameters)


def tick(trial: RunningTrial[Training], state: State, key, t) -> State:
    """The steps up to the next evaluation, and the evaluation."""
    config = trial.config
    steps = config.look // config.batch
    problem = problem_of(config.task, trial.seed)

    def one(number, trained):
        return step(trial, problem, trained, t * steps + number)

    trained = in_dtype((state.model, state.memory), config.decoder.parameters)
    model, memory, loss = jax.lax.fori_loop(0, steps, one, (*trained, state.loss))
    exact = accuracy(model, problem, validation_tokens(trial, problem), config.batch)["exact match"]
    hit = state.hit.update(exact >= config.threshold, (t + 1) * config.look)
    model, memory = in_dtype((model, memory), "float32")
    return State(model, memory, hit, state.left - hit.reached, exact, loss)


def step(trial: RunningTrial[Training], problem: Problem, trained, number):
    """One step of Adam on one batch; `number` counts steps from the start of training."""
    config = trial.config
    model, memory, _ = trained
    which = number * config.batch + jnp.arange(config.batch, dtype=jnp.int32)
    tokens = jax.vmap(partial(training_tokens, trial, problem))(which)
    dropped = at(trial.key("dropout"), number)

    def loss_of(model):
        logits = logits_of(model, problem.layout, tokens, dropped)
        return cross_entropy(logits, problem.labels(tokens), problem.live)

    loss, gradient = jax.value_and_grad(loss_of)(model)
    if config.clip > 0:
        gradient = clipped(gradient, config.clip)
    updates, memory = optax.scale_by_adam().update(gradient, memory)
    rate = rate_at(trial, number)
    updates = jax.tree.map(lambda u: (-rate * u).astype(u.dtype), updates)
    return optax.apply_updates(model, updates), memory, loss.astype(jnp.float32)


def rate_at(trial: RunningTrial[Training], number):
    """The learning rate of a step: constant, or falling linearly over the whole budget."""
    config = trial.config
    return config.rate * (1 - config.decay * number / config.steps)


def clipped(gradient: Any, largest: float) -> Any:
    """The gradient, shortened to the norm `largest` where it is longer."""
    return optax.clip_by_global_norm(largest).update(gradient, optax.EmptyState())[0]


# --- measurements -----------------------------------------------------------------------------------------------------


def measure(trial: RunningTrial[Training], state: State, key, t) -> dict[str, Array]:
    """Accuracy and losses, the sample complexity (-1 while unknown), and facts about every head."""
    config = trial.config
    problem = problem_of(config.task, trial.seed)
    tokens = validation_tokens(trial, problem)
    model = model_of(config, state)
    found = accuracy(model, problem, tokens, config.batch) | {"hit": state.hit.tick}
    found["loss"] = jnp.where(t == 0, found["validation loss"], state.loss)  # there is no batch before the first
    if config.attention == 0:
        return found
    return found | head_metrics(model, problem, tokens[: config.attention])


def snapshot(trial: RunningTrial[Training], state: State) -> dict[str, Array]:
    """The mean attention of the supervised rows."""
    config = trial.config
    problem = problem_of(config.task, trial.seed)
    tokens = validation_tokens(trial, problem)[: config.attention]
    return {"attention": head_facts(model_of(config, state), problem, tokens)["attention"]}


def finish(trial: RunningTrial[Training], state: State, key):
    """The secret in the order of the chain; attention of the supervised rows, averaged and of one sequence."""
    config = trial.config
    kept = {"secret": secret_of(config.task, trial.key("secret"), config.task.size)}
    if config.attention > 0:
        problem = problem_of(config.task, trial.seed)
        first = validation_tokens(trial, problem)[0]
        kept |= snapshot(trial, state)
        kept["attention of one"] = step_attention(model_of(config, state), problem, first)
    return None, kept
