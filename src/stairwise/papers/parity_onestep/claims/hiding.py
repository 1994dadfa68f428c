"""Theorems 1 and 2: an oracle that hides the parity, and what any predictor found through it must cost."""

import dataclasses
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from stairwise.config import Config, option, require
from stairwise.lab.contract.checks import (
    TOLERANCE,
    at_least,
    at_most,
    equal,
    hypothesis,
    monomial,
    note,
    row,
    skip_if,
    slope,
    true,
    vacuous_if,
)
from stairwise.papers.parity_onestep import oracles
from stairwise.papers.parity_onestep.claims.ledger import LEDGER
from stairwise.papers.parity_onestep.claims.sizes import bits_of, class_fits, of_order_d
from stairwise.papers.parity_onestep.config import Task
from stairwise.papers.parity_onestep.theory import bounds, hiding, mean_parity, spectrum
from stairwise.tasks import parity
from stairwise.train.draws import draws_of

RUNS = 2  # parities of Q (and outside) that are run against the oracle step by step


@dataclass(frozen=True)
class HiddenDescent(Config):
    """Gradient descent of a tanh net that asks an epsilon-approximate oracle."""

    task: Task = option(Task(12, 6), "the class of parities (a named secret does not matter)")
    width: int = option(8, "hidden width of the net", low=1, high=256)
    learning_rate: float = option(0.3, "learning rate", above=0.0, high=100.0)
    queries: int = option(60, "queries T", low=1, high=10_000)
    samples: int = option(0, "samples n; 0 = the whole cube", low=0, high=2**22)
    accuracy: float = option(
        0.0, "epsilon in units of the largest sqrt(Var) on the way; 0 = epsilon of the proof, Var^(1/3)", low=0.0
    )

    def check(self) -> None:
        class_fits(self.task)
        task = self.task
        require(task.size < task.bits, f"task.size={task.size} must be below task.bits={task.bits} (a single parity)")
        numbers = self.queries * math.comb(self.task.bits, self.task.size)
        require(numbers <= 2**26, f"queries={self.queries} times the parities={numbers} must be at most {2**26}")


SMALL = HiddenDescent(Task(10, 5), queries=30)
CASES = (
    SMALL,
    dataclasses.replace(SMALL, accuracy=2.0),
    dataclasses.replace(SMALL, samples=2000),
    dataclasses.replace(SMALL, samples=2000, accuracy=1.0),
)
OF_ORDER_D = {"k and d-k of order d": lambda config: of_order_d(config.task)}
FOUR_SIZES = {"d >= 12: four sizes from 6 on": lambda config: config.task.bits >= 12}
POPULATION = {"the population loss (samples = 0)": lambda config: config.samples == 0}


class FoundRun(NamedTuple):
    """The p-free run, its epsilon, the set Q, and the predictor at its end on the whole cube."""

    cls: Any
    run: Any
    epsilon: float
    hidden: np.ndarray
    predictor: np.ndarray

    @property
    def share(self) -> float:
        """Pr(Q)."""
        return float(np.mean(self.hidden))

    def best(self) -> np.ndarray:
        """The predictor that is best for Q: its mean."""
        return hiding.values(self.cls, self.cls.codes[self.hidden]).mean(axis=0)


def hidden_run(config: HiddenDescent, seed: int, epsilon: float = 0.0) -> FoundRun:
    """The run, and what an oracle of the config's accuracy (or of error epsilon) hides on it."""
    cls, run, predictor = _run(dataclasses.replace(config, accuracy=0.0), seed)
    largest = float(run.variances.max())
    if not epsilon:
        epsilon = config.accuracy * math.sqrt(largest) if config.accuracy else largest ** (1 / 3)
    return FoundRun(cls, run, epsilon, run.hidden_from(epsilon), predictor)


@lru_cache(maxsize=24)
def _run(config: HiddenDescent, seed: int):
    """Shared by the claims below, which look at different sides of one run."""
    task = config.task
    x = parity.cube(task.bits).astype(np.float64)
    density = (
        spectrum.histogram(bits_of(task, config.samples, seed))
        if config.samples
        else spectrum.uniform_density(task.bits)
    )
    cls = hiding.parity_class(x, task.size, density)
    net = hiding.TanhNet(task.bits, config.width)
    run = hiding.hidden_run(cls, net, net.start(seed), config.learning_rate, config.queries)
    return cls, run, net.outputs(run.thetas[-1], x)


def losses_of(found: FoundRun, f: np.ndarray) -> np.ndarray:
    """E_x(p-f)^2 over the whole cube, for every p."""
    return 1 - 2 * hiding.correlations(found.cls, f) + np.mean(f**2)


