"""The steps of the proofs of Theorems D.4 and E.6, on the whole region of their induction and not only along a run."""

import math
from dataclasses import replace

import numpy as np

from stairwise.lab.contract.checks import at_least, at_most, equal, hypothesis, note, row
from stairwise.papers.selection.claims.ledger import LEDGER
from stairwise.papers.selection.claims.sizes import Training, theorem_3_1, theorem_3_3
from stairwise.papers.selection.claims.stochastic_descent import CONDITIONED, WITHIN, Stochastic, pool_of
from stairwise.papers.selection.config import Task
from stairwise.papers.selection.theory import induction, onehot, stochastic

SIZES = tuple(Training(Task(T, q, d)) for T, q, d in ((9, 2, 1), (20, 4, 2), (200, 3, 5), (2000, 2, 1)))
LAST = 1e-3  # 1 - q s at the largest s of a grid
FLOOR = 0.99  # the least alpha of Phase II, 1 - x/10 with x < 1/10


def attention_scale(task: Task, s):
    """The C at which the named attention is s."""
    return np.log(s * (task.length - task.sparsity) / (1 - task.sparsity * s))


def region(task: Task, encoding_width: int, least: float):
    """(s, alpha) from `least` on, alpha between Phase II's floor and the ceiling."""
    s = np.geomspace(least, (1 - LAST) / task.sparsity, 60)[:, None]
    top = stochastic.ih2_ceiling(task, encoding_width, s)
    return s, FLOOR + np.linspace(0, 1, 25) * (top - FLOOR)


def slope_of(function, at, h=1e-6):
    return (function(at * (1 + h)) - function(at * (1 - h))) / (2 * h * at)


# --- one-hot encodings ------------------------------------------------------------------------------------------------


@LEDGER.bound(
    "thm3.1-steps",
    statement=("Theorem D.4, proof, (S1) and (S2)", "Theorem D.4, proof, (*) to (#)"),
    says=r"wherever $s \ge 1/\sqrt{Tq}$ and $\alpha$ is below (IH1)'s ceiling, one step of descent keeps it below the"
    r" next ceiling: $0 \le \Delta C \le \eta d/(4qT)$, and what $s$, $\alpha^*$ and the ceiling move by",
    of=(
        induction.increment,
        induction.headroom,
        induction.lower_share,
        induction.largest_increment,
        induction.upper_increment,
        induction.attention_after,
        induction.star_after,
        induction.headroom_after,
        induction.cost_of_step,
    ),
    hypotheses=theorem_3_1,
    cases=SIZES,
)
def a_step_keeps_alpha_below_its_ceiling(config: Training, seed: int):
    task, T, q, d = config.task, config.task.length, config.task.sparsity, config.task.width
    eta = config.step * onehot.largest_learning_rate(task)
    s, alpha = region(task, T, induction.least_s(task))
    C, excess = attention_scale(task, s), onehot.excess(task, alpha, s)
    value, attention = onehot.slopes(task, alpha, C)
    step = eta * attention
    after = onehot.named_attention(task, C + step)
    yield equal("C' in the proof's form", induction.increment(task, s, excess), attention, 1e-6)
    yield at_least("smallest step of C", step, 0.0)
    yield at_most("C'", attention, induction.largest_increment(task))
    peak = induction.least_s(task), (T - q) / (2 * q * (math.sqrt(T / q) - 1))  # where C' is largest
    _, largest = onehot.slopes(task, peak[1], float(attention_scale(task, peak[0])))
    yield equal("C' at its largest", largest * (T - 1) / (T - q), induction.largest_increment(task), 1e-9)
    cut = induction.lower_share(task, T)
    yield equal("4d times what the lower share leaves", 4 * d * (1 - cut), 1.0)
    yield at_most("C' above the cut over its bound", (attention / induction.upper_increment(task, s))[excess >= cut], 1)
    ratio = induction.increment(task, peak[0], cut) / induction.upper_increment(task, peak[0])
    yield equal("C' at the cut over its bound, where rho = 1", ratio, 1 - 1 / (8 * d), 1e-9)
    yield at_most("s after the step", after, induction.attention_after(task, s, step), rounding=1e-12)
    fifth = 0.2 / (1 - q * s)  # 1/(1-u) <= 1 + (5/4) u is attained at u = 1/5
    yield equal("s after a step of 1/5", induction.attention_after(task, s, fifth), 1.25 * s)
    rise = after - s
    star, room = onehot.alpha_star(task, after), induction.headroom(task, after)
    yield at_least("alpha* after the step", star, induction.star_after(task, s, rise), rounding=1e-12)
    yield at_least("rho after the step", room, induction.headroom_after(task, s, rise), rounding=1e-12)
    # both are tangents: of (T-q)/(T q s - 2q + 1/s0), and of 1/(q T s (s - 1/T))
    tangent = [slope_of(lambda at, s0=s0: (T - q) / (T * q * at - 2 * q + 1 / s0), s0) for s0 in s]
    of_star = induction.star_after(task, s, 1.0) - onehot.alpha_star(task, s)
    yield equal("slope of the bound on alpha*", of_star, np.array(tangent), 1e-6)
    of_room = induction.headroom_after(task, s, 1.0) - induction.headroom(task, s)
    yield equal("slope of the bound on rho", of_room, slope_of(lambda at: 1 / (q * T * at * (at - 1 / T)), s), 1e-6)
    ceiling = onehot.ceiling(task, after, onehot.share_one_hot(task))
    yield at_least("(S2): the next ceiling over the lower one", ceiling / onehot.ceiling(task, s, cut), 1.0)
    yield at_most("the next alpha over the next ceiling", (alpha + eta * value) / ceiling, 1.0)
    # the falls of alpha* and of rho as (*) adds them up, the former twice, against (**)
    added = -(2 * of_star / onehot.alpha_star(task, s) + of_room) * 1.25 * s * (1 - q * s) * step
    cost = induction.cost_of_step(task, s, step)
    yield at_most("(**) over rho", added / induction.headroom(task, s), cost, rounding=1e-9)
    yield from _terms_of_cost(task)
    yield at_most("8d times (**)", 8 * d * cost, 1.0)
    yield row({"largest step of C": float(step.max()), "its bound": eta * induction.largest_increment(task)})


