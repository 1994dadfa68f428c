"""A paper that is not installed: two experiments, three claims, a figure that fails; storing it runs nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest

from stairwise.config import Config, option
from stairwise.lab import registry
from stairwise.lab.contract import manifest
from stairwise.lab.contract.answers import Answer, Measured
from stairwise.lab.contract.checks import at_least, at_most, measured
from stairwise.lab.contract.claims import Ledger
from stairwise.lab.contract.experiment import Experiment, Figure, Preset, Trial
from stairwise.lab.contract.microscope import Curve, Map, MapAxis, Microscope, Overlay
from stairwise.lab.contract.paper import Paper
from stairwise.lab.contract.verdict import Verdict
from stairwise.lab.store.store import Store
from stairwise.train.stage import Outcome

HOSTILE = "<script>alert('stairwise')</script>[/red]\x1b[31m&\"'"


@dataclass(frozen=True)
class Walk(Config):
    """The config of both experiments."""

    steps: int = option(20, "steps", low=1)
    rate: float = option(0.1, "learning rate", above=0.0, high=1.0, numeric=True)
    hops: tuple[int, ...] = option((1, 2), "hops")
    kind: str = option("plain", "kind of walk", choices=("plain", "lazy"))


def curves(records: Sequence[Any]):
    """Every metric of every record."""
    figure, axes = plt.subplots()
    for record in records:
        for name in record.names():
            axes.plot(*record.series(name), label=name)
    axes.legend()
    return figure


def points(records: Sequence[Any]):
    """A drawing of many points, large as SVG."""
    figure, axes = plt.subplots()
    axes.plot([k % 97 for k in range(2000)], marker="o")
    return figure


def broken(records: Sequence[Any]):
    """Leaves a figure open and fails."""
    plt.figure()
    raise RuntimeError(f"no such thing: {HOSTILE}")


def seen(record: Any) -> Microscope:
    """The stored weights after nothing at all; fails for one trial."""
    if record.seed == 1 and record.arm == "slow":
        raise RuntimeError(f"no frames of seed 1: {HOSTILE}")
    weights = record.array("weights")
    rows, columns = (
        MapAxis(title, [f"{title} {k} {HOSTILE}" for k in range(n)]) for title, n in (("row", 2), ("column", 3))
    )
    frames = [np.zeros((2, 3)), weights + np.eye(2, 3)]
    overlay = Overlay(f"ideal {HOSTILE}", [(0, 0), (1, 1)])
    loss = Curve("loss", [0, 10, 20], [1.0, 0.5, 0.2])
    return Microscope(
        "weights", "step", [0, 20], ["start", "end"], [Map("W", "w", frames, rows, columns, [overlay])], [loss]
    )


def counted(records: Sequence[Any]) -> Measured:
    return Measured(
        f"{records[0].config.steps} steps of {len({r.seed for r in records})} seeds", records[0].config.steps
    )


LEDGER = Ledger()


@LEDGER.bound(
    "thm1",
    argument="a step is missing",
    statement="Theorem 1",
    says="the walk ends",
    of=(counted,),
    cases=Walk(),
    aliases=("lem2",),
)
def ends(config: Walk, seed: int):
    yield at_most("end", 1e-13, 1e-12)


@LEDGER.exact("thm2", statement="Theorem 2", says="1 < 2 & 2 > 1", of=(counted,), cases=Walk(), corrected="thm1")
def order(config: Walk, seed: int):
    yield at_least("order", 1, 2)


@LEDGER.empirical("fig1", experiment="walk", statement="Figure 1", says="walks converge")
def converge(records: list[Any]):
    yield measured("walks", 1.0)


def alone(patch: pytest.MonkeyPatch) -> None:
    """Let this be the only paper that is installed."""
    patch.setattr(manifest, "built_in", list)
    patch.setattr(manifest, "plug_ins", lambda: [EntryPoint("tiny", f"{__name__}:PAPER", manifest.GROUP)])
    patch.setattr(registry, "plug_ins", lambda: registry.PlugIns({"tiny": __name__}, {}, {}))


def nothing(config: Walk) -> list[Any]:
    """The program of an experiment whose trials the tests write themselves."""
    return []


WALK = Experiment(
    "walk",
    "a walk",
    Walk,
    {
        "quick": Preset(Walk(), {"slow": {}, "fast": {"rate": 1.0}}, seeds=2),
        "gpu": Preset(Walk(steps=500), {"slow": {}, "fast": {"rate": 1.0}}, seeds=3, group=6),
        "paper": Preset(Walk(steps=900), seeds=1, hours=3.0),
    },
    nothing,
    (
        Figure("fig1", "Walks & their ends", curves, headline=True),
        Figure("fig2", "A large drawing", points),
        Figure("fig3", "A broken drawing", broken),
    ),
    microscope=seen,
)
CLIMB = Experiment("climb", "a climb", Walk, {"quick": Preset(Walk())}, nothing, (Figure("fig4", "A climb", curves),))
ANSWERS = (
    Answer("steps", "as many as it takes", "walk", counted),
    Answer("samples", "broken", "walk", broken),
    Answer("attention", "nothing"),
)
PAPER = Paper(
    "tiny", "On Walks & Climbs", "A. Author", 2024, "-", "walks end", tuple(LEDGER.claims), (WALK, CLIMB), ANSWERS
)  # fmt: skip

RUN = {
    "device": {"platform": "cpu", "kind": "cpu", "count": 1},
    "versions": {"python": "3.11", "jax": "0.10", "absent": None},
    "machine": {"cores": 2, "processor": "Abacus"},
    "source_hash": "0" * 64,
    "group_width": 1,
    "timing": {"started": 1.7e9, "seconds": 3.0, "seconds_per_trial": 1.5},
}


def outcome(trial: Trial, metric: str = "loss") -> Outcome:
    made = Outcome(arrays={"weights": [[float(trial.seed)] * 3] * 2})
    for step in range(0, 30, 10):
        made.add("main", step, {metric: 1 / (1 + step + trial.seed), "accuracy": step / 30})
    return made


def fill(store: Store, preset: str = "quick", metric: str = "loss", run: dict[str, Any] = RUN) -> list[Trial]:
    """Stores the trials of a preset of `walk`."""
    trials = PAPER.experiment("walk").trials(preset)
    for trial in trials:
        store.write(trial, outcome(trial, metric), run)
    return trials


def keep(store: Store, claim: str, verdict: Verdict, digest: str = "a" * 20, checked: float = 1.7e9, **more) -> None:
    """Stores a verdict as a check of claims does."""
    fields = ("status", "measured", "required", "margin", "note", "hypotheses", "details", "direction", "cases")
    data = {"claim": claim, "verdict": {name: getattr(verdict, name) for name in fields}, "seconds": 0.5, "sizes": {}}
    store.write_verdict(claim, digest, {**data, "inputs": [], "checked": checked, **more})


def keep_run(store: Store, trials: list[str], command: str, preset: str = "quick") -> None:
    """Stores a run as the command line does."""
    record = {"experiment": "tiny/walk", "preset": preset, "command": command, "trials": trials, "changes": {}}
    store.write_run({**record, "started": 1.7e9, "seconds": 1.0})
