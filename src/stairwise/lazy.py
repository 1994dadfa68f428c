"""Modules that are imported when first used, so that listing and checking input never wait for JAX."""

import importlib
from types import ModuleType
from typing import Any


class LazyModule(ModuleType):
    """Stands for a module until one of its attributes is asked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # doctest and inspect probe such names; they must not trigger the import
            raise AttributeError(name)
        return getattr(importlib.import_module(self.__name__), name)


def lazy(name: str) -> Any:
    """The module `name`, imported at its first attribute access.

    >>> fractions = lazy("fractions")
    >>> fractions.Fraction(1, 2) + fractions.Fraction(1, 3)
    Fraction(5, 6)
    """
    return LazyModule(name)


def resolve(reference: str) -> Any:
    """The object that "package.module:name" names.

    >>> resolve("math:gcd")(12, 18)
    6
    """
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)
