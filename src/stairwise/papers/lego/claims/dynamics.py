"""How attention concentrates: the stages of Appendix D, the phases and the window of Appendices E and F.

The lemmas on the way have checks of their own: what neurons read (`readings`, `longer`), what the network says
(`logits`), which way scores are pushed (`pushes`), and how long hypotheses hold (`inductions`).
"""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.config import option
from stairwise.lab.contract.checks import at_least, at_most, equal, row, slope, true
from stairwise.papers.lego import algorithms, reduced
from stairwise.papers.lego.claims.descents import (
    Stages,
    clip_of,
    every_stage,
    network_of,
    path_of,
    stages_of,
    written_out,
)
from stairwise.papers.lego.claims.ledger import LEDGER
from stairwise.papers.lego.claims.sizes import assumption_4_1, assumption_c1, both
from stairwise.papers.lego.config.dynamics import AttentionRun, Constants
from stairwise.papers.lego.config.task import ACTIONS
from stairwise.papers.lego.theory import inductions, lengths

DESCENT = (algorithms._stepped, reduced.descended, reduced.matches, reduced.shares)
CYCLIC = (AttentionRun(action="C3"), AttentionRun(action="C6"))


def pushes(config: AttentionRun, step: int) -> np.ndarray:
    """-dLoss/d(a, b, c, e) of step l at Q = 0."""
    population, network = reduced.two_steps(config.group, step), network_of(config)
    zero = jnp.zeros(4, dtype=jnp.asarray(0.0).dtype)
    return -np.asarray(jax.jit(jax.grad(reduced.mean_loss, argnums=1))(network, zero, population))


def spurious(config: AttentionRun) -> tuple[float, float, float]:
    """At Q = 0, step 1, g_1 != g_2: Lambda of the right class, of g_2(y_0), and B'/3."""
    population, network = reduced.two_steps(config.group, 1), network_of(config)
    zero = jnp.zeros(4, dtype=jnp.asarray(0.0).dtype)
    read = jax.jit(jax.vmap(lambda context: network.preactivations(*reduced.matches(zero, context))))
    pre = read(population.contexts)
    start = np.asarray(population.contexts.target)  # relabelled so that g_1 is the identity
    other = np.asarray(population.contexts.far).argmax(axis=1)[np.arange(len(start)), start]
    differ = other != start
    found = np.asarray(pre)[np.arange(len(start)), :, start][differ]
    rows = np.arange(differ.sum())
    right, wrong = found[rows, start[differ]], found[rows, other[differ]]
    return float(right.mean()), float(wrong.mean()), float(network.alpha + network.beta) / 6


def many_variables(config: Any) -> dict[str, bool]:
    """The statements on Q are for a large |X|: b is of order a/|X|."""
    return {"|X| >= 64": config.variables >= 64}


def large_clip(config: Any) -> dict[str, bool]:
    """C_B is sufficiently large: d^{1 - C_B/3} of Lemma D.13 is below 1."""
    return {"C_B > 3": config.network.clip_factor > 3}


def leading_clip(config: Any) -> dict[str, bool]:
    """What comes after the leading order is d^{1 - C_B/3} of it; doubles lose 1 - p - p' where that is small."""
    factor = config.network.clip_factor
    return {"C_B >= 4.5, for the leading order to lead": factor >= 4.5, "C_B <= 10 (doubles)": factor <= 10}


def small_branch(config: Any) -> dict[str, bool]:
    """q and rho of Definition 3.4, on which constants depend."""
    constants = config.network
    return {"q = 4, 0.5 <= rho <= 1 (our constants)": constants.power == 4 and 0.5 <= constants.rho <= 1}


def our_constants(config: Any) -> dict[str, bool]:
    """Constants in O and Omega are ours; they depend on C_B, and on a small |Y|."""
    constants = config.network
    return {
        "C_B >= 3.5": constants.clip_factor >= 3.5,
        "C_B <= 4.5 (our constants)": constants.clip_factor <= 4.5,
        "|Y| >= 3": config.group.values >= 3,
        **small_branch(config),
    }


