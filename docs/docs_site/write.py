"""Write the pages of the site to a folder, for Sphinx to build: `python docs/docs_site/write.py .cache/docs`.

A page is a Markdown file of docs/ or is made from the code. The navigation follows from the folders.
"""

import re
import shutil
import sys
from pathlib import Path

DOCS = Path(__file__).parents[1]
sys.path.insert(0, str(DOCS))  # so that the script runs from any folder

from docs_site import claims, code, links, notebooks, pages, published, reference  # noqa: E402

SECTIONS = {
    "Tutorials": "tutorials",
    "How-to": "how-to",
    "Notebooks": "notebooks",
    "Papers": "papers",
    "Claims": "claims",
    "Results": "results",
    "Reference": "api",
}
PROJECT = (
    "glossary",
    "design",
    "compatibility",
    "gallery",
    "laws",
    "errata",
    "statements",
    "assumptions",
    "audit",
    "contributing",
    "changelog",
)
FIRST = re.compile(r"(^|/)(index|README|first-[\w-]+)\.md$")
FRONT = re.compile(r"\A---\n.*?\n---\n+", re.DOTALL)


def contents() -> dict[str, str | bytes]:
    """Every page and picture of the site, by its address."""
    made_from_code = (pages.papers, claims.pages, pages.gallery, reference.pages, pages.repository)
    makers = (*made_from_code, published.pages, notebooks.pages, code.pages)
    made: dict[str, str | bytes] = {name: content for make in makers for name, content in make().items()}
    for path in sorted(DOCS.rglob("*")):
        name = path.relative_to(DOCS).as_posix()
        if path.suffix == ".md":
            made[name] = links.inside(pages.fill(FRONT.sub("", path.read_text(encoding="utf-8"))), name)
        elif path.suffix in (".png", ".svg", ".css"):
            made[name] = path.read_bytes()
    made["index.md"] = f"{made['index.md']}\n{navigation(list(made))}"
    return {name: with_parts(name, content) for name, content in made.items()}


def with_parts(name: str, content: str | bytes) -> str | bytes:
    """The pages of a paper stand below its first one."""
    if not isinstance(content, str) or name.startswith("code/"):
        return content
    text = links.escaped(content)
    if re.fullmatch(r"papers/\w+/index\.md", name):
        text += "\n" + tree("", ["errata", "map"])
    return text


def navigation(names: list[str]) -> str:
    """What each folder has, an index and first steps before the rest; a folder that is not listed comes last."""
    known = sorted((name for name in names if name.endswith(".md")), key=lambda name: (not FIRST.search(name), name))
    listed = [name for name in known if not re.search(r"papers/\w+/(errata|map)\.md", name)]
    others = sorted({name.partition("/")[0] for name in listed if "/" in name} - {*SECTIONS.values(), "code"})
    sections = SECTIONS | {folder.capitalize(): folder for folder in others}
    inside = {
        title: [name.removesuffix(".md") for name in listed if name.startswith(f"{folder}/")]
        for title, folder in sections.items()
    }
    return "\n".join(
        tree(title, entries) for title, entries in (inside | {"Project": list(PROJECT)}).items() if entries
    )


def tree(title: str, entries: list[str]) -> str:
    caption = f":caption: {title}\n" if title else ""
    listed = "\n".join(entries)
    return f"```{{toctree}}\n:hidden:\n:maxdepth: 1\n{caption}\n{listed}\n```\n"


def main() -> int:
    folder = Path(sys.argv[1])
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in contents().items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
