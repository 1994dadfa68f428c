"""The experiments with the practical decoder.

The paper says: one layer, two heads, Adam at 1e-4, 300 epochs, C_6 and S_5 at L = 5, tests up to L = 160. Width,
variables, size of the data set, batch, norm, residual connections and positions are ours.
"""

from dataclasses import replace
from typing import Any

from stairwise.lab.contract.arms import Arms, crossed
from stairwise.lab.contract.experiment import Experiment, Figure, Preset
from stairwise.papers.lego import figures, microscope, train
from stairwise.papers.lego.config.practical import Practical, SelfTraining, Shape
from stairwise.papers.lego.config.task import Task

QUICK = Practical(measure_every=150, curve_examples=50)
LARGE = Practical(
    task=Task("C6", 170, 5),
    model=Shape(width=256),
    samples=10_000,
    batch=256,
    steps=11_719,
    learning_rate=1e-4,
    final_rate=1.0,
    warm_up=0,
    test_lengths=(5, 10, 20, 40, 80, 160),
    test_examples=256,
    measure_every=4000,
)
LITERAL = replace(
    LARGE,
    task=Task("C6", 192, 5),
    samples=100_000,
    steps=117_188,
    test_examples=1000,
    measure_every=20_000,
)


def practical(id: str, says: str, figures: tuple[Figure, ...], presets: dict[str, Preset]) -> Experiment:
    return Experiment(
        id=id,
        says=says,
        Config=Practical,
        program=train.training,
        opens_with="exact *",
        own=train.training_own,
        model=train.stored_model,
        microscope=microscope.diagonals,
        figures=figures,
        presets=presets,
    )


def actions_under(actions: tuple[str, ...], protocols: Arms) -> dict[str, dict[str, Any]]:
    """An arm for every protocol and action, protocol by protocol."""
    named = {action: {"task.action": action} for action in actions}
    by_protocol = [crossed(named, {protocol: fields}) for protocol, fields in protocols.items()]
    return {name: fields for arms in by_protocol for name, fields in arms.items()}


# --- Figure 1a --------------------------------------------------------------------------------------------------------

FINITE: dict[str, Any] = {}
FAST: dict[str, Any] = {"samples": 0, "learning_rate": 1e-3, "final_rate": 0.05}
RESIDUALS: Arms = {"": {}, "no residual": {"model.attention_residual": False}}
MAPS = (5, 10, 20)  # lengths at which attention is kept
OPEN: Arms = {
    "10,000 sentences": FINITE,
    "100,000 sentences": {"samples": 100_000},
    "10,000 sentences, cosine": {"final_rate": 0.05},
    "fresh, 1e-3 cosine": FAST,
}
LENGTH = practical(
    "length",
    "Figures 1a, 2, 5, 6, 7: trained at L = 5, a cyclic and a symmetric action beyond it, and where answers look",
    (
        Figure("fig1a", "Exact match of all values against length, by protocol", figures.lengths.two_actions, True),
        Figure("fig2", "Mean attention of answers to clauses at the training length", figures.attention.heat_maps),
        Figure("fig5", "The same decoders on permuted predicates", figures.attention.permuted),
        Figure("fig6", "Attention to the right predicate against its place", figures.attention.predicate_diagonal),
        Figure("fig7", "Attention of an answer to itself against its place", figures.attention.answer_diagonal),
    ),
    {
        "quick": Preset(
            replace(QUICK, keep_weights=True, map_lengths=MAPS),
            actions_under(("C4", "S4"), RESIDUALS),
            seeds=3,
            note="fresh data, 3000 steps",
        ),
        "gpu": Preset(
            replace(LARGE, map_lengths=MAPS, tell_variables=True),
            actions_under(("C6", "S5"), crossed(OPEN, RESIDUALS)),
            seeds=8,
            group=32,
            note="11,719 steps; the first protocol is the paper's, 300 epochs, with a data set of our size",
        ),
        "paper": Preset(
            replace(LITERAL, map_lengths=MAPS, tell_variables=True),
            actions_under(("C6", "S5"), crossed({"100,000 sentences, 300 epochs": FINITE}, RESIDUALS)),
            seeds=8,
            group=8,
            hours=0.6,
            note="size of the data set, width and batch are not in the paper",
        ),
    },
)