def small_steps(config: Any) -> dict[str, bool]:
    """eta = 1/poly(d): one step changes what a neuron reads by a part of 1."""
    return {"eta B <= 1/4": config.learning_rate * clip_of(config) <= 0.25}


def whole_run(config: AttentionRun) -> dict[str, bool]:
    """T_2 = poly(d)/eta: in the end e^a is about 0.6 eta B T, so that a is log d then."""
    length = config.learning_rate * clip_of(config) * config.steps / config.vocabulary
    return {"1.5 d <= eta B T <= 3 d": config.stop == "never" and 1.5 <= length <= 3}


CYCLIC_DESCENT = both(assumption_4_1, many_variables, our_constants, small_steps, whole_run)


@LEDGER.bound(
    "stage2.1",
    statement="Section 6.2.1, Stage 2.1",
    says=r"from $Q = 0$: $\Lambda = B'/3$ for the answer and for $g_2(y_0)$, the first step's loss drives $Q_{4,3}$,"
    r" and the gap between the diagonals opens to order $1/\log d$",
    of=(*DESCENT, reduced.IdealValues.preactivations),
    hypotheses=CYCLIC_DESCENT,
    cases=CYCLIC,
)
def the_gap_opens(config: AttentionRun, seed: int):
    yield from written_out(config)
    right, wrong, third = spurious(config)
    yield equal("Lambda of the answer against B'/3", right, third)
    yield equal("Lambda of g2(y0) against B'/3", wrong, third)
    first, second, path = pushes(config, 1), pushes(config, 2), path_of(config)
    a, b, c, e = path.scores.T
    early = a < 0.5 * np.log(config.vocabulary)
    yield at_least("push of step 1 on Q43 over that of step 2", first[0] / second[0], 3.0)
    yield at_least("push of step 1 on Q43 over that on Q44", first[0] / abs(first[2]), 3.0)
    yield true("a grows until (log d)/2", np.diff(a[early]) > 0)
    yield at_least("steps until a = (log d)/2", early.sum(), 10)
    yield at_least("a - c at any time", (a - c)[1:], 0.0)
    reached = int(np.argmax(a > 1))
    yield at_least("(a - c) log d when a passes 1", (a - c)[reached] * np.log(config.vocabulary), 0.5)
    yield at_most("|b|, |e| over a", np.abs([b, e])[:, early][:, 1:] / a[early][1:], 0.1)
    for step, push in ((1, first), (2, second)):
        yield row({"loss of step": step} | dict(zip("abce", map(float, push), strict=True)))


@dataclasses.dataclass(frozen=True)
class Clips(AttentionRun):
    """The first step's loss at Q = 0, at several numbers of variables."""

    action: str = option("C6", "the action", examples=ACTIONS)
    network: Constants = option(Constants(clip_factor=6.0), "clip and activation")
    sizes: tuple[int, ...] = option((256, 1024, 4096, 16_384), "numbers of variables |X|", low=64, high=1_000_000)


@LEDGER.rate(
    "stage2.1-printed",
    statement="Section 6.2.1, Stage 2.1",
    says=r"increasing $Q_{4,4}$ does not reduce the first step's loss: its push at $Q = 0$ is positive, but"
    r" $\frac13 e^{2\rho(1-1/q)/3} d^{1-C_B/3}$ of that on $Q_{4,3}$, which vanishes at the $C_B$ that the theorem"
    " assumes",
    of=(lengths.answer_push, reduced.IdealValues.preactivations, reduced.two_steps),
    hypotheses=both(assumption_4_1, leading_clip),
    cases=(Clips(), Clips(network=Constants(clip_factor=9.0))),
)
def push_of_the_answer_block(config: Clips, seed: int):
    shares, d = [], []
    for variables in config.sizes:
        run = dataclasses.replace(config, variables=variables)
        push = pushes(run, 1)
        shares.append(push[2] / push[0])
        d.append(run.vocabulary)
        yield row({"d": d[-1], "push on Q44 over Q43": float(shares[-1])})
    factor = config.network.clip_factor
    yield slope("exponent in d", d, shares, 1 - factor / 3, within=0.05)
    leading = lengths.answer_push(d[-1], factor, config.network.rho, config.network.power)
    yield equal("share over its leading order, at the largest d", shares[-1], leading, 0.01)


