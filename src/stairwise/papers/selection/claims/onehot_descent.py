"""Descent with one-hot encodings: the ODE (6), Theorem 3.1, its sharp rate, and the inside of its proof."""

import itertools
import math
from dataclasses import dataclass

import numpy as np

from stairwise.lab.checks import TOLERANCE, under
from stairwise.lab.config import Config, option, require
from stairwise.lab.contract import Verdict
from stairwise.papers.selection.claims.ledger import LEDGER
from stairwise.papers.selection.claims.sizes import Training, accuracy_hypothesis, room, theorem_hypotheses
from stairwise.papers.selection.config import Task
from stairwise.papers.selection.theory import onehot

POINTS = 100  # at which descent and the flow are compared
MOST_STEPS = 2_000_000  # beyond, the flow stands for the steps: eta is tiny then
SPEC_SIZES = tuple(Task(T, q, d) for T, q, d in ((20, 2, 5), (10, 2, 1), (20, 4, 5), (50, 3, 5), (200, 3, 5)))


# --- the flow ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Limit(Config):
    """Gradient descent at three learning rates, to the same eta t."""

    task: Task = option(Task(20, 2, 5), "sizes of the task")
    learning_rate: float = option(0.002, "the largest of the three learning rates, each half the one before", above=0.0)
    horizon: float = option(20.0, "eta t up to which they are compared", above=0.0, high=1e6)

    def check(self) -> None:
        room(self.task)
        steps = self.horizon / self.learning_rate
        require(
            POINTS <= steps <= MOST_STEPS / 4,
            f"horizon={self.horizon:g} must be {POINTS} to {MOST_STEPS // 4} steps of learning_rate="
            f"{self.learning_rate:g}, not {steps:g}",
        )


@LEDGER.theory(
    "eq6",
    kind="convergence",
    says="gradient descent tends to the ODE (6): up to a given eta t their largest distance halves with eta",
    cases=Limit(),
)
def descent_tends_to_the_flow(config: Limit, seed: int) -> Verdict:
    task, points, rows = config.task, POINTS, []
    for rate in (config.learning_rate, config.learning_rate / 2, config.learning_rate / 4):
        stride = max(1, round(config.horizon / (points * rate)))
        path = onehot.descend(task, rate, points * stride)
        limit = onehot.flow(task, rate * path.times[stride::stride])
        rows.append(
            {
                "learning rate": rate,
                "error of alpha": float(np.abs(path.alpha[stride::stride] - limit.alpha).max()),
                "error of C": float(np.abs(path.C[stride::stride] - limit.C).max()),
            }
        )
    orders = [
        math.log2(coarse[name] / fine[name])
        for name in ("error of alpha", "error of C")
        for coarse, fine in itertools.pairwise(rows)
    ]
    largest = onehot.largest_learning_rate(task)
    small = config.learning_rate <= largest
    violated = () if small else (f"learning_rate={config.learning_rate:g} must be at most 1/(20 d^2)={largest:g}",)
    verdict = Verdict.at_most(
        max(abs(order - 1) for order in orders), 0.1, details=tuple(rows), note="measured: |order - 1|"
    )
    return under(violated, verdict)


@LEDGER.theory(
    "thm3.1",
    kind="convergence",
    says="gradient descent from zero has loss at most epsilon after T^2 d/(eta epsilon) steps, for eta <= 1/(20 d^2)",
    cases=tuple(Training(task) for task in SPEC_SIZES),
    aliases=("thmD4",),
)
def descent_is_faster_than_the_bound(config: Training, seed: int) -> Verdict:
    task = config.task
    epsilon, eta = config.accuracy * onehot.largest_epsilon(task), onehot.largest_learning_rate(task)
    bound = onehot.convergence_time(task, epsilon)
    time = onehot.time_to_loss(task, epsilon)
    by_steps = 1.1 * time / eta <= MOST_STEPS
    if by_steps:
        time = eta * onehot.steps_to_loss(task, eta, epsilon, MOST_STEPS)
    late = onehot.flow(task, np.array([bound]))
    row = {
        "task": f"{task.length},{task.sparsity},{task.width}",
        "epsilon": epsilon,
        "eta t": time,
        "of": "steps" if by_steps else "the flow",
        "bound": bound,
        "over (T-1)/(4 epsilon)": time / onehot.sharp_time(task, epsilon),
    }
    verdicts = {
        "time over its bound": Verdict.at_most(time / bound, 1.0, details=(row,)),
        "loss at the bound": Verdict.at_most(float(onehot.loss(task, late.alpha[-1], late.C[-1])), epsilon),
    }
    return under(theorem_hypotheses(task) + accuracy_hypothesis(config.accuracy), Verdict.worst(verdicts))


