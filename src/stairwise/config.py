"""Typed configs: plain frozen dataclasses of Python scalars, checked when built, addressed by dotted paths.

A field is declared with `option`, which carries its documentation, its valid range, and whether it is *numeric*
(traced: trials that differ in it share one compiled program) or *static* (it changes the program). A config is a
pytree: numeric fields are its leaves, static fields are its structure.

>>> from dataclasses import dataclass
>>> @dataclass(frozen=True)
... class Bag(Config):
...     balls: int = option(3, "how many balls", low=1)
...     rate: float = option(0.5, "chance of drawing", above=0.0, high=1.0, numeric=True)
>>> Bag(rate=1)
Bag(balls=3, rate=1.0)
>>> Bag(balls=0)
Traceback (most recent call last):
stairwise.config.ConfigError: balls=0 must be at least 1
>>> update(Bag(), {"balls": "7"})
Bag(balls=7, rate=0.5)
"""

import dataclasses
import difflib
import json
import logging
import math
import shlex
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from stairwise.trees import register

C = TypeVar("C", bound="Config")
PLAIN = frozenset({bool, int, float, str})


class ConfigError(ValueError):
    """A value that a config refuses; its message is one line that names field, value and valid range."""


def option(
    default: Any,
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    below: float | None = None,
    choices: tuple[str, ...] = (),
    examples: tuple[str, ...] = (),
    numeric: bool = False,
    since: str | int | None = None,
    stored_as: str | None = None,
) -> Any:
    """A documented, range-checked field; `low` and `high` are inclusive, `above` and `below` are not.

    A list that has values by default must have some. `examples` are values of free text that searches try.

    Trials are named by their configs, so a field that comes later or gets another name says so. `since` (the release
    that added the field) leaves it out of a trial's identity while it has its default. `stored_as` is the name that
    the field had at first, under which identity and store keep it: `"rate"`; `"model.width"` for a field that was in a
    group; `""` for a group whose fields were beside it, each by its own name.
    """
    if numeric and isinstance(default, tuple):
        raise TypeError(f"a list cannot be numeric: {help}")
    metadata = {
        "help": help,
        "low": low,
        "high": high,
        "above": above,
        "below": below,
        "choices": choices,
        "examples": examples,
        "numeric": numeric,
        "since": since,
        "stored_as": stored_as,
        "some": isinstance(default, tuple) and len(default) > 0,
        "nested": isinstance(default, Config),
    }
    if isinstance(default, Config):
        return dataclasses.field(default_factory=lambda: default, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Config:
    """Base of every config; subclasses are `@dataclass(frozen=True)` and may override `check` for cross-field rules."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        register(cls)

    def __post_init__(self):
        for name, kind, metadata in _rules(type(self)):
            value = getattr(self, name)
            if not (metadata.get("numeric") and is_symbolic(value)):
                object.__setattr__(self, name, _coerce(name, value, kind, metadata))
        if not _has_symbolic(self):
            self.check()

    def check(self) -> None:
        """Cross-field rules; raises ConfigError."""


@dataclass(frozen=True)
class Field:
    """One leaf of a config class: where it is, what it takes, what it means."""

    path: str
    kind: Any
    default: Any
    metadata: Mapping[str, Any]

    @property
    def numeric(self) -> bool:
        return bool(self.metadata.get("numeric"))

    @property
    def range(self) -> str:
        return _range_text(self.metadata)


def require(condition: bool, message: str) -> None:
    """Raise ConfigError(message) unless the condition holds."""
    if not condition:
        raise ConfigError(message)


@cache
def _kinds(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


@cache
def _rules(cls: type) -> tuple[tuple[str, Any, Mapping[str, Any]], ...]:
    """Name, type and metadata of each field."""
    return tuple((field.name, _kinds(cls)[field.name], field.metadata) for field in dataclasses.fields(cls))


def _has_symbolic(config: Config) -> bool:
    values = (getattr(config, name) for name, _, _ in _rules(type(config)))
    return any(_has_symbolic(value) if isinstance(value, Config) else is_symbolic(value) for value in values)


def leaves(config: Config, prefix: str = "") -> Iterator[Field]:
    """The leaf fields of a config in order, with the config's values as their defaults."""
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if isinstance(value, Config):
            yield from leaves(value, f"{prefix}{field.name}.")
        else:
            yield Field(prefix + field.name, _kinds(type(config))[field.name], value, field.metadata)


def as_dict(config: Config) -> dict[str, Any]:
    """The config as nested plain dictionaries, ready for JSON."""
    return {name: _as_plain(getattr(config, name)) for name, _, _ in _rules(type(config))}


def _as_plain(value: Any) -> Any:
    """What a value would be after a journey through JSON."""
    if type(value) in PLAIN:
        return value
    if isinstance(value, Config):
        return as_dict(value)
    return [_as_plain(part) for part in value] if isinstance(value, tuple) else json.loads(json.dumps(value))


def stored_dict(config: Config) -> dict[str, Any]:
    """The config as a trial's identity and the store have it.

    Renamed and moved fields are where they were at first; a field that was added later is there once it differs from
    its default.

    >>> @dataclass(frozen=True)
    ... class Bag(Config):
    ...     chance: float = option(0.5, "chance of drawing", stored_as="rate")
    ...     balls: int = option(3, "how many balls", since="0.2")
    >>> stored_dict(Bag()), stored_dict(Bag(balls=4))
    ({'rate': 0.5}, {'rate': 0.5, 'balls': 4})
    >>> from_dict(Bag, {"rate": 0.7})
    Bag(chance=0.7, balls=3)
    """
    found: dict[str, Any] = {}
    for field, words in _stored_fields(type(config)):
        value = getattr(config, field.name)
        if field.metadata.get("since") is not None and value == _default(field):
            continue
        value = stored_dict(value) if isinstance(value, Config) else plain(value)
        if not words:  # a group whose fields lie beside it
            found |= value
            continue
        place = found
        for group in words[:-1]:
            place = place.setdefault(group, {})
        place[words[-1]] = value
    return found


def plain(value: Any) -> Any:
    """A field's value as JSON has it."""
    return list(value) if isinstance(value, tuple) else value


def _stored_words(field: dataclasses.Field) -> list[str]:
    """Where the store has a field, from the config that it belongs to; nowhere of its own: its fields lie in there."""
    stored = field.metadata.get("stored_as")
    return stored.split(".") if stored else [field.name] if stored is None else []


def _group(cls: type, name: str) -> type["Config"] | None:
    """The class of a field that is a config itself."""
    kind = _kinds(cls)[name]
    return kind if isinstance(kind, type) and issubclass(kind, Config) else None


@cache
def _leaf_paths(cls: type) -> dict[str, str]:
    """The path of every leaf -> the path that the store has it under."""
    found = {}
    for field in dataclasses.fields(cls):
        group = _group(cls, field.name)
        for path, stored in {"": ""}.items() if group is None else _leaf_paths(group).items():
            words = [*_stored_words(field), *filter(None, [stored])]
            found[f"{field.name}.{path}".removesuffix(".")] = ".".join(words)
    return found


@cache
def _present(cls: type, path: str) -> str | None:
    """The path of the field or group that a path means, each name in it a present or a former one."""
    words = path.split(".")
    for former in (False, True):
        for field in dataclasses.fields(cls):
            own, group = _stored_words(field) if former else [field.name], _group(cls, field.name)
            rest = words[len(own) :]
            if words[: len(own)] != own:
                continue
            if not rest:
                return field.name
            inner = None if group is None else _present(group, ".".join(rest))
            if inner is not None:
                return f"{field.name}.{inner}"
    return None


@cache
def _stored_fields(cls: type) -> list[tuple[dataclasses.Field, list[str]]]:
    """The fields of a class, each with the place that the store has it in; no two have the same."""
    for path, stored in _leaf_paths(cls).items():
        if _present(cls, stored) != path:
            raise TypeError(f"{cls.__name__}: two fields have the same name in the store, {stored}")
    return [(field, _stored_words(field)) for field in dataclasses.fields(cls)]


@cache
def has_history(cls: type) -> bool:
    """Whether a config class, or one inside it, has fields that were added or renamed."""
    marks = [field.metadata.get(mark) for field in dataclasses.fields(cls) for mark in ("since", "stored_as")]
    inside = [_group(cls, field.name) for field in dataclasses.fields(cls)]
    return any(mark is not None for mark in marks) or any(has_history(group) for group in inside if group is not None)


def _default(field: dataclasses.Field) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def canonical(value: Any) -> str:
    """The one JSON text of a value: sorted keys, no spaces, shortest floats."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def from_dict(cls: type[C], data: Mapping[str, Any]) -> C:
    """The config that `as_dict` or `stored_dict` came from; unknown fields and bad values are refused by full path."""
    values: dict[str, Any] = {}
    givens: dict[str, str] = {}
    for given, path, value in _entries(cls, data):
        if path is None:
            raise ConfigError(unknown_field(given, sorted(_leaf_paths(cls))))
        if path in values:
            raise ConfigError(f"{path} is given twice, as {givens[path]} and as {given}")
        values[path], givens[path] = value, given
    return _made(cls, values)


def _entries(cls: type, data: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str | None, Any]]:
    """What nested dictionaries give for leaves: the path as it is given, the present one, the value."""
    for name, value in data.items():
        given = before + name
        path = _present(cls, given)
        if isinstance(value, Mapping) and (value if path is None else path not in _leaf_paths(cls)):
            yield from _entries(cls, value, given + ".")
        else:
            yield given, path, value


def _made(cls: type[C], values: Mapping[str, Any], prefix: str = "") -> C:
    """The config of these values by present paths."""
    own: dict[str, Any] = {}
    groups: dict[str, dict[str, Any]] = {}
    for path, value in values.items():
        name, _, rest = path.partition(".")
        if rest:
            groups.setdefault(name, {})[rest] = value
        else:
            own[name] = value
    for name, inner in groups.items():
        group = _group(cls, name)
        assert group is not None
        own[name] = _made(group, inner, f"{prefix}{name}.")
    fields = {field.name: field for field in dataclasses.fields(cls)}
    own = {name: _coerce(prefix + name, value, _kinds(cls)[name], fields[name].metadata) for name, value in own.items()}
    try:
        return cls(**own)
    except ConfigError as error:  # a cross-field rule, which knows its fields by their own names only
        raise ConfigError(prefix + str(error)) from None


def find_leaf(config: Config, path: str) -> Field | None:
    """The leaf that a dotted path means: dashes are underscores, and a former name is the present one, said once."""
    given = path.replace("-", "_")
    present = _present(type(config), given)
    if present is None or present not in _leaf_paths(type(config)):
        return None
    *groups, name = present.split(".")
    place: Any = config
    for group in groups:
        place = getattr(place, group)
    field = next(field for field in dataclasses.fields(place) if field.name == name)
    if given != present:
        _say_renamed(path, present)
    return Field(present, _kinds(type(place))[name], getattr(place, name), field.metadata)


@cache
def _say_renamed(former: str, present: str) -> None:
    logging.getLogger("stairwise").warning("stairwise: %s is now called %s", short(former), present)


def named(config: Config, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The changes by the present paths of their fields; ConfigError for one that is unknown or given twice."""
    found: dict[str, Any] = {}
    for path, value in changes.items():
        field = find_leaf(config, path)
        if field is None:
            raise ConfigError(unknown_field(path, sorted(leaf.path for leaf in leaves(config))))
        if field.path in found:
            raise ConfigError(f"{field.path} is given twice")
        found[field.path] = value
    return found


def update(config: C, changes: Mapping[str, Any]) -> C:
    """The config with the fields at dotted paths changed, all at once; text is parsed by the field's type."""
    known = {field.path: field for field in leaves(config)}
    data = as_dict(config)
    for path, value in named(config, changes).items():
        if isinstance(value, str):
            value = parse(known[path], value)
        *groups, name = path.split(".")
        place = data
        for group in groups:
            place = place[group]
        place[name] = value
    return from_dict(type(config), data)


def changed(config: C, changes: Mapping[str, Any]) -> C:
    """As `update`, and quicker where no value is text to parse: groups of fields that stay the same are shared."""
    own = {path: value for path, value in changes.items() if "." not in path}
    groups: dict[str, dict[str, Any]] = {}
    for path in changes.keys() - own.keys():
        name, _, rest = path.partition(".")
        groups.setdefault(name, {})[rest] = changes[path]
    try:
        own |= {name: changed(getattr(config, name), rest) for name, rest in groups.items()}
        return dataclasses.replace(config, **own)
    except (ConfigError, TypeError, AttributeError):
        return update(config, changes)  # which parses text, and says what is wrong by full path


def parse(field: Field, text: str) -> Any:
    """The value that a command-line text means for this field."""
    kind = field.kind
    try:
        if kind is bool:
            return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}[text.strip().lower()]
        if kind is int:
            return _integer(text)
        if kind is float:
            return float(text)
        if typing.get_origin(kind) is tuple:
            item = typing.get_args(kind)[0]
            make = {int: _integer, float: float, str: str}[item]
            return tuple(make(part) for part in text.replace(" ", "").split(",") if part)
    except (ValueError, KeyError, OverflowError):
        raise ConfigError(f"{field.path}={short(text)} must be {_kind_text(kind)}") from None
    return text


