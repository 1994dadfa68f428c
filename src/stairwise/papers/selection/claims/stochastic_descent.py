"""Training with stochastic encodings: Theorem 3.3, the inside of its proof, and Corollaries E.8 and E.16."""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from stairwise.config import Config, ConfigError, option
from stairwise.lab.contract.checks import Comparison, at_least, at_most, equal, note, row, slope
from stairwise.papers.selection.claims.ledger import LEDGER
from stairwise.papers.selection.claims.onehot_descent import induction
from stairwise.papers.selection.claims.sizes import attainable, fits, room, theorem_3_1, theorem_3_3
from stairwise.papers.selection.config import Task
from stairwise.papers.selection.theory import encodings, onehot, stochastic

MOST_STEPS = 50_000


@dataclass(frozen=True)
class Stochastic(Config):
    """Training averaged over drawn encodings and subsets, to a loss of epsilon."""

    task: Task = option(Task(200, 3, 5), "sizes of the task")
    encoding_width: int = option(170, "encoding dimension d_e", low=1, high=2**15)
    threshold: float = option(0.35, "largest |<e_i, e_j>| of an admissible set of encodings", above=0.0, high=1.0)
    isometry: float = option(
        0.0, "delta of the (q, delta)-RIP that encodings are conditioned on; 0 = by the threshold", low=0.0, high=1.0
    )
    encodings: int = option(24, "sets of encodings to average over", low=1, high=4096)
    subsets: int = option(8, "subsets to draw on each of them", low=1, high=4096)
    accuracy: float = option(0.5, "epsilon over the largest that the theorem allows, dT/(100 (T-q) q)", low=1e-9)
    step: float = option(1.0, "eta over the largest that the theorem allows, d_e^2/(40 d^2 T)", above=0.0, high=100.0)
    steps: int = option(4000, "steps of gradient descent, where a claim takes steps", low=1, high=10**6)

    def check(self) -> None:
        room(self.task)
        fits(self.task, self.encoding_width)
        attainable(self.task, self.accuracy)


PAPER = Stochastic()
# the smallest sizes found that meet every hypothesis: delta < 1/10 by the coherence certificate, and d_e <= T d
WITHIN = Stochastic(Task(100, 2, 200), encoding_width=2**14, threshold=0.035, encodings=4, subsets=24, steps=1000)
# the same by the condition itself: random signs that have (2, 0.0999)-RIP, others are rejected
CONDITIONED = Stochastic(Task(9, 2, 256), encoding_width=2048, isometry=0.0999, encodings=6, subsets=36, steps=1000)
SMALL = Stochastic(Task(24, 3, 5), encoding_width=96, threshold=0.4)


@dataclass(frozen=True)
class Pool:
    """The pairs (E, y) that stand for the law."""

    overlaps: np.ndarray
    gamma: float
    delta: float  # exactly, where encodings are conditioned on it, else what the coherence certifies


def pool_of(config: Stochastic, seed: int) -> Pool:
    """Drawn encodings with their overlaps; refuses a pool on which no C solves the task."""
    # claims at other accuracies, rates and steps look at the same pool
    return _pool(replace(config, accuracy=0.5, step=1.0, steps=1), seed)


@lru_cache(maxsize=24)
def _pool(config: Stochastic, seed: int) -> Pool:
    task = config.task
    law = law_of(config, seed, config.encodings)
    subsets = encodings.draw_subsets(seed, config.subsets, task.length, task.sparsity)
    overlaps = encodings.overlaps(law, subsets).reshape(-1, task.length - task.sparsity)
    if overlaps.max() >= 1:
        raise ConfigError(
            f"threshold={config.threshold:g} admits <e_i, e_y> = {overlaps.max():.3g} off y, which must be below 1"
            " (no C selects then); lower it or raise encoding_width"
        )
    if config.isometry:
        delta = max(encodings.rip_constants(E, task.sparsity).delta for E in law)
    else:
        delta = encodings.rip_certificate(max(encodings.coherence(E) for E in law), task.sparsity)
    return Pool(overlaps, float(np.abs(overlaps).max()), delta)


