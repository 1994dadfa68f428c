"""The experiments with the theory model: features, reduced dynamics, Algorithms 1 and 2."""

from dataclasses import replace

from stairwise.lab.contract.experiment import Experiment, Figure, Preset
from stairwise.papers.lego import algorithms, curriculum, figures
from stairwise.papers.lego.config.dynamics import AttentionRun, Constants, Curriculum, Doubling, FeatureRun

# --- features (Theorems B.1 and C.1) ----------------------------------------------------------------------------------


def features_of(action: str, neurons: int, rate: float, steps: int) -> dict:
    return {"action": action, "neurons": neurons, "learning_rate": rate, "steps": steps}


FEW = {
    "C3": features_of("C3", 8, 0.02, 20_000),
    "S3": features_of("S3", 8, 0.02, 20_000),
    "S4": features_of("S4", 12, 0.04, 20_000),
}
MORE = FEW | {
    "C6": features_of("C6", 18, 0.04, 30_000),
    "A4": features_of("A4", 12, 0.04, 20_000),
    "D4": features_of("D4", 12, 0.04, 20_000),
    "D5": features_of("D5", 16, 0.04, 30_000),
    "S5": features_of("S5", 16, 0.04, 40_000),
}
FEATURES = Experiment(
    id="features",
    says="what the FFN learns on one-step chains: magnitudes, their ratio C, cancellation, one neuron for each pair",
    Config=FeatureRun,
    program=algorithms.features,
    opens_with="loss",
    precision=64,
    figures=(
        Figure(
            "theory-features",
            "The four magnitudes of the winning neurons over training, and the ratio V(g)/V(y) against C",
            figures.theory.features,
        ),
    ),
    presets={
        "quick": Preset(FeatureRun(), FEW, seeds=2),
        "gpu": Preset(FeatureRun(), MORE, seeds=8, group=8),
        "paper": Preset(
            FeatureRun(vocabulary=8192, sigma0=8192**-0.5, scale="loss", learning_rate=0.1, steps=400_000),
            {"C6": {"action": "C6", "neurons": 18}, "S4": {"action": "S4", "neurons": 12}},
            seeds=5,
            group=5,
            hours=0.3,
            note="sigma0 = d^-1/2 as in Assumption 3.3, at the first d with sigma0 log d below 1/log d; not run",
        ),
    },
)

START_ARMS = {
    f"{action}, sigma0={sigma0:g}, {scale}": {**FEW[action], "sigma0": sigma0, "scale": scale}
    for action in ("C3", "S3")
    for sigma0 in (1e-4, 1e-3, 1e-2, 256**-0.5)
    for scale in ("largest", "relative")
}
STARTS = Experiment(
    id="starts",
    says="how small the start must be for the features of the theorem, with coarse steps and with resolved ones",
    Config=FeatureRun,
    program=algorithms.features,
    opens_with="ratio",
    precision=64,
    figures=(
        Figure(
            "theory-starts",
            "Share of a pair carried by its best neuron, cancellation and ratio against the size of the start",
            figures.theory.starts,
        ),
    ),
    presets={
        "quick": Preset(FeatureRun(points=20), START_ARMS, seeds=3),
        "gpu": Preset(FeatureRun(points=10), START_ARMS, seeds=16, group=16),
    },
)

# --- attention in four scalars ----------------------------------------------------------------------------------------

ACTIONS = {name: {"action": name} for name in ("C3", "C4", "C6", "S3", "S4", "S5")}
ATTENTION = AttentionRun()
SEEDS = "the descent is exact: seeds only change the roll-outs"
DYNAMICS = Experiment(
    id="dynamics",
    says="attention on chains of two over the exact population: a, c, ε, gap, and how long a chain it carries",
    Config=AttentionRun,
    program=algorithms.attention,
    opens_with="eps",
    precision=64,
    figures=(
        Figure(
            "theory-dynamics",
            "Diagonals a and c, concentration ε(2,2) over training, and exact match against length with L*",
            figures.theory.dynamics,
        ),
    ),
    presets={
        "quick": Preset(ATTENTION, ACTIONS, seeds=2, note=SEEDS),
        "gpu": Preset(
            replace(ATTENTION, steps=20_000, test_lengths=(8, 32, 128, 512, 2048, 8192)), ACTIONS, seeds=5, note=SEEDS
        ),
    },
)

LIMIT_ARMS = {name: {"action": name} for name in ("C5", "D5", "A5", "S5", "C6", "S3-regular")}
LIMITS = Experiment(
    id="limits",
    says="which property of the action limits length: values, fiber, commutativity or solvability (beyond the paper)",
    Config=AttentionRun,
    program=algorithms.attention,
    opens_with="eps",
    precision=64,
    figures=(
        Figure(
            "theory-limits", "Exact match against length and L* for actions on 5 and on 6 values", figures.theory.limits
        ),
    ),
    presets={
        "quick": Preset(ATTENTION, LIMIT_ARMS, seeds=2, note=SEEDS),
        "gpu": Preset(
            ATTENTION,
            LIMIT_ARMS | {name: {"action": name} for name in ("A5-regular", "Q8", "D4", "A4", "D6")},
            seeds=5,
            note=SEEDS,
        ),
    },
)

