"""Every experiment of the paper with its presets: complete hyper-parameters, nothing implied."""

from dataclasses import replace

from stairwise.lab.contract.arms import crossed
from stairwise.lab.contract.experiment import Experiment, Figure, Preset
from stairwise.papers.selection import fcn, figures, microscope, population, train
from stairwise.papers.selection.config import Encodings, Fcn, Online, Population, Task
from stairwise.papers.selection.model import ideal
from stairwise.train.leaves import stored

MODEL = stored(lambda config: ideal(config.task.width, config.encoding.width))
ARMS = {"stochastic": {"encoding.pool": 0}, "fixed": {"encoding.pool": 1}}

# a CPU minute: lengths and thresholds scaled down together, plain sign vectors
QUICK = Online(
    task=Task(length=24, sparsity=3, width=5),
    encoding=Encodings(width=48, threshold=1.0, scheme="none"),
    batch=64,
    steps=1500,
    measure_every=50,
    test_lengths=(30, 36, 42, 48),
    test_sparsities=(4, 5, 6),  # beyond, overlaps <e_i, e_y> of 48-dimensional signs reach 1 and nothing can select
)
# Section 4 and Appendix F
PAPER = Online(
    task=Task(length=200, sparsity=3, width=5),
    encoding=Encodings(width=170, threshold=0.35, scheme="offenders"),
    learning_rate=1.0,
    drop_at=50_000,
    drop_by=3.0,
    batch=128,
    steps=100_000,
    measure_every=500,
    test_lengths=(250, 300, 350, 400),
    test_sparsities=(5, 6, 7, 8),
)
ADAM = {"optimizer": "adam", "drop_at": 2**30}
RANDOM = {"start": "random", "query_token": "gaussian"}


def _online(id: str, says: str, figures: tuple[Figure, ...], quick: dict, paper: dict) -> Experiment:
    """An experiment of two arms, fixed and stochastic encodings, that changes some fields of the common presets."""
    return Experiment(
        id=id,
        says=says,
        Config=Online,
        program=train.online,
        opens_with="loss length=*",
        model=MODEL,
        figures=figures,
        presets={
            "quick": Preset(replace(QUICK, **quick), ARMS, seeds=3),
            "gpu": Preset(replace(PAPER, **paper), ARMS, seeds=8, group=16),
            "paper": Preset(
                replace(PAPER, **{"batch": 256, **paper}), ARMS, seeds=5, group=10, hours=0.1, note="batch of Section 4"
            ),
        },
    )


def _generalisation(id: str, title: str, headline: bool = False) -> Figure:
    caption = f"{title}: validation loss on longer sequences (top) and on larger subsets (bottom)"
    return Figure(id, caption, figures.generalisation, headline)


ONLINE = _online(
    "online",
    "SGD from zero: stochastic against fixed encodings, in and out of distribution",
    (
        Figure("fig2", "Length generalisation: stochastic against fixed encodings", figures.lengths, True),
        Figure("fig1", "Training loss, inverse loss, and cosine to the ground truth", figures.convergence),
        _generalisation("fig4", "SGD from zero"),
    ),
    quick={},
    paper={},
)
ADAM_ZERO = _online(
    "adam", "Figure 5: Adam from zero", (_generalisation("fig5", "Adam from zero"),),
    quick={"learning_rate": 3e-3, **ADAM}, paper={"learning_rate": 1e-3, **ADAM},
)  # fmt: skip
SGD_RANDOM = _online(
    "sgd-random", "Figure 6: SGD from a random start", (_generalisation("fig6", "SGD from a random start"),),
    quick={**RANDOM, "steps": 3000, "drop_at": 1500}, paper=RANDOM,  # the paper's schedule: a third from half-way on
)  # fmt: skip
ADAM_RANDOM = _online(
    "adam-random", "Figure 7: Adam from a random start", (_generalisation("fig7", "Adam from a random start"),),
    quick={"learning_rate": 3e-3, **ADAM, **RANDOM}, paper={"learning_rate": 1e-3, **ADAM, **RANDOM},
)  # fmt: skip

