"""One step with teacher forcing (Theorem 5)."""

from dataclasses import replace

from stairwise.lab.contract.experiment import Figure, Preset
from stairwise.papers.parity_onestep import figures
from stairwise.papers.parity_onestep.config import Descent, Oracle, PaddedDescent, PaddedTask, Rate, Task
from stairwise.papers.parity_onestep.presets.descents import TREE, descent, half, logit, powers

LARGE = Descent(task=Task(256, 128), samples=2**20, block=16_384, rate=Rate(lam=logit(256, 6)))
ONESTEP = descent(
    "onestep",
    "Theorem 5: one gradient step with teacher forcing finds the whole tree",
    Figure(
        "fig-onestep",
        "W after one step, its columns sorted, and the roll-out on fresh inputs",
        figures.onestep.onestep,
        True,
    ),
    {
        "quick": Preset(Descent(), seeds=8),
        "gpu": Preset(
            replace(Descent(), block=16_384),
            {
                "d=64": {},
                "d=256": {"task.bits": 256, "task.size": 128, "samples": 2**20, "rate.lam": logit(256, 6)},
            },
            seeds=16,
            group=16,
        ),
        "paper": Preset(
            replace(LARGE, task=Task(128, 64), samples=128**3, rate=Rate(scale="paper", eta0=2.0, eps=1.0)),
            seeds=8,
            group=8,
            hours=0.02,
            note="the theorem's scaling at eps = 1: n = d^3, eta = 2 d^(2+1/16)",
        ),
    },
    microscope=TREE,
)

SCALING = descent(
    "scaling",
    "how the error of the one step falls with n and with d",
    Figure(
        "fig-scaling",
        "Error after one step against samples and against d, and what the noise law says",
        figures.sweeps.scaling,
    ),
    {
        "quick": Preset(
            PaddedDescent(task=PaddedTask(slots=128, leaves=64), samples=2**18, block=1024, looks=powers(10, 18)),
            {f"d={d}": half(d, 6) for d in (16, 32, 64, 128)},
            seeds=5,
        ),
        "gpu": Preset(
            PaddedDescent(task=PaddedTask(slots=256, leaves=128), samples=2**21, block=1024, looks=powers(10, 21)),
            {f"d={d}": half(d, 6) for d in (16, 32, 64, 128, 256)},
            seeds=16,
            group=16,
        ),
    },
    PaddedDescent,
)

PHASE = descent(
    "phase",
    "for which (n, d) does one step succeed: a map with k = d/2 and λ = ln d + 4",
    Figure(
        "fig-phase",
        "Success of one step over samples n and bits d, and the fitted boundary",
        figures.phase.phase,
    ),
    {
        "quick": Preset(
            PaddedDescent(
                task=PaddedTask(slots=128, leaves=64), samples=2**16, block=512, looks=powers(9, 16), test_examples=500
            ),
            {f"d={d}": half(d, 4) for d in (8, 16, 32, 64, 128)},
            seeds=10,
        ),
        "gpu": Preset(
            PaddedDescent(
                task=PaddedTask(slots=1024, leaves=512),
                samples=2**18,
                block=512,
                looks=powers(9, 18),
                test_examples=500,
            ),
            {f"d={d}": half(d, 4) for d in powers(3, 10)},
            seeds=20,
            group=20,
        ),
    },
    PaddedDescent,
)

LAMS = {f"lam={lam}": {"rate.lam": float(lam)} for lam in (4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24)}
LAM = descent(
    "lam",
    "the error of one step against the logit λ that sets its size",
    Figure(
        "fig-lam",
        "Error against the logit λ: too little attention on the left, torn children on the right",
        figures.sweeps.lam,
    ),
    {
        "quick": Preset(Descent(samples=2**16), LAMS, seeds=5),
        "gpu": Preset(replace(LARGE, samples=2**18), LAMS, seeds=16, group=32),
    },
)

LINKS = {
    "poly4": {"link.name": "poly4"},
    "cos": {"link.name": "cos"},
    "requ(4)": {"link.name": "requ", "link.slope": 4.0},
    "requ(2.5)": {"link.name": "requ", "link.slope": 2.5},
    "requ(2.1)": {"link.name": "requ", "link.slope": 2.1},
}
LINK_ARMS = {
    f"{name}, lam={lam}": {**fields, "rate.lam": float(lam)}
    for name, fields in LINKS.items()
    for lam in (3, 5, 7, 9, 12, 16, 24)
}
MEASURED = Rate(scale="measured")
LINK = descent(
    "link",
    "the link functions at equal realised logit: η is set by the measured child gradient of the root",
    Figure(
        "fig-link",
        "Error against the realised root logit, and the nominal logit that it takes, by link",
        figures.sweeps.link,
    ),
    {
        "quick": Preset(Descent(rate=MEASURED), LINK_ARMS, seeds=3),
        "gpu": Preset(Descent(rate=MEASURED, samples=2**20, block=16_384), LINK_ARMS, seeds=16, group=16),
    },
)


def noise_arms(logits: dict[int, float]) -> dict[str, dict]:
    arms = {}
    for d, lam in logits.items():
        size = {"task.bits": d, "task.size": d // 2, "rate.lam": lam}
        for C in (0.0, 0.03, 0.06, 0.1, 0.2, 0.5, 1.0):
            arms[f"d={d}, C={C:g}"] = {**size, "oracle.strength": C}
            saturating = {"quantiser.spacing": lam, "quantiser.bound": 1.0}
            arms[f"d={d}, C={C:g}, saturating"] = {**size, "oracle.strength": C, **saturating}
    return arms


ADVERSARY = Oracle(kind="adversarial")
NOISE = descent(
    "noise",
    "how much adversarial noise in the gradient the one step tolerates, with and without bounded weights",
    Figure(
        "fig-noise",
        "Error against the strength C of an adversarial oracle of error C d^(-2-ε/8)",
        figures.sweeps.noise,
    ),
    {
        "quick": Preset(
            PaddedDescent(task=PaddedTask(slots=128, leaves=64), oracle=ADVERSARY),
            noise_arms({32: 8.0, 64: 9.0, 128: 10.0}),
            seeds=3,
        ),
        "gpu": Preset(
            PaddedDescent(task=PaddedTask(slots=256, leaves=128), oracle=ADVERSARY, samples=2**19, block=16_384),
            noise_arms({32: 8.0, 64: 9.0, 128: 10.0, 256: 11.0}),
            seeds=10,
            group=40,
        ),
    },
    PaddedDescent,
)

DIMENSION = descent(
    "dimension",
    "one step at k = 32 and up to d = 4096 bits",
    Figure(
        "fig-dimension",
        "Error of one step against d, up to d = 4096",
        figures.sweeps.dimension,
    ),
    {
        "quick": Preset(
            Descent(samples=2**19),
            {f"d={d}": {"task.bits": d, "rate.lam": logit(d, 12)} for d in (64, 256, 1024, 4096)},
            seeds=2,
        ),
        "gpu": Preset(
            Descent(samples=2**20),
            {f"d={d}": {"task.bits": d, "rate.lam": logit(d, 12)} for d in powers(6, 12)},
            seeds=8,
            group=8,
        ),
    },
)