@LEDGER.bound(
    "stage2.2",
    statement="Section 6.2.1, Stage 2.2",
    says=r"the diagonals then grow together: both increase from step 20 on, with a gap between 0 and $O(1)$ (we ask for"
    r" 1/2) that is at least $1/(2\log d)$ while $a$ is between 1 and $\frac12\log d$",
    of=DESCENT,
    hypotheses=both(CYCLIC_DESCENT, lambda config: {"|X| >= 256": config.variables >= 256}),
    cases=CYCLIC,
)
def joint_growth(config: AttentionRun, seed: int):
    yield from written_out(config)
    a, _, c, _ = path_of(config).scores.T
    yield true("a increases from step 20 on", np.diff(a[20:]) > 0)
    yield true("c increases from step 20 on", np.diff(c[20:]) > 0)
    yield at_least("a - c", (a - c)[1:], 0.0)
    yield at_most("a - c", a - c, 0.5)
    size = np.log(config.vocabulary)
    middle = (a > 1) & (a < size / 2)
    yield at_least("(a - c) log d while 1 < a < (log d)/2", (a - c)[middle] * size, 0.5)
    yield at_least("c over a at the end", c[-1] / a[-1], 0.95)


@LEDGER.bound(
    "stage2.3",
    statement="Section 6.2.1, Stage 2.3",
    says=r"in the end the gap closes ($|a - c| \le 0.02$), other entries stay near 0 ($\le 2\log d/d$), and both"
    r" diagonals are of order $\log d$",
    of=DESCENT,
    hypotheses=CYCLIC_DESCENT,
    cases=CYCLIC,
)
def the_gap_closes(config: AttentionRun, seed: int):
    yield from written_out(config)
    path = path_of(config)
    a, b, c, e = (float(score) for score in path.scores[-1])
    yield at_most("|a - c|", abs(a - c), 0.02)
    small = config.vocabulary / math.log(config.vocabulary)
    yield at_most("|b|, |e|, times d over log d", [abs(b) * small, abs(e) * small], 2.0)
    yield at_least("the smaller diagonal over log d", min(a, c) / math.log(config.vocabulary), 0.9)
    yield at_most("the larger diagonal over log d", max(a, c) / math.log(config.vocabulary), 1.2)
    yield row({"a": a, "b": b, "c": c, "e": e, "loss": float(path.losses[-1])})


# --- symmetric actions ------------------------------------------------------------------------------------------------

FINE = AttentionRun(
    action="S4", supervised=(2,), stop="window", learning_rate=0.001, steps=4000, network=Constants(clip_factor=8.0)
)


def below_one(config: Any) -> dict[str, bool]:
    """The level that ends the stage must be below a loss of 1."""
    return {"C_B > 6.05, for the level to be below 1": config.network.clip_factor > 6.05}


def window_constants(config: Any) -> dict[str, bool]:
    """2.52 c_1, the end of Lemma E.35, is below 0.4, the end of the first phase; the other constants are ours."""
    constants = config.network
    return {
        "C_B >= 6.5 (2.52 c_1 below 0.4)": constants.clip_factor >= 6.5,
        "C_B <= 10 (our constants)": constants.clip_factor <= 10,
        **small_branch(config),
    }


def until_window(config: AttentionRun) -> dict[str, bool]:
    """eta = 1/poly(d), and a run that ends at the loss of Lemma E.35, after about eta T = 0.3."""
    return {
        "eta B <= 1/10": config.learning_rate * clip_of(config) <= 0.1,
        "the run ends at the window: eta T >= 1/2": config.stop == "window"
        and config.learning_rate * config.steps >= 0.5,
    }


SYMMETRIC_DESCENT = both(assumption_c1, many_variables, window_constants, until_window)


