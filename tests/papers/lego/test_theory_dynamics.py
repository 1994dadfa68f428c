"""Descents of attention: the reference table, where paths stop, the window, hypotheses, and what configs refuse."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.config import ConfigError
from stairwise.lab.contract import manifest
from stairwise.lab.ledger import where
from stairwise.papers.lego import PAPER, algorithms, reduced
from stairwise.papers.lego.claims import dynamics
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


def at(id, config):
    with jax.enable_x64(True):
        return PAPER.claim(id).at(config, 0)


def test_the_window_of_symmetric_attention_holds_and_names_a_clip_that_is_too_small():
    verdict = at("symm-window", dynamics.FINE)
    assert verdict.status == "holds"
    assert_close([row["eps"] for row in verdict.details if "eps" in row], [0.2931], 1e-3)
    low = dataclasses.replace(dynamics.FINE, network=Constants(clip_factor=4.0))
    assert PAPER.claim("symm-window").unmet(low) == ("C_B > 6.05, for the level to be below 1",)


def test_the_push_on_the_answer_block_is_positive_and_vanishes_with_the_clip():
    verdict = at("stage2.1-printed", dynamics.Clips(sizes=(256, 1024, 4096)))
    assert verdict.status == "holds"
    shares = [row["push on Q44 over Q43"] for row in verdict.details if "d" in row]
    assert all(share > 0 for share in shares)
    assert_close(shares[0], 0.0018315, 1e-4)


@pytest.mark.parametrize(("rho", "power"), [(0.3, 4), (1.5, 6)])
def test_the_push_on_the_answer_block_has_its_constant_at_every_activation(rho, power):
    network = Constants(clip_factor=6.0, rho=rho, power=power)
    verdict = at("stage2.1-printed", dynamics.Clips(network=network, sizes=(256, 1024, 4096)))
    assert verdict.status == "holds", verdict


def test_theorem_4_1_names_the_hypothesis_that_a_symmetric_action_fails():
    claim = PAPER.claim("thm4.1-attn")
    assert claim.unmet(dataclasses.replace(claim.cases[0], action="S4")) == ("it is free (Assumption 4.1)",)


LEMMAS = [f"{part}.{n}" for part, low, high in (("D", 1, 45), ("E", 1, 35), ("F", 1, 16)) for n in range(low, high + 1)]


@pytest.mark.parametrize("name", [f"Lemma {name}" for name in LEMMAS] + [f"Induction D.{n}" for n in (1, 2, 3)])
def test_every_lemma_and_induction_on_attention_has_a_check_of_its_own(name):
    found = where.find(manifest.read("lego"), name)
    short = name.replace("Lemma ", "lem").replace("Induction ", "ind").replace(".", "")
    assert short in [word for claim in found for word in (claim["id"], *claim["aliases"])]
    assert not any("no check of" in claim["says"] for claim in found)


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
        (lambda: Curriculum(test_lengths=(14,)), "lengths=14 must be below task.variables=14"),
        (lambda: Constants(power=5), "power=5 must be even"),
        (lambda: FeatureRun(sigma0=0.0), "sigma0=0.0 must be above 0"),
        (lambda: Stages(stop="never"), "stop=never must be one of power, window"),
    ],
)
def test_bad_sizes_are_refused_in_one_line(make, message):
    with pytest.raises(ConfigError, match=message.replace("(", r"\(").replace(".", r"\.")) as caught:
        make()
    assert "\n" not in str(caught.value)
