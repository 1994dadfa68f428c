"""Lemma 5: do Assumption 2's sizes do what the proof needs, and from which n on?"""

import math
from dataclasses import dataclass

from stairwise.config import Config, option
from stairwise.lab.contract.checks import at_most, equal, note, row, slope, true
from stairwise.papers.parity_cot.claims.ledger import LEDGER
from stairwise.papers.parity_cot.theory import hyperparameters


@dataclass(frozen=True)
class Asymptotic(Config):
    """k = n / ln(n/delta)^power, and the two constants of Assumption 2."""

    power: float = option(5.0, "p of k = n / ln(n/delta)^p, 4 to 5 in the paper", low=1.0, high=10.0)
    failure: float = option(0.1, "delta", low=1e-100, below=1.0)
    scale: float = option(1.0, "eps", low=1e-6, high=1e6)


DIGITS = (math.log10(2), *(0.5 * step for step in range(1, 201)))  # n = 2 to 10^100, where plain numbers do
RANGE = {"4 <= p <= 5": lambda config: 4 <= config.power <= 5}


def sides(digits: float, config: Asymptotic) -> dict[str, tuple[float, float]]:
    """(smaller, larger) of every condition where it holds, written out from Assumption 2 at n = 10^digits."""
    n, delta, eps = 10.0**digits, config.failure, config.scale
    L = math.log(n / delta)
    k = n / L**config.power
    d, m, B = k * L**1.1, 2 * k, 1.28e7 / eps**2 * n * L**20
    eta0, eta2 = m * eps * math.sqrt(B) / (100 * L), 4 * k * eps / 3
    log = math.log(300 * m / delta) + math.log(n) + math.log(B)
    return {
        "k>=2": (2, k),
        "memory": (d**2 + d * m, n * k / math.log(n)),
        "B<nk": (B, n * k),
        "d<n": (d, n),
        "5.2": (math.sqrt(4 * k / d * math.log(100 * B * m / delta)), 0.01),
        "5.3a": (k * log / B, 1 / 160_000),
        "5.3b": (math.sqrt(2 * k * math.log(400 * m * n / delta) / d), 0.01),
        "5.3c": (math.sqrt(2 * n * k / B / d) * log, 1 / 400),
        "5.4a": (eta0, 3 * m * eps * math.sqrt(B) / (80 * math.sqrt(math.log(300 * n * B / delta)))),
        "5.4": (eta0, m * n * eps / 120),
        "5.5": (log**2 * n / d * math.sqrt(n * k) / math.sqrt(B * d), 1 / 320_000),
        "5.6": (40 * math.log(n), eta0 / (256 * m) * eta0 / n**2),
        "5.7": (eta2, eta0),
        "5.8": (2 * eta0, 5 * n * eta2),
        "5.8 for Lemma 25": (2 * eta0, (n + 1) * eta2 / 50),
    }


@LEDGER.bound(
    "lem5",
    statement=("Lemma 5", "Assumption 2"),
    says=r"the inequalities of Lemma 5 hold for large $n$: all of them, with the constants that the proofs need, from"
    r" $\exp(1.07\cdot10^{49})$ on",
    of=(hyperparameters.gap, hyperparameters.holds_from, hyperparameters.sizes),
    hypotheses=RANGE,
    cases=(Asymptotic(), Asymptotic(4.0), Asymptotic(4.5, 0.01, 0.5)),
)
def from_which_n_on(config: Asymptotic, seed: int):
    constants = (config.power, config.failure, config.scale)
    for digits in (12, 60, 100):
        plain = sides(digits, config)
        yield equal(
            f"ln(larger / smaller) at n = 10^{digits}, all conditions",
            [hyperparameters.gap(name, digits * math.log(10), *constants) for name in plain],
            [math.log(larger / smaller) for smaller, larger in plain.values()],
            1e-9,
        )
    needed = {name: hyperparameters.holds_from(name, *constants) for name in hyperparameters.CONDITIONS}
    for name, x in needed.items():
        says = hyperparameters.CONDITIONS[name].says
        yield at_most(f"{says}: ln n from which it holds", x, 1e60)
        if all(smaller < larger for smaller, larger in (sides(digits, config)[name] for digits in DIGITS)):
            yield equal(f"{says}: ln n from which it holds, which is for every n", x, math.log(2))
        if math.log(3) < x < 200 * math.log(10):  # where plain numbers can say it too
            below, above = (sides(x / math.log(10) * factor, config)[name] for factor in (0.999, 1.001))
            yield at_most(f"{says}: false just below, true just above", above[0] / above[1], below[0] / below[1])
            yield at_most(f"{says}: true just above", above[0], above[1])
        yield row({"condition": says, "holds from n =": hyperparameters.as_text(x), "ln n": x})
    # 4 L^-1.1 ln(100Bm/delta) -> 8 L^-0.1, which is 10^-4 at L = 80000^10
    yield equal("ln n from which 5.2 holds, over 80000^10", needed["5.2"] / 8e4**10, 1.0, 1e-3)
    yield note(f"all of them hold from n = {hyperparameters.as_text(max(needed.values()))} on")


