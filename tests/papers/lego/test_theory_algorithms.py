"""The programs: Algorithm 1 on a tiny transformer, Algorithm 2 through two stages, and the features' stage."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.papers.lego import algorithms, curriculum, model, reduced
from stairwise.papers.lego.config.dynamics import Doubling, FeatureRun
from stairwise.papers.lego.task import lego
from stairwise.papers.lego.theory import lengths
from tests.helpers import assert_close
from tests.trials import run

pytestmark = pytest.mark.slow  # trainings: seconds of compiling each


def test_two_stages_of_algorithm_2_reach_their_loss_with_right_labels_and_store_eps_of_every_step():
    with jax.enable_x64(True):
        config = Doubling(stages=2, contexts=400, test_examples=100, steps=200)
        outcome = run(algorithms.doubling, config)
        assert outcome.status == "reached"
        assert outcome.last("label accuracy") == 1
        assert outcome.last("loss") < config.vocabulary**-2.0
        for length in (2, 4):
            scores = outcome.arrays[f"L={length}/scores"]
            assert_close(outcome.arrays[f"L={length}/eps"], lengths.every_step(scores, length), 1e-9)
            match = outcome.arrays[f"L={length}/exact match"]
            assert match[1] >= 0.99  # at 2L
            assert match[3] < 0.05  # at 8L


def test_the_features_stage_learns_c3_and_keeps_what_the_curriculum_needs():
    with jax.enable_x64(True):
        outcome = run(algorithms.features, FeatureRun(steps=6000, points=3))
        assert outcome.last("accuracy") == 1
        assert outcome.last("winners") == 9
        assert abs(outcome.last("ratio") - 1) < 0.01
        assert outcome.last("drift") < 1e-10
        winner, end = outcome.arrays["features/winner"], outcome.arrays["features/end"]
        assert np.array_equal(end.argmax(axis=1), winner)
        arrived = np.take_along_axis(outcome.arrays["features/arrival"], winner[:, None], axis=1)
        assert (arrived > 0).all()


def test_the_masked_rollout_of_the_transformer_says_what_decoding_from_scratch_says():
    task = lego("S3", 7, 2)
    drawn = model.initial(jax.random.key(0), task.vocabulary, 3, sigma0=0.5, bias=0.1, clip=30.0, rho=0.5, q=4)
    blocks = jax.random.normal(jax.random.key(1), (2, task.vocabulary, task.vocabulary), dtype=jnp.float32)
    network = eqx.tree_at(lambda m: m.scores, drawn, model.SparseScores(*blocks))
    heard = jax.jit(lambda chain, length: curriculum.rollout(network, task, chain, length))
    greedy = jax.jit(lambda clauses: network.greedy(clauses, 2))
    for seed in range(2):
        chain = task.sample(jax.random.key(seed))
        clauses = list(np.asarray(task.truncated(chain, 0)))
        for _ in range(2):
            clauses.append(np.asarray(greedy(np.stack(clauses))))
        found = heard(chain, jnp.int32(2))
        assert np.array_equal(found.said, np.stack(clauses[3:]))
        truth = np.asarray(task.answers(chain))[1:]
        assert np.array_equal(found.clause, (np.stack(clauses[3:]) == truth).all(axis=1))


def test_a_shorter_chain_does_not_see_the_padding():
    task = lego("C3", 7, 5)
    scores = [2.0, 0.0, 1.8, 0.1]
    network = model.ideal(task, clip=12.0, rho=0.5, q=4, scores=model.symmetric_scores(task, *scores))
    whole = eqx.tree_at(lambda m: m.weights, network, jnp.repeat(network.weights, 5, axis=2))
    found = jax.jit(lambda chain: curriculum.rollout(whole, task, chain, jnp.int32(3)))(task.sample(jax.random.key(0)))
    assert_close(found.missed[0], lengths.concentration(scores, 3, 1), 1e-5)
    assert bool(found.value[3:].all())


def test_reduced_attention_is_the_attention_of_the_transformer():
    with jax.enable_x64(True):
        task, scores = lego("S3", 7, 4), [1.3, -0.2, 0.7, 0.1]
        full = model.ideal(
            task,
            clip=12.0,
            rho=0.8,
            q=4,
            scores=model.symmetric_scores(task, *scores, dtype=jnp.float64),
            dtype=jnp.float64,
        )
        chain = task.sample(jax.random.key(1))
        values = chain.values.astype(jnp.int32)
        network = reduced.IdealValues(*_magnitudes(full, task), 12.0, 0.8, float(task.vocabulary - 3), 4)

        def both(chain, values):
            context = reduced.chain_context(task.table, chain.actions, values, 4, 3, jnp.float64)
            return reduced.loss(network, jnp.array(scores), context), model.token_losses(full, task, chain, 3)[0]

        four, full_model = jax.jit(both)(chain, values)
        assert_close(four, full_model, 1e-12)


def _magnitudes(full: model.ClauseTransformer, task) -> tuple[float, float]:
    weights = np.asarray(full.weights)[1]
    return float(weights.max()), float(-weights.min())
