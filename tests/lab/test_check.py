"""A statement of one's own is checked without a package around it."""

import math
from dataclasses import dataclass

import jax.numpy as jnp

import stairwise as sw
from stairwise.paper import Config, at_most, equal, option


@dataclass(frozen=True)
class Sizes(Config):
    n: int = option(10, "n", low=1)


def stirling(config, seed):
    """n! is at least sqrt(2 pi n) (n/e)^n."""
    n = config.n
    yield at_most("bound / n!", math.sqrt(2 * math.pi * n) * (n / math.e) ** n / math.factorial(n), 1.0)


def test_a_check_holds_or_fails_over_all_its_sizes_and_seeds():
    assert sw.check(stirling, Sizes(), Sizes(n=50)).status == "holds"

    def wrong_at_seed_2(config, seed):
        yield at_most("seed", seed, 1)

    assert sw.check(wrong_at_seed_2, seeds=2).status == "holds"
    assert sw.check(wrong_at_seed_2, seeds=3).status == "fails"


def test_it_computes_in_float64_and_names_what_is_not_met():
    def third(config, seed):
        yield equal("a third", float(jnp.ones(()) / 3), 1 / 3)

    assert sw.check(third).status == "holds"
    found = sw.check(stirling, Sizes(3), hypotheses={"n >= 5": lambda config: config.n >= 5})
    assert (found.status, found.hypotheses) == ("outside", ("n >= 5",))


def test_an_exception_is_a_failure_with_its_reason():
    def broken(config, seed):
        yield at_most("x", 1 / (seed - seed), 1.0)

    found = sw.check(broken)
    assert found.status == "fails"
    assert "ZeroDivisionError" in found.note