@LEDGER.rate(
    "lem5-limits",
    statement="Lemma 5",
    says=r"the quantities of 5.1 to 5.5 vanish as powers of $\ln(n/\delta)$: 5.2 and 5.3b only as $\ln^{-0.05}$",
    of=(hyperparameters.gap, hyperparameters.exponent_of_5_5),
    hypotheses=RANGE,
    cases=(Asymptotic(), Asymptotic(4.0)),
)
def powers_of_the_logarithm(config: Asymptotic, seed: int):
    p = config.power
    expected = {
        "d<n": p - 1.1,
        "memory": p - 1.1 - 1.1 - 1,
        "5.2": 0.05,
        "5.3a": 20 + p - 1,
        "5.3b": 0.05,
        "5.3c": (20 + 1.1) / 2 - 1,
        "5.4a": 0.5,
        "5.5": -hyperparameters.exponent_of_5_5(p) - 2,
        "5.6": 20 - p - 2 - 1,
    }
    nowhere = hyperparameters.gap("k>=2", math.log(config.failure) - 1, p, config.failure, config.scale)
    yield true("nothing holds where ln(n/delta) is negative", nowhere == -math.inf)
    xs = [10.0**digits for digits in (30, 34, 38, 42, 46)]
    for name, power in expected.items():
        ratios = [math.exp(hyperparameters.gap(name, x, p, config.failure, config.scale) / 40) for x in xs]
        says = hyperparameters.CONDITIONS[name].says
        # to the power 1/40, since L^25 overflows
        yield slope(f"{says}: larger / smaller ~ L^", xs, ratios, power / 40, within=0.002)


@LEDGER.misprint(
    "lem5-exponent-printed",
    statement="Lemma 5",
    says=r"as printed in the proof of 5.5: $\frac{n}{k\ln^{11.65}} \le \ln^{-5.65}$ at $k = n/\ln^5$",
    means=r"$5 - 11.65 = -6.65$; what follows is true all the more",
    of=(hyperparameters.exponent_of_5_5,),
    hypotheses={"p = 5": lambda config: config.power == 5},
    corrected="lem5-limits",
    cases=Asymptotic(),
)
def the_exponent_is_off_by_one(config: Asymptotic, seed: int):
    yield equal(
        "exponent", hyperparameters.exponent_of_5_5(config.power), hyperparameters.EXPONENT_OF_5_5_PRINTED, 1e-9
    )


@LEDGER.misprint(
    "lem5-batch-printed",
    statement="Lemma 5",
    says=r"as printed in the proof of 5.6: $\eta_0\eta_1/(256mn^2) \ge 10\ln^3(n/\delta)$ is what $B$ gives at"
    r" $k = n/\ln^5$ (it has $B = C_2n\ln^{10}$)",
    means=r"$B = C_2 n\ln^{20}$, as in Assumption 2: it is $10\ln^{13}$",
    of=(hyperparameters.sizes,),
    hypotheses={"p = 5": lambda config: config.power == 5},
    corrected="lem5",
    cases=Asymptotic(),
)
def the_batch_has_two_sizes(config: Asymptotic, seed: int):
    x = 60 * math.log(10)
    found = hyperparameters.sizes(x, config.power, config.failure, config.scale)
    log_printed = math.log(1.28e7 / config.scale**2) + 10 * math.log(x - math.log(config.failure))
    yield equal("ln(B/n) at n = 10^60", found.log_B, log_printed, 1e-9)
