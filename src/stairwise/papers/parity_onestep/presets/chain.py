"""Descent without teacher forcing (Theorem 7), its ablations, and the other training regimes."""

from dataclasses import replace

from stairwise.lab.contract.experiment import Figure, Preset
from stairwise.papers.parity_onestep import figures
from stairwise.papers.parity_onestep.config import FILTER, INTEGER, Descent, Rate, Task
from stairwise.papers.parity_onestep.presets.descents import TREE, descent

# lam is chosen so that the child weights of all levels (11.0, 8.8, 8.0) lie away from half-integers
ROUNDED = Descent(
    task=Task(32, 8),
    mask="block",
    forcing=False,
    samples=800_000,
    block=16_384,
    steps=4,
    rate=Rate(lam=9.1),
    quantiser=INTEGER,
    augmentation=FILTER,
)
SATURATING = {
    "task.size": 16,
    "samples": 20_000,
    "block": 20_000,
    "steps": 5,
    "rate.lam": 10.0,
    "quantiser.spacing": 10.0,
    "quantiser.bound": 1.0,
}
STAIRCASE = descent(
    "staircase",
    "Theorem 7: without teacher forcing, level l of the tree is solved at step l",
    Figure(
        "fig-staircase",
        "Sup error of every level, step by step; one level is solved at each",
        figures.chain.staircase,
    ),
    {
        "quick": Preset(ROUNDED, {"integers (Theorem 7)": {}, "saturating (extension)": SATURATING}, seeds=5),
        "gpu": Preset(
            ROUNDED,
            {
                "integers (Theorem 7)": {},
                "integers (Theorem 7), d=64": {
                    "task.bits": 64,
                    "task.size": 16,
                    "samples": 4_000_000,
                    "steps": 5,
                    "rate.lam": 10.9,
                    "augmentation.inputs": 64,
                    "augmentation.room": 64,
                },
                "saturating (extension), d=256": {
                    **SATURATING,
                    "task.bits": 256,
                    "task.size": 128,
                    "samples": 2**21,
                    "block": 16_384,
                    "steps": 8,
                    "rate.lam": 12.0,
                    "quantiser.spacing": 12.0,
                    "augmentation.inputs": 256,
                    "augmentation.room": 256,
                },
            },
            seeds=8,
            group=8,
        ),
        "paper": Preset(
            replace(
                ROUNDED,
                task=Task(128, 32),
                samples=128**3,
                steps=5,
                rate=Rate(scale="paper", eta0=1.26, eps=1.0),
                augmentation=replace(FILTER, inputs=128, room=128),
            ),
            seeds=8,
            group=8,
            hours=0.1,
            note="the theorem's scaling at eps = 1: n = d^3, n' = d, eta = eta0 d^(2+1/16)",
        ),
    },
    microscope=TREE,
)

ABLATIONS = {
    "full method": {},
    "no rounding": {"quantiser.spacing": 0.0, "quantiser.bound": 0.0},
    "no filter": {"augmentation.eps0": 0.0},
    "filter on a block of training inputs": {"augmentation.source": "training"},
    "eps0 = 0.5": {"augmentation.eps0": 0.5, "augmentation.literal": True},
    "eps0 = 0.95": {"augmentation.eps0": 0.95, "augmentation.literal": True},
    "eps0 = 0.95, propagated": {"augmentation.eps0": 0.95, "augmentation.propagate": True},
    "eps0 = 1.1": {"augmentation.eps0": 1.1},
    "eps0 = 1.9": {"augmentation.eps0": 1.9},
    "eps0 = 2.1": {"augmentation.eps0": 2.1, "augmentation.literal": True},
    "n' = 2": {"augmentation.inputs": 2},
    "n' = 8": {"augmentation.inputs": 8},
}


def ablations(quantiser: str, base: dict) -> dict[str, dict]:
    return {f"{quantiser}: {name}": {**base, **fields} for name, fields in ABLATIONS.items()}


ABLATION = descent(
    "ablation",
    "what each part of the algorithm of Theorem 7 is needed for",
    Figure(
        "fig-ablation",
        "Every part of the method taken away in turn: solved runs, and by which step",
        figures.chain.ablation,
    ),
    {
        "quick": Preset(ROUNDED, ablations("integers", {}) | ablations("saturating", SATURATING), seeds=3),
        "gpu": Preset(ROUNDED, ablations("integers", {}) | ablations("saturating", SATURATING), seeds=20, group=60),
    },
)

REGIME_ARMS = {
    "no chain of thought": {"supervision": "root", "quantiser.spacing": 0.0, "augmentation.eps0": 0.0},
    "teacher forcing": {"forcing": True, "quantiser.spacing": 0.0, "augmentation.eps0": 0.0},
    "teacher forcing, integers": {"forcing": True, "augmentation.eps0": 0.0},
    "generated, no filter": {"augmentation.eps0": 0.0},
    "generated, filter, no rounding": {"quantiser.spacing": 0.0},
    "generated, filter (Theorem 7)": {},
    "generated, filter, saturating (extension)": {"quantiser.spacing": 10.0, "quantiser.bound": 1.0},
    "generated, no filter, saturating (extension)": {
        "augmentation.eps0": 0.0,
        "quantiser.spacing": 10.0,
        "quantiser.bound": 1.0,
    },
}
REGIMES = descent(
    "regimes",
    "no chain of thought, teacher forcing, generated chains with and without filter: loss and accuracy by step",
    Figure(
        "fig-regimes",
        "Loss and accuracy of the roll-out, step by step, in each training regime",
        figures.chain.regimes,
    ),
    {
        "quick": Preset(replace(ROUNDED, samples=2**19, steps=6), REGIME_ARMS, seeds=3),
        "gpu": Preset(replace(ROUNDED, samples=2**20, steps=12), REGIME_ARMS, seeds=16, group=16),
    },
    microscope=TREE,
)

SMALL_STEPS = Descent(
    task=Task(32, 16),
    mask="block",
    samples=512,
    block=512,
    steps=400,
    optimizer="adam",
    fresh=True,
    measure_every=20,
)
ADAM_ARMS = {
    f"{regime}, rate {rate:g}": {**fields, "rate.adam": rate}
    for regime, fields in {
        "teacher forcing": {},
        "generated": {"forcing": False},
        "no chain of thought": {"forcing": False, "supervision": "root"},
    }.items()
    for rate in (0.3, 0.03)
}
ADAM = descent(
    "adam",
    "beyond the paper: many small Adam steps on fresh batches, without filter or rounding",
    Figure(
        "fig-adam",
        "Roll-out loss and accuracy over Adam steps in each training regime",
        figures.chain.adam,
    ),
    {
        "quick": Preset(SMALL_STEPS, ADAM_ARMS, seeds=3),
        "gpu": Preset(replace(SMALL_STEPS, steps=2000, measure_every=100), ADAM_ARMS, seeds=16, group=32),
    },
    microscope=TREE,
)