# --- the oracle -------------------------------------------------------------------------------------------------------


@LEDGER.bound(
    "thm2-oracle",
    statement=("Theorem 2, oracle", "Appendix A"),
    says=r"answering the mean gradient where it is within $\varepsilon$ of the truth hides $p$:"
    r" $\Pr(Q) \ge 1 - T\,\mathrm{Var}/\varepsilon^2$, and all $p \in Q$ see one run, bit for bit",
    of=(oracles.hiding, bounds.revealed_chance),
    cases=CASES,
    seeds=3,
)
def the_oracle_hides_the_parity(config: HiddenDescent, seed: int):
    found = hidden_run(config, seed)
    inside, outside = (np.flatnonzero(which)[:RUNS].tolist() for which in (found.hidden, ~found.hidden))
    for index in inside + outside:
        own = run_of(config, found, index)
        yield at_most("error of its answers over epsilon", own.largest_error / found.epsilon, 1 + TOLERANCE)
        alike = np.array_equal(own.thetas, found.run.thetas)
        yield true("its run is the p-free one exactly where p is in Q", alike == bool(found.hidden[index]))
    variances = found.run.variances
    revealed = [bounds.revealed_chance(1, variance, found.epsilon) for variance in variances.tolist()]
    yield at_most("1 - Pr(Q)", 1 - found.share, min(1.0, sum(revealed)))
    whole = bounds.revealed_chance(config.queries, float(variances.max()), found.epsilon)
    yield at_least("T Var/eps^2 at the largest Var, against the sum over queries", whole, sum(revealed))
    for query in (0, config.queries - 1):  # Chebyshev at one query; attained where all of Var lies at one deviation
        deviations = found.run.deviations[query]
        for epsilon in np.quantile(deviations, (0.5, 0.9, 1.0)).tolist():
            share = float(np.mean(deviations >= epsilon))
            yield at_most(f"share beyond {epsilon:.3g}", share, bounds.revealed_chance(1, variances[query], epsilon))
    yield equal("Chebyshev where every p deviates alike", 1.0, bounds.revealed_chance(1, 0.25, 0.5))


class OwnRun(NamedTuple):
    """One parity's run against the corrected oracle, and the largest error of an answer."""

    thetas: np.ndarray
    largest_error: float


def run_of(config: HiddenDescent, found: FoundRun, index: int) -> OwnRun:
    errors = []

    def ask(gradient, mean):
        answer = np.asarray(oracles.hiding(jnp.asarray(gradient), jnp.asarray(mean), found.epsilon)[0])
        errors.append(float(np.linalg.norm(answer - gradient)))
        return answer

    target = hiding.values(found.cls, found.cls.codes[index : index + 1])[0]
    net = hiding.TanhNet(config.task.bits, config.width)
    start = found.run.thetas[0]
    thetas = hiding.run_with(found.cls, net, start, config.learning_rate, config.queries, target, ask)
    return OwnRun(thetas, max(errors))


