"""The four-scalar reduction: exact populations, exact gradients, closed forms, and roll-outs against a slow walk."""

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.papers.lego import reduced
from stairwise.papers.lego.groups import from_table, named
from stairwise.papers.lego.theory import lengths, orbits
from tests.helpers import assert_close

SCORES = [1.3, -0.2, 0.7, 0.1]


def every_triple(action, scores) -> list:
    """The losses of both steps over all (y0, g1, g2), one by one."""
    network, table = reduced.ideal_values(action, 256), jnp.asarray(action.table, dtype=jnp.int32)

    def one(start, first, second):
        values = jnp.stack([start, table[first, start], table[second, table[first, start]]])
        chain = jnp.stack([first, second])
        contexts = [reduced.chain_context(table, chain, values, 2, step, jnp.float64) for step in (1, 2)]
        return [reduced.loss(network, scores, context) for context in contexts]

    triples = itertools.product(range(action.values), range(action.actions), range(action.actions))
    rows = np.array(list(triples), dtype=np.int32)
    return [np.mean(losses) for losses in jax.jit(jax.vmap(one))(*rows.T)]


def losses_and_gradients(action, scores) -> list:
    """Loss and gradient of each step over the classes."""
    network = reduced.ideal_values(action, 256)
    populations = [reduced.two_steps(action, step) for step in (1, 2)]
    both = jax.jit(jax.vmap(jax.value_and_grad(reduced.mean_loss, argnums=1), in_axes=(None, None, 0)))
    stacked = jax.tree.map(lambda *rows: jnp.stack(rows), *populations)
    return list(zip(*both(network, jnp.asarray(scores, dtype=jnp.float64), stacked), strict=True))


def test_classes_of_marked_permutations_give_the_loss_over_all_triples():
    with jax.enable_x64(True):
        action = named("D4")
        found = [loss for loss, _ in losses_and_gradients(action, SCORES)]
        assert_close(found, every_triple(action, jnp.array(SCORES, dtype=jnp.float64)), 1e-12)


def test_classes_have_the_weights_of_a_probability_and_refuse_maps_that_are_no_permutations():
    assert len(orbits.marked_pairs(named("S5")).weights) == 40
    assert_close(orbits.marked_pairs(named("A5-regular")).weights.sum(), 1.0, 1e-12)
    with pytest.raises(ValueError, match="permutation"):
        orbits.marked_pairs(from_table([[0, 0], [1, 0]], allow_non_invertible=True))


# -(d/da, d/db, d/dc, d/de) of steps 1 and 2 at Q = 0, |X| = 256, C_B = 4, computed independently
REFERENCE = {
    "C3": ((4.911, -5.262, 0.351, 0.0), (1.272, -1.272, 1.272, -1.272)),
    "S4": ((4.676, -6.929, 2.253, 0.0), (0.472, -1.703, 1.703, -0.472)),
}


def test_gradients_at_zero_are_the_reference_ones_and_sum_to_zero():
    with jax.enable_x64(True):
        for name, expected in REFERENCE.items():
            pushes = -np.stack([gradient for _, gradient in losses_and_gradients(named(name), np.zeros(4))])
            assert np.abs(pushes - expected).max() < 1e-3
            assert np.abs(pushes.sum(axis=1)).max() < 1e-12  # adding a number to all four changes no attention


def test_a_nearly_certain_answer_keeps_its_loss_and_its_gradient():
    with jax.enable_x64(True):
        action = named("S4")
        network, population = reduced.ideal_values(action, 256, clip_factor=8.0), reduced.two_steps(action, 2)
        sharp = jnp.array([9.0, 0.0, 9.0, 0.0])
        loss, gradient = jax.jit(jax.value_and_grad(lambda s: reduced.mean_loss(network, s, population)))(sharp)
        assert 1e-18 < float(loss) < 1e-16  # a difference of log-sum-exps would be 0
        assert np.isfinite(np.asarray(gradient)).all()


class Walked(NamedTuple):
    said: list[int]
    right: list[bool]
    chance: list[float]


