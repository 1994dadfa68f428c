"""Every experiment of the paper with its presets: complete hyper-parameters, nothing implied."""

from dataclasses import replace

from stairwise.lab.contract.arms import crossed
from stairwise.lab.contract.experiment import Experiment, Figure, Preset
from stairwise.papers.composition import encoder, figures, hardness, microscope, threshold, train
from stairwise.papers.composition.config import Descent, Encoder, Hardness, Model, Task, Threshold, Values


def descent(id: str, says: str, figures: tuple[Figure, ...], presets: dict[str, Preset]) -> Experiment:
    return Experiment(
        id=id,
        says=says,
        Config=Descent,
        program=train.descent,
        opens_with="accuracy *",
        model=train.stored_model,
        microscope=microscope.attention,
        figures=figures,
        presets=presets,
        version=2,
    )


# --- the two algorithms -----------------------------------------------------------------------------------------------

SIXTEEN = Descent(task=Task(16, 5), samples=131_072, block=1024, learning_rate=1e6)
CURRICULUM = descent(
    "curriculum",
    "Figure 3 left: Algorithm 1 learns one hop count after another, one gradient step each",
    (
        Figure(
            "fig3-left",
            "Algorithm 1: held-out loss of every head after every step",
            figures.algorithms.curriculum,
            True,
        ),
    ),
    {
        "quick": Preset(Descent(task=Task(8, 5), path="integer", block=2048), seeds=3),
        "gpu": Preset(SIXTEEN, seeds=5, group=1, note="the paper's size through soft attention"),
        "paper": Preset(SIXTEEN, seeds=8, group=1, hours=0.5, note="batch and rates are not in the paper"),
    },
)

EIGHT = Descent(task=Task(8, 5), algorithm="mixture", samples=32_768, block=1024, learning_rate=4e5)
MIXTURE = descent(
    "mixture",
    "Figure 3 middle: Algorithm 2 learns from all hop counts at once, and still one layer a step",
    (
        Figure("fig3-mid", "Algorithm 2: held-out loss of every head after every step", figures.algorithms.mixture),
        Figure("fig-staircase", "Algorithm 2: how far each step moves each layer", figures.algorithms.staircase),
    ),
    {
        "quick": Preset(
            replace(EIGHT, task=Task(4, 4), samples=8192, block=512, learning_rate=3e4, test_examples=64), seeds=3
        ),
        "gpu": Preset(EIGHT, seeds=8, group=2, note="the paper's size"),
        "paper": Preset(EIGHT, seeds=8, group=2, hours=0.1, note="batch and rates are not in the paper"),
    },
)

ANY = Descent(task=Task(3, 5, any_blocks=True), path="integer", block=2048, learning_rate=1e5)
ANY_SIZES = {
    "k=3": {},
    "k=6": {"task.blocks": 6, "samples": 65_536, "learning_rate": 4e5},
}
ANY_BLOCKS = descent(
    "any-blocks",
    "beyond the paper: Algorithm 1 where k is no power of two, with a layer for each further bit of k",
    (Figure("fig-any-blocks", "Algorithm 1 at k = 3 and 6: loss of every head", figures.algorithms.any_blocks),),
    {
        "quick": Preset(ANY, ANY_SIZES, seeds=3),
        "gpu": Preset(
            replace(ANY, path="exact", block=1024),
            ANY_SIZES | {"k=12": {"task.blocks": 12, "samples": 131_072, "learning_rate": 2e6}},
            seeds=5,
            group=1,
        ),
    },
)

SPARSE = Descent(task=Task(4, 4, moved=1), embedding="compact", samples=16_384, block=512, learning_rate=1e5)


