"""Training with stochastic encodings: Theorem 3.3, the inside of its proof, and Corollaries E.8 and E.16."""

from dataclasses import dataclass, replace

import numpy as np

from stairwise.lab.checks import under
from stairwise.lab.config import Config, ConfigError, option
from stairwise.lab.contract import Verdict
from stairwise.papers.selection.claims.ledger import LEDGER
from stairwise.papers.selection.claims.onehot_descent import induction
from stairwise.papers.selection.claims.sizes import accuracy_hypothesis, attainable, fits, room, theorem_hypotheses
from stairwise.papers.selection.config import Task
from stairwise.papers.selection.theory import encodings, onehot, stochastic


@dataclass(frozen=True)
class Stochastic(Config):
    """Training averaged over drawn encodings and subsets, to a loss of epsilon."""

    task: Task = option(Task(200, 3, 5), "sizes of the task")
    encoding_width: int = option(170, "encoding dimension d_e", low=1, high=2**15)
    threshold: float = option(0.35, "largest |<e_i, e_j>| of an admissible set of encodings", above=0.0, high=1.0)
    encodings: int = option(24, "sets of encodings to average over", low=1, high=4096)
    subsets: int = option(8, "subsets to draw on each of them", low=1, high=4096)
    accuracy: float = option(0.5, "epsilon over the largest that the theorem allows, dT/(100 (T-q) q)", low=1e-9)
    steps: int = option(4000, "steps of gradient descent, where a claim takes steps", low=1, high=10**6)

    def check(self) -> None:
        room(self.task)
        fits(self.task, self.encoding_width)
        attainable(self.task, self.accuracy)


PAPER = Stochastic()
# the smallest sizes found that meet every hypothesis: delta < 1/10 by the coherence certificate, and d_e <= T d
WITHIN = Stochastic(Task(100, 2, 200), encoding_width=2**14, threshold=0.035, encodings=4, subsets=24, steps=1000)
SMALL = Stochastic(Task(24, 3, 5), encoding_width=96, threshold=0.4)


@dataclass(frozen=True)
class Pool:
    """The pairs (E, y) that stand for the law."""

    overlaps: np.ndarray
    gamma: float
    delta: float  # a certified upper bound, or where that exceeds 1/10 a lower one
    certified: bool


def pool_of(config: Stochastic, seed: int, role: str = "encodings") -> Pool:
    """Drawn encodings with their overlaps; refuses a pool on which no C solves the task."""
    task = config.task
    law = encodings.draw(seed, config.encodings, task.length, config.encoding_width, config.threshold, role)
    subsets = encodings.draw_subsets(seed, config.subsets, task.length, task.sparsity)
    overlaps = encodings.overlaps(law, subsets).reshape(-1, task.length - task.sparsity)
    gamma = float(np.abs(overlaps).max())
    if overlaps.max() >= 1:
        raise ConfigError(
            f"threshold={config.threshold:g} admits <e_i, e_y> = {overlaps.max():.3g} off y, which must be below 1"
            " (no C selects then); lower it or raise encoding_width"
        )
    bound = encodings.rip_certificate(max(encodings.coherence(E) for E in law), task.sparsity)
    if bound < 0.1:
        return Pool(overlaps, gamma, bound, True)
    return Pool(overlaps, gamma, max(encodings.rip_floor(E, task.sparsity) for E in law), False)


def hypotheses(config: Stochastic, pool: Pool) -> tuple[str, ...]:
    """What Theorem 3.3 asks and these sizes do not meet."""
    task = config.task
    violated = theorem_hypotheses(task) + accuracy_hypothesis(config.accuracy)
    if not pool.certified:
        violated += (f"delta >= {pool.delta:.3g} must be below 1/10 (not certified by the coherence)",)
    if config.encoding_width > task.length * task.width:
        violated += (f"encoding_width={config.encoding_width} must be at most task.length*task.width (in the proof)",)
    return violated