WINDOW_ARMS = {
    f"{action}, C_B={factor:g}": {"action": action, "network.clip_factor": factor}
    for action in ("S3", "S4")
    for factor in (6.5, 8.0, 10.0, 12.0, 16.0)
}
WINDOW_RUN = AttentionRun(
    supervised=(2,),
    stop="window",
    learning_rate=0.001,
    steps=2000,
    points=400,
    test_lengths=(2, 4, 8),
    network=Constants(8.0),
)
WINDOW = Experiment(
    id="window",
    says="the window [4c₁/3, 2.52c₁] in which symmetric attention sits when its loss reaches exp((-1/2 + 3.01c₁)2B)",
    Config=AttentionRun,
    program=algorithms.attention,
    opens_with="loss",
    precision=64,
    figures=(
        Figure(
            "theory-window",
            "ε against C_B at the end of the stage, with both bounds, and the gap with c₁",
            figures.theory.window,
        ),
    ),
    presets={
        "quick": Preset(WINDOW_RUN, WINDOW_ARMS, seeds=1, note=SEEDS),
        "gpu": Preset(
            replace(WINDOW_RUN, learning_rate=0.0002, steps=10_000),
            WINDOW_ARMS
            | {f"S5, C_B={C:g}": {"action": "S5", "network.clip_factor": C} for C in (6.5, 8.0, 12.0, 16.0)},
            seeds=5,
            note=SEEDS,
        ),
    },
)

INDUCTION_ARMS = {
    "C3": {"action": "C3"},
    "C6": {"action": "C6"},
    "S3": {"action": "S3", "supervised": (2,), "stop": "window", "network.clip_factor": 8.0},
    "S4": {"action": "S4", "supervised": (2,), "stop": "window", "network.clip_factor": 8.0},
}
INDUCTION_RUN = AttentionRun(learning_rate=0.002, steps=2000, points=2000, test_lengths=(2, 8), test_examples=20)
INDUCTIONS = Experiment(
    id="inductions",
    says="until when each part of the induction hypotheses of Appendices D and E holds along a run, step by step",
    Config=AttentionRun,
    program=algorithms.attention,
    opens_with="eps",
    precision=64,
    figures=(
        Figure(
            "theory-inductions",
            "The steps of each stage, and until when each part of its induction hypothesis holds",
            figures.inductions.held,
        ),
    ),
    presets={
        "quick": Preset(INDUCTION_RUN, INDUCTION_ARMS, seeds=1, note=SEEDS),
        "gpu": Preset(
            replace(INDUCTION_RUN, variables=4096, learning_rate=0.0005, steps=20_000, points=5000),
            INDUCTION_ARMS,
            seeds=5,
            note=SEEDS,
        ),
    },
)

# --- the algorithms ---------------------------------------------------------------------------------------------------

STAGES = Experiment(
    id="stages",
    says="Algorithm 2 on the ideal FFN: each stage labels chains of twice the length and solves twice that again",
    Config=Doubling,
    program=algorithms.doubling,
    opens_with="eps",
    precision=64,
    figures=(
        Figure(
            "theory-stages",
            "Exact match at L, 2L, 4L, 8L after each stage, and ε(L,ℓ) for every step ℓ",
            figures.theory.stages,
        ),
    ),
    presets={
        "quick": Preset(Doubling(), seeds=2),
        "gpu": Preset(
            Doubling(variables=1024, stages=7),
            {"S4": {}, "S5": {"action": "S5"}, "S4, any step": {"supervised": "any"}},
            seeds=8,
            group=8,
        ),
    },
)

ALGORITHM_1 = Experiment(
    id="algorithm1",
    says="Algorithm 1 end to end on the theory's transformer: FFN on chains of one, attention on chains of two",
    Config=Curriculum,
    program=curriculum.algorithm1,
    opens_with="Q44 diagonal",
    figures=(
        Figure(
            "theory-algorithm1",
            "Token losses of stage 1, diagonals of Q43 and Q44 in stage 2, and exact match against length",
            figures.theory.algorithm1,
        ),
    ),
    presets={
        "quick": Preset(Curriculum(measure_every=15), {"C3": {}, "S3": {"task.action": "S3"}}, seeds=2),
        "gpu": Preset(
            Curriculum(ffn_steps=1200, attention_steps=600),
            {
                "C3": {},
                "S3": {"task.action": "S3"},
                "C3, m=5, sigma0=.01": {"neurons": 5, "sigma0": 0.01},
                "C3, m=5": {"neurons": 5},
                "C3, sigma0=.01": {"sigma0": 0.01},
            },
            seeds=8,
            group=8,
        ),
    },
)  # fmt: skip

EXPERIMENTS = (FEATURES, STARTS, DYNAMICS, LIMITS, WINDOW, INDUCTIONS, STAGES, ALGORITHM_1)
