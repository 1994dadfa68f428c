"""How far it carries: Theorems 4.1 and 5.1, their corollaries, the two algorithms, and the critical length."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.config import option, require
from stairwise.lab.contract.checks import at_least, at_most, equal, measured, note, row, slope, true, vacuous_if
from stairwise.papers.lego import algorithms, reduced
from stairwise.papers.lego.claims.descents import (
    Stages,
    accuracies,
    every_stage,
    network_of,
    path_of,
    stages_of,
    written_out,
)
from stairwise.papers.lego.claims.dynamics import CYCLIC_DESCENT, SELF, SELF_TRAINING, labels, many_variables
from stairwise.papers.lego.claims.ledger import LEDGER
from stairwise.papers.lego.claims.sizes import assumption_4_1, assumption_c1, both, transitive_group
from stairwise.papers.lego.config.dynamics import AttentionRun, Reduced
from stairwise.papers.lego.config.task import ACTIONS, action_of
from stairwise.papers.lego.theory import lengths
from stairwise.train import keys

AROUND = 1.4  # the failing length is bracketed between L*/1.4 and 1.4 L*
LONG = AttentionRun(action="C6", test_lengths=(2, 8, 32, 64, 128))
LONGEST = 20_000  # steps of a roll-out
DESCENT = (algorithms._stepped, reduced.descended, reduced.rollout)


def critical(config: Reduced, scores: np.ndarray) -> float:
    return lengths.critical_length(scores, config.group.values)


@jax.jit
def _told(network, table, scores, actions, first, length):
    """The roll-out to which the true values are told."""
    return reduced.rollout(network, table, scores, actions, first, length, forced=True)


@partial(jax.jit, static_argnums=5)
def _losses(network, table, scores, actions, values, length: int):
    """The loss of every step of one chain, each from the whole of its context."""

    def loss(step):
        context = reduced.chain_context(table, actions, values, length, step, scores.dtype)
        return reduced.loss(network, scores, context)

    return jax.vmap(loss)(jnp.arange(1, length + 1, dtype=jnp.int32))


def clause_by_clause(config: AttentionRun, seed: int):
    """A roll-out keeps running counts; each of its steps is that of the whole chain, at scores that decide nothing."""
    table, network = jnp.asarray(config.group.table, dtype=jnp.int32), network_of(config)
    scores, length = jnp.asarray([0.5, -0.2, 0.3, 0.1], dtype=algorithms.real()), 6
    first, actions = reduced.draw_chain(keys.role_key(seed, "one chain"), table, length)
    walk = _told(network, table, scores, actions, first, length)
    values = [first]
    for action in actions:
        values.append(table[action, values[-1]])
    losses = np.asarray(_losses(network, table, scores, actions, jnp.stack(values), length))
    yield equal("probabilities of the right answers, step by step", np.asarray(walk.probability), np.exp(-losses))


def bracket(config: AttentionRun, scores: np.ndarray, seed: int):
    """Exact match at L*/1.4 and at 1.4 L*."""
    yield from clause_by_clause(config, seed)
    star = critical(config, scores)
    if config.group.values <= 2:
        yield vacuous_if(True, "two values never fail: L* is infinite")
        return
    yield at_most("L*, which is rolled out", star, LONGEST / AROUND)
    if not star <= LONGEST / AROUND:
        return
    short, long = int(star / AROUND), int(np.ceil(star * AROUND))
    found = {L: accuracies(config, scores, L, long, seed)["exact match"] for L in (short, long)}
    yield at_least("chains right at L*/1.4", found[short], 0.5)
    yield at_most("chains right at 1.4 L*", found[long], 0.5)
    for L, match in found.items():
        yield row({"L": L, "exact match": match, "L*": star})


@LEDGER.bound(
    "thm4.1-acc",
    statement=("Theorem 4.1", "Theorem D.1", "Eq. (7)"),
    says=r"simply transitive, trained on lengths 1 and 2, ideal FFN: all chains right at tested lengths up to $L^*/2$,"
    r" with an accuracy (5) of $1 - 1/d$ or more up to $L^*/8$; $L^*$ is bracketed by roll-outs",
    of=(*DESCENT, lengths.critical_length),
    hypotheses=CYCLIC_DESCENT,
    cases=(LONG, dataclasses.replace(LONG, action="C3")),
    seeds=3,
)
def short_to_long(config: AttentionRun, seed: int):
    yield from written_out(config)
    scores = path_of(config).scores[-1]
    star = critical(config, scores)
    tested = [L for L in config.test_lengths if star / 2 >= L]
    yield from bracket(config, scores, seed)
    for length in tested:
        found = accuracies(config, scores, length, max(tested), seed)
        yield equal(f"chains right at L={length}", found["exact match"], 1.0)
        if length <= star / 8:
            yield at_most(f"1 - Acc at L={length}", 1 - found["expected probability"], 1 / config.vocabulary)
        yield row({"L": length, "exact match": found["exact match"], "1 - eq. (5)": 1 - found["expected probability"]})


@dataclass(frozen=True)
class GrowingVocabulary(AttentionRun):
    """Descents at several numbers of variables, each for 8 |X| steps."""

    action: str = option("C6", "the action", examples=ACTIONS)
    steps: int = option(8192, "steps of the longest", low=1000, high=100_000)
    sizes: tuple[int, ...] = option((64, 128, 256, 512, 1024), "numbers of variables |X|", low=64, high=100_000)

    def runs(self):
        """(vocabulary d, scores after 8 |X| steps) of each size; one compiled program serves all."""
        for variables in self.sizes:
            run = AttentionRun(**{field.name: getattr(self, field.name) for field in dataclasses.fields(AttentionRun)})
            run = dataclasses.replace(run, variables=variables)
            yield run.vocabulary, path_of(run).scores[min(8 * variables, self.steps)]


@LEDGER.rate(
    "thm4.1-attn",
    statement=("Theorem 4.1", "Theorem D.1", "Eq. (8)"),
    says=r"simply transitive: $\varepsilon(2,2) = O(d^{-c^*})$; after $8|X|$ steps it falls faster than $d^{-0.9}$, and"
    r" the length that is carried, $L^*$, grows faster than $d^{0.9}$",
    of=(DESCENT[0], lengths.concentration, lengths.critical_length),
    hypotheses=both(assumption_4_1, lambda config: {"|X| >= 64": min(config.sizes) >= 64}),
    cases=(GrowingVocabulary(), GrowingVocabulary(action="C3")),
)
def concentration_exponent(config: GrowingVocabulary, seed: int):
    d, scores = zip(*config.runs(), strict=True)
    eps = [float(lengths.concentration(each, 2, 2)) for each in scores]
    star = [critical(config, each) for each in scores]
    yield slope("exponent of eps(2,2) in d", d, eps, -1.0, side="at most", against="d")
    yield slope("exponent of L* in d", d, star, 1.0, side="at least", against="d")
    # eps(L*, L*) must be the critical concentration, where the right neuron's mean reading is 0
    values = config.group.values
    missed = [(s - 1) * (np.exp(b) + np.exp(e)) for s, (_, b, _, e) in zip(star, scores, strict=True)]
    share = [m / (m + np.exp(a) + np.exp(c)) for m, (a, _, c, _) in zip(missed, scores, strict=True)]
    yield equal("reading of the right neuron at L*", 1 - 2 * np.array(share) * (1 - 1 / values), 0.0)
    odds = [(np.exp(a) + np.exp(c)) / (np.exp(b) + np.exp(e)) for a, b, c, e in scores]
    yield equal("eps(2,2), from the odds of the two clauses", eps, 1 / (1 + np.array(odds)), 1e-9)
    for size, e, s in zip(d, eps, star, strict=True):
        yield row({"d": size, "eps(2,2)": e, "c": float(-np.log(e) / np.log(size)), "L*": s})


@LEDGER.bound(
    "critical-length",
    statement="ours",
    says=r"the length at which most chains fail lies within a factor 1.4 of $L^* = 1 + \frac{n_Y}{n_Y-2}"
    r" \frac{e^a+e^c}{e^b+e^e}$",
    of=(lengths.critical_length, lengths.critical_concentration, reduced.rollout),
    hypotheses=both(
        transitive_group, lambda config: {"more than 2 values, for L* to be finite": config.group.values > 2}
    ),
    cases=tuple(AttentionRun(action=name) for name in ("C6", "S4", "S5")),
    seeds=3,
)
def critical_length_brackets(config: AttentionRun, seed: int):
    scores = path_of(config).scores[-1]
    yield from bracket(config, scores, seed)
    star, values = critical(config, scores), config.group.values
    at_star = float(lengths.concentration(scores, star, star))
    yield equal("eps(L*, L*)", at_star, lengths.critical_concentration(values))
    # half of the misses on predicates, half on answers: each of them agrees by chance, 1/nY
    yield equal("reading of the right neuron there", 1 - 2 * at_star + 2 * at_star / values, 0.0)


# --- Algorithm 2 and Theorem 5.1 --------------------------------------------------------------------------------------

TABLE = Stages()
STAGED = both(assumption_c1, many_variables)
RECURSION = (algorithms._stepped, algorithms.self_labelled, reduced.chain_context, reduced.rollout)


def stage_rows(config: Stages, seed: int) -> list[dict[str, Any]]:
    """The stage table: scores, eps(L, l) at both ends, labels, L*, exact match at L, 2L, 4L and 1.4 L*."""
    most, rows = 16 * 2**config.stages, []
    for k, stage in enumerate(stages_of(config, seed), start=1):
        eps = lengths.every_step(stage.scores, stage.length)
        star = critical(config, stage.scores)
        tested = {f"{n}L": n * stage.length for n in (1, 2, 4)} | {"1.4L*": math.ceil(AROUND * star)}
        match = {name: accuracies(config, stage.scores, n, most, seed)["exact match"] for name, n in tested.items()}
        shown = {"stage": k, "L": stage.length, "steps": len(stage.path.losses) - 1, "reached": stage.path.reached}
        shown |= {"a": float(stage.scores[0]), "c": float(stage.scores[2]), "labels right": stage.label_accuracy}
        shown |= {"L*/L": star / stage.length}
        rows.append(shown | {"eps(L,2)": float(eps[1]), "eps(L,L)": float(eps[-1]), **match})
    return rows


def stages_double(config: Stages, seed: int):
    """Chains of 2L are right; those well beyond L* are not."""
    yield from every_stage(config, seed)
    most = 4 * config.group.values / (config.group.values - 2)  # the more, the fewer values a wrong reading may have
    for found in stage_rows(config, seed):
        yield at_least(f"L*/L, L={found['L']}", found["L*/L"], 2.0)
        yield at_most(f"L*/L, L={found['L']}", found["L*/L"], most)
        yield at_least(f"chains of 2L right, L={found['L']}", found["2L"], 0.99)
        yield at_most(f"chains of 1.4 L* right, L={found['L']}", found["1.4L*"], 0.05)
        yield row(found)


LEDGER.family(
    stages_double,
    {
        "thm5.1-acc": {
            "statement": ("Theorem 5.1", "Theorem F.1"),
            "says": r"Algorithm 2 on the ideal FFN: a stage trained to loss $d^{-E_1}$ on chains of $L$ gets 0.99 of"
            r" those of $2L$ right, and under 0.05 of those of $1.4L^*$;"
            r" $2L \le L^* \le \frac{4n_Y}{n_Y-2}L$, see `critical-length`",
            "cases": TABLE,
        },
        "thm1.3": {
            "statement": "Theorem 1.3",
            "says": "recursive self-training doubles the length again and again: the same for $S_3$",
            "cases": dataclasses.replace(TABLE, action="S3", stages=4),
        },
    },
    form="bound",
    of=RECURSION,
    hypotheses=STAGED,
    tier="minutes",
    seeds=3,
)


@LEDGER.bound(
    "corF",
    statement=("Theorem F.1", "Remark on doubling"),
    says=r"at each stage end the largest $\varepsilon(2L, \ell)$ over all $\ell$ is at most $4\varepsilon(L, 2)$",
    of=(lengths.every_step, algorithms.self_labelled, algorithms._stepped),
    hypotheses=STAGED,
    cases=TABLE,
    tier="minutes",
    seeds=3,
)
def one_more_doubling(config: Stages, seed: int):
    yield from every_stage(config, seed)
    for stage in stages_of(config, seed):
        here, then = (lengths.every_step(stage.scores, n * stage.length) for n in (1, 2))
        yield at_most(f"largest eps(2L, l), L={stage.length}", then.max(), 4 * here[1])
        yield row({"L": stage.length, "eps(L,2)": float(here[1]), "largest eps(2L,l)": float(then.max())})


@LEDGER.bound(
    "lemF16",
    statement="Lemma F.16",
    says=r"at the end of a stage at the level $e^{(-1/2+3.01c_1)2B}$, $\varepsilon(L,2) \le 5.04 c_1$",
    of=(lengths.stage_window, algorithms.self_labelled, algorithms._stepped),
    hypotheses=SELF_TRAINING,
    cases=SELF,
    tier="minutes",
    seeds=3,
)
def end_of_a_stage(config: Stages, seed: int):
    yield from labels(config, seed)
    high = lengths.stage_window(config.network.clip_factor)[1]
    yield equal("5.04 c1 over 1/C_B", high * config.network.clip_factor, 5.0652)
    for stage in stages_of(config, seed)[1:]:
        yield at_most(f"eps(L,2), L={stage.length}", lengths.concentration(stage.scores, stage.length, 2), high)


@LEDGER.bound(
    "thm5.1-attn",
    statement=("Theorem 5.1", "Eq. (12)"),
    says=r"$\varepsilon$ at a stage's end is a constant that does not vanish: $\varepsilon(L,2)$ within a factor 2 over"
    r" the stages, and $\varepsilon(L,\ell) < 1/2$ for every $\ell$",
    of=(lengths.every_step, algorithms.self_labelled, algorithms._stepped),
    hypotheses=STAGED,
    cases=TABLE,
    tier="minutes",
    seeds=3,
)
def concentration_stays_constant(config: Stages, seed: int):
    second = []
    yield from every_stage(config, seed)
    for stage in stages_of(config, seed):
        eps = lengths.every_step(stage.scores, stage.length)
        second.append(float(eps[1]))
        yield at_most(f"eps(L,l) over all l, L={stage.length}", eps, 0.5)
        yield row({"L": stage.length, "eps(L,1)": float(eps[0]), "eps(L,2)": second[-1], "eps(L,L)": float(eps[-1])})
    yield at_most("largest over smallest eps(L,2)", max(second) / min(second), 2.0)
    yield at_least("smallest eps(L,2)", min(second), 0.05)


@LEDGER.bound(
    "thm5.1-attn-printed",
    statement="Eq. (12)",
    says=r"eq. (12): $\varepsilon(L,\ell) < 0.01$ for every $\ell$; Theorem F.1's $20.16 c_1$ gives that for"
    r" $C_B \ge 2026$",
    of=(lengths.clip_factor_for,),
    hypotheses=both(
        assumption_c1,
        lambda config: {"C_B >= 2026": config.network.clip_factor >= lengths.clip_factor_for(0.01)},
    ),
    infeasible="at C_B = 2026 the loss that ends a stage is d^-2026, below what a float64 can hold",
    cases=TABLE,
    tier="minutes",
    seeds=3,
)
def concentration_as_printed(config: Stages, seed: int):
    yield equal("20.16 c1 at that C_B", 20.16 * lengths.window_constant(lengths.clip_factor_for(0.01)), 0.01)
    for stage in stages_of(config, seed):
        yield at_most(f"eps(L,l), L={stage.length}", lengths.every_step(stage.scores, stage.length), 0.01)


@LEDGER.bound(
    "cor5.1",
    statement="Corollary 5.1",
    says=r"after $\log_2|X| - 1$ stages the longest chain that the variables allow, $L = |X| - 1$, is right (0.99)",
    of=RECURSION,
    hypotheses=both(STAGED, lambda config: {"stages >= log2|X| - 1": 2 * 2**config.stages >= config.variables - 1}),
    cases=Stages(variables=64, stages=5),
    tier="minutes",
    seeds=3,
)
def the_longest_chain(config: Stages, seed: int):
    yield from every_stage(config, seed)
    longest, last = config.variables - 1, stages_of(config, seed)[-1]
    found = accuracies(config, last.scores, longest, longest, seed)["exact match"]
    yield at_least(f"chains right at L={longest}", found, 0.99)
    untrained = accuracies(config, np.zeros(4), longest, longest, seed)["exact match"]
    yield at_most("chains right without training", untrained, 0.05)
    yield row({"L": longest, "trained on": last.length})


@LEDGER.bound(
    "alg2",
    statement="Algorithm 2",
    says="Algorithm 2: every stage reaches its loss, its annotator's labels are all right, and scores continue from"
    " those of the stage before",
    of=(algorithms.self_labelled, algorithms.path, reduced.chain_context),
    hypotheses=STAGED,
    cases=TABLE,
    tier="minutes",
    seeds=3,
)
def recursive_self_training(config: Stages, seed: int):
    done = stages_of(config, seed)
    level = config.vocabulary**-config.exponent
    before = np.zeros(4)
    yield from every_stage(config, seed)
    for stage in done:
        steps = {2} if config.supervised == "second" else set(range(1, stage.length + 1))
        asked = all(length == stage.length and step in steps for length, step in stage.asked)
        yield true(f"a stage trains on chains of {stage.length}, and on its step", asked)
        yield equal(f"targets that follow from the answer before, L={stage.length}", stage.derived, 1.0)
        yield at_most(f"last loss, L={stage.length}", stage.path.losses[-1], level)
        yield true(f"a longer chain is not solved yet, L={stage.length}", len(stage.path.losses) > 1)
        yield at_least(
            f"losses before, L={stage.length}", stage.path.losses[: max(1, len(stage.path.losses) - 1)], level
        )
        yield equal(f"labels right, L={stage.length}", stage.label_accuracy, 1.0)
        yield equal(f"first scores, L={stage.length}", stage.path.scores[0], before)
        before = stage.scores
        yield row({"L": stage.length, "steps": len(stage.path.losses) - 1, "labels right": stage.label_accuracy})


@LEDGER.empirical(
    "alg1",
    experiment="algorithm1",
    statement="Algorithm 1",
    says="Algorithm 1 end to end: trained on lengths 1 and 2, all right at every length; with $Q = 0$ almost none",
)
def curriculum_training(records: Sequence[Any]):
    for record in records:
        name = " ".join(filter(None, [record.arm, f"seed {record.seed}"]))
        match, untrained = record.array("two steps/value match"), record.array("one step/untrained value match")
        tested = np.array(record.config.test_lengths)
        yield at_least(f"least exact match, {name}", match.min(), 0.99)
        yield at_most(f"exact match from L=5 on with Q=0, {name}", untrained[tested >= 5].max(initial=0.0), 0.05)
        shown = {"arm": record.arm, "seed": record.seed, "token 5": record.final("token 5", "one step")}
        shown |= {f"L={L}": float(value) for L, value in zip(tested, match, strict=True)}
        yield row(shown | {"Q43": record.final("Q43 diagonal"), "Q44": record.final("Q44 diagonal")})


# --- the informal theorems --------------------------------------------------------------------------------------------


@LEDGER.bound(
    "thm1.1",
    statement="Theorem 1.1",
    says=r"one layer learns to track states: after $\mathcal{T}^1$ and $\mathcal{T}^2$ the accuracy (5) on"
    r" $\mathcal{T}^2$ is at least $1 - 1/d$; before $\mathcal{T}^2$ it is not",
    of=DESCENT,
    hypotheses=both(transitive_group, many_variables),
    cases=(AttentionRun(action="C6"), AttentionRun(action="S4")),
    seeds=3,
)
def learns_the_chain(config: AttentionRun, seed: int):
    yield from written_out(config)
    yield from clause_by_clause(config, seed)
    path = path_of(config)
    after, before = (accuracies(config, path.scores[place], 2, 2, seed) for place in (-1, 0))
    yield at_most("1 - Acc after", 1 - after["expected probability"], 1 / config.vocabulary)
    yield at_least("1 - Acc before", 1 - before["expected probability"], 0.1)
    yield equal("greedy chains that are right after", after["exact match"], 1.0)


@dataclass(frozen=True)
class TwoActions(GrowingVocabulary):
    """The same descents, and those of a second action, which end at the loss d^-E_1 as Algorithm 2 has it."""

    symmetric: str = option("S4", "the second action", examples=ACTIONS)

    def ends(self):
        """(vocabulary d, scores) of the second action once its loss is below d^-E_1, at each size."""
        run = AttentionRun(**{field.name: getattr(self, field.name) for field in dataclasses.fields(AttentionRun)})
        for variables in self.sizes:
            last = dataclasses.replace(run, action=self.symmetric, variables=variables, stop="power")
            path = path_of(last)
            require(
                path.losses[-1] <= last.vocabulary**-self.exponent,
                f"steps={self.steps} must be enough for the loss d^-{self.exponent:g} at |X|={variables}",
            )
            yield last.vocabulary, path.scores[-1]


def two_actions(config: TwoActions) -> dict[str, bool]:
    second, factor = action_of(config.symmetric), config.network.clip_factor
    return {
        **assumption_4_1(config),
        "the second action is transitive, and not free (Assumption C.1)": second.transitive and not second.free,
        "more than 2 values, for L* to be finite": min(second.values, config.group.values) > 2,
        "|X| >= 64": min(config.sizes) >= 64,
        "2 <= E_1 <= C_B/2: eps is neither small nor 1/2": 2 <= config.exponent <= factor / 2,
    }


@LEDGER.rate(
    "thm1.2-growth",
    statement="Theorem 1.2",
    says=r"trained on chains of 2 as the formal statements say: simply transitive, $L^*$ grows faster than $d^{0.9}$"
    r" ($8|X|$ steps); symmetric, it is the same at every $d$ up to 10 % (loss $d^{-E_1}$), and 4 or more",
    of=(DESCENT[0], lengths.critical_length),
    hypotheses=two_actions,
    cases=TwoActions(),
)
def growth_and_a_constant_factor(config: TwoActions, seed: int):
    d, scores = zip(*config.runs(), strict=True)
    star = [critical(config, each) for each in scores]
    yield slope("exponent of L*, simply transitive", d, star, 1.0, side="at least", against="d")
    d, scores = zip(*config.ends(), strict=True)
    values = action_of(config.symmetric).values
    star = [lengths.critical_length(each, values) for each in scores]
    yield slope("exponent of L*, symmetric", d, star, 0.0, within=0.05, against="d")
    yield at_least("L* over the training length, symmetric", np.array(star) / 2, 2.0)
    yield at_most("largest L* over the smallest, symmetric", max(star) / min(star), 1.1)
    missed = [(s - 1) * (np.exp(b) + np.exp(e)) for s, (_, b, _, e) in zip(star, scores, strict=True)]
    share = [m / (m + np.exp(a) + np.exp(c)) for m, (a, _, c, _) in zip(missed, scores, strict=True)]
    yield equal("reading of the right neuron at L*", 1 - 2 * np.array(share) * (1 - 1 / values), 0.0)
    for size, s in zip(d, star, strict=True):
        yield row({"d": size, "L* of the second action": s})
    yield note("the training differs too: at the loss d^-E_1 the simply transitive action has a constant L* as well")


@LEDGER.reported(
    "thm1.2",
    statement="Theorem 1.2",
    says=r"how far it carries: $L^*$ of $C_6$ over that of $S_5$ after equal steps and at equal loss",
    of=(lengths.critical_length,),
    hypotheses=transitive_group,
    cases=AttentionRun(action="S5"),
)
def the_action_decides(config: AttentionRun, seed: int):
    """At equal steps cyclic attention is more concentrated; at equal loss the two hardly differ."""
    for stop, name in (("never", "equal steps"), ("power", "equal loss")):
        ends = {}
        for action in ("C6", config.action):
            run = dataclasses.replace(config, action=action, stop=stop)
            path = path_of(run)
            ends[action] = critical(run, path.scores[-1])
            eps = float(lengths.concentration(path.scores[-1], 2, 2))
            shown = {"until": name, "action": action, "L*": ends[action], "steps": len(path.losses) - 1}
            yield row(shown | {"eps(2,2)": eps})
        yield measured(f"L* of C6 over that of {config.action}, {name}", ends["C6"] / ends[config.action])
    yield note("no lower bound on length is proved for S_n")


# --- beyond the paper: which property of the action limits length -----------------------------------------------------


@LEDGER.bound(
    "limits-order",
    statement="ours",
    says=r"on 5 points $L^*$ falls with the fiber size ($C_5$, $D_5$, $A_5$, $S_5$), whatever is solvable; $C_6$ and"
    r" $S_3$ on itself, which share $|G|$, $|Y|$ and fiber but not commutativity, differ by less than 10 %; training at"
    r" least doubles $L^*$ of each",
    of=(algorithms._stepped,),
    cases=AttentionRun(action="C5"),
)
def fibers_limit_length(config: AttentionRun, seed: int):
    stars = {}
    for name in ("C5", "D5", "A5", "S5", "C6", "S3-regular"):
        run = dataclasses.replace(config, action=name)
        scores = path_of(run).scores[-1]
        stars[name] = critical(run, scores)
        group = run.group
        shown = {"action": name, "fiber": group.actions // group.values, "solvable": group.solvable, "L*": stars[name]}
        yield row(shown | {"a": float(scores[0]), "c": float(scores[2])})
        before = critical(run, np.zeros_like(scores))
        yield at_least(f"L* of {name} over that before training", stars[name] / before, 2.0)
    for smaller, larger in (("C5", "D5"), ("D5", "A5"), ("A5", "S5")):
        yield at_least(f"L* of {smaller} over that of {larger}", stars[smaller] / stars[larger], 1.0)
    yield at_most("C_6 against S_3 on itself", abs(stars["C6"] / stars["S3-regular"] - 1), 0.1)
