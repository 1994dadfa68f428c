"""What a claim's check runs of its paper, function by function: the code that an audit's results belong to.

A hash of whole modules would forget every result when a neighbour of a formula changes. Here only functions and classes
count whose names the check, or one that it names, mentions.
"""

import inspect
import textwrap
from functools import cache, partial
from types import ModuleType
from typing import Any

from stairwise.lab.contract.experiment import digest_of
from stairwise.lab.ledger.mutants import canonical, names_in, plain

PAPERS = "stairwise.papers"


def code_hash(check: Any, cases: Any) -> str:
    """A digest of a claim's check, its cases, and all that the check reaches of the papers."""
    return _hash(check, repr(cases))


@cache
def _hash(check: Any, cases: str) -> str:
    found: dict[str, str] = {}
    waiting, given = [check], []
    while isinstance(check, partial):
        named = [*check.args, *check.keywords.values()]
        waiting += [value for value in named if plain(value) is not None]  # a rule that is given is followed too
        keywords = sorted((name, _told(value)) for name, value in check.keywords.items())
        given.append(repr((tuple(map(_told, check.args)), keywords)))
        check = check.func
    module = check.__module__
    place = PAPERS if module.startswith(f"{PAPERS}.") else module.partition(".")[0]
    while waiting:
        target = waiting.pop()
        for function in _functions(target):
            name = f"{function.__module__}:{function.__qualname__}"
            if name not in found:
                found[name] = _text(function)
                waiting += _named(function, place)
    return digest_of([sorted(found.items()), given, cases])


class _Named(str):
    """Told by its name: the address in a function's own repr is another in every process."""

    __repr__ = str.__str__


def _told(value: Any) -> Any:
    function = plain(value) if callable(value) else None
    return value if function is None else _Named(f"{function.__module__}:{function.__qualname__}")


def _functions(target: Any) -> list[Any]:
    if inspect.isclass(target):
        return [each for each in map(plain, vars(target).values()) if each is not None]
    function = plain(target)
    return [] if function is None else [function]


def _named(function: Any, place: str) -> list[Any]:
    """What of a package a function names: as a global, as an attribute of a module, or in its closure."""
    names = names_in(function.__code__)
    values = [function.__globals__[name] for name in names if name in function.__globals__]
    values += [cell.cell_contents for cell in function.__closure__ or () if _filled(cell)]
    for module in [value for value in values if isinstance(value, ModuleType) and _inside(value.__name__, place)]:
        values += [vars(module)[name] for name in names if name in vars(module)]
    return [value for value in values if _inside(_module_of(value), place)]


def _inside(module: str, place: str) -> bool:
    return f"{module}.".startswith(f"{place}.")


def _module_of(value: Any) -> str:
    function = value if inspect.isclass(value) else plain(value) if callable(value) else None
    return str(getattr(function, "__module__", ""))


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # a name that has no value yet
        return False


@cache
def _text(function: Any) -> str:
    """The source without comments; of one that has none (a class's constructor, say) the names in it, which are the
    same in every version of Python."""
    try:
        return canonical(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return repr((function.__code__.co_varnames, function.__code__.co_names))
