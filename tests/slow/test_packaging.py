"""The package as a stranger gets it: a wheel in a fresh environment, with the core dependencies and nothing else."""

import html
import json
import os
import resource
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from stairwise import __version__
from stairwise.extras import EXTRAS, missing
from stairwise.lab import registry

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[2]
SOURCE = REPOSITORY / "src"
PIP = ("-m", "pip", "--disable-pip-version-check", "--quiet")
BUILD = "import sys, hatchling.build as b; b.build_wheel(sys.argv[1]); b.build_sdist(sys.argv[1])"
# every distribution that the core dependencies of stairwise ask for, and theirs, without any extra
CLOSURE = """
import importlib.metadata as metadata, json
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
found, waiting = set(), ["stairwise"]
while waiting:
    name = canonicalize_name(waiting.pop())
    if name not in found:
        found.add(name)
        needs = [Requirement(line) for line in metadata.requires(name) or []]
        waiting += [need.name for need in needs if need.marker is None or need.marker.evaluate({"extra": ""})]
there = {canonicalize_name(each.metadata["Name"]) for each in metadata.distributions()}
print(json.dumps([sorted(found), sorted(there)]))
"""


def environment() -> dict[str, str]:
    """This one, without anything that would let the repository or the tests' own packages in."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "STAIRWISE"))}


def call(program, *arguments, cwd, status=0) -> tuple[str, str, float]:
    """What a command prints on both streams, and its seconds of processor time: tests share their cores."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([str(program), *arguments], cwd=cwd, env=environment(), capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == status, done.stderr
    return done.stdout, done.stderr, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel and the source distribution."""
    folder = tmp_path_factory.mktemp("build")
    tools, out = folder / "tools", folder / "dist"
    got = subprocess.run(
        [sys.executable, *PIP, "install", "--target", str(tools), "hatchling>=1.24"], capture_output=True, text=True
    )
    if got.returncode:
        pytest.skip(f"no package index can be reached: {got.stderr.strip().splitlines()[-1]}")
    variables = environment() | {"PYTHONPATH": str(tools)}
    subprocess.run([sys.executable, "-c", BUILD, str(out)], cwd=REPOSITORY, env=variables, check=True)
    return out


@pytest.fixture(scope="module")
def fresh(built, tmp_path_factory):
    """A new environment in which the wheel has been installed, and an empty folder to stand in."""
    folder = tmp_path_factory.mktemp("fresh")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    (wheel,) = built.glob("*.whl")
    binaries = folder / "venv" / "bin"
    constraints = str(REPOSITORY / "constraints.txt")
    call(binaries / "python", *PIP, "install", "-c", constraints, str(wheel), cwd=folder)
    (folder / "work").mkdir()
    return binaries, folder / "work"


def test_wheel_and_source_hold_every_file_of_the_package(built):
    (wheel,), (source,) = built.glob("*.whl"), built.glob("*.tar.gz")
    files = [path for path in (SOURCE / "stairwise").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    names = {path.relative_to(SOURCE).as_posix() for path in files}
    assert {"stairwise/report/templates/base.html", "stairwise/report/assets/site.css"} <= names
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
        metadata = archive.read(f"stairwise-{__version__}.dist-info/METADATA").decode()
    assert names <= inside
    assert not [name for name in inside if name.startswith(("benchmarks", "tests"))]
    assert f"stairwise-{__version__}.dist-info/licenses/LICENSE" in inside
    assert (REPOSITORY / "README.md").read_text().strip() in metadata
    with tarfile.open(source) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    root = {"README.md", "LICENSE", "CITATION.cff", "CHANGELOG.md", "conftest.py", "constraints.txt", "Makefile"}
    root |= {"tests/slow/test_packaging.py", "benchmarks/command.py"}
    assert root | {f"src/{name}" for name in names} <= packed


def test_only_the_core_dependencies_are_installed(fresh):
    binaries, folder = fresh
    closure, there = json.loads(call(binaries / "python", "-c", CLOSURE, cwd=folder)[0])
    assert set(there) - {"pip", "setuptools", "wheel"} == set(closure)
    assert not {"torch", "transformers", "duckdb", "distributed", "dask", "sphinx", "beartype"} & set(there)


def test_importing_and_listing_are_quick_and_leave_jax_alone(fresh):
    binaries, folder = fresh

    def quickest(program, *arguments):
        return min(call(program, *arguments, cwd=folder)[2] for _ in range(3))

    assert quickest(binaries / "python", "-c", "import stairwise") < 0.3
    for command in ("--help", "list", "runs"):
        assert quickest(binaries / "stairwise", command) < 1.0, command
        script = f"import sys; from stairwise.cli import main; main([{command!r}]); sys.exit('jax' in sys.modules)"
        call(binaries / "python", "-c", script, cwd=folder)


def test_the_commands_work_from_the_wheel(fresh):
    binaries, folder = fresh
    program = binaries / "stairwise"
    listed = call(program, "list", cwd=folder)[0]
    assert all(paper.id in listed for paper in registry.papers())
    assert "--all" in call(program, "reproduce", "--help", cwd=folder)[0]
    call(program, "report", "--out", "site", cwd=folder)
    page = html.unescape((folder / "site" / "index.html").read_text())
    assert all(paper.title in page for paper in registry.papers())
    assert (folder / "site" / "assets").is_dir()
    assert json.loads(call(program, "verify", "selection/def-sts", "--json", cwd=folder)[0])[0]["status"] == "holds"
    published = ("figure", "composition/fig3-right", "--preset", "gpu", "--published", "-o", "figure.png")
    call(program, *published, cwd=folder)
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert "clone the repository" in call(program, "bench", cwd=folder, status=2)[1]
    assert call(program, "--version", cwd=folder)[0] == f"stairwise {__version__}\n"
    call(program, "export", "selection/solution", "-o", "model", "--scale", "9", cwd=folder)
    script = "import stairwise as sw; print(float(sw.interop.load('model').W[-1, -1]))"
    assert call(binaries / "python", "-c", script, cwd=folder)[0] == "9.0\n"


def test_a_missing_extra_is_one_line_that_names_it(fresh):
    binaries, folder = fresh
    program = binaries / "stairwise"
    (folder / "problems.jsonl").write_text('{"question": "1 + 1?", "answer": "It is 2.\\n#### 2"}\n')
    sweep = ["sweep", "selection/online", "--grid", "learning_rate=1,2"]
    requests = {
        missing("stairwise query", "query"): ["query", "select 1"],
        missing("--cluster", "cluster"): [*sweep, "--cluster", "local:2"],
        missing("a Hugging Face model", "hf"): ["entropy", "--model", "gpt2", "--data", "problems.jsonl"],
    }
    for line, arguments in requests.items():
        assert call(program, *arguments, cwd=folder, status=2)[1] == f"stairwise: {line}\n"
    extras = json.loads(call(program, "doctor", "--json", cwd=folder)[0])["extras"]
    assert extras == {extra: f"absent: pip install 'stairwise[{extra}]'" for extra in EXTRAS}