@LEDGER.theory(
    "thm3.3",
    kind="convergence",
    says="averaged descent has loss at most epsilon after (T^{(2-2 delta)/(1-3 delta)} + T^2 d/epsilon)/eta steps",
    cases=(PAPER, WITHIN, SMALL),
    aliases=("thmE6",),
)
def averaged_descent_is_faster_than_the_bound(config: Stochastic, seed: int) -> Verdict:
    task, width = config.task, config.encoding_width
    pool = pool_of(config, seed)
    epsilon = config.accuracy * onehot.largest_epsilon(task)
    bound = stochastic.convergence_time(task, epsilon, 0.0)  # delta = 0 is the strictest
    time = stochastic.time_to_loss(task, width, pool.overlaps, epsilon)
    late = max(bound, 10 * time)
    path = stochastic.flow(task, width, pool.overlaps, late * np.array([0.5, 1.0]))
    losses = np.array(
        [stochastic.output_averaged_loss(task, pool.overlaps, *state) for state in zip(*path[1:], strict=True)]
    )
    exponent = float(np.log2(losses[1] / losses[0]))
    slope = float((1 / losses[1] - 1 / losses[0]) / (late / 2))
    row = {
        "epsilon": epsilon,
        "eta t": time,
        "bound": bound,
        "gamma": pool.gamma,
        "delta": pool.delta,
        "late slope of 1/L over 4 eta/d_e": slope / stochastic.late_slope(width),
    }
    if pool.certified:
        row["bound of Theorem E.6 at delta"] = stochastic.convergence_time(task, epsilon, pool.delta)
        row["as Theorem 3.3 prints it"] = stochastic.convergence_time_printed(task, epsilon, pool.delta)
    verdicts = {
        "time over its bound": Verdict.at_most(time / bound, 1.0, details=(row,)),
        "|exponent + 1| of the late loss": Verdict.at_most(abs(exponent + 1), 0.1),
    }
    return under(hypotheses(config, pool), Verdict.worst(verdicts))


@LEDGER.theory(
    "ih2",
    kind="bound",
    says="averaged: C never falls; alpha rises to 1 - x/10, then stays between it and (IH2)'s ceiling",
    cases=(SMALL, Stochastic(encodings=8, steps=8000), WITHIN),
)
def the_averaged_induction_hypothesis_holds_at_every_step(config: Stochastic, seed: int) -> Verdict:
    task, width = config.task, config.encoding_width
    pool = pool_of(config, seed)
    epsilon = config.accuracy * onehot.largest_epsilon(task)
    eta = stochastic.largest_learning_rate(task, width)
    steps = stochastic.descend(task, width, pool.overlaps, eta, config.steps)
    late = stochastic.convergence_time(task, epsilon, 0.0)
    flow = stochastic.flow(task, width, pool.overlaps, np.geomspace(1.0, late, 300))
    verdicts = {}
    for name, path in (("steps", steps), ("flow", flow)):
        named = np.array([stochastic.attention(task, pool.overlaps, float(C)).named.mean() for C in path.C])
        verdicts[name] = induction(task, path, named, stochastic.share_stochastic(task, width), epsilon)
    proof = stochastic.largest_learning_rate_of_proof(task, width)
    note = f"steps at eta={eta:.3g}, the largest of the statement (its proof takes {proof:.3g})"
    return under(hypotheses(config, pool), replace(Verdict.worst(verdicts), note=note))


