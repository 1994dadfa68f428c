"""Makes a counterexample small: field by field, by bisection."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stairwise.lab.ledger.searching.space import SearchAxis

ROUNDS = 4  # of making every field small


def shrunk(
    point: dict[str, Any], axes: Sequence[SearchAxis], ask: Callable[[Mapping[str, Any], int], dict[str, Any]]
) -> dict[str, Any]:
    """A counterexample that is as small as bisection makes it in each field, whole numbers first."""
    best = point

    def false_at(path: str, value: Any) -> bool:
        nonlocal best
        found = ask({**best["sizes"], path: value}, point["seed"])
        if found["said"] == "false":
            best = found
        return found["said"] == "false"

    ordered = sorted(axes, key=lambda axis: not (axis.whole or axis.choices))
    for _ in range(ROUNDS):  # one field may give way once another has
        before = best
        for axis in ordered:
            now = best["sizes"][axis.path]
            if axis.choices:
                any(false_at(axis.path, value) for value in axis.choices[: axis.choices.index(now)])
            elif now != axis.least and not false_at(axis.path, axis.least):
                bisect(axis, now, lambda value, path=axis.path: false_at(path, value))
        if best is before:
            break
    return best


def bisect(axis: SearchAxis, false: float, is_false: Callable[[float], bool]) -> None:
    """From a value at which the statement is false towards the least one, at which it is not."""
    true, given = axis.least, false
    for _ in range(64 if axis.whole else 12):
        if axis.whole and false - true <= 1:
            while false - 2 > axis.least and is_false(false - 2):  # it may be false at odd sizes only
                false -= 2
            return
        middle = axis.between(true, false)
        if is_false(middle):
            false = middle
        else:
            true = middle
    for digits in (2, 3, 4):  # the roundest number of those that are left
        unit = 10.0 ** (math.floor(math.log10(abs(false) or 1)) - digits + 1)
        value = float(f"{math.ceil(false / unit) * unit:.{digits}g}")
        if false <= value <= max(given, true) and (value == false or is_false(value)):
            return