@lru_cache(maxsize=24)
def trained(config: Stochastic, seed: int, time: float) -> tuple[float, float]:
    """The two scalars of the flow at this time, which several corollaries look at."""
    path = stochastic.flow(config.task, config.encoding_width, pool_of(config, seed).overlaps, np.array([time]))
    return float(path.alpha[-1]), float(path.C[-1])


@lru_cache(maxsize=24)
def descent(config: Stochastic, seed: int) -> onehot.Trajectory:
    """The steps of gradient descent on the pool, which several lemmas look at."""
    task, width = config.task, config.encoding_width
    eta = config.step * stochastic.largest_learning_rate(task, width)
    return stochastic.descend(task, width, pool_of(config, seed).overlaps, eta, config.steps)


def law_of(config: Stochastic, seed: int, count: int, role: str = "encodings") -> np.ndarray:
    """`count` sets of encodings, conditioned on RIP or on the threshold."""
    sizes = seed, count, config.task.length, config.encoding_width
    if config.isometry:
        return encodings.draw_restricted(*sizes, config.task.sparsity, config.isometry, role)
    return encodings.draw(*sizes, config.threshold, role)


def epsilon_of(config: Stochastic) -> float:
    return config.accuracy * onehot.largest_epsilon(config.task)


def the_bound_as_printed() -> Comparison:
    """(2 - 2/9)/(1 - 3/9) = 8/3, so that the bound is 8^(8/3) + 8^2 3/(1/2) there."""
    found = stochastic.convergence_time(Task(8, 2, 3), 0.5, 1 / 9)
    return equal("bound at T=8, d=3, epsilon=1/2, delta=1/9", found, 640.0)


def literal_loss(task: Task, overlaps: np.ndarray, alpha: float, C: float) -> float:
    """(d/2) ||Y/q - alpha E S||^2, token by token: S is a softmax of C on y and of C <e_i, e_y> elsewhere."""
    T, q = task.length, task.sparsity
    powers = np.exp(C * (np.append(np.ones((len(overlaps), q)), overlaps, axis=1) - 1))
    mean = (powers / powers.sum(axis=1, keepdims=True)).mean(axis=0)
    spread = np.append(np.full(q, mean[:q].mean()), np.full(T - q, mean[q:].mean()))  # Lemma E.14
    return task.width / 2 * float(((np.append(np.full(q, 1 / q), np.zeros(T - q)) - alpha * spread) ** 2).sum())


@LEDGER.bound(
    "thm3.3",
    argument=r"its proof uses Lemma A.3, which is false as printed; with $\sqrt{q}\,\delta/(1-\delta)$ in its place"
    r" Lemmas E.7 and E.15 hold, and the induction does for $\delta \le 1/(1+8\sqrt{q})$ (`thm3.3-steps`)",
    statement=("Theorem 3.3", "Theorem E.6"),
    says=r"averaged descent has loss $\le \varepsilon$ after $(T^{(2-2\delta)/(1-3\delta)} + T^2 "
    r"d/\varepsilon)/\eta$ steps",
    of=(stochastic.convergence_time, stochastic.steps_to_loss),
    hypotheses=theorem_3_3,
    cases=(WITHIN, CONDITIONED, SMALL),
    aliases=("thmE6",),
    seeds=3,
)
def averaged_descent_is_faster_than_the_bound(config: Stochastic, seed: int):
    task, width = config.task, config.encoding_width
    pool, epsilon = pool_of(config, seed), epsilon_of(config)
    eta = config.step * stochastic.largest_learning_rate(task, width)
    bound = stochastic.convergence_time(task, epsilon, 0.0)  # delta = 0 is the strictest
    limit = int(min(MOST_STEPS, bound / eta))
    steps = stochastic.steps_to_loss(task, width, pool.overlaps, eta, epsilon, limit)
    time = eta * steps
    yield at_most(f"steps, of {limit} that are taken at most", steps, limit)
    yield at_least("steps", steps, 1)
    if seed == 0 and steps:  # the same steps taken apart, and the loss by its words
        path = stochastic.descend(task, width, pool.overlaps, eta, steps)
        losses = [literal_loss(task, pool.overlaps, path.alpha[place], path.C[place]) for place in (-1, -2)]
        yield at_most("loss after these steps / epsilon", losses[0] / epsilon, 1.0)
        yield at_least("loss after one step less / epsilon", losses[1] / epsilon, 1.0)
    yield at_most("eta t / bound", time, bound)
    yield the_bound_as_printed()
    printed = stochastic.convergence_time_printed(task, epsilon, pool.delta)
    yield at_most("eta t / bound, with the smaller exponent that Theorem 3.3 prints", time, printed)
    yield row({"epsilon": epsilon, "eta t": time, "bound": bound, "gamma": pool.gamma, "delta at most": pool.delta})
    yield note("a pool of drawn pairs (E, y) stands for the law")