@LEDGER.bound(
    "symm-phase",
    statement="Induction E.1",
    says=r"not free, loss of step 2, until $\varepsilon = 0.4$: $a + c$ increases, attention to predicate 2 exceeds"
    r" that to the own answer by at most $c_1$, the rest stays small",
    of=(*DESCENT, lengths.window_constant, lengths.gap, lengths.concentration),
    hypotheses=SYMMETRIC_DESCENT,
    cases=(FINE, dataclasses.replace(FINE, action="S3")),
)
def first_phase(config: AttentionRun, seed: int):
    yield from written_out(config)
    path = path_of(config)
    eps = lengths.concentration(path.scores, 2, 2)
    yield equal("eps at Q = 0", eps[0], 0.5)
    yield true("eps falls to 0.4", (eps < 0.4).any())
    last = int(np.argmax(eps < 0.4)) if (eps < 0.4).any() else len(eps) - 1
    a, b, c, e = path.scores[: last + 1].T
    gaps = lengths.gap(path.scores[: last + 1], 2, 2)
    c1 = lengths.window_constant(config.network.clip_factor)
    yield equal("c1 B against 1.005 log d", c1 * config.network.clip_factor, 1.005)
    yield true("a + c increases", np.diff(a + c) > 0)
    yield at_most("attention to predicate 2 less that to the own answer", gaps, c1)
    yield at_least("both targets gain", min(a[-1], c[-1]), 0.0)
    yield at_most("|b|, |e| over the larger diagonal", np.abs([b, e]).max() / max(a[-1], c[-1]), 0.1)
    yield row({"steps": last, "a": float(a[-1]), "c": float(c[-1]), "least gap": float(gaps.min()), "c1": c1})


@LEDGER.bound(
    "symm-window",
    statement=(
        "Induction E.2",
        "Lemma E.24",
        "Lemma E.35",
    ),
    says=r"not free: when the loss first is below $e^{(-1/2+3.01c_1)2B}$, $\varepsilon$ lies in $[\frac43 c_1, 2.52"
    r" c_1]$, $c_1 = 1.005/C_B$, and was never below before (E.24, E.35)",
    of=(*DESCENT, lengths.window, lengths.window_log_loss, lengths.window_constant),
    hypotheses=both(assumption_c1, below_one, small_branch, until_window),
    cases=tuple(dataclasses.replace(FINE, network=Constants(clip_factor=C)) for C in (6.5, 8.0, 10.0, 16.0)),
    aliases=(
        "lemE24",
        "lemE35",
    ),
)
def window(config: AttentionRun, seed: int):
    """Both sides, and that eps never was below the lower one before; the gap against c1 is shown.

    The lower side has room at these sizes, so its number is also compared with the printed 4 c1/3 in exact arithmetic.
    """
    yield from written_out(config)
    path, factor = path_of(config), config.network.clip_factor
    eps = lengths.concentration(path.scores, 2, 2)
    low, high = lengths.window(factor)
    yield true("the level is reached", path.reached)
    level = (-1 + 6.02 * 1.005 / factor) * factor * math.log(config.vocabulary)  # (-1/2 + 3.01 c1) 2B
    yield equal("log of the level", lengths.window_log_loss(factor, factor * math.log(config.vocabulary)), level)
    yield at_most("log of the last loss", math.log(path.losses[-1]), level)
    yield at_least("log of the loss before", math.log(path.losses[-2]), level)
    yield equal("sides over 1/C_B", [low * factor, high * factor], [1.34, 2.5326])
    yield at_most("eps at the end", eps[-1], high)
    yield at_least("eps at any time", eps, low)
    gap, c1 = float(lengths.gap(path.scores[-1], 2, 2)), lengths.window_constant(factor)
    shown = {"C_B": factor, "eps": float(eps[-1]), "low": low, "high": high, "gap": gap, "c1": c1}
    yield row(shown | {"steps": len(eps) - 1})


SELF = Stages(stages=4, stop="window", network=Constants(clip_factor=16.0), learning_rate=0.001, steps=4000)