def slow_walk(action, scores, actions, start, forced=False) -> Walked:
    """A greedy roll-out that builds every context from scratch, in NumPy; `forced` has the true values fed back."""
    network, length, said = reduced.ideal_values(action, 256), len(actions), [start]
    truth, found = start, Walked([], [], [])
    for step in range(1, length + 1):
        kinds = [scores[0] if k == step - 1 else scores[1] for k in range(length)]
        kinds += [scores[2] if k == step - 1 else scores[3] for k in range(step)]
        attention = np.exp(kinds) / np.exp(kinds).sum()
        pre = np.zeros((action.values, action.values))
        for weight, g in zip(attention[:length], actions, strict=True):
            hit = action.table[g][None] == np.arange(action.values)[:, None]
            pre += weight * np.where(hit, network.alpha, -network.beta)
        for weight, value in zip(attention[length:], said, strict=True):
            pre += weight * np.where(np.arange(action.values) == value, network.beta, -network.alpha)
        low = np.clip(pre, 0, network.rho)
        active = np.where(pre > network.rho, pre - network.rho * 0.75, low**4 / (4 * network.rho**3))
        logits, truth = np.minimum(active.sum(axis=1), network.clip), int(action.table[actions[step - 1], truth])
        guess = int(np.argmax(logits))
        found.said.append(guess)
        found.right.append(guess == truth and logits[guess] > 0)
        found.chance.append(np.exp(logits[truth]) / (np.exp(logits).sum() + network.others))
        said.append(truth if forced else guess)
    return found


def test_rollout_says_what_a_walk_over_whole_contexts_says():
    with jax.enable_x64(True):
        action, scores = named("S4"), [2.0, 0.0, 1.7, 0.0]
        table, rng = jnp.asarray(action.table, dtype=jnp.int32), np.random.default_rng(0)
        walk = jax.jit(reduced.rollout)
        network = reduced.ideal_values(action, 256)
        for _ in range(4):
            actions, start = rng.integers(0, 24, 14), int(rng.integers(0, 4))
            padded = jnp.asarray([*actions, 0, 0], dtype=jnp.int32)
            found = walk(network, table, jnp.array(scores), padded, jnp.int32(start), jnp.int32(14))
            slow = slow_walk(action, scores, actions, start)
            assert np.asarray(found.values)[:14].tolist() == slow.said
            assert np.asarray(found.right)[:14].tolist() == slow.right
            assert_close(found.probability[:14], slow.chance, 1e-10)
            assert np.asarray(found.right)[14:].all()  # padding counts as right


def test_the_four_accuracies_are_those_of_slow_walks_over_the_drawn_chains():
    with jax.enable_x64(True):
        action, key, length, most, sequences = named("S4"), jax.random.key(5), 9, 11, 12
        table, network = jnp.asarray(action.table, dtype=jnp.int32), reduced.ideal_values(action, 256)
        drawn = jax.jit(lambda i: reduced.draw_chain(jax.random.fold_in(key, i), table, most))
        chains = [[np.asarray(part) for part in drawn(jnp.int32(i))] for i in range(sequences)]
        for scores in ([2.0, 0.0, 1.7, 0.0], [1.0, 0.0, 0.8, 0.0]):
            found = reduced.chain_accuracy(network, table, jnp.array(scores), key, jnp.int32(length), most, sequences)
            free = [slow_walk(action, scores, actions[:length], int(start)) for start, actions in chains]
            forced = [slow_walk(action, scores, actions[:length], int(start), True) for start, actions in chains]
            right = np.array([walk.right for walk in free])
            expected = {
                "exact match": right.all(axis=1).mean(),
                "per step": right.mean(),
                "final": right[:, -1].mean(),
                "expected probability": np.mean([walk.chance for walk in forced]),
            }
            for name, value in expected.items():
                np.testing.assert_allclose(found[name], value, rtol=0, atol=1e-10, err_msg=f"{name} at {scores}")


def test_shares_are_the_closed_form_of_dilution():
    with jax.enable_x64(True):
        for length, step in ((1, 1), (2, 2), (7, 3), (300, 300)):
            found = reduced.shares(jnp.array(SCORES), length, step)
            assert_close(found, lengths.masses(SCORES, length, step), 1e-12)
            a, b, c, e = np.exp(SCORES)
            missed = (length - 1) * b + (step - 1) * e
            assert_close(lengths.concentration(SCORES, length, step), missed / (a + c + missed), 1e-12)
            assert_close(lengths.gap(SCORES, length, step), (a - c) / (a + c + missed), 1e-12)


def test_the_critical_length_is_where_the_last_step_reaches_the_critical_concentration():
    for values in (3, 4, 60):
        star = lengths.critical_length(SCORES, values)
        assert_close(lengths.concentration(SCORES, star, star), lengths.critical_concentration(values), 1e-12)
    assert lengths.critical_length(SCORES, 2) == np.inf


def test_descent_divides_by_the_number_of_entries_that_share_a_scalar():
    moved = reduced.descended(jnp.zeros(4, dtype=jnp.float32), jnp.ones(4, dtype=jnp.float32), 12.0, 4)
    assert np.asarray(moved).tolist() == [-3.0, -1.0, -3.0, -1.0]
