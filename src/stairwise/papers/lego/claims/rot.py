"""Context rot (Section 8): the same question, asked in a context of more and more clauses that do not matter."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from stairwise.config import option
from stairwise.lab.contract.checks import at_least, at_most, equal, row, true
from stairwise.papers.lego import algorithms, reduced
from stairwise.papers.lego.claims.descents import network_of, path_of
from stairwise.papers.lego.claims.dynamics import CYCLIC_DESCENT
from stairwise.papers.lego.claims.ledger import LEDGER
from stairwise.papers.lego.claims.sizes import both
from stairwise.papers.lego.config.dynamics import AttentionRun
from stairwise.papers.lego.config.task import ACTIONS
from stairwise.papers.lego.theory import dilution
from stairwise.train import keys

AROUND = 1.25  # right at L/1.25 and wrong at 1.25 L


@dataclass(frozen=True)
class Distracted(AttentionRun):
    """Questions about one step of trained attention, and how much of the context they are asked in."""

    action: str = option("C6", "the action", examples=ACTIONS)
    asked: int = option(2, "the step l that is asked for", low=1, high=16)
    shares: tuple[float, ...] = option(
        (0.1, 0.3, 0.6, 0.8, 1.25),
        "numbers of predicates, over the one at which the answer is lost",
        above=0.0,
        high=4.0,
    )


@eqx.filter_jit
def _answered(network: reduced.IdealValues, table: Any, scores: Any, drawn: Any, length: Any, step: int, most: int):
    """Whether step l comes out right, and p of the right value, of each question; and the attention of that step.

    A question is y_0 and g_1..g_l, told with the right values. It is the same at every length up to `most`.
    """

    def one(key):
        start, actions = reduced.draw_chain(key, table, most)
        walk = reduced.rollout(network, table, scores, actions, start, length, steps=step, forced=True)
        return walk.right[-1], walk.probability[-1]

    return *jax.vmap(one)(drawn), reduced.shares(scores, length, step)


@LEDGER.bound(
    "sec8-rot",
    statement="Section 8, context rot",
    says=r"as irrelevant predicates accumulate and the task stays: attention to them grows as $\varepsilon(L,\ell)$,"
    r" the answer's probability falls, and the answer is lost at $L = 1 + (\frac{n_Y}{n_Y-2}(e^a+e^c) -"
    r" (\ell-1)e^e)/e^b$ (right at $L/1.25$, wrong at $1.25\,L$)",
    of=(dilution.rotten_length, dilution.concentration, dilution.attention),
    hypotheses=both(CYCLIC_DESCENT, lambda config: {"more than 2 values, for L to be finite": config.group.values > 2}),
    cases=(Distracted(), Distracted(action="C3"), Distracted(asked=6)),
    seeds=3,
)
def irrelevant_clauses_drown_the_answer(config: Distracted, seed: int):
    plain = AttentionRun(**{field.name: getattr(config, field.name) for field in dataclasses.fields(AttentionRun)})
    a, b, c, e = (float(score) for score in path_of(plain).scores[-1])
    lost, step = dilution.rotten_length(a, b, c, e, config.group.values, config.asked), config.asked
    shares = sorted({*config.shares, 1 / AROUND, AROUND})
    lengths = [max(step, int(np.ceil(share * lost) if share > 1 else share * lost)) for share in shares]
    drawn = jax.random.split(keys.role_key(seed, "questions"), config.test_examples)
    table, scores = jnp.asarray(config.group.table, dtype=jnp.int32), jnp.asarray([a, b, c, e], algorithms.real())
    found = []
    for L in lengths:
        length = jnp.asarray(L, dtype=jnp.int32)
        answered = _answered(network_of(config), table, scores, drawn, length, step, max(lengths))
        right, probability, attention = (np.asarray(part) for part in answered)
        missed, odds = attention[[1, 3]].sum(), ((L - 1) * np.exp(b) + (step - 1) * np.exp(e)) / (np.exp(a) + np.exp(c))
        yield equal(f"attention to irrelevant clauses, L={L}", missed, dilution.concentration(a, b, c, e, L, step))
        yield equal(f"its odds, L={L}", missed / attention[[0, 2]].sum(), odds, 1e-9)
        found.append((float(missed), float(right.mean()), float(probability.mean())))
        yield row(
            {"L": L, "L over the lost one": L / lost, "eps": found[-1][0], "right": found[-1][1], "p": found[-1][2]}
        )
    eps, right, p = np.array(found).T
    yield true("attention to irrelevant clauses grows", np.diff(eps) > 0)
    yield at_most("p of the right value over that at the length before", p[1:] / p[:-1], 1.0, rounding=1e-9)
    yield at_least("questions answered at L/1.25", right[shares.index(1 / AROUND)], 0.95)
    yield at_most("questions answered at 1.25 L", right[shares.index(AROUND)], 0.05)
