"""How the words of a command become options and config fields: nothing is guessed, what is unknown is said to be.

The fields of a command's target are flags too, but which they are is known only when the target is. So the words are
read twice: first as the command's own flags and everything else that looks like a flag, whose values are kept aside;
then, with the target known, what was kept aside is held against the fields of its config.
"""

import argparse
import difflib
import shutil
import textwrap
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from stairwise.config import Config, ConfigError, Field, find_leaf, leaves, short

HELP = ("-h", "--help")
FEW = 12  # fields that can be read in one line


class Wrapped(argparse.HelpFormatter):
    """Fills paragraphs to the width of the terminal, and leaves lines that begin with two spaces as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(
            line if line.startswith("  ") else textwrap.fill(line, width, break_on_hyphens=False)
            for line in text.split("\n")
        )


class Parser(argparse.ArgumentParser):
    """Refuses in one line. `commands` of the topmost parser has those of the commands by name."""

    commands: dict[str, "Parser"]

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message} ({self.prog} --help)")

    @property
    def flags(self) -> list[str]:
        """Its own flags, as they are written: -o, --out."""
        return list(self._option_string_actions)


def read(command: Parser, called: ModuleType, words: list[str]) -> tuple[argparse.Namespace, dict[str, str]]:
    """The options and the config fields that the words of a command mean."""
    kept: dict[str, str | None] = {}
    words = with_config_file(command, words)
    if hasattr(called, "configs_of"):
        words, kept = split_fields(words, command.flags)
    else:
        _check_flags(command, words)
    check_options(command, words)
    try:
        options = command.parse_args(words)
    except ConfigError:
        if not _names_target(_leniently(command, words)):  # a mistyped flag may have taken it for its value
            for name in kept:
                if _nearest(name, command.flags, alike=0.8):
                    raise ConfigError(unknown_flag(command, name)) from None
        raise
    return options, _fields(command, called.configs_of(options), kept) if kept else {}


def with_config_file(command: Parser, words: list[str]) -> list[str]:
    """The words with those that the file of --config means; what is given beside it stays as it is given."""
    name = config_file(command, words)
    if name is None:
        return words
    from stairwise.lab.run.settings import words_of

    target, *meant = words_of(Path(name))
    given = {_knob(word) for word in words if word.startswith("--")}
    kept, _ = split_fields(words, command.flags)
    named = getattr(_leniently(command, list(kept)), "target", None)
    if named is not None and named != target:
        raise ConfigError(f"{name}: experiment={target} must be {named}, the one that is named beside --config")
    if any(word.startswith("--grid=") for word in meant) and "--grid" not in command.flags:
        raise ConfigError(f"{name}: a grid is for stairwise sweep --config {name}")
    return [*([] if named else [target]), *words, *(word for word in meant if _knob(word) not in given)]


def config_file(command: Parser, words: list[str]) -> str | None:
    """The file that --config names, where the command has that flag and it is given."""
    flag = command._option_string_actions.get("--config")
    if flag is None or flag.nargs == 0:  # that of `show` takes no file
        return None
    for place, word in enumerate(words):
        if word.startswith("--config="):
            return word.partition("=")[2]
        if word == "--config" and place + 1 < len(words):
            return words[place + 1]
    return None


def _knob(word: str) -> str:
    """What a flag sets, in one spelling."""
    return word.partition("=")[0].replace("-", "_")


def split_fields(words: list[str], known: Iterable[str]) -> tuple[list[str], dict[str, str | None]]:
    """Separate config fields (`--task.length 8`, `--task.length=8`) from the flags that a command knows.

    The value of a field that the words end with is None.
    """
    rest: list[str] = []
    fields: dict[str, str | None] = {}
    position = 0
    while position < len(words):
        word = words[position]
        name, has_value, value = word.removeprefix("--").partition("=")
        position += 1
        if not word.startswith("--") or word == "--" or f"--{name}" in known:
            rest.append(word)
            continue
        if not has_value:
            value = words[position] if position < len(words) else None
            position += 1
        if name in fields:
            raise ConfigError(f"--{name} is given twice: {fields[name]} and {value}")
        fields[name] = value
    return rest, fields


def _check_flags(command: Parser, words: list[str]) -> None:
    """ConfigError for a flag that is none, of a command that takes no fields."""
    for word in words[: words.index("--")] if "--" in words else words:
        flag = word.partition("=")[0]
        if flag.startswith("--") and flag not in command.flags:
            raise ConfigError(unknown_flag(command, flag.removeprefix("--")))


def _fields(command: Parser, configs: Mapping[str, Config] | None, kept: Mapping[str, str | None]) -> dict[str, str]:
    """What was kept aside, if all of it are fields with values; the action judges them where there are no configs."""
    found = {}
    for name, value in kept.items():
        if configs is not None and not any(find_leaf(config, name) for config in configs.values()):
            paths = dict.fromkeys(leaf.path for config in configs.values() for leaf in leaves(config))
            raise ConfigError(unknown_flag(command, name, sorted(paths)))
        if value is None:
            known = configs is not None or _nearest(name, command.flags) is None
            raise ConfigError(f"--{name} needs a value" if known else unknown_flag(command, name))
        found[name] = value
    return found


def unknown_flag(command: Parser, name: str, fields: Iterable[str] = ()) -> str:
    """One line for a flag that is neither the command's nor a field, with the nearest that is."""
    fields = list(fields)
    near = _nearest(name, [*command.flags, *fields])
    hint = f"; did you mean --{near}?" if near else ""
    known = f"; fields: {', '.join(fields)}" if fields else ""
    if near and len(fields) > FEW:
        return f"unknown flag --{short(name)}{hint} (--help lists all)"
    return f"unknown flag --{short(name)}{hint} ({command.prog} --help{known})"