def _terms_of_cost(task: Task):
    """(**) is attained term by term: the first where q s = 1, the second where T s = 2 and 2Ts - 1 = 3(Ts - 1)."""
    T, q = task.length, task.sparsity
    full, two = (1 - 1e-7) / q, 2 / T
    lost = 1 - induction.star_after(task, full, 1.0) / onehot.alpha_star(task, full)
    first = 2 * lost * 1.25 * full * (1 - q * full) / induction.headroom(task, full)
    second = induction.headroom(task, two) - induction.headroom_after(task, two, 1.25 * two * (1 - q * two))
    constant = induction.cost_of_step(task, 0.0, 1.0)
    yield equal("first term of (**) at qs = 1", first, induction.cost_of_step(task, full, 1.0) - constant, 1e-5)
    yield equal("second term of (**) at Ts = 2", second / induction.headroom(task, two), constant)


@LEDGER.bound(
    "thm3.1-increment",
    statement="Theorem D.4, proof, lower bounds on the increment, corrected",
    says=r"in Phase II $\Delta C \ge \eta s(1-qs)^2/(8(T-1)(Tqs^2-2qs+1))$, which is at least $\eta/(32T^2)$ while $s"
    r" \le 1/(2q)$ and at least $\eta q\varepsilon/(16dT(T-1))$ until $qs = 1-x$; then the loss is at most"
    r" $\varepsilon$",
    of=(induction.least_increment, induction.denominator),
    hypotheses=theorem_3_1,
    cases=(*SIZES, Training(Task(4810, 2, 4), accuracy=0.01)),
)
def c_grows_by_a_least_amount(config: Training, seed: int):
    task, T, q, d = config.task, config.task.length, config.task.sparsity, config.task.width
    epsilon = config.accuracy * onehot.largest_epsilon(task)
    x = onehot.slack(task, epsilon)
    s, alpha = region(task, T, (1 + 1e-6) / T)
    _, attention = onehot.slopes(task, alpha, attention_scale(task, s))
    least = induction.least_increment(task, s)
    yield at_least("C' over its least", attention / least, 1.0, rounding=1e-6)
    top = alpha[:, -1:]  # of order T/(Ts-1) where s is near 1/T: there (6) as printed keeps digits that `slopes` loses
    printed = top * d / (T - 1) * s * (1 - q * s) * (1 + q * top * (1 - T * s) / (T - q))
    yield equal("C' over alpha times its least, at the ceiling", printed / (top * least), 1.0, 1e-5)
    grid = np.geomspace(1 / T, 1 / (2 * q), 200)
    yield at_least("32 T^2 times the least while s <= 1/(2q)", 32 * T**2 * induction.least_increment(task, grid), 1.0)
    grid = np.linspace(1 / (2 * q), (1 - x) / q, 200)
    late = q * epsilon / (16 * d * T * (T - 1))
    yield at_least("the least from there on, over q eps/(16 d T(T-1))", induction.least_increment(task, grid) / late, 1)
    s = np.linspace((1 - x) / q, (1 - LAST * x) / q, 50)
    highest = onehot.spread_loss(task, onehot.ceiling(task, s, onehot.share_one_hot(task)), 1 - q * s)
    lowest = onehot.spread_loss(task, onehot.phase_one_end(task, epsilon), 1 - q * s)
    yield at_most("loss from qs = 1-x on, alpha at its ceiling", highest, epsilon)
    yield at_most("loss from qs = 1-x on, alpha at its floor", lowest, epsilon)


