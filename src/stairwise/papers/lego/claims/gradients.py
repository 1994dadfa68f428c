"""The gradients of W and Q in closed form, against autodiff (Facts A.1, D.1, E.1, F.1; Lemmas D.1 to F.2)."""

from typing import Any

import numpy as np

from stairwise.lab.contract.checks import equal, note
from stairwise.papers.lego.claims.ledger import LEDGER
from stairwise.papers.lego.claims.networks import Case, drawn, equals, ideal
from stairwise.papers.lego.claims.sizes import Drawn, Ideal, assumption_4_1, assumption_c1, long_enough
from stairwise.papers.lego.config.task import Task
from stairwise.papers.lego.theory import gradients

CLIPPED = 1.0  # a B that many of the random logits exceed
SCORED = (gradients.xi, gradients.clause_weights, gradients.centred_clause_weights, gradients.scores)


def all_steps(config: Any) -> tuple[int, ...]:
    return tuple(range(1, config.task.length + 1))


def weight_pairs(case: Case, clip: bool = True) -> dict[str, tuple[Any, Any]]:
    found = case.gradient.weights  # (slot, token, position, class, neuron)
    dense = np.moveaxis(found, (2, 3, 4), (0, 1, 2)).reshape(*found.shape[2:], -1)
    return {"gradient of W": (dense, case.mean(lambda step: gradients.weights(step, clip)))}


def score_pairs(case: Case, bias: float) -> dict[str, tuple[Any, Any]]:
    found = case.gradient.scores.blocks
    by_xi = case.mean(lambda step: gradients.scores(step, gradients.clause_weights(step)))
    centred = case.mean(lambda step: gradients.scores(step, gradients.centred_clause_weights(step, bias)))
    return {"gradient of Q by Xi": (found, by_xi), "gradient of Q by <W,Z> - Lambda + b": (found, centred)}


@LEDGER.exact(
    "factA1",
    statement="Fact A.1",
    says=r"with the clip's factor, $-\nabla_{W_{ijr}} \mathrm{Loss} = E \sum_\ell \mathcal{E}_{ij} 1\{F_{ij}<B\}"
    r" \mathrm{sReLU}'(\Lambda_{ijr}) \sum_k \mathrm{Attn}_k Z_k$, for all five tokens",
    of=(gradients.weights,),
    cases=(Drawn(), Drawn(clip=CLIPPED)),
    seeds=3,
)
def the_gradient_of_the_weights(config: Drawn, seed: int):
    yield from equals(weight_pairs(drawn(config, seed, all_steps(config))))


OVERSHOT = Ideal(Task("C3", 4, 1), samples=12)


@LEDGER.misprint(
    "factA1-printed",
    statement="Fact A.1",
    says=r"as printed, the gradient of $W$ has no factor $1\{F<B\}$",
    means=r"a logit that Assumption 3.4 clips passes no gradient: the formula holds times $1\{F_{ij}<B\}$",
    corrected="factA1",
    of=(gradients.weights,),
    hypotheses={"C_B >= 4 (sufficiently large)": lambda config: config.clip_factor >= 4},
    cases=OVERSHOT,
    seeds=3,
)
def the_printed_gradient_of_the_weights(config: Ideal, seed: int):
    """On the learned features, a tenth beyond the clip, as the last steps of descent leave them."""
    case = ideal(config, seed, all_steps(config), beyond=1.1)
    yield from equals(weight_pairs(case, clip=False))
    yield note(f"a share {_clipped_share(case):.2g} of the true class's logits is clipped")


def _clipped_share(case: Case) -> float:
    steps = [step for row in case.found for step in row]
    return float(np.mean([not step.unclipped[0, int(step.target[0])] for step in steps]))


def _score_fact(config: Drawn, seed: int):
    yield from equals(score_pairs(drawn(config, seed, all_steps(config)), config.bias))


@LEDGER.exact(
    "factD1",
    statement="Fact D.1",
    says=r"with the clip's factor, $-\nabla_{Q_{pq}} \mathrm{Loss} = E \sum_k \mathrm{Attn}_k"
    r" (\Xi_k - \sum_{k'} \mathrm{Attn}_{k'} \Xi_{k'}) z_{\mathrm{query},p} z_{k,q}^\top$ for every block $(p,q)$",
    of=SCORED,
    hypotheses=assumption_4_1,
    cases=(Drawn(), Drawn(clip=CLIPPED)),
    seeds=3,
)
def the_gradient_of_attention(config: Drawn, seed: int):
    yield from _score_fact(config, seed)


@LEDGER.misprint(
    "factD1-printed",
    statement=("Fact D.1", "Fact E.1", "Fact F.1"),
    says=r"as printed, $\mathcal{E}_{ij} = 1\{\cdot\} - \mathrm{logit}_{ij}$ without the clip's $1\{F<B\}$",
    means=r"$\mathcal{E}_{ij}$ is zero where Assumption 3.4 clips the logit",
    corrected="factD1",
    of=(gradients.clause_weights, gradients.xi),
    hypotheses={"C_B >= 4 (sufficiently large)": lambda config: config.clip_factor >= 4},
    cases=Ideal(Task("C3", 5, 2), scores=(5.0, 0.0, 5.0, 0.0), samples=12),
    seeds=3,
)
def the_printed_gradient_of_attention(config: Ideal, seed: int):
    """On the learned features, a tenth beyond the clip, under attention that has found its two clauses."""
    case = ideal(config, seed, all_steps(config), beyond=1.1)
    write = lambda step: np.stack(gradients.blocks(step, gradients.clause_weights(step, clip=False)))  # noqa: E731
    predicate, answer = case.mean(write)
    yield equal("gradient of Q43", case.gradient.scores.predicate, predicate)
    yield equal("gradient of Q44", case.gradient.scores.answer, answer)
    yield note(f"a share {_clipped_share(case):.2g} of the true class's logits is clipped")


