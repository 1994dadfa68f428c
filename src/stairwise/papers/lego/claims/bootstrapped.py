"""Self-training (Sections 5 and F): the greedy annotator, its distribution and its loss, and what doubling costs."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.config import Config, option
from stairwise.lab.contract.checks import at_least, at_most, equal, row, true
from stairwise.papers.lego import reduced
from stairwise.papers.lego.claims.ledger import LEDGER
from stairwise.papers.lego.claims.networks import Case, ideal
from stairwise.papers.lego.claims.sizes import Ideal
from stairwise.papers.lego.config.task import Task
from stairwise.papers.lego.theory import chains, lengths, literal
from stairwise.train.draws import draws_of

WEAK = (1.3, 0.0, 1.1, 0.1)  # a, b, c, e of an annotator that is wrong at times
STUDENT = (1.2, 0.3, 2.0, -0.2)
SAMPLES = Ideal(Task("S3", 8, 6), scores=WEAK, samples=40), Ideal(Task("C5", 7, 5), scores=WEAK, samples=40)


def greedy(case: Case) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The values of all answers, the annotator's own fed back, by the dense network; up to where no two values tie; and
    the probability of the right answer at each step.

    A tie is broken by rounding, and the chain takes another way from there.
    """
    network, L, first = literal.network_of(case.model), case.task.length, case.task.starts[2]
    told = chains.sentences(case.task, case.chains).copy()
    decided, chances = np.ones((len(told), L), dtype=bool), np.ones((len(told), L))
    truth = true_values(case)
    for place, sentence in enumerate(told):
        for step in range(1, L + 1):
            found = literal.step_of(network, sentence[: L + step], L, sentence[L + step, 4:])
            of_values = found.F[0, first : first + case.task.values]
            sentence[L + step, 4] = first + np.argmax(of_values)
            best = np.sort(of_values)[-2:]
            decided[place, step - 1] = best[1] - best[0] > 1e-9
            chances[place, step - 1] = found.logit[0, first + truth[place][step - 1]]
    return told[:, L:, 4] - first, np.logical_and.accumulate(decided, axis=1), chances


@LEDGER.exact(
    "defF1-greedy",
    statement=("Definition F.1", "Definition F.2", "Definition 5.1"),
    says="the greedy annotator writes the likeliest answer, reads it, and continues: the roll-out on four scalars says"
    " what the dense network does, wrong answers included",
    of=(reduced.rollout, reduced.logits),
    cases=SAMPLES,
    seeds=3,
)
def annotators_read_their_own_answers(config: Ideal, seed: int):
    case = ideal(config, seed, ())
    said = rolled_out(config, case)
    labels, decided, chances = greedy(case)
    right = labels[:, 1:] == np.array(true_values(case))
    yield true("the answers", (np.asarray(said.values) == labels[:, 1:])[decided])
    yield true("which of them are right", (np.asarray(said.right) == right)[decided])
    yield equal("p of the right answers", np.asarray(said.probability)[decided], chances[decided], 1e-9)
    yield at_least("share of wrong answers, after ties too", np.mean(~right), 0.01)
    yield at_least("share of answers before a tie", decided.mean(), 0.5)
    yield row({"wrong": float(np.mean(~right[decided])), "before a tie": float(decided.mean())})


def true_values(case: Case) -> list[list[int]]:
    """y_1, ..., y_L, one action after the other."""
    table, found = np.asarray(case.task.table), []
    for start, actions in zip(np.asarray(case.chains.values)[:, 0], np.asarray(case.chains.actions), strict=True):
        values = [int(start)]
        for action in actions:
            values.append(int(table[action, values[-1]]))
        found.append(values[1:])
    return found


def rolled_out(config: Ideal, case: Case) -> Any:
    network, scores = _values_of(config), jnp.asarray(config.scores)
    table = jnp.asarray(case.task.table, dtype=jnp.int32)
    roll = partial(reduced.rollout, network, table, scores, length=case.task.length)
    drawn = case.chains
    return jax.jit(jax.vmap(lambda actions, start: roll(actions=actions, start=start)))(
        drawn.actions.astype(jnp.int32), drawn.values[:, 0].astype(jnp.int32)
    )


def _values_of(config: Ideal) -> reduced.IdealValues:
    return reduced.ideal_values(config.task.group, config.task.variables, config.clip_factor, config.rho, config.q)


