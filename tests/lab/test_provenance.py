"""Provenance: the facts about code and machine that are stored beside a result."""

import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

import stairwise
from stairwise.lab import provenance


def make_package(folder: Path, **changes: str) -> Path:
    """A plug-in paper that must not be imported."""
    texts = {"__init__.py": "raise RuntimeError('imported')", "task.py": "x = 1", "deep/model.py": "y = 2"}
    texts |= {"figures.py": "z = 3", "README.md": "words"}
    for name, text in (texts | {name.replace("__", "/"): text for name, text in changes.items()}).items():
        path = folder / (name if "." in name else f"{name}.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture
def hash_of(tmp_path, monkeypatch):
    """The source hash of a plug-in paper, with some of its files changed."""
    packages = iter(range(100))

    def compute(**changes: str) -> str:
        root = tmp_path / str(next(packages))
        make_package(root / "plugged" / "paper", **changes)
        (root / "plugged" / "__init__.py").write_text("raise RuntimeError('imported')")
        monkeypatch.setattr(sys, "path", [str(root), *sys.path])
        return provenance.source_hash.__wrapped__("plugged.paper")  # past the cache: the name stays, the files change

    return compute


def test_versions_are_those_of_the_installed_packages():
    found = provenance.versions()
    assert found["python"] == platform.python_version()
    assert found["numpy"] == np.__version__
    assert {name: found[name] for name in ("jax", "jaxlib", "equinox", "optax")} == {
        name: version(name) for name in ("jax", "jaxlib", "equinox", "optax")
    }


def test_a_package_that_is_not_installed_has_no_version():
    assert provenance._version("no-such-package-anywhere") is None


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system cannot pin a process to cores")
def test_cores_are_those_the_process_may_use():
    allowed = os.sched_getaffinity(0)
    assert provenance.machine()["cores"] == len(allowed)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert provenance.machine()["cores"] == 1
    finally:
        os.sched_setaffinity(0, allowed)


def test_the_machine_is_described_without_its_name():
    facts = provenance.machine()
    assert facts["platform"] == platform.platform()
    assert platform.node() not in facts.values()


def test_the_source_hash_follows_the_papers_code_and_not_its_figures_or_words(hash_of):
    plain = hash_of()
    assert len(plain) == 64
    assert hash_of() == plain
    assert hash_of(figures="z = 4") == plain
    assert hash_of(**{"README.md": "other words"}) == plain
    assert hash_of(claims="") == plain  # a claim judges trials; it does not make them
    changed = [hash_of(task="x = 2"), hash_of(deep__model="y = 3"), hash_of(deep__figures="")]
    assert len({plain, *changed}) == 4


def test_the_source_hash_follows_the_shared_rooms(hash_of, tmp_path, monkeypatch):
    plain = hash_of()
    copy = tmp_path / "room"
    make_package(copy)
    real = provenance.locate
    for room in provenance.ROOMS:
        monkeypatch.setattr(provenance, "locate", lambda name, room=room: copy if name == room else real(name))
        assert hash_of() != plain


def test_built_in_papers_are_found_and_told_apart():
    papers = Path(stairwise.__file__).parent / "papers"
    assert provenance.locate("stairwise.papers") == papers
    names = [path.name for path in papers.iterdir() if (path / "__init__.py").exists()]
    assert len({provenance.source_hash(f"stairwise.papers.{name}") for name in names}) == len(names)


def test_a_module_that_does_not_exist_is_named():
    for module in ("no_such_module", "stairwise.papers.no_such_paper", "stairwise.extras.inside"):
        with pytest.raises(ValueError, match=f"module={module} cannot be found"):
            provenance.source_hash(module)