@LEDGER.exact(
    "factE1",
    statement="Fact E.1",
    says=r"the gradient of $Q$ is the same formula under an action that is transitive and not free",
    of=SCORED,
    hypotheses=assumption_c1,
    cases=Drawn(Task("S3", 4, 2)),
    seeds=3,
)
def the_gradient_of_attention_under_a_symmetric_group(config: Drawn, seed: int):
    yield from _score_fact(config, seed)


# --- the two trained blocks, step by step -----------------------------------------------------------------------------


def block_pairs(case: Case, bias: float, block: str, printed: bool = False) -> dict[str, tuple[Any, Any]]:
    """One block of Q, its diagonal and what is off it, for one step."""
    write = gradients.blocks_printed if printed else gradients.blocks
    index = {"predicate": 0, "answer": 1}[block]
    formula = case.mean(lambda step: np.stack(write(step, gradients.centred_clause_weights(step, bias)))[index])
    found = np.asarray(getattr(case.gradient.scores, block))
    name, diagonal = {"predicate": "Q43", "answer": "Q44"}[block], np.eye(len(found), dtype=bool)
    step = case.steps[0]
    return {
        f"{name} diagonal, l={step}": (found[diagonal], formula[diagonal]),
        f"{name} off it, l={step}": (np.where(diagonal, 0, found), np.where(diagonal, 0, formula)),
    }


def blocks(config: Drawn, seed: int, *, block: str, steps: tuple[int, ...]):
    long_enough(config.task, max(steps))
    for step in steps:
        yield from equals(block_pairs(drawn(config, seed, (step,), value_only=True), config.bias, block))
    if block == "answer" and 1 in steps:
        found = drawn(config, seed, (1,), value_only=True).gradient.scores.answer
        yield equal("Q44 off its diagonal at l=1 is 0", found - np.diag(np.diag(found)), 0.0)


SIMPLY, SYMMETRIC, LONGER = Drawn(Task("C3", 5, 2)), Drawn(Task("S3", 4, 2)), Drawn(Task("S3", 6, 4))
PREDICATE = {"block": "predicate", "steps": (2,)}
ANSWER = {"block": "answer", "steps": (2,)}

LEDGER.family(
    blocks,
    {
        "lemD1": {
            "statement": "Lemma D.1",
            "says": r"entries of $Q_{4,3}$ for $\ell = 1, 2$: $E\, \mathrm{Attn}_{\mathrm{pred}} \sum_j \mathcal{E}_j"
            r" \sum_r \mathrm{sReLU}' (\langle W, Z_{\mathrm{pred}}\rangle - \Lambda + b)$, by pair of variables",
            "hypotheses": assumption_4_1,
            "cases": SIMPLY,
            "given": {"block": "predicate", "steps": (1, 2)},
        },
        "lemD2": {
            "statement": "Lemma D.2",
            "says": r"entries of $Q_{4,4}$ for $\ell = 1, 2$: the same with answers, and nothing off the diagonal at"
            r" $\ell = 1$",
            "hypotheses": assumption_4_1,
            "cases": SIMPLY,
            "given": {"block": "answer", "steps": (1, 2)},
        },
        "lemE1": {
            "statement": "Lemma E.1",
            "says": r"entries of $Q_{4,3}$ for $\mathrm{Loss}_5^{2,2}$ under an action that is not free",
            "hypotheses": assumption_c1,
            "cases": SYMMETRIC,
            "given": PREDICATE,
        },
        "lemE2": {
            "statement": "Lemma E.2",
            "says": r"entries of $Q_{4,4}$ for $\mathrm{Loss}_5^{2,2}$ under an action that is not free",
            "hypotheses": assumption_c1,
            "cases": SYMMETRIC,
            "given": ANSWER,
        },
        "lemF1": {
            "statement": "Lemma F.1",
            "says": r"corrected: off its diagonal $Q_{4,3}$ gets a term from each of the $L_k - 1$ other predicates, at"
            r" its third token",
            "hypotheses": assumption_c1,
            "cases": LONGER,
            "given": PREDICATE,
        },
        "lemF2": {
            "statement": "Lemma F.2",
            "says": r"entries of $Q_{4,4}$ for $L = L_k$, $\ell = 2$: answer 1 on the diagonal, answer 0 off it",
            "hypotheses": assumption_c1,
            "cases": LONGER,
            "given": ANSWER,
        },
    },
    form="exact",
    of=(gradients.blocks, gradients.centred_clause_weights),
    seeds=3,
)


@LEDGER.refuted(
    "lemF1-printed",
    statement="Lemma F.1",
    says=r"as printed: off its diagonal $Q_{4,3}$ gets a term from predicate 1 only, also for $L_k > 2$",
    certificate="certificates/lemF1.py",
    corrected="lemF1",
    of=(gradients.blocks_printed,),
    hypotheses=assumption_c1,
    cases=LONGER,
    seeds=3,
)
def the_printed_predicate_block_of_longer_chains(config: Drawn, seed: int):
    long_enough(config.task, 2)
    case = drawn(config, seed, (2,), value_only=True)
    yield from equals(block_pairs(case, config.bias, "predicate", printed=True))
    yield note(f"predicates 3..{config.task.length} also show variables that the query scores against")
