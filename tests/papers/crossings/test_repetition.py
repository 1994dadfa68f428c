"""Facts about prompts and chains of three tasks, about pools, and how the hypotheses on repetition are judged."""

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.config import ConfigError, update
from stairwise.papers.composition.config import Task as CompositionTask
from stairwise.papers.composition.train import task_of
from stairwise.papers.crossings import chains
from stairwise.papers.crossings.repetition import EXPERIMENT, Repeated, runs, train
from stairwise.papers.lego.config.task import Task as LegoTask
from stairwise.papers.lego.train import make_task
from stairwise.papers.parity_cot.config.task import Task as ParityTask
from stairwise.papers.parity_cot.config.training import Decoder
from stairwise.train.gradient import pool
from tests.papers.crossings import judged
from tests.papers.records import HandMade
from tests.trials import running

pytestmark = pytest.mark.slow  # most of them compile a network

TRIAL = running(Repeated(), seed=5)
KEY = jax.random.key(1)


def test_the_chain_of_a_parity_ends_in_the_sum_of_its_secret_bits():
    prompt, answers = chains.parity(ParityTask(bits=6, size=3, secret=(0, 2, 5)), TRIAL)(KEY)
    bits = np.asarray(prompt[:6])
    assert prompt[6] == 0
    np.testing.assert_array_equal(answers, np.cumsum(bits[[0, 2, 5]]) % 2)


def test_the_chain_of_a_composition_is_the_way_of_its_letter():
    task = CompositionTask(blocks=4, alphabet=3)
    prompt, answers = chains.composition(task, TRIAL)(KEY)
    sequence, letter = prompt[:-1].reshape(4, 3), int(prompt[-1])
    maps = task_of(task, TRIAL)
    np.testing.assert_array_equal(answers, [maps.hop_by_doubling(sequence, hops)[0, letter] for hops in range(1, 5)])


def test_the_chain_of_lego_is_its_values_after_the_predicates_in_order():
    task = LegoTask("S3", 6, 3)
    prompt, answers = chains.lego(task, TRIAL)(KEY)
    lego = make_task(task)
    _, action, value = lego.starts
    told = prompt[:9].reshape(3, 3)
    np.testing.assert_array_equal(told[1:, 2], told[:-1, 0])  # each predicate starts from the one before
    assert int(prompt[9]) == int(told[0, 2])
    np.testing.assert_array_equal(answers, lego.track(prompt[10] - value, told[:, 1] - action)[1:] + value)


def test_a_lesson_asks_for_every_answer_in_view_of_those_before_or_for_the_last_alone():
    chain = chains.Chain(jnp.array([7, 8], dtype=jnp.int32), jnp.array([1, 2, 3], dtype=jnp.int32))
    whole, last = chains.lesson(chain, True), chains.lesson(chain, False)
    assert (whole.tokens.tolist(), whole.labels.tolist()) == ([7, 8, 1, 2], [1, 2, 3])
    assert (last.tokens.tolist(), last.labels.tolist()) == ([7, 8], [3])


def test_a_pool_of_one_trains_on_one_example_and_fresh_data_begin_with_it():
    config = Repeated(
        task="lego", every_step=True, lego=LegoTask("C3", 4, 2), model=Decoder(width=8, heads=1), batch=3, samples=1
    )
    trial, without_pool = running(config, seed=5), running(replace(config, samples=0), seed=5)

    draw = pool(train.example, 3, lambda own: own.samples)
    repeated, fresh = (draw(one, None, None, jax.random.key(0), jnp.int32(0)) for one in (trial, without_pool))
    assert (repeated.tokens == fresh.tokens[0]).all()
    assert len(np.unique(fresh.tokens, axis=0)) == 3


def test_bad_configs_are_refused_by_name():
    with pytest.raises(ConfigError, match=r"model\.dropout=0\.1 must be 0"):
        update(Repeated(), {"model.dropout": 0.1})
    with pytest.raises(ConfigError, match="must be below"):
        update(Repeated(), {"looks": 10**6, "measure_every": 10**6})


# --- judging ----------------------------------------------------------------------------------------------------------


def record(task: str, every_step: bool, pool: int, hit: int) -> HandMade:
    config = update(EXPERIMENT.presets["quick"].config, {"task": task, "every_step": every_step, "samples": pool})
    return HandMade(config, measured={"hit": ([1], [hit])})


def cell(task: str, every_step: bool, hits: dict[int, tuple[int, ...]]) -> list[HandMade]:
    return [record(task, every_step, pool, hit) for pool, own in hits.items() for hit in own]


def test_runs_that_spent_their_budget_are_censored_and_samples_are_those_of_the_smallest_pool_that_succeeds():
    runs_of_one = cell("parity", True, {250: (-1, -1, 4), 1000: (2, 3, 9), 0: (4, 4, 6)})
    assert runs.median(runs_of_one[:3]) == math.inf
    assert runs.best_pool(runs_of_one) == 3 * 50
    assert runs.fresh(runs_of_one) == 4 * 50
    assert runs.samples_saved(runs_of_one) == 4 * 50 * 32 / 1000
    assert runs.distinct(runs_of_one[0], 5) == 5 * 32
    assert runs.distinct(runs_of_one[0], 100) == 250


def test_hypotheses_are_judged_by_medians_of_steps():
    sooner, later = {250: (2, 2), 0: (5, -1)}, {250: (-1, -1), 0: (2, 2)}
    both = cell("parity", False, sooner) + cell("lego", False, sooner) + cell("composition", False, later)
    assert judged("repetition-answer", both).status == "holds"
    assert judged("repetition-answer", both[4:]).status == "not-reproduced"
    equal, ahead = {250: (5, 5), 0: (5, 5)}, {250: (2, 2), 0: (5, 5)}
    assert judged("repetition-steps", cell("lego", True, equal)).status == "holds"
    assert judged("repetition-steps", cell("lego", True, ahead)).measured == pytest.approx(0.4)
    assert judged("repetition-steps", cell("lego", True, later)).status == "reported"
    assert judged("repetition-samples", cell("lego", True, equal)).measured == pytest.approx(5 * 50 * 32 / 250)
    assert judged("repetition-samples", cell("lego", True, later)).status == "not-reproduced"
