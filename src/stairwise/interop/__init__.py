"""Bridges to other people's tools: data, weights, models."""

import importlib
from typing import Any

_HOMES = {
    "export": "weights",
    "load": "weights",
    "read": "weights",
    "from_gpt2": "huggingface",
    "to_gpt2": "huggingface",
    "to_transformer_lens": "transformer_lens",
}


def __getattr__(name: str) -> Any:
    """Modules and functions are imported when first used."""
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    if name in _HOMES.values():
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
