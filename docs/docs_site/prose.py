"""The prose linter: words that a stranger would stumble over, mathematics in ASCII, and paragraphs full of numbers.

`python docs/docs_site/prose.py` reads the pages, the READMEs and the help texts, prints one line per finding, and ends
with status 1 where there is one. `make lint` runs it. The word list is words.toml beside it.
"""

import ast
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
LIST = tomllib.loads((Path(__file__).parent / "words.toml").read_text(encoding="utf-8"))
WORDS = [(re.compile(word["pattern"], re.IGNORECASE), word["say"]) for word in LIST["word"]]
MATHEMATICS = re.compile(
    r"(?<![\w/`.-])(?:[A-Za-z]+_\{?[A-Za-z0-9]+\}?|[\w)]+\^[\w({-]+|\w+ (?:<=|>=) \w+)(?![\w.]*\()"
)
NUMBER = re.compile(r"(?<![\w^_{.-])-?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?(?![\w.]*\d|[\w-]*[A-Za-z]\d)")
NAMED = re.compile(
    r"\b(?:Theorem|Lemma|Corollary|Proposition|Remark|Definition|Assumption|Algorithm|Equation|Figure|Table|Section|Appendix)"
    r"s?\.? (?:[A-Z]\.?)?\d[\d.]*[a-z]?(?:(?:,| and| to) (?:[A-Z]\.?)?\d[\d.]*[a-z]?)*"
    r"|\b(?:19|20)\d\d\b|eq\. \(\d+\)"
)
FORMULA = re.compile(r"\$[^$\n]+\$")
MOST_NUMBERS = 3
GENERATED = re.compile(r"\A---\n.*?\n---\n|<!-- generated.*?<!-- end of what is generated -->", re.DOTALL)
MADE = (
    "errata.md",
    "statements.md",
    "assumptions.md",
    "audit.md",
    "laws.md",
    "paper-presets.md",
)  # from claims, which are read
PARSER = MarkdownIt("commonmark").enable("table")


def pieces(markdown: str) -> Iterator[tuple[int, str, bool]]:
    """Every piece of prose: its line, its words without code and formulas, and whether it is a paragraph.

    >>> list(pieces("Loss `x_1` is $x_2$ in 3 runs.\\n\\n| a |\\n| --- |\\n| b |"))
    [(1, 'Loss … is … in 3 runs.', True), (3, 'a', False), (5, 'b', False)]
    """
    tokens = PARSER.parse(GENERATED.sub(lambda found: "\n" * found[0].count("\n"), markdown))
    for before, token in pairwise(tokens):
        if token.type != "inline" or token.map is None:
            continue
        shown = {"text": None, "softbreak": " ", "code_inline": "…"}
        words = "".join(
            child.content if shown.get(child.type, "") is None else shown.get(child.type, "")
            for child in token.children or ()
        )
        yield token.map[0] + 1, FORMULA.sub("…", words), before.type == "paragraph_open"


def findings(markdown: str) -> Iterator[tuple[int, str]]:
    """Words to replace in a page: the line and the advice.

    >>> list(findings("It holds at .5 and for d_e rows."))
    [(1, "'.5': write a leading zero: 0.15"), (1, "'d_e': write mathematics as LaTeX, names as code")]
    """
    for line, words, _ in pieces(markdown):
        for pattern, say in WORDS:
            yield from ((line, f"{found[0].strip()!r}: write {say}") for found in pattern.finditer(words))
        for found in MATHEMATICS.finditer(words):
            yield line, f"{found[0]!r}: write mathematics as LaTeX, names as code"


def crowded(markdown: str) -> list[tuple[int, str]]:
    """Paragraphs with more numbers than a reader can hold; names such as Theorem 3 are none.

    >>> crowded("Theorem 3 gives 0.1, 0.2, 0.3 and 0.4.")
    [(1, '4 numbers in a paragraph (0.1 0.2 0.3 0.4): make a table of them')]
    """
    found = []
    for line, words, paragraph in pieces(markdown):
        numbers = NUMBER.findall(NAMED.sub("", words)) if paragraph else []
        if len(numbers) > MOST_NUMBERS:
            found.append((line, f"{len(numbers)} numbers in a paragraph ({' '.join(numbers)}): make a table of them"))
    return found


def pages() -> Iterator[tuple[str, str]]:
    """Every page with its text; of a notebook, its prose."""
    places = ("*.md", "docs/**/*.md", "src/stairwise/papers/*/README.md", "src/stairwise/stories/**/*.md")
    for path in sorted(path for place in places for path in ROOT.glob(place) if path.name not in MADE):
        yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        prose = ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
        yield path.relative_to(ROOT).as_posix(), "\n\n".join(prose)


def helps() -> Iterator[tuple[Path, int, str]]:
    """The help texts in the code: of options of a config, and of the command line."""
    folders = [ROOT / "src" / "stairwise" / name for name in ("papers", "commands", "skeleton")]
    for path in sorted(path for folder in folders for path in folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                named = [word.value for word in node.keywords if word.arg in ("help", "says", "note", "caption")]
                first = node.args[1:] if getattr(node.func, "id", "") == "option" else []
                for text in (*named, *first):
                    if isinstance(text, ast.Constant) and isinstance(text.value, str):
                        yield path, text.lineno, text.value


def main() -> int:
    found: list[str] = []
    for name, text in pages():
        found += [f"{name}:{line}: {what}" for line, what in sorted((*findings(text), *crowded(text)))]
    for path, line, text in helps():
        words = ((pattern.search(FORMULA.sub("", text)), say) for pattern, say in WORDS)
        found += [f"{path.relative_to(ROOT)}:{line}: {hit[0].strip()!r}: write {say}" for hit, say in words if hit]
    print("\n".join(found), end="\n" if found else "")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