@LEDGER.refuted(
    "thm3.1-increment-printed",
    statement="Theorem D.4, proof, lower bounds on the increment",
    says=r"as printed: $\Delta C \ge \frac{\eta}{8}\frac{(1-qs)^2}{q(T-1)(Tqs^2-2qs+1)}$ for all $t$",
    of=(induction.least_increment_printed,),
    certificate="certificates/thmD4.py",
    corrected="thm3.1-increment",
    hypotheses=theorem_3_1,
    cases=Training(Task(200, 3, 5)),
)
def the_printed_least_increment_is_too_large(config: Training, seed: int):
    task, epsilon = config.task, config.accuracy * onehot.largest_epsilon(config.task)
    late = onehot.time_to_loss(task, epsilon)
    path = onehot.flow(task, np.geomspace(1.0, late, 400))
    phase_two = path.alpha >= onehot.phase_one_end(task, epsilon)
    s = onehot.named_attention(task, path.C)
    _, attention = onehot.slopes(task, path.alpha, path.C)
    printed = induction.least_increment_printed(task, s)
    yield at_least("C' over its printed least in Phase II", (attention / printed)[phase_two], 1.0)
    yield row({"at t = 0": "C' is 0, since alpha is", "and the printed least": float(printed[0])})
    yield note(
        "it takes q(T-q)s^2 to be at least Tqs^2-2qs+1, and it is that less (1-qs)^2; in Phase I alpha is taken to be"
        " near 1, and it starts at 0 (in the proof of Theorem E.6 as well); the orders of both stages stand"
    )


# --- stochastic encodings ---------------------------------------------------------------------------------------------

TIGHT = replace(WITHIN, encodings=2, subsets=12)


