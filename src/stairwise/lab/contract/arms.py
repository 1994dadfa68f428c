"""Arms of presets as tables: names, and the fields that each sets."""

import itertools
from collections.abc import Mapping
from typing import Any

Arms = Mapping[str, Mapping[str, Any]]


def crossed(*factors: Arms) -> dict[str, dict[str, Any]]:
    """Every combination of the arms of several tables; names are joined by commas, and empty ones left out.

    >>> crossed({"": {}, "noisy": {"noise": 0.1}}, {"k=2": {"size": 2}, "k=3": {"size": 3}})["noisy, k=3"]
    {'noise': 0.1, 'size': 3}
    """
    found = {}
    for chosen in itertools.product(*(factor.items() for factor in factors)):
        name = ", ".join(name for name, _ in chosen if name)
        found[name] = {path: value for _, fields in chosen for path, value in fields.items()}
    return found
