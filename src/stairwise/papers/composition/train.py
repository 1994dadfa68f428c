"""Algorithm 1 (curriculum) and Algorithm 2 (mixture): single gradient steps on large batches, block by block.

Curriculum: for every layer t, one step on the key-query matrices with the loss of the hop that t completes ("KQ1",
"KQ2", ...), then one on that head's readout, on the same samples ("Psi1", ...). Mixture: L steps on all key-query
matrices with the sum of all losses, then one on all readouts ("Psi").

A tick adds the gradient of one block of samples. Sample n of a step is a function of seed, step and n, so that a readout
step sees the samples of its key-query step again without storing them.

On the integer path every step has two stages, of which the host takes one: by counts, where the guard has found the
layers below saturated and right on samples of this very step, or else through soft attention ("KQ2 exact").
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Integer, PRNGKeyArray

from stairwise.papers.composition.config import ALL, Descent, Task
from stairwise.papers.composition.constructions import compact_codes, moves
from stairwise.papers.composition.evaluate import evaluate, largest_leak
from stairwise.papers.composition.model import AttentionOnly, untrained
from stairwise.papers.composition.rules import (
    Rule,
    all_readouts_rule,
    integer_key_query_rule,
    integer_readout_rule,
    key_query_rule,
    mixture_rule,
    readout_rule,
)
from stairwise.papers.composition.task import Composition, draw_hidden
from stairwise.train.keys import at, role, role_key
from stairwise.train.stage import Stage

Sequences = Integer[Array, "samples blocks alphabet"]


class Progress(NamedTuple):
    """What one stage hands to the next: the weights, and the leak of the layers that the next stage builds on."""

    model: AttentionOnly
    leak: Float[Array, ""]


class State(NamedTuple):
    """A gradient step under way: the weights that it starts from, and what its rule has summed so far."""

    model: AttentionOnly
    total: Any
    leak: Float[Array, ""]


class Turn(NamedTuple):
    """One gradient step of an algorithm: its name, its samples, how many layers it builds on, and the ways to do it."""

    name: str
    batch: str
    depth: int
    ways: dict[str, Rule]


def descent(config: Descent) -> list[Stage]:
    """All stages of a run."""
    turns = mixture(config) if config.algorithm == "mixture" else curriculum(config)
    stages = []
    for number, turn in enumerate(turns):
        following = turns[number + 1] if number + 1 < len(turns) else None
        for way, rule in turn.ways.items():
            stages.append(_stage(config, turn, way, rule, first=number == 0, following=following))
    return stages


def curriculum(config: Descent) -> list[Turn]:
    """Algorithm 1."""
    turns = []
    for t in range(config.steps):
        key_query = {"exact": key_query_rule(config, t)}
        readout = {"exact": readout_rule(config, t)}
        if config.path == "integer":
            key_query = {"integer": integer_key_query_rule(config, t)} | key_query
            readout = {"integer": integer_readout_rule(config, t)} | readout
        again = f"step {t}" if config.readout_batch == "same" else f"readout {t}"
        turns += [Turn(f"KQ{t + 1}", f"step {t}", t, key_query), Turn(f"Psi{t + 1}", again, t + 1, readout)]
    return turns


def mixture(config: Descent) -> list[Turn]:
    """Algorithm 2."""
    batches = [f"step {t}" if config.fresh else "step" for t in range(config.steps)]
    turns = [
        Turn(f"KQ{t + 1}", batch, t, {"exact": mixture_rule(config, t)}) for t, batch in enumerate(batches)
    ]
    again = batches[-1] if config.readout_batch == "same" else "readout"
    return [*turns, Turn("Psi", again, config.steps, {"exact": all_readouts_rule(config)})]


def _stage(config: Descent, turn: Turn, way: str, rule: Rule, *, first: bool, following: Turn | None) -> Stage:
    def init(numbers, carry: Progress | None, key) -> State:
        model, leak = (start(config, numbers), jnp.float32(0)) if carry is None else carry
        return State(model, rule.zero(model), leak)

    def tick(numbers, state: State, key, t) -> State:
        sequences, queries = samples(config, numbers, turn.batch, t * config.block, config.block)
        total = rule.add(task_of(config.task, numbers), state.model, state.total, sequences, queries)
        return state._replace(total=total)

    def measure(numbers, state: State, key, t) -> dict[str, Array]:
        task = task_of(config.task, numbers)
        model, updates = rule.apply(numbers, state.model, state.total)
        return evaluate(model, task, test_sequences(config, numbers)) | updates | {"leak below": state.leak}

    def finish(numbers, state: State, key):
        model = rule.apply(numbers, state.model, state.total)[0]
        if following is None:
            return Progress(model, state.leak), weights(model) | {"hidden": hidden_of(config.task, numbers)}
        return Progress(model, guard(config, numbers, model, following)), {}

    return Stage(
        name=turn.name if way == config.path else f"{turn.name} {way}",
        init=init,
        tick=tick,
        max_ticks=config.ticks,
        measure=measure,
        measure_at=(0,) if first else (),
        finish=finish,
        when=partial(_takes, config, way) if len(turn.ways) > 1 else None,
    )


def _takes(config: Descent, way: str, carry: Progress | None) -> bool:
    """Whether a stage runs: counting needs the layers below of every member saturated (the first has none below)."""
    sound = carry is None or bool(np.all(np.asarray(carry.leak) <= config.saturation))
    return sound == (way == "integer")


def guard(config: Descent, numbers, model: AttentionOnly, turn: Turn) -> Float[Array, ""]:
    """The largest leak of the layers that the coming step builds on, on the first samples that it will see."""
    if len(turn.ways) == 1:
        return jnp.float32(0)
    count = min(config.guard_sequences, config.samples)
    sequences, _ = samples(config, numbers, turn.batch, 0, count)
    return largest_leak(model, task_of(config.task, numbers), sequences, turn.depth)


# --- the start --------------------------------------------------------------------------------------------------------


def hidden_of(task: Task, numbers) -> Integer[Array, "blocks alphabet"]:
    """The hidden permutations: given, or drawn from the seed."""
    if task.hidden:
        return jnp.array(task.hidden, dtype=jnp.int32).reshape(task.blocks, task.alphabet)
    moved = None if task.moved == ALL else task.moved
    return draw_hidden(role_key(numbers["seed"], "hidden"), task.blocks, task.alphabet, moved)


def task_of(task: Task, numbers) -> Composition:
    return Composition(hidden_of(task, numbers))


def start(config: Descent, numbers) -> AttentionOnly:
    """The untrained model."""
    task = config.task
    codes = None
    if config.embedding == "compact":
        codes = compact_codes(moves(hidden_of(task, numbers)), task.moved, constant=True)
    values = start_values(config, numbers) if config.values.free else None
    return untrained(task.plan, task.blocks, task.alphabet, numbers["beta0"], values=values, codes=codes)


def start_values(config: Descent, numbers) -> tuple[Float[Array, "width width"], ...]:
    """V = c I + Gaussian of entry variance noise^2/(kN), one a layer."""
    tokens = config.task.tokens
    key = role_key(numbers["seed"], "values")

    def draw(layer: int) -> Float[Array, "width width"]:
        noise = jax.random.normal(at(key, layer), (tokens, tokens), dtype=jnp.float32)
        identity = jnp.eye(tokens, dtype=jnp.float32)
        return numbers["values.scale"] * identity + numbers["values.noise"] * tokens**-0.5 * noise

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


def samples(config: Descent, numbers, batch: str, first, count: int) -> tuple[Sequences, Integer[Array, " samples"]]:
    """Sequences and queries number first..first+count-1 of a batch."""
    key = role_key(numbers["seed"], batch)
    return draw_samples(task_of(config.task, numbers), key, first, count)


def draw_samples(
    task: Composition, key: PRNGKeyArray, first: int | Integer[Array, ""], count: int
) -> tuple[Sequences, Integer[Array, " samples"]]:
    def one(n):
        return task.sequence(role(at(key, n), "sequence")), task.query(role(at(key, n), "query"))

    return jax.vmap(one)(first + jnp.arange(count, dtype=jnp.int32))


def test_sequences(config: Any, numbers) -> Sequences:
    """The sequences of the evaluation, which no training step sees."""
    key = role_key(numbers["seed"], "test")
    return draw_samples(task_of(config.task, numbers), key, 0, config.test_sequences)[0]
