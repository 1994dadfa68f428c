"""The tensor power method (Lemmas B.12, B.13, Corollary B.1): hitting times, the frozen loser, noise in the power."""

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stairwise.lab.checks import identical, under
from stairwise.lab.config import Config, option, require
from stairwise.lab.contract import Verdict
from stairwise.lazy import lazy
from stairwise.papers.lego.claims.ledger import LEDGER

if TYPE_CHECKING:
    from stairwise.papers.lego.theory import tensor_power
else:
    tensor_power = lazy("stairwise.papers.lego.theory.tensor_power")


@dataclass(frozen=True)
class Race(Config):
    """x <- x + eta x^{q-1} from x_0 to A, and a second sequence behind it."""

    power: int = option(4, "q", low=3, high=20)
    rate: float = option(1e-3, "eta", above=0.0, high=1.0)
    start: float = option(0.05, "x_0", above=0.0)
    goal: float = option(1.0, "A", above=0.0)
    leads: tuple[float, ...] = option((1.05, 1.2, 2.0), "x_0 / y_0", above=0.0, high=1e6)
    speed: float = option(1.0, "S: how much faster y is updated", above=0.0, high=100.0)

    def check(self) -> None:
        require(self.start < self.goal, f"start={self.start:g} must be below goal={self.goal:g}")
        steps = self.start ** (2 - self.power) / (self.power - 2) / self.rate
        require(steps <= 2e6, f"rate={self.rate:g} needs about {steps:.2g} steps, which must be at most 2e6")

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
    same = identical({"eta t": (elapsed, limit), "limit between the sums": (float(inside), 1.0)}, config.tolerance)
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
    noise: float = option(0.019, "sigma", low=0.0)
    start: float = option(0.06, "x_0", above=0.0)
    lead: float = option(1.3, "x_0 / y_0", above=1.0)
    goal: float = option(1.0, "A", above=0.0)
    rate: float = option(1e-3, "eta", above=0.0, high=1.0)

    def check(self) -> None:
        require(self.power % 2 == 1, f"power={self.power} must be odd")
        require(self.start < self.goal, f"start={self.start:g} must be below goal={self.goal:g}")
        steps = self.start ** (1 - self.power) / (self.power - 1) / self.rate
        require(steps <= 3e5, f"rate={self.rate:g} needs about {steps:.2g} steps, which must be at most 3e5")


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
    note = f"the lead x - y grows from {x[0] - y[0]:.3g} to {x[-1] - y[-1]:.3g}"
    return under(missing, Verdict.at_most(y[-1] / behind, allowed, details=rows, note=note))
