"""The paper's own tests: the layer, the oracle, the closed forms, the claims, a short training."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import stairwise as sw
from stairwise.paper import ConfigError

from in_context_regression import PAPER, model, theory
from in_context_regression.claims.sizes import Exact
from in_context_regression.task import LinearRegression

SMALL = {"steps": 20, "measure_every": 10, "batch": 32, "prompts.width": 2, "prompts.length": 6}


def task(noise: float = 0.0, length: int = 7, width: int = 3) -> LinearRegression:
    return LinearRegression(jnp.asarray(theory.spectrum(width, 1.0), dtype=jnp.float64), noise, length)


def test_the_layer_is_the_papers_formula():
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        layer = model.LinearSelfAttention(*(jnp.asarray(rng.standard_normal((4, 4))) for _ in range(2)))
        prompt = task().sample(jax.random.key(1))
        tokens = np.vstack([np.c_[prompt.inputs, prompt.labels], np.append(prompt.query, 0.0)])
        E = tokens.T  # one token a column, as it is printed
        f = E + np.asarray(layer.value) @ E @ (E.T @ np.asarray(layer.key_query) @ E) / 7
        assert float(layer(prompt)) == pytest.approx(f[-1, -1], rel=1e-12)


def test_the_oracle_knows_the_answer_without_noise_and_shrinks_with_it():
    with jax.enable_x64(True):
        prompt = task().sample(jax.random.key(2))
        assert float(task().answer(prompt)) == pytest.approx(float(prompt.target), rel=1e-10)
        noisy = task(noise=0.7).sample(jax.random.key(2))
        X, y = np.asarray(noisy.inputs), np.asarray(noisy.labels)
        ridge = np.linalg.solve(X.T @ X + 0.49 * np.eye(3), X.T @ y)
        assert float(task(noise=0.7).answer(noisy)) == pytest.approx(ridge @ np.asarray(noisy.query), rel=1e-10)


def test_the_closed_form_of_the_loss_is_the_average_over_prompts():
    l, N, noise = theory.spectrum(5, 1.0), 20, 0.5
    P = np.diag(1 / theory.gamma(l, N, noise))
    problem = LinearRegression(jnp.asarray(l, dtype=jnp.float32), noise, N)
    layer = model.gradient_step(jnp.asarray(P, dtype=jnp.float32))
    keys = jax.random.split(jax.random.key(0), 20_000)
    losses = np.asarray(jax.jit(jax.vmap(lambda key: model.loss(layer, problem.sample(key))))(keys))
    error = losses.std() / len(losses) ** 0.5
    assert abs(losses.mean() - theory.loss(P, l, N, noise)) < 4 * error
    assert theory.loss(P, l, N, noise) == pytest.approx(theory.minimum(l, N, noise), rel=1e-12)


def test_no_preconditioner_beats_the_optimum():
    rng, l = np.random.default_rng(3), theory.spectrum(4, 2.0)
    best = np.diag(1 / theory.gamma(l, 9))
    for _ in range(100):
        assert theory.loss(best + 0.1 * rng.standard_normal((4, 4)), l, 9) > theory.minimum(l, 9)


def test_every_claim_that_can_be_checked_at_once_holds(tmp_path):
    rows = sw.verify(PAPER.id, store=str(tmp_path))
    found = {row.claim.id: row.verdict.status for row in rows}
    assert {id for id, status in found.items() if status == "skipped"} == {"fig-training", "fig-shift"}
    assert set(found.values()) == {"holds", "skipped"}


def test_an_unshifted_covariance_says_nothing_about_shifts(tmp_path):
    row = sw.verify(f"{PAPER.id}/shift", store=str(tmp_path), scale=1.0, test_decay=1.0, test_length=2)
    assert row.verdict.status == "vacuous"


def test_too_large_a_start_is_named_as_outside_the_theorem(tmp_path):
    row = sw.verify(f"{PAPER.id}/flow", store=str(tmp_path), start=9.0, width=2)
    assert row.verdict.status == "outside"
    assert row.verdict.hypotheses == ("the start is small",)


def test_a_trained_layer_is_tried_on_other_prompts_and_both_figures_show_every_seed(tmp_path):
    place = str(tmp_path)
    trained = sw.run(f"{PAPER.id}/training", seeds=2, changes=SMALL, store=place)
    changes = {f"training.{path}": value for path, value in SMALL.items()}
    changes |= {"test_examples": 4096, "scales": (50, 100), "test_lengths": (3, 6)}
    shifted = sw.run(f"{PAPER.id}/shift", seeds=2, changes=changes, store=place)
    for before, after in zip(trained.records, shifted.records, strict=True):
        layer = model.LinearSelfAttention(
            *(jnp.asarray(before.array(f"train/{name}")) for name in ("value", "key_query"))
        )
        prompts = before.config.prompts
        predicted = theory.loss(np.asarray(layer.preconditioner()), theory.spectrum(2, prompts.decay), 6)
        assert after.series("loss", "length")[1][-1] == pytest.approx(predicted, rel=0.15)
        assert after.final("loss", "scale") == after.final("loss", "length")  # the same prompts: nothing has shifted
    left, right = trained.figure("fig-training").axes
    assert len(left.lines) == len(right.lines) == 2 * (2 + 1)  # every seed, and their median
    left, right = shifted.figure("fig-shift").axes
    assert len(left.lines) == len(right.lines) == 2 * (2 + 2)  # every seed, and two closed forms


def test_sizes_that_cannot_be_integrated_are_refused_in_one_line():
    with pytest.raises(ConfigError, match=r"width=4 length=4 noise=0.0 must keep .* at 11 or less, not 24"):
        Exact(width=4, length=4)
