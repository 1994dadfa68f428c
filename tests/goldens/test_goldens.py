"""Bits of every experiment at tiny sizes, recorded before the code was moved about; see `cases`."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stairwise.lab import registry
from stairwise.lab.run.execute import prepare_jax
from stairwise.lab.store.store import Store
from tests.goldens.cases import ELSEWHERE, SIZES, bits, every_golden, finals, machine, outcomes

FILE = Path(__file__).with_name("goldens.json")
GOLDENS = list(every_golden())
QUICK = ("composition/encoder", "lego/length", "parity_cot/complexity", "parity_onestep/staircase", "selection/online")


def read() -> dict[str, Any]:
    return json.loads(FILE.read_text())


def _speed(golden):
    quick = golden.experiment in QUICK and golden.width == 1 and golden.precision == 32
    return pytest.param(golden, id=golden.id, marks=() if quick else (pytest.mark.slow,))


def test_every_experiment_has_its_goldens():
    experiments = {experiment.name for paper in registry.papers() for experiment in paper.experiments}
    assert experiments == {*SIZES, *ELSEWHERE}
    assert {golden.id for golden in GOLDENS} == set(read()["trials"])


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    prepare_jax()
    return Store.open(tmp_path_factory.mktemp("goldens"))


@pytest.mark.optimised
@pytest.mark.parametrize("golden", [_speed(golden) for golden in GOLDENS])
def test_a_trial_gives_the_bits_that_it_gave(golden, store):
    kept = read()
    found, expected = outcomes(golden, store), kept["trials"][golden.id]
    if kept["machine"] == machine():
        assert bits(found) == expected["bits"]
    else:  # another compiler rounds differently: the numbers still agree
        now = finals(found)
        assert list(now) == list(expected["finals"])
        np.testing.assert_allclose(list(now.values()), list(expected["finals"].values()), rtol=2e-3, atol=2e-4)
