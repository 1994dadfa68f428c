"""Every experiment at tiny sizes: what the goldens run, and the hash of what a run leaves behind.

A refactoring changes no bit of these. Where a change of bits is meant, the experiment's `version` goes up and
`python -m tests.goldens.record EXPERIMENT ...` writes the new hashes.
"""

import dataclasses
import hashlib
import platform
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jaxlib
import numpy as np

from stairwise.config import ConfigError, leaves, update
from stairwise.lab import registry
from stairwise.lab.contract.experiment import Trial
from stairwise.lab.run.execute import Engine
from stairwise.lab.run.plan import Group
from stairwise.lab.store.store import Store
from stairwise.train.stage import Outcome

DESCENT = {"task.blocks": 2, "task.alphabet": 3, "samples": 256, "block": 128, "guard_sequences": 4}
DESCENT |= {"test_examples": 4, "learning_rate": 5e3}
ENCODER = {
    "task.blocks": 2,
    "task.alphabet": 3,
    "hops": (1, 2),
    "test_hops": (1, 2),
    "model.width": 16,
    "model.layers": 1,
}
ENCODER |= {
    "model.heads": 2,
    "batch": 8,
    "steps": 4,
    "measure_every": 2,
    "test_examples": 8,
    "warm_up": 2,
    "samples": 64,
}
TRAINED = {"batch": 4, "steps": 3, "warm_up": 2, "test_lengths": (2, 3), "test_examples": 4}
LEGO = {"task.variables": 6, "task.length": 2, "model.width": 16, "measure_every": 2, **TRAINED}
PARITY = {"task.bits": 6, "task.size": 2, "model.width": 16, "model.layers": 1, "model.heads": 2, "look": 16}
PARITY |= {"task.padding": 2, "batch": 8, "budget": 48, "test_examples": 16, "attention": 4, "points": 2}
NO_ARMS = {"rate.lam": 6.0}
ONESTEP = {"task.bits": 8, "task.size": 4, "samples": 128, "block": 64, "test_examples": 16, "steps": 2, **NO_ARMS}
ONESTEP |= {"augmentation.inputs": 4, "augmentation.room": 4}
PADDED = ONESTEP | {"task.slots": 16, "task.leaves": 8}
LOOKS = {"looks": (64, 128), "steps": 1}
SELECTION = {"task.length": 6, "task.sparsity": 2, "task.width": 3, "encoding.width": 16, "batch": 8, "steps": 4}
SELECTION |= {"measure_every": 2, "test_lengths": (8,), "test_sparsities": (3,), "test_examples": 8}
FEATURES = {"vocabulary": 16, "neurons": 4, "steps": 40, "points": 4}
REDUCED = {"variables": 24, "test_examples": 20, "steps": 30, "points": 4, "test_lengths": (2, 4)}
CROSSED = {"model.width": 16, "model.layers": 1, "model.heads": 2, "batch": 8, "test_examples": 8}