@dataclass(frozen=True)
class Late(Config):
    """The flow at a late time."""

    task: Task = option(SPEC_SIZES[0], "sizes of the task")
    horizon: float = option(1e6, "eta t", above=0.0, high=1e16)

    def check(self) -> None:
        room(self.task)


@LEDGER.theory(
    "sharp-rate",
    kind="convergence",
    says="one-hot: L(t) ~ (T-1)/(4 eta t), so 1/L has slope 4 eta/(T-1) whatever d and q",
    cases=tuple(Late(task) for task in SPEC_SIZES),
)
def the_inverse_loss_has_a_known_slope(config: Late, seed: int) -> Verdict:
    task = config.task
    path = onehot.flow(task, config.horizon * np.array([0.5, 1.0]))
    inverse = 1 / onehot.loss(task, path.alpha, path.C)
    slope = (inverse[1] - inverse[0]) / (config.horizon / 2) * (task.length - 1) / 4
    u, T, q, d = float(onehot.leak(task, path.C[0])), task.length, task.sparsity, task.width
    # the slope is off by about u^2 (q/(T-q) + d/(T-1)): of first order in u nothing remains
    largest = min(0.1, math.sqrt(1e-3 / 3 / (q / (T - q) + d / (T - 1))))
    early = f"horizon={config.horizon:g} is too early: 1 - q s = {u:.2g} halfway must be at most {largest:.2g}"
    verdict = Verdict.at_most(abs(slope - 1), 1e-3, details=({"slope (T-1)/(4 eta)": float(slope)},))
    return under((early,) if u > largest else (), verdict)


@LEDGER.theory(
    "alpha-star",
    kind="identity",
    says="alpha* >= 1 on [1/T, 1/q], its maximum is (sqrt T + sqrt q)/(2 sqrt q) at s = 1/sqrt(Tq); alpha stays below",
    cases=(Training(Task(200, 3, 5)), Training(Task(20, 2, 5))),
)
def alpha_star_peaks_where_the_proof_says(config: Training, seed: int) -> Verdict:
    task = config.task
    T, q = task.length, task.sparsity
    grid = np.geomspace(1 / T, 1 / q, 20_001)
    values = onehot.alpha_star(task, grid)
    top, peak = onehot.alpha_star_maximum(task), 1 / math.sqrt(T * q)
    horizon = onehot.convergence_time(task, config.accuracy * onehot.largest_epsilon(task))
    overshoot = float(onehot.flow(task, np.geomspace(1e-2, horizon, 4000)).alpha.max())
    return Verdict.worst(
        {
            "error of the maximum": Verdict.at_most(abs(onehot.alpha_star(task, peak) / top - 1), TOLERANCE),
            "grid above the maximum by": Verdict.at_most(float(values.max()) / top - 1, TOLERANCE),
            "alpha* below 1 by": Verdict.at_most(1 - float(values.min()), TOLERANCE),
            "largest alpha along training": Verdict.at_most(overshoot, top),
        }
    )


# --- inside the proof of Theorem 3.1 ----------------------------------------------------------------------------------


