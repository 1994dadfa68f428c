"""Modules as pages, so that a claim links to the lines that check it."""

import ast
import posixpath
import re
from collections.abc import Iterator
from functools import cache

from docs_site.links import ROOT
from stairwise.lab.contract import manifest

SOURCE = ROOT / "src"


@cache
def shown() -> frozenset[str]:
    """The modules that have a page: those in which a claim's check or formula stands, and the certificates."""
    claims = [claim for paper in manifest.built_in() for claim in manifest.read(paper)["claims"]]
    scripts = SOURCE.glob("stairwise/papers/*/certificates/*.py")
    certificates = {".".join(script.relative_to(SOURCE).with_suffix("").parts) for script in scripts}
    return frozenset(ref.partition(":")[0] for claim in claims for ref in (claim["check"], *claim["of"])) | certificates


def file_of(module: str):
    path = SOURCE / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def page_of(module: str) -> str:
    return f"code/{module.removeprefix('stairwise.')}.md"


def link(reference: str, page: str) -> str:
    """A link from a page to a definition, as HTML; its name alone where its module has no page.

    >>> link("stairwise.nn.encodings:one_hot", "claims/selection.md")
    '<a href="../code/nn.encodings.html#one_hot"><code>one&#95;<wbr>hot</code></a>'
    """
    module, _, name = reference.partition(":")
    if module not in shown():
        return f"<code>{broken(name)}</code>"
    place = posixpath.relpath(page_of(module).replace(".md", ".html"), posixpath.dirname(page) or ".")
    return f'<a href="{place}#{name.partition(".")[0]}"><code>{broken(name)}</code></a>'


def broken(name: str) -> str:
    """A name as HTML within Markdown, which may be broken after an underscore or a dot and is never emphasised.

    >>> broken("Model.__call__")
    'Model.<wbr>&#95;&#95;call&#95;&#95;'
    """
    return re.sub(r"(?<=[a-z0-9])(&#95;|\.)(?=[A-Za-z0-9]|&#95;&#95;[a-z])", r"\1<wbr>", name.replace("_", "&#95;"))


def parts(text: str) -> Iterator[tuple[str, int, str]]:
    """A module cut at its definitions: name of the first one (or none), its line, the lines.

    >>> list(parts("import os\\n\\n\\n@cache\\ndef f():\\n    return 1\\n"))
    [('', 1, 'import os'), ('f', 4, '@cache\\ndef f():\\n    return 1')]
    """
    lines = text.splitlines()
    found = [("", 1)]
    for node in ast.parse(text).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.append((node.name, min(node.lineno, *(each.lineno for each in node.decorator_list), node.lineno)))
    for (name, line), (_, after) in zip(found, [*found[1:], ("", len(lines) + 1)], strict=True):
        block = "\n".join(lines[line - 1 : after - 1]).rstrip()
        if block:
            yield name, line, block


def pages() -> dict[str, str]:
    return {page_of(module): page(module) for module in sorted(shown())}


def page(module: str) -> str:
    blocks = [
        f'<a id="{name}"></a>\n\n````{{code-block}} python\n:lineno-start: {line}\n\n{block}\n````'
        for name, line, block in parts(file_of(module).read_text(encoding="utf-8"))
    ]
    return f"---\norphan: true\n---\n\n# `{module}`\n\n" + "\n\n".join(blocks) + "\n"
