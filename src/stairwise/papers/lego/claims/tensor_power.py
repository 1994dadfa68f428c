"""The tensor power method (Lemmas B.12, B.13, Corollary B.1): hitting times, the frozen loser, noise in the power."""

import math
from dataclasses import dataclass

import numpy as np

from stairwise.config import Config, option, require
from stairwise.lab.contract.checks import at_least, at_most, equal, row, true, vacuous_if
from stairwise.papers.lego.claims.ledger import LEDGER
from stairwise.papers.lego.theory import tensor_power


def few_steps(config: "Race | NoisyRace", q: int, most: float) -> None:
    """About x_0^{2-q} / ((q-2) eta) steps, in logarithms: the power may overflow."""
    steps = (2 - q) * math.log10(config.start) - math.log10((q - 2) * config.learning_rate)
    shown = f"{10**steps:.2g}" if steps < 300 else f"10^{steps:.0f}"
    given = f"start={config.start:g}, learning_rate={config.learning_rate:g}"
    message = f"{given} need about {shown} steps, which must be at most {most:g}"
    require(steps <= math.log10(most), message)


@dataclass(frozen=True)
class Race(Config):
    """x <- x + eta x^{q-1} from x_0 to A, and a second sequence behind it."""

    power: int = option(4, "q", low=3, high=20)
    learning_rate: float = option(1e-3, "eta", above=0.0, high=1.0, stored_as="rate")
    start: float = option(0.05, "x_0", above=0.0)
    goal: float = option(1.0, "A", above=0.0, high=1e6)
    leads: tuple[float, ...] = option((1.05, 1.2, 2.0), "x_0 / y_0", above=0.0, high=1e6)
    speed: float = option(1.0, "S: how much faster y is updated", above=0.0, high=100.0)

    def check(self) -> None:
        require(self.start < self.goal, f"start={self.start:g} must be below goal={self.goal:g}")
        few_steps(self, self.power, 2e6)


@LEDGER.bound(
    "lemB13",
    statement="Lemma B.13",
    says=r"$x_{t+1} = x_t + \eta x_t^{q-1}$ reaches $A$ at $\eta t = (x_0^{2-q} - A^{2-q})/(q-2)$ up to $O(\eta)$,"
    r" between the lemma's two sums over intervals $[x, (1+\delta)x]$, which meet as $\delta \to 0$ and $A \to \infty$",
    of=(tensor_power.recursion, tensor_power.hitting_time, tensor_power.hitting_bounds, tensor_power.lateness),
    cases=(Race(), Race(power=6, start=0.3), Race(power=3)),
    search={"start": (0.04, 0.9, "log")},
)
def hitting_time(config: Race, seed: int):
    x0, A, q, eta = config.start, config.goal, config.power, config.learning_rate
    walk = tensor_power.recursion(x0, A, eta, q)
    elapsed = eta * (len(walk) - 1)
    limit = tensor_power.hitting_time(x0, A, q)
    nodes, weights = np.polynomial.legendre.leggauss(60)
    for goal in (A, 3 * A):
        grid, half = (math.log(goal * x0) + math.log(goal / x0) * nodes) / 2, math.log(goal / x0) / 2
        flow = half * weights @ np.exp(grid * (2 - q))
        name = f"the flow's time to {goal:g}, by quadrature of dx/x^{{q-1}}"
        yield equal(name, flow, tensor_power.hitting_time(x0, goal, q), 1e-9)
    late = tensor_power.lateness(eta, (q - 1) * math.log(walk[-1] / walk[0]))
    yield vacuous_if(late >= limit, "the steps are as long as the whole time")
    yield at_least("eta t, never earlier than the flow", elapsed, limit)
    yield at_most("eta t, later than the flow by steps", elapsed, limit + late)
    step = np.diff(walk) / (eta * walk[:-1] ** (q - 1))
    yield equal("the recursion", step, 1.0, 1e-6)
    for delta in (0.01, 0.1, 0.5):
        low, high = tensor_power.hitting_bounds(x0, A, q, delta)
        yield at_least(f"eta t over the lower sum, delta={delta:g}", elapsed, low)
        yield at_most(f"eta t over the upper sum, delta={delta:g}", limit, high)
        yield row(delta=delta, lower=low, flow=limit, upper=high)
        # the sums, interval by interval: the fastest and the slowest that x can be on [x, (1 + delta) x]
        ends = x0 * (1 + delta) ** np.arange(7)
        fastest, slowest = np.diff(ends) / ends[1:] ** (q - 1), np.diff(ends) / ends[:-1] ** (q - 1)
        low, high = tensor_power.hitting_bounds(x0, ends[-1], q, delta)
        yield equal(f"the lower sum over all intervals but the last, delta={delta:g}", low, fastest[:-1].sum())
        every = slowest[0] / (1 - slowest[1] / slowest[0])
        yield at_least(f"the upper sum over infinitely many, delta={delta:g}", high, every, rounding=1e-9)
        if q == 3:  # (1 + delta)^{q-2} - 1 >= (q-2) delta is an equality
            yield equal(f"the upper sum over infinitely many, delta={delta:g}", high, every)
    one = tensor_power.recursion(x0, x0 * (1 + 1e-12), eta, q)
    late = tensor_power.lateness(eta, (q - 1) * math.log(one[-1] / one[0]))
    yield equal("the lateness of one step, over the step", late / eta, 1.0, 2 * (q - 1) * eta * x0 ** (q - 2))
    finest = tensor_power.hitting_bounds(x0, A, q, 1e-6)
    yield equal("the lower sum as delta -> 0", finest[0], limit, 1e-4, scale=x0 ** (2 - q) / (q - 2))
    yield equal("the upper sum as delta -> 0, A -> infinity", finest[1], tensor_power.hitting_time(x0, 1e9, q), 1e-4)


