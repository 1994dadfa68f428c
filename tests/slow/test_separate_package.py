"""Papers as distributions of their own, in a fresh environment: stairwise from its wheel, the papers installed by pip.

JAX and the other dependencies are not downloaded again: one line of a .pth file lets the fresh environment see the
packages of the running one, behind its own. What is tested is installed in the fresh environment itself.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.guides.test_add_a_paper import COMMANDS, EXAMPLE, ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
SMALL = ["--steps", "40", "--measure_every", "10", "--batch", "32"]
Call = Callable[..., str]


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("separate")


@pytest.fixture(scope="module")
def call(place) -> Call:
    """Runs a command in the fresh environment; gives what it printed."""
    fresh = place / "fresh"
    subprocess.run([sys.executable, "-m", "venv", str(fresh)], check=True)
    paths = {"base": str(fresh), "platbase": str(fresh)}
    own = Path(sysconfig.get_path("purelib", vars=paths))
    (own / "running.pth").write_text("\n".join({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}))
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    environment["PATH"] = f"{fresh / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment["STAIRWISE_STORE"] = str(place / "store")

    def run(*words: str, status: int = 0) -> str:
        if words[0] == "pip":
            words = ("python", "-m", *words, "-q", "-c", str(ROOT / "constraints.txt"))
        done = subprocess.run(words, cwd=place, env=environment, capture_output=True, text=True)
        assert done.returncode == status, f"{' '.join(words)}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    try:
        # whatever else the path has to offer is left alone: pip must not touch the running environment
        run("pip", "install", "--no-deps", "--ignore-installed", str(ROOT))
    except AssertionError as error:
        if "hatchling" in str(error):
            pytest.skip("pip cannot get hatchling here, which wheels are built with")
        raise
    return run


def test_stairwise_is_the_one_that_was_installed_and_brings_the_skeleton_with_it(call, place):
    code = "import stairwise.skeleton.paper as paper; print(paper.__file__)"
    assert call("python", "-c", code).startswith(str(place / "fresh"))
    files = json.loads(
        call(
            "python", "-c",
            "import json, importlib.metadata as m; print(json.dumps([str(f) for f in m.files('stairwise')]))",
        )
    )  # fmt: skip
    for name in ("pyproject.template", "tests.py", "paper/README.md", "paper/claims.py"):
        assert f"stairwise/skeleton/{name}" in files


@pytest.fixture(scope="module")
def demo(call) -> None:
    """A new paper, installed."""
    call("stairwise", "new-paper", "demo", "--title", "A demonstration")
    call("pip", "install", "-e", "demo")


@pytest.mark.usefixtures("demo")
def test_a_new_paper_passes_its_own_tests_and_is_known_everywhere(call, place):
    assert "passed" in call("python", "-m", "pytest", "demo")
    assert "demo  A demonstration (A. Author, B. Author" in call("stairwise", "list", "demo")
    rows = {row["claim"]: row for row in json.loads(call("stairwise", "verify", "demo", "--json"))}
    assert rows["thm1"]["status"] == "holds"
    call("stairwise", "run", "demo/training", "--preset", "quick", "--seeds", "2", *SMALL)
    call("stairwise", "figure", "demo/fig1", "--seeds", "2", *SMALL, "-o", "demo.png")
    assert (place / "demo.png").read_bytes().startswith(b"\x89PNG")
    trials = json.loads(call("stairwise", "runs", "demo", "--trials", "--where", "learning_rate=1", "--json"))
    assert len(trials) == 6
    assert provenance(call, trials[0])["versions"]["demo"] == "0.1.0"
    call("stairwise", "new-paper", "demo", "--into", "again", status=2)  # the name of an installed paper


@pytest.mark.usefixtures("demo")
def test_a_worker_of_a_cluster_knows_the_new_paper_and_records_its_code(call):
    pytest.importorskip("distributed")
    small = ["--seeds", "1", "--task.length", "4", *SMALL]
    call("stairwise", "run", "demo/training", *small, "--learning_rate", "0.2")
    call("stairwise", "sweep", "demo/training", "--grid", "learning_rate=0.3", *small, "--cluster", "local:1")
    find = ["stairwise", "runs", "demo", "--trials", "--json", "--where"]
    (here,), (there,) = (json.loads(call(*find, f"learning_rate={rate}")) for rate in (0.2, 0.3))
    for name in ("versions", "source_hash"):
        assert provenance(call, here)[name] == provenance(call, there)[name]


def provenance(call: Call, trial: dict) -> dict:
    return json.loads(call("stairwise", "show", trial["digest"], "--json"))["provenance"]


def test_the_tutorial_runs_from_its_first_command_to_its_last(call, place):
    """Its files are those of the example; they take the skeleton's place before the first command that needs them."""
    written = False
    for command in COMMANDS:
        if not written and command[:2] == ["stairwise", "verify"] and "/" in command[2]:
            shutil.rmtree(place / "in_context_regression" / "src")
            shutil.rmtree(place / "in_context_regression" / "tests")
            ignored = shutil.ignore_patterns("__pycache__", ".*cache")
            shutil.copytree(EXAMPLE, place / "in_context_regression", dirs_exist_ok=True, ignore=ignored)
            written = True
        said = call(*command)
        if command[1] == "list":
            assert "in-context-regression" in said
        if command[1:3] == ["verify", "in-context-regression"] and written:
            assert "10 claims: holds 10" in said
    for name in ("fig-training.png", "fig-shift.png"):
        assert (place / name).stat().st_size > 20_000
    page = (place / "report" / "papers" / "in-context-regression" / "index.html").read_text()
    assert "one step of preconditioned" in page or "one preconditioned step" in page
    rows = json.loads(call("stairwise", "verify", "in-context-regression/fig-shift", "--json"))
    assert rows[0]["measured"] < 0.15