@LEDGER.rate(
    "thm3.3-rate",
    statement=("Theorem 3.3", "Theorem E.6"),
    says=r"the loss falls as $1/t$, so the time to loss $\varepsilon$ is $\Theta(1/\varepsilon)$, as in the bound",
    of=(stochastic.convergence_time,),
    hypotheses=theorem_3_3,
    cases=replace(WITHIN, accuracy=0.01),
    seeds=3,
)
def the_time_is_inverse_in_the_accuracy(config: Stochastic, seed: int):
    task, width = config.task, config.encoding_width
    overlaps = pool_of(config, seed).overlaps
    epsilons = epsilon_of(config) / np.array([1.0, 2.0, 4.0, 8.0])
    times = np.array(stochastic.times_to_losses(task, width, overlaps, epsilons))
    bounds = np.array([stochastic.convergence_time(task, float(epsilon), 0.0) for epsilon in epsilons])
    yield slope("time against epsilon", epsilons, times, -1.0, within=0.15, against="epsilon", bound=bounds)
    yield the_bound_as_printed()
    yield slope("bound / time against epsilon", epsilons, bounds / times, 0.0, within=0.15)
    # the first stage ends at C = log T/(1-gamma), where e^{(1+gamma) C} is as large as Lemma E.15 lets it be
    lengths = np.array([10**3, 10**4, 10**5, 10**6])
    for delta in (0.0, 0.02, 0.09):
        gamma = encodings.overlap_bound_printed(delta)
        first = [stochastic.convergence_time(Task(int(T), 2, 1), 1e30, delta) for T in lengths]
        exponent = 2 * (1 + gamma) / (1 - gamma)
        yield slope(f"first stage against T at delta={delta:g}", lengths, first, exponent, within=1e-6)


@dataclass(frozen=True)
class GrowingLengths(Config):
    """Theorem 3.3 along a sweep of lengths, at one accuracy."""

    task: Task = option(Task(32, 2, 512), "sizes of the task; its length is the shortest")
    multiples: tuple[int, ...] = option((1, 2, 4), "lengths over the shortest", low=1, high=64)
    encoding_width: int = option(2**14, "encoding dimension d_e", low=1, high=2**15)
    threshold: float = option(0.035, "largest |<e_i, e_j>| of an admissible set of encodings", above=0.0, high=1.0)
    accuracy: float = option(0.5, "epsilon over the largest that the theorem allows at every length", low=1e-9)

    def check(self) -> None:
        room(self.task)
        fits(self.task, self.encoding_width)


@LEDGER.rate(
    "thm3.3-length",
    statement=("Theorem 3.3", "Theorem E.6"),
    says=r"with stochastic encodings the time to loss $\varepsilon$ is at most of order $T^2$; at a fixed"
    r" $d_e$ it hardly grows",
    of=(stochastic.convergence_time,),
    hypotheses=theorem_3_3,
    cases=GrowingLengths(),
    seeds=3,
)
def the_time_grows_with_the_length(config: GrowingLengths, seed: int):
    task, width = config.task, config.encoding_width
    tasks = [Task(task.length * multiple, task.sparsity, task.width) for multiple in config.multiples]
    epsilon = config.accuracy * min(onehot.largest_epsilon(each) for each in tasks)
    times, bounds = [], []
    for each in tasks:
        pool = pool_of(Stochastic(each, width, config.threshold, encodings=1, subsets=8), seed)
        times.append(stochastic.time_to_loss(each, width, pool.overlaps, epsilon))
        bounds.append(stochastic.convergence_time(each, epsilon, 0.0))
    lengths = [each.length for each in tasks]
    yield slope("time against T", lengths, times, 2.0, side="at most", against="T", bound=bounds)
    yield at_most("time", times, bounds)
    yield the_bound_as_printed()
    yield slope("bound against T", lengths, bounds, 2.0, within=0.01)