# the first four are those of Figure 8; the others let one watch
WATCHED = (0, 100, 500, 5000, 5, 10, 20, 35, 50, 75, 150, 200, 300, 400, 650, 800, 1000, 1500, 2000, 3000, 4000)
HEAT = Online(
    task=Task(length=10, sparsity=3, width=20),
    encoding=Encodings(width=20, threshold=0.2, scheme="offenders"),
    learning_rate=0.3,
    drop_at=2500,
    drop_by=3.0,
    batch=256,
    steps=5000,
    start="random",
    start_std=20**-0.5,
    query_token="gaussian",
    measure_every=100,
    snapshots=WATCHED,
    test_lengths=(12,),
    test_sparsities=(4,),
)
LONG_HEAT = replace(
    HEAT, steps=50_000, drop_at=25_000, snapshots=(*WATCHED, 7000, 10_000, 15_000, 20_000, 30_000, 40_000, 50_000)
)
HEATMAP = Experiment(
    id="heatmap",
    says="Figures 3 and 8: W and V turn into the identity blocks",
    Config=Online,
    program=train.online,
    opens_with="loss fresh",
    model=MODEL,
    microscope=microscope.weights,
    figures=(
        Figure("fig3", "W and V at the start and after training", figures.heatmaps_ends),
        Figure("fig8", "W and V over training", figures.heatmaps_all),
    ),
    presets={
        "quick": Preset(HEAT, seeds=1, note="the published sizes; one seed because the picture is of one run"),
        "gpu": Preset(LONG_HEAT, seeds=5, group=5),
        "paper": Preset(LONG_HEAT, seeds=5, group=5, hours=0.02),
    },
)

WIDTHS = {f"m={m}": {"first_width": m} for m in (2, 4, 5, 6, 16)}
LITERAL = {f"literal m={m}": {"query": "input", "first_width": m, "widest": 128} for m in (5, 128)}
FCN = Experiment(
    id="fcn",
    says="Theorem 3.5 seen by trained nets: no fully connected net narrower than Td gets below the bound",
    Config=Fcn,
    program=fcn.train_fcn,
    opens_with="train_loss",
    figures=(Figure("fig-fcn", "Risk of trained nets against first-layer width", figures.fcn_risks),),
    presets={
        "quick": Preset(Fcn(), WIDTHS | LITERAL, seeds=2),
        "gpu": Preset(
            Fcn(task=Task(8, 2, 2), widest=32, steps=20_000),
            {f"m={m}": {"first_width": m} for m in (1, 2, 4, 8, 12, 15, 16, 32)},
            seeds=5,
            group=40,
        ),
    },
)


def _both(name: str, **fields) -> dict[str, dict]:
    changes = {path.replace("__", "."): value for path, value in fields.items()}
    return crossed({name: changes}, ARMS)


SWITCHES = {
    **_both("paper"),
    "pool of 4": {"encoding.pool": 4},
    "pool of 32": {"encoding.pool": 32},
    **_both("300 samples", samples=300),
    **_both("3000 samples", samples=3000),
    **_both("Adam", optimizer="adam", learning_rate=3e-3),
    **_both("random start", start="random"),
    **_both("W = K'Q", factorised=53),
    **_both("one-hot tokens", tokens="onehot"),
    **_both("Laplace tokens", tokens="laplace"),
    **_both("mean-1 tokens, eta .2", tokens="shifted", learning_rate=0.2),
    **_both("alpha = 1", train_value=False),
    **_both("beta 3", beta=3.0),
    **_both("query attended", attend_query=True),
    "8 encodings a step, outputs averaged": {"encoding.per_step": 8, "encoding.average": "output"},
}
BEYOND = Experiment(
    id="beyond",
    says="what happens when an assumption is changed: data, encodings, optimiser, parametrisation, temperature",
    Config=Online,
    program=train.online,
    opens_with="loss length=*",
    model=MODEL,
    figures=(Figure("fig-beyond", "Each switch: in distribution, longer, larger subsets", figures.switches),),
    presets={
        "quick": Preset(QUICK, SWITCHES, seeds=2),
        "gpu": Preset(replace(QUICK, steps=10_000, measure_every=100), SWITCHES, seeds=8, group=16),
    },
)

LENGTHS = {f"T={T}": {"task.length": T, "test_lengths": (T * 5 // 4, T * 3 // 2, 2 * T)} for T in (12, 20, 50, 200)}
POPULATION = Experiment(
    id="population",
    says="gradient flow on the population loss, exactly: the 1/t law and what the weights cost at other lengths",
    Config=Population,
    program=population.dynamics,
    opens_with="loss",
    study=True,
    precision=64,
    figures=(Figure("fig-population", "The 1/t law, and the loss at other lengths", figures.population_dynamics),),
    presets={
        "quick": Preset(Population(), LENGTHS, seeds=1),
        "gpu": Preset(Population(horizon=1e8, points=1000), LENGTHS, seeds=1, note="runs on the host in seconds"),
    },
)

EXPERIMENTS = (ONLINE, ADAM_ZERO, SGD_RANDOM, ADAM_RANDOM, HEATMAP, FCN, POPULATION, BEYOND)