def checked(field: Field, value: Any) -> Any:
    """The value, or what a text means, as the field keeps it; ConfigError, with the range, where it cannot be that."""
    value = parse(field, value) if isinstance(value, str) else value
    return _coerce(field.path, value, field.kind, field.metadata)


class NoValue:
    """Stands for a numeric field while a program is built, which trials of other values run too; any use raises."""

    def __init__(self, path: str):
        self.path = path

    def __repr__(self) -> str:
        return f"<{self.path}: numeric>"

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise TypeError(f"{self.path} is numeric: it has no value while a program is built; trial.config has it")

    def __eq__(self, other: object) -> bool:
        return self.path == other.path if isinstance(other, NoValue) else self._refuse()

    def __hash__(self) -> int:
        return hash(self.path)

    __bool__ = __int__ = __float__ = __index__ = __complex__ = __str__ = __format__ = __array__ = __iter__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __round__ = __abs__ = __neg__ = __pos__ = __len__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __pow__ = _refuse
    __rpow__ = __mod__ = __rmod__ = __floordiv__ = __rfloordiv__ = __divmod__ = __rdivmod__ = __jax_array__ = _refuse


def is_symbolic(value: Any) -> bool:
    """Whether a numeric field holds no Python number: an array or tracer of JAX, or nothing yet."""
    if type(value) in PLAIN:
        return False
    return isinstance(value, NoValue) or type(value).__module__.partition(".")[0] in ("jax", "jaxlib")


