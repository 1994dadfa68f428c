"""What MkDocs asks while it builds: the navigation, the pages that are made from code, and links that leave docs/."""

import re
from pathlib import Path

from mkdocs.structure.files import File

from docs_site import links, notebooks, pages

DOCS = Path(__file__).parent
SECTIONS = {
    "Tutorials": "tutorials",
    "How-to": "how-to",
    "Notebooks": "notebooks",
    "Papers": "papers",
    "Claims": "claims",
    "Results": "results",
    "Reference": "api",
}
FIRST = re.compile(r"(^|/)(index|README|first-[\w-]+)\.md$")


def generated() -> dict[str, str | bytes]:
    """Every page (and picture) that no file of docs/ holds, by its address."""
    makers = (pages.papers, pages.claims, pages.gallery, pages.reference, pages.repository, notebooks.pages)
    return {name: content for make in makers for name, content in make().items()}


def on_config(config):
    """The navigation: what each folder has, an index and first steps before the rest; unlisted folders come last."""
    made = [name for name in generated() if name.endswith(".md")]
    written = [path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")]
    known = sorted({*made, *written}, key=lambda name: (not FIRST.search(name), name))

    def inside(folder: str) -> list[str]:
        return [name for name in known if name.startswith(f"{folder}/")]

    others = sorted({name.partition("/")[0] for name in known if "/" in name} - set(SECTIONS.values()))
    sections = SECTIONS | {folder.capitalize(): folder for folder in others}
    config.nav = [
        {"Start": "index.md"},
        *({title: inside(folder)} for title, folder in sections.items() if inside(folder)),
        {"Design": "design.md"},
        {"Gallery": "gallery.md"},
        {"Project": ["contributing.md", "changelog.md"]},
    ]
    return config


def on_files(files, config):
    for name, content in generated().items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown, page, config, files):
    filled = pages.fill(markdown)
    return links.escaped(links.inside(filled, page.file.src_uri))
