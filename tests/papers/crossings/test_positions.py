"""Facts about random codes for the places of LEGO clauses, and how the hypotheses on them are judged."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.config import ConfigError, update
from stairwise.papers.crossings.positions import EXPERIMENT, Told, kind, train
from stairwise.papers.lego.config.practical import Practical, Shape
from stairwise.papers.lego.config.task import Task
from stairwise.papers.lego.train import make_task
from tests.helpers import assert_close
from tests.papers.crossings import judged
from tests.papers.records import HandMade
from tests.trials import run, running

pytestmark = pytest.mark.slow  # most of them compile a network

SMALL = Told(lego=Practical(Task("C3", 9, 2), Shape(width=8), test_lengths=(2, 4)), codes=True)


def codes(purpose: str, sentences: int, **changes) -> np.ndarray:
    trial = running(update(SMALL, changes), seed=3)
    return np.asarray(jax.vmap(lambda n: train.codes_of(trial, purpose, n))(jnp.arange(sentences, dtype=jnp.int32)))


def test_codes_are_signs_as_large_as_a_learned_table_on_the_last_half_of_the_width():
    drawn = codes("training", 3)
    assert drawn.shape == (3, SMALL.lego.places, 8)
    assert not drawn[..., :4].any()
    assert_close(np.abs(drawn[..., 4:]), np.full((3, 9, 4), 5**-0.5), 1e-6)
    assert np.abs(codes("training", 1, apart=False)).min() > 0.4


def test_one_draw_serves_training_and_test_and_new_draws_serve_no_two_sentences():
    fixed = codes("training", 4, sets=1)
    assert (fixed == fixed[0]).all()
    assert (codes("test", 2, sets=1) == fixed[0]).all()
    new = np.concatenate([codes("training", 4), codes("test", 4)])
    assert len(np.unique(new.reshape(8, -1), axis=0)) == 8


def test_a_set_that_is_shared_changes_every_so_many_sentences():
    shared = codes("training", 6, share=3).reshape(6, -1)
    assert (shared[:3] == shared[0]).all()
    assert (shared[3:] == shared[3]).all()
    assert (shared[0] != shared[3]).any()
    few = codes("training", 40, sets=2).reshape(40, -1)
    assert len(np.unique(few, axis=0)) == 2


def test_codes_of_zero_tell_nothing_and_others_stand_apart_in_the_stream():
    model = train.make_model(SMALL, jax.random.key(0))
    task = make_task(SMALL.lego.task)
    clauses = task.clauses(task.sample(jax.random.key(1)))
    places = jnp.arange(len(clauses), dtype=jnp.int32)
    silent = train.told(model, jnp.zeros((9, 8), dtype=jnp.float32))
    np.testing.assert_array_equal(silent(clauses, 2), model(clauses, 2))
    drawn = jnp.asarray(codes("training", 1)[0])
    stream = train.told(model, drawn).embed(clauses, places)
    np.testing.assert_array_equal(stream[:, 4:], drawn[: len(clauses), 4:])
    np.testing.assert_array_equal(stream[:, :4], model.embed(clauses, places)[:, :4])


def test_arms_have_names_of_their_own_and_those_that_differ_in_draws_share_a_program():
    for preset in EXPERIMENT.presets.values():
        assert [kind(update(preset.config, fields)) for fields in preset.arms.values()] == list(preset.arms)
    programs = {trial.arm: trial.program_key for trial in EXPERIMENT.trials("quick", [0])}
    draws = [programs[f"codes, {name}"] for name in ("one draw", "16 draws", "new every step", "new every sentence")]
    assert len(set(draws)) == 1


def test_bad_configs_are_refused_by_name():
    with pytest.raises(ConfigError, match=r"lego\.model\.positions=rotary must be none where codes is set"):
        update(SMALL, {"lego.model.positions": "rotary"})
    with pytest.raises(ConfigError, match="share=4 must be 1 where sets=2 are reused"):
        update(SMALL, {"share": 4, "sets": 2})


def test_a_decoder_learns_to_ignore_codes_that_are_never_the_same():
    changes = {"lego.model.width": 32, "lego.steps": 500, "lego.learning_rate": 5e-3, "places": "any"}
    config = update(SMALL, changes | {"lego.batch": 32, "lego.test_examples": 100})
    outcome = run(train.training, config)
    assert outcome.last("exact 2") >= 0.9
    assert outcome.last("exact 4") >= 0.5


def records(**exact: float) -> list[HandMade]:
    """One run of each quick arm with the same exact match at every length, 1 unless told otherwise."""
    preset = EXPERIMENT.presets["quick"]
    made = []
    for place, (name, fields) in enumerate(preset.arms.items()):
        value = exact.get(f"arm{place}", 1.0)
        series = {f"exact {length}": ([1], [value]) for length in preset.config.lego.test_lengths}
        made.append(HandMade(update(preset.config, fields), measured=series))
        assert kind(made[-1].config) == name
    return made


def test_hypotheses_are_judged_by_medians_at_twice_the_length():
    perfect = records()
    assert judged("positions-fresh", perfect).status == "holds"
    assert judged("positions-fresh", records(arm7=0.8)).status == "not-reproduced"
    assert judged("positions-step", records(arm6=0.5)).measured == pytest.approx(0.5)
    assert judged("positions-fixed", perfect).status == "not-reproduced"
    assert judged("positions-fixed", records(arm1=0.1, arm4=0.0)).status == "holds"
    assert judged("positions-coverage", records(arm8=0.95)).status == "holds"
    assert judged("positions-best", records(arm0=0.9)).status == "not-reproduced"
    assert judged("positions-best", perfect[1:]).status == "skipped"