@LEDGER.exact(
    "corB1-tpm",
    statement="Corollary B.1",
    says=r"when $x$ reaches $A$, a $y$ behind it has grown by"
    r" $[1 - S (y_0/x_0)^{q-2} (1 - (x_0/A)^{q-2})]^{-1/(q-2)}$ only, as $\eta \to 0$",
    of=(tensor_power.loser_growth, tensor_power.followed, tensor_power.recursion),
    hypotheses={
        "x_0 > y_0 S^{1/(q-2)}": lambda config: min(config.leads) > config.speed ** (1 / (config.power - 2)),
        "eta A^{q-2} <= 0.01": lambda config: config.learning_rate * config.goal ** (config.power - 2) <= 0.01,
    },
    cases=(Race(), Race(speed=1.1, leads=(1.2, 2.0)), Race(power=6, start=0.3, leads=(1.1, 1.5))),
)
def loser_freezes(config: Race, seed: int):
    walk = tensor_power.recursion(config.start, config.goal, config.learning_rate, config.power)
    steps = len(walk) - 1
    last = tensor_power.followed(config.start, steps, config.learning_rate, config.power)
    yield equal("x when it reaches its goal, followed for as many steps", walk[-1], last)
    for lead in config.leads:
        growth = tensor_power.loser_growth(lead, config.start, config.goal, config.power, config.speed)
        behind = config.start / lead
        found = tensor_power.followed(behind, steps, config.learning_rate, config.power, config.speed) / behind
        yield equal(f"growth of y, x0/y0={lead:g}", found, growth, 2 * config.learning_rate)
        more = steps // 50  # y has some time more than x
        sizes = config.start, config.goal, config.power, config.speed, more * config.learning_rate
        later = tensor_power.followed(behind, steps + more, config.learning_rate, config.power, config.speed) / behind
        late = tensor_power.loser_growth(lead, *sizes)
        yield equal(f"growth of y in 1.02 of the time, x0/y0={lead:g}", later, late, 4 * config.learning_rate)


