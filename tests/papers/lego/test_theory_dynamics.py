"""Descents of attention: the reference table, where paths stop, the window, hypotheses, and what configs refuse."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.lab.config import ConfigError
from stairwise.papers.lego import algorithms, reduced
from stairwise.papers.lego.claims import dynamics, lengths
from stairwise.papers.lego.claims.descents import Stages, path_of
from stairwise.papers.lego.config.dynamics import AttentionRun, Constants, Curriculum, Doubling, FeatureRun
from stairwise.papers.lego.theory import lengths as closed
from tests.helpers import assert_close

S4 = AttentionRun(action="S4")


def test_two_thousand_steps_on_s4_end_where_an_independent_run_ended():
    with jax.enable_x64(True):
        path = path_of(S4)
        assert_close(path.scores[-1][[0, 2]], [4.71, 4.61], 2e-3)
        assert_close(closed.concentration(path.scores[-1], 2, 2), 0.0092, 1e-2)
        assert_close(closed.critical_length(path.scores[-1], 4), 217, 1e-2)
        assert (np.diff(path.losses[20:150]) < 0).all()  # near the floor it wavers


def test_a_path_stops_at_the_first_loss_below_its_level():
    with jax.enable_x64(True):
        config = dataclasses.replace(S4, supervised=(2,), stop="power")
        path = path_of(config)
        level = config.vocabulary**-2.0
        assert path.reached
        assert path.losses[-1] < level <= path.losses[-2]
        assert len(path.losses) == 80  # 79 steps
        assert_close(closed.concentration(path.scores[-1], 2, 2), 0.144, 5e-3)


def test_kept_gradients_are_those_of_the_kept_scores():
    with jax.enable_x64(True):
        path = path_of(S4)
        network = reduced.ideal_values(S4.group, S4.variables)
        populations = [reduced.two_steps(S4.group, step) for step in (1, 2)]
        total = lambda s: sum(reduced.mean_loss(network, s, some) for some in populations)  # noqa: E731
        both = jax.jit(jax.value_and_grad(total))
        for t in (0, 500):
            loss, gradient = both(jnp.asarray(path.scores[t]))
            assert_close(path.losses[t], loss, 1e-10)
            assert_close(path.gradients[t], gradient, 1e-10)


def test_the_window_of_symmetric_attention_holds_and_names_a_clip_that_is_too_small():
    with jax.enable_x64(True):
        verdict = dynamics.window(dynamics.FINE, 0)
        assert verdict.status == "holds"
        assert_close([row["eps"] for row in verdict.details if "eps" in row], [0.2931], 1e-3)
        low = dataclasses.replace(dynamics.FINE, network=Constants(clip_factor=4.0), steps=4000)
        assert "6.05" in dynamics.window(low, 0).hypotheses[0]


def test_the_printed_sign_of_the_answer_block_is_refuted_by_its_exact_push():
    with jax.enable_x64(True):
        verdict = dynamics.printed_push_of_the_answer_block(AttentionRun(action="C3"), 0)
        assert verdict.status == "refuted"
        assert_close(verdict.measured, 0.3512, 1e-3)


def test_theorem_4_1_names_the_hypothesis_that_a_symmetric_action_fails():
    with jax.enable_x64(True):
        verdict = lengths.concentration_exponent(S4, 0)
        assert verdict.hypotheses == ("action=S4 must be free (Assumption 4.1: simply transitive)",)


def test_self_labels_of_a_sharp_annotator_are_right_and_of_a_blunt_one_are_not():
    with jax.enable_x64(True):
        config = Doubling(contexts=64)
        network = reduced.ideal_values(config.group, config.variables)
        label = jax.jit(lambda s: algorithms.self_labelled(config, network, s, 4, 4, jax.random.key(0))[1])
        assert float(label(jnp.array([6.0, 0.0, 6.0, 0.0]))) == 1
        assert float(label(jnp.zeros(4))) < 0.9


def test_padding_a_context_changes_nothing():
    with jax.enable_x64(True):
        table = jnp.asarray(S4.group.table, dtype=jnp.int32)
        actions, values = jnp.array([3, 7, 20, 5], dtype=jnp.int32), jnp.array([1, 2, 0], dtype=jnp.int32)
        context = jax.jit(lambda actions, values: reduced.chain_context(table, actions, values, 4, 2, jnp.float64))
        short = context(actions, values)
        long = context(np.array([*actions, 9, 9], dtype=np.int32), np.array([*values, 3], dtype=np.int32))
        for a, b in zip(short, long, strict=True):
            assert np.array_equal(a, b)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AttentionRun(action="X4"), "action=X4 must be"),
        (lambda: AttentionRun(action="C1"), "must be in 2..128"),
        (lambda: AttentionRun(supervised=(3,)), "supervised=3 must be at least 1 and at most 2"),
        (lambda: Doubling(stages=6, variables=50), "stages=6 needs 65 variables"),
        (lambda: Curriculum(lengths=(14,)), "lengths=14 must be below task.variables=14"),
        (lambda: Constants(power=5), "power=5 must be even"),
        (lambda: FeatureRun(sigma0=0.0), "sigma0=0.0 must be above 0"),
        (lambda: Stages(stop="never"), "stop=never must be one of power, window"),
    ],
)
def test_bad_sizes_are_refused_in_one_line(make, message):
    with pytest.raises(ConfigError, match=message.replace("(", r"\(").replace(".", r"\.")) as caught:
        make()
    assert "\n" not in str(caught.value)
