"""How far it carries: Theorems 4.1 and 5.1, their corollaries, the two algorithms, and the critical length."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.checks import exactly, under
from stairwise.lab.contract import Verdict
from stairwise.papers.lego.claims.descents import Stages, accuracies, path_of, stages_of
from stairwise.papers.lego.claims.dynamics import SELF, below_one, right_labels
from stairwise.papers.lego.claims.ledger import LEDGER
from stairwise.papers.lego.claims.sizes import simply_transitive, transitive, transitive_not_free
from stairwise.papers.lego.config.dynamics import AttentionRun, Reduced
from stairwise.papers.lego.theory import lengths

AROUND = 1.4  # the failing length is bracketed between L*/1.4 and 1.4 L*
LONG = AttentionRun(action="C6", lengths=(2, 8, 32, 64, 128))
LONGEST = 20_000  # steps of a roll-out


def critical(config: Reduced, scores: np.ndarray) -> float:
    return lengths.critical_length(scores, config.group.values)


def few_values(config: Reduced) -> tuple[str, ...]:
    """With two values L* is infinite."""
    size = config.group.values
    return () if size > 2 else (f"action={config.action} must have more than 2 values for L* to be finite",)


def bracket(config: AttentionRun, scores: np.ndarray, seed: int) -> tuple[dict[str, bool], list[dict[str, Any]]]:
    """Exact match at L*/1.4 and at 1.4 L*."""
    star = critical(config, scores)
    if not np.isfinite(star) or AROUND * star > LONGEST:
        return {}, [{"L*": star}]
    short, long = int(star / AROUND), int(np.ceil(star * AROUND))
    found = {L: accuracies(config, scores, L, long, seed)["exact match"] for L in (short, long)}
    rows = [{"L": L, "exact match": match, "L*": star} for L, match in found.items()]
    return {f"most chains right at {short}": found[short] >= 0.5, f"most wrong at {long}": found[long] < 0.5}, rows


@LEDGER.theory(
    "thm4.1-acc",
    kind="convergence",
    says="simply transitive, trained on lengths 1 and 2: all chains right at tested lengths up to L*/2; L* brackets",
    cases=(LONG, dataclasses.replace(LONG, action="C3")),
)
def short_to_long(config: AttentionRun, seed: int) -> Verdict:
    scores = path_of(config).scores[-1]
    star = critical(config, scores)
    tested = [L for L in config.lengths if star / 2 >= L]
    facts, rows = bracket(config, scores, seed)
    for length in tested:
        found = accuracies(config, scores, length, max(tested), seed)
        facts[f"L={length} all right"] = found["exact match"] == 1
        rows.append(
            {"L": length, "exact match": found["exact match"], "1 - eq. (5)": 1 - found["expected probability"]}
        )
    return under(simply_transitive(config.group), exactly(facts, details=tuple(rows)))


@LEDGER.theory(
    "thm4.1-attn",
    kind="asymptotic",
    says="simply transitive: eps(2,2) = d^-c along training, and the exponent c it has reached",
    cases=(LONG, dataclasses.replace(LONG, action="C3")),
)
def concentration_exponent(config: AttentionRun, seed: int) -> Verdict:
    path = path_of(config)
    eps = lengths.concentration(path.scores, 2, 2)
    size = np.log(config.vocabulary)
    rows = [
        {"step": t, "eps(2,2)": float(eps[t]), "c": float(-np.log(eps[t]) / size), "loss": float(path.losses[t])}
        for t in np.unique(np.geomspace(1, len(eps) - 1, 8).astype(np.int64))
    ]
    note = "no pass line: the theorem's constant c* is not given; eps falls like 1/t past the end of the table"
    missing = simply_transitive(config.group)
    return Verdict.reported(rows[-1]["c"], details=tuple(rows), note=note, hypotheses=missing)


@LEDGER.theory(
    "critical-length",
    kind="bound",
    says="beyond the paper: the length at which chains fail lies within a factor 1.4 of the closed form L*",
    cases=tuple(AttentionRun(action=name) for name in ("C6", "S4", "S5")),
)
def critical_length_brackets(config: AttentionRun, seed: int) -> Verdict:
    facts, rows = bracket(config, path_of(config).scores[-1], seed)
    if not facts:
        return Verdict("vacuous", note="L* is infinite or too long to roll out", details=tuple(rows))
    return under(transitive(config.group) + few_values(config), exactly(facts, details=tuple(rows)))


# --- Algorithm 2 and Theorem 5.1 --------------------------------------------------------------------------------------

TABLE = Stages()


def stage_rows(config: Stages, seed: int) -> list[dict[str, Any]]:
    """The stage table: scores, eps(L, l) at both ends, labels, exact match at L, 2L, 4L, 8L."""
    most, rows = 8 * 2**config.stages, []
    for k, stage in enumerate(stages_of(config, seed), start=1):
        eps = lengths.every_step(stage.scores, stage.length)
        match = {
            f"{n}L": accuracies(config, stage.scores, n * stage.length, most, seed)["exact match"] for n in (1, 2, 4, 8)
        }
        row = {"stage": k, "L": stage.length, "steps": len(stage.path.losses) - 1, "reached": stage.path.reached}
        row |= {"a": float(stage.scores[0]), "c": float(stage.scores[2]), "labels right": stage.label_accuracy}
        rows.append(row | {"eps(L,2)": float(eps[1]), "eps(L,L)": float(eps[-1]), **match})
    return rows


@LEDGER.theory(
    "thm5.1-acc",
    kind="convergence",
    says="Algorithm 2: a stage trained to loss d^-E1 on chains of L gets .99 of those of 2L right, under .05 of 8L",
    cases=TABLE,
    tier="minutes",
)
def stages_double(config: Stages, seed: int) -> Verdict:
    rows = stage_rows(config, seed)
    facts = {f"L={row['L']}: 2L at least .99": row["2L"] >= 0.99 for row in rows}
    facts |= {f"L={row['L']}: 8L below .05": row["8L"] < 0.05 for row in rows}
    return under(transitive_not_free(config.group), exactly(facts, details=tuple(rows)))


@LEDGER.theory(
    "corF",
    kind="bound",
    says="Theorem F.1's step: at each stage end the largest eps(2L, l) over all l is at most 4 eps(L, 2)",
    cases=TABLE,
    tier="minutes",
)
def one_more_doubling(config: Stages, seed: int) -> Verdict:
    rows = []
    for stage in stages_of(config, seed):
        here, then = (lengths.every_step(stage.scores, n * stage.length) for n in (1, 2))
        rows.append({"L": stage.length, "eps(L,2)": float(here[1]), "largest eps(2L,l)": float(then.max())})
    ratio = max(row["largest eps(2L,l)"] / row["eps(L,2)"] for row in rows)
    return under(transitive_not_free(config.group), Verdict.at_most(ratio, 4.0, details=tuple(rows)))


@LEDGER.theory(
    "lemF16",
    kind="bound",
    says="at the end of a stage at the level e^{(-1/2+3.01c1)2B}, eps(L,2) <= 5.04 c1",
    cases=SELF,
    tier="minutes",
)
def end_of_a_stage(config: Stages, seed: int) -> Verdict:
    high = lengths.stage_window(config.network.clip_factor)[1]
    rows = [
        {"L": stage.length, "eps(L,2)": float(lengths.concentration(stage.scores, stage.length, 2)), "5.04 c1": high}
        for stage in stages_of(config, seed)[1:]
    ]
    worst = max((row["eps(L,2)"] for row in rows), default=0.0)
    missing = transitive_not_free(config.group) + below_one(config) + right_labels(config, seed)
    return under(missing, Verdict.at_most(worst, high, details=tuple(rows)))


@LEDGER.theory(
    "thm5.1-attn",
    kind="convergence",
    says="eps at a stage's end is constant, not vanishing: eps(L,2) within a factor 2 over stages; all eps(L,l)",
    cases=TABLE,
    tier="minutes",
)
def concentration_stays_constant(config: Stages, seed: int) -> Verdict:
    rows, second = [], []
    for stage in stages_of(config, seed):
        eps = lengths.every_step(stage.scores, stage.length)
        second.append(float(eps[1]))
        rows += [{"L": stage.length, "l": l, "eps(L,l)": float(value)} for l, value in enumerate(eps, start=1)]
    return under(
        transitive_not_free(config.group), Verdict.at_most(max(second) / min(second), 2.0, details=tuple(rows))
    )


@LEDGER.theory(
    "thm5.1-attn-printed",
    kind="asymptotic",
    says="eq. (12) as printed: eps(L,l) < .01 for every l; Theorem F.1's 20.16 c1 gives that only for C_B >= 2026",
    cases=TABLE,
    tier="minutes",
)
def concentration_as_printed(config: Stages, seed: int) -> Verdict:
    worst = max(float(lengths.every_step(stage.scores, stage.length).max()) for stage in stages_of(config, seed))
    least = lengths.clip_factor_for(0.01)
    factor = config.network.clip_factor
    large = () if factor >= least else (f"network.clip_factor={factor:g} must be at least {least:.0f}",)
    return under(transitive_not_free(config.group) + large, Verdict.at_most(worst, 0.01))


@LEDGER.theory(
    "cor5.1",
    kind="convergence",
    says="after log2|X| - 1 stages the longest chain that the variables allow, L = |X| - 1, is right (.99)",
    cases=Stages(variables=64, stages=5),
    tier="minutes",
)
def the_longest_chain(config: Stages, seed: int) -> Verdict:
    longest, last = config.variables - 1, stages_of(config, seed)[-1]
    found = accuracies(config, last.scores, longest, longest, seed)["exact match"]
    few = 2 * last.length < longest
    missing = (f"stages={config.stages} must be at least log2(variables) - 1",) if few else ()
    return under(
        transitive_not_free(config.group) + missing,
        Verdict.at_least(found, 0.99, details=({"L": longest, "trained on": last.length},)),
    )


@LEDGER.theory(
    "alg2",
    kind="algorithm",
    says="Algorithm 2: every stage reaches its loss, and its annotator's labels are all right",
    cases=TABLE,
    tier="minutes",
)
def recursive_self_training(config: Stages, seed: int) -> Verdict:
    done = stages_of(config, seed)
    facts = {f"L={stage.length} reached": stage.path.reached for stage in done}
    facts |= {f"L={stage.length} labels right": stage.label_accuracy == 1 for stage in done}
    rows = tuple({"L": s.length, "steps": len(s.path.losses) - 1, "labels right": s.label_accuracy} for s in done)
    return under(transitive_not_free(config.group), exactly(facts, details=rows))


@LEDGER.empirical(
    "alg1",
    experiment="algorithm1",
    kind="algorithm",
    says="Algorithm 1 end to end: trained on lengths 1 and 2, all chains right at every length; with Q=0 almost none",
)
def curriculum_training(records: Sequence[Any]) -> Verdict:
    rows, least, before = [], 1.0, 0.0
    for record in records:
        match, untrained = record.array("two steps/value match"), record.array("one step/untrained value match")
        tested = np.array(record.config.lengths)
        least = min(least, float(match.min()))
        before = max(before, float(untrained[tested >= 5].max(initial=0.0)))
        row = {"arm": record.arm, "seed": record.seed, "token 5": record.final("token 5", "one step")}
        row |= {f"L={L}": float(value) for L, value in zip(tested, match, strict=True)}
        rows.append(row | {"Q43": record.final("Q43 diagonal"), "Q44": record.final("Q44 diagonal")})
    checks = {
        "least exact match": Verdict.at_least(least, 0.99, otherwise="not-reproduced"),
        "exact match from L=5 on with Q=0": Verdict.at_most(before, 0.05, otherwise="not-reproduced"),
    }
    worst = Verdict.worst(checks)
    return dataclasses.replace(worst, details=(*worst.details, *rows))


# --- the informal theorems --------------------------------------------------------------------------------------------


@LEDGER.theory(
    "thm1.1",
    kind="convergence",
    says="one layer learns to track states: after T^1 and T^2 the accuracy of eq. (5) on T^2 is at least 1 - 1/d",
    cases=(AttentionRun(action="C6"), AttentionRun(action="S4")),
)
def learns_the_chain(config: AttentionRun, seed: int) -> Verdict:
    found = accuracies(config, path_of(config).scores[-1], 2, 2, seed)
    missed = 1 - found["expected probability"]
    return under(transitive(config.group), Verdict.at_most(missed, 1 / config.vocabulary))


@LEDGER.theory(
    "thm1.2",
    kind="asymptotic",
    says="the action decides how far it carries: L* of C_6 over that of S_5 after equal steps, and at equal loss",
    cases=AttentionRun(action="S5"),
)
def the_action_decides(config: AttentionRun, seed: int) -> Verdict:
    """At equal steps cyclic attention is more concentrated; at equal loss the two hardly differ."""
    rows, ratios = [], []
    for stop in ("never", "power"):
        ends = {}
        for name in ("C6", config.action):
            path = path_of(dataclasses.replace(config, action=name, stop=stop))
            run = dataclasses.replace(config, action=name)
            ends[name] = critical(run, path.scores[-1])
            row = {"until": "equal steps" if stop == "never" else "equal loss", "action": name, "L*": ends[name]}
            eps = float(lengths.concentration(path.scores[-1], 2, 2))
            rows.append(row | {"steps": len(path.losses) - 1, "eps(2,2)": eps})
        ratios.append(ends["C6"] / ends[config.action])
    note = f"equal steps {ratios[0]:.2f}, equal loss {ratios[1]:.2f}; no lower bound on length is proved for S_n"
    return Verdict.reported(ratios[0], details=tuple(rows), note=note, hypotheses=transitive(config.group))


@LEDGER.theory(
    "thm1.3",
    kind="convergence",
    says="recursive self-training on one's own labels doubles the length again and again (see thm5.1-acc)",
    cases=dataclasses.replace(TABLE, action="S3", stages=4),
    tier="minutes",
)
def self_improvement(config: Stages, seed: int) -> Verdict:
    rows = stage_rows(config, seed)
    return under(
        transitive_not_free(config.group), Verdict.at_least(min(row["2L"] for row in rows), 0.99, details=tuple(rows))
    )


# --- beyond the paper: which property of the action limits length -----------------------------------------------------


@LEDGER.theory(
    "limits-order",
    kind="convergence",
    says="beyond the paper: on 5 points L* falls with the fiber size (C_5, D_5, A_5, S_5), whatever is solvable",
    cases=AttentionRun(action="C5"),
)
def fibers_limit_length(config: AttentionRun, seed: int) -> Verdict:
    """Same |Y|, same steps; then C_6 and S_3 on itself, which share |G|, |Y| and fiber but not commutativity."""
    rows, stars = [], {}
    for name in ("C5", "D5", "A5", "S5", "C6", "S3-regular"):
        run = dataclasses.replace(config, action=name)
        scores = path_of(run).scores[-1]
        stars[name] = critical(run, scores)
        group = run.group
        row = {"action": name, "fiber": group.actions // group.values, "solvable": group.solvable, "L*": stars[name]}
        rows.append(row | {"a": float(scores[0]), "c": float(scores[2])})
    facts = {
        "L* falls with the fiber": stars["C5"] > stars["D5"] > stars["A5"] > stars["S5"],
        "C_6 and S_3 on itself differ by less than 10 %": abs(stars["C6"] / stars["S3-regular"] - 1) < 0.1,
    }
    return exactly(facts, details=tuple(rows))
