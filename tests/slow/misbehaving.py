"""A plug-in paper whose trials walk, and on demand turn into NaN, raise, or wait at a gate; for tests of sweeps.

The test writes a folder with this module's entry point and puts it on the path of the processes that it starts.
"""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from stairwise.config import Config, option
from stairwise.lab.contract.experiment import Experiment, Preset
from stairwise.lab.contract.paper import Paper
from stairwise.train.stage import Outcome

GATE, FREE, CURED = "MISBEHAVING_GATE", "MISBEHAVING_FREE", "MISBEHAVING_CURED"


@dataclass(frozen=True)
class Walk(Config):
    """A walk of some steps."""

    steps: int = option(300, "ticks", low=1)
    rate: float = option(0.3, "step size", above=0.0, numeric=True)
    fault: int = option(0, "0: none, 1: turns into NaN, 2: raises", low=0, high=2, numeric=True)


def at_the_gate(carry) -> bool:
    """Lets the first few through; the others leave their process id and wait until the gate is opened."""
    folder = os.environ.get(GATE)
    if folder is not None:
        Path(folder, f"{os.getpid()}-{time.time_ns()}").touch()
        while len(os.listdir(folder)) > int(os.environ[FREE]) and not Path(folder, "open").exists():
            time.sleep(0.02)
    return True


def complain(fault) -> None:
    if fault == 2 and CURED not in os.environ:
        raise RuntimeError("asked to raise")


def walk(config: Walk):
    import jax
    import jax.numpy as jnp

    from stairwise.train.stage import Stage, every

    def tick(trial, state, key, t):
        noise = jax.random.normal(key, (3,), dtype=jnp.float32)
        place = state + trial.config.rate * (noise - jnp.sin(state))
        return jnp.where((trial.config.fault == 1) & (t > 50), jnp.nan, place)

    def finish(trial, state, key):
        jax.debug.callback(complain, trial.config.fault)
        return None, {"place": state}

    return [
        Stage(
            "walk",
            init=lambda trial, carry, key: jnp.zeros((3,), dtype=jnp.float32),
            tick=tick,
            max_ticks=config.steps,
            measure=lambda trial, state, key, t: {"loss": jnp.sum(jnp.abs(state))},
            measure_at=every(100, config.steps),
            finish=finish,
            when=at_the_gate,
        )
    ]


def die_at_first(folder: str, deaths: int) -> str:
    """Kills the worker that asks, some times; then answers."""
    Path(folder, f"{os.getpid()}-{time.time_ns()}").touch()
    if len(os.listdir(folder)) <= deaths:
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"


def code_of_the_dying(name: str):
    """As `remote.code_of`, on a worker that is killed while it is asked for the first time."""
    from stairwise.lab.cluster import remote

    die_at_first(os.environ[GATE], 1)
    return remote.code_of(name)


def count(config: Walk, seed: int) -> Outcome:
    if config.fault == 2:
        raise ValueError(f"cannot count to {seed}")
    outcome = Outcome()
    outcome.add("count", 0, {"loss": float(seed)})
    return outcome


PAPER = Paper(
    "misbehaving",
    "Misbehaving",
    "A. Tester",
    2026,
    "-",
    "walks that fail",
    experiments=(
        Experiment("walk", "a walk", Walk, {"quick": Preset(Walk(), seeds=2)}, walk),
        Experiment("count", "counts", Walk, {"quick": Preset(Walk(), seeds=2)}, count, study=True),
    ),
)
