"""Conventions that no type checker sees: draws name their dtype, nothing touches x64 or pickles, papers have a page."""

import ast
import inspect
import json
import re
import textwrap
from functools import partial
from pathlib import Path

from stairwise import paper as door
from stairwise.config import leaves
from stairwise.lab import registry
from stairwise.lab.contract import latex

SOURCE = Path(__file__).parents[1] / "src" / "stairwise"
BENCHMARKS = SOURCE.parents[1] / "benchmarks"
FILES = sorted([*SOURCE.rglob("*.py"), *BENCHMARKS.rglob("*.py")])
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
        f"{path}: {call}"
        for path in FILES
        for call in calls(path.read_text(), DRAWS)
        if not re.search(r"dtype|jnp\.(float|int|uint)\d+", call)
    ]
    assert missing == []


def test_only_those_who_run_things_switch_float64_on():
    allowed = {
        "lab/ledger/audit.py",
        "lab/ledger/laws.py",
        "lab/run/execute.py",
        "lab/ledger/searching/points.py",
        "lab/ledger/checking.py",
        "commands/doctor.py",
        "benchmarks/run.py",
    }
    found = {
        str(path.relative_to(SOURCE if SOURCE in path.parents else BENCHMARKS.parent))
        for path in FILES
        if re.search(r"with jax\.enable_x64\(|jax_enable_x64\"", path.read_text())
        and "config.read" not in path.read_text()
    }
    assert found <= allowed


def test_a_class_outside_the_papers_has_a_name_of_its_own():
    """Papers, benchmarks and the skeleton have vocabularies of their own; they import no classes of each other."""
    apart = {"papers", "skeleton", "benchmarks"}
    shared = [path for path in FILES if not apart & set(path.parts)]
    names = [name for path in shared for name in re.findall(r"^class ([A-Z]\w*)", path.read_text(), re.MULTILINE)]
    assert {name for name in names if names.count(name) > 1} == {"Positions"}  # of `nn`, and its twin in PyTorch


def test_papers_use_a_name_of_the_one_door_for_nothing_else():
    allowed = {
        "Task",  # a paper's task in its config: the fields of what a `Task` of the kernel is made from
        "Training",  # a config of training runs
        "Sentence",  # crossings/retrieval: LEGO's clauses and answers, which are no tokens and targets
    }
    found = {
        name
        for path in FILES
        if "papers" in path.parts
        for name in re.findall(r"^class ([A-Z]\w*)", path.read_text(), re.MULTILINE)
    }
    assert found & set(door.__all__) <= allowed


def test_a_class_has_a_name_of_its_own_within_a_paper():
    """Of the crossings, each is a paper of its own."""
    for folder in sorted(path.parent for path in (SOURCE / "papers").rglob("__init__.py")):
        if folder.parent.name not in ("papers", "crossings"):
            continue
        files = folder.glob("*.py") if folder.name == "crossings" else folder.rglob("*.py")
        names = [name for path in files for name in re.findall(r"^class ([A-Z]\w*)", path.read_text(), re.MULTILINE)]
        assert {name for name in names if names.count(name) > 1} == set(), folder


def test_no_module_is_named_for_being_shared_and_a_paper_names_no_module_language():
    assert [str(path) for path in FILES if path.stem in ("common", "utils", "helpers", "misc", "language")] == []


def test_claims_and_theories_draw_from_names_and_not_from_bare_seeds():
    """`draws_of(seed, "weights")` and `role_key(seed, "weights")`; a number in place of the name says nothing."""
    bare = r"default_rng\(|jax\.random\.key\(|seed \+ \d|\d+ \* seed|seed \+ \d+ \* "
    allowed = {
        "parity_onestep/theory/hiding.py",  # the start of a stored training
        "parity_onestep/theory/spectrum.py",  # the start of an iteration: the same for every sample
    }
    found = {
        str(path.relative_to(SOURCE / "papers"))
        for path in (SOURCE / "papers").rglob("*.py")
        if {"claims", "theory"} & set(path.parts) and re.search(bare, path.read_text())
    }
    assert found <= allowed


def test_nothing_pickles():
    assert [
        str(path) for path in FILES if re.search(r"\bimport pickle|allow_pickle=True|\.to_pickle", path.read_text())
    ] == []


