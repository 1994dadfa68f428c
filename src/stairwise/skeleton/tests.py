"""The paper's own tests: facts about its task, its closed forms, its claims and one short training.

To change: state a fact in every test. They need the package to be installed (`pip install -e .`).
"""

import jax.numpy as jnp
import pytest
import stairwise as sw
from stairwise.paper import ConfigError

from stairwise.skeleton.paper import PAPER, theory
from stairwise.skeleton.paper.config import Training
from stairwise.skeleton.paper.model import MarkAttention, loss
from stairwise.skeleton.paper.task import Example, MarkedToken

SMALL = {"steps": 40, "measure_every": 10, "batch": 512}


def test_a_query_that_asks_for_the_mark_alone_answers_like_the_oracle():
    example = Example(jnp.array([1.0, -1.0, 1.0, 1.0], dtype=jnp.float32), jnp.int32(1))
    sharp = MarkAttention(jnp.array([0.0, 40.0], dtype=jnp.float32))
    assert float(sharp(example)) == pytest.approx(float(MarkedToken(4).answer(example)), abs=1e-6)
    assert float(loss(sharp, example)) < 1e-10


@pytest.mark.parametrize("length", [2, 5, 50])
def test_the_gradient_is_the_slope_of_the_loss(length):
    below, above = (theory.population_loss(length, 0.4 + shift) for shift in (-1e-6, 1e-6))
    assert (above - below) / 2e-6 == pytest.approx(theory.population_gradient(length, 0.4), rel=1e-6)


def test_descent_on_the_closed_form_only_ever_attends_more():
    attention = theory.descent(8, 1.0, 500)
    assert attention[0] == 1 / 8
    assert (attention[1:] > attention[:-1]).all()


def test_no_claim_that_can_be_checked_at_once_fails(tmp_path):
    rows = sw.verify(PAPER.id, store=str(tmp_path))
    assert isinstance(rows, list)
    statuses = {row.claim.id: row.verdict.status for row in rows}
    assert statuses == {"thm1": "holds", "fig1": "skipped"}  # fig1 needs trials: stairwise verify --run


def test_a_short_training_follows_the_closed_form_and_draws_its_figure(tmp_path):
    result = sw.run(f"{PAPER.id}/training", seeds=2, changes=SMALL, store=str(tmp_path))
    for record in result.records:
        steps, measured = record.series("attention")
        predicted = theory.descent(record.config.task.length, record.config.learning_rate, 40)[steps]
        assert abs(measured - predicted).max() < 0.05
    (axes,) = result.figure("fig1").axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["T=4", "T=16", "T=64", "closed form"]


def test_a_bad_value_is_one_line_that_names_the_field():
    with pytest.raises(ConfigError, match="measure_every=50 must be at most steps=40"):
        Training(steps=40, measure_every=50)
