"""Claims about runs of Algorithms 1 and 2, and what breaks the algorithms."""

import json
import math

import jax
import numpy as np
import pytest

from stairwise.papers.composition.claims.running import run_of
from stairwise.papers.composition.theory import descent, exact, perturbation, population
from tests.papers.composition.ledger import check, claim_of

FOUR = {"task.blocks": 4, "task.alphabet": 2, "samples": 500_000}
RUNS = {
    "alg1": {"samples": 700, "learning_rate": 150.0, "beta0": 0.9},
    "alg2": {"samples": 700, "learning_rate": 150.0, "beta0": 0.9},
    "thm7": {"samples": 200_000, "learning_rate": 2600.0, "beta0": 0.9, "epsilon": 2e-3},
    "plateau": {"samples": 200_000, "learning_rate": 12_000.0, "beta0": 0.9},
    "lem21": {"samples": 200_000, "learning_rate": 2600.0, "beta0": 0.9, "epsilon": 2e-3},
    "lem26": {**FOUR, "learning_rate": 3000.0},
    "thm8": {"samples": 200_000, "learning_rate": 12_000.0, "beta0": 0.9, "epsilon": 2e-6},
    "lem34": {"samples": 200_000, "learning_rate": 12_000.0, "beta0": 0.9, "epsilon": 2e-6},
}


@pytest.fixture(autouse=True)
def no_run_is_kept():
    run_of.cache_clear()
    yield
    run_of.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize("id", sorted(RUNS))
def test_the_claim_has_its_status_at_a_size_of_the_users_own(id):
    verdict = check(id, RUNS[id])
    json.dumps([dict(row) for row in verdict.details], allow_nan=False)  # it must fit into the store
    assert verdict.status == "holds", (verdict, verdict.details)


@pytest.mark.parametrize("id", ["thm8", "lem34"])
def test_one_block_has_one_layer_and_is_judged(id):
    sizes = {"task.blocks": 1, "task.moved": 0, "task.any_blocks": True, "samples": 7000, "learning_rate": 8000.0}
    verdict = check(id, {**sizes, "beta0": 0.8, "epsilon": 1e-5, "test_examples": 3})
    assert verdict.status == "holds", (verdict, verdict.details)


def ascent(model, examples, rate, *heads):
    return STEP(model, examples, -rate, *heads)


def half_a_step(model, examples, rate, *heads):
    return STEP(model, examples, rate / 2, *heads)


def no_step(model, examples, rate, *heads):
    return model, np.zeros(model.layers)


def no_readout_step(model, examples, rate, *heads):
    return model


def readout_ascent(model, examples, rate, *heads):
    return READOUT_STEP(model, examples, -rate, *heads)


def wrong_head(model, examples, rate, *heads):
    return STEP(model, examples, rate, 1)


STEP, READOUT_STEP = descent.key_query_step, descent.readout_step


@pytest.mark.slow
@pytest.mark.parametrize("id", ["alg1", "thm7", "alg2", "thm8"])
@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("key_query_step", ascent),
        ("key_query_step", no_step),
        ("key_query_step", wrong_head),
        ("readout_step", readout_ascent),
        ("readout_step", no_readout_step),
    ],
)
def test_a_broken_algorithm_fails_its_theorem(monkeypatch, id, name, broken):
    monkeypatch.setattr(descent, name, broken)
    assert check(id, {}, seed=0).status == "fails"


@pytest.mark.slow
@pytest.mark.parametrize("id", ["alg1", "alg2"])
def test_a_step_of_half_the_size_is_not_the_algorithms(monkeypatch, id):
    monkeypatch.setattr(descent, "key_query_step", half_a_step)
    assert check(id, {}).status == "fails"


@pytest.mark.slow
def test_a_wrong_plateau_is_noticed(monkeypatch):
    monkeypatch.setattr(population, "plateau", lambda alphabet, beta0: math.log(alphabet) - 0.5)
    assert check("plateau", {}).status == "fails"


@pytest.mark.slow
def test_layers_that_move_are_noticed(monkeypatch):
    monkeypatch.setattr(perturbation, "trained_gradient", lambda *sizes: 1e-30)
    assert check("lem26", {}).status == "fails"


@pytest.mark.slow
def test_too_small_a_step_is_outside_the_theorem():
    verdict = check("thm7", {"learning_rate": 500.0})
    assert verdict.status == "outside"
    assert claim_of("thm7").id == claim_of("thm14").id


def test_a_batch_of_counts_has_the_mean_of_that_many_examples():
    hidden = np.array([[1, 0, 2], [0, 2, 1]])
    with jax.enable_x64(True):
        few, many = (exact.batch(hidden, 2, samples, np.random.default_rng(0)) for samples in (215, 10_000_000))
        assert few.query.shape == (215,)
        assert many.query.shape == (exact.different(hidden),) == (216,)
        assert float(many.weights.mean()) == pytest.approx(1.0)
        assert 0 < float(abs(many.weights - 1).max()) < 6 / math.sqrt(10_000_000 / 216)
