"""Where attention goes (Figures 3b and 8), and training on the same sequences again and again (4, 5, 9, 10, 11)."""

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
    pools,
    shapes,
)

# --- where attention goes ---------------------------------------------------------------------------------------------

FORTY = replace(WIDE, task=PaddedTask(bits=40, size=20, padding=20), learning_rate=6e-5, attention=64, watch=True)
ONE_AND_TWO = {"1x1": {}, "2x2": {"model.layers": 2, "model.heads": 2}}
ATTENTION = experiment(
    "attention",
    "Figures 3b and 8: a step of the chain attends to the secret bit that it adds",
    (
        Figure("fig3b", "Attention of the steps of the chain, one layer and one head", figures.attention.one_head),
        Figure("fig8", "Attention of the steps of the chain in every layer and head", figures.attention.every_head),
    ),
    {
        "quick": Preset(
            replace(
                SMALL,
                task=PaddedTask(bits=16, size=8, padding=8),
                attention=64,
                watch=True,
                past=20,
                budget=204_800,
                look=2048,
                points=4,
            ),
            {
                "1x1": {"model.heads": 1, "model.std": 0.02},
                "1x1, initial scale .125": {"model.heads": 1, "model.std": 0.125},
                "2x2": {"model.layers": 2, "model.heads": 2, "model.std": 0.125, "past": 10},
            },
            seeds=3,
            note="width 64, n = 16, k = 8; trained on for 40,000 samples after all is right",
        ),
        "gpu": Preset(
            replace(FORTY, past=60, points=4),
            ONE_AND_TWO,
            seeds=5,
            group=5,
            hours=0.03,
            note="n = 40, k = 20 at the paper's width and rate, trained on for 120,000 samples after all is right",
        ),
        "paper": Preset(
            replace(FORTY, past=10**6, budget=2048 * 489),
            crossed(ONE_AND_TWO, {"": AUTHORS}),
            seeds=1,
            hours=0.1,
            note="1e6 samples, whether all is right or not",
        ),
    },
)

# --- the same sequences again and again -------------------------------------------------------------------------------

NO_CHAIN = {"task.cot": False}
MULTIPASS = experiment(
    "multipass",
    "Figures 5, 10, 11: few sequences passed over many times against fresh ones, without CoT",
    (
        Figure(
            "fig5", "Accuracy and entropy of every head against samples, by the size of the set", figures.traces.by_pool
        ),
        Figure(
            "fig10", "Share of runs that have succeeded by the size of the set, for each model", figures.passes.by_shape
        ),
        Figure("fig11", "Entropy drop and accuracy jump of the successful runs, aligned", figures.traces.aligned),
    ),
    {
        "quick": Preset(
            replace(SMALL, task=PaddedTask(size=4, padding=4, cot=False), look=2048, budget=204_800, attention=32),
            pools(2000, 0),
            seeds=10,
            note="n = 16, k = 4, one layer, four heads, width 64",
        ),
        "gpu": Preset(
            replace(
                SMALL,
                task=PaddedTask(bits=20, size=5, padding=5, cot=False),
                decay=1.0,
                look=4096,
                budget=4096 * 488,
                attention=64,
                points=4,
            ),
            {
                **crossed(shapes((1, 4)), pools(1000, 5000, 20_000, 100_000, 0)),
                **crossed(shapes((2, 4)), pools(5000, 100_000, 0), {"": {"budget": 4096 * 122}}),
            },
            seeds=24,
            group=24,
            hours=0.05,
            note="n = 20, k = 5 at width 64, 24 seeds per arm; the paper's width and 1e7 samples: 0.05 hours per run",
        ),
        "paper": Preset(
            replace(
                WIDE,
                task=PaddedTask(bits=20, size=6, padding=6, cot=False),
                attention=64,
                budget=2048 * 4883,
                past=10**6,
            ),
            crossed(shapes((1, 2), (2, 3), (4, 4)), pools(5000, 10_000, 50_000, 100_000, 1_000_000), {"": AUTHORS}),
            seeds=1,
            hours=0.6,
        ),
    },
)