def sparse_arms(blocks: int) -> dict[str, dict]:
    compact = {f"compact, m={m}": {"task.moved": m} for m in range(0, blocks + 1, max(1, blocks // 4))}
    return compact | {f"one-hot, m={blocks // 4}": {"embedding": "onehot", "task.moved": blocks // 4}}


SPARSE_LEARNING = descent(
    "sparse",
    "beyond the paper: Algorithm 1 with the compact code of Theorem 9, m hidden permutations that move",
    (
        Figure(
            "fig-sparse", "One gradient step with the compact code: attention on the right key", figures.sweeps.sparse
        ),
    ),
    {
        "quick": Preset(
            SPARSE, {name: sparse_arms(4)[name] for name in ("compact, m=0", "compact, m=1", "one-hot, m=1")}
        ),
        "gpu": Preset(
            replace(SPARSE, task=Task(8, 5, moved=2), samples=65_536, learning_rate=4e6), sparse_arms(8), seeds=5
        ),
    },
)

FREE = Descent(
    task=Task(8, 5), samples=32_768, block=1024, stages=1, values=Values(free=True, noise=1.0), test_examples=20
)
SCALES = {f"c={c:g}": {"values.scale": c} for c in (-0.4, 0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)}
TRAINED = {
    f"trained, rate {rate:g}": {"stages": 0, "values.noise": 0.0, "values.rate": rate}
    for rate in (0.0, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
}
VALUES = descent(
    "values",
    "beyond the paper: value matrices V = cI + noise, and V trained along",
    (
        Figure(
            "fig-values",
            "Positions learned against c of V = cI + noise, and what the signs predict",
            figures.sweeps.values,
        ),
        Figure(
            "fig-values-trained",
            "Accuracy of every head where V takes gradient steps too",
            figures.sweeps.trained_values,
        ),
    ),
    {
        "quick": Preset(replace(FREE, task=Task(4, 5), samples=8192, learning_rate=1e5), SCALES | TRAINED, seeds=3),
        "gpu": Preset(FREE, SCALES | TRAINED, seeds=8, group=8),
    },
)

# --- sample sizes -----------------------------------------------------------------------------------------------------


def sizes(*pairs: tuple[int, int]) -> dict[str, dict]:
    return {f"k={k}, N={N}": {"task.blocks": k, "task.alphabet": N} for k, N in pairs}


LARGE = sizes((2, 5), (4, 3), (4, 5), (4, 8), (4, 12), (8, 5), (16, 5))
THRESHOLD = Experiment(
    id="threshold",
    says="the sample size M* from which attention is right, against k and N, with and without sharing positions",
    Config=Threshold,
    program=threshold.threshold,
    opens_with="wrong",
    figures=(
        Figure(
            "fig-threshold", "Share of wrong attention against M, and M* against kN(L+1)²", figures.sweeps.thresholds
        ),
        Figure("fig-sharing", "The same with the gradient averaged over positions", figures.sweeps.sharing),
    ),
    presets={
        "quick": Preset(
            Threshold(looks=(0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)),
            sizes((2, 5), (4, 3), (4, 5), (4, 8), (8, 5)),
            seeds=3,
        ),
        "gpu": Preset(
            Threshold(
                block=256, looks=(0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 24.0, 32.0, 64.0), test_examples=80
            ),
            LARGE,
            seeds=8,
            group=8,
        ),
    },
)

# --- the standard transformer -----------------------------------------------------------------------------------------

SMALL = Encoder(
    task=Task(4, 4),
    model=Model(layers=2, width=64, heads=4, hidden_multiple=2),
    batch=64,
    learning_rate=2e-3,
    warm_up=50,
    steps=400,
    measure_every=20,
    test_examples=128,
)
ONE_QUERY = Encoder(supervise="one", final_rate=1.0, steps=12_000)
SLOWER = replace(ONE_QUERY, learning_rate=2e-4, steps=14_000, model=Model(compute="bfloat16"))
HOPS = {"1, 2 and 4 hops": {"hops": (1, 2, 4)}, "4 hops only": {"hops": (4,)}}
ENCODER = Experiment(
    id="encoder",
    says="Figure 3 right: a standard transformer learns 4 hops from the mixture 1, 2, 4, not from 4 hops alone",
    Config=Encoder,
    program=encoder.training,
    opens_with="accuracy *",
    figures=(
        Figure(
            "fig3-right",
            "A standard transformer on 1, 2 and 4 hops or on 4 alone: held-out accuracy of every run, and the share of"
            " runs that have learnt 4 hops (Kaplan-Meier with 95 % limits)",
            figures.encoder.mix,
        ),
    ),
    presets={
        "quick": Preset(SMALL, HOPS, seeds=1, note="too small and short for 4 hops; the gpu preset shows the figure"),
        "gpu": Preset(
            ONE_QUERY,
            HOPS,
            seeds=16,
            group=8,
            note="one query per sequence as in Section 5.1; constant rate, so that a take-off can come at any step",
        ),
        "paper": Preset(
            replace(ONE_QUERY, steps=50_000),
            HOPS,
            seeds=16,
            group=8,
            hours=0.9,
            note="k, M = 1e5 and one query per sequence are the paper's; the rest is not in it",
        ),
    },
)

WAITING = Experiment(
    id="waiting",
    says="Figure 3 right once more at a smaller rate: how long a transformer waits until it learns 4 hops",
    Config=Encoder,
    program=encoder.training,
    opens_with="accuracy *",
    figures=(
        Figure(
            "fig3-right-waiting",
            "Figure 3 right at a rate of 2e-4: held-out accuracy of every run, and the share of runs that have learnt"
            " 4 hops (Kaplan-Meier with 95 % limits)",
            figures.encoder.mix,
        ),
    ),
    presets={
        "quick": Preset(
            replace(SMALL, supervise="one", learning_rate=1e-3, final_rate=1.0),
            HOPS,
            seeds=1,
            note="too small and short for 4 hops; the gpu preset shows the figure",
        ),
        "gpu": Preset(
            SLOWER,
            HOPS,
            seeds=16,
            group=16,
            note="as `encoder`, with the rate of the longer of two first trials and the stream in bfloat16",
        ),
    },
)


def letters(*counts: int) -> dict[str, dict]:
    return crossed({f"N={N}": {"task.alphabet": N} for N in counts}, HOPS)


LETTERS = Experiment(
    id="letters",
    says="Figure 3 right with more letters: how long a transformer waits until it learns 4 hops at N = 6 and 8",
    Config=Encoder,
    program=encoder.training,
    opens_with="accuracy *",
    figures=(
        Figure(
            "fig3-right-letters",
            "Figure 3 right with other numbers of letters: held-out accuracy of every run, and the share of runs that"
            " have learnt 4 hops (Kaplan-Meier with 95 % limits)",
            figures.encoder.letters,
        ),
    ),
    presets={
        "quick": Preset(
            replace(SMALL, supervise="one", learning_rate=1e-3, final_rate=1.0),
            letters(3),
            seeds=1,
            note="too small and short for 4 hops; the gpu preset shows the figure",
        ),
        "gpu": Preset(
            SLOWER,
            letters(6, 8),
            seeds=12,
            group=12,
            note="the training of `waiting`, which has N = 5",
        ),
    },
)


def pools(*counts: int) -> dict[str, dict]:
    return {(f"M={count:,}" if count else "fresh"): {"samples": count} for count in counts}


REPETITION = Experiment(
    id="repetition",
    says="beyond the paper: the same steps on few examples repeated often, or on many seen once",
    Config=Encoder,
    program=encoder.training,
    opens_with="accuracy *",
    figures=(
        Figure("fig-repetition", "Held-out accuracy against steps, by the number of examples", figures.encoder.pools),
    ),
    presets={
        "quick": Preset(
            replace(SMALL, task=Task(2, 5), hops=(1, 2), test_hops=(1, 2)),
            pools(100, 300, 3000, 0),
            seeds=3,
            note="two hops, which a CPU minute reaches",
        ),
        "gpu": Preset(
            SLOWER,
            {"fresh": {"samples": 0}, "fresh, 4 hops only": {"samples": 0, "hops": (4,)}} | pools(30_000),
            seeds=8,
            group=8,
            note="the training of `waiting` on pools that are repeated more or less often",
        ),
    },
)

TAKEOFF_SIZES = {
    f"k={k}, N={N}": {"task.blocks": k, "task.alphabet": N, "hops": (k,), "test_hops": (k,)}
    for k, N in ((2, 4), (2, 8), (2, 12), (4, 3), (4, 4))
}
ALONE = Encoder(
    task=Task(2, 4),
    hops=(2,),
    test_hops=(2,),
    supervise="one",
    model=Model(layers=3, width=128, heads=4),
    batch=256,
    learning_rate=1e-3,
    final_rate=1.0,
    warm_up=200,
    steps=6000,
    test_examples=256,
)
TAKEOFF = Experiment(
    id="takeoff",
    says="beyond the paper: from how many labels k hops alone are learnt, against N(N-1)²ᵏ⁻¹",
    Config=Encoder,
    program=encoder.training,
    opens_with="accuracy *",
    figures=(
        Figure(
            "fig-takeoff",
            "Runs that learn k hops alone by the number of labels, against N(N-1)²ᵏ⁻¹",
            figures.encoder.takeoff,
        ),
    ),
    presets={
        "quick": Preset(
            replace(
                ALONE,
                model=SMALL.model,
                batch=64,
                learning_rate=2e-3,
                warm_up=50,
                steps=800,
                test_examples=128,
                measure_every=40,
            ),
            crossed({"k=2, N=3": {"task.alphabet": 3}, "k=2, N=4": {}}, pools(100, 1600, 0)),
            seeds=2,
            note="two sizes, 800 steps",
        ),
        "gpu": Preset(
            ALONE,
            crossed(TAKEOFF_SIZES, pools(100, 400, 1600, 6400, 25_600, 102_400, 0)),
            seeds=5,
            group=35,
            note="a pool of M sequences has M labels",
        ),
    },
)

# --- hardness ---------------------------------------------------------------------------------------------------------

NETWORKS = crossed(
    {network: {"network": network} for network in ("perceptron", "encoder")},
    {f"{hops} hop{'s' if hops > 1 else ''}": {"hops": hops} for hops in (1, 2, 3)},
)
HARDNESS = Experiment(
    id="hardness",
    says="how much of the hidden permutations a random network's population gradient sees, against the SQ bound",
    Config=Hardness,
    program=hardness.gradient_variance,
    opens_with="largest share of the bound",
    study=True,
    precision=64,
    figures=(
        Figure("fig-hardness", "Variance of the gradient over hidden permutations, against k", figures.sweeps.hardness),
    ),
    presets={
        "quick": Preset(Hardness(), NETWORKS, seeds=2),
        "gpu": Preset(Hardness(width=64), NETWORKS, seeds=8, note="runs on the host"),
    },
)

EXPERIMENTS = (
    CURRICULUM,
    MIXTURE,
    ENCODER,
    WAITING,
    LETTERS,
    THRESHOLD,
    REPETITION,
    TAKEOFF,
    VALUES,
    SPARSE_LEARNING,
    ANY_BLOCKS,
    HARDNESS,
)
