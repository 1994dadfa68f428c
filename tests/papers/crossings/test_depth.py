"""Facts about the two ways to k hops: what they cost, what they are asked, and how the hypotheses are judged."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.config import ConfigError, update
from stairwise.papers.composition.train import task_of
from stairwise.papers.crossings import chains, depth
from stairwise.papers.crossings.depth import CHAIN, DEPTH, HARDEST, Solver, runs, train
from tests.papers.crossings import judged
from tests.papers.records import HandMade
from tests.trials import run, running

pytestmark = pytest.mark.slow  # most of them compile a network


def test_depth_has_a_layer_for_each_doubling_and_one_for_a_hop_and_labels_every_position():
    deep, chain = Solver(solver="depth"), Solver(solver="chain")
    assert (deep.hops, deep.layers, deep.labels, deep.length) == ((1, 2, 4), 3, 16, 17)
    assert (chain.layers, chain.labels, chain.length) == (1, 4, 20)


@pytest.mark.parametrize("solver", ["chain", "depth"])
def test_operations_are_those_that_the_compiler_counts(solver):
    config = Solver(solver=solver, batch=4)
    trial = running(config)
    loss = chains.loss if solver == "chain" else train.depth_loss
    make = train.make_decoder if solver == "chain" else train.make_encoder

    def gradient(model, keys):
        ask = partial(
            train.lesson if solver == "chain" else lambda trial, key: train.asked(trial, jnp.int32(2), key), trial
        )
        return jax.grad(loss)(model, jax.vmap(ask)(keys))

    shapes, keys = jax.eval_shape(lambda: (make(trial), jax.random.split(jax.random.key(0), config.batch)))
    counted = jax.jit(gradient).lower(shapes, keys).compile().cost_analysis()["flops"]
    # softmax, norms and GELU come on top of the products
    assert 1.0 <= counted / (config.batch * config.operations) <= 1.3


def test_one_layer_learns_two_steps_and_stops_at_its_first_success():
    outcome = run(train.training, update(Solver(), {"task.blocks": 2, "task.alphabet": 3, "measure_every": 40}))
    assert outcome.status == "reached"
    assert outcome.last("accuracy") >= 0.95
    assert outcome.last("hit") == outcome.step[-1]


def test_a_sequence_is_asked_for_one_hop_at_every_position():
    config = Solver(solver="depth")
    trial = running(config, seed=4)
    maps = task_of(config.task, trial)

    @jax.jit
    def ask(kind):
        return train.asked(trial, kind, jax.random.key(2))

    for kind, hops in enumerate(config.hops):
        tokens, labels = ask(jnp.int32(kind))
        assert int(tokens[0]) == config.task.alphabet + kind
        sequence = tokens[1:].reshape(4, 4)
        np.testing.assert_array_equal(labels, maps.hop_by_doubling(sequence, hops).reshape(-1))


def test_hops_come_in_one_after_another_and_none_after_the_last():
    config = Solver(release=100)
    assert [int(train.released(config, jnp.int32(step))) for step in (0, 99, 100, 250, 10**6)] == [1, 1, 2, 3, 3]


def test_bad_configs_are_refused_by_name():
    with pytest.raises(ConfigError, match=r"task\.blocks=1 must be a power of two from 2 on"):
        update(Solver(), {"task.blocks": 1})
    with pytest.raises(ConfigError, match=r"model\.dropout=0\.2 must be 0"):
        update(Solver(), {"model.dropout": 0.2})


# --- judging ----------------------------------------------------------------------------------------------------------


def record(k: int, name: str, hit: int) -> HandMade:
    fields = next(fields for arm, fields in depth.arms(k).items() if arm == f"k={k}, {name}")
    config = update(Solver(), fields)
    assert config.name == name
    return HandMade(config, measured={"hit": ([1], [hit]), "accuracy": ([0, 1], [0.2, 0.9])})


def test_costs_are_steps_times_what_a_step_costs_and_a_spent_budget_bounds_the_ratio_from_below():
    runs_made = [record(2, CHAIN, 3), record(2, DEPTH, 6), record(4, CHAIN, 5), record(4, DEPTH, -1)]
    labels = runs.ratios(runs_made, "labels")
    assert labels[2] == (pytest.approx(6 * 8 / (3 * 2)), False)
    assert labels[4] == (pytest.approx(20 * 16 / (5 * 4)), True)
    chain, deep = runs_made[0].config, runs_made[1].config
    assert runs.ratios(runs_made, "operations")[2][0] == pytest.approx(6 * deep.operations / (3 * chain.operations))
    assert runs.growth(runs_made) == {2: pytest.approx(5 * 4 / (3 * 2))}
    assert runs.median([record(4, DEPTH, -1)], "labels") == math.inf
    spent, accuracy = runs.curve(runs_made[0], "labels")
    assert (spent.tolist(), accuracy.tolist()) == ([0, 50 * 32 * 2], [0.2, 0.9])


def test_hypotheses_are_judged_by_medians_of_cost():
    good = [record(2, CHAIN, 3), record(2, DEPTH, 6), record(2, HARDEST, -1)]
    assert judged("depth-labels", good).status == "holds"
    assert judged("depth-operations", good).status == "holds"
    assert judged("depth-curriculum", good).status == "holds"
    assert judged("depth-curriculum", [*good, record(2, HARDEST, 7)]).status == "not-reproduced"
    slow = [record(2, CHAIN, 20), record(2, DEPTH, 1), record(2, HARDEST, -1)]
    assert judged("depth-labels", slow).status == "not-reproduced"
    assert judged("depth-labels", [record(2, CHAIN, -1)]).status == "reported"
    assert judged("depth-growth", good).status == "reported"
    assert judged("depth-growth", [*good, record(4, CHAIN, 9)]).status == "not-reproduced"
