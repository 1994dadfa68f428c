"""The tensor power method (Lemmas B.12, B.13, Corollary B.1): hitting times, the frozen loser, noise in the power."""

import dataclasses
import math
from dataclasses import dataclass

from stairwise.lab.checks import empty_if, identical, under
from stairwise.lab.config import Config, option, require
from stairwise.lab.contract import Verdict
from stairwise.papers.lego.claims.ledger import LEDGER
from stairwise.papers.lego.theory import tensor_power


def few_steps(config: "Race | NoisyRace", q: int, most: float) -> None:
    """About x_0^{2-q} / ((q-2) eta) steps, in logarithms: the power may overflow."""
    steps = (2 - q) * math.log10(config.start) - math.log10((q - 2) * config.rate)
    shown = f"{10**steps:.2g}" if steps < 300 else f"10^{steps:.0f}"
    message = f"start={config.start:g}, rate={config.rate:g} need about {shown} steps, which must be at most {most:g}"
    require(steps <= math.log10(most), message)


@dataclass(frozen=True)
class Race(Config):
    """x <- x + eta x^{q-1} from x_0 to A, and a second sequence behind it."""

    power: int = option(4, "q", low=3, high=20)
    rate: float = option(1e-3, "eta", above=0.0, high=1.0)
    start: float = option(0.05, "x_0", above=0.0)
    goal: float = option(1.0, "A", above=0.0, high=1e6)
    leads: tuple[float, ...] = option((1.05, 1.2, 2.0), "x_0 / y_0", above=0.0, high=1e6)
    speed: float = option(1.0, "S: how much faster y is updated", above=0.0, high=100.0)

    def check(self) -> None:
        require(self.start < self.goal, f"start={self.start:g} must be below goal={self.goal:g}")
        few_steps(self, self.power, 2e6)

    @property
    def tolerance(self) -> float:
        """The recursion leaves its limit by O(eta A^{q-2}) of each step's growth."""
        return max(1e-3, 4 * self.rate * self.goal ** (self.power - 2) * self.power)


@LEDGER.theory(
    "lemB13",
    kind="identity",
    says="x <- x + eta x^{q-1} reaches A at eta t = (x0^{2-q} - A^{2-q})/(q-2), between the lemma's two sums",
    cases=(Race(), Race(power=6, start=0.3), Race(power=3)),
)
def hitting_time(config: Race, seed: int) -> Verdict:
    walk = tensor_power.recursion(config.start, config.goal, config.rate, config.power)
    elapsed, limit = config.rate * (len(walk) - 1), tensor_power.hitting_time(config.start, config.goal, config.power)
    rows = []
    for delta in (0.01, 0.1, 0.5):
        low, high = tensor_power.hitting_bounds(config.start, config.goal, config.power, delta)
        rows.append({"delta": delta, "lower": low, "limit": limit, "upper": high})
    inside = all(row["lower"] <= limit <= row["upper"] for row in rows)
    late = tensor_power.lateness(config.rate, (config.power - 1) * math.log(walk[-1] / walk[0])) / limit
    tolerance = max(config.tolerance, late)
    same = identical({"eta t": (elapsed, limit), "limit between the sums": (float(inside), 1.0)}, tolerance)
    same = empty_if(tolerance >= 1, same, "the steps are as long as the whole time")
    return dataclasses.replace(same, details=(*same.details, *rows))


@LEDGER.theory(
    "corB1-tpm",
    kind="identity",
    says="when x reaches A, a y behind it has grown by [1 - S (y0/x0)^{q-2} (1 - (x0/A)^{q-2})]^{-1/(q-2)} only",
    cases=(Race(), Race(speed=1.1, leads=(1.2, 2.0))),
)
def loser_freezes(config: Race, seed: int) -> Verdict:
    steps = len(tensor_power.recursion(config.start, config.goal, config.rate, config.power)) - 1
    pairs, ahead = {}, []
    for lead in config.leads:
        growth = tensor_power.loser_growth(lead, config.start, config.goal, config.power, config.speed)
        if lead <= config.speed ** (1 / (config.power - 2)):
            ahead.append(f"leads={lead:g} must be above S^(1/(q-2))={config.speed ** (1 / (config.power - 2)):.4g}")
            continue
        behind = config.start / lead
        pairs[f"x0/y0={lead:g}"] = (
            tensor_power.followed(behind, steps, config.rate, config.power, config.speed) / behind,
            growth,
        )
    if not pairs:
        return Verdict("vacuous", note="no lead is large enough", hypotheses=tuple(ahead))
    return under(tuple(ahead), identical(pairs, tolerance=config.tolerance))


@dataclass(frozen=True)
class NoisyRace(Config):
    """Lemma B.12: both sequences are pushed by E (xi + x)^p, xi ~ N(0, sigma^2)."""

    power: int = option(3, "p, odd", low=3, high=11)
    vocabulary: int = option(256, "d: the start must be at least sigma sqrt(log d)", low=3)
    noise: float = option(0.019, "sigma", low=0.0, high=1e6)
    start: float = option(0.06, "x_0", above=0.0)
    lead: float = option(1.3, "x_0 / y_0", above=1.0, high=1e6)
    goal: float = option(1.0, "A", above=0.0, high=1e6)
    rate: float = option(1e-3, "eta", above=0.0, high=1.0)

    def check(self) -> None:
        require(self.power % 2 == 1, f"power={self.power} must be odd")
        require(self.start < self.goal, f"start={self.start:g} must be below goal={self.goal:g}")
        few_steps(self, self.power + 1, 3e5)


@LEDGER.theory(
    "lemB12",
    kind="bound",
    says="noise inside the power does not change who wins: y grows by at most Corollary B.1 with S = K (our constant)",
    cases=(NoisyRace(), NoisyRace(power=5, start=0.25, noise=0.07, lead=1.4)),
)
def noise_changes_no_winner(config: NoisyRace, seed: int) -> Verdict:
    behind = config.start / config.lead
    x, y = tensor_power.noisy_race(config.start, behind, config.goal, config.rate, config.noise, config.power)
    speed = tensor_power.noise_speed(behind, config.noise, config.power)
    allowed = tensor_power.loser_growth(config.lead, config.start, config.goal, config.power + 1, speed)
    least = config.noise * math.sqrt(math.log(config.vocabulary))
    missing = () if behind >= least else (f"y_0={behind:.3g} must be at least sigma sqrt(log d)={least:.3g}",)
    rows = ({"K": speed, "y(T)/y0": y[-1] / behind, "bound": allowed, "x(T)/x0": x[-1] / config.start},)
    if math.isinf(allowed):
        return Verdict("vacuous", y[-1] / behind, note="the lead is too small for the bound", details=rows)
    grown = math.log(
        tensor_power.noisy_power(x[-1], config.noise, config.power)
        / tensor_power.noisy_power(x[0], config.noise, config.power)
    )
    late = tensor_power.lateness(config.rate, grown)
    in_steps = tensor_power.loser_growth(config.lead, config.start, config.goal, config.power + 1, speed, late)
    if allowed < y[-1] / behind <= in_steps:
        missing += (
            f"rate={config.rate:g} must go to 0: whole steps take up to {late:.3g} longer (then {in_steps:.4g})",
        )
    note = f"the lead x - y grows from {x[0] - y[0]:.3g} to {x[-1] - y[-1]:.3g}"
    return under(missing, Verdict.at_most(y[-1] / behind, allowed, details=rows, note=note))