def phase_one_fits(config: Stochastic) -> dict[str, bool]:
    """Theorem 3.3, and as many steps as Phase I takes."""
    eta = config.step * stochastic.largest_learning_rate(config.task, config.encoding_width)
    needed = onehot.phase_one_time(config.task, epsilon_of(config))
    return theorem_3_3(config) | {"as many steps as Phase I takes": config.steps * eta >= needed}


@LEDGER.bound(
    "ih2",
    statement="Theorem E.6, (IH2)",
    says=r"averaged: $C$ never falls; $\alpha$ rises to $1 - x/10$, then stays between it and (IH2)'s ceiling",
    of=(stochastic.share_stochastic,),
    hypotheses=phase_one_fits,
    cases=(WITHIN, CONDITIONED, SMALL),
    seeds=3,
)
def the_averaged_induction_hypothesis_holds_at_every_step(config: Stochastic, seed: int):
    task, width = config.task, config.encoding_width
    pool, epsilon = pool_of(config, seed), epsilon_of(config)
    eta = config.step * stochastic.largest_learning_rate(task, width)
    steps = descent(config, seed)
    late = stochastic.convergence_time(task, epsilon, 0.0)
    flow = stochastic.flow(task, width, pool.overlaps, np.geomspace(1.0, late, 300))
    share = stochastic.share_stochastic(task, width)
    orthonormal = stochastic.share_stochastic(task, task.length)
    yield equal("(IH2)'s share at d_e = T against (IH1)'s", orthonormal, onehot.share_one_hot(task))
    for name, path in (("steps", steps), ("flow", flow)):
        named = np.array([stochastic.attention(task, pool.overlaps, float(C)).named.mean() for C in path.C])
        yield from induction(task, path, named, share, epsilon, name)
    proof = stochastic.largest_learning_rate_of_proof(task, width)
    yield note(f"steps at eta={eta:.3g}; the largest of the statement is d_e times that of its proof ({proof:.3g})")


