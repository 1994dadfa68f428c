"""What a trial is made of (`Stage`) and what it leaves behind (`Outcome`); no JAX, so that listing is instant."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

LOST = ("diverged", "overflow", "singular")
STATUSES = ("finished", "reached", "censored", *LOST, "failed")


@dataclass(frozen=True)
class Stage:
    """A stretch of a trial that one compiled loop runs; pure functions of arrays, written for one trial.

    `trial` is a `train.loop.RunningTrial`: `trial.config`, whose numeric fields are traced, and `trial.key(role)`.
    Every key belongs to one tick of one role and to nothing else. `t` counts the ticks already done.

    init(trial, carry, key) -> state            `carry` comes from the stage before, or from the trials it needs
    tick(trial, state, key, t) -> state         one micro-batch
    measure(trial, state, key, t) -> {name: scalar}      after the ticks of `measure_at` (0 = before any) and the last
    snapshot(trial, state) -> {name: array}     kept after the ticks of `snapshot_at`
    done(trial, state) -> bool                  the trial stops; without it a stage runs to `max_ticks`
    finish(trial, state, key) -> (carry, {name: array})  what goes to the next stage, and what is stored
    when(carry) -> bool                         decided on the host, for the whole group: False skips the stage

    `counts` and `per_tick` are for the x-axes of pictures: what they count, and how much of it a tick is.
    `graph`: an NVIDIA GPU is given all kernels of a tick at once (`compiler.for_stage`). `tuned`: there matrix products
    are chosen by trial while the tick is compiled, which takes seconds and gains where all of them are small.
    """

    name: str
    init: Callable[..., Any]
    tick: Callable[..., Any]
    max_ticks: int
    measure: Callable[..., Mapping[str, Any]] | None = None
    measure_at: tuple[int, ...] = ()
    snapshot: Callable[..., Mapping[str, Any]] | None = None
    snapshot_at: tuple[int, ...] = ()
    done: Callable[..., Any] | None = None
    finish: Callable[..., tuple[Any, Mapping[str, Any]]] | None = None
    when: Callable[[Any], bool] | None = None
    counts: str = "gradient steps"
    per_tick: float = 1.0
    graph: bool = False
    tuned: bool = False

    def __post_init__(self):
        if self.max_ticks < 0:
            raise ValueError(f"max_ticks={self.max_ticks} must be at least 0 (stage {self.name})")
        for name in ("measure_at", "snapshot_at"):
            ticks = tuple(sorted({int(t) for t in getattr(self, name)}))
            if ticks and not 0 <= ticks[0] <= ticks[-1] <= self.max_ticks:
                raise ValueError(f"{name}={ticks[0]}..{ticks[-1]} must lie in 0..{self.max_ticks} (stage {self.name})")
            object.__setattr__(self, name, ticks)

    def on(self, part: Callable[[Any], Any]) -> "Stage":
        """The stage for a trial whose config holds this stage's: `stage.on(lambda config: config.base)`."""

        def lifted(function: Callable[..., Any] | None):
            if function is None:
                return None
            return lambda trial, *more: function(trial.with_config(part(trial.config)), *more)

        names = ("init", "tick", "measure", "snapshot", "done", "finish")
        return replace(self, **{name: lifted(getattr(self, name)) for name in names})


def every(interval: int, max_ticks: int) -> tuple[int, ...]:
    """Measuring points 0, interval, 2*interval, ... and the last tick.

    >>> every(40, 100)
    (0, 40, 80, 100)
    """
    return (*range(0, max_ticks, max(1, interval)), max_ticks)


@dataclass
class Outcome:
    """What a trial leaves behind: metrics in long form, named arrays, and how it ended.

    status: `finished` (ran to its end), `reached` (its stopping condition held), `censored` (it had one, and it never
    did), `failed` (it raised), or one of `LOST`: its state held a NaN at a measuring point. Of these, `diverged` had
    grown before, `overflow` became infinite out of moderate numbers, and `singular` became NaN out of moderate numbers
    (0/0, a singular solve). `message` says what was raised, or which quantity stopped being finite at which tick.
    """

    status: str = "finished"
    stage: list[str] = field(default_factory=list)
    step: list[int] = field(default_factory=list)
    name: list[str] = field(default_factory=list)
    value: list[float] = field(default_factory=list)
    arrays: dict[str, Any] = field(default_factory=dict)
    message: str = ""

    def add(self, stage: str, step: int, metrics: Mapping[str, Any]) -> None:
        for name, value in metrics.items():
            self.stage.append(stage)
            self.step.append(int(step))
            self.name.append(name)
            self.value.append(float(value))

    def last(self, name: str) -> float:
        """The latest value of a metric."""
        for k in range(len(self.name) - 1, -1, -1):
            if self.name[k] == name:
                return self.value[k]
        raise KeyError(f"no metric {name} (has: {', '.join(dict.fromkeys(self.name))})")


def pack(outcomes: list[Outcome]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Unfinished outcomes as arrays and JSON, for a checkpoint."""
    arrays: dict[str, Any] = {}
    meta: list[dict[str, Any]] = []
    for i, outcome in enumerate(outcomes):
        stages, names = list(dict.fromkeys(outcome.stage)), list(dict.fromkeys(outcome.name))
        arrays[f"{i}/stage"] = np.array([stages.index(s) for s in outcome.stage], dtype=np.int32)
        arrays[f"{i}/name"] = np.array([names.index(n) for n in outcome.name], dtype=np.int32)
        arrays[f"{i}/step"] = np.array(outcome.step, dtype=np.int64)
        arrays[f"{i}/value"] = np.array(outcome.value, dtype=np.float64)
        arrays |= {f"{i}/array/{name}": value for name, value in outcome.arrays.items()}
        meta.append({"status": outcome.status, "message": outcome.message, "stages": stages, "names": names})
    return arrays, {"outcomes": meta}


def unpack(arrays: Mapping[str, Any], meta: Mapping[str, Any]) -> list[Outcome]:
    """The inverse of `pack`."""
    outcomes = []
    for i, kept in enumerate(meta["outcomes"]):
        prefix = f"{i}/array/"
        outcomes.append(
            Outcome(
                status=kept["status"],
                message=kept["message"],
                stage=[kept["stages"][k] for k in arrays[f"{i}/stage"]],
                name=[kept["names"][k] for k in arrays[f"{i}/name"]],
                step=[int(step) for step in arrays[f"{i}/step"]],
                value=[float(value) for value in arrays[f"{i}/value"]],
                arrays={name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)},
            )
        )
    return outcomes