@LEDGER.theory(
    "corE8",
    kind="convergence",
    says="by the theorem's time C has passed log(((T-q)/q)/x)/(1-gamma) and alpha lies in [1 - x/10, 1 + 8x/5]",
    cases=(WITHIN, replace(WITHIN, accuracy=0.05)),
)
def the_trained_scalars_are_where_the_corollary_says(config: Stochastic, seed: int) -> Verdict:
    task, width = config.task, config.encoding_width
    pool = pool_of(config, seed)
    epsilon = config.accuracy * onehot.largest_epsilon(task)
    time = stochastic.convergence_time(task, epsilon, 0.0)
    path = stochastic.flow(task, width, pool.overlaps, np.array([time]))
    alpha, C = float(path.alpha[-1]), float(path.C[-1])
    low, high = stochastic.alpha_interval(task, epsilon)
    threshold = stochastic.attention_threshold(task, epsilon, pool.gamma)
    row = {"eta t": time, "alpha": alpha, "C": C, "gamma": pool.gamma, "delta": pool.delta}
    if pool.certified:
        row["C with the printed gamma at delta"] = stochastic.attention_threshold_printed(task, epsilon, pool.delta)
    verdicts = {
        "C": Verdict.at_least(C, threshold, details=(row,)),
        "alpha - 1": Verdict.at_most(alpha - 1, high - 1),
        "alpha minus its floor": Verdict.at_least(alpha - low, 0.0),
    }
    return under(hypotheses(config, pool), Verdict.worst(verdicts))


@LEDGER.theory(
    "corE8-interval",
    kind="bound",
    says="the corollary's C gives q s >= 1-x at overlap gamma, and there (IH2)'s ceiling is at most 1 + 8x/5",
    cases=(PAPER, Stochastic(Task(20, 2, 5), encoding_width=64, threshold=0.6), WITHIN),
)
def the_interval_follows_from_the_threshold(config: Stochastic, seed: int) -> Verdict:
    task, width = config.task, config.encoding_width
    worst_ceiling = worst_leak = 0.0
    gamma = encodings.overlap_bound_printed(0.1)
    for share in np.geomspace(1e-4, 1, 25):
        epsilon = float(share * config.accuracy * onehot.largest_epsilon(task))
        x = onehot.slack(task, epsilon)
        s = (1 - x * np.linspace(0, 1, 101)) / task.sparsity
        ceiling = np.max(stochastic.ih2_ceiling(task, width, s))
        worst_ceiling = max(worst_ceiling, float(ceiling - 1) / (1.6 * x))
        C = stochastic.attention_threshold(task, epsilon, gamma)
        leak = 1 - task.sparsity * stochastic.sandwich(task, C, gamma)[0]
        worst_leak = max(worst_leak, leak / x)
    verdicts = {
        "(ceiling - 1)/(8x/5)": Verdict.at_most(worst_ceiling, 1.0),
        "(1 - q s)/x at the threshold": Verdict.at_most(worst_leak, 1.0),
    }
    return under(theorem_hypotheses(task) + accuracy_hypothesis(config.accuracy), Verdict.worst(verdicts))


@LEDGER.theory(
    "corE16",
    kind="convergence",
    says="trained weights work with any fixed admissible E: on 20 new ones the loss varies little, ends below epsilon",
    cases=PAPER,
)
def trained_weights_work_with_any_fixed_encodings(config: Stochastic, seed: int) -> Verdict:
    task, width = config.task, config.encoding_width
    pool = pool_of(config, seed)
    epsilon = config.accuracy * onehot.largest_epsilon(task)
    reached = stochastic.time_to_loss(task, width, pool.overlaps, epsilon)
    fresh = encodings.draw(seed, 20, task.length, width, config.threshold, "fresh encodings")
    subsets = encodings.draw_subsets(seed, 400, task.length, task.sparsity)
    overlaps = encodings.overlaps(fresh, subsets)

    def losses_at(time: float) -> np.ndarray:
        path = stochastic.flow(task, width, pool.overlaps, np.array([time]))
        alpha, C = float(path.alpha[-1]), float(path.C[-1])
        return np.array([stochastic.loss_averaged_loss(task, g, alpha, C) for g in overlaps])

    early, late = losses_at(reached), losses_at(stochastic.convergence_time(task, epsilon, 0.0))
    row = {"mean": float(early.mean()), "least": float(early.min()), "largest": float(early.max()), "epsilon": epsilon}
    spread = float(early.max() / early.mean())
    verdicts = {
        "largest over mean, when training reaches epsilon": Verdict.at_most(spread, 1.5, details=(row,)),
        "largest at the theorem's time": Verdict.at_most(float(late.max()), epsilon),
    }
    return under(hypotheses(config, pool), Verdict.worst(verdicts))
