"""What docs/compatibility.md promises: versions that are tested, and names, digests and files that last.

`python -m tests.compatibility.test_compatibility` writes down the names and digests of the present code, for a release.
"""

import importlib
import json
import re
import shutil
import tomllib
from pathlib import Path

import pytest

from stairwise import cli
from stairwise.lab import registry
from stairwise.lab.contract.experiment import Trial
from stairwise.lab.store.store import Store
from stairwise.lab.store.trial import FORMAT

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
KEPT = HERE / "kept.json"
PAGE = (ROOT / "docs" / "compatibility.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PYTHONS = ("3.11", "3.12", "3.13")
MODULES = ("stairwise", "stairwise.paper")
TESTED_EXTRAS = ("query", "falsify", "cluster")  # `hf` and `bench` need PyTorch, whose releases weigh gigabytes


def digests() -> dict[str, str]:
    """Of every experiment as declared, at seed 0, by its name and version."""
    experiments = [experiment for paper in registry.papers() for experiment in paper.experiments]
    return {f"{each.name} {each.version}": Trial(each, each.Config(), 0).digest for each in experiments}


def names() -> dict[str, list[str]]:
    return {module: sorted(importlib.import_module(module).__all__) for module in MODULES}


def kept() -> dict:
    return json.loads(KEPT.read_text())


# --- versions ---------------------------------------------------------------------------------------------------------


def test_the_lowest_versions_that_are_claimed_are_those_that_are_tested():
    extras = PROJECT["optional-dependencies"]
    claimed = PROJECT["dependencies"] + [need for name in TESTED_EXTRAS for need in extras[name]]
    lowest = dict(re.findall(r"^([\w-]+)==([\d.]+)$", (ROOT / "constraints-lowest.txt").read_text(), re.MULTILINE))
    assert lowest.pop("jaxlib") == lowest["jax"]
    pairs = dict(re.fullmatch(r"([\w-]+)>=([\d.]+)", need).groups() for need in claimed)

    def padded(version: str) -> list[int]:
        return [*map(int, version.split(".")), 0, 0][:3]

    assert {name: padded(version) for name, version in pairs.items()} == {
        name: padded(version) for name, version in lowest.items()
    }
    assert all(f"| {name} | {version} |" in PAGE for name, version in pairs.items())


def test_every_python_that_is_claimed_has_a_job_of_the_workflow():
    yaml = pytest.importorskip("yaml", reason="workflows are read with PyYAML: pip install pyyaml")
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())["jobs"]
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"
    assert {f"Programming Language :: Python :: {version}" for version in PYTHONS} <= set(PROJECT["classifiers"])
    assert tuple(jobs["quick"]["strategy"]["matrix"]["python"]) == PYTHONS
    assert any("constraints-lowest.txt" in step.get("run", "") for step in jobs["lowest"]["steps"])


# --- what a release may change ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", MODULES)
def test_no_name_that_is_kept_is_gone(module):
    assert set(kept()["names"][module]) - set(names()[module]) == set()


def test_a_digest_changes_with_the_version_of_its_experiment_only():
    now = digests()
    assert {name: now[name] for name, digest in kept()["digests"].items() if now.get(name, digest) != digest} == {}


@pytest.fixture
def store(tmp_path) -> Store:
    """A store that was written when its format was new."""
    shutil.copytree(HERE / "store", tmp_path / "store")
    return Store.open(tmp_path / "store", create=False)


def test_a_store_of_this_format_is_read_for_as_long_as_the_format_has_its_number(store):
    assert kept()["store format"] == FORMAT
    assert store.damaged() == []
    fixed, stochastic = sorted(store.trials("selection/online"), key=lambda record: record.arm)
    assert (fixed.arm, fixed.status, fixed.array("train/W").shape) == ("fixed", "finished", (10, 10))
    assert round(fixed.final("train_loss"), 6) == 0.301709
    assert [sorted(run.trials) for run in store.runs()] == [sorted((fixed.digest, stochastic.digest))]
    (verdict,) = store.verdicts()
    assert (verdict["claim"], verdict["verdict"]["status"]) == ("selection/def-sts", "holds")


def test_commands_find_what_is_in_such_a_store(store, capsys):
    assert cli.main(["runs", "--store", str(store.root), "--trials", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert sorted(row["digest"] for row in rows) == sorted(record.digest for record in store.trials())


if __name__ == "__main__":
    found = {"names": names(), "digests": digests(), "store format": FORMAT}
    KEPT.write_text(json.dumps(found, indent=1) + "\n")
