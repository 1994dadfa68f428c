"""Source files as pages, so that every claim links to the lines that check it."""

import hashlib
import inspect
from collections.abc import Callable
from functools import cache, partial
from html import escape
from pathlib import Path
from typing import Any

from markupsafe import Markup

from stairwise.lab.store.provenance import locate
from stairwise.report.site.folder import slug


def place_of(function: Callable[..., Any]) -> tuple[str, int]:
    """Module and first line of a function."""
    while isinstance(function, partial):
        function = function.func
    inner = inspect.unwrap(function)
    return inner.__module__, inner.__code__.co_firstlineno


def name_of(function: Callable[..., Any]) -> str:
    """As "module:function": the same in every process."""
    return f"{function.__module__}:{function.__qualname__}"


@cache
def source_file(module: str) -> Path:
    """The file of a module; ValueError where there is none."""
    place = locate(module)
    return place / "__init__.py" if place.is_dir() else place


def page_name(module: str) -> str:
    return f"code/{slug(module)}.html"


def link(place: tuple[str, int]) -> str:
    """Where the code is within the site."""
    return f"{page_name(place[0])}#L{place[1]}"


def fingerprint(module: str) -> str:
    try:
        return hashlib.sha256(source_file(module).read_bytes()).hexdigest()
    except (OSError, ValueError):
        return ""


def highlighted(module: str) -> Markup:
    """The module's lines, numbered, each with an anchor."""
    from pygments import lex
    from pygments.lexers import PythonLexer
    from pygments.token import STANDARD_TYPES

    try:
        text = source_file(module).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return Markup("<p>This file cannot be read.</p>")
    lines, line = [], ""
    for kind, value in lex(text, PythonLexer()):
        name = STANDARD_TYPES.get(kind, "")[:1] if kind in STANDARD_TYPES else ""
        for number, part in enumerate(value.split("\n")):
            if number:
                lines.append(line)
                line = ""
            if part:
                line += f'<span class="k-{name}">{escape(part)}</span>' if name in "kscmno" and name else escape(part)
    lines += [line] if line else []
    numbered = (
        f'<li id="L{number}"><code>{content or " "}</code></li>' for number, content in enumerate(lines, start=1)
    )
    return Markup(f'<ol class="code">{"".join(numbered)}</ol>')
