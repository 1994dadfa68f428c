"""While tests run, calls with wrong types or shapes are refused."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from jaxtyping import Float, TypeCheckError

from stairwise.measure import fits
from tests.checking import checked

SQUARE, WIDE = np.ones((2, 2)), np.ones((2, 3))


@checked
def product(a: Float[np.ndarray, "n k"], b: Float[np.ndarray, "k m"]) -> Float[np.ndarray, "n m"]:
    return a @ b


@checked
def transposed(a: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]:
    return a.T


@checked
def doubled(number: float) -> float:
    return 2 * number


@checked
def rows(a: Float[np.ndarray, "n k"]) -> Iterator[Float[np.ndarray, " k"]]:
    yield from a


@checked
def applied(function: Callable[[Float[np.ndarray, " n"]], float], to: Float[np.ndarray, " n"]) -> float:
    return function(to)


@checked
@dataclass(frozen=True)
class Pair:
    left: Float[np.ndarray, " n"]
    right: Float[np.ndarray, " n"]


def test_what_fits_its_signature_passes_and_an_int_is_a_float():
    assert product(SQUARE, WIDE).shape == (2, 3)
    assert transposed(SQUARE).shape == (2, 2)
    assert doubled(2) == 4
    assert len(list(rows(WIDE))) == 2
    assert applied(lambda x: float(x.sum()), SQUARE[0]) == 2
    assert Pair(SQUARE[0], SQUARE[1]).left is not None


@pytest.mark.parametrize(
    "call",
    [
        lambda: doubled("2"),
        lambda: product(1, 2),
        lambda: product(WIDE, WIDE),
        lambda: transposed(WIDE),
        lambda: rows(SQUARE[0]),
        lambda: applied(2, SQUARE[0]),
        lambda: applied(lambda x: x, SQUARE[0]),
        lambda: Pair(SQUARE[0], WIDE[0]),
        lambda: fits.compare("a curve"),
    ],
    ids=[
        "type",
        "type of an array",
        "shapes of two arguments",
        "shape of a result",
        "argument of a generator",
        "type of a function",
        "type of a result",
        "shapes of two fields",
        "function of the package",
    ],
)
def test_what_does_not_fit_is_refused_at_the_first_call_and_at_later_ones(call):
    for _ in range(2):
        with pytest.raises(TypeCheckError):
            call()