def _under(prefix: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {f"{prefix}.{path}": value for path, value in fields.items()}


SIZES: dict[str, dict[str, Any]] = {
    "composition/curriculum": DESCENT,
    "composition/mixture": DESCENT,
    "composition/encoder": ENCODER,
    "composition/waiting": ENCODER,
    "composition/letters": ENCODER,
    "composition/threshold": {"task.blocks": 2, "task.alphabet": 3, "block": 16, "looks": (0.5, 1.0)}
    | {"test_examples": 4},
    "composition/repetition": ENCODER,
    "composition/takeoff": ENCODER,
    "composition/values": DESCENT,
    "composition/sparse": DESCENT | {"task.alphabet": 4},
    "composition/any-blocks": DESCENT | {"task.blocks": 3},
    "composition/hardness": {"alphabet": 3, "hops": 1, "width": 4},
    "crossings/supervisions": {"bits": 6, "size": 2, "padding": 2, "look": 16, "budget": 32, **CROSSED},
    "crossings/sparsity": {
        "length": 6,
        "parts": 2,
        "model.width": 16,
        "batch": 8,
        "measure_every": 2,
        "looks": 2,
        "test_examples": 8,
    },
    "crossings/variance": {"length": 3, "size": 1, "width": 4},
    "crossings/retrieval": {
        "length": 2,
        "names": 12,
        "model.width": 16,
        "batch": 8,
        "look": 16,
        "budget": 32,
        "test_examples": 8,
    },
    "crossings/positions": _under("lego", LEGO),
    "crossings/repetition": {"parity.bits": 6, "parity.size": 2, "composition.alphabet": 3, "lego.action": "C3"}
    | {"measure_every": 2, "looks": 2, **CROSSED},
    "crossings/filter-base": {"task.action": "C3", **LEGO},
    "crossings/filter": _under("base", {"task.action": "C3", **LEGO})
    | {"length": 3, "samples": 8, "batch": 4, "steps": 3},
    "crossings/depth": {"task.blocks": 2, "task.alphabet": 3, "measure_every": 2, "looks": 2, "release": 2, **CROSSED},
    "crossings/atlas": {"length": 2, "measure_every": 2, "looks": 2, **CROSSED},
    "lego/length": LEGO | {"map_lengths": (2, 3), "map_sequences": 4},
    "lego/self-training": _under("base", {"task.action": "C3", **LEGO})
    | {"lengths": (2, 3), "samples": 8, "batch": 4, "steps": 3},
    "lego/map": LEGO,
    "lego/positions": LEGO,
    "lego/controls": LEGO,
    "lego/features": FEATURES,
    "lego/starts": FEATURES,
    "lego/dynamics": REDUCED,
    "lego/limits": REDUCED,
    "lego/window": REDUCED,
    "lego/inductions": {"variables": 24, "test_examples": 4, "steps": 40, "points": 8, "test_lengths": (2, 3)},
    "lego/stages": {"variables": 24, "test_examples": 20, "stages": 2, "contexts": 20, "steps": 40},
    "lego/algorithm1": {"task.variables": 6, "neurons": 4, "batch": 8, "ffn_steps": 4, "attention_steps": 4}
    | {"measure_every": 2, "test_lengths": (1, 2), "test_examples": 4},
    **{
        f"parity_cot/{name}": PARITY
        for name in ("complexity", "shallow", "grid", "long", "attention", "puzzle", "noise", "kept")
    },
    **{f"parity_cot/{name}": PARITY | {"samples": 32} for name in ("multipass", "shapes", "negative")},
    "parity_cot/steps": PARITY | {"task.size": 4, "task.padding": 4},
    "parity_cot/theorem3": {"task.bits": 6, "task.size": 2, "width": 64, "neurons": 20, "batch": 64, "block": 32}
    | {"test_examples": 16},
    "parity_onestep/onestep": ONESTEP,
    "parity_onestep/staircase": ONESTEP,
    "parity_onestep/regimes": ONESTEP,
    "parity_onestep/phase": PADDED | LOOKS,
    "parity_onestep/scaling": PADDED | LOOKS,
    "parity_onestep/dimension": ONESTEP,
    "parity_onestep/lam": ONESTEP,
    "parity_onestep/link": ONESTEP,
    "parity_onestep/noise": PADDED,
    "parity_onestep/oracle": {"bits": 6, "size": 3, "width": 4, "queries": 5, "tolerances": (0.5, 1.0)},
    "parity_onestep/ablation": ONESTEP,
    "parity_onestep/adam": ONESTEP | {"steps": 4, "measure_every": 2},
    "parity_onestep/learning": {"task.bits": 8, "task.size": 4, "samples": 64, "batch": 32, "test_examples": 16}
    | {"steps": 4, "measure_every": 2},
    **{f"selection/{name}": SELECTION for name in ("online", "adam", "sgd-random", "adam-random", "beyond")},
    "selection/heatmap": SELECTION | {"snapshots": (0, 2), "encoding.threshold": 0.6},
    "selection/fcn": {"task.length": 3, "steps": 4, "batch": 8, "head_width": 8, "test_examples": 1024}
    | {"measure_every": 2},
    "selection/population": {"task.length": 8, "points": 4, "test_lengths": (10,)},
}
# what needs files of the user: pinned by tests of its own
ELSEWHERE = ("parity_cot/gsm8k",)


@dataclass(frozen=True)
class Golden:
    """One experiment's arm, at one group width and one precision."""

    experiment: str
    arm: str
    width: int
    precision: int

    @property
    def id(self) -> str:
        return f"{self.experiment}, {self.arm}, width {self.width}, float{self.precision}"


def every_golden() -> Iterator[Golden]:
    """Every experiment at width 1 in its own precision; of each program the first also at width 4 in the other one.

    The arm is the preset's last: first arms are mostly the defaults.
    """
    programs = set()
    for paper in registry.papers():
        for experiment in paper.experiments:
            if experiment.name in ELSEWHERE:
                continue
            arm, own = list(experiment.preset("quick").arms)[-1], experiment.precision
            yield Golden(experiment.name, arm, 1, own)
            if not experiment.study and experiment.program not in programs:
                yield Golden(experiment.name, arm, 4, 96 - own)
            programs.add(experiment.program)


def trials_of(golden: Golden) -> list[Trial]:
    """One trial; in a group three seeds, and a fourth trial whose numbers differ."""
    experiment = dataclasses.replace(registry.experiment(golden.experiment), precision=golden.precision)
    preset = experiment.preset("quick")
    config = update(preset.config, {**preset.arms[golden.arm], **SIZES[golden.experiment]})
    if golden.width == 1:
        return [Trial(experiment, config, 0)]
    return [*(Trial(experiment, config, seed) for seed in range(3)), Trial(experiment, _altered(config), 3)]


def _altered(config):
    """The config with every real number a tenth smaller, where its rules allow."""
    for field in leaves(config):
        if field.numeric and field.kind is float and field.default:
            try:
                config = update(config, {field.path: 0.9 * field.default})
            except ConfigError:
                continue
    return config


def outcomes(golden: Golden, store: Store) -> list[Outcome]:
    trials = trials_of(golden)
    engine = Engine(store)
    for trial in trials:
        for needed in trial.needs.values():
            if not store.has(needed):
                for done in Engine(store).run(Group((needed,), 1)):
                    store.write(*done)
    done = list(engine.run(Group(tuple(trials), golden.width)))
    return [one.outcome for one in done]


def bits(found: list[Outcome]) -> str:
    """A hash of all that the trials left behind: how they ended, every metric, every array."""
    digest = hashlib.sha256()
    for outcome in found:
        digest.update(outcome.status.encode())
        for row in zip(outcome.stage, outcome.step, outcome.name, outcome.value, strict=True):
            digest.update(repr(row).encode())
        for name in sorted(outcome.arrays):
            value = np.ascontiguousarray(outcome.arrays[name])
            digest.update(f"{name} {value.dtype} {value.shape}".encode())
            digest.update(value.tobytes())
    return digest.hexdigest()[:16]


def finals(found: list[Outcome]) -> dict[str, float]:
    """The last value of every metric of the first trial, to six digits: what another machine can be held to."""
    last = dict(zip(found[0].name, found[0].value, strict=True))
    return {name: float(f"{value:.6g}") for name, value in last.items()}


def machine() -> str:
    """What bits depend on besides the code: the compiler's release and the processor's instructions."""
    try:
        flags = re.search(r"^flags\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        flags = None
    known = sorted(flag for flag in (flags[1].split() if flags else []) if re.match(r"avx|amx|fma|sse", flag))
    return f"jaxlib {jaxlib.__version__}, {platform.machine()}, {' '.join(known)}"
