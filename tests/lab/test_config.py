"""Facts about what a config refuses: one line that names the field, the value and the valid range."""

from dataclasses import dataclass

import pytest

from stairwise.lab.config import Config, ConfigError, option


@dataclass(frozen=True)
class Fields(Config):
    rate: float = option(0.1, "a rate", above=0.0)
    free: float = option(0.1, "any number")
    sizes: tuple[int, ...] = option((1, 2), "some sizes", low=1)
    names: tuple[int, ...] = option((), "perhaps some")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"rate": 0.0}, "rate=0.0 must be above 0"),
        ({"rate": float("inf")}, "rate=inf must be finite and above 0"),
        ({"rate": 1e200}, "rate=1e+200 must be above 0 and below 2^63 in size"),
        ({"free": float("nan")}, "free=nan must be finite"),
        ({"sizes": ()}, "sizes=[] must have at least one value, each at least 1"),
        ({"sizes": (0,)}, "sizes=0 must be at least 1"),
    ],
)
def test_a_refusal_names_what_would_be_right(fields, says):
    with pytest.raises(ConfigError) as refused:
        Fields(**fields)
    assert str(refused.value) == says


def test_a_list_that_is_empty_by_default_may_be():
    assert Fields(names=()).names == ()
