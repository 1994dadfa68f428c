"""How numbers, times and machines are written, in tables and on pages alike; what a store holds is not trusted."""

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from stairwise.config import one_line
from stairwise.lab.contract.verdict import Verdict


def plain(value: Any) -> str:
    """A value as one printable line.

    >>> plain("two" + chr(10) + "lines"), plain((1, 2)), plain(0.1)
    ('two lines', '1,2', '0.1')
    """
    if isinstance(value, (list, tuple)):
        return ",".join(map(plain, value))
    return one_line(" ".join(str(value).split()))


def number(value: Any, digits: int = 4) -> str:
    """Four digits of a number, without the sign of a zero; a dash where there is none.

    >>> number(1 / 3), number(None), number(float("inf")), number(-0.0)
    ('0.3333', '-', 'inf', '0')
    """
    return f"{value + 0:.{digits}g}" if is_number(value) else "-"


def is_number(value: Any) -> bool:
    """Whether it can be computed with: a float, or an integer that is not beyond all floats."""
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) < 2**1000
    return isinstance(value, float)


def margin(verdict: Verdict) -> str:
    """The margin to three digits, written out up to a million.

    >>> margin(Verdict("holds", margin=2.5)), margin(Verdict("holds", margin=7412)), margin(Verdict("holds"))
    ('2.5x', '7,410x', '-')
    """
    if verdict.margin is None:
        return "-"
    rounded = f"{verdict.margin:.3g}"
    return f"{float(rounded):,.0f}x" if 1000 <= abs(verdict.margin) < 999_500 else f"{rounded}x"


def required(verdict: Verdict) -> str:
    """The pass line and its direction.

    >>> required(Verdict.at_most(1, 2)), required(Verdict.at_least(2, 2)), required(Verdict("refuted", 1, 2))
    ('<= 2', '>= 2', '2')
    """
    return "-" if verdict.required is None else f"{verdict.direction} {number(verdict.required)}".strip()


def duration(value: Any) -> str:
    """Seconds as a person would say them.

    >>> duration(0.0123), duration(31.4), duration(600), duration(9000), duration(None)
    ('0.01 s', '31 s', '10 min', '2.5 h', '-')
    """
    if not is_number(value) or not math.isfinite(value):
        return "-"
    if value < 9.995:
        return f"{value:.2f} s"
    if value < 120:
        return f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 7200 else f"{value / 3600:.1f} h"


def moment(value: Any) -> str:
    """A point in time, to the minute, in UTC.

    >>> moment(0)
    '1970-01-01 00:00'
    """
    if not is_number(value):
        return "-"
    try:
        return f"{datetime.fromtimestamp(value, UTC):%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError, OSError):
        return "-"


def counted(items: Iterable[str], order: Sequence[str]) -> dict[str, int]:
    """How often each of `order` occurs, those that do not left out.

    >>> counted(["a", "c", "a"], ["c", "b", "a"])
    {'c': 1, 'a': 2}
    """
    items = list(items)
    return {name: items.count(name) for name in order if name in items}


# --- how a trial was made ---------------------------------------------------------------------------------------------


def flat(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested groups as dotted paths.

    >>> flat({"task": {"length": 8}, "rate": 0.1})
    {'task.length': 8, 'rate': 0.1}
    """
    found: dict[str, Any] = {}
    for name, value in data.items():
        found |= flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return found


def inner(data: Mapping[str, Any], group: str, name: str) -> Any:
    """A field of a nested group; None where there is none."""
    found = data.get(group)
    return found.get(name) if isinstance(found, dict) else None


def seconds_of(run: Mapping[str, Any]) -> float:
    """What a trial cost: its share of its group's time; 0 where run.json does not say."""
    cost = inner(run, "timing", "seconds_per_trial")
    return float(cost) if is_number(cost) and math.isfinite(cost) else 0.0


def device_of(run: Mapping[str, Any]) -> str:
    """The kind of device, and of processor where the device is the CPU."""
    device = run.get("device", "unknown")
    kind = device.get("kind", "unknown") if isinstance(device, dict) else device
    processor, cores = inner(run, "machine", "processor"), inner(run, "machine", "cores")
    if kind == "cpu" and processor:
        return plain(f"CPU, {processor}" + (f", {cores} cores" if cores else ""))
    return plain(kind)


def versions_of(run: Mapping[str, Any]) -> str:
    versions = run.get("versions")
    if not isinstance(versions, Mapping):
        return "unknown"
    return ", ".join(f"{plain(name)} {plain(value)}" for name, value in versions.items() if value)


def distinct(items: Iterable[str]) -> str:
    """Each text once, in order."""
    return "; ".join(dict.fromkeys(items))
