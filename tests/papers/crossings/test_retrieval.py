"""The running parity told with names and told by place: the same values, another way to find the next bit."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.config import ConfigError, update
from stairwise.papers.crossings import retrieval
from stairwise.papers.crossings.retrieval import Tracking, runs, train
from stairwise.papers.crossings.retrieval.config import Model
from tests.helpers import assert_close
from tests.papers.records import HandMade
from tests.trials import run, running

pytestmark = pytest.mark.slow  # most of them compile a network

CONFIG = Tracking(length=3, names=14, model=Model(width=8, heads=2), batch=4, look=4, budget=8, test_examples=4)
SEED = 5
TASK = train.task_of(CONFIG, 3)


def bits_and_values(told: train.Sentence) -> tuple[np.ndarray, np.ndarray]:
    _, action, value = TASK.starts
    return np.asarray(told.clauses)[:, 1] - action, np.asarray(told.answers)[:, 4] - value


@pytest.mark.parametrize("length", [3, 6])
def test_by_place_the_answers_add_the_bits_at_the_secret_places(length):
    config = replace(CONFIG, retrieval="place")
    secret = np.asarray(train.secret_places(running(config, SEED)))
    assert sorted(set(secret.tolist())) == sorted(secret.tolist())
    assert (secret[:3] < 6).all()
    assert (secret[3:] >= 6).all()
    told = train.sentence(running(config, SEED), jax.random.key(length), length)
    bits, values = bits_and_values(told)
    assert (values == (values[0] + np.cumsum([0, *bits[secret[:length]]])) % 2).all()
    assert np.asarray(train.places(config, length))[2 * length :].tolist() == list(range(12, 12 + length))


def test_by_name_the_answers_add_the_bits_of_the_clauses_that_name_the_variables():
    told = train.sentence(running(CONFIG, SEED), jax.random.key(0), 3)
    bits, values = bits_and_values(told)
    clauses, names = np.asarray(told.clauses), np.asarray(told.answers)[:, 3]
    assert len(clauses) == 6
    for step in range(3):
        (found,) = np.flatnonzero(clauses[:, 2] == names[step])
        assert clauses[found, 0] == names[step + 1]
        assert values[step + 1] == (values[step] + bits[found]) % 2


def test_by_name_the_order_of_the_clauses_does_not_matter_and_by_place_it_does():
    for kind, moved in (("name", False), ("place", True)):
        config = replace(CONFIG, retrieval=kind)
        model = train.initial(running(config, SEED))
        told = train.sentence(running(config, SEED), jax.random.key(2), 3)
        other = told._replace(clauses=told.clauses[::-1])
        logits, changed = (jax.jit(partial(train.read, config))(model, one)[0] for one in (told, other))
        assert (float(jnp.max(jnp.abs(changed - logits))) > 1e-3) == moved


def test_a_look_sees_rows_that_are_distributions_and_all_answers_together():
    config = replace(CONFIG, retrieval="place")
    model = train.initial(running(config, SEED))
    told = train.sentence(running(config, SEED), jax.random.key(3), 3)
    logits, weights = jax.jit(partial(train.read, config))(model, told)
    assert logits.shape[0] == 3
    assert weights.shape == (2, 3, 9)
    assert_close(jnp.sum(weights, axis=-1), np.ones((2, 3)), 1e-5)


def record(kind: str, length: int, hit: int, beyond: float, entropy: float) -> HandMade:
    config = replace(Tracking(), retrieval=kind, length=length)
    measured = {name: ([0], [value]) for name, value in (("hit", hit), ("beyond", beyond), ("entropy", entropy))}
    return HandMade(config, measured=measured)


def test_the_hypotheses_can_hold_and_can_fall():
    claims = {claim.id: claim.judged for claim in retrieval.LEDGER.claims}
    good = [record("name", 2, 10, 0.9, 0.2), record("place", 2, 8, 0.25, 0.4)]
    assert {id: judge(good).status for id, judge in claims.items()} == dict.fromkeys(claims, "holds")
    bad = [record("name", 2, 10, 0.3, 0.5), record("place", 2, 12, 0.25, 0.4)]
    assert {id: judge(bad).status for id, judge in claims.items()} == dict.fromkeys(claims, "not-reproduced")
    lucky = [record("name", 2, 10, 0.9, 0.2), record("place", 2, 8, 0.5, 0.4)]
    assert claims["retrieval-length"](lucky).status == "not-reproduced"
    unlearnt = [record("name", 2, -1, 0.0, 0.9), record("place", 2, 8, 0.25, 0.4)]
    assert runs.ratios(unlearnt) == {}
    assert claims["retrieval-samples"](unlearnt).status == "not-reproduced"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"names": 17}, "names=17 must be at least 18"),
        ({"model.heads": 3}, r"model\.heads=3 must divide width=64"),
        ({"look": 100}, "look=100 must be a multiple of batch=64"),
        ({"budget": 1000}, "budget=1000 must be a multiple of look=640"),
    ],
)
def test_bad_sizes_are_one_line(changes, words):
    with pytest.raises(ConfigError, match=words):
        update(Tracking(), changes)


def test_a_short_chain_is_found_by_place_and_not_beyond():
    found = run(
        train.training,
        Tracking(
            retrieval="place", length=2, model=Model(width=32), learning_rate=3e-3, budget=12_800, test_examples=64
        ),
    )
    assert found.last("accuracy") > 0.95
    assert found.last("beyond") < 0.6