CONTROLS = practical(
    "controls",
    "beyond the paper: actions that differ in one thing only; C₆ and S₃ on itself have equal sizes and both are free",
    (Figure("fig-controls", "Exact match against length, actions of equal sizes", figures.lengths.controls),),
    {
        "quick": Preset(QUICK, actions_under(("C6", "S3-regular"), {"": {}}), seeds=3),
        "gpu": Preset(
            LARGE, actions_under(("C6", "S3-regular", "C5", "D5", "A5", "S5"), {"": FINITE}), seeds=5, group=5
        ),
    },
)

# --- when do they separate? -------------------------------------------------------------------------------------------


def cells(*pools: int) -> dict[str, dict[str, Any]]:
    """Finite pools or fresh data (0), with and without norm."""
    return {
        f"{f'{pool:,} sentences' if pool else 'fresh'}{'' if norm else ', no norm'}": {
            "samples": pool,
            "model.norm": norm,
        }
        for norm in (True, False)
        for pool in pools
    }


MAP = practical(
    "map",
    "when cyclic and symmetric actions separate: size of the pool x training steps x norm",
    (Figure("fig1a-map", "Exact match, cyclic minus symmetric, over pools, steps and norm", figures.map.separation),),
    {
        "quick": Preset(
            replace(
                QUICK,
                batch=32,
                steps=2000,
                final_rate=1.0,
                test_lengths=(5, 20, 40),
                test_examples=100,
                curve_examples=0,
                measure_every=500,
            ),
            actions_under(("C4", "S4"), cells(1000, 0)),
            seeds=2,
            note="constant rate 1e-3, so that every measurement is a training of that length",
        ),
        "gpu": Preset(
            replace(LARGE, steps=16_000, test_lengths=(5, 20, 40, 80, 160), measure_every=4000),
            actions_under(("C6", "S5"), cells(10_000, 50_000, 0)),
            seeds=5,
            group=15,
        ),
    },
)

# --- Figure 1b --------------------------------------------------------------------------------------------------------

OWN = {"samples": 10_000, "batch": 256, "steps": 5000, "learning_rate": 1e-4, "final_rate": 1.0}
SELF = Experiment(
    id="self-training",
    says="Figure 1b: the symmetric action, trained at L = 5, then on its own labels at 10, 20 and 40",
    Config=SelfTraining,
    program=train.self_training,
    opens_with="exact *",
    figures=(
        Figure("fig1b", "Exact match against length after every stage, and label accuracy", figures.lengths.stages),
    ),
    presets={
        "quick": Preset(
            SelfTraining(
                base=replace(QUICK, task=Task("S4", 48, 5), steps=2000, measure_every=100),
                samples=500,
                steps=200,
            ),
            seeds=3,
            note="a base that is weak at L = 40, 200 steps per stage",
        ),
        "gpu": Preset(
            SelfTraining(base=replace(LARGE, task=Task("S5", 170, 5), measure_every=11_719), **OWN), seeds=5, group=5
        ),
        "paper": Preset(
            SelfTraining(
                base=replace(LITERAL, task=Task("S5", 192, 5)),
                **{**OWN, "samples": 100_000, "steps": 117_188},
            ),
            seeds=8,
            group=4,
            hours=8.0,
            note="300 epochs per stage; the paper does not say how many",
        ),
    },
)

# --- positions --------------------------------------------------------------------------------------------------------

KINDS = {name: {"model.positions": name} for name in ("none", "learned", "rotary", "randomised")}
POSITIONS = practical(
    "positions",
    "beyond the paper: only decoders that are not told positions, or are told random ones, go beyond L = 5",
    (Figure("fig-positions", "Exact match against length, by positional encoding", figures.lengths.positions),),
    {
        "quick": Preset(
            replace(
                QUICK,
                task=Task("C4", 24, 5),
                steps=1500,
                test_lengths=(5, 10, 20),
                test_examples=200,
                measure_every=75,
            ),
            KINDS,
            seeds=3,
        ),
        "gpu": Preset(
            replace(LARGE, test_lengths=(5, 10, 20, 40, 80)),
            {name: FAST | fields for name, fields in KINDS.items()},
            seeds=5,
            group=5,
        ),
    },
)

EXPERIMENTS = (LENGTH, SELF, MAP, POSITIONS, CONTROLS)
