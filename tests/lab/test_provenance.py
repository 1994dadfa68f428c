"""Provenance: the facts about code and machine that are stored beside a result."""

import os
import platform
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from stairwise.lab import registry
from stairwise.lab.contract.code import code_of, module_of
from stairwise.lab.store import provenance

TEXTS = {
    "plugged/__init__.py": "raise RuntimeError('imported')",
    "plugged/paper/__init__.py": "from plugged.paper import figures, presets",
    "plugged/paper/train.py": """
from typing import TYPE_CHECKING
import plugged.paper.plain
import numpy
from . import sibling
from ..shared.tools import helper
from stairwise.nn.attention import Attention
if TYPE_CHECKING:
    from plugged.paper import typed
else:
    typed = lazy("plugged.paper.typed")
lazily = lazy("plugged.paper.lazily")
def program(config):
    try:
        pass
    finally:
        from plugged.paper.deep import inner
        match config:
            case 1:
                from plugged.paper.matched import x
""",
    "plugged/paper/plain.py": "import plugged.paper.second",
    "plugged/paper/second.py": "import plugged.paper.train  # a cycle",
    "plugged/paper/sibling.py": "",
    "plugged/shared/__init__.py": "raise RuntimeError('imported')",
    "plugged/shared/tools.py": "def helper(): ...",
    "plugged/paper/typed.py": "",
    "plugged/paper/lazily.py": "",
    "plugged/paper/deep/__init__.py": "from plugged.paper.deep.reexported import inner",
    "plugged/paper/deep/reexported.py": "inner = 1",
    "plugged/paper/matched.py": "x = 1",
    "plugged/paper/figures.py": "import plugged.paper.train",
    "plugged/paper/presets.py": "",
    "plugged/paper/claims.py": "from plugged.paper import train",
}
COUNTED = ("train", "plain", "second", "sibling", "typed", "lazily", "deep", "deep.reexported", "matched")


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A plug-in paper that must not be imported; gives a function that changes one of its files."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def put(name: str, text: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        provenance.forget()

    for name, text in TEXTS.items():
        put(name, text)
    yield put
    monkeypatch.undo()
    provenance.forget()


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


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("", ""),
        ("--xla_a=1  --xla_b", "--xla_a=1 --xla_b"),
        ("--xla_a=1 --xla_b=2 --xla_a=3", "--xla_b=2 --xla_a=3"),
        ("--xla_dump_to=/home/ada/hlo --xla_a=FUSION,WHILE", "--xla_dump_to=... --xla_a=FUSION,WHILE"),
        ("--xla_dump_to=C:\\Users\\ada", "--xla_dump_to=..."),
    ],
)
def test_the_flags_of_the_compiler_are_kept_without_paths(monkeypatch, given, kept):
    monkeypatch.setenv("XLA_FLAGS", given)
    assert provenance.compiler_flags() == kept


def test_the_options_of_a_loop_come_after_the_flags_of_the_process(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_a=1 --xla_b=2")
    assert provenance.compiler_flags({"xla_a": True, "xla_c": "X,Y"}) == "--xla_b=2 --xla_a=true --xla_c=X,Y"


def test_the_code_of_a_module_is_what_it_imports_however_it_does(package):
    found = set(provenance.closure("plugged.paper.train"))
    own = {name for name in found if name.startswith("plugged.")}
    assert own == {f"plugged.paper.{name}" for name in COUNTED} | {"plugged.shared.tools"}
    assert "stairwise.nn.attention" in found
    assert not [name for name in found if name.startswith(("numpy", "stairwise.lab"))]


def test_what_comes_through_the_facade_counts_as_imported_from_its_home(package):
    package("plugged/paper/plain.py", "from stairwise.paper import gradient_training, option, population")
    found = set(provenance.closure("plugged.paper.plain"))
    assert {"stairwise.train.gradient", "stairwise.measure.population", "stairwise.train.keys"} <= found
    assert not found & {"stairwise.paper", "stairwise.config", "stairwise.train.schemes"}


def test_the_source_hash_follows_that_code_and_nothing_else(package):
    plain = provenance.source_hash("plugged.paper.train")
    assert len(plain) == 64
    for name, text in TEXTS.items():
        package(name, f"{text}\n# changed")
        module = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        counts = module.removeprefix("plugged.paper.") in COUNTED or module == "plugged.shared.tools"
        assert (provenance.source_hash("plugged.paper.train") != plain) == counts, name
        package(name, text)
    assert provenance.source_hash("plugged.paper.train") == plain
    package("plugged/paper/plain.py", "def broken(:")
    assert provenance.source_hash("plugged.paper.train") != plain


@pytest.mark.parametrize("paper", registry.papers(), ids=lambda paper: paper.id)
def test_no_figure_preset_claim_or_caption_of_a_paper_is_code_of_its_trials(paper):
    shows = ("figures", "presets", "claims", "microscope", "answers", "weights", "data")
    for experiment in paper.experiments:
        for module in provenance.closure(*code_of(experiment)):
            parts = module.split(".")
            assert not set(parts[3:]) & set(shows), (experiment.name, module)
            assert parts[:2] != ["stairwise", "papers"] or len(parts) > 3, (experiment.name, module)
            assert parts[:3] != ["stairwise", "papers", "crossings"] or parts[-1] != experiment.id, module


def test_a_trial_is_made_by_its_program_its_config_the_loop_and_what_it_starts_from():
    found = code_of(registry.experiment("crossings/filter"))
    assert {"stairwise.papers.crossings.filter.train", "stairwise.papers.crossings.filter.config"} <= set(found)
    assert {"stairwise.papers.lego.train", "stairwise.train.loop"} <= set(found)
    assert "stairwise.train.loop" not in code_of(registry.experiment("selection/population"))  # a study


def test_modules_are_named_by_functions_classes_modules_and_texts():
    names = [module_of(each) for each in ("a.b:c", "a.b", partial(partial(Path)), provenance, code_of)]
    assert names == ["a.b", "a.b", "pathlib", "stairwise.lab.store.provenance", "stairwise.lab.contract.code"]


def test_a_module_that_does_not_exist_is_named():
    for module in ("no_such_module", "stairwise.papers.no_such_paper", "stairwise.extras.inside"):
        with pytest.raises(ValueError, match=f"module={module} cannot be found"):
            provenance.source_hash(module)