SHAPES_QUICK = replace(
    SMALL,
    task=PaddedTask(bits=12, size=4, padding=4, cot=False),
    model=Decoder(width=32, std=0.177),
    samples=2000,
    test_examples=1024,
    budget=61_440,
    look=1024,
)
SHAPES = experiment(
    "shapes",
    "Figure 4: which numbers of layers and heads learn without CoT from a small set, and the CoT reference",
    (Figure("fig4", "Accuracy without CoT by layers and heads, and with CoT", figures.grids.accuracy),),
    {
        "quick": Preset(
            SHAPES_QUICK,
            {
                **shapes((1, 1), (1, 4), (2, 1)),
                "CoT": {"task.cot": True, "model.heads": 4},
            },
            seeds=3,
            note="n = 12, k = 4, 2000 sequences, width 32",
        ),
        "gpu": Preset(
            replace(
                SMALL,
                task=PaddedTask(bits=20, size=4, padding=4, cot=False),
                samples=10_000,
                decay=1.0,
                look=4096,
                budget=4096 * 244,
            ),
            {
                **shapes((1, 1), (1, 2), (1, 4), (2, 1), (4, 1), (4, 4)),
                "CoT": {"task.cot": True, "model.heads": 4},
            },
            seeds=20,
            group=20,
            hours=0.08,
            note="n = 20, k = 4, 1e4 sequences x 100 epochs at width 64; the paper's grid costs 1.5 hours",
        ),
        "paper": Preset(
            replace(
                WIDE,
                task=PaddedTask(bits=20, size=6, padding=6, cot=False),
                samples=10_000,
                budget=2048 * 4883,
            ),
            {
                **crossed(shapes(*product((1, 2, 3, 4), (1, 2, 3, 4))), {"": AUTHORS}),
                **crossed(
                    {
                        "CoT": {
                            "task.cot": True,
                            "model.layers": 4,
                            "model.heads": 4,
                            "learning_rate": 1e-5,
                            "budget": 2048 * 25,
                        }
                    },
                    {"": AUTHORS},
                ),
            },
            seeds=1,
            hours=1.5,
        ),
    },
)

NEGATIVE = experiment(
    "negative",
    "Figure 9: too many secret bits to be learnt without CoT, whatever the set and the rate; with CoT they are",
    (Figure("fig9", "Best accuracy of every run without CoT, and of those with it", figures.passes.negative),),
    {
        "quick": Preset(
            replace(SMALL, task=PaddedTask(size=8, padding=8)),
            {
                **crossed(
                    chain(False, 8, 102_400, 2048),
                    pools(2000, 10_000, 0),
                    {f"rate {rate:g}": {"learning_rate": rate} for rate in (3e-4, 1e-3, 3e-3)},
                ),
                **crossed(chain(True, 8, 61_440, 1024), pools(10_000, 0)),
            },
            seeds=3,
            note="n = 16, k = 8, one layer, four heads, width 64",
        ),
        "gpu": Preset(
            replace(WIDE, task=PaddedTask(bits=20, size=12, padding=12)),
            {
                **crossed(
                    shapes((1, 1), (1, 4), (1, 8)),
                    chain(False, 12, 1_048_576, 8192),
                    pools(10_000, 100_000, 0),
                    THREE_RATES,
                ),
                **crossed(shapes((1, 4)), chain(True, 12, 131_072, 2048), pools(10_000, 0), THREE_RATES),
            },
            seeds=5,
            group=15,
            hours=0.05,
            note="one layer at the paper's width, 1e6 samples",
        ),
        "paper": Preset(
            replace(WIDE, task=PaddedTask(bits=20, size=12, padding=12), budget=2048 * 4883),
            {
                **crossed(
                    shapes(*product((1, 2, 3, 4, 6, 8), (1, 2, 3, 4, 6, 8))),
                    chain(False, 12, 2048 * 4883, 2048),
                    pools(10_000, 100_000, 1_000_000),
                    {"": AUTHORS},
                    THREE_RATES,
                ),
                **crossed(shapes((4, 4)), chain(True, 12, 2048 * 30, 2048), pools(10_000), {"": AUTHORS}),
            },
            seeds=1,
            hours=15.0,
        ),
    },
)
