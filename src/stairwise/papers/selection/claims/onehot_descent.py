"""Descent with one-hot encodings: the ODE (6), Theorem 3.1, its sharp rate, and the inside of its proof."""

import math
from dataclasses import dataclass

import numpy as np

from stairwise.config import Config, option, require
from stairwise.lab.contract.checks import TOLERANCE, at_least, at_most, equal, monomial, note, row, skip_if, slope
from stairwise.papers.selection.claims.laws import Exact
from stairwise.papers.selection.claims.ledger import LEDGER
from stairwise.papers.selection.claims.sizes import Training, enumerable, room, theorem_3_1
from stairwise.papers.selection.config import Task
from stairwise.papers.selection.theory import onehot, population

MOST_STEPS = 2_000_000
MODEL_STEPS = 4000  # of descent on the model itself
SPEC_SIZES = tuple(Task(T, q, d) for T, q, d in ((20, 2, 5), (10, 2, 1), (20, 4, 5), (50, 3, 5), (200, 3, 5)))


# --- the flow ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Limit(Config):
    """Gradient descent on the model at four learning rates, to the same eta t."""

    task: Task = option(Task(6, 2, 1), "sizes of the task")
    learning_rate: float = option(0.05, "the largest of the four learning rates, each half the one before", above=0.0)
    horizon: float = option(10.0, "eta t up to which they are compared", above=0.0, high=1e6)

    def check(self) -> None:
        room(self.task)
        enumerable(self.task)
        steps = self.horizon / self.learning_rate
        require(
            10 <= steps <= MODEL_STEPS / 8,
            f"horizon={self.horizon:g} must be 10 to {MODEL_STEPS // 8} steps of learning_rate="
            f"{self.learning_rate:g}, not {steps:g}",
        )


@LEDGER.rate(
    "eq6",
    statement="eq. (6)",
    says=r"gradient descent on the model tends to the ODE (6): at a given $\eta t$ their distance is of order $\eta$",
    of=(onehot.slopes,),
    hypotheses={"eta <= 1/(20 d^2)": lambda config: config.learning_rate <= 1 / (20 * config.task.width**2)},
    cases=(Limit(), Limit(Task(5, 2, 2), learning_rate=0.0125, horizon=6.0)),
)
def descent_on_the_model_tends_to_the_flow(config: Limit, seed: int):
    task, T, d = config.task, config.task.length, config.task.width
    rates = config.learning_rate / np.array([1.0, 2.0, 4.0, 8.0])
    exact = Exact(task, population.one_hot_law(T), 0.0, repeats=MODEL_STEPS)
    errors = []
    for rate in rates:
        steps = round(config.horizon / rate)
        model = exact.descend(population.one_hot_model(task, 0.0, 0.0), float(rate), steps)
        limit = onehot.flow(task, np.array([rate * steps]))
        found = float(model.V[0, 0]), float(model.W[d, d]) / (1 - 1 / T)
        errors.append([abs(found[0] - limit.alpha[-1]), abs(found[1] - limit.C[-1])])
        yield row({"learning rate": rate, "error of alpha": errors[-1][0], "error of C": errors[-1][1]})
    of_alpha, of_C = np.array(errors).T
    yield slope("error of alpha against eta", rates, of_alpha, 1.0, within=0.25)
    yield slope("error of C against eta", rates, of_C, 1.0, within=0.25, against="eta")


