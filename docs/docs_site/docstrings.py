"""Docstrings as the site shows them: formulas and tables that are laid out by hand, and examples, keep their layout."""

import re
import textwrap

import griffe

from docs_site.links import escaped

LAID_OUT = re.compile(r"\S {2,}\S|^ +\S", re.MULTILINE)


def paragraph(text: str) -> str:
    """One paragraph of a docstring as Markdown.

    >>> print(paragraph("a    first\\nbb   second"))
    ```text
    a    first
    bb   second
    ```
    """
    if text.startswith(">>>"):
        return f"```pycon\n{text}\n```"
    if LAID_OUT.search(text) and not text.startswith(("- ", "* ", "```")):
        return f"```text\n{textwrap.dedent(text)}\n```"
    return escaped(text).replace("*", "\\*") if "**" not in text and "`" not in text else escaped(text)


def as_markdown(docstring: str) -> str:
    paragraphs = re.split(r"\n{2,}", docstring.strip())
    return "\n\n".join(paragraph(part) for part in paragraphs)


class KeepLayout(griffe.Extension):
    """Runs over every object that Griffe has read."""

    def on_instance(self, *, obj: griffe.Object, **kwargs) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