def structure(config: C, prefix: str = "") -> C:
    """The config as a program sees it while it is built: static fields as they are, numeric ones without a value."""
    made = object.__new__(type(config))
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if isinstance(value, Config):
            value = structure(value, f"{prefix}{field.name}.")
        elif field.metadata.get("numeric"):
            value = NoValue(prefix + field.name)
        object.__setattr__(made, field.name, value)
    return made


def static_fields(config: Config, prefix: str = "") -> dict[str, Any]:
    """The fields that decide which program runs, by dotted path, in the order of `leaves`."""
    found: dict[str, Any] = {}
    for name, numeric in _names(type(config)):
        value = getattr(config, name)
        if isinstance(value, Config):
            found |= static_fields(value, f"{prefix}{name}.")
        elif not numeric:
            found[prefix + name] = value
    return found


@cache
def _names(cls: type[Config]) -> list[tuple[str, bool]]:
    """The fields of a class, and whether they are numeric."""
    return [(field.name, bool(field.metadata.get("numeric"))) for field in dataclasses.fields(cls)]


def as_flags(changes: Mapping[str, Any]) -> str:
    """Changes as the command line takes them, each after a blank.

    >>> as_flags({"task.length": 8, "looks": (1, 2)})
    ' --task.length 8 --looks 1,2'
    """
    return "".join(f" --{path} {shlex.quote(as_text(value))}" for path, value in changes.items())


