"""Facts about garbled labels and the chains that are kept, and how the hypotheses on the filter are judged."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.config import ConfigError, structure, update
from stairwise.papers.crossings import PAPER
from stairwise.papers.crossings.filter import EXPERIMENT, Filtered, runs, train
from stairwise.papers.crossings.filter.config import kept_share, right_share
from stairwise.papers.lego.config.practical import Practical, Shape
from stairwise.papers.lego.config.task import Task
from stairwise.papers.lego.evaluate import VALUE
from stairwise.papers.lego.rollout import roll_out
from stairwise.papers.lego.train import WEIGHTS, Batch, batch_loss, make_decoder, make_task
from stairwise.train.leaves import named_leaves
from tests.helpers import assert_close
from tests.papers.crossings import judged
from tests.papers.records import HandMade
from tests.trials import running

pytestmark = pytest.mark.slow  # most of them compile a network

TASK = make_task(Task("S3", 6, 4))


@pytest.fixture(scope="module")
def tellings():
    """Two independent garblings (p = .3) of the true labels of 4000 chains, and the truth."""

    def one(n):
        answers = TASK.answers(TASK.example(jax.random.key(0), n))[1:]
        garble = [train.garbled(TASK, answers, jnp.float32(0.3), jax.random.key(1 + 2 * n + r)) for r in (0, 1)]
        return jnp.stack([answers, *garble])

    return np.asarray(jax.jit(jax.vmap(one))(jnp.arange(4000, dtype=jnp.int32)))


def test_noise_replaces_values_by_other_values_and_touches_nothing_else(tellings):
    truth, first = tellings[:, 0], tellings[:, 1]
    np.testing.assert_array_equal(truth[..., :VALUE], first[..., :VALUE])
    assert first[..., VALUE].min() >= TASK.starts[2]
    assert first[..., VALUE].max() < TASK.vocabulary
    assert np.mean(truth[..., VALUE] != first[..., VALUE]) == pytest.approx(0.3, abs=4 * (0.21 / 16_000) ** 0.5)


def test_tellings_agree_and_are_right_as_often_as_the_formulas_say(tellings):
    truth, first, second = (tellings[:, k, :, VALUE] for k in range(3))
    agree = np.all(first == second, axis=1)
    share, right = kept_share(0.3, 3, 4), right_share(0.3, 3, 4)
    assert np.mean(agree) == pytest.approx(share, abs=4 * (share / 4000) ** 0.5)
    found = np.mean(np.all(first == truth, axis=1)[agree])
    assert found == pytest.approx(right, abs=4 * (right * (1 - right) / agree.sum()) ** 0.5)
    assert kept_share(0.3, 3, 4, tellings=1) == pytest.approx(1)
    assert right_share(0.3, 3, 4, tellings=1) == pytest.approx(0.7**4)


def test_training_draws_from_the_kept_chains_alone_and_stands_still_where_there_are_none():
    base = Practical(Task("S3", 6, 2), Shape(width=8), test_lengths=(2, 4), keep_weights=True)
    rates = {"learning_rate": 1e-3, "final_rate": 1.0}
    config = Filtered(
        base=base, length=4, samples=6, batch=3, steps=5, noise=0.0, systematic=False, filter=True, **rates
    )
    trial, key, zero = running(config, seed=2), jax.random.key(3), jnp.int32(0)

    (stage,) = train.training(structure(config))

    @jax.jit
    def run():
        model = make_decoder(base, jax.random.key(0))
        kept = {f"train/{name}": leaf for name, leaf in named_leaves(model, WEIGHTS).items()}
        state = stage.init(trial, {"base": kept}, key)
        chain = TASK.sample(jax.random.fold_in(train.pool_key(trial), 4))
        own = roll_out(model, TASK.predicates(chain), TASK.answers(chain)[0], 4)
        alone = batch_loss(base, model, Batch(TASK.bootstrapped(chain, own)[None], None))

        def after(kept):
            return stage.tick(trial, state._replace(aux=state.aux._replace(kept=kept)), key, zero)

        return model, state, own, after(jnp.arange(6) == 4), alone, after(jnp.zeros(6, dtype=bool))

    model, state, own, moved, alone, none = run()
    np.testing.assert_array_equal(state.aux.answers[4], own)
    assert_close(moved.loss, alone, 1e-5)
    for still, before in zip(jax.tree.leaves(none.model), jax.tree.leaves(model), strict=True):
        np.testing.assert_array_equal(still, before)


def test_all_arms_of_a_seed_start_from_one_annotator_and_share_a_program():
    trials = PAPER.experiment("filter").trials("quick", [0, 1])
    assert len({trial.program_key for trial in trials}) == 1
    assert len({trial.needs["base"].digest for trial in trials}) == 2


def test_bad_configs_are_refused_by_name():
    with pytest.raises(ConfigError, match="length=80 must be at most the longest that base sees, 40"):
        Filtered(length=80)
    with pytest.raises(ConfigError, match=r"base\.model\.positions=rotary must be none"):
        update(Filtered(), {"base.model.positions": "rotary"})


# --- judging ----------------------------------------------------------------------------------------------------------


def record(noise: float, systematic: bool, filtered: bool, after: float, **more: float) -> HandMade:
    fields = {"noise": noise, "systematic": systematic, "filter": filtered}
    config = update(EXPERIMENT.presets["quick"].config, fields)
    finals = {"kept": 1.0, "label exact": 1.0, "label step": 1.0} | more
    series = {name.replace("_", " "): ([200], [value]) for name, value in finals.items()}
    return HandMade(config, measured=series | {"exact 10": ([0, 200], [0.9, after])})


def test_hypotheses_are_judged_by_medians_at_the_next_length():
    pair = [record(0.2, False, False, 0.5), record(0.2, False, True, 0.7)]
    assert judged("filter-helps", pair).measured == pytest.approx(0.2)
    assert judged("filter-helps", pair[:1]).status == "skipped"  # no pair, no gain
    same = [record(0.2, True, kept, after, label_exact=0.1) for kept, after in ((False, 0.5), (True, 0.52))]
    assert judged("filter-systematic", same).status == "holds"
    harmless = [record(0.2, True, kept, 0.9) for kept in (False, True)]
    assert judged("filter-systematic", harmless).status == "vacuous"  # nothing was wrong
    assert judged("filter-mild", [record(0.05, False, False, 0.85)]).status == "not-reproduced"
    assert judged("filter-mild", [record(0.05, False, False, 0.89)]).status == "holds"


def test_shares_are_compared_with_the_formula_where_enough_chains_are_kept():
    share, right = kept_share(0.1, 4, 10), right_share(0.1, 4, 10)
    near = record(0.1, False, True, 0.9, kept=share + 0.01, **{"label exact": right - 0.02})
    assert judged("filter-labels", [near]).measured == pytest.approx(0.02)
    far = record(0.4, False, True, 0.9, kept=0.0, **{"label exact": 0.0})
    assert judged("filter-labels", [far]).status == "holds"  # nothing kept, as the formula says
    assert [row["p"] for row in runs.table([near, far])] == [0.1, 0.4]
