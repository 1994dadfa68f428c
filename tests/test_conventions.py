"""Conventions that no type checker sees: draws name their dtype, nothing touches x64 or pickles, papers have a page."""

import re
from pathlib import Path

from stairwise.lab import registry

SOURCE = Path(__file__).parents[1] / "src" / "stairwise"
FILES = sorted(SOURCE.rglob("*.py"))
# draws whose default dtype follows jax_enable_x64; rademacher, permutation and choice take or keep another's
DRAWS = r"jax\.random\.(normal|uniform|bits|randint|laplace|exponential|gumbel|truncated_normal|rademacher)\("


def calls(text: str, pattern: str):
    """Each call of the pattern with its whole argument list."""
    for match in re.finditer(pattern, text):
        depth, end = 1, match.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        yield text[match.start() : end]


def test_every_random_draw_names_its_dtype():
    missing = [
        f"{path.relative_to(SOURCE)}: {call}"
        for path in FILES
        for call in calls(path.read_text(), DRAWS)
        if not re.search(r"dtype|jnp\.(float|int|uint)\d+", call)
    ]
    assert missing == []


def test_only_those_who_run_things_switch_float64_on():
    allowed = {"lab/execute.py", "lab/verify.py", "report/doctor.py", "bench/run.py"}
    found = {
        str(path.relative_to(SOURCE))
        for path in FILES
        if re.search(r"with jax\.enable_x64\(|jax_enable_x64\"", path.read_text())
        and "config.read" not in path.read_text()
    }
    assert found <= allowed


def test_nothing_pickles():
    assert [
        str(path) for path in FILES if re.search(r"\bimport pickle|allow_pickle=True|\.to_pickle", path.read_text())
    ] == []


def test_every_paper_has_a_page_that_names_its_errata_and_its_code():
    for module in registry.modules().values():
        if module.startswith("stairwise.papers."):
            page = SOURCE.joinpath("papers", module.rpartition(".")[2], "README.md").read_text()
            assert "## Errata" in page
            assert "## Where each statement lives" in page


def test_claims_are_kinds_and_ids_that_can_be_typed():
    for paper in registry.papers():
        for claim in paper.claims:
            assert re.fullmatch(r"[A-Za-z0-9.-]+", claim.id)
            assert len(claim.says) <= 160
            assert claim.check is None or claim.cases
