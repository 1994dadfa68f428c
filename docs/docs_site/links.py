"""Text that GitHub would show from the repository, made fit for the site: links, paths and angle brackets."""

import posixpath
import re
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
CODE = re.compile(r"(^```.*?^```[^\n]*$|^~~~.*?^~~~[^\n]*$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
FORMULA = re.compile(r"(\$[^$\n]+\$)")
HTML = re.compile(r"<(?!/?(?:div|span|figure|figcaption|img|br|wbr|code|a)\b|https?:|!--)")
ELSEWHERE = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """The text with its prose changed and its code left alone.

    >>> outside_code("a `a` a", str.upper)
    'A `a` A'
    """
    parts = CODE.split(text)
    return "".join(part if k % 2 else change(part) for k, part in enumerate(parts))


def escaped(text: str) -> str:
    """Angle brackets of prose are no HTML; those of formulas stay, since their converter escapes them.

    >>> escaped("|<e_i, e_y>| <= 1, `<b>`, $a < b$")
    '|&lt;e_i, e_y>| &lt;= 1, `<b>`, $a < b$'
    """

    def change(prose: str) -> str:
        parts = FORMULA.split(prose)
        return "".join(part if k % 2 else HTML.sub("&lt;", part) for k, part in enumerate(parts))

    return outside_code(text, change)


def address(path: str) -> str | None:
    """The site's page of a file of the repository; none where it has no page.

    >>> address("src/stairwise/nn/encodings.py"), address("Makefile")
    ('code/nn.encodings.md', None)
    """
    from docs_site import code

    module = re.fullmatch(r"src/(stairwise/\w+(?:/\w+)*?)(?:/__init__)?\.py", path)
    if module:
        name = module[1].replace("/", ".")
        return code.page_of(name) if name in code.shown() else None
    paper = re.fullmatch(r"src/stairwise/papers/(\w+)(?:/README\.md)?/?", path)
    if paper:
        return f"papers/{paper[1]}/index.md"
    if path.startswith("docs/"):
        if (ROOT / path).is_dir():
            return address(f"{path}/README.md") if (ROOT / path / "README.md").is_file() else None
        return re.sub(r"(notebooks/.*)\.ipynb$", r"\1.md", path.removeprefix("docs/"))
    return ELSEWHERE.get(path)


def inside(text: str, page: str, home: str | None = None) -> str:
    """Relative links of a text made links of the site; a file that has no page is named instead.

    page   where the text will be shown
    home   the file of the repository that it comes from (default: the page itself)

    >>> inside("see [it](../selection/README.md)", "papers/lego/index.md", "src/stairwise/papers/lego/README.md")
    'see [it](../selection/index.md)'
    >>> inside("see [it](../Makefile), [there](results/) and [here](#part)", "design.md")
    'see it (`Makefile`), [there](results/README.md) and [here](#part)'
    """
    home = home or f"docs/{page}"

    def relative(path: str) -> str:
        return posixpath.relpath(path, posixpath.dirname(page) or ".")

    def link(match: re.Match) -> str:
        mark, words, target = match.groups()
        if re.match(r"[a-z]+:|#", target):
            return match[0]
        file, _, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(home), file))
        place = address(path)
        if place is None:
            return f"{words} (`{path}`)"
        if place == "index.md":  # it has some of the README's parts only
            anchor = ""
        return f"{mark}[{words}]({relative(place)}{'#' + anchor if anchor else ''})"

    def path_in_code(match: re.Match) -> str:
        place = address(match[1])
        known = place is not None and place != page and (ROOT / match[1]).is_file()
        return f"[`{match[1]}`]({relative(place)})" if known else match[0]

    linked = outside_code(text, lambda prose: LINK.sub(link, prose))
    return re.sub(r"(?<!\[)`(docs/[\w/-]+\.(?:md|png))`", path_in_code, linked) if home != f"docs/{page}" else linked
