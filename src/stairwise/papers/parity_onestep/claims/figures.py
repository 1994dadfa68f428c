"""The empirical claims: what each experiment is expected to show, with pass lines."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.checks import at_least, at_most, note, row
from stairwise.lab.contract.plots import grouped
from stairwise.papers.parity_onestep import boundary, runs
from stairwise.papers.parity_onestep.claims.ledger import LEDGER

CHANCE = 0.6  # an accuracy below this is no better than guessing


def finals(records: Sequence[Any], *names: str):
    """One row per trial: arm, seed, and the last value of some metrics."""
    for record in records:
        yield row({"arm": record.arm, "seed": record.seed} | {name: record.final(name) for name in names})


def table(rows: Sequence[dict[str, Any]]):
    for values in rows:
        yield row(values)


def highest(records: Sequence[Any], name: str) -> float:
    return max(record.final(name) for record in records)


def lowest(records: Sequence[Any], name: str) -> float:
    return min(record.final(name) for record in records)


# --- one step with teacher forcing ------------------------------------------------------------------------------------


@LEDGER.empirical(
    "fig-onestep",
    statement="ours: Theorem 5 in runs",
    experiment="onestep",
    says="one step learns the parity: every seed has accuracy 1 on fresh inputs and a root sup error below 0.05",
)
def one_step_learns(records: Sequence[Any]):
    yield at_most("wrong answers", 1 - lowest(records, "accuracy"), 0.0)
    yield at_most("root sup error", highest(records, "root sup"), 0.05)
    yield at_most("nodes without their children", 1 - lowest(records, "support"), 0.0)
    yield from finals(records, "root sup", "nodes sup", "accuracy", "imbalance", "root logit")


@LEDGER.empirical(
    "fig-phase",
    statement="ours: the samples that one step takes",
    experiment="phase",
    says=r"the $n$ from which on one step succeeds grows more slowly than $d^2$ (95 % interval of the exponent),"
    " and at the largest n of the map every run does",
)
def boundary_below_square(records: Sequence[Any]):
    law, support = boundary.boundary(records, "success"), boundary.boundary(records, "support")
    sizes, counts, share = boundary.success_map(records)
    rows = [
        {"d": d} | dict(zip((f"n={n:.0f}" for n in counts), row, strict=True))
        for d, row in zip(sizes, share, strict=True)
    ]
    yield from table(rows)
    if law is None:
        yield note("too few sizes with a boundary inside the map")
        return
    yield note(f"success from {law}; children found from {support or 'below the map'}")
    yield at_most("upper end of the exponent", law.exponent.high, 2.0)
    yield at_most("failures at the largest n", 1 - float(share[:, -1].min()), 0.0)


@LEDGER.empirical(
    "fig-scaling",
    statement="ours: the error after one step in runs",
    experiment="scaling",
    says=r"once it succeeds, the largest error over all nodes falls like $1/n$ (slope $-1 \pm 0.25$)"
    r" and is $c\tanh^2(\Delta/2)$ of the worst node (factor 1.5)",
)
def error_falls_as_inverse_samples(records: Sequence[Any]):
    rows = []
    for record in records:
        counts, errors = boundary.curve(record, "nodes sup")
        predicted = 4.0 * np.tanh(boundary.curve(record, "imbalance")[1] / 2) ** 2
        for n, error, value in zip(counts, errors, predicted, strict=True):
            rows.append({"d": record.config.task.bits, "seed": record.seed, "n": n, "error": error, "law": value})
    small = [each for each in rows if each["error"] < 0.3]
    # one slope for all sizes, each with its own level
    sizes = sorted({each["d"] for each in small})
    design = np.array([[np.log(each["n"])] + [each["d"] == d for d in sizes] for each in small], dtype=np.float64)
    slope = np.linalg.lstsq(design, np.log([each["error"] for each in small]), rcond=None)[0][0]
    ratio = np.median([each["error"] / each["law"] for each in small])
    yield at_most("slope away from -1", abs(slope + 1), 0.25)
    yield at_most("error over law", float(max(ratio, 1 / ratio)), 1.5)
    yield note(f"slope {slope:.3f}; median of error over law {ratio:.3f}")
    yield from table(rows)


@LEDGER.empirical(
    "fig-dimension",
    statement="ours: Theorem 5 at large d",
    experiment="dimension",
    says="one step learns k = 32 at every d up to the largest: accuracy 1 and root sup error below 0.05, every seed",
)
def large_dimensions(records: Sequence[Any]):
    yield at_most("wrong answers", 1 - lowest(records, "accuracy"), 0.0)
    yield at_most("root sup error", highest(records, "root sup"), 0.05)
    yield from finals(records, "root sup", "nodes sup", "accuracy", "imbalance", "leakage")


@LEDGER.empirical(
    "fig-lam",
    statement="ours: the learning rate of one step",
    experiment="lam",
    says="the error is U-shaped in lam: at both ends its median is over ten times the smallest, which lies inside",
)
def u_shaped(records: Sequence[Any]):
    arms = grouped(records, lambda record: record.config.rate.lam)
    medians = {lam: float(np.median([r.final("root sup") for r in arms[lam]])) for lam in sorted(arms)}
    values = list(medians.values())
    yield at_least("left end over smallest", values[0] / min(values), 10.0)
    yield at_least("right end over smallest", values[-1] / min(values), 10.0)
    best = min(medians, key=lambda lam: medians[lam])
    rows = [{"lam": lam, "median root sup": value} for lam, value in medians.items()]
    yield note(f"smallest at lam = {best:g}")
    yield from table(rows)


@LEDGER.empirical(
    "fig-link",
    statement="ours: links compared",
    experiment="link",
    says="at a realised logit of 9 all links but slope 2.1 solve every seed (root sup < 0.5); it errs ten times poly4",
)
def links_compared(records: Sequence[Any]):
    at_nine = [record for record in records if record.config.rate.lam == 9.0]
    arms = grouped(at_nine, lambda record: record.arm.partition(",")[0])
    good = [record for name, arm in arms.items() if name != "requ(2.1)" for record in arm]
    medians = {name: float(np.median([record.final("root sup") for record in arm])) for name, arm in arms.items()}
    yield at_most("root sup of the others", highest(good, "root sup"), 0.5)
    yield at_least("requ(2.1) over poly4", medians["requ(2.1)"] / medians["poly4"], 10.0)
    yield from finals(at_nine, "root sup", "accuracy", "root logit", "nominal logit")


@LEDGER.empirical(
    "fig-noise",
    statement="ours: Theorem 5's oracle in runs",
    experiment="noise",
    says="adversarial noise: C = 0.03 leaves accuracy 1 (every seed), C >= 0.2 destroys the one step (every seed);"
    " saturating weights (extension) do not feel C = 1",
)
def tolerates_noise(records: Sequence[Any]):
    plain = [record for record in records if record.config.quantiser.kind == "none"]
    bounded = [record for record in records if record.config.quantiser.kind == "saturating"]
    small = [record for record in plain if record.config.oracle.strength <= 0.03]
    large = [record for record in plain if record.config.oracle.strength >= 0.2]
    by_strength = grouped(bounded, lambda record: record.config.oracle.strength)
    undisturbed = {(r.config.task.bits, r.seed): r.final("root sup") for r in by_strength[0.0]}
    ratios = [r.final("root sup") / undisturbed[r.config.task.bits, r.seed] for r in by_strength[1.0]]
    yield at_most("wrong answers at C <= 0.03", 1 - lowest(small, "accuracy"), 0.0)
    yield at_least("root sup at C >= 0.2", lowest(large, "root sup"), 1.0)
    yield at_most("saturating: error at C = 1 over C = 0", max(ratios), 2.0)
    yield from finals(records, "root sup", "accuracy")


# --- several steps ----------------------------------------------------------------------------------------------------


@LEDGER.empirical(
    "fig-staircase",
    statement="ours: Theorem 7 in runs",
    experiment="staircase",
    says="level l is solved from step l on, every seed: integers (Theorem 7) to root sup < 1e-3; saturating too",
)
def climbs_the_staircase(records: Sequence[Any]):
    rows = []
    for record in records:
        last = runs.snapshots(record)[-1]
        children, others = runs.child_weights(record, last), runs.other_weights(record, last)
        rows.append(
            {
                "arm": record.arm,
                "seed": record.seed,
                "quantiser": record.config.quantiser.kind,
                "staircase": runs.is_staircase(record),
                "root sup": record.final("root sup"),
                "eq11": runs.follows_eq11(record),
                "children apart": np.abs(children[:, 0] - children[:, 1]).max(),
                "other weights": f"{others.min():g} .. {others.max():g}",
                "gates": runs.gates_text(record),
            }
        )
    integer = [each for each in rows if each["quantiser"] == "integer"]
    saturating = [each for each in rows if each["quantiser"] == "saturating"]
    yield at_most("runs that are no staircase", 1 - float(np.mean([each["staircase"] for each in rows])), 0.0)
    if integer:
        yield at_most("integers: children apart", max(each["children apart"] for each in integer), 0.0)
        yield at_most("integers: root sup", max(each["root sup"] for each in integer), 1e-3)
    if saturating:
        yield at_most("saturating: runs off eq. (11)", 1 - float(np.mean([each["eq11"] for each in saturating])), 0.0)
    yield from table(rows)


@LEDGER.empirical(
    "fig-ablation",
    statement="ours: the devices of Theorem 7",
    experiment="ablation",
    says="integers: 1 < eps0 < 2 always solves, eps0 outside or no rounding never, no filter at most half the seeds",
)
def ablations_fail(records: Sequence[Any]):
    arms = grouped(records, lambda record: record.arm)
    steps = {arm: [runs.solved_at(record) for record in some] for arm, some in arms.items()}
    solved = {arm: float(np.mean([step is not None for step in found])) for arm, found in steps.items()}
    rows = [{"arm": arm, "solved": solved[arm], "solved from step": str(found)} for arm, found in steps.items()]
    whole = ("full method", "eps0 = 1.1", "eps0 = 1.9", "eps0 = 0.95, propagated")
    broken = ("no rounding", "eps0 = 0.95", "eps0 = 2.1")
    for name in whole:
        yield at_most(f"integers, failures: {name}", 1 - solved[f"integers: {name}"], 0.0)
    for name in broken:
        yield at_most(f"integers, solved: {name}", solved[f"integers: {name}"], 0.0)
    yield at_most("integers, solved: no filter", solved["integers: no filter"], 0.5)
    yield from table(rows)


@LEDGER.empirical(
    "fig-regimes",
    statement="ours: supervision compared",
    experiment="regimes",
    says="no chain: chance; forced: one step, undone by more unless rounded; generated: filter, rounding, log2 k steps",
)
def regimes_differ(records: Sequence[Any]):
    arms = grouped(records, lambda record: record.arm)

    def accuracies(arm: str, step: int) -> np.ndarray:
        return np.array([record.series("accuracy")[1][step] for record in arms[arm]])

    height = runs.levels_of(records[0].config)
    forced, theorem = "teacher forcing", "generated, filter (Theorem 7)"
    yield at_most("no chain of thought, at the end", accuracies("no chain of thought", -1).max(), CHANCE)
    yield at_most("teacher forcing, wrong after one step", 1 - accuracies(forced, 1).min(), 0.0)
    yield at_most("teacher forcing, at the end", accuracies(forced, -1).max(), CHANCE)
    yield at_most(
        "teacher forcing with integers, wrong at the end", 1 - accuracies("teacher forcing, integers", -1).min(), 0.0
    )
    yield at_most("no filter, mean at the end", accuracies("generated, no filter", -1).mean(), 0.75)
    yield at_most("no rounding, at the end", accuracies("generated, filter, no rounding", -1).max(), CHANCE)
    yield at_most("Theorem 7, one step early", accuracies(theorem, height - 1).max(), CHANCE)
    yield at_most("Theorem 7, wrong after log2 k steps", 1 - accuracies(theorem, height).min(), 0.0)
    yield at_most("Theorem 7, wrong at the end", 1 - accuracies(theorem, -1).min(), 0.0)
    yield from finals(records, "accuracy", "loss", "root sup", "abstain")


@LEDGER.empirical(
    "fig-adam",
    statement="ours: many small steps",
    experiment="adam",
    says="beyond the paper: small Adam steps learn with teacher forcing, and without it only at the smaller rate;"
    " without chain of thought they stay at chance",
)
def adam_regimes(records: Sequence[Any]):
    arms = grouped(records, lambda record: record.arm)
    regimes = grouped(records, lambda record: record.arm.partition(", rate")[0])
    stuck = np.mean([record.final("accuracy") for record in arms["generated, rate 0.3"]])
    yield at_least("teacher forcing, worst", lowest(regimes["teacher forcing"], "accuracy"), 0.99)
    yield at_least("generated at 0.03, worst", lowest(arms["generated, rate 0.03"], "accuracy"), 0.99)
    yield at_most("generated at 0.3, mean", float(stuck), 0.75)
    yield at_most("no chain of thought, best", highest(regimes["no chain of thought"], "accuracy"), CHANCE)
    yield from finals(records, "accuracy", "loss")


# --- hardness ---------------------------------------------------------------------------------------------------------


@LEDGER.empirical(
    "fig-oracle",
    statement="ours: Theorem 2 in runs",
    experiment="oracle",
    says="the variance over parities stays below its bound; hidden runs agree bit for bit and end at 0-1 error 1/2",
)
def oracle_hides(records: Sequence[Any]):
    whole = [record for record in records if record.config.samples == 0]
    ratio = max(np.max(record.series("variance")[1] / record.series("bound")[1]) for record in whole)
    rows = []
    for record in records:
        names = ("factor", "hidden", "chebyshev", "loss", "loss bound", "zero-one")
        for values in zip(*(record.array(f"oracle/{name}") for name in names), strict=True):
            rows.append({"samples": record.config.samples, "seed": record.seed} | dict(zip(names, values, strict=True)))
    hidden = [each for each in rows if each["hidden"] >= 0.5]
    yield at_most("variance over its bound", ratio, 1.0)
    yield at_most("hidden runs that differ", max(float(r.array("oracle/differing replays")) for r in records), 0.0)
    yield at_least("loss less its bound", min(each["loss"] - each["loss bound"] for each in hidden), 0.0)
    yield at_least("0-1 error", min(each["zero-one"] for each in hidden), 0.49)
    yield note("the Chebyshev bound on Pr(Q) is vacuous where it is below 0")
    yield from table(rows)