@LEDGER.bound(
    "thm3.1",
    statement=("Theorem 3.1", "Theorem D.4"),
    says=r"gradient descent from zero has loss $\le \varepsilon$ after $T^2 d/(\eta\varepsilon)$ steps, for $\eta "
    r"\le 1/(20 d^2)$",
    of=(onehot.convergence_time, onehot.steps_to_loss),
    hypotheses=theorem_3_1,
    cases=tuple(Training(task) for task in SPEC_SIZES[:4]),
    aliases=("thmD4",),
    search={"task.length": (9, 64, "log"), "accuracy": (0.01, 0.99, "log")},
)
def descent_is_faster_than_the_bound(config: Training, seed: int):
    task = config.task
    epsilon = config.accuracy * onehot.largest_epsilon(task)
    eta = config.step * onehot.largest_learning_rate(task)
    bound = onehot.convergence_time(task, epsilon)
    yield equal("bound times epsilon, T^2 d", bound * epsilon, task.length**2 * task.width)
    limit = math.ceil(min(MOST_STEPS, bound / eta))
    steps = onehot.steps_to_loss(task, eta, epsilon, limit)
    yield skip_if(MOST_STEPS < steps < bound / eta, f"{MOST_STEPS:,} steps were not enough, and the bound allows more")
    time = eta * steps
    yield at_most("eta t / bound", time, bound)
    path = onehot.descend(task, eta, math.ceil(min(limit, 2 * time / eta)))
    late = onehot.loss(task, path.alpha[-1], path.C[-1])
    yield at_most("loss after twice that time", late, epsilon)
    below = onehot.loss(task, path.alpha, path.C) <= epsilon
    yield equal("the first step with that loss, along the path", int(np.argmax(below)) if below.any() else -1, steps)
    if steps:
        yield from _goes_down_the_gradient(task, path, eta)
    yield row(
        {
            "epsilon": epsilon,
            "eta t": time,
            "bound": bound,
            "over (T-1)/(4 epsilon)": time / onehot.sharp_time(task, epsilon),
        }
    )


def _goes_down_the_gradient(task: Task, path, eta: float):
    """Nine steps against differences of the loss: V has alpha d times on its diagonal, W has C in T-1 directions."""
    at, h = np.linspace(0, len(path.C) - 2, 9).astype(int), 1e-6
    alpha, C = path.alpha[at], path.C[at]
    of_alpha = (onehot.loss(task, alpha + h, C) - onehot.loss(task, alpha - h, C)) / (2 * h)
    of_C = (onehot.loss(task, alpha, C + h) - onehot.loss(task, alpha, C - h)) / (2 * h)
    yield equal("steps of alpha", np.diff(path.alpha)[at], -eta * of_alpha / task.width, 1e-6)
    yield equal("steps of C", np.diff(path.C)[at], -eta * of_C / (task.length - 1), 1e-5)


@dataclass(frozen=True)
class Accuracies(Config):
    """Accuracies and lengths to sweep."""

    task: Task = option(Task(20, 2, 5), "sizes of the task")
    accuracies: tuple[float, ...] = option((1e-2, 3e-3, 1e-3, 3e-4), "epsilon over the largest allowed", above=0.0)
    lengths: tuple[int, ...] = option((20, 40, 80, 160), "lengths T, at the smallest accuracy", low=9, high=2000)
    widths: tuple[int, ...] = option((2, 4, 8, 16), "token dimensions d, at the smallest accuracy", low=1, high=2**10)

    def check(self) -> None:
        room(self.task)


@LEDGER.rate(
    "thm3.1-rate",
    statement=("Theorem 3.1", "Theorem D.4"),
    says=r"the time to loss $\varepsilon$ is $\Theta(1/\varepsilon)$, as in the bound $T^2 d/(\eta\varepsilon)$, "
    r"and at most of order $T^2$",
    of=(onehot.convergence_time,),
    hypotheses=theorem_3_1,
    cases=(Accuracies(), Accuracies(Task(50, 3, 2))),
)
def the_time_is_inverse_in_the_accuracy(config: Accuracies, seed: int):
    task = config.task

    def printed(T: int, d: int, epsilon: float) -> float:
        return onehot.convergence_time(Task(T, 1, d), epsilon)

    yield monomial("the bound", printed, 1.0, T=2, d=1, epsilon=-1)
    epsilons = np.array(config.accuracies) * onehot.largest_epsilon(task)
    times = np.array([onehot.time_to_loss(task, float(epsilon)) for epsilon in epsilons])
    bounds = np.array([onehot.convergence_time(task, float(epsilon)) for epsilon in epsilons])
    yield slope("time against epsilon", epsilons, times, -1.0, against="epsilon", bound=bounds)
    yield slope("bound / time against epsilon", epsilons, bounds / times, 0.0)
    least = float(epsilons.min())
    tasks = [Task(T, task.sparsity, task.width) for T in config.lengths]
    by_length = np.array([onehot.time_to_loss(each, least) for each in tasks])
    bounds = np.array([onehot.convergence_time(each, least) for each in tasks])
    yield slope("time against T", config.lengths, by_length, 2.0, side="at most", against="T", bound=bounds)
    yield slope("bound against T", config.lengths, bounds, 2.0)
    yield slope("time / bound against T", config.lengths, by_length / bounds, 0.0, side="at most")
    tasks = [Task(task.length, task.sparsity, d) for d in config.widths]
    by_width = np.array([onehot.time_to_loss(each, least) for each in tasks])
    bounds = np.array([onehot.convergence_time(each, least) for each in tasks])
    yield slope("bound against d", config.widths, bounds, 1.0)
    yield slope("time against d", config.widths, by_width, 1.0, side="at most", against="d", bound=bounds)
    yield slope("time / bound against d", config.widths, by_width / bounds, 0.0, side="at most")


