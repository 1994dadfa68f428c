"""What decides the one-layer one-head case, and beyond the paper: several bits a step, label noise."""

from dataclasses import replace

from stairwise.lab.contract.arms import crossed
from stairwise.lab.contract.experiment import Figure, Preset
from stairwise.papers.parity_cot import figures
from stairwise.papers.parity_cot.config.task import PaddedTask
from stairwise.papers.parity_cot.config.training import Decoder
from stairwise.papers.parity_cot.presets.arms import (
    AUTHORS,
    SMALL,
    WIDE,
    chain,
    experiment,
    sizes,
)

# --- one layer, one head: what decides --------------------------------------------------------------------------------

ABLATIONS = {
    "base": {},
    "authors' layout": {"task.layout": "authors"},
    "linear decay": {"decay": 1.0},
    "no clipping": {"clip": 0.0},
    "bfloat16": {"model.compute": "bfloat16", "model.parameters": "bfloat16"},
    "dropout .1": {"model.dropout": 0.1},
    "two heads": {"model.heads": 2},
    "all of the authors'": AUTHORS,
}
PUZZLE = experiment(
    "puzzle",
    "one layer, one head, two or three secret bits with CoT: which of the authors' choices makes it learn",
    (Figure("fig-puzzle", "Runs that succeed, and when, by what was changed", figures.passes.puzzle),),
    {
        "quick": Preset(
            replace(SMALL, model=Decoder(heads=1), clip=1.0, task=PaddedTask(size=2, padding=3), budget=30_720),
            crossed(ABLATIONS, sizes(2, 3)),
            seeds=3,
            note="width 64, n = 16, rate 1e-3",
        ),
        "gpu": Preset(
            replace(WIDE, task=PaddedTask(bits=30, size=2, padding=3), budget=131_072, decay=0.0),
            {
                **crossed(
                    {"base": {}},
                    sizes(2, 3),
                    {f"rate {rate:g}": {"learning_rate": rate} for rate in (3e-5, 6e-5, 3e-4)},
                ),
                **crossed(ABLATIONS, sizes(2, 3)),
            },
            seeds=10,
            group=20,
            hours=0.05,
        ),
    },
)

# --- beyond the paper -------------------------------------------------------------------------------------------------

BITS_A_STEP = {f"{g} bit{'s' if g > 1 else ''} a step": {"task.absorbed": g} for g in (1, 2, 4, 8)}
STEPS = experiment(
    "steps",
    "beyond the paper: steps of the chain that add several secret bits, and a chain in random order",
    (Figure("fig-steps", "Samples against the secret bits that a step adds", figures.beyond.steps),),
    {
        "quick": Preset(
            replace(SMALL, task=PaddedTask(size=8, padding=8), budget=40_960),
            {**BITS_A_STEP, "1 bit a step, random order": {"task.order": "random"}},
            seeds=3,
            note="n = 16, k = 8",
        ),
        "gpu": Preset(
            replace(SMALL, task=PaddedTask(size=8, padding=8), budget=2048 * 500, look=2048),
            {**BITS_A_STEP, "1 bit a step, random order": {"task.order": "random"}},
            seeds=20,
            group=20,
            hours=0.03,
            note="n = 16, k = 8",
        ),
    },
)

NOISES = {f"noise {rho:g}": {"task.noise": rho} for rho in (0.0, 0.02, 0.05, 0.1, 0.2, 0.3)}
NOISE = experiment(
    "noise",
    "beyond the paper: steps of the training sequences that are wrong with some probability",
    (Figure("fig-noise", "Samples against the chance of a wrong step, and the law 1/(1-2ρ)²", figures.beyond.noise),),
    {
        "quick": Preset(
            replace(SMALL, task=PaddedTask(size=4, padding=4), budget=102_400),
            {
                **crossed(chain(True, 4, 102_400, 1024), sizes(4), NOISES),
                **crossed(chain(False, 2, 102_400, 1024), sizes(2), NOISES),
            },
            seeds=3,
            note="n = 16; with CoT k = 4, without k = 2",
        ),
        "gpu": Preset(
            replace(SMALL, task=PaddedTask(size=4, padding=4)),
            {
                **crossed(chain(True, 4, 2048 * 250, 1024), sizes(4), NOISES),
                **crossed(chain(False, 2, 2048 * 250, 1024), sizes(2), NOISES),
            },
            seeds=20,
            group=20,
            hours=0.03,
        ),
    },
)