def _nearest(name: str, known: Iterable[str], alike: float = 0.6) -> str | None:
    """The flag or field that is most like a name; a field is also known by the last part of its path."""
    meant: dict[str, str] = {}
    for flag in known:
        path = flag.lstrip("-")
        meant |= {path.rpartition(".")[2]: path, path: path}
    found = difflib.get_close_matches(name, meant, n=1, cutoff=alike)
    return meant[found[0]] if found else None


def check_options(command: Parser, words: list[str]) -> None:
    """ConfigError for a flag that is given twice, unless it gathers its values, and for one without any."""
    seen: set[str] = set()
    for word in words[: words.index("--")] if "--" in words else words:
        flag = word.partition("=")[0] if word.startswith("--") else word[:2]
        action = command._option_string_actions.get(flag)
        if action is None:
            continue
        if word == f"{flag}=--":  # which argparse takes for no value at all
            raise ConfigError(f"{flag} needs a value ({command.prog} --help)")
        if action.dest in seen:
            raise ConfigError(f"{flag} is given twice ({command.prog} --help)")
        if type(action).__name__ not in ("_AppendAction", "_ExtendAction", "_HelpAction"):
            seen.add(action.dest)


def _leniently(command: Parser, words: list[str]) -> argparse.Namespace | None:
    """The options where much may be missing: what matters is which word is the target. Leaves the parser lenient."""
    for action in command._actions:
        action.required = False
        if not action.option_strings and action.nargs is None:
            action.nargs = "?"
    with suppress(ConfigError):
        return command.parse_known_args(words)[0]
    return None


def _names_target(options: argparse.Namespace | None) -> bool:
    return options is not None and any(getattr(options, place, None) for place in ("target", "targets", "task"))


# --- help -------------------------------------------------------------------------------------------------------------


def print_help(command: Parser, called: ModuleType, words: list[str]) -> None:
    """The command's own flags, and the config fields of its target where one is named."""
    text = command.format_help()
    words, _ = split_fields([word for word in words if word not in HELP], command.flags)
    options = _leniently(command, words)
    configs = (called.configs_of(options) if _names_target(options) else None) or {}
    print(text)
    width = shutil.get_terminal_size().columns - 2  # as argparse has it
    for target, config in list(configs.items())[:1]:
        print(f"fields of {target}:")
        for field in leaves(config):
            print(_field_lines(field, width))


def _field_lines(field: Field, width: int) -> str:
    choices = field.metadata.get("choices")
    kind = f"{{{','.join(choices)}}}" if choices else getattr(field.kind, "__name__", "list").upper()
    kind = "VALUES" if isinstance(field.default, tuple) else kind
    default = ",".join(map(str, field.default)) or "none" if isinstance(field.default, tuple) else field.default
    limits = f", {field.range}" if field.range else ""
    said = f"{field.metadata.get('help', '')} (default: {default}{limits})"
    filled = textwrap.fill(said, max(width, 40), initial_indent=" " * 6, subsequent_indent=" " * 6)
    return f"  --{field.path} {kind}\n{filled}"
