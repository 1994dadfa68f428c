"""THE training loop: stages, ticks, shared measuring points, groups of trials through one compiled program.

A `Program` holds the compiled functions of a list of stages at one group width. Width 1 runs a trial as written; a
larger width vmaps the stage's functions over trials that share one tick counter, freezes members that are done, and
ends when all are; with `shards` the trials are spread over that many local devices. The inner loop has a traced length,
so chunk sizes and measuring points never change the compiled code, and with it never the bits. Between chunks, about
twice a second, the host gets control back.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import PRNGKeyArray

from stairwise import compiler, trees
from stairwise.train.keys import at, role_key
from stairwise.train.stage import Outcome, Stage, pack, unpack

CHUNK_SECONDS = 0.5
SAVING_SHARE = 40  # a checkpoint waits until the run has gone on for so many times what the last one took
MODERATE = 1000.0  # a state that was larger before it stopped being finite had grown: the trial diverged
MOST_REPLAYS = 100_000  # looks at the ticks that are run again to find where a NaN came from
LONGEST_CHUNK = 1_000_000
SHARED, MEMBERS = PartitionSpec(), PartitionSpec("trials")
trees.register_waiting()

C = TypeVar("C")
D = TypeVar("D")


class Interrupted(Exception):
    """The host asked a running group to stop; its work so far has been saved."""


class Member(NamedTuple):
    """One trial of a group: its seed, its config (a pytree), and what it starts from (a pytree of arrays)."""

    seed: int
    config: Any = None
    upstream: Any = None


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class RunningTrial(Generic[C]):
    """A trial as its stages see it: the config, whose numeric fields are traced, and the seed behind all its draws."""

    config: C
    seed: Any

    def key(self, role: str) -> PRNGKeyArray:
        """The key of a role that does not depend on the tick: a pool, the test set, hidden permutations."""
        return role_key(self.seed, role)

    def with_config(self, config: D) -> "RunningTrial[D]":
        """The same seed with another config: for code that was written for a part of this one."""
        return RunningTrial(config, self.seed)


class Hooks:
    """What the host does between chunks; the defaults do nothing."""

    chunk: int | None = None  # ticks per chunk; None: as many as fit into CHUNK_SECONDS
    save_every: float = 10.0  # seconds between checkpoints, or more where one takes long; 0 = after every chunk

    def compiling(self, stage: str) -> None:
        """A stage begins, and is compiled if it is the first of its kind."""

    def progress(self, stage: str, tick: int, max_ticks: int, metrics: Mapping[str, float]) -> None:
        """A chunk has ended; `metrics` are the latest ones of the group's first running member."""

    def measuring(self, stage: str) -> None:
        """The ticks rest while the group is measured."""

    def measured(self, outcomes: Sequence[Outcome]) -> None:
        """The group has been looked at; `outcomes` is what each member has left so far: to be read, not changed."""

    def stop(self) -> bool:
        """True asks the group to save and stop."""
        return False

    def save(self, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
        """Keep a checkpoint."""

    def load(self) -> tuple[dict[str, np.ndarray], dict[str, Any]] | None:
        """The checkpoint to go on from."""
        return None

    def handed_over(self, carry: Any) -> None:
        """The last stage has ended; `carry` is what its `finish` would give to a next one, in a group stacked."""


class Loop(NamedTuple):
    """The carry of the compiled loop: the tick counter that the group shares; per member its state, whether it still
    runs, and the tick at which it was done (-1 before)."""

    t: Any
    state: Any
    running: Any
    ended: Any


LOOP = Loop(SHARED, MEMBERS, MEMBERS, MEMBERS)


class Program:
    """The compiled form of a list of stages at one group width, on one device or spread over `shards` of them."""

    def __init__(self, stages: Sequence[Stage], width: int = 1, shards: int = 1):
        if width < 1:
            raise ValueError(f"width={width} must be at least 1 (Program)")
        if not 1 <= shards <= jax.local_device_count() or width % shards:
            most = jax.local_device_count()
            raise ValueError(f"shards={shards} must lie in 1..{most} and divide width={width} (Program)")
        self.width = width
        self.ticks_a_second = 0.0  # as last seen: the next group starts with chunks of the right length
        self.mesh = Mesh(np.array(jax.local_devices()[:shards]), ("trials",)) if shards > 1 else None
        self.stages = [_Compiled(stage, width, self.mesh) for stage in stages]

    @property
    def options(self) -> dict[str, bool | int | str]:
        """Options of the compiler that its loops have, beyond those of the process."""
        return {name: value for compiled in self.stages for name, value in compiled.options.items()}

    def run(self, members: Sequence[Member], hooks: Hooks | None = None) -> list[Outcome]:
        """Run up to `width` trials side by side; a short group is filled with dummies that never run."""
        if not 1 <= len(members) <= self.width:
            raise ValueError(f"members={len(members)} must lie in 1..width={self.width} (Program.run)")
        return _Group(self, members, hooks or Hooks()).run()


class _Compiled:
    """One stage's functions, lifted to the group width and jitted."""

    def __init__(self, stage: Stage, width: int, mesh: Mesh | None = None):
        self.stage = stage
        self.lift: Callable[..., Any] = _alone if width == 1 else jax.vmap
        seldom = partial(jax.jit, compiler_options=compiler.for_stage() or None)  # run once, or at a look
        self.init = seldom(_spread(mesh, self._init))
        self.begin = seldom(_spread(mesh, self._begin, MEMBERS, (MEMBERS, LOOP)))
        self.options = compiler.for_stage(stage.graph, stage.tuned)
        ticking = _spread(mesh, self._advance, (MEMBERS, LOOP, SHARED), LOOP)
        self.advance = jax.jit(ticking, donate_argnums=1, compiler_options=self.options or None)
        self.measure = seldom(_spread(mesh, self._measure))
        self.snapshot = seldom(_spread(mesh, self.lift(stage.snapshot))) if stage.snapshot else None
        self.finish = seldom(_spread(mesh, self._finish)) if stage.finish else None
        self.sizes = jax.jit(_spread(mesh, self.lift(_sizes)))
        self.made = mesh is not None or not compiler.waits_for_one_core()

    def compile_together(self, trial, carry, running, tick, ticks) -> None:
        """All programs of the stage side by side, each on a core of its own: the calls that follow find them made."""
        self.made = True
        begun, loop = jax.eval_shape(self.begin, trial, carry, running)
        wanted = [self.begin.lower(trial, carry, running), self.advance.lower(begun, loop, tick)]
        wanted.append(self.measure.lower(begun, loop.state, ticks))
        if self.finish is not None:
            wanted.append(self.finish.lower(begun, loop.state))
        with ThreadPoolExecutor(len(wanted)) as threads:
            list(threads.map(lambda lowered: lowered.compile(), wanted))

    def keys(self, trial, role: str):
        return self.lift(lambda seed: role_key(seed, f"{self.stage.name}/{role}"))(trial.seed)

    def _init(self, trial, carry):
        return self.lift(self.stage.init)(trial, carry, self.keys(trial, "init"))

    def _begin(self, trial, carry, running) -> tuple[Any, Loop]:
        """The trial, now on the device, and the loop before its first tick: one call, as each keeps a GPU waiting."""
        never = jnp.full_like(running, -1, dtype=jnp.int32)
        return trial, Loop(jnp.int32(0), self._init(trial, carry), running, never)

    def _advance(self, trial, loop: Loop, stop) -> Loop:
        keys = self.keys(trial, "tick")

        def going(loop: Loop):
            return (loop.t < stop) & jnp.any(loop.running)

        def body(loop: Loop) -> Loop:
            t, state, running, ended = loop
            key = self.lift(at, in_axes=(0, None))(keys, t)
            new = self.lift(self.stage.tick, in_axes=(0, 0, 0, None))(trial, state, key, t)
            if running.ndim:  # in a group, members that are done keep what they have
                new = jax.tree.map(lambda a, b: _select(running, a, b), new, state)
            if self.stage.done is not None:
                over = running & self.lift(self.stage.done)(trial, new)
                running, ended = running & ~over, jnp.where(over, t + 1, ended)
            return Loop(t + 1, new, running, ended)

        return jax.lax.while_loop(going, body, loop)

    def _measure(self, trial, state, t):
        """The stage's metrics after tick t (one per member), and which members hold a NaN."""
        lost = self.lift(_has_nan)(state)
        if self.stage.measure is None:
            return {}, lost
        key = self.lift(at)(self.keys(trial, "measure"), t)
        return dict(self.lift(self.stage.measure)(trial, state, key, t)), lost

    def _finish(self, trial, state):
        return self.lift(self.stage.finish)(trial, state, self.keys(trial, "finish"))


def _spread(mesh: Mesh | None, function: Callable[..., Any], takes: Any = MEMBERS, gives: Any = MEMBERS):
    """The function on every device's share of the trials; each device runs its own loop and waits for no other.

    The tick counter that comes back is one device's own; the host, which knows how far it asked, sets it.
    """
    if mesh is None:
        return function
    return jax.shard_map(function, mesh=mesh, in_specs=takes, out_specs=gives, check_vma=False)


def _alone(function: Callable[..., Any], in_axes: Any = 0) -> Callable[..., Any]:
    return function


def _select(running, new, old):
    return jnp.where(running.reshape(running.shape + (1,) * (new.ndim - running.ndim)), new, old)


def _has_nan(state):
    floats = [leaf for leaf in jax.tree.leaves(state) if jnp.issubdtype(leaf.dtype, jnp.inexact)]
    return jnp.any(jnp.array([jnp.any(jnp.isnan(leaf)) for leaf in floats], dtype=bool))


def _sizes(state):
    """The largest entry in size of each floating-point leaf, by its path; NaN where the leaf holds one."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    names = [jax.tree_util.keystr(path, simple=True, separator="/") or "state" for path, _ in leaves]
    floats = [(name, x) for name, (_, x) in zip(names, leaves, strict=True) if jnp.issubdtype(x.dtype, jnp.inexact)]
    return {name: jnp.max(jnp.abs(leaf), initial=0) for name, leaf in floats}


def _stacked(columns: Sequence[Sequence[Any]]) -> list[Any]:
    """`jnp.stack` of the members' leaves, all columns in one program: a GPU takes longer to begin one than to run it.

    Python numbers stay what they are to JAX, of no type of their own. Where all of a column are equal, one travels.
    """
    return _in_one_program([_to_stack(leaves) for leaves in columns], len(columns[0])) if columns else []


def _to_stack(leaves: Sequence[Any]) -> Any:
    if all(isinstance(leaf, np.ndarray | np.generic) for leaf in leaves):
        return np.stack(leaves)
    # -0.0 is not 0.0, and NaN is itself
    equal = all(type(leaf) in (bool, int, float) for leaf in leaves) and len({repr(leaf) for leaf in leaves}) == 1
    return tuple(leaves[:1] if equal else leaves)


@partial(jax.jit, static_argnums=1)
def _in_one_program(columns: list[Any], width: int) -> list[Any]:
    def stacked(column):
        if not isinstance(column, tuple):
            return column
        found = jnp.stack([jnp.asarray(leaf) for leaf in column])
        return found if len(column) == width else jnp.broadcast_to(found, (width, *found.shape[1:]))

    return [stacked(column) for column in columns]


@jax.jit
def _copy(loop: Loop) -> Loop:
    return jax.tree.map(jnp.copy, loop)


def _widened(array: Any) -> np.ndarray:
    """A copy that a file can hold: bfloat16 as float32, which has room for all of it."""
    return np.array(array, dtype=np.float32 if array.dtype == jnp.bfloat16 else None)


def how_lost(before: Mapping[str, float], after: Mapping[str, float]) -> tuple[str, str] | None:
    """Status and message of a trial whose state one tick took to infinity or NaN; None if it did not.

    Both map the state's leaves to their largest entries. `diverged`: the leaf had grown beyond `MODERATE` before;
    `overflow`: infinity came out of moderate numbers, or stood there before the NaN; `singular`: NaN came out of
    moderate numbers, as from 0/0 or a singular solve.

    >>> how_lost({"W": 0.5, "loss": 1.0}, {"W": float("nan"), "loss": 1.0})
    ('singular', 'W was at most 0.5 and became NaN')
    """
    lost = [name for name in after if np.isnan(after[name]) > np.isnan(before[name])]
    lost = lost or [name for name in after if np.isinf(after[name]) and np.isfinite(before[name])]
    if not lost:
        return None
    name = max(lost, key=lambda name: before[name])  # the first of the largest
    status = "diverged" if before[name] > MODERATE else "overflow" if np.isinf(after[name]) else "singular"
    if np.isinf(before[name]):
        status = "overflow"
    others = f" (with {len(lost) - 1} more)" if len(lost) > 1 else ""
    turned = "NaN" if np.isnan(after[name]) else "infinite"
    return status, f"{name} was at most {before[name]:.3g} and became {turned}{others}"


class _Group:
    """One group on its way through the stages: the host's side of the loop."""

    def __init__(self, program: Program, members: Sequence[Member], hooks: Hooks):
        self.program, self.hooks = program, hooks
        width, real = program.width, len(members)
        self.shape = () if width == 1 else (width,)
        padded = [*members, *[members[0]] * (width - real)]
        self.outcomes = [Outcome() for _ in members]
        self.sound = np.arange(width) < real  # real, and not diverged
        self.running = self.sound.copy()
        trials = [(RunningTrial(m.config, np.uint32(m.seed)), m.upstream) for m in padded]
        self.trial, self.carry = self.stack(trials)
        self.skipped: list[int] = []
        self.latest: dict[str, float] = {}
        self.looked: Loop | None = None  # a copy of the loop at the last look (None: where the stage begins)
        self.unpaced: tuple[int, float] | None = None  # ticks that were not waited for, and when they began
        self.finished: tuple[Any, Any] | None = None  # what the stage leaves, where it was asked for with the last look
        self.saved_at = time.monotonic()
        self.save_seconds = 0.0

    def stack(self, trees: Sequence[Any]) -> Any:
        """The members' trees as one of arrays, in JAX's default types; that of a lone member is left as it is."""
        if not self.shape:
            return trees[0]
        structure = jax.tree.structure(trees[0])
        columns = list(zip(*(structure.flatten_up_to(tree) for tree in trees), strict=True))
        stacked = jax.tree.unflatten(structure, _stacked(columns))
        return stacked if self.program.mesh is None else self.place(stacked)

    def place(self, value, spec: PartitionSpec = MEMBERS):
        mesh = self.program.mesh
        return jax.device_put(value, None if mesh is None else NamedSharding(mesh, spec))

    def tick(self, t: int):
        return self.given(np.int32(t), SHARED)

    def given(self, value: np.ndarray | np.int32, spec: PartitionSpec = MEMBERS):
        """A small argument of a program: the call itself brings it to a lone device, in less time than `place`."""
        return value if self.program.mesh is None else self.place(value, spec)

    def begin(self, compiled: _Compiled) -> Loop:
        self.trial, loop = compiled.begin(self.trial, self.carry, self.device(self.running))
        return loop

    def run(self) -> list[Outcome]:
        start, loop = self.resume()
        for index in range(start, len(self.program.stages)):
            compiled = self.program.stages[index]
            if loop is None:
                if not self.sound.any():
                    break
                if compiled.stage.when is not None and not compiled.stage.when(self.carry):
                    self.skipped.append(index)
                    continue
                self.running = self.sound.copy()
                self.hooks.compiling(compiled.stage.name)
                self.looked, began = None, 0
                if not compiled.made:
                    ticks = self.device(np.zeros(self.program.width, dtype=np.int32))
                    compiled.compile_together(self.trial, self.carry, self.device(self.running), self.tick(0), ticks)
                loop = self.begin(compiled)
            else:
                self.trial = self.place(self.trial)
                self.looked, began = _copy(loop), int(loop.t)
            loop = self.run_stage(index, compiled, loop, began)
            if compiled.finish is not None:
                self.carry, arrays = self.finished or compiled.finish(self.trial, loop.state)
                self.keep(compiled.stage, arrays, self.sound)
            self.finished = None
            loop = None
        self.hooks.handed_over(self.carry)
        return self.outcomes

    def run_stage(self, index: int, compiled: _Compiled, loop: Loop, t: int) -> Loop:
        """From tick t on."""
        stage = compiled.stage
        points = sorted({*stage.measure_at, *stage.snapshot_at, stage.max_ticks})
        while True:
            if t in points:
                loop = self.observe(compiled, loop, t)
                if t == stage.max_ticks or not self.running.any():
                    return loop
                self.looked = _copy(loop) if t > 0 else None
            target = next(point for point in points if point > t)
            stop = t + self.chunk(target - t)
            began = time.monotonic()
            loop = compiled.advance(self.trial, loop, self.tick(stop))
            if stage.done is None and stop == target:  # the look waits for the device, and is on its way at once
                all_done, self.unpaced = False, (stop - t, began)
            else:
                all_done = not np.any(jax.device_get(loop.running))  # waits for the device
                self.pace(stop - t, time.monotonic() - began)
            t = target if all_done else stop  # nobody runs any more: look at once
            if all_done or self.program.mesh is not None:
                loop = loop._replace(t=self.tick(t))
            self.hooks.progress(stage.name, t, stage.max_ticks, self.latest)
            self.save_or_stop(index, loop)

    def chunk(self, room: int) -> int:
        """How many ticks to run before the host looks again; no influence on any result."""
        if self.hooks.chunk is not None:
            return min(room, self.hooks.chunk)
        return max(1, min(room, int(self.program.ticks_a_second * CHUNK_SECONDS), LONGEST_CHUNK))

    def pace(self, ticks: int, seconds: float) -> None:
        # a first chunk is mostly compile and dispatch, so the estimate may grow, but by no more than 8 a chunk
        pace = ticks / max(seconds, 1e-6)
        self.program.ticks_a_second = min(pace, 8 * max(self.program.ticks_a_second, 2.0))

    def observe(self, compiled: _Compiled, loop: Loop, t: int) -> Loop:
        """Measure each member that runs, or that was done since the last look (at its own end); a NaN ends a member."""
        stage = compiled.stage
        ended = np.full(self.program.width, -1, dtype=np.int32)
        if stage.done is not None:
            ended = np.asarray(loop.ended).reshape(-1)
        ticks = np.where(ended >= 0, ended, t).astype(np.int32)
        self.hooks.measuring(stage.name)
        measured = compiled.measure(self.trial, loop.state, self.device(ticks))
        if t == stage.max_ticks and compiled.finish is not None:
            self.finished = compiled.finish(self.trial, loop.state)
        metrics, lost = jax.device_get(measured)
        if self.unpaced is not None:  # the look's own time is in it: the next chunk is too short rather than too long
            (passed, began), self.unpaced = self.unpaced, None
            self.pace(passed, time.monotonic() - began)
        lost = np.asarray(lost).reshape(-1)
        looked_at = self.running.copy()
        why = self.first_lost(compiled, looked_at & lost, t)
        scheduled = t in stage.measure_at or t == stage.max_ticks
        for i in np.flatnonzero(looked_at).tolist():
            row = {name: np.asarray(value).reshape(-1)[i] for name, value in metrics.items()}
            if scheduled or ended[i] >= 0 or lost[i]:
                self.outcomes[i].add(stage.name, int(ticks[i]), row)
            if i == np.flatnonzero(looked_at)[0]:
                self.latest = {name: float(value) for name, value in row.items()}
            self.judge(
                stage,
                self.outcomes[i],
                lost=why.get(i),
                done=bool(ended[i] >= 0),
                last=t == stage.max_ticks,
            )
        if compiled.snapshot is not None and t in stage.snapshot_at:
            self.keep(stage, compiled.snapshot(self.trial, loop.state), looked_at & (ended < 0), f"@{t}")
        self.running = looked_at & (ended < 0) & ~lost
        self.sound &= ~(looked_at & lost)
        self.hooks.measured(self.outcomes)
        return loop._replace(running=self.device(self.running)) if lost.any() else loop

    def judge(self, stage: Stage, outcome: Outcome, *, lost: tuple[str, str] | None, done: bool, last: bool) -> None:
        if lost is not None:
            outcome.status, outcome.message = lost
        elif stage.done is not None and done:
            outcome.status = "reached"
        elif stage.done is not None and last:
            outcome.status = "censored"

    def first_lost(self, compiled: _Compiled, lost: np.ndarray, t: int) -> dict[int, tuple[str, str]]:
        """Status and message of each lost member: the ticks since the last look, run again one by one."""
        found: dict[int, tuple[str, str]] = {}
        if not lost.any():
            return found
        where = compiled.stage.name
        loop = self.begin(compiled) if self.looked is None else self.looked
        start = int(np.min(np.asarray(loop.t)))
        before = self.sizes(compiled, loop)
        for i in np.flatnonzero(lost).tolist():
            names = [name for name, size in before[i].items() if np.isnan(size)]
            if names:  # the stage began with it
                found[i] = ("singular", f"{names[0]} was NaN at tick {start} of stage {where}")
        for tick in np.unique(np.linspace(start, t, min(t - start, MOST_REPLAYS) + 1, dtype=int)[1:]).tolist():
            left = [i for i in np.flatnonzero(lost).tolist() if i not in found]
            if not left:
                break
            loop = compiled.advance(self.trial, loop, self.tick(tick))._replace(t=self.tick(tick))
            after = self.sizes(compiled, loop)
            for i in left:
                if (seen := how_lost(before[i], after[i])) is not None:
                    found[i] = (seen[0], f"{seen[1]} at tick {tick} of stage {where}")
            before = after
        unseen = ("singular", f"NaN seen at tick {t} of stage {where}, and not when its ticks were run again")
        return {i: found.get(i, unseen) for i in np.flatnonzero(lost).tolist()}

    def sizes(self, compiled: _Compiled, loop: Loop) -> list[dict[str, float]]:
        sizes = {
            name: np.asarray(size).reshape(-1) for name, size in jax.device_get(compiled.sizes(loop.state)).items()
        }
        return [{name: float(size[i]) for name, size in sizes.items()} for i in range(self.program.width)]

    def keep(self, stage: Stage, arrays: Mapping[str, Any], members: np.ndarray, suffix: str = "") -> None:
        for name, value in jax.device_get(dict(arrays)).items():
            for i in np.flatnonzero(members):
                self.outcomes[i].arrays[f"{stage.name}/{name}{suffix}"] = _widened(value[i] if self.shape else value)

    def device(self, per_member: np.ndarray):
        return self.given(per_member.reshape(self.shape).copy())

    # --- checkpoints: taken after a chunk, before the look at its last tick -------------------------------------------

    def save_or_stop(self, index: int, loop: Loop) -> None:
        stop = self.hooks.stop()
        began = time.monotonic()
        every = self.hooks.save_every
        wait = max(every, SAVING_SHARE * self.save_seconds) if every > 0 else 0.0
        if stop or began - self.saved_at >= wait:
            leaves = jax.device_get(jax.tree.leaves(loop))
            arrays, meta = pack(self.outcomes)
            arrays |= {f"loop/{k:04d}": _widened(leaf) for k, leaf in enumerate(leaves)}
            arrays |= {"group/sound": self.sound, "group/running": self.running}
            self.hooks.save(arrays, meta | {"stage": index, "skipped": self.skipped, "latest": self.latest})
            self.saved_at = time.monotonic()
            self.save_seconds = self.saved_at - began
        if stop:
            raise Interrupted

    def resume(self) -> tuple[int, Loop | None]:
        saved = self.hooks.load()
        if saved is None:
            return 0, None
        arrays, meta = saved
        carry, state = self.carry, None
        for index in range(meta["stage"] + 1):  # shapes only: nothing is computed
            compiled = self.program.stages[index]
            if index in meta["skipped"]:
                continue
            state = jax.eval_shape(compiled.init, self.trial, carry)
            if compiled.finish is not None:
                carry, _ = jax.eval_shape(compiled.finish, self.trial, state)
        shapes, structure = jax.tree.flatten(Loop(np.int32(0), state, np.bool_(0), np.int32(0)))
        leaves = [jnp.asarray(arrays[f"loop/{k:04d}"], dtype=shape.dtype) for k, shape in enumerate(shapes)]
        leaves = [self.place(leaf, SHARED if k == 0 else MEMBERS) for k, leaf in enumerate(leaves)]
        loop = jax.tree.unflatten(structure, leaves)
        sizes = self.sizes(self.program.stages[meta["stage"]], loop)
        if any(np.isnan(list(sizes[i].values())).any() for i in np.flatnonzero(arrays["group/running"])):
            return 0, None  # only from before the NaN can it be told where it comes from
        self.outcomes = unpack(arrays, meta)
        self.sound, self.running = arrays["group/sound"], arrays["group/running"]
        self.skipped, self.latest = list(meta["skipped"]), meta["latest"]
        self.hooks.compiling(self.program.stages[meta["stage"]].stage.name)
        return meta["stage"], loop
