"""The workflows of .github: valid YAML with keys that GitHub knows, commands that exist, and no stored password."""

import re
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml", reason="workflows are read with PyYAML: pip install pyyaml")

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TOP = {"name", "on", "permissions", "concurrency", "jobs", "env", "defaults"}
JOB = {"name", "needs", "runs-on", "timeout-minutes", "environment", "permissions", "steps", "strategy", "env", "if"}
STEP = {"name", "id", "uses", "with", "run", "env", "if", "working-directory", "shell"}
EVENTS = {"push", "pull_request", "workflow_dispatch", "schedule", "release"}


def read(path: Path) -> dict:
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {
        "on" if key is True else key: value for key, value in found.items()
    }  # YAML 1.1 takes `on` for a truth value


def test_there_is_a_workflow_for_tests_docs_and_releases():
    assert [path.stem for path in WORKFLOWS] == ["docs", "release", "tests"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_has_only_keys_that_are_known(path):
    workflow = read(path)
    assert workflow.keys() <= TOP
    assert {"name", "on", "permissions", "jobs"} <= workflow.keys()
    assert workflow["on"].keys() <= EVENTS
    for job in workflow["jobs"].values():
        assert job.keys() <= JOB
        assert {"runs-on", "timeout-minutes", "steps"} <= job.keys()
        assert set(job.get("needs", "").split()) <= workflow["jobs"].keys()
        for step in job["steps"]:
            assert step.keys() <= STEP
            assert ("uses" in step) != ("run" in step)
            assert re.fullmatch(r"[\w-]+/[\w-]+@[\w./-]+", step.get("uses", "a/b@v1"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_calls_targets_that_the_makefile_has(path):
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake ([\w-]+)", path.read_text())) <= targets


def test_a_release_is_published_without_a_password():
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    assert "secrets." not in text
    assert read(ROOT / ".github" / "workflows" / "release.yml")["jobs"]["publish"]["permissions"] == {
        "id-token": "write"
    }