def as_text(value: Any) -> str:
    """A field's value as the command line takes it."""
    return ",".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)


def unknown_field(name: str, known: list[str]) -> str:
    """One line for a field that does not exist, with the nearest one that does."""
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"unknown field {short(name)}{hint} (fields: {', '.join(known)})"


def _integer(text: str) -> int:
    """Whole numbers, also as 1_000 or 2**19 or 1e5."""
    if "**" in text:
        base, _, power = text.partition("**")
        base, power = int(base), int(power)
        if not (abs(base) <= 10**6 and 0 <= power <= 64):
            raise ValueError(text)
        return base**power
    if "e" in text.lower():
        value = float(text)
        if value != int(value):
            raise ValueError(text)
        return int(value)
    return int(text)


def _coerce(name: str, value: Any, kind: Any, metadata: Mapping[str, Any]) -> Any:
    given = value
    if kind not in PLAIN and typing.get_origin(kind) is tuple:
        if not isinstance(value, (tuple, list)):
            raise ConfigError(f"{name}={short(value)} must be {_kind_text(kind)}")
        if not value and metadata.get("some"):
            each = f", each {_range_text(metadata)}" if _range_text(metadata) else ""
            raise ConfigError(f"{name}=[] must have at least one value{each}")
        item = typing.get_args(kind)[0]
        return tuple(_coerce(name, part, item, metadata) for part in value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**1000:
        value = float(value)
    if kind in PLAIN:
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise ConfigError(f"{name}={short(given)} must be {_kind_text(kind)}")
    elif isinstance(kind, type) and issubclass(kind, Config) and not isinstance(value, kind):
        raise ConfigError(f"{name}={short(given)} must be a {kind.__name__}")
    if metadata.get("choices") and value not in metadata["choices"]:
        raise ConfigError(f"{name}={short(given)} must be one of {', '.join(metadata['choices'])}")
    if isinstance(value, int | float) and kind in (int, float):
        _check_range(name, given, value, metadata)
    return value


def _check_range(name: str, given: Any, value: float, metadata: Mapping[str, Any]) -> None:
    low, high = metadata.get("low"), metadata.get("high")
    above, below = metadata.get("above"), metadata.get("below")
    inside = math.isfinite(value)
    inside &= low is None or value >= low
    inside &= high is None or value <= high
    inside &= above is None or value > above
    inside &= below is None or value < below
    if not inside or abs(value) >= 2**63:
        parts = [
            "" if math.isfinite(value) else "finite",
            _range_text(metadata),
            "below 2^63 in size" if inside else "",
        ]
        raise ConfigError(f"{name}={short(given)} must be {' and '.join(part for part in parts if part)}")


def _range_text(metadata: Mapping[str, Any]) -> str:
    parts = []
    for bound, words in (("low", "at least"), ("above", "above"), ("high", "at most"), ("below", "below")):
        if metadata.get(bound) is not None:
            parts.append(f"{words} {metadata[bound]:.15g}")
    return " and ".join(parts)


def _kind_text(kind: Any) -> str:
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    if typing.get_origin(kind) is tuple:
        return f"a list of {names[typing.get_args(kind)[0]].removeprefix('a ')}s"
    return names.get(kind, str(kind))


def short(value: Any) -> str:
    """A value as a message shows it: printable, and no longer than 60 characters."""
    text = value if isinstance(value, str) else repr(value)
    text = one_line(text)
    return text if len(text) <= 60 else text[:57] + "..."


def one_line(text: str) -> str:
    """The text with everything unprintable shown as a question mark.

    >>> one_line("two" + chr(10) + "lines")
    'two?lines'
    """
    return text if text.isprintable() else "".join(each if each.isprintable() else "?" for each in text)
