"""What a sweep will need: memory of a group, traced without compiling; time, from what stored trials have cost."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from stairwise.config import Config, leaves
from stairwise.lab.contract.experiment import Experiment, Trial
from stairwise.lab.run.execute import device, group_width, precision
from stairwise.lab.run.plan import Tally
from stairwise.lab.store.store import Store
from stairwise.lab.store.trial import FAILED, StoredTrial

SWEEP_GROUP = 64  # width on an accelerator where the preset was made for a CPU
SHARE = 0.6  # of the device's memory that a group may take
MOST_TRACED = 32  # programs
RECENT = 500  # stored trials that are looked at


# --- memory -----------------------------------------------------------------------------------------------------------


def trial_bytes(trial: Trial) -> int | None:
    """The most memory that one trial holds at a time: its state and the values alive within a tick.

    Traced and not compiled: fusion makes the true number smaller, buffers of the compiler larger (0.14 MB here against
    0.18 MB compiled for selection/online). None where it cannot be traced: a study, a trial that starts from another.
    """
    import jax
    import jax.numpy as jnp

    from stairwise.train.loop import RunningTrial

    if trial.experiment.study or trial.needs:
        return None
    with precision(trial.experiment):
        running = RunningTrial(jax.tree.map(jnp.asarray, trial.config), jnp.uint32(0))
        key, tick = jax.random.key(0), jnp.int32(0)
        carry, peak = None, 0
        for stage in trial.experiment.program(trial.structure):
            state = jax.eval_shape(stage.init, running, carry, key)
            traced = jax.make_jaxpr(stage.tick)(running, state, key, tick)
            peak = max(peak, peak_bytes(traced.jaxpr))
            if stage.finish is not None:
                carry, _ = jax.eval_shape(stage.finish, running, state, key)
        return peak


def peak_bytes(jaxpr: Any) -> int:
    """The most bytes that are alive at once when a traced function runs equation by equation.

    >>> import jax, jax.numpy as jnp
    >>> zeros = jnp.zeros(1000, dtype=jnp.float32)
    >>> peak_bytes(jax.make_jaxpr(lambda x: (x + 1).sum())(zeros).jaxpr)  # x and x + 1
    8000
    """
    last = {id(variable): k for k, equation in enumerate(jaxpr.eqns) for variable in equation.invars}
    last |= {id(variable): len(jaxpr.eqns) for variable in jaxpr.outvars}
    alive = peak = sum(_bytes(variable) for variable in (*jaxpr.invars, *jaxpr.constvars))
    for k, equation in enumerate(jaxpr.eqns):
        inside = max((peak_bytes(inner) for inner in _inner(equation)), default=0)
        made = sum(_bytes(variable) for variable in equation.outvars)
        peak = max(peak, alive + max(made, inside))
        alive += made - sum(_bytes(v) for v in {id(v): v for v in equation.invars}.values() if last.get(id(v)) == k)
    return peak


def _bytes(variable: Any) -> int:
    shape = getattr(variable.aval, "shape", None)
    if shape is None or hasattr(variable, "val"):  # a literal takes no room
        return 0
    return int(getattr(variable.aval, "size", 0)) * int(getattr(variable.aval.dtype, "itemsize", 8))


def _inner(equation: Any) -> Iterable[Any]:
    """The traced functions that an equation calls: loops, branches, jitted parts."""
    for value in equation.params.values():
        for item in value if isinstance(value, (list, tuple)) else (value,):
            item = getattr(item, "jaxpr", item)
            if hasattr(item, "eqns"):
                yield item


def largest_group(planned: Tally) -> int | None:
    """The bytes of the largest group; None where none can be traced.

    Of very many programs those with the largest sizes are traced.
    """
    sizes = [(trial_bytes(trial), width) for trial, width in planned.largest[:MOST_TRACED]]
    return max((each * wide for each, wide in sizes if each is not None), default=None)


def device_bytes() -> int | None:
    """The memory of one local device: what an accelerator's allocator may use, or what the machine has free."""
    import jax

    stats = jax.local_devices()[0].memory_stats() or {}
    if "bytes_limit" in stats:
        return int(stats["bytes_limit"])
    with suppress(OSError, StopIteration, ValueError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(line.split()[1] for line in lines if line.startswith("MemAvailable"))
        return int(free) * 1024 // jax.local_device_count()
    return None


def width_for(trial: Trial, preset_group: int) -> int:
    """The group width of a trial's program: the preset's, halved until the group fits into the device's memory.

    It depends on program, preset and device, never on how many trials there are: bits depend on it.
    """
    import jax

    accelerated = device()["platform"] != "cpu"
    width = group_width(SWEEP_GROUP if accelerated and preset_group == 1 else preset_group)
    devices = jax.local_device_count()
    if trial.experiment.study or width <= devices:
        return width
    each, room = trial_bytes(trial), device_bytes()
    while each and room and width > devices and each * width / devices > SHARE * room:
        width = max(devices, width // 2 // devices * devices)
    return width


def widths(preset_group: int, fixed: int | None) -> Callable[[Trial], int]:
    """The width of each trial's program; `fixed` where the user has said so. Each program is looked at once."""
    known: dict[str, int] = {}

    def width(trial: Trial) -> int:
        if fixed is not None:
            return fixed
        if trial.program_key not in known:
            known[trial.program_key] = width_for(trial, preset_group)
        return known[trial.program_key]

    return width


# --- time -------------------------------------------------------------------------------------------------------------


def seconds(wanted: Tally, store: Store) -> float | None:
    """What the trials will cost one after another, from stored trials of the same program, else of the experiment."""
    if not wanted.count:
        return 0.0
    past = _past(wanted.largest[0][0].experiment, store)
    if not past:
        return None
    typical = statistics.median(cost for costs in past.values() for cost in costs)
    known = {key: statistics.median(costs) for key, costs in past.items()}
    return sum(known.get(key, typical) * count for key, count in wanted.count.items())


class Past(NamedTuple):
    """Stored trials that are as near as any to those asked for: what one cost, and the static fields that differ."""

    seconds: float
    differs: tuple[str, ...]
    records: list[StoredTrial]


def nearest(trials: Sequence[Trial], store: Store) -> Past | None:
    """The latest trials of the same program as one of these, else of the program that differs in fewest fields.

    Of each program one trial is enough.
    """
    if not trials:
        return None
    asked = [_static_fields(trial.config) for trial in trials]
    found: dict[tuple[str, ...], list[StoredTrial]] = {}
    for record in _recent(trials[0].experiment, store):
        own = _static_fields(record.config)
        ways = [tuple(path for path, value in own.items() if fields[path] != value) for fields in asked]
        found.setdefault(min(ways, key=len), []).append(record)
    if not found:
        return None
    differs = min(found, key=len)
    cost = statistics.median(record.run["timing"]["seconds_per_trial"] for record in found[differs])
    return Past(cost, differs, found[differs])


def _static_fields(config: Config) -> dict[str, Any]:
    return {field.path: field.default for field in leaves(config) if not field.numeric}


def _past(experiment: Experiment, store: Store) -> dict[str, list[float]]:
    """Seconds a trial, by program, of the latest stored trials."""
    costs: dict[str, list[float]] = {}
    for record in _recent(experiment, store):
        key = Trial(experiment, record.config, record.seed).program_key
        costs.setdefault(key, []).append(record.run["timing"]["seconds_per_trial"])
    return costs


def _recent(experiment: Experiment, store: Store) -> list[StoredTrial]:
    """The latest stored trials that did not fail and that the experiment could ask for, with typed configs."""
    found = store.glance(experiment.name)
    records = [record for record in found if "timing" in record.run and record.status != FAILED]
    records.sort(key=lambda record: record.run["timing"]["started"], reverse=True)
    return [typed for record in records[:RECENT] if (typed := record.typed(experiment)) is not None]