@LEDGER.misprint(
    "thm2-oracle-printed",
    statement=("Theorem 2, oracle", "Appendix A"),
    says=r"as printed, the oracle answers the mean where it is farther than $\varepsilon$ from the truth, is"
    r" $\varepsilon$-approximate and hides $p$",
    means=r"the two cases are swapped: the mean is answered where it is within $\varepsilon$",
    of=(oracles.hiding_as_printed,),
    corrected="thm2-oracle",
    cases=(dataclasses.replace(SMALL, accuracy=2.0), SMALL),
    seeds=3,
)
def the_printed_oracle_does_neither(config: HiddenDescent, seed: int):
    found = hidden_run(config, seed)
    cls, net = found.cls, hiding.TanhNet(config.task.bits, config.width)
    f, J = net.outputs_and_jacobian(found.run.thetas[0], cls.x)
    mean = hiding.gradient(cls, f, J, cls.mean)
    errors, answered = [], []
    for target in hiding.values(cls, cls.codes[:: max(1, len(cls.codes) // 64)]):
        truth = hiding.gradient(cls, f, J, target)
        answer = np.asarray(oracles.hiding_as_printed(jnp.asarray(truth), jnp.asarray(mean), found.epsilon))
        errors.append(float(np.linalg.norm(answer - truth)))
        answered.append(np.array_equal(answer, mean))
    yield at_most("largest error of its answers over epsilon", max(errors) / found.epsilon, 1.0)
    yield at_least("share of parities that it hides at the first query", np.mean(answered), 0.5)


# --- what hidden parities cost ----------------------------------------------------------------------------------------


@LEDGER.bound(
    "thm2-L2",
    statement=("Theorem 2, squared loss", "Appendix A"),
    says=r"a predictor that is one and the same for all $p \in Q$ has squared loss at least"
    r" $2 - 1/\Pr(Q) - 2\mathbb{E}_x|\mathbb{E}_p p(x)|$ over $P$; the best one has $\Pr(Q) - 1/|P|$ on $Q$",
    of=(bounds.hidden_squared, bounds.hidden_loss_exact),
    hypotheses=OF_ORDER_D,
    cases=CASES,
    seeds=3,
)
def hidden_parities_cost_a_squared_loss(config: HiddenDescent, seed: int):
    found, parities = hidden_run(config, seed), len(hidden_run(config, seed).hidden)
    magnitude = float(mean_parity.mean_magnitude(config.task.bits, config.task.size))
    bound = bounds.hidden_squared(found.share, magnitude)
    yield equal("the bound where all are hidden", bounds.hidden_squared(1.0, magnitude), 1 - 2 * magnitude)
    yield equal("the bound where half are hidden, and the mean is 0", bounds.hidden_squared(0.5, 0.0), 0.0)
    yield vacuous_if(bound <= 0, "the bound is not positive")
    if not found.share:
        return
    exact = bounds.hidden_loss_exact(found.share, parities)
    for name, f in (
        ("the run", found.predictor),
        ("the best predictor", found.best()),
        ("0", np.zeros(len(found.cls.x))),
    ):
        restricted = float(np.sum(losses_of(found, f)[found.hidden]) / parities)
        yield at_least(f"loss restricted to Q, {name}", restricted, bound)
        yield at_least(f"loss restricted to Q, {name}, against the least possible", restricted, exact, rounding=1e-12)
    best = np.mean((hiding.values(found.cls, found.cls.codes[found.hidden]) - found.best()) ** 2)
    yield equal("loss of the best predictor, on the cube", best * found.share, exact)


@LEDGER.exact(
    "thm2-optimal",
    statement=("Theorem 2, optimality", "Section 3.1"),
    says=r"the bounds are asymptotically optimal: $f = 0$ has loss 1, and no $f$ has less than $1 - 1/|P|$ over $P$",
    of=(bounds.hidden_loss_exact,),
    cases=(HiddenDescent(Task(8, 4), queries=1), HiddenDescent(Task(10, 3), queries=1), HiddenDescent(queries=1)),
    seeds=3,
)
def no_predictor_is_better_than_zero(config: HiddenDescent, seed: int):
    cls = _run(dataclasses.replace(config, accuracy=0.0), seed)[0]
    targets = hiding.values(cls, cls.codes)
    yield equal("loss of f = 0", np.mean(targets**2), 1.0)
    least = np.mean((targets - targets.mean(axis=0)) ** 2)  # at every x the mean of the targets is best
    yield equal("least loss of any f", least, bounds.hidden_loss_exact(1.0, len(targets)))


@LEDGER.bound(
    "thm2-sup",
    statement=("Theorem 2, sup norm", "Appendix A"),
    says=r"the largest error of a predictor that is the same for all $p \in Q$ is at least $\Pr(Q)$ on average"
    r" over $P$;"
    r" $f = 0$ attains it",
    of=(bounds.hidden_sup,),
    cases=CASES,
    seeds=3,
)
def hidden_parities_cost_a_large_error(config: HiddenDescent, seed: int):
    found = hidden_run(config, seed)
    bound = bounds.hidden_sup(max(found.share, 1e-300))
    yield hypothesis("Q must hold two parities for the pairing", np.sum(found.hidden) != 1)
    for name, f in (("the run", found.predictor), ("f = 0", np.zeros(len(found.cls.x)))):
        errors = hiding.sup_errors(found.cls, f)
        restricted = float(np.sum(errors[found.hidden]) / len(errors))
        yield at_least(f"largest error restricted to Q, {name}", restricted, bound, rounding=1e-12)
    yield equal("largest error restricted to Q, f = 0", restricted, bound, scale=1e-12)


@LEDGER.bound(
    "eq5",
    statement="Equation 5",
    says=r"after $T$ queries the loss is at least $1 - \frac{4T}{\varepsilon^2}\max(1/|P|,"
    r" \sqrt{4d/n})\sup\|\nabla f\|^2"
    r" - 2\mathbb{E}_x|\mathbb{E}_p p|$, where what is subtracted first is at most 1",
    of=(bounds.loss_after,),
    hypotheses=OF_ORDER_D,
    cases=(SMALL, dataclasses.replace(SMALL, queries=5, samples=2000)),
    seeds=3,
)
def the_loss_is_that_of_equation_5(config: HiddenDescent, seed: int):
    cls, run, _ = _run(config, seed)
    parities, largest = len(cls.codes), float(run.bounds[:, 1].max())
    # the population is what n -> infinity samples give
    n = config.samples or 10**18
    variance = bounds.gradient_variance(config.task.bits, n, parities, largest)
    magnitude = float(mean_parity.mean_magnitude(config.task.bits, config.task.size))
    for revealed in (0.05, 0.25, 0.5):  # T Var/eps^2, at most 1/2 where the last step of the proof is valid
        found = hidden_run(config, seed, math.sqrt(config.queries * variance / revealed))
        bound = bounds.loss_after(float(config.queries), variance, found.epsilon, magnitude)
        least = float(np.sum(losses_of(found, found.best())[found.hidden]) / parities)
        yield at_least(f"least loss at T Var/eps^2 = {revealed:g}", least, bound)
        yield equal(f"the bound at T Var/eps^2 = {revealed:g}", bound, 1 - 2 * revealed - 2 * magnitude)
        # the proof's last step, at the Pr(Q) that Chebyshev's inequality guarantees
        before = bounds.hidden_squared(1 - revealed, magnitude)
        yield at_most(f"the bound against 2 - 1/Pr(Q) at {revealed:g}", bound, before, rounding=1e-12)


@LEDGER.rate(
    "thm2-1",
    statement=("Theorem 2(1)", "Theorem 2, part 1"),
    says=r"with $n = e^{\Omega(d)}$ an $e^{-\Omega(d)}$-approximate oracle hides all but $e^{-\Omega(d)}$ of"
    r" the parities,"
    r" and the loss is $1 - e^{-\Omega(d)}$",
    of=(bounds.hidden_loss_exact, bounds.orthogonal_variance, bounds.revealed_chance),
    hypotheses=POPULATION | OF_ORDER_D | FOUR_SIZES,
    cases=(HiddenDescent(Task(12, 6), queries=3), HiddenDescent(Task(12, 2), width=1, learning_rate=0.01, queries=1)),
    seeds=3,
)
def the_loss_approaches_one_exponentially(config: HiddenDescent, seed: int):
    sizes, errors, revealed, lacking = list(range(6, config.task.bits + 1, 2)), [], [], []
    yield skip_if(len(sizes) < 3, "a rate needs three sizes")
    runs = [dataclasses.replace(config, task=Task(d, d // 2)) for d in sizes]
    largest = max(float(_run(smaller, seed)[1].bounds[:, 0].max()) for smaller in runs)  # one bound on all gradients
    for d, smaller in zip(sizes, runs, strict=True):
        parities = math.comb(d, d // 2)
        variance = bounds.orthogonal_variance(largest, parities)
        found = hidden_run(smaller, seed, variance ** (1 / 3))
        errors.append(found.epsilon)
        revealed.append(bounds.revealed_chance(config.queries, variance, found.epsilon))
        least = float(np.sum(losses_of(found, found.best())[found.hidden]) / parities)
        lacking.append(1 - least)
        yield equal(f"loss of the best predictor at d = {d}", least, bounds.hidden_loss_exact(found.share, parities))
        yield at_most(f"1 - Pr(Q) at d = {d}", 1 - found.share, revealed[-1])
    # |P| grows like 2^d: the variance falls like 2^-d, eps = Var^(1/3) and what is revealed like 2^(-d/3)
    yield slope("rate of eps in d", sizes, errors, -math.log(2) / 3, law="exponential", within=0.1)
    yield monomial("what is revealed", bounds.revealed_chance, 1.0, queries=1, variance=1, epsilon=-2)
    yield monomial("the variance", bounds.orthogonal_variance, 1.0, squared_norm=1, functions=-1)
    yield slope("rate of T Var/eps^2", sizes, revealed, -math.log(2) / 3, law="exponential", within=0.1, against="d")
    yield slope("rate of 1 - loss", sizes, lacking, -math.log(2), law="exponential", within=0.1, against="d")


@LEDGER.bound(
    "thm1",
    aliases=("thm1-printed",),
    statement=("Theorem 1", "Wies et al., Theorem 4"),
    says=r"through an oracle of error $e^{-d/3}$ any $\hat p \in P$ (the authors' qualification) errs with chance"
    r" $\frac{1}{2}$ for all $p$ but $\hat p$ and a share of $\sum_t\mathrm{Var}_t/\varepsilon^2$ (Chebyshev); the"
    r" share is printed as $O(e^{-d/3})$, with a constant that one size cannot judge",
    of=(oracles.hiding, hiding.correlations),
    hypotheses=POPULATION | OF_ORDER_D,
    cases=HiddenDescent(queries=20),
    seeds=3,
)
def hidden_parities_are_answered_by_chance(config: HiddenDescent, seed: int):
    epsilon = math.exp(-config.task.bits / 3)
    found = hidden_run(config, seed, epsilon)
    parities = len(found.hidden)
    answer = int(np.argmax(hiding.correlations(found.cls, found.predictor)))  # the parity that the net is most like
    estimate = hiding.values(found.cls, found.cls.codes[answer : answer + 1])[0]
    errors = (1 - hiding.values(found.cls, found.cls.codes) @ estimate / len(estimate)) / 2
    others = np.arange(parities) != answer
    yield equal("error of the estimate for every other p", errors[others], np.full(parities - 1, 0.5))
    yield equal("error where it is p", errors[answer], 0.0)
    by_transform = (1 - hiding.correlations(found.cls, estimate)) / 2
    yield equal("the same by the transform", by_transform, errors)
    for index in np.flatnonzero(found.hidden)[:RUNS].tolist():
        own = run_of(config, found, index)
        yield true(
            "hidden parities see the same run, and so get the same estimate",
            np.array_equal(own.thetas, found.run.thetas),
        )
        yield at_most("error of the oracle's answers over e^(-d/3)", own.largest_error / epsilon, 1.0)
    failed = float(np.mean(~found.hidden | (errors < 0.5 - 1e-9)))
    told_apart = float(np.sum(found.run.variances)) / epsilon**2
    yield vacuous_if(told_apart >= 1, "the queries may tell all parities apart")
    yield at_most("share of P that may be answered better than by chance", failed, told_apart + 1 / parities)
    yield row({"Pr(Q)": found.share, "|P|": parities, "1/2 - e^-d": 0.5 - math.exp(-config.task.bits)})


@dataclass(frozen=True)
class Combined(Config):
    """A predictor made of some parities of the class."""

    task: Task = option(Task(10, 5), "the class of parities (a named secret does not matter)")
    parities: int = option(5, "parities that the predictor is made of, an odd number", low=1, high=99)

    def check(self) -> None:
        class_fits(self.task)
        require(self.parities % 2 == 1, f"parities={self.parities} must be odd")
        total = math.comb(self.task.bits, self.task.size)
        require(self.parities <= total, f"parities={self.parities} must be at most {total}, all that there are")


@LEDGER.bound(
    "rem-whp",
    statement=("Theorem 2, with high probability", "Section 3.1"),
    says=r"most of $P$ instead of the mean: at most $1/(|P|g)$ of it has loss below $1-g$ (attained), and at"
    r" most $1/(|P|s^2)$"
    r" correlates by more than $s$ with one predictor",
    of=(bounds.cheap_share, bounds.unlucky_share),
    cases=(Combined(), Combined(parities=1), Combined(Task(12, 6), 9), Combined(Task(8, 4), 3)),
    seeds=3,
)
def few_parities_are_cheap(config: Combined, seed: int):
    d, k, several = config.task.bits, config.task.size, config.parities
    cls = hiding.parity_class(parity.cube(d).astype(np.float64), k, spectrum.uniform_density(d))
    total = len(cls.codes)
    chosen = draws_of(seed, "parities").permutation(total)[:several]
    targets = hiding.values(cls, cls.codes)
    f = targets[chosen].mean(axis=0)
    losses = np.mean((targets - f) ** 2, axis=1)
    gain = (1 - 1e-9) / several
    cheap = float(np.mean(losses < 1 - gain))
    yield at_most("share of P with loss below 1 - gain", cheap, bounds.cheap_share(total, gain))
    yield equal("the same, where it is attained", cheap, bounds.cheap_share(total, 1 / several), 1e-6)
    votes = chosen[: min(several, 3)]  # a majority of three correlates by 1/2 with each
    signs = np.sign(targets[votes].sum(axis=0))
    level = (1 - 1e-9) / (1 if len(votes) == 1 else 2)
    unlucky, bound = float(np.mean(targets @ signs / len(signs) > level)), bounds.unlucky_share(total, level)
    yield at_most("share of P that a majority correlates with", unlucky, bound)
    yield at_least("the same against 3/4 of the bound", unlucky, 0.7499 * bound)
    yield vacuous_if(total * gain <= 1, "the share may be all of P")
    yield note("with the share 1 - Pr(Q) that the oracle does not hide, this is Theorem 2 for most p")
