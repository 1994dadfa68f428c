"""Manifests say what the code says, and what is answered from them imports no paper."""

import json
import subprocess
import sys

import pytest

from stairwise.lab import manifest, registry
from stairwise.lab.config import ConfigError


@pytest.mark.parametrize("id", manifest.built_in())
def test_the_manifest_of_a_paper_says_what_its_code_says(id):
    assert manifest.read(id) == json.loads(json.dumps(manifest.describe(registry.paper(id)))), (
        "python -m stairwise.lab.manifest writes it anew"
    )


def test_every_paper_has_a_manifest():
    assert manifest.built_in() == sorted(path.parent.name for path in manifest.PAPERS.glob("*/__init__.py"))


@pytest.mark.parametrize(
    ("target", "kinds", "said"),
    [
        ("selection/onlin", ("experiments", "figures"), "unknown experiment of selection: onlin; did you mean online?"),
        ("lego/thm99", ("claims",), "unknown claim of lego: thm99; did you mean thm"),
        ("selektion/online", ("experiments",), "unknown paper: selektion; did you mean selection?"),
    ],
)
def test_a_name_that_nothing_has_is_refused_with_the_nearest_one(target, kinds, said):
    with pytest.raises(ConfigError, match=r".") as refused:
        manifest.check_name(target, *kinds)
    assert str(refused.value).startswith(said)


def test_an_alias_of_a_claim_is_a_name_of_it():
    aliased = next(claim for claim in manifest.read("lego")["claims"] if claim["aliases"])
    manifest.check_name(f"lego/{aliased['aliases'][0]}", "claims")  # raises where it is none
    assert registry.paper("lego").claim(aliased["aliases"][0]).id == aliased["id"]


def test_importing_every_paper_starts_no_backend_and_imports_neither_matplotlib_nor_scipy_stats():
    code = """
import sys
from stairwise.lab import registry
registry.papers()
from jax._src import xla_bridge
assert not xla_bridge._backends, xla_bridge._backends
assert not {"matplotlib.pyplot", "scipy.stats"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