@LEDGER.bound(
    "thm3.3-steps",
    statement=("Theorem E.6, proof, (S3) and (S4)", "Theorem E.6, proof, (UP1) and (UP2)"),
    says=r"where overlaps are at most $\frac18$, so for $\delta \le 1/(1+8\sqrt{q})$, and $\eta \le d_e^2/(40d^2T)$,"
    r" one step keeps $\alpha$ below (IH2)'s next ceiling, and $C$ grows by at most $9\eta d/(32qd_e)$ and at least"
    r" by the corrected bound",
    of=(
        induction.largest_increment_stochastic,
        induction.least_increment_stochastic,
        induction.lower_share,
        stochastic.largest_learning_rate,
    ),
    hypotheses=theorem_3_3,
    cases=(TIGHT, replace(CONDITIONED, encodings=2)),
    seeds=3,
)
def a_step_keeps_the_averaged_alpha_below_its_ceiling(config: Stochastic, seed: int):
    task, width, pool = config.task, config.encoding_width, pool_of(config, seed)
    T, q, d = task.length, task.sparsity, task.width
    eta = config.step * stochastic.largest_learning_rate(task, width)
    yield hypothesis("overlaps are at most 1/8", pool.gamma <= 0.125)
    cut = induction.lower_share(task, width)
    yield equal("4Td/d_e times what the lower share leaves", 4 * T * d / width * (1 - cut), 1.0)
    rows = []
    for C in np.geomspace(0.05, attention_scale(task, (1 - LAST) / q), 24):
        S = stochastic.attention(task, pool.overlaps, float(C))
        s = float(S.named.mean())
        # below 1/sqrt(T q) the proof keeps alpha below alpha*, which still rises
        early = s < induction.least_s(task)
        top = float(onehot.alpha_star(task, s) if early else stochastic.ih2_ceiling(task, width, s))
        pull = float((S.named * S.leak).mean())
        for alpha in FLOOR + np.linspace(0, 1, 7) * (top - FLOOR):
            value, attention = stochastic.output_averaged_slopes(task, width, pool.overlaps, float(alpha), float(C))
            after = float(stochastic.attention(task, pool.overlaps, float(C + eta * attention)).named.mean())
            least = float(induction.least_increment_stochastic(task, s, pull))
            rows.append((s, alpha, alpha + eta * value, attention, least, after))
    s, alpha, following, attention, least, after = np.array(rows).T
    yield at_least("C' over its least", attention / least, 1.0)
    late = s >= induction.least_s(task)
    at_top = late & (np.arange(len(s)) % 7 == 6)  # there 7/8 and 9/8 are all that overlaps stand for
    yield at_most("C' at the ceiling over alpha and its least", (attention / (alpha * least))[at_top], 9 / 7)
    bound = induction.largest_increment_stochastic(task, width)
    yield at_most("C'", attention[late], bound)
    peak = (T - q) / (4 * q * (T - 1 / induction.least_s(task))) * (1 - math.sqrt(q / T))  # as with one-hot encodings
    yield equal("C' at its largest, 9/8 for the overlaps", 9 / 8 * d / width * peak * T / (T - q), bound, 1e-9)
    allowed = 45 / 32 * s * (1 - q * s) * eta * attention
    yield at_most("rise of s over (45/32) s (1-q s) step", (after - s) / allowed, 1.0)
    ceiling = stochastic.ih2_ceiling(task, width, after)
    lower = onehot.ceiling(task, s, cut)
    yield at_least("(S4): the next ceiling over the lower one", (ceiling / lower)[late], 1.0)
    yield at_most("the next alpha over the next ceiling", (following / ceiling)[late], 1.0)
    yield at_most("the next alpha over the next alpha*", (following / onehot.alpha_star(task, after))[~late], 1.0)
    # (***) at the largest step leaves room: (45/16) T q s^2 + 135/32 times the step, over d_e/(8 T d)
    cost = (45 / 16 * T * q * s**2 + 135 / 32) * eta * attention * 8 * T * d / width
    yield at_most("(***) over d_e/(8Td)", cost[late], 1.0)
    # what the last two lines before "we proved the inequality" ask of eta, at q = 1
    asked = 8 * (405 / 128 + 1215 / 1024) * d**2 * T / width**2 * stochastic.largest_learning_rate(task, width)
    yield at_most("the proof's last line at the largest eta, over d_e/(8Td)", asked, 1.0)
    yield at_least("the proof's last line at the largest eta, over d_e/(8Td)", asked, 0.85)
    yield row({"eta": eta, "largest overlap": pool.gamma, "largest step of C": float((eta * attention).max())})


@LEDGER.misprint(
    "thm3.3-eta-printed",
    statement="Theorem E.6, proof, learning rate",
    says=r"as printed in the proof: the theorem's $\eta$ is at most $d_e/(40d^2T)$",
    means=r"$d_e^2/(40d^2T)$, as in the theorem, which is what (***) needs",
    of=(stochastic.largest_learning_rate_of_proof,),
    corrected="thm3.3-steps",
    hypotheses=theorem_3_3,
    cases=TIGHT,
)
def the_printed_learning_rate_lacks_a_square(config: Stochastic, seed: int):
    sizes = config.task, config.encoding_width
    yield at_most(
        "largest eta of the theorem",
        stochastic.largest_learning_rate(*sizes),
        stochastic.largest_learning_rate_of_proof(*sizes),
    )


@LEDGER.misprint(
    "thm3.3-exponent-printed",
    statement="Theorem 3.3, exponent",
    says=r"as printed in Section 3.2: the first stage takes $T^{2-2\delta}/\eta$ steps",
    means=r"$T^{(2-2\delta)/(1-3\delta)}/\eta$, as in Theorem E.6 and its proof",
    of=(stochastic.convergence_time_printed,),
    corrected="thm3.3-rate",
    cases=replace(WITHIN, accuracy=0.01),
)
def the_printed_exponent_is_that_of_no_proof(config: Stochastic, seed: int):
    """The first stage's least increment, 7 (q/T)^(4 delta/(1-3 delta))/(64 T (T-q)), says how long it may take."""
    delta, lengths = 0.09, np.array([10**3, 10**4, 10**5])
    far = 1e30  # an epsilon at which the second stage takes no time
    tasks = [Task(int(T), config.task.sparsity, 1) for T in lengths]
    printed = [stochastic.convergence_time_printed(task, far, delta) for task in tasks]
    least = [7 * (2 / T) ** (4 * delta / (1 - 3 * delta)) / (64 * T * (T - 2)) for T in lengths]
    yield equal(
        "exponent of T, printed and by the proof's increment",
        np.polyfit(np.log(lengths), np.log(printed), 1)[0],
        np.polyfit(np.log(lengths), -np.log(least), 1)[0],
        1e-2,
    )
    yield row({"delta": delta})
