"""The extras of pyproject.toml, and the modules by which each is known."""

import re
import tomllib
from pathlib import Path

from stairwise.extras import EXTRAS

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
MODULES = {"jax_cuda13_plugin": "jax"}  # modules that another package brings


def test_every_extra_but_the_developers_is_known_and_brings_its_modules():
    declared = {name: needs for name, needs in PROJECT["optional-dependencies"].items() if name != "dev"}
    assert EXTRAS.keys() == declared.keys()
    for extra, modules in EXTRAS.items():
        packages = {re.match(r"[A-Za-z0-9_-]+", need)[0] for need in declared[extra]}
        assert {MODULES.get(module, module.replace("_", "-")) for module in modules} <= packages


def test_no_extra_is_needed_by_the_core():
    core = {re.match(r"[A-Za-z0-9_-]+", need)[0].replace("-", "_") for need in PROJECT["dependencies"]}
    assert not core & {module for modules in EXTRAS.values() for module in modules}
