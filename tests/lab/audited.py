"""Claims for the tests of the audit: one with teeth, one without, and what says nothing."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.config import Config, option
from stairwise.lab.contract.checks import at_most, equal
from stairwise.lab.contract.claims import Ledger

LEDGER = Ledger()


@dataclass(frozen=True)
class Size(Config):
    """How many numbers."""

    count: int = option(6, "how many numbers", low=1, high=100)


def sum_of_squares(n: int) -> float:
    """n (n + 1) (2 n + 1) / 6."""
    return n * (n + 1) * (2 * n + 1) / 6


def at_least_one(n: int) -> float:
    """A formula of which a part has no effect where n is positive."""
    n = max(n, 0)
    return math.log(n + 1) + 1


@LEDGER.exact("teeth", statement="ours", says="the sum of squares", of=(sum_of_squares,), cases=(Size(), Size(9)))
def the_sum_of_squares_is_the_formula(config: Size, seed: int):
    yield equal("sum", float(np.sum(np.arange(1, config.count + 1) ** 2)), sum_of_squares(config.count))


@LEDGER.exact("no-teeth", statement="ours", says="a formula equals itself", of=(sum_of_squares,), cases=Size())
def a_formula_equals_itself(config: Size, seed: int):
    yield equal("sum", sum_of_squares(config.count), sum_of_squares(config.count))


@LEDGER.bound(
    "bound",
    statement="ours",
    says="an upper bound",
    of=(at_least_one,),
    cases=Size(),
    search={"count": (2, 50, "log")},
)
def the_bound_is_at_least_one(config: Size, seed: int):
    yield at_most("one", 1.0, at_least_one(config.count))


def parity(bits, extra):
    """Of a sum or of a difference: the same. It is only ever called inside of compiled programs."""
    return (jnp.sum(bits) + extra) % 2


@LEDGER.exact("traced", statement="ours", says="a parity", of=(parity,), cases=Size())
def the_parity_is_that_of_the_product_of_signs(config: Size, seed: int):
    bits = np.arange(8)[:, None] >> np.arange(3) & 1
    found = jax.jit(jax.vmap(parity, in_axes=(0, None)))(jnp.asarray(bits), 1)
    yield equal("parity", np.asarray(found), (1 + np.prod(1 - 2 * bits, axis=1)) / 2)


@LEDGER.exact("traced-unseen", statement="ours", says="a parity is 0 or 1", of=(parity,), cases=Size())
def a_parity_is_zero_or_one(config: Size, seed: int):
    found = jax.jit(jax.vmap(parity, in_axes=(0, None)))(jnp.asarray(np.eye(3, dtype=np.int32)), 1)
    yield equal("parity (1 - parity)", np.asarray(found * (1 - found)), np.zeros(3))


@LEDGER.bound("sides", statement="ours", says="two bounds", of=(at_least_one,), cases=(Size(), Size(9)))
def bounds_from_both_sides(config: Size, seed: int):
    yield at_most("one", 1.0, at_least_one(config.count))
    yield from attained(config.count)


def attained(count: int):
    yield at_most("an equality", count, count)


def one_above(n: int) -> float:
    return n + 1


@LEDGER.bound("itself", statement="ours", says="less than 1.5 times itself", of=(one_above,), cases=Size())
def a_bound_is_compared_with_itself(config: Size, seed: int):
    yield at_most("itself", one_above(config.count), 1.5 * one_above(config.count))


@LEDGER.bound("unseen", statement="ours", says="a bound that is not compared", of=(one_above,), cases=Size())
def a_bound_is_computed_and_not_compared(config: Size, seed: int):
    one_above(config.count)
    yield at_most("one", 1.0, 1.5)


def twice(n: int) -> int:
    """Calls a private function from inside of another one."""

    def once(n: int) -> int:
        return _one_more(n)

    return once(once(n))


def _one_more(n: int) -> int:
    return n + 1
