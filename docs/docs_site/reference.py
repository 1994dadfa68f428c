"""The reference, read from the source without importing it: public definitions, their signatures and docstrings."""

import ast
import pkgutil
import re
import textwrap
from pathlib import Path

from docs_site.code import file_of
from docs_site.links import ROOT, escaped
from stairwise import _HOMES

ROOMS = {
    "nn": "Building blocks",
    "tasks": "Tasks",
    "train": "Training",
    "measure": "Measuring",
    "interop": "Bridges",
}
CONTRACT = ("paper", "claims", "experiment", "sources", "verdict", "checks", "answers", "microscope", "plots")
AT_HAND = ("stairwise.lab.api.Result", "stairwise.lab.store.trial.StoredTrial", "stairwise.lab.ledger.verify.LedgerRow")
LAID_OUT = re.compile(r"\S {2,}\S|^ +\S", re.MULTILINE)
Definition = ast.FunctionDef | ast.ClassDef


def pages() -> dict[str, str]:
    """A page for the names of `stairwise`, one for the contract, and one for each room of the kernel."""
    names = [f"{module}.{name}" for name, module in sorted(_HOMES.items())] + list(AT_HAND)
    made = {
        "api/index.md": "# `stairwise`\n\nWhat `import stairwise as sw` offers, and what its functions give back.\n\n"
        + "\n\n".join(named(name) for name in names),
        "api/contract.md": "# The contract\n\nWhat a paper hands to the laboratory.\n\n"
        + "\n\n".join(module(f"stairwise.lab.contract.{name}") for name in CONTRACT),
    }
    for room, title in ROOMS.items():
        package = ROOT / "src" / "stairwise" / room
        doc = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
        modules = [f"stairwise.{room}.{found.name}" for found in pkgutil.iter_modules([str(package)])]
        blocks = "\n\n".join(module(name) for name in modules)
        made[f"api/{room}.md"] = f"# {title}: `stairwise.{room}`\n\n{as_markdown(doc)}\n\n{blocks}\n"
    return made


def named(name: str) -> str:
    """One definition by its full name."""
    home, _, last = name.rpartition(".")
    found = [node for node in public(file_of(home)) if node.name == last]
    return definition(found[0], home, "##", last)


def module(name: str) -> str:
    doc = ast.get_docstring(ast.parse(file_of(name).read_text(encoding="utf-8"))) or ""
    inside = [definition(node, name, "###", node.name) for node in public(file_of(name))]
    return "\n\n".join([f"## `{name}`", as_markdown(doc), *inside])


def public(file: Path) -> list[Definition]:
    body = ast.parse(file.read_text(encoding="utf-8")).body
    return [node for node in body if isinstance(node, Definition) and not node.name.startswith("_")]


def definition(node: Definition, home: str, level: str, title: str) -> str:
    """A definition with its docstring, and a class with its public methods."""
    anchor = f'<a id="{home}.{node.name}"></a>'
    parts = [
        f"{level} `{title}`",
        anchor,
        f"```python\n{signature(node)}\n```",
        as_markdown(ast.get_docstring(node) or ""),
    ]
    if isinstance(node, ast.ClassDef):
        for each in node.body:
            if isinstance(each, ast.FunctionDef) and not each.name.startswith("_") and ast.get_docstring(each):
                parts += [f"```python\n{signature(each)}\n```", as_markdown(ast.get_docstring(each) or "")]
    return "\n\n".join(part for part in parts if part)


def signature(node: Definition) -> str:
    """The first line of a definition, one parameter per line where it is long, and the fields of a class.

    >>> print(signature(ast.parse("def f(a: int, *, b: str = '') -> None: ...").body[0]))
    def f(a: int, *, b: str='') -> None
    """
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(ast.unparse(base) for base in node.bases)
        fields = [f"    {ast.unparse(each)}" for each in node.body if isinstance(each, ast.AnnAssign)]
        return "\n".join([f"class {node.name}({bases}):" if bases else f"class {node.name}:", *fields])
    returned = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    line = f"def {node.name}({ast.unparse(node.args)}){returned}"
    if len(line) <= 100:
        return line
    taken = re.split(r", (?=\*?\*?\w+(?::|=|,|$)|\*,)", ast.unparse(node.args))
    return "\n".join([f"def {node.name}(", *(f"    {each}," for each in taken), f"){returned}"])


def paragraph(text: str) -> str:
    """One paragraph of a docstring as Markdown: formulas and tables that are laid out by hand keep their layout.

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
    return "\n\n".join(paragraph(part) for part in re.split(r"\n{2,}", docstring.strip()) if part)
