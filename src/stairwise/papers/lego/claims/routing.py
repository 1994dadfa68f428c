"""Attention under a permutation-symmetric Q: dilution in closed form, and the mechanism of Figures 3 and 4."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from stairwise.config import option
from stairwise.lab.contract.checks import at_least, at_most, equal, row, true
from stairwise.papers.lego import model as models
from stairwise.papers.lego.claims.ledger import LEDGER
from stairwise.papers.lego.claims.networks import ideal
from stairwise.papers.lego.claims.sizes import Ideal
from stairwise.papers.lego.config.task import Task
from stairwise.papers.lego.theory import chains, dilution, lengths, literal

ROUTED = (5.0, 0.0, 5.0, 0.0)
FAR = 3.3  # e^FAR > 25: without a block its clause keeps less than 1/25, a tenth of .4


@dataclass(frozen=True)
class Diluted(Ideal):
    """The same, with lengths at which the closed forms alone are evaluated."""

    task: Task = option(Task("C4", 8, 6), "the chains")
    scores: tuple[float, ...] = option((3.0, -0.2, 2.5, 0.1), "a, b, c, e of Q43 and Q44", low=-50.0, high=50.0)
    samples: int = option(4, "chains", low=1, high=1000)
    lengths: tuple[int, ...] = option((2, 4, 16, 64, 256, 1024), "lengths L of the bound", low=2, high=1_000_000)


def concentrated(config: Diluted) -> dict[str, bool]:
    """Without the formulas under test: eps(2, 2) = (e^b + e^e) / (e^a + e^b + e^c + e^e)."""
    a, b, c, e = np.exp(config.scores)
    return {"eps(2,2) <= 1/2": bool(b + e <= a + c)}


@LEDGER.exact(
    "dilution",
    statement=("Section 6.2.1", "Eq. (19)", "Eq. (20)"),
    says=r"$\varepsilon(L,\ell)$ and the gap in closed form equal the attention of the network; the odds of"
    r" $\varepsilon(L,L)$ are at most $2 L \varepsilon(2,2)$, and 2 is the least such constant",
    of=(
        dilution.attention,
        dilution.concentration,
        dilution.diluted,
        lengths.masses,
        lengths.concentration,
        lengths.gap,
        lengths.every_step,
    ),
    hypotheses=concentrated,
    cases=(Diluted(), Diluted(scores=(0.3, 0.3, 0.3, 0.3))),
    seeds=3,
)
def attention_dilutes_as_predicted(config: Diluted, seed: int):
    a, b, c, e = config.scores
    L = config.task.length
    every = lengths.every_step(config.scores, L)
    for l in range(1, L + 1):
        step = ideal(config, seed, (l,)).found[0][0]
        formula = dilution.attention(a, b, c, e, L, l)
        order = [formula.other_predicate] * L + [formula.other_answer] * (l - 1) + [formula.own]
        order[l - 1] = formula.predicate
        yield equal(f"attention, l={l}", step.attention, np.array(order))
        near, own = step.attention[l - 1], step.attention[-1]
        wrong = np.delete(step.attention, [l - 1, -1]).sum()  # 1 less the two would cancel
        yield equal(f"eps, l={l}", wrong, dilution.concentration(a, b, c, e, L, l))
        yield equal(f"gap, l={l}", near - own, formula.gap, scale=near)
        masses = [near, np.delete(step.attention[:L], l - 1).sum(), own, step.attention[L:-1].sum()]
        yield equal(f"four masses, l={l}", masses, lengths.masses(config.scores, L, l))
        yield equal(f"eps over all l, l={l}", wrong, every[l - 1])
        yield equal(f"gap of four masses, l={l}", near - own, lengths.gap(config.scores, L, l), scale=near)
    at_two = dilution.concentration(a, b, c, e, 2, 2)
    for n in config.lengths:
        # odds: near 1 a share says nothing; those of eps(L,L) are (L-1)(e^b + e^e)/(e^a + e^c)
        odds = (n - 1) * (math.exp(b) + math.exp(e)) / (math.exp(a) + math.exp(c))
        bound = dilution.diluted(at_two, n)
        yield at_most(f"odds of eps(L,L), L={n}", odds, bound / (1 - bound), rounding=1e-9)
        yield row({"L": n, "eps(L,L)": odds / (1 + odds), "bound": bound})
    if math.isclose(at_two, 0.5):
        far = dilution.diluted(at_two, max(config.lengths))
        yield at_least(
            "the odds over the bound's, at eps(2,2) = 1/2", odds / (far / (1 - far)), 1 - 1.5 / max(config.lengths)
        )


def looked_at(network: Any, rows: np.ndarray, L: int) -> list[tuple[np.ndarray, bool, int]]:
    """For every chain and step: attention, whether the value comes out right, and the step."""
    found = []
    for told in rows:
        for l in range(1, L + 1):
            step = literal.step_of(network, told[: L + l], L, told[L + l, 4:])
            found.append((step.attention, int(np.argmax(step.F[0])) == int(step.target[0]), l))
    return found


def routed(config: Ideal) -> dict[str, bool]:
    """What both figures show: Q leads from an answer to two clauses."""
    (a, b, c, e), L = config.scores, config.task.length
    found = [dilution.attention(a, b, c, e, L, l) for l in range(1, L + 1)]
    least = min(min(one.predicate, one.own) for one in found)
    return {"Q puts at least 0.4 on each of the two clauses": least >= 0.4}


def ablatable(config: Ideal) -> dict[str, bool]:
    """What a block's removal can show: there are other clauses and other values, and a, c are far above 0."""
    task, (a, _, c, _) = config.task, config.scores
    return routed(config) | {
        "there is another predicate: L >= 2": task.length >= 2,
        "there are two values": task.group.values >= 2,
        "two actions differ": len(np.unique(np.asarray(task.group.table), axis=0)) >= 2,
        f"a and c are at least {FAR:g}, for a tenth to be left without them": min(a, c) >= FAR,
    }