@LEDGER.exact(
    "defF3-loss",
    statement=("Definition F.3", "Definition 5.2"),
    says=r"the self-training loss is $-\log p$ of the annotator's own answer, after its own answers, under the"
    " student's attention: contexts of the four-scalar model against the dense network, at every step",
    of=(reduced.chain_context, reduced.loss),
    cases=SAMPLES,
    seeds=3,
)
def the_loss_is_on_own_labels(config: Ideal, seed: int):
    case, network = ideal(config, seed, ()), _values_of(config)
    task, L = case.task, case.task.length
    labels, _, _ = greedy(case)
    student = literal.network_of(ideal(_with(config, STUDENT), seed, ()).model)
    told = chains.sentences(task, case.chains).copy()
    told[:, L:, 4] = labels + task.starts[2]
    table = jnp.asarray(task.table, dtype=jnp.int32)

    @jax.jit
    def losses(actions, values):
        at = lambda step: reduced.loss(  # noqa: E731
            network, jnp.asarray(STUDENT), reduced.chain_context(table, actions, values, L, step, jnp.float64)
        )
        return jnp.stack([at(step) for step in range(1, L + 1)])

    found = jax.vmap(losses)(case.chains.actions.astype(jnp.int32), jnp.asarray(labels, dtype=jnp.int32))
    dense = np.zeros(np.shape(found))
    for place, sentence in enumerate(told):
        for step in range(1, L + 1):
            seen = literal.step_of(student, sentence[: L + step], L, sentence[L + step, 4:])
            dense[place, step - 1] = -np.log(seen.logit[0, sentence[L + step, 4]])
    for step in range(1, L + 1):
        yield equal(f"losses of step {step}", found[:, step - 1], dense[:, step - 1], 1e-9)


def _with(config: Ideal, scores: tuple[float, ...]) -> Ideal:
    return Ideal(config.task, config.clip_factor, config.rho, config.q, scores, config.samples)


# --- doubling ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Doubled(Config):
    """Scores drawn at random, and lengths that are doubled."""

    lengths: tuple[int, ...] = option((2, 4, 16, 64), "lengths L before doubling", low=2, high=4096)
    draws: int = option(50, "scores a, b, c, e", low=2, high=10_000)
    spread: float = option(3.0, "standard deviation of the scores", above=0.0, high=20.0)


def clause_by_clause(scores: np.ndarray, length: int) -> tuple[float, float]:
    """eps and the gap of step 2, from the scores of all L + 2 clauses one by one."""
    a, b, c, e = scores
    each = np.array([b, a, *[b] * (length - 2), e, c])  # predicate 2 is asked for; answers 0 and 1
    weights = np.exp(each - each.max())
    weights /= weights.sum()
    return float(weights.sum() - weights[1] - weights[-1]), float(weights[1] - weights[-1])


@LEDGER.bound(
    "remF1",
    statement="Remark F.1",
    says=r"when $L$ doubles, $\varepsilon$ of step 2 at most doubles where irrelevant clauses have one score (in"
    r" general it grows by $2 + (x-1)/((L-1)x+1)$ at most, $x = e^{b-e}$); the attention gap $|\Delta|$ does not grow",
    of=(lengths.concentration, lengths.gap, lengths.doubled_error),
    cases=Doubled(),
    seeds=3,
)
def doubling_doubles_the_error_at_most(config: Doubled, seed: int):
    scores = config.spread * draws_of(seed, "scores").standard_normal((config.draws, 4))
    for L in config.lengths:
        eps, gap = lengths.concentration(scores, L, 2), lengths.gap(scores, L, 2)
        dense = np.array([clause_by_clause(one, L) for one in scores])
        yield equal(f"eps clause by clause, L={L}", eps, dense[:, 0])
        yield equal(f"gap clause by clause, L={L}", gap, dense[:, 1])
        later, closer = lengths.concentration(scores, 2 * L, 2), lengths.gap(scores, 2 * L, 2)
        yield at_most(f"eps at 2L over that at L, L={L}", later / eps, lengths.doubled_error(scores, L))
        alike = scores[:, [0, 1, 2, 1]]  # b = e, as Lemma E.12 has it up to O(1/d)
        grown = lengths.concentration(alike, 2 * L, 2) / lengths.concentration(alike, L, 2)
        yield at_most(f"eps at 2L over that at L where b = e, L={L}", grown, 2.0)
        yield at_most(f"|gap| at 2L over that at L, L={L}", np.abs(closer / gap), 1.0, rounding=1e-12)
        for b in (-1.0, 0.0, 1.0):  # attained where eps is small
            sharp = np.array([20.0, b, 20.0, 0.0])
            ratio = lengths.concentration(sharp, 2 * L, 2) / lengths.concentration(sharp, L, 2)
            yield equal(f"the same where eps is small, b={b:g}, L={L}", ratio, lengths.doubled_error(sharp, L), 1e-5)
