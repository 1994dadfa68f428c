"""Gradient training: the one stage that papers and schemes train through, and where its batches come from.

A step draws a batch, differentiates the loss of the whole batch, and takes an Optax step. A tick of the stage is
`steps_per_tick` steps and then a look (an evaluation that may end the trial), or one of the `micro_batches` whose
gradients make a step.

>>> import optax
>>> from stairwise.train.loop import Member, Program
>>> truth = jnp.array([1.0, -2.0], dtype=jnp.float32)
>>> stage = gradient_training(
...     model=lambda trial, key: jnp.zeros(2, dtype=jnp.float32),
...     batch=fresh(lambda trial, key: jax.random.normal(key, (2,), dtype=jnp.float32), 64),
...     loss=lambda trial, w, batch, key: jnp.mean((batch @ (w - truth)) ** 2),
...     optimizer=optax.sgd(0.1),
...     steps=200,
... )
>>> Program([stage]).run([Member(seed=0)])[0].arrays["train/model"].round(2)
array([ 1., -2.], dtype=float32)
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Integer, PRNGKeyArray

from stairwise.tasks.shuffle import shuffled
from stairwise.train.keys import at, role
from stairwise.train.leaves import named_leaves
from stairwise.train.loop import RunningTrial
from stairwise.train.probes import FirstPassage
from stairwise.train.stage import Stage

Optimizer = optax.GradientTransformation | Callable[[Any], optax.GradientTransformation]


class Training(NamedTuple):
    """The state of a training.

    model      as it is now; optimizer: what Optax remembers
    loss       of the last batch, before its step (0 before any)
    gradient   what the micro-batches of the step under way have added so far (None where a batch is a step)
    aux        what `prepare` made as the stage began, kept up by `follow`
    found      what the last look found; hit: the look that first met `until`; left: looks that are still to come then
    """

    model: Any
    optimizer: Any
    loss: Float[Array, ""]
    gradient: Any = None
    aux: Any = None
    found: Mapping[str, Array] | None = None
    hit: FirstPassage | None = None
    left: Integer[Array, ""] | None = None


@dataclass(frozen=True)
class Reached:
    """Stop when a metric of the look is at least `threshold`; `state.hit.tick` is `unit` times the look (from 1).

    `threshold` and `patience`, the looks to go on for after the first success, are numbers or functions of the trial's
    config. With `stop=False` the hit is noted and the training runs to its end.
    """

    metric: str
    threshold: Any
    patience: Any = 0
    unit: int = 1
    stop: bool = True


def gradient_training(
    *,
    model: Callable[[RunningTrial[Any], PRNGKeyArray], Any],
    batch: Callable[[RunningTrial[Any], Any, Any, PRNGKeyArray, Integer[Array, ""]], Any],
    loss: Callable[[RunningTrial[Any], Any, Any, PRNGKeyArray], Float[Array, ""]],
    optimizer: Optimizer,
    steps: int,
    steps_per_tick: int = 1,
    micro_batches: int = 1,
    prepare: Callable[[RunningTrial[Any], Any, PRNGKeyArray], Any] | None = None,
    follow: Callable[[RunningTrial[Any], Any, Any], Any] | None = None,
    look: Callable[[RunningTrial[Any], Any], Mapping[str, Array]] | None = None,
    look_at_start: bool = True,
    until: Reached | Callable[[RunningTrial[Any], Training], Array] | None = None,
    measure: Callable[[RunningTrial[Any], Training, PRNGKeyArray, Integer[Array, ""]], Mapping[str, Array]]
    | None = None,
    measure_at: tuple[int, ...] = (),
    snapshot: Callable[[RunningTrial[Any], Training], Mapping[str, Array]] | None = None,
    snapshot_at: tuple[int, ...] = (),
    keep: Callable[[Any], Mapping[str, Array]] | None = named_leaves,
    finish: Callable[[RunningTrial[Any], Training, PRNGKeyArray], Mapping[str, Array]] | None = None,
    train_only: Callable[[Any], Any] | None = None,
    received: Callable[[RunningTrial[Any], Any], Any] | None = None,
    key_role: str | None = None,
    tuned: bool = False,
    name: str = "train",
) -> Stage:
    """A stage of gradient steps; the model goes on to the next stage, and to the store.

    model(trial, key)           the model at the start, where no stage before hands one over
    received(trial, carry)      the model out of what is handed over (default: it is the model)
    batch(trial, aux, model, key, n)   batch number n, counted from 0 over the stage; see `fresh`, `pool`, `numbered`
    loss(trial, model, batch, key)     of the whole batch; its key is not the batch's
    optimizer                   an Optax transformation, or a function of the trial's config that gives one
    steps                       optimiser steps in all
    steps_per_tick              steps between two looks; ticks count what is measured
    micro_batches               batches whose mean gradient is a step; a tick is then one of them
    prepare(trial, model, key)  made once as the stage begins, and given to `batch` as `aux`: own labels, an annotator
    follow(trial, aux, batch)   the new `aux` after a batch: counters
    look(trial, model)          metrics at the end of every tick and (`look_at_start`) before the first
    until                       `Reached`, or a function of (trial, state) that says whether to stop
    measure(trial, state, key, t)      default: the loss, what the last look found, and its hit
    measure_at, snapshot_at     ticks, as in `Stage`
    keep(model)                 what is stored of the trained model by name; None: nothing
    finish(trial, state, key)   further arrays to store
    train_only(model)           a pytree of booleans, or a prefix of one: what is False keeps its value
    key_role                    the role whose n-th key batch n gets (default: that of the stage's ticks)
    tuned                       as in `Stage`: for models whose matrix products are all small
    """
    _check_counts(name, steps, steps_per_tick, micro_batches)
    if isinstance(until, Reached) and look is None:
        raise ValueError(f"until={until} needs a look that finds {until.metric} (stage {name})")
    draws = key_role or f"{name}/tick"
    own_keys = steps_per_tick > 1 or key_role is not None

    def transformation(trial) -> optax.GradientTransformation:
        return optimizer if isinstance(optimizer, optax.GradientTransformation) else optimizer(trial.config)

    def init(trial, carry, key) -> Training:
        start = model(trial, key) if carry is None else carry if received is None else received(trial, carry)
        trained = eqx.filter(start, eqx.is_inexact_array)
        empty = jax.tree.map(jnp.zeros_like, trained) if micro_batches > 1 else None
        aux = None if prepare is None else prepare(trial, start, role(key, "prepare"))
        state = Training(start, transformation(trial).init(trained), _no_loss(trained), empty, aux)
        if look is not None:
            state = state._replace(found=look(trial, start) if look_at_start else _zeros(look, trial, start))
        if isinstance(until, Reached):
            left = jnp.asarray(_value(until.patience, trial), dtype=jnp.int32) + 1
            state = state._replace(hit=FirstPassage.start(), left=left)
        return state

    def differentiated(trial, state: Training, key, n) -> tuple[Training, Any]:
        """The state with the batch's loss, and the gradient."""
        drawn = batch(trial, state.aux, state.model, key, n)
        trained, rest = eqx.partition(state.model, eqx.is_inexact_array)

        def of_batch(trained):
            return loss(trial, eqx.combine(trained, rest), drawn, role(key, "loss"))

        value, gradient = jax.value_and_grad(of_batch)(trained)
        aux = state.aux if follow is None else follow(trial, state.aux, drawn)
        return state._replace(loss=value.astype(state.loss.dtype), aux=aux), gradient

    def stepped(trial, state: Training, gradient) -> Training:
        trained, rest = eqx.partition(state.model, eqx.is_inexact_array)
        mask = None if train_only is None else train_only(state.model)
        updates, memory = transformation(trial).update(_masked(mask, gradient), state.optimizer, trained)
        moved = optax.apply_updates(trained, _masked(mask, updates))
        return state._replace(model=eqx.combine(moved, rest), optimizer=memory)

    def step(trial, key, n, state: Training) -> Training:
        return stepped(trial, *differentiated(trial, state, key, n))

    def looked(trial, number, state: Training) -> Training:
        if look is None:
            return state
        found = look(trial, state.model)
        if not isinstance(until, Reached):
            return state._replace(found=found)
        if until.metric not in found:
            raise ValueError(f"until={until} must name one of {', '.join(found)} (stage {name})")
        assert state.hit is not None
        assert state.left is not None
        hit = state.hit.update(found[until.metric] >= _value(until.threshold, trial), number * until.unit)
        return state._replace(found=found, hit=hit, left=state.left - hit.reached)

    def tick(trial, state: Training, key, t) -> Training:
        if micro_batches > 1:
            return accumulated(trial, state, at(trial.key(draws), t) if own_keys else key, t)
        if steps_per_tick == 1:
            return looked(trial, t + 1, step(trial, at(trial.key(draws), t) if own_keys else key, t, state))

        def one(place, state):
            n = t * steps_per_tick + place
            return step(trial, at(trial.key(draws), n), n, state)

        # what the steps do not touch stays outside of their loop
        inner = jax.lax.fori_loop(0, steps_per_tick, one, state._replace(found=None, hit=None, left=None))
        return looked(trial, t + 1, inner._replace(found=state.found, hit=state.hit, left=state.left))

    def accumulated(trial, state: Training, key, t) -> Training:
        state, gradient = differentiated(trial, state, key, t)
        total = jax.tree.map(lambda a, g: a + g / micro_batches, state.gradient, gradient)

        def take(state: Training) -> Training:
            state = stepped(trial, state, state.gradient)
            empty = jax.tree.map(jnp.zeros_like, state.gradient)
            return looked(trial, (t + 1) // micro_batches, state._replace(gradient=empty))

        return jax.lax.cond((t + 1) % micro_batches == 0, take, lambda s: s, state._replace(gradient=total))

    def done(trial, state: Training):
        if not isinstance(until, Reached):
            assert until is not None
            return until(trial, state)
        assert state.hit is not None
        assert state.left is not None
        return state.hit.reached & (state.left < 1)

    def kept(trial, state: Training, key):
        arrays = {} if keep is None else dict(keep(state.model))
        return state.model, arrays | ({} if finish is None else dict(finish(trial, state, key)))

    return Stage(
        name=name,
        init=init,
        tick=tick,
        max_ticks=steps * micro_batches // steps_per_tick,
        measure=measure or _measured,
        measure_at=measure_at,
        snapshot=snapshot,
        snapshot_at=snapshot_at,
        done=None if until is None or (isinstance(until, Reached) and not until.stop) else done,
        finish=kept,
        per_tick=steps_per_tick / micro_batches,
        graph=True,
        tuned=tuned,
    )


def _check_counts(name: str, steps: int, steps_per_tick: int, micro_batches: int) -> None:
    if steps_per_tick < 1 or steps % steps_per_tick:
        raise ValueError(f"steps={steps} must be a multiple of steps_per_tick={steps_per_tick} (stage {name})")
    if micro_batches < 1 or (micro_batches > 1 and steps_per_tick > 1):
        raise ValueError(
            f"micro_batches={micro_batches} must be 1 where steps_per_tick={steps_per_tick} (stage {name})"
        )


def _measured(trial, state: Training, key, t) -> dict[str, Array]:
    hit = {} if state.hit is None else {"hit": state.hit.tick}
    return {"loss": state.loss, **(state.found or {}), **hit}


def _value(number: Any, trial: RunningTrial[Any]) -> Any:
    return number(trial.config) if callable(number) else number


def _no_loss(trained: Any) -> Float[Array, ""]:
    """Zero in the model's precision, float32 at least."""
    return jnp.zeros((), dtype=jnp.result_type(jnp.float32, *jax.tree.leaves(trained)))


def _zeros(look: Callable[..., Any], trial: RunningTrial[Any], model: Any) -> Mapping[str, Array]:
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(look, trial, model))


def _masked(mask: Any, tree: Any) -> Any:
    """Zero where the mask, a prefix of the tree with booleans or arrays of them, is False."""
    if mask is None:
        return tree
    return jax.tree.map(lambda keep, part: jax.tree.map(lambda leaf: jnp.where(keep, leaf, 0), part), mask, tree)


# --- where batches come from ------------------------------------------------------------------------------------------


def fresh(sample: Callable[[Any, PRNGKeyArray], Any], size: int, role: str | None = None) -> Callable[..., Any]:
    """Batches of `size` examples that never come again: sample(trial, key) for each.

    Example b of a batch has the b-th key of the batch's own; with a `role`, the example with number i, counted over
    the whole stage, has the i-th key of that role, so that other batch sizes see the same examples.
    """
    if role is not None:
        return pool(sample, size, 0, role)

    def batch(trial, aux, model, key, n):
        keys = jax.vmap(partial(at, key))(jnp.arange(size, dtype=jnp.int32))
        return jax.vmap(partial(sample, trial))(keys)

    return batch


def pool(
    sample: Callable[[Any, PRNGKeyArray], Any],
    size: int,
    examples: Any,
    role: str = "pool",
    order: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """Batches of `size` examples out of a fixed set of `examples`, which is not stored.

    Example i is sample(trial, key) with the i-th key of the role. `examples` is a number or a function of the trial's
    config (which may be traced); 0 means that no example ever comes again. `order(size, examples)` says which ones a
    batch has: `with_replacement` (the default), `epochs`, or `in_turn`.
    """
    numbers = (order or with_replacement)(size, examples)
    return numbered(lambda trial, i: sample(trial, at(trial.key(role), i)), numbers)


def numbered(example: Callable[[Any, Integer[Array, ""]], Any], numbers: Callable[..., Any]) -> Callable[..., Any]:
    """Batches of example(trial, i) at the numbers i that numbers(trial, key, n) gives for batch n."""

    def batch(trial, aux, model, key, n):
        return jax.vmap(partial(example, trial))(numbers(trial, key, n))

    return batch


def in_turn(size: int, examples: Any = 0) -> Callable[..., Any]:
    """0, 1, 2, ... without end, or round and round in a set of `examples`."""

    def numbers(trial, key, n) -> Integer[Array, " batch"]:
        counted = n * size + jnp.arange(size, dtype=jnp.int32)
        count = _value(examples, trial)
        if isinstance(count, int) and count == 0:
            return counted
        return jnp.where(count > 0, counted % jnp.maximum(count, 1), counted).astype(jnp.int32)

    return numbers


def with_replacement(size: int, examples: Any) -> Callable[..., Any]:
    """Uniform draws from 0..examples-1, by the batch's key; where there are 0, numbers that never come again."""

    def numbers(trial, key, n) -> Integer[Array, " batch"]:
        count, counted = _value(examples, trial), in_turn(size)(trial, key, n)
        if isinstance(count, int) and count == 0:
            return counted
        drawn = jax.random.randint(key, (size,), 0, jnp.maximum(count, 1), dtype=jnp.int32)
        return jnp.where(count > 0, drawn, counted)

    return numbers


def epochs(size: int, examples: Any, role: str = "epoch") -> Callable[..., Any]:
    """Passes over 0..examples-1, each in an order of its own; where there are 0, numbers that never come again."""

    def numbers(trial, key, n) -> Integer[Array, " batch"]:
        count = jnp.asarray(_value(examples, trial), dtype=jnp.int32)
        whole = jnp.maximum(count, 1)

        def one(number):
            epoch, place = jnp.divmod(number, whole)
            return shuffled(at(trial.key(role), epoch), place, whole).astype(jnp.int32)

        counted = in_turn(size)(trial, key, n)
        return jnp.where(count > 0, jax.vmap(one)(counted), counted)

    return numbers