def labels(config: Stages, seed: int):
    """Appendix F assumes right labels at steps 1 and 2; with C_B <= 10 a stage leaves too large an eps for that."""
    yield from every_stage(config, seed)
    accuracy = min(stage.label_accuracy for stage in stages_of(config, seed))
    yield at_least("labels that are right", accuracy, 1.0)


SELF_TRAINING = both(assumption_c1, below_one)


@LEDGER.bound(
    "symm-stages",
    statement=(
        "Induction F.1",
        "Lemma F.9",
    ),
    says=r"stages that label themselves: until the level of the window $\varepsilon \ge \frac43 c_1$, $\varepsilon$ is"
    r" at most twice that of the stage before, and $a + c$ grows (Lemma F.9)",
    of=(*DESCENT, lengths.stage_window, algorithms.self_labelled),
    hypotheses=SELF_TRAINING,
    cases=SELF,
    aliases=("lemF9",),
    tier="minutes",
    seeds=3,
)
def stages_of_self_training(config: Stages, seed: int):
    yield from labels(config, seed)
    low, _ = lengths.stage_window(config.network.clip_factor)
    yield equal("4 c1/3 over 1/C_B", low * config.network.clip_factor, 1.34)
    before = None
    for stage in stages_of(config, seed):
        eps = lengths.concentration(stage.path.scores, stage.length, 2)
        if before is not None:
            yield at_least(f"eps at L={stage.length}", eps, low)
            yield at_most(f"eps at L={stage.length} over that of the stage before", eps / before, 2.0)
            yield true(f"a + c increases at L={stage.length}", np.diff(stage.path.scores[:, [0, 2]].sum(1)) > 0)
        before = float(eps[-1])
        yield row(
            {
                "L": stage.length,
                "steps": len(eps) - 1,
                "least eps": float(eps.min()),
                "4c1/3": low,
                "last eps": before,
                "labels right": stage.label_accuracy,
            }
        )


@LEDGER.bound(
    "symm-gap",
    statement="Lemma F.14",
    says=r"in a stage that labels itself attention to predicate 2 exceeds that to answer 1 by at most $c_1$",
    of=(lengths.gap, lengths.window_constant),
    hypotheses=both(
        SELF_TRAINING, lambda config: {"C_B >= 2000 (20.16 c1 <= 0.01)": config.network.clip_factor >= 2000}
    ),
    infeasible="the window's constants ask for a C_B of some 2,000, where the loss that ends a stage is d^-2000",
    cases=(SELF, dataclasses.replace(SELF, network=Constants(clip_factor=24.0))),
    aliases=("lemF14",),
    tier="minutes",
    seeds=3,
)
def gap_of_self_training(config: Stages, seed: int):
    yield from labels(config, seed)
    c1 = lengths.window_constant(config.network.clip_factor)
    for stage in stages_of(config, seed)[1:]:
        gaps = lengths.gap(stage.path.scores, stage.length, 2)
        yield at_most(f"largest gap at L={stage.length}", gaps.max(), c1)


@LEDGER.bound(
    "lemF15",
    statement="Lemma F.15",
    says=r"in a stage that labels itself attention to answer 1 exceeds that to predicate 2 by at most"
    r" $\frac{L_k-1}{L_k}\varepsilon - c_2$",
    of=(lengths.gap, lengths.concentration, inductions.answer_lead),
    hypotheses=SELF_TRAINING,
    cases=SELF,
    tier="minutes",
    seeds=3,
)
def answer_of_self_training(config: Stages, seed: int):
    c2 = inductions.answer_lead(config.network.clip_factor)
    yield from labels(config, seed)
    for stage in stages_of(config, seed)[1:]:
        lead, L = -lengths.gap(stage.path.scores, stage.length, 2), stage.length
        room = (L - 1) / L * lengths.concentration(stage.path.scores, L, 2) - lead
        yield at_least(f"(L-1)/L eps less the answer's lead, over c2, L={L}", room / c2, 1.0)