@LEDGER.theory(
    "ih1",
    kind="bound",
    says="C never falls; alpha rises to 1 - x/10 (Phase I), then stays between it and (IH1)'s ceiling (Phase II)",
    cases=tuple(Training(Task(T, q, d)) for T, q, d in ((9, 2, 1), (20, 2, 5), (20, 4, 2), (50, 3, 3))),
)
def the_induction_hypothesis_holds_at_every_step(config: Training, seed: int) -> Verdict:
    task = config.task
    epsilon, eta = config.accuracy * onehot.largest_epsilon(task), onehot.largest_learning_rate(task)
    steps = math.ceil(min(MOST_STEPS // 2, 1.5 * onehot.time_to_loss(task, epsilon) / eta))
    path = onehot.descend(task, eta, steps)
    verdict = induction(task, path, onehot.named_attention(task, path.C), onehot.share_one_hot(task), epsilon)
    return under(theorem_hypotheses(task) + accuracy_hypothesis(config.accuracy), verdict)


def induction(task: Task, path, named: np.ndarray, share: float, epsilon: float) -> Verdict:
    """(IH1) or (IH2), by its share, along a path with attention `named` on the named positions.

    The ceiling on alpha is measured as the proof does, by gamma <= share where alpha = (1 + gamma ...) alpha*.
    """
    if not np.isfinite(path.C).all():
        return Verdict("fails", note="descent diverges at this learning rate")
    floor = onehot.phase_one_end(task, epsilon)
    reached = path.alpha >= floor
    if not reached.any():
        note = f"alpha did not reach {floor:.4g} in {len(path.alpha) - 1} steps, so Phase II did not begin"
        return Verdict("vacuous", float(path.alpha.max()), floor, note=note)
    start = int(np.argmax(reached))
    first, second = path.alpha[: start + 1], path.alpha[start:]
    row = {
        "points": len(path.alpha),
        "Phase I ends at": float(path.times[start]),
        "largest alpha/ceiling": float(np.max(second / onehot.ceiling(task, named[start:], share))),
        "last alpha": float(second[-1]),
        "last C": float(path.C[-1]),
    }
    return Verdict.worst(
        {
            "largest gamma": Verdict.at_most(
                float(np.max(onehot.excess(task, second, named[start:]))), share, details=(row,)
            ),
            "least alpha minus its floor": Verdict.at_least(float(second.min() - floor), 0.0),
            "smallest step of C": Verdict.at_least(float(np.diff(path.C).min()), 0.0),
            "smallest step of alpha in Phase I": Verdict.at_least(float(np.diff(first).min(initial=1.0)), 0.0),
        }
    )


@LEDGER.theory(
    "thm3.1-stages",
    kind="convergence",
    says="s reaches 1/(2q) within O(T^2 log T/eta) steps, then (1-x)/q within O(T^2 d log/(eta epsilon)), as 1/t",
    cases=tuple(Training(task) for task in SPEC_SIZES),
)
def training_has_two_stages(config: Training, seed: int) -> Verdict:
    task = config.task
    T, q = task.length, task.sparsity
    epsilon = config.accuracy * onehot.largest_epsilon(task)
    half = onehot.time_to_attention(task, math.log((T - q) / q))
    end = onehot.time_to_attention(task, onehot.attention_threshold(task, epsilon))
    violated = theorem_hypotheses(task) + accuracy_hypothesis(config.accuracy)
    if not 0 < end < math.inf:
        where = "from the start" if end == 0 else "later than any time the flow is followed to"
        return under(violated, Verdict("vacuous", note=f"s passes (1-x)/q {where}: there is no second stage"))
    bounds = onehot.first_stage_time(task, epsilon), onehot.second_stage_time(task, epsilon)
    late = onehot.flow(task, 1e3 * end * np.array([1.0, 2.0]))
    losses = onehot.loss(task, late.alpha, late.C)
    exponent = float(np.log2(losses[1] / losses[0]))
    row = {"eta t at s=1/(2q)": half, "eta t at s=(1-x)/q": end, "over T^2 log T": half / (T**2 * math.log(T))}
    verdicts = {
        "first stage over its bound": Verdict.at_most(half / bounds[0], 1.0, details=(row,)),
        "second stage over its bound": Verdict.at_most((end - half) / bounds[1], 1.0),
        "|exponent + 1| of the late loss": Verdict.at_most(abs(exponent + 1), 0.02),
    }
    return under(violated, Verdict.worst(verdicts))


@LEDGER.theory(
    "thm3.1-threshold",
    kind="bound",
    says="C = log(((T-q)/q)/x) is enough for q s >= 1-x (second stage of the proof, corrected)",
    cases=tuple(Training(task) for task in SPEC_SIZES),
)
def the_corrected_threshold_is_enough(config: Training, seed: int) -> Verdict:
    epsilon = config.accuracy * onehot.largest_epsilon(config.task)
    missing = onehot.leak(config.task, onehot.attention_threshold(config.task, epsilon))
    violated = theorem_hypotheses(config.task) + accuracy_hypothesis(config.accuracy)
    return under(violated, Verdict.at_most(float(missing), onehot.slack(config.task, epsilon)))


@LEDGER.theory(
    "thm3.1-threshold-printed",
    kind="bound",
    says="as printed: C = log((1/q)/x) is enough for q s >= 1-x",
    cases=Training(Task(20, 2, 5)),
)
def the_printed_threshold_is_too_low(config: Training, seed: int) -> Verdict:
    epsilon = config.accuracy * onehot.largest_epsilon(config.task)
    C = onehot.attention_threshold_printed(config.task, epsilon)
    verdict = Verdict.at_most(
        float(onehot.leak(config.task, C)),
        onehot.slack(config.task, epsilon),
        otherwise="refuted",
        note="the proof of Theorem D.4 drops a factor T-q inside the logarithm; Corollary E.8 has it",
        details=({"C printed": C, "C needed": onehot.attention_threshold(config.task, epsilon)},),
    )
    return under(theorem_hypotheses(config.task) + accuracy_hypothesis(config.accuracy), verdict)