def test_papers_train_through_the_one_stage_but_for_those_that_the_design_page_lists():
    """Claims and theories differentiate to check a formula, and train nothing that is stored."""
    page = (SOURCE.parents[1] / "docs" / "design.md").read_text()
    bare = set(re.findall(r"`(\w+/\w+\.py)`", page.partition("## One way to train")[2].partition("\n## ")[0]))
    gradients = {"lego/ffn.py", "composition/rules.py"}  # what the bare stages differentiate
    papers = SOURCE / "papers"
    code = {
        str(path.relative_to(papers)): path.read_text()
        for path in sorted(papers.rglob("*.py"))
        if not {"claims", "theory"} & set(path.parts)
    }
    assert {name for name, text in code.items() if re.search(r"\bStage\(\n", text)} == bare
    steps, parts = r"apply_updates|\.update\((gradient|direction)|value_and_grad|jax\.grad\(", r"jnp\.cos\(jnp\.pi"
    own = rf"{steps}|{parts}|tree\.unflatten|shuffled\("
    assert {name for name, text in code.items() if re.search(own, text)} <= bare | gradients


def test_every_paper_has_a_page_that_names_its_errata_and_its_code():
    for module in registry.modules().values():
        if module.startswith("stairwise.papers."):
            page = SOURCE.joinpath("papers", module.rpartition(".")[2], "README.md").read_text()
            assert "## Errata" in page
            assert "## Where each statement lives" in page


def test_the_claims_that_authors_start_from_import_the_one_door_only():
    root = SOURCE.parents[1]
    for folder in (SOURCE / "skeleton" / "paper", root / "examples" / "in_context_regression" / "src"):
        for path in (path for path in folder.rglob("*.py") if "claims" in (path.stem, path.parent.name)):
            used = set(re.findall(r"^\s*(?:from|import) (stairwise[\w.]*)", path.read_text(), re.MULTILINE))
            assert {name for name in used if not name.startswith("stairwise.skeleton")} <= {"stairwise.paper"}, path


def test_claims_are_kinds_and_ids_that_can_be_typed():
    for paper in registry.papers():
        for claim in paper.claims:
            assert re.fullmatch(r"[A-Za-z0-9.-]+", claim.id)
            assert len(latex.plain(claim.says)) <= 240
            assert claim.check is None or claim.cases


def test_a_check_that_draws_at_random_is_asked_at_three_seeds():
    """A check that reads its seed draws with it. One seed is for what draws nothing, and for what says in `one_seed`
    why it is enough: many draws inside of the check, say. Two seeds do not show how much draws vary.
    """
    claims = [claim for paper in registry.papers() for claim in paper.claims if claim.check is not None]
    drawing = [claim for claim in claims if reads(claim.check, "seed")]
    assert len(drawing) > 300
    assert [claim.name for claim in drawing if claim.seeds < 3 and not claim.one_seed] == []
    assert [claim.name for claim in claims if claim not in drawing and (claim.seeds > 1 or claim.one_seed)] == []


def reads(check, name: str) -> bool:
    """Whether a check uses this argument of its own."""
    while isinstance(check, partial):
        check = check.func
    tree = ast.parse(textwrap.dedent(inspect.getsource(check)))
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(tree))


def test_the_same_knob_has_the_same_name_in_every_paper():
    """The table "One vocabulary" in docs/how-to/change-an-assumption.md."""
    former = {"rate", "lr", "decoder", "lessons", "test_sequences", "test_inputs", "test", "validation", "precision"}
    allowed = {"values.rate", "rate.lam", "rate.scale", "rate.eta0", "rate.eps", "rate.adam"}  # mean something else
    for paper in registry.papers():
        configs = [experiment.Config() for experiment in paper.experiments]
        for leaf in (leaf for config in configs for leaf in leaves(config)):
            assert leaf.path in allowed or former.isdisjoint(leaf.path.split(".")), (paper.id, leaf.path)
            if leaf.metadata["help"].startswith(("learning rate", "peak learning rate", "peak Adam learning rate")):
                assert leaf.path.split(".")[-1] in ("learning_rate", "adam"), (paper.id, leaf.path)
            if leaf.path in ("width", "layers", "heads"):
                beside = {other.path for config in configs for other in leaves(config)}
                assert not {"layers", "heads"} & beside, (paper.id, leaf.path)


def test_tests_that_run_alone_are_slow_ones_and_lie_where_they_are_looked_for():
    tests = Path(__file__).parent
    found = [path for path in tests.rglob("test_*.py") if re.search(r"mark\.quiet\b", path.read_text())]
    assert found
    for path in found:
        assert path.parent == tests / "slow"
        assert re.search(r"^pytestmark = .*mark\.slow\b", path.read_text(), re.MULTILINE)


def test_the_page_of_a_paper_lists_every_statement_that_is_false_as_printed():
    for page in sorted(SOURCE.glob("papers/*/README.md")):
        _, found, rest = page.read_text().partition("## Errata")
        printed = json.loads(page.with_name("manifest.json").read_text())["claims"]
        false = [claim["id"] for claim in printed if claim["corrected"] or claim["certificate"] or claim["means"]]
        section = rest.partition("\n## ")[0] if found else ""
        assert [id for id in false if f"`{id}`" not in section] == [], page