@dataclass(frozen=True)
class Late(Config):
    """The flow at a late time."""

    task: Task = option(SPEC_SIZES[0], "sizes of the task")
    horizon: float = option(1e6, "eta t", above=0.0, high=1e16)

    def check(self) -> None:
        room(self.task)


def late_enough(config: Late) -> bool:
    """The slope is off by about u^2 (q/(T-q) + d/(T-1)), of first order in u nothing remains; u from the law itself."""
    T, q, d = config.task.length, config.task.sparsity, config.task.width
    largest = min(0.1, math.sqrt(1e-3 / 3 / (q / (T - q) + d / (T - 1))))
    return onehot.late_leak(config.task, config.horizon / 2) <= largest


@LEDGER.bound(
    "sharp-rate",
    statement="ours: the constant of Theorem 3.1",
    says=r"one-hot: $L(t) \sim (T-1)/(4\eta t)$, so $1/L$ has slope $4\eta/(T-1)$ whatever $d$ and $q$",
    of=(onehot.sharp_time,),
    hypotheses={"the horizon is late for these sizes": late_enough},
    cases=tuple(Late(task) for task in SPEC_SIZES),
)
def the_inverse_loss_has_a_known_slope(config: Late, seed: int):
    task = config.task
    path = onehot.flow(task, config.horizon * np.array([0.5, 1.0]))
    inverse = 1 / onehot.loss(task, path.alpha, path.C)
    found = (inverse[1] - inverse[0]) / (config.horizon / 2)
    by_law = 1 / onehot.sharp_time(task, 1.0)  # 1/epsilon at time t is t times this
    yield at_most("|slope of 1/L over that of the law - 1|", abs(found / by_law - 1), 1e-3)
    yield row({"slope (T-1)/(4 eta)": float(found * (task.length - 1) / 4)})


@LEDGER.bound(
    "alpha-star",
    statement="Theorem D.4, proof",
    says=r"$\alpha^* \ge 1$ on $[1/T, 1/q]$, its maximum is $(\sqrt{T} + \sqrt{q})/(2\sqrt{q})$ at $s = "
    r"1/\sqrt{Tq}$; $\alpha$ stays below",
    of=(onehot.alpha_star, onehot.alpha_star_maximum),
    hypotheses=theorem_3_1,
    cases=(Training(Task(200, 3, 5)), Training(Task(20, 2, 5))),
)
def alpha_star_peaks_where_the_proof_says(config: Training, seed: int):
    task = config.task
    T, q = task.length, task.sparsity
    grid = np.geomspace(1 / T, 1 / q, 20_001)
    values = onehot.alpha_star(task, grid)
    top, peak = onehot.alpha_star_maximum(task), 1 / math.sqrt(T * q)
    yield equal("maximum", onehot.alpha_star(task, peak), top)
    yield equal("where the grid is largest", grid[np.argmax(values)], peak, 1e-3)
    yield at_most("largest on a grid", float(values.max()), top, rounding=TOLERANCE)
    yield at_least("least on a grid", float(values.min()), 1.0, rounding=TOLERANCE)
    # alpha* is where alpha rests: the slope of alpha vanishes there
    resting = np.array(
        [onehot.slopes(task, a, _attention_of(task, s))[0] for a, s in zip(values, grid, strict=True)][1:-1]
    )
    yield equal("slope of alpha at alpha*", resting, np.zeros_like(resting), 1e-10)
    horizon = onehot.convergence_time(task, config.accuracy * onehot.largest_epsilon(task))
    overshoot = float(onehot.flow(task, np.geomspace(1e-2, horizon, 4000)).alpha.max())
    yield at_most("largest alpha along training", overshoot, top)