@dataclass(frozen=True)
class NoisyRace(Config):
    """Lemma B.12: both sequences are pushed by E (xi + x)^p, xi ~ N(0, sigma^2)."""

    power: int = option(3, "p, odd", low=3, high=11)
    vocabulary: int = option(256, "d: the start must be at least sigma sqrt(log d)", low=3)
    noise: float = option(0.019, "sigma", low=0.0, high=1e6)
    start: float = option(0.06, "x_0", above=0.0)
    lead: float = option(1.3, "x_0 / y_0", above=1.0, high=1e6)
    goal: float = option(1.0, "A", above=0.0, high=1e6)
    learning_rate: float = option(1e-3, "eta", above=0.0, high=1.0, stored_as="rate")

    def check(self) -> None:
        require(self.power % 2 == 1, f"power={self.power} must be odd")
        require(self.start < self.goal, f"start={self.start:g} must be below goal={self.goal:g}")
        few_steps(self, self.power + 1, 3e5)


def wide_lead(config: NoisyRace) -> bool:
    """Corollary B.1's condition with S = K, with room for steps of eta."""
    ratio = config.noise / (config.start / config.lead)
    even = range(0, config.power + 1, 2)
    K = sum(math.comb(config.power, k) * ratio**k * math.prod(range(1, k, 2)) for k in even)
    return config.lead ** (config.power - 1) > 1.02 * K and config.learning_rate <= 0.01


@LEDGER.bound(
    "lemB12",
    statement="Lemma B.12",
    says=r"noise inside the power does not change who wins: $y$ grows by at most Corollary B.1 with $S = K$, where"
    r" $x^p \le E(\xi + x)^p \le K x^p$ (our constant for the lemma's polylog)",
    of=(tensor_power.noisy_power, tensor_power.noise_speed, tensor_power.loser_growth, tensor_power.noisy_race),
    hypotheses={
        "y_0 >= sigma sqrt(log d)": lambda config: (
            config.start / config.lead >= config.noise * math.sqrt(math.log(config.vocabulary))
        ),
        "x_0 > y_0 K^{1/(p-1)}, and eta is small": wide_lead,
    },
    cases=(NoisyRace(), NoisyRace(power=5, start=0.25, noise=0.07, lead=1.4)),
)
def noise_changes_no_winner(config: NoisyRace, seed: int):
    behind, p = config.start / config.lead, config.power
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)
    by_quadrature = weights @ (behind + config.noise * nodes) ** p / weights.sum()
    yield equal("E (xi + x)^p by quadrature", by_quadrature, tensor_power.noisy_power(behind, config.noise, p))
    x, y = tensor_power.noisy_race(config.start, behind, config.goal, config.learning_rate, config.noise, p)
    for name, walk in (("x", x), ("y", y)):
        push = weights @ (walk[:-1] + config.noise * nodes[:, None]) ** p / weights.sum()
        yield equal(f"steps of {name} / eta", np.diff(walk) / config.learning_rate, push, 1e-7)
    speed = tensor_power.noise_speed(behind, config.noise, p)
    levels = np.geomspace(behind, config.goal, 50)
    ratios = weights @ (levels + config.noise * nodes[:, None]) ** p / weights.sum() / levels**p
    yield at_most("E (xi + x)^p / x^p over K", ratios, speed, rounding=1e-12)
    grown = math.log(
        float((weights @ (x[-1] + config.noise * nodes) ** p) / (weights @ (x[0] + config.noise * nodes) ** p))
    )
    late = tensor_power.lateness(config.learning_rate, grown)
    allowed = tensor_power.loser_growth(config.lead, config.start, config.goal, p + 1, speed, late)
    yield true("the bound is finite", math.isfinite(allowed))
    # both flows by hand: x' = x^p takes this long to its goal, and y' = K y^p has the lateness on top
    time = (config.start ** (1 - p) - config.goal ** (1 - p)) / (p - 1) + late
    grows = (1 - speed * (p - 1) * behind ** (p - 1) * time) ** (-1 / (p - 1))
    yield equal("the bound, from the flows of x and y", allowed, grows, 1e-9)
    yield at_most("growth of y", y[-1] / behind, min(allowed, 1e300))
    yield at_least("x - y", x - y, x[0] - y[0])
    yield row({"K": speed, "y(T)/y0": y[-1] / behind, "bound": allowed, "x(T)/x0": x[-1] / config.start})
