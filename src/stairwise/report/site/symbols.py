"""The symbol tables of the papers: what each letter of a formula stands for, shown when one points at it."""

import re
import tomllib
from functools import cache

from stairwise.lab.contract import latex
from stairwise.lab.contract.manifest import PAPERS

WORDS = re.compile(r"\\(?:mathrm|text|operatorname|mathbb|mathcal|mathsf)\{[^}]*\}")


@cache
def symbols(paper: str) -> tuple[dict[str, str], ...]:
    """The symbol table of a paper; empty where it has none."""
    file = PAPERS / paper / "symbols.toml"
    return tuple(tomllib.loads(file.read_text(encoding="utf-8"))["symbols"]) if file.is_file() else ()


def uses(formula: str, symbol: str) -> bool:
    r"""Whether a symbol stands in a formula; the letters of commands and of words do not count.

    >>> uses(r"\sqrt{q} \mathrm{STS}_T", "q"), uses(r"\sqrt{x}", "q"), uses("T_1 + e_{T}", "T"), uses("e_y", "y")
    (True, False, True, True)
    """
    bare = WORDS.sub(" ", formula)
    if len(symbol) == 1:
        bare = re.sub(r"\\[A-Za-z]+", " ", bare)
        return symbol in bare
    return re.search(rf"{re.escape(symbol)}(?![A-Za-z])", bare) is not None


def explained(formula: str, paper: str) -> str:
    """One line per symbol of the formula that the paper's table has."""
    return "\n".join(
        f"{latex.plain('$' + each['symbol'] + '$')}: {each['meaning']}"
        for each in symbols(paper)
        if uses(formula, each["symbol"])
    )