def _attention_of(task: Task, s: float) -> float:
    """The C at which the named attention is s."""
    return -math.log((1 / s - task.sparsity) / (task.length - task.sparsity)) if s < 1 / task.sparsity else math.inf


# --- inside the proof of Theorem 3.1 ----------------------------------------------------------------------------------


@LEDGER.bound(
    "ih1",
    statement="Theorem D.4, (IH1)",
    says=r"$C$ never falls; $\alpha$ rises to $1 - x/10$ (Phase I), then stays between it and (IH1)'s ceiling "
    r"(Phase II)",
    of=(onehot.share_one_hot, onehot.phase_one_end, onehot.phase_one_time),
    hypotheses=theorem_3_1,
    cases=tuple(Training(Task(T, q, d)) for T, q, d in ((9, 2, 1), (20, 2, 5), (20, 4, 2), (50, 3, 3))),
)
def the_induction_hypothesis_holds_at_every_step(config: Training, seed: int):
    task = config.task
    epsilon = config.accuracy * onehot.largest_epsilon(task)
    eta = config.step * onehot.largest_learning_rate(task)
    steps = math.ceil(min(MOST_STEPS // 2, 1.5 * onehot.time_to_loss(task, epsilon) / eta))
    path = onehot.descend(task, eta, steps)
    yield from induction(task, path, onehot.named_attention(task, path.C), onehot.share_one_hot(task), epsilon)
    first = int(np.argmax(path.alpha >= onehot.phase_one_end(task, epsilon)))
    limit = onehot.phase_one_time(task, epsilon)
    yield at_most("end of Phase I, eta t", eta * first, limit)
    # both constants are far from tight: the time is that of the slowest 1 - alpha = e^{-t/T}, the share leaves 1/(8d)
    left = 1 - onehot.phase_one_end(task, epsilon)
    yield equal("1 - alpha then, if it shrinks as slowly as it can", math.exp(-limit / task.length), left, 1e-9)
    yield equal("8d times what the share leaves", 8 * task.width * (1 - onehot.share_one_hot(task)), 1.0)


def induction(task: Task, path, named: np.ndarray, share: float, epsilon: float, name: str = ""):
    """(IH1) or (IH2), by its share, along a path with attention `named` on the named positions.

    The ceiling on alpha is measured as the proof does, by gamma <= share where alpha = (1 + gamma ...) alpha*.
    """
    after = f", {name}" if name else ""
    floor = onehot.phase_one_end(task, epsilon)
    yield at_least(f"largest alpha{after}", float(path.alpha.max()), floor)
    start = int(np.argmax(path.alpha >= floor))
    first, second = path.alpha[: start + 1], path.alpha[start:]
    yield at_most(f"largest gamma{after}", onehot.excess(task, second, named[start:]), share)
    yield at_least(f"least alpha in Phase II{after}", second, floor)
    yield at_least(f"smallest step of C{after}", np.diff(path.C), 0.0)
    if len(first) > 1:
        yield at_least(f"smallest step of alpha in Phase I{after}", np.diff(first), 0.0)
    yield row(
        {
            "points": len(path.alpha),
            "Phase I ends at": float(path.times[start]),
            "last alpha": float(second[-1]),
            "last C": float(path.C[-1]),
        }
    )


@LEDGER.bound(
    "thm3.1-stages",
    statement="Theorem D.4, proof",
    says=r"$s$ reaches $1/(2q)$ within $O(T^2 \log T/\eta)$ steps, then $(1-x)/q$ within $O(T^2 d "
    r"\log/(\eta\varepsilon))$, as $1/t$",
    of=(onehot.first_stage_time, onehot.second_stage_time),
    hypotheses=theorem_3_1,
    cases=tuple(Training(task) for task in SPEC_SIZES),
)
def training_has_two_stages(config: Training, seed: int):
    task = config.task
    T, q = task.length, task.sparsity
    epsilon = config.accuracy * onehot.largest_epsilon(task)
    half = onehot.time_to_attention(task, math.log((T - q) / q))
    end = onehot.time_to_attention(task, onehot.attention_threshold(task, epsilon))
    yield at_most("first stage, eta t", half, onehot.first_stage_time(task, epsilon))
    yield at_most("second stage, eta t", end - half, onehot.second_stage_time(task, epsilon))
    # both are C over its least increment: 1/(8 T^2), and q epsilon/(8 d T(T-1))
    x, d = onehot.slack(task, epsilon), task.width
    levels = _attention_of(task, 1 / (2 * q)), _attention_of(task, (1 - x) / q)
    first = onehot.first_stage_time(task, epsilon) - onehot.phase_one_time(task, epsilon)
    yield equal("first stage after Phase I, over 8 T^2", first / (8 * T**2), levels[0], 1e-9)
    second = onehot.second_stage_time(task, epsilon) * q * epsilon / (8 * d * T * (T - 1))
    yield equal("second stage, in units of the least increment", second, math.log(1 / x), 1e-9)
    yield at_least("second stage against C from s = 1/(2q) to (1-x)/q", second, levels[1] - levels[0])
    times = 1e3 * end * np.array([1.0, 2.0, 4.0, 8.0])
    late = onehot.flow(task, times)
    yield slope("late loss against t", times, onehot.loss(task, late.alpha, late.C), -1.0, within=0.02)
    yield row({"eta t at s=1/(2q)": half, "eta t at s=(1-x)/q": end, "over T^2 log T": half / (T**2 * math.log(T))})


@LEDGER.bound(
    "thm3.1-threshold",
    statement="Theorem D.4, second stage of the proof, corrected",
    says=r"$C = \log(((T-q)/q)/x)$ is enough for $q s \ge 1-x$; the least that is enough is lower by $-\log(1-x)$",
    of=(onehot.attention_threshold,),
    hypotheses=theorem_3_1,
    cases=(*(Training(task) for task in SPEC_SIZES), Training(Task(9, 2, 1), accuracy=0.99)),
)
def the_corrected_threshold_is_enough(config: Training, seed: int):
    task, epsilon = config.task, config.accuracy * onehot.largest_epsilon(config.task)
    C, x = onehot.attention_threshold(task, epsilon), onehot.slack(task, epsilon)
    yield at_most("1 - q s", float(onehot.leak(task, C)), x)
    yield equal("1 - q s where C is less by -log(1-x)", float(onehot.leak(task, C + math.log1p(-x))), x)


@LEDGER.misprint(
    "thm3.1-threshold-printed",
    statement="Theorem D.4, second stage of the proof",
    says=r"as printed: $C = \log((1/q)/x)$ is enough for $q s \ge 1-x$",
    means=r"$\log(((T-q)/q)/x)$: a factor $T-q$ is missing inside the logarithm, which Corollary E.8 has",
    of=(onehot.attention_threshold_printed,),
    corrected="thm3.1-threshold",
    hypotheses=theorem_3_1,
    cases=Training(Task(20, 2, 5)),
)
def the_printed_threshold_is_too_low(config: Training, seed: int):
    epsilon = config.accuracy * onehot.largest_epsilon(config.task)
    C = onehot.attention_threshold_printed(config.task, epsilon)
    yield at_most("1 - q s", float(onehot.leak(config.task, C)), onehot.slack(config.task, epsilon))
    yield row({"C printed": C, "C needed": onehot.attention_threshold(config.task, epsilon)})
    yield note("the proof of Theorem D.4 drops a factor T-q inside the logarithm; Corollary E.8 has it")
