"""Sample complexity with and without chain of thought: Figures 1, 2 and 3a."""

from dataclasses import replace
from itertools import product

from stairwise.lab.contract.arms import crossed
from stairwise.lab.contract.experiment import Figure, Preset
from stairwise.papers.parity_cot import figures
from stairwise.papers.parity_cot.config.task import PaddedTask
from stairwise.papers.parity_cot.config.training import Decoder
from stairwise.papers.parity_cot.presets.arms import (
    AUTHORS,
    SMALL,
    THREE_RATES,
    WIDE,
    chain,
    experiment,
    shapes,
    sizes,
)

# --- sample complexity ------------------------------------------------------------------------------------------------

DEEP = replace(WIDE, model=Decoder(width=720, layers=4, heads=4, std=0.02, compute="bfloat16"), attention=64)
COMPLEXITY = experiment(
    "complexity",
    "Figures 1 and 2c: samples until every held-out sequence is right, with and without chain of thought",
    (
        Figure(
            "fig1a", "Samples against the secret's size k, with and without CoT", figures.complexity.against_size, True
        ),
        Figure(
            "fig1b", "Entropy of every head and accuracy against samples, with and without CoT", figures.traces.chains
        ),
        Figure("fig2c", "The same complexities, every learning rate and every seed", figures.complexity.every_rate),
        Figure(
            "fig-success",
            "Share of runs that have succeeded, against samples (Kaplan-Meier)",
            figures.complexity.success,
        ),
    ),
    {
        "quick": Preset(
            replace(SMALL, attention=32, points=4),
            {
                **crossed(chain(True, 16, 102_400, 1024), sizes(1, 2, 3, 4, 8, 16)),
                **crossed(chain(False, 4, 204_800, 2048), sizes(1, 2, 3, 4)),
            },
            seeds=4,
            note="one layer, four heads, width 64, n = 16",
        ),
        "gpu": Preset(
            DEEP,
            {
                **crossed(chain(True, 4, 131_072, 2048), sizes(1, 2, 3, 4), THREE_RATES),
                **crossed(chain(False, 4, 262_144, 4096), sizes(1, 2, 3), THREE_RATES),
                **crossed(chain(False, 4, 262_144, 4096), sizes(4), {"rate 0.0001": {"learning_rate": 1e-4}}),
            },
            seeds=5,
            group=5,
            hours=0.07,
            note="four layers, four heads at the paper's width, in bfloat16 with float32 weights; the paper's budget of"
            " 1e7 samples without CoT (170 s per run, 1.4 hours for k = 3, 4) is cut to 2.6e5; k = 4 has one rate",
        ),
        "paper": Preset(
            replace(DEEP, attention=0),
            {
                **crossed(chain(True, 4, 2048 * 4883, 2048), sizes(1, 2, 3, 4), {"": AUTHORS}, THREE_RATES),
                **crossed(chain(False, 4, 2048 * 4883, 2048), sizes(1, 2, 3, 4), {"": AUTHORS}, THREE_RATES),
            },
            seeds=1,
            hours=0.7,
            note="the authors' layout, dropout, decay and bfloat16; budget 1e7; stops when all is right (Section 2)",
        ),
    },
)

SHALLOW_ARMS = {
    **crossed(chain(True, 8, 524_288, 2048), sizes(1, 2, 3, 4, 6, 8), THREE_RATES),
    **crossed(chain(False, 4, 2_097_152, 8192), sizes(1, 2, 3, 4), THREE_RATES),
}
SHALLOW = experiment(
    "shallow",
    "Figure 2b: the same with one layer and one head",
    (Figure("fig2b", "Samples against k with one layer and one head", figures.complexity.every_rate),),
    {
        "quick": Preset(
            replace(SMALL, model=Decoder(heads=1)),
            {
                **crossed(chain(True, 8, 51_200, 1024), sizes(1, 2, 3, 4, 8)),
                **crossed(chain(False, 4, 204_800, 2048), sizes(1, 2, 3, 4)),
            },
            seeds=5,
            note="width 64, n = 16",
        ),
        "gpu": Preset(WIDE, SHALLOW_ARMS, seeds=20, group=20, hours=0.2, note="without CoT 2e6 samples"),
        "paper": Preset(
            replace(WIDE, budget=2048 * 4883),
            crossed(
                chain(True, 4, 2048 * 4883, 2048) | chain(False, 4, 2048 * 4883, 2048),
                sizes(1, 2, 3, 4),
                {"": AUTHORS},
                THREE_RATES,
            ),
            seeds=1,
            hours=0.6,
            note="the authors' protocol, dropout and all: the dense path",
        ),
    },
)

