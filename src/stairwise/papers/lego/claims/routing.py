"""Attention under a permutation-symmetric Q: dilution in closed form, and the mechanism of Figures 3 and 4."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from stairwise.lab.checks import exactly, identical, under
from stairwise.lab.config import option
from stairwise.lab.contract import Verdict
from stairwise.papers.lego.claims.ledger import LEDGER
from stairwise.papers.lego.claims.networks import ideal
from stairwise.papers.lego.claims.sizes import Ideal
from stairwise.papers.lego.config.task import Task
from stairwise.papers.lego.theory import chains, dilution, literal

ROUTED = (5.0, 0.0, 5.0, 0.0)
FAR = 3.3  # e^FAR > 25: without a block its clause keeps less than 1/25, a tenth of .4


@dataclass(frozen=True)
class Diluted(Ideal):
    """The same, with lengths at which the closed forms alone are evaluated."""

    task: Task = option(Task("C4", 8, 6), "the chains")
    scores: tuple[float, ...] = option((3.0, -0.2, 2.5, 0.1), "a, b, c, e of Q43 and Q44", low=-50.0, high=50.0)
    samples: int = option(4, "chains", low=1, high=1000)
    lengths: tuple[int, ...] = option((2, 4, 16, 64, 256, 1024), "lengths L of the bound", low=2, high=1_000_000)


@LEDGER.theory(
    "dilution",
    kind="identity",
    says="eps(L,l) and the gap in closed form equal the model's attention; eps(L,L) <= 2L/(2L + 1/eps(2,2))",
    cases=Diluted(),
)
def attention_dilutes_as_predicted(config: Diluted, seed: int) -> Verdict:
    a, b, c, e = config.scores
    L, pairs = config.task.length, {}
    for l in range(1, L + 1):
        step = ideal(config, seed, (l,)).found[0][0]
        formula = dilution.attention(a, b, c, e, L, l)
        order = [formula.other_predicate] * L + [formula.other_answer] * (l - 1) + [formula.own]
        order[l - 1] = formula.predicate
        pairs[f"attention at l={l}"] = (step.attention, np.array(order))
        wrong = np.delete(step.attention, [l - 1, -1]).sum()  # 1 less the two would cancel
        pairs[f"eps at l={l}"] = (wrong, dilution.concentration(a, b, c, e, L, l))
    at_two = dilution.concentration(a, b, c, e, 2, 2)
    rows = [
        {"L": n, "eps(L,L)": dilution.concentration(a, b, c, e, n, n), "bound": dilution.diluted(at_two, n)}
        for n in config.lengths
    ]
    share = max(row["eps(L,L)"] / row["bound"] for row in rows)
    small = () if at_two <= 0.5 else (f"eps(2,2)={at_two:.3g} must be at most 1/2 for the constant 2",)
    bound = under(small, Verdict.at_most(share, 1.0, details=tuple(rows)))
    return Verdict.worst({"closed form": identical(pairs), "bound": bound})


def looked_at(network: Any, rows: np.ndarray, L: int) -> list[tuple[np.ndarray, bool, int]]:
    """For every chain and step: attention, whether the value comes out right, and the step."""
    found = []
    for row in rows:
        for l in range(1, L + 1):
            step = literal.step_of(network, row[: L + l], L, row[L + l, 4:])
            found.append((step.attention, int(np.argmax(step.F[0])) == int(step.target[0]), l))
    return found


def routed(config: Ideal) -> tuple[str, ...]:
    """What both figures show: Q leads from an answer to two clauses, .4 of the attention or more on each."""
    (a, b, c, e), L = config.scores, config.task.length
    found = [dilution.attention(a, b, c, e, L, l) for l in range(1, L + 1)]
    least = min(min(one.predicate, one.own) for one in found)
    if least >= 0.4:
        return ()
    return (f"scores={config.scores} must put at least .4 on each of the two clauses, not {least:.3g}",)


def ablatable(config: Ideal) -> tuple[str, ...]:
    """What a block's removal can show: there are other clauses and other values, and a, c are far above 0."""
    task, (a, _, c, _) = config.task, config.scores
    missing = routed(config)
    if task.length < 2:
        missing += (f"task.length={task.length} must be at least 2: there is no other predicate",)
    if task.group.values < 2:
        missing += (f"task.action={task.action} must have at least 2 values: none can be wrong",)
    if len(np.unique(np.asarray(task.group.table), axis=0)) < 2:
        missing += (f"task.action={task.action} must have two actions that differ: one needs no looking up",)
    if min(a, c) < FAR:
        missing += (f"scores: a={a:g} and c={c:g} must be at least {FAR:g}, for a tenth to be left without them",)
    return missing


@LEDGER.theory(
    "fig3",
    kind="illustration",
    says="the mechanism: answer l-1 looks at predicate l and at itself, and the FFN applies g_l to y_{l-1}",
    cases=Ideal(Task("C5", 7, 5), scores=ROUTED, samples=8),
)
def two_clauses_are_retrieved(config: Ideal, seed: int) -> Verdict:
    case, L = ideal(config, seed, (1,)), config.task.length
    network = literal.network_of(case.model)
    found = looked_at(network, chains.sentences(case.task, case.chains), L)
    top = [set(np.argsort(attention)[-2:]) == {l - 1, L + l - 1} for attention, _, l in found]
    mass = float(np.mean([attention[l - 1] + attention[-1] for attention, _, l in found]))
    facts = {"the two clauses lead": all(top), "the next value comes out": all(right for _, right, _ in found)}
    return under(routed(config), exactly(facts, details=({"mean mass on the two": mass, "steps": len(found)},)))


@LEDGER.theory(
    "fig4",
    kind="illustration",
    says="Q43 looks predicates up, Q44 is self-attention: without either block that clause drops to the others' level",
    cases=Ideal(Task("C5", 7, 5), scores=ROUTED, samples=8),
)
def each_block_finds_its_clause(config: Ideal, seed: int) -> Verdict:
    case, L = ideal(config, seed, (1,)), config.task.length
    whole = literal.network_of(case.model)
    rows, d = chains.sentences(case.task, case.chains), case.task.vocabulary
    table = []
    for name, block in (("both", None), ("without Q43", 2), ("without Q44", 3)):
        scores = whole.scores.reshape(5, d, 5, d).copy()
        if block is not None:
            scores[3, :, block] = 0.0
        network = whole._replace(scores=scores.reshape(5 * d, 5 * d))
        found = looked_at(network, rows, L)
        table.append(
            {
                "Q": name,
                "on the predicate": float(np.mean([attention[l - 1] for attention, _, l in found])),
                "on itself": float(np.mean([attention[-1] for attention, _, l in found])),
                "right": float(np.mean([right for _, right, _ in found])),
            }
        )
    both, no43, no44 = table
    facts = {
        "both are found": both["on the predicate"] > 0.3 and both["on itself"] > 0.3,
        "without Q43 the predicate is lost": no43["on the predicate"] < both["on the predicate"] / 10,
        "without Q44 the own answer is lost": no44["on itself"] < both["on itself"] / 10,
        "values need both": both["right"] == 1.0 > max(no43["right"], no44["right"]),
    }
    return under(ablatable(config), exactly(facts, details=tuple(table)))
