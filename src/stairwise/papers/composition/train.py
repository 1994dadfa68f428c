"""Algorithm 1 (curriculum) and Algorithm 2 (mixture): single gradient steps on large batches, block by block.

Curriculum: for every layer t, one step on the key-query matrices with the loss of the hop that t completes (KQ1, KQ2,
...), then one on that head's readout, on the same samples (Psi1, Psi2, ...). Mixture: L steps on all key-query matrices
with the sum of all losses, then one on all readouts (Psi).

A tick adds the gradient of one block of samples; the last tick of a step takes it. Sample n of a step is a function of
seed, step and n, so that a readout step sees the samples of its key-query step again without storing them.

The integer path begins with a stage that counts. Before every step its guard looks at the layers below, on samples of
this very step; where they leak, nothing more is counted, and the host lets a second stage, through soft attention, go
on from there.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Integer, PRNGKeyArray

from stairwise.papers.composition.config import ALL, Descent, Task
from stairwise.papers.composition.constructions import compact_codes, moves
from stairwise.papers.composition.evaluate import evaluate, leak_by_layer
from stairwise.papers.composition.model import AttentionOnly, untrained
from stairwise.papers.composition.rules import Way, counted, soft
from stairwise.papers.composition.task import Composition, draw_hidden, ideal_attention, ideal_stream
from stairwise.train.keys import at, role
from stairwise.train.loop import RunningTrial
from stairwise.train.stage import Stage

Sequences = Integer[Array, "samples blocks alphabet"]


class State(NamedTuple):
    """Weights, and the gradient step under way.

    total    what the step's samples have added so far
    updates  largest |eta gradient| of each key-query matrix in the last step
    taken    steps that have been taken
    leak     what the guard saw before the step under way; sound: it was little (always true without a guard)
    """

    model: AttentionOnly
    total: Any
    updates: Float[Array, " layers"]
    taken: Integer[Array, ""]
    leak: Float[Array, ""]
    sound: Bool[Array, ""]


def descent(config: Descent) -> list[Stage]:
    """The stage through soft attention; on the integer path after the one that counts, if that has not come through."""
    if config.path == "exact":
        return [_stage(config, "exact", soft(config), guarded=False)]
    return [
        _stage(config, "integer", counted(config), guarded=True),
        _stage(config, "exact", soft(config), guarded=False, when=partial(unfinished, config)),
    ]


def unfinished(config: Descent, carry: tuple[AttentionOnly, Array]) -> bool:
    """Whether a guard has stopped the counting, in any trial of the group."""
    return bool(np.any(np.asarray(carry[1]) < config.turns))


def _stage(config: Descent, name: str, way: Way, *, guarded: bool, when=None) -> Stage:
    ticks = config.ticks * config.turns

    def init(trial, carry, key) -> State:
        model, taken = (start(trial), jnp.int32(0)) if carry is None else carry
        updates = jnp.zeros(config.task.layers, dtype=jnp.float32)
        return State(model, way.zero(model), updates, taken, jnp.float32(0), jnp.bool_(True))

    def tick(trial, state: State, key, t) -> State:
        # a stage that starts the run has one clock for the whole group, which keeps branches real; a later one cannot
        turn = state.taken if when is not None else t // config.ticks
        if guarded:
            state = jax.lax.cond(t % config.ticks == 0, partial(look, trial, turn), lambda s: s, state)
        add = partial(add_block, way, trial, turn, t)
        if not guarded and when is None:
            return add(state)
        return jax.lax.cond(state.sound & (turn < config.turns), add, lambda s: s, state)

    return Stage(
        name=name,
        init=init,
        tick=tick,
        max_ticks=ticks,
        measure=partial(measure, guarded),
        measure_at=tuple(range(0, ticks + 1, config.ticks)),
        snapshot=snapshot,
        snapshot_at=tuple(range(0, ticks + 1, config.ticks)),
        finish=finish,
        when=when,
        per_tick=1 / config.ticks,
    )


def look(trial: RunningTrial[Descent], turn, state: State) -> State:
    """The guard: how much do the layers leak on which the coming step builds?"""
    config = trial.config
    sequences, _ = samples(trial, turn, 0, min(config.guard_sequences, config.samples))
    leaks = leak_by_layer(state.model, task_of(config.task, trial), sequences)
    below = jnp.arange(config.task.layers, dtype=jnp.int32) < (turn + 1) // 2
    leak = jnp.max(leaks, where=below, initial=0.0)
    return state._replace(leak=leak, sound=state.sound & (leak <= config.saturation))


def add_block(way: Way, trial: RunningTrial[Descent], turn, t, state: State) -> State:
    """One block of samples; the last one of a step takes it."""
    config = trial.config
    place = t % config.ticks
    sequences, queries = samples(trial, turn, place * config.block, config.block)
    task, layer = task_of(config.task, trial), layer_of(config, turn)

    def key_query(t: int, state: State):
        return way.key_query[t](task, state.model, state.total, sequences, queries)

    def readout(state: State):
        return way.readout(task, state.model, state.total, sequences, queries, layer)

    branches = [*(partial(key_query, t) for t in range(len(way.key_query))), readout]
    chosen = jnp.minimum(layer, len(way.key_query) - 1)
    total = jax.lax.switch(jnp.where(is_readout(config, turn), len(branches) - 1, chosen), branches, state)

    def take(state: State) -> State:
        model, updates = way.apply(trial, state.model, state.total, layer)
        return State(model, way.zero(model), updates, state.taken + 1, state.leak, state.sound)

    return jax.lax.cond(place == config.ticks - 1, take, lambda s: s, state._replace(total=total))


def measure(guarded: bool, trial: RunningTrial[Descent], state: State, key, t) -> dict[str, Array]:
    """Every head and layer on fresh sequences, the size of the last updates, and what the guard saw if there is one."""
    metrics = evaluate(state.model, task_of(trial.config.task, trial), test_sequences(trial))
    metrics |= {f"update layer {layer + 1}": size for layer, size in enumerate(state.updates)}
    if guarded:
        metrics["leak below"] = state.leak
    return metrics | {"steps taken": state.taken}


def snapshot(trial: RunningTrial[Descent], state: State) -> dict[str, Array]:
    """Attention of every layer where all sigma_i are the identity: what is left to see is the hidden permutations."""
    attention = state.model.attention(plain_sequence(trial.config.task))
    return {"attention": jnp.stack(attention).astype(jnp.float16)}


def finish(trial: RunningTrial[Descent], state: State, key):
    """What goes on, and what is stored: weights, hidden permutations, and where `snapshot` should see attention."""
    config = trial.config
    hidden, plan = hidden_of(config.task, trial), config.task.plan
    keys = ideal_attention(plan, hidden, ideal_stream(plan, hidden, plain_sequence(config.task)))
    arrays = weights(state.model) | {"hidden": hidden, "ideal attention": keys}
    return (state.model, state.taken), arrays


# --- the order of steps: KQ1, Psi1, KQ2, ... or KQ1, KQ2, ..., Psi ----------------------------------------------------


def step_names(config: Descent) -> list[str]:
    """What each step moves, in order."""
    steps = range(1, config.steps + 1)
    if config.algorithm == "mixture":
        return [*(f"KQ{t}" for t in steps), "Psi"]
    return [name for t in steps for name in (f"KQ{t}", f"Psi{t}")]


def is_readout(config: Descent, turn):
    return turn == config.steps if config.algorithm == "mixture" else turn % 2 == 1


def layer_of(config: Descent, turn):
    """The layer (or head) that a step is about."""
    return turn if config.algorithm == "mixture" else turn // 2


def batch_of(config: Descent, turn):
    """The number of the batch that a step sees."""
    if config.algorithm == "curriculum":
        return turn // 2 if config.readout_batch == "same" else turn
    last = config.steps - 1 if config.readout_batch == "same" else config.steps
    batch = jnp.minimum(turn, last)
    return batch if config.fresh else jnp.where(batch == config.steps, 1, 0)


# --- the start --------------------------------------------------------------------------------------------------------


def hidden_of(task: Task, trial) -> Integer[Array, "blocks alphabet"]:
    """The hidden permutations: given, or drawn from the seed."""
    if task.hidden:
        return jnp.array(task.hidden, dtype=jnp.int32).reshape(task.blocks, task.alphabet)
    moved = None if task.moved == ALL else task.moved
    return draw_hidden(trial.key("hidden"), task.blocks, task.alphabet, moved)


def plain_sequence(task: Task) -> Integer[Array, "blocks alphabet"]:
    """Every sigma_i the identity."""
    return jnp.broadcast_to(jnp.arange(task.alphabet, dtype=jnp.int32), (task.blocks, task.alphabet))


def task_of(task: Task, trial) -> Composition:
    return Composition(hidden_of(task, trial))


def start(trial: RunningTrial[Descent]) -> AttentionOnly:
    """The untrained model."""
    config = trial.config
    task = config.task
    codes = None
    if config.embedding == "compact":
        codes = compact_codes(moves(hidden_of(task, trial)), task.moved, constant=True)
    values = start_values(trial) if config.values.free else None
    return untrained(task.plan, task.blocks, task.alphabet, config.beta0, values=values, codes=codes)


def start_values(trial: RunningTrial[Descent]) -> tuple[Float[Array, "width width"], ...]:
    """V = c I + Gaussian of entry variance noise^2/(kN), one a layer."""
    config = trial.config
    tokens = config.task.tokens
    key = trial.key("values")

    def draw(layer: int) -> Float[Array, "width width"]:
        noise = jax.random.normal(at(key, layer), (tokens, tokens), dtype=jnp.float32)
        identity = jnp.eye(tokens, dtype=jnp.float32)
        return config.values.scale * identity + config.values.noise * tokens**-0.5 * noise

    return tuple(draw(layer) for layer in range(config.task.layers))


def weights(model: AttentionOnly) -> dict[str, Array]:
    """What is stored of a trained model."""
    arrays = {f"key_query{layer + 1}": W for layer, W in enumerate(model.key_query)} | {"readout": model.readout}
    if model.values is not None:
        arrays |= {f"value{layer + 1}": V for layer, V in enumerate(model.values)}
    return arrays if model.codes is None else arrays | {"codes": model.codes}


def stored_model(config: Descent, arrays: dict[str, Any]) -> AttentionOnly:
    """The trained model of a stored trial."""
    found = {name.rpartition("/")[2]: jnp.asarray(array) for name, array in arrays.items()}
    layers = range(1, config.task.layers + 1)
    return AttentionOnly(
        tuple(found[f"key_query{layer}"] for layer in layers),
        found["readout"],
        tuple(found[f"value{layer}"] for layer in layers) if config.values.free else None,
        found.get("codes"),
        plan=config.task.plan,
    )


# --- data -------------------------------------------------------------------------------------------------------------


def samples(trial: RunningTrial[Descent], turn, first, count: int) -> tuple[Sequences, Integer[Array, " samples"]]:
    """Sequences and queries number first..first+count-1 of the batch that a step sees."""
    key = at(trial.key("training"), batch_of(trial.config, turn))
    return draw_samples(task_of(trial.config.task, trial), key, first, count)


def draw_samples(
    task: Composition, key: PRNGKeyArray, first: int | Integer[Array, ""], count: int
) -> tuple[Sequences, Integer[Array, " samples"]]:
    def one(n):
        return task.sequence(role(at(key, n), "sequence")), task.query(role(at(key, n), "query"))

    return jax.vmap(one)(first + jnp.arange(count, dtype=jnp.int32))


def test_sequences(trial: RunningTrial[Any]) -> Sequences:
    """The sequences of the evaluation, which no training step sees."""
    key = trial.key("test")
    return draw_samples(task_of(trial.config.task, trial), key, 0, trial.config.test_examples)[0]
