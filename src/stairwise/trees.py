"""Config classes as pytrees, without importing JAX for it: classes wait here until the training loop is imported.

Numeric fields and nested configs are children; every other field is structure. JAX's own registration of dataclasses
would call the constructor, whose checks cannot look at traced values.
"""

import dataclasses
from functools import cache
from typing import Any

_waiting: list[type] = []
_ready = False


def register(cls: type) -> None:
    """Make the class a pytree, now or as soon as JAX is there; its fields may be declared later."""
    if _ready:
        _register(cls)
    else:
        _waiting.append(cls)


def register_waiting() -> None:
    global _ready
    _ready = True
    while _waiting:
        _register(_waiting.pop())


@cache
def child_fields(cls: Any) -> tuple[str, ...]:
    """The fields that are leaves or subtrees: declared numeric, or configs themselves."""
    return tuple(f.name for f in dataclasses.fields(cls) if f.metadata.get("numeric") or f.metadata.get("nested"))


@cache
def static_fields(cls: Any) -> tuple[str, ...]:
    """All other fields."""
    return tuple(f.name for f in dataclasses.fields(cls) if f.name not in child_fields(cls))


def _register(cls: Any) -> None:
    import jax

    def flatten(config):
        static = tuple(getattr(config, name) for name in static_fields(cls))
        return [(jax.tree_util.GetAttrKey(name), getattr(config, name)) for name in child_fields(cls)], static

    def unflatten(static, children):
        made = object.__new__(cls)
        names = (*zip(child_fields(cls), children, strict=True), *zip(static_fields(cls), static, strict=True))
        for name, value in names:
            object.__setattr__(made, name, value)
        return made

    jax.tree_util.register_pytree_with_keys(cls, flatten, unflatten)
