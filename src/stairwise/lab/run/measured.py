"""What whole presets have taken on machines that were at hand: a first answer where the store has none."""

import json
from functools import cache
from pathlib import Path
from typing import Any

PLACE = Path(__file__).with_name("measured.json")


@cache
def _all() -> dict[str, dict[str, dict[str, Any]]]:
    return json.loads(PLACE.read_text(encoding="utf-8"))


def measured(experiment: str) -> dict[str, dict[str, Any]]:
    """By preset: `trials`, `seconds` and `device`.

    >>> sorted(measured("selection/online")["gpu"])
    ['device', 'seconds', 'trials']
    >>> measured("selection/unknown")
    {}
    """
    return _all().get(experiment, {})