def increments(config: Stochastic, seed: int, gamma_of):
    """Along descent, the slope of C against (1 -+ gamma) times its value without overlaps."""
    task, width, pool = config.task, config.encoding_width, pool_of(config, seed)
    path, gamma, found = descent(config, seed), gamma_of(pool.delta), []
    none = np.zeros((1, task.length - task.sparsity))  # without overlaps both bounds are known
    slopes = stochastic.output_averaged_slopes(task, width, none, 0.9, 1.5)[1]
    bounds = stochastic.attention_slope_bounds(task, width, none, 0.9, 1.5, gamma)
    # one-hot encodings have T-1 where others have d_e
    alone = stochastic.output_averaged_slopes(task, task.length - 1, none, 0.9, 1.5)
    yield equal("slopes without overlaps, at d_e = T-1", alone, onehot.slopes(task, 0.9, 1.5))
    yield equal("bounds without overlaps", bounds, [(1 - gamma) * slopes, (1 + gamma) * slopes])
    for alpha, C in list(zip(path.alpha, path.C, strict=True))[1 :: max(1, config.steps // 100)]:
        sizes = task, width, pool.overlaps, float(alpha), float(C)
        found.append((*stochastic.attention_slope_bounds(*sizes, gamma), stochastic.output_averaged_slopes(*sizes)[1]))
    low, high, slopes = np.array(found).T
    yield at_least("increment of C over eta", slopes, low)
    yield at_most("increment of C over eta", slopes, high)
    yield row({"gamma of the bound": gamma, "gamma that was drawn": pool.gamma, "delta at most": pool.delta})


@LEDGER.bound(
    "lemE7-increments",
    statement="Lemma E.7, corrected",
    says=r"the increment of $C$ is within $1 \mp \gamma$ of its value without overlaps, $\gamma = "
    r"\sqrt{q}\delta/(1-\delta)$",
    of=(stochastic.attention_slope_bounds, encodings.overlap_bound),
    hypotheses=theorem_3_3,
    cases=(WITHIN, CONDITIONED),
    seeds=3,
)
def the_increments_are_within_the_corrected_factors(config: Stochastic, seed: int):
    q = config.task.sparsity
    yield equal("gamma at delta = 1/4, over sqrt(q)", encodings.overlap_bound(0.25, q) / np.sqrt(q), 1 / 3)
    yield from increments(config, seed, lambda delta: encodings.overlap_bound(delta, config.task.sparsity))


@LEDGER.bound(
    "lemE7-increments-printed",
    argument=r"its proof uses the overlap $\delta/(1-2\delta)$ of Lemma A.3, which is false as printed",
    statement="Lemma E.7",
    says=r"as printed, $\gamma = \delta/(1-2\delta)$: true on drawn encodings, though its proof uses Lemma A.3, "
    r"which is false",
    of=(stochastic.attention_slope_bounds, encodings.overlap_bound_printed),
    hypotheses=theorem_3_3,
    cases=(WITHIN, CONDITIONED),
    seeds=3,
)
def the_increments_are_within_the_printed_factors(config: Stochastic, seed: int):
    yield equal(
        "gamma at delta = 1/4, and at 1/8", [encodings.overlap_bound_printed(d) for d in (1 / 4, 1 / 8)], [1 / 2, 1 / 6]
    )
    yield from increments(config, seed, encodings.overlap_bound_printed)


@LEDGER.bound(
    "corE8",
    argument="its proof uses Lemma A.3, which is false as printed; the threshold is met on drawn encodings",
    statement="Corollary E.8",
    says=r"by the theorem's time $C \ge \frac{1-2\delta}{1-3\delta}\log(((T-q)/q)/x)$ and $\alpha \in [1 - x/10, 1 "
    r"+ 8x/5]$",
    of=(stochastic.attention_threshold_printed, stochastic.attention_threshold, stochastic.alpha_interval),
    hypotheses=theorem_3_3,
    cases=(WITHIN, replace(WITHIN, accuracy=0.05), CONDITIONED),
    seeds=3,
)
def the_trained_scalars_are_where_the_corollary_says(config: Stochastic, seed: int):
    task = config.task
    pool, epsilon = pool_of(config, seed), epsilon_of(config)
    time = stochastic.convergence_time_with_logarithm(task, epsilon, 0.0)
    alpha, C = trained(config, seed, time)
    low, high = stochastic.alpha_interval(task, epsilon)
    gamma = encodings.overlap_bound(pool.delta, task.sparsity)
    printed = stochastic.attention_threshold_printed(task, epsilon, pool.delta)
    threshold = stochastic.attention_threshold(task, epsilon, gamma)
    yield at_least("C", C, printed)
    yield at_least("C, with the corrected gamma", C, threshold)
    # at the thresholds, and overlaps that are all as large as they may be, the odds of the leak are x
    overlaps = encodings.overlap_bound_printed(pool.delta), gamma
    worst = [np.full((1, task.length - task.sparsity), each) for each in overlaps]
    leaks = [stochastic.attention(task, g, at).leak[0] for g, at in zip(worst, (printed, threshold), strict=True)]
    x = onehot.slack(task, epsilon)
    yield equal("odds of the leak at the thresholds", [u / (1 - u) for u in leaks], [x, x], 1e-9)
    yield equal("the interval of alpha, in units of x", [(1 - low) / x, (high - 1) / x], [1 / 10, 8 / 5], 1e-9)
    yield at_most("alpha - 1", alpha - 1, high - 1)
    yield at_least("alpha", alpha, low)
    yield row({"eta t": time, "alpha": alpha, "C": C, "gamma": pool.gamma, "delta at most": pool.delta})


@LEDGER.bound(
    "corE8-interval",
    statement="Corollary E.8, proof",
    says=r"the corollary's $C$ gives $q s \ge 1-x$ at overlap $\gamma$, and there (IH2)'s ceiling is at most $1 + "
    r"8x/5$",
    of=(stochastic.attention_threshold, stochastic.ih2_ceiling),
    hypotheses=theorem_3_1,
    cases=(PAPER, Stochastic(Task(20, 2, 5), encoding_width=64, threshold=0.6), WITHIN),
)
def the_interval_follows_from_the_threshold(config: Stochastic, seed: int):
    task, width = config.task, config.encoding_width
    gamma = encodings.overlap_bound_printed(0.1)
    ceilings, leaks, slacks = [], [], []
    for share in np.geomspace(1e-4, 1, 25):
        epsilon = float(share * epsilon_of(config))
        x = onehot.slack(task, epsilon)
        s = (1 - x * np.linspace(0, 1, 101)) / task.sparsity
        ceilings.append(float(np.max(stochastic.ih2_ceiling(task, width, s))) - 1)
        # all others at overlap gamma: the softmax itself, not its bound
        overlaps = np.full((1, task.length - task.sparsity), gamma)
        C = stochastic.attention_threshold(task, epsilon, gamma)
        leaks.append(float(stochastic.attention(task, overlaps, C).leak[0]))
        slacks.append(x)
    yield at_most("ceiling - 1", ceilings, 1.6 * np.array(slacks))
    yield at_most("1 - q s at the threshold", leaks, slacks)
    odds = np.array(leaks) / (1 - np.array(leaks))
    yield equal("its odds over x: no smaller C does", odds / np.array(slacks), np.ones(len(slacks)), 1e-9)


def fresh_overlaps(config: Stochastic, seed: int) -> np.ndarray:
    """The overlaps of 50 subsets with each of six sets of encodings that training has not seen."""
    return _fresh(replace(config, accuracy=0.5, step=1.0, steps=1), seed)


@lru_cache(maxsize=24)
def _fresh(config: Stochastic, seed: int) -> np.ndarray:
    task, law = config.task, law_of(config, seed, 6, "fresh encodings")
    return encodings.overlaps(law, encodings.draw_subsets(seed, 50, task.length, task.sparsity, "fresh subsets"))


@LEDGER.bound(
    "corE16",
    argument="its proof uses Lemma E.15, which is false as printed",
    statement="Corollary E.16",
    says=r"weights trained to the theorem's time have loss $\le \varepsilon$ with any one fixed $E$ that has RIP",
    of=(stochastic.convergence_time_with_logarithm, stochastic.loss_averaged_loss),
    hypotheses=theorem_3_3,
    cases=(WITHIN, replace(WITHIN, accuracy=0.05), CONDITIONED),
    seeds=3,
)
def trained_weights_work_with_any_fixed_encodings(config: Stochastic, seed: int):
    task, width = config.task, config.encoding_width
    epsilon = epsilon_of(config)
    time = stochastic.convergence_time_with_logarithm(task, epsilon, 0.0)
    alpha, C = trained(config, seed, time)
    fresh = fresh_overlaps(config, seed)
    losses = [stochastic.loss_averaged_loss(task, overlaps, alpha, C) for overlaps in fresh]
    yield at_most("loss with one fixed E", losses, epsilon)
    worst = encodings.counterexample(task.length, task.sparsity, width)
    named = encodings.overlaps(worst.encodings[None], worst.subset[None])[0]
    found = stochastic.loss_averaged_loss(task, named, alpha, C)
    yield at_most("loss at the worst known E and y", found, epsilon)
    # the step of the proof that is not about time: every overlap as large as (q, delta)-RIP allows
    delta = config.isometry or encodings.rip_certificate(config.threshold, task.sparsity)
    for name, losses_, share in (("one fixed E", losses, delta), ("the worst known E and y", [found], worst.delta)):
        every = np.full((1, task.length - task.sparsity), encodings.overlap_bound(share, task.sparsity))
        most = stochastic.loss_averaged_loss(task, every, alpha, C)
        yield at_most(f"loss with {name}, over that at the largest overlaps", np.divide(losses_, most), 1.0)
    yield row({"alpha": alpha, "C": C, "delta of the worst known E": worst.delta})
