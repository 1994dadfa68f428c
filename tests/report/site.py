"""What tests of the site share: building it, and reading its pages as a browser would."""

import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from stairwise.lab.store.store import Store
from stairwise.report.site.build import build


class Tags(HTMLParser):
    """Every tag of a page with its attributes, and the text between tags."""

    def __init__(self, page: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def values(self, *names: str) -> list[str]:
        return [attributes[name] or "" for _, attributes in self.tags for name in names if name in attributes]


def built(store: Store, out: Path) -> Path:
    """The folder of the site."""
    return build(store, out).parent


def pages(site: Path) -> dict[str, str]:
    return {path.relative_to(site).as_posix(): path.read_text("utf-8") for path in sorted(site.rglob("*.html"))}


def text_of(page: str) -> str:
    """A page, or a piece of one, as text; spaces and line breaks made even."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page)).split())


def chunk_of(path: Path) -> tuple[str, object]:
    """Name and value that a data chunk hands to the script."""
    call = re.fullmatch(r"stairwise\.receive\((\"[^\"]*\"),(.*)\);\n", path.read_text("ascii"), re.DOTALL)
    assert call is not None, f"{path} is no chunk"
    return json.loads(call[1]), json.loads(call[2])


def broken_links(site: Path) -> list[str]:
    """Links and sources that lead nowhere: no such file, or no such place in it."""
    found = pages(site)
    ids = {name: set(Tags(page).values("id")) for name, page in found.items()}
    broken = []
    for name, page in found.items():
        for target in Tags(page).values("href", "src"):
            if target.startswith("data:"):
                continue
            parts = urlsplit(target)
            path = (site / name).parent / unquote(parts.path) if parts.path else site / name
            place = path.resolve().relative_to(site.resolve()).as_posix()
            fragment_is_place = parts.fragment and "=" not in parts.fragment and place.endswith(".html")
            if not path.is_file() or (fragment_is_place and parts.fragment not in ids[place] | {""}):
                broken.append(f"{name}: {target}")
    return [each for each in broken if not each.endswith("ledger.html#")]
