"""The empirical claims: what each experiment is expected to show, with pass lines."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract import Verdict
from stairwise.papers.parity_onestep import boundary, runs
from stairwise.papers.parity_onestep.claims.ledger import LEDGER

CHANCE = 0.6  # an accuracy below this is no better than guessing


def at_most(measured: float, required: float) -> Verdict:
    return Verdict.at_most(measured, required, otherwise="not-reproduced")


def at_least(measured: float, required: float) -> Verdict:
    return Verdict.at_least(measured, required, otherwise="not-reproduced")


def none(measured: float) -> Verdict:
    """Holds when a share of failures is exactly 0."""
    return at_most(measured, 0.0)


def grouped(records: Sequence[Any], by: Callable[[Any], Any]) -> dict[Any, list[Any]]:
    groups: dict[Any, list[Any]] = {}
    for record in records:
        groups.setdefault(by(record), []).append(record)
    return groups


def finals(records: Sequence[Any], *names: str) -> list[dict[str, Any]]:
    """One row a trial: arm, seed, and the last value of some metrics."""
    return [{"arm": r.arm, "seed": r.seed} | {name: r.final(name) for name in names} for r in records]


def highest(records: Sequence[Any], name: str) -> float:
    return max(record.final(name) for record in records)


def lowest(records: Sequence[Any], name: str) -> float:
    return min(record.final(name) for record in records)


# --- one step with teacher forcing ------------------------------------------------------------------------------------


@LEDGER.empirical(
    "fig-onestep",
    experiment="onestep",
    says="one step learns the parity: every seed has accuracy 1 on fresh inputs and a root sup error below .05",
)
def one_step_learns(records: Sequence[Any]) -> Verdict:
    checks = {
        "wrong answers": none(1 - lowest(records, "accuracy")),
        "root sup error": at_most(highest(records, "root sup"), 0.05),
        "nodes without their children": none(1 - lowest(records, "support")),
    }
    return Verdict.worst(checks).with_rows(
        finals(records, "root sup", "nodes sup", "accuracy", "imbalance", "root logit")
    )


@LEDGER.empirical(
    "fig-phase",
    experiment="phase",
    says="the n from which on one step succeeds grows more slowly than d^2 (95 % interval of the exponent),"
    " and at the largest n of the map every run does",
)
def boundary_below_square(records: Sequence[Any]) -> Verdict:
    law, support = boundary.boundary(records, "success"), boundary.boundary(records, "support")
    sizes, counts, share = boundary.success_map(records)
    rows = [
        {"d": d} | dict(zip((f"n={n:.0f}" for n in counts), row, strict=True))
        for d, row in zip(sizes, share, strict=True)
    ]
    if law is None:
        return Verdict("reported", details=tuple(rows), note="too few sizes with a boundary inside the map")
    note = f"success from {law}; children found from {support or 'below the map'}"
    checks = {
        "upper end of the exponent": at_most(law.exponent.high, 2.0),
        "failures at the largest n": none(1 - float(share[:, -1].min())),
    }
    return Verdict.worst(checks).with_rows(rows, note)


@LEDGER.empirical(
    "fig-scaling",
    experiment="scaling",
    says="once it succeeds, the largest error over all nodes falls like 1/n (slope -1 +- .25)"
    " and is c tanh^2(Delta/2) of the worst node (factor 1.5)",
)
def error_falls_as_inverse_samples(records: Sequence[Any]) -> Verdict:
    rows = []
    for record in records:
        counts, errors = boundary.curve(record, "nodes sup")
        predicted = 4.0 * np.tanh(boundary.curve(record, "imbalance")[1] / 2) ** 2
        for n, error, value in zip(counts, errors, predicted, strict=True):
            rows.append({"d": record.config.task.bits, "seed": record.seed, "n": n, "error": error, "law": value})
    small = [row for row in rows if row["error"] < 0.3]
    # one slope for all sizes, each with its own level
    sizes = sorted({row["d"] for row in small})
    design = np.array([[np.log(row["n"])] + [row["d"] == d for d in sizes] for row in small], dtype=np.float64)
    slope = np.linalg.lstsq(design, np.log([row["error"] for row in small]), rcond=None)[0][0]
    ratio = np.median([row["error"] / row["law"] for row in small])
    checks = {
        "slope away from -1": at_most(abs(slope + 1), 0.25),
        "error over law": at_most(float(max(ratio, 1 / ratio)), 1.5),
    }
    return Verdict.worst(checks).with_rows(rows, f"slope {slope:.3f}; median of error over law {ratio:.3f}")


@LEDGER.empirical(
    "fig-dimension",
    experiment="dimension",
    says="one step learns k = 32 at every d up to the largest: accuracy 1 and root sup error below .05, every seed",
)
def large_dimensions(records: Sequence[Any]) -> Verdict:
    checks = {
        "wrong answers": none(1 - lowest(records, "accuracy")),
        "root sup error": at_most(highest(records, "root sup"), 0.05),
    }
    return Verdict.worst(checks).with_rows(finals(records, "root sup", "nodes sup", "accuracy", "imbalance", "leakage"))


@LEDGER.empirical(
    "fig-lam",
    experiment="lam",
    says="the error is U-shaped in lam: at both ends its median is over ten times the smallest, which lies inside",
)
def u_shaped(records: Sequence[Any]) -> Verdict:
    arms = grouped(records, lambda record: record.config.rate.lam)
    medians = {lam: float(np.median([r.final("root sup") for r in arms[lam]])) for lam in sorted(arms)}
    values = list(medians.values())
    checks = {
        "left end over smallest": at_least(values[0] / min(values), 10.0),
        "right end over smallest": at_least(values[-1] / min(values), 10.0),
    }
    best = min(medians, key=lambda lam: medians[lam])
    rows = [{"lam": lam, "median root sup": value} for lam, value in medians.items()]
    return Verdict.worst(checks).with_rows(rows, f"smallest at lam = {best:g}")


@LEDGER.empirical(
    "fig-link",
    experiment="link",
    says="at a realised logit of 9 all links but slope 2.1 solve every seed (root sup < .5); it errs ten times poly4",
)
def links_compared(records: Sequence[Any]) -> Verdict:
    at_nine = [record for record in records if record.config.rate.lam == 9.0]
    arms = grouped(at_nine, lambda record: record.arm.partition(",")[0])
    good = [record for name, arm in arms.items() if name != "requ(2.1)" for record in arm]
    medians = {name: float(np.median([record.final("root sup") for record in arm])) for name, arm in arms.items()}
    checks = {
        "root sup of the others": at_most(highest(good, "root sup"), 0.5),
        "requ(2.1) over poly4": at_least(medians["requ(2.1)"] / medians["poly4"], 10.0),
    }
    return Verdict.worst(checks).with_rows(finals(at_nine, "root sup", "accuracy", "root logit", "nominal logit"))


@LEDGER.empirical(
    "fig-noise",
    experiment="noise",
    says="adversarial noise: C = .03 leaves accuracy 1 (every seed), C >= .2 destroys the one step (every seed);"
    " saturating weights (extension) do not feel C = 1",
)
def tolerates_noise(records: Sequence[Any]) -> Verdict:
    plain = [record for record in records if record.config.quantiser.kind == "none"]
    bounded = [record for record in records if record.config.quantiser.kind == "saturating"]
    small = [record for record in plain if record.config.oracle.strength <= 0.03]
    large = [record for record in plain if record.config.oracle.strength >= 0.2]
    by_strength = grouped(bounded, lambda record: record.config.oracle.strength)
    undisturbed = {(r.config.task.bits, r.seed): r.final("root sup") for r in by_strength[0.0]}
    ratios = [r.final("root sup") / undisturbed[r.config.task.bits, r.seed] for r in by_strength[1.0]]
    checks = {
        "wrong answers at C <= .03": none(1 - lowest(small, "accuracy")),
        "root sup at C >= .2": at_least(lowest(large, "root sup"), 1.0),
        "saturating: error at C = 1 over C = 0": at_most(max(ratios), 2.0),
    }
    return Verdict.worst(checks).with_rows(finals(records, "root sup", "accuracy"))


# --- several steps ----------------------------------------------------------------------------------------------------


@LEDGER.empirical(
    "fig-staircase",
    experiment="staircase",
    says="level l is solved from step l on, every seed: integers (Theorem 7) to root sup < 1e-3; saturating too",
)
def climbs_the_staircase(records: Sequence[Any]) -> Verdict:
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
    integer = [row for row in rows if row["quantiser"] == "integer"]
    saturating = [row for row in rows if row["quantiser"] == "saturating"]
    checks = {"runs that are no staircase": none(1 - float(np.mean([row["staircase"] for row in rows])))}
    if integer:
        checks["integers: children apart"] = none(max(row["children apart"] for row in integer))
        checks["integers: root sup"] = at_most(max(row["root sup"] for row in integer), 1e-3)
    if saturating:
        checks["saturating: runs off eq. (11)"] = none(1 - float(np.mean([row["eq11"] for row in saturating])))
    return Verdict.worst(checks).with_rows(rows)


@LEDGER.empirical(
    "fig-ablation",
    experiment="ablation",
    says="integers: 1 < eps0 < 2 always solves, eps0 outside or no rounding never, no filter at most half the seeds",
)
def ablations_fail(records: Sequence[Any]) -> Verdict:
    arms = grouped(records, lambda record: record.arm)
    steps = {arm: [runs.solved_at(record) for record in some] for arm, some in arms.items()}
    solved = {arm: float(np.mean([step is not None for step in found])) for arm, found in steps.items()}
    rows = [{"arm": arm, "solved": solved[arm], "solved from step": str(found)} for arm, found in steps.items()]
    whole = ("full method", "eps0 = 1.1", "eps0 = 1.9", "eps0 = 0.95, propagated")
    broken = ("no rounding", "eps0 = 0.95", "eps0 = 2.1")
    checks = {f"integers, failures: {name}": none(1 - solved[f"integers: {name}"]) for name in whole}
    checks |= {f"integers, solved: {name}": none(solved[f"integers: {name}"]) for name in broken}
    checks["integers, solved: no filter"] = at_most(solved["integers: no filter"], 0.5)
    return Verdict.worst(checks).with_rows(rows)


@LEDGER.empirical(
    "fig-regimes",
    experiment="regimes",
    says="no chain: chance; forced: one step, undone by more unless rounded; generated: filter, rounding, log2 k steps",
)
def regimes_differ(records: Sequence[Any]) -> Verdict:
    arms = grouped(records, lambda record: record.arm)

    def accuracies(arm: str, step: int) -> np.ndarray:
        return np.array([record.series("accuracy")[1][step] for record in arms[arm]])

    height = runs.levels_of(records[0].config)
    forced, theorem = "teacher forcing", "generated, filter (Theorem 7)"
    checks = {
        "no chain of thought, at the end": at_most(accuracies("no chain of thought", -1).max(), CHANCE),
        "teacher forcing, wrong after one step": none(1 - accuracies(forced, 1).min()),
        "teacher forcing, at the end": at_most(accuracies(forced, -1).max(), CHANCE),
        "teacher forcing with integers, wrong at the end": none(1 - accuracies("teacher forcing, integers", -1).min()),
        "no filter, mean at the end": at_most(accuracies("generated, no filter", -1).mean(), 0.75),
        "no rounding, at the end": at_most(accuracies("generated, filter, no rounding", -1).max(), CHANCE),
        "Theorem 7, one step early": at_most(accuracies(theorem, height - 1).max(), CHANCE),
        "Theorem 7, wrong after log2 k steps": none(1 - accuracies(theorem, height).min()),
        "Theorem 7, wrong at the end": none(1 - accuracies(theorem, -1).min()),
    }
    return Verdict.worst(checks).with_rows(finals(records, "accuracy", "loss", "root sup", "abstain"))


@LEDGER.empirical(
    "fig-adam",
    experiment="adam",
    says="beyond the paper: small Adam steps learn with teacher forcing, and without it only at the smaller rate;"
    " without chain of thought they stay at chance",
)
def adam_regimes(records: Sequence[Any]) -> Verdict:
    arms = grouped(records, lambda record: record.arm)
    regimes = grouped(records, lambda record: record.arm.partition(", rate")[0])
    stuck = np.mean([record.final("accuracy") for record in arms["generated, rate 0.3"]])
    checks = {
        "teacher forcing, worst": at_least(lowest(regimes["teacher forcing"], "accuracy"), 0.99),
        "generated at .03, worst": at_least(lowest(arms["generated, rate 0.03"], "accuracy"), 0.99),
        "generated at .3, mean": at_most(float(stuck), 0.75),
        "no chain of thought, best": at_most(highest(regimes["no chain of thought"], "accuracy"), CHANCE),
    }
    return Verdict.worst(checks).with_rows(finals(records, "accuracy", "loss"))


# --- hardness ---------------------------------------------------------------------------------------------------------


@LEDGER.empirical(
    "fig-oracle",
    experiment="oracle",
    says="the variance over parities stays below its bound; hidden runs agree bit for bit and end at 0-1 error 1/2",
)
def oracle_hides(records: Sequence[Any]) -> Verdict:
    whole = [record for record in records if record.config.samples == 0]
    ratio = max(np.max(record.series("variance")[1] / record.series("bound")[1]) for record in whole)
    rows = []
    for record in records:
        names = ("factor", "hidden", "chebyshev", "loss", "loss bound", "zero-one")
        for values in zip(*(record.array(f"oracle/{name}") for name in names), strict=True):
            rows.append({"samples": record.config.samples, "seed": record.seed} | dict(zip(names, values, strict=True)))
    hidden = [row for row in rows if row["hidden"] >= 0.5]
    checks = {
        "variance over its bound": at_most(ratio, 1.0),
        "hidden runs that differ": none(max(float(r.array("oracle/differing replays")) for r in records)),
        "loss less its bound": at_least(min(row["loss"] - row["loss bound"] for row in hidden), 0.0),
        "0-1 error": at_least(min(row["zero-one"] for row in hidden), 0.49),
    }
    return Verdict.worst(checks).with_rows(rows, "the Chebyshev bound on Pr(Q) is vacuous where it is below 0")