@LEDGER.exact(
    "fig3",
    statement="Figure 3",
    says=r"the mechanism: answer $\ell-1$ looks at predicate $\ell$ and at itself, and the FFN applies $g_\ell$ to"
    r" $y_{\ell-1}$",
    of=(models.symmetric_scores,),
    hypotheses=routed,
    cases=Ideal(Task("C5", 7, 5), scores=ROUTED, samples=8),
    seeds=3,
)
def two_clauses_are_retrieved(config: Ideal, seed: int):
    case, L = ideal(config, seed, (1,)), config.task.length
    network = literal.network_of(case.model)
    found = looked_at(network, chains.sentences(case.task, case.chains), L)
    yield true("the two clauses lead", [set(np.argsort(w)[-2:]) == {l - 1, L + l - 1} for w, _, l in found])
    yield true("the next value comes out", [right for _, right, _ in found])
    mass = float(np.mean([attention[l - 1] + attention[-1] for attention, _, l in found]))
    yield row({"mean mass on the two": mass, "steps": len(found)})


@LEDGER.bound(
    "fig4",
    statement="Figure 4",
    says=r"$Q_{4,3}$ looks predicates up, $Q_{4,4}$ is self-attention: without either block that clause drops to the"
    " others' level",
    of=(models.symmetric_scores,),
    hypotheses=ablatable,
    cases=Ideal(Task("C5", 7, 5), scores=ROUTED, samples=8),
    seeds=3,
)
def each_block_finds_its_clause(config: Ideal, seed: int):
    case, L = ideal(config, seed, (1,)), config.task.length
    whole = literal.network_of(case.model)
    rows, d = chains.sentences(case.task, case.chains), case.task.vocabulary
    table = []
    for name, block in (("both", None), ("without Q43", 2), ("without Q44", 3)):
        scores = whole.scores.reshape(5, d, 5, d).copy()
        if block is not None:
            scores[3, :, block] = 0.0
        found = looked_at(whole._replace(scores=scores.reshape(5 * d, 5 * d)), rows, L)
        predicate = float(np.mean([attention[l - 1] for attention, _, l in found]))
        own = float(np.mean([attention[-1] for attention, _, l in found]))
        table.append((predicate, own, float(np.mean([right for _, right, _ in found]))))
        yield row({"Q": name, "on the predicate": predicate, "on itself": own, "right": table[-1][2]})
    both, no43, no44 = table
    yield at_least("attention to the predicate", both[0], 0.3)
    yield at_least("attention to itself", both[1], 0.3)
    yield at_most("attention to the predicate without Q43", no43[0], both[0] / 10)
    yield at_most("attention to itself without Q44", no44[1], both[1] / 10)
    yield true("values need both", both[2] == 1.0 > max(no43[2], no44[2]))