GRID = experiment(
    "grid",
    "Figure 2a: sample complexity for other numbers of layers and heads",
    (Figure("fig2a", "Median samples by layers and heads, with and without CoT", figures.grids.complexity),),
    {
        "quick": Preset(
            replace(
                SMALL,
                task=PaddedTask(bits=10, size=2, padding=2),
                model=Decoder(width=32, std=0.177),
                test_examples=256,
            ),
            crossed(
                shapes((1, 1), (1, 4), (2, 4)),
                chain(True, 2, 30_720, 1024) | chain(False, 2, 30_720, 1024),
                sizes(1, 2),
            ),
            seeds=3,
            note="width 32, n = 10",
        ),
        "gpu": Preset(
            replace(SMALL, task=PaddedTask(bits=30, size=2, padding=3), decay=1.0),
            crossed(
                shapes((1, 1), (1, 4), (4, 1), (4, 4)),
                chain(True, 3, 204_800, 2048) | chain(False, 3, 204_800, 2048),
                sizes(1, 2, 3),
            ),
            seeds=10,
            group=10,
            hours=0.07,
            note="width 64: at the paper's width the grid costs 10 hours",
        ),
        "paper": Preset(
            replace(WIDE, budget=2048 * 4883),
            crossed(
                shapes(*product((1, 2, 3, 4), (1, 2, 3, 4))),
                chain(True, 4, 2048 * 4883, 2048) | chain(False, 4, 2048 * 4883, 2048),
                sizes(1, 2, 3, 4),
                {"": AUTHORS},
                THREE_RATES,
            ),
            seeds=1,
            hours=10.0,
        ),
    },
)

HUNDRED = replace(WIDE, task=PaddedTask(bits=100, padding=100), threshold=0.995, budget=524_288)
LONG = experiment(
    "long",
    "Figure 3a: many secret bits with CoT, and Section 4.1: few without",
    (Figure("fig3a", "Samples against many secret bits, with CoT; few bits without", figures.complexity.long),),
    {
        "quick": Preset(
            replace(SMALL, threshold=0.995),
            {
                **crossed(chain(True, 16, 102_400, 1024), sizes(2, 4, 8, 12, 16)),
                **crossed(chain(False, 4, 102_400, 2048), sizes(1, 2, 3, 4)),
            },
            seeds=4,
            note="one layer, four heads (one is unreliable at this width: see shallow), width 64, n = 16",
        ),
        "gpu": Preset(
            HUNDRED,
            {
                **crossed(chain(True, 100, 262_144, 4096), sizes(20, 40, 60, 80, 100), THREE_RATES),
                **crossed(chain(False, 4, 1_048_576, 8192), sizes(1, 2, 3, 4), THREE_RATES),
            },
            seeds=5,
            group=5,
            hours=0.05,
            note="one layer, one head at the paper's width; without CoT 1e6 samples",
        ),
        "paper": Preset(
            HUNDRED,
            {
                **crossed(chain(True, 100, 2048 * 489, 2048), sizes(*range(20, 101, 10)), {"": AUTHORS}, THREE_RATES),
                **crossed(chain(False, 5, 2048 * 4883, 2048), sizes(1, 2, 3, 4, 5), {"": AUTHORS}, THREE_RATES),
            },
            seeds=1,
            hours=1.5,
        ),
    },
)
