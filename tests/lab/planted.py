"""Claims for the tests of `falsify`: theorems that are false in a corner of their space, and true ones."""

import math
import time
from dataclasses import dataclass, replace

from stairwise.config import Config, option, require
from stairwise.lab.contract.checks import at_least, at_most, hypothesis, true
from stairwise.lab.contract.claims import Ledger

LEDGER = Ledger()


@dataclass(frozen=True)
class Point(Config):
    """A whole number and a real one."""

    n: int = option(3, "a whole number", low=1, high=2000)
    x: float = option(0.25, "a real number", low=-10.0, high=10.0)


def product(x: float) -> float:
    """x (1 - x), whose largest value is 1/4."""
    return x * (1 - x)


def hoeffding(n: int, t: float) -> float:
    """A wrong bound on the chance that n random signs add up to t or more: a factor 2 is missing under t^2."""
    return math.exp(-(t**2) / n)


def euler(n: int) -> int:
    """n^2 + n + 41, which is prime for n = 0, ..., 39."""
    return n * n + n + 41


def power(n: int, x: float) -> float:
    """(1 + x)^n."""
    return (1 + x) ** n


@LEDGER.bound(
    "narrow",
    statement="ours",
    says="x (1 - x) is at most 0.24999: false on an interval of length 0.0063 only",
    of=(product,),
    cases=Point(),
    search={"x": (0.0, 1.0, "linear")},
)
def the_product_stays_below_a_quarter(config: Point, seed: int):
    yield at_most("product", product(config.x), 0.24999)


@LEDGER.bound(
    "hoeffding",
    statement="ours",
    says="Hoeffding's bound without its factor 2: false from three signs on",
    of=(hoeffding,),
    hypotheses={"0 <= t <= n": lambda config: 0 <= config.x <= config.n},
    cases=Point(n=1, x=1.0),
    search={"n": (1, 40, "linear"), "x": (0.1, 10.0, "log")},
)
def the_chance_is_below_the_bound(config: Point, seed: int):
    n = config.n
    ways = sum(math.comb(n, k) for k in range(n + 1) if 2 * k - n >= config.x)
    yield at_most("chance", ways / 2**n, hoeffding(n, config.x))


@LEDGER.exact(
    "euler",
    statement="ours",
    says="n^2 + n + 41 is prime: false at n = 40 for the first time",
    of=(euler,),
    cases=Point(),
    search={"n": (1, 100, "linear")},
)
def the_value_is_prime(config: Point, seed: int):
    value = euler(config.n)
    yield true("it is prime", all(value % k for k in range(2, math.isqrt(value) + 1)))


@LEDGER.bound(
    "bernoulli",
    statement="ours",
    says="(1 + x)^n >= 1 + n x: true for x >= -1, false for odd n and x far below",
    of=(power,),
    hypotheses={"x >= -1": lambda config: config.x >= -1, "n <= 9": lambda config: config.n <= 9},
    cases=Point(),
    search={"n": (1, 9, "linear"), "x": (-1.0, 3.0, "linear")},
)
def the_power_is_above_its_tangent(config: Point, seed: int):
    yield at_least("power", power(config.n, config.x), 1 + config.n * config.x, rounding=1e-12)


@LEDGER.bound(
    "drawn",
    statement="ours",
    says="n is at most 5, if what is drawn is small: a hypothesis that the check yields",
    of=(euler,),
    cases=Point(),
    search={"n": (1, 20, "linear")},
)
def small_numbers_are_small(config: Point, seed: int):
    yield hypothesis("what is drawn is small", config.n <= 5)
    yield at_most("n", config.n, 5)


@LEDGER.bound(
    "slow",
    statement="ours",
    says="n is at most 2000, which takes long to see for some n, raises for one, and ends the process for another",
    of=(euler,),
    cases=Point(),
    search={"n": (1, 4, "linear")},
)
def large_numbers_take_long(config: Point, seed: int):
    if config.n == 2:
        time.sleep(60)
    if config.n == 3:
        raise RuntimeError("three")
    if config.n == 4:
        bytearray(8 << 30)
    yield at_most("n", config.n, 2000)


@dataclass(frozen=True)
class Pair(Config):
    """Two numbers in order."""

    n: int = option(3, "the larger number", low=1, high=2000)
    m: int = option(2, "the smaller number", low=1, high=2000)

    def check(self) -> None:
        require(self.m <= self.n, f"m={self.m} must be at most n={self.n}")


@LEDGER.bound("ordered", statement="ours", says="a config that refuses points", of=(euler,), cases=Pair())
def the_difference_is_small(config: Pair, seed: int):
    yield at_most("difference", config.n - config.m, 5)


CLAIMS = {claim.id: replace(claim, paper="planted") for claim in LEDGER.claims}
