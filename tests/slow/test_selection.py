"""The quick preset of Figures 1, 2 and 4 as a user runs it, and a real trial alone against the same one in a group."""

import numpy as np
import pytest

import stairwise as sw
from stairwise.config import structure, update
from stairwise.lab.store.store import Store
from stairwise.papers.selection.presets import QUICK
from stairwise.papers.selection.train import online
from stairwise.train.loop import Member, Program

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    store = Store.open(tmp_path_factory.mktemp("quick"))
    return sw.run("selection/online", store=store), store


@pytest.mark.parametrize("claim", ["fig1-left", "fig1-right", "fig2", "fig4-bottom", "fig4-q"])
def test_the_quick_preset_meets_the_pass_lines_of_its_figures(quick, claim):
    row = sw.verify(f"selection/{claim}", store=quick[1])
    assert row.verdict.status == "holds", str(row)


def test_every_seed_separates_stochastic_from_fixed(quick):
    by_seed = {}
    for record in quick[0].records:
        by_seed.setdefault(record.seed, {})[record.arm] = record
    assert len(by_seed) >= 3
    for arms in by_seed.values():
        ratio = arms["fixed"].final("loss length=48") / arms["stochastic"].final("loss length=48")
        assert ratio > 2.5
        assert arms["stochastic"].final("cosine W") > 0.99
        assert arms["fixed"].final("cosine W") < 0.8


def test_a_trained_model_comes_back_as_it_was_stored(quick):
    record = quick[0].records[0]
    model = sw.load_model(record)
    np.testing.assert_array_equal(model.W, record.array("train/W"))
    again = sw.load_model(record.digest[:12], store=quick[1])
    np.testing.assert_array_equal(again.V, model.V)


def test_the_table_holds_every_measurement_of_every_trial(quick):
    result, store = quick
    table = sw.load("selection/online", store=store).to_pandas()
    assert len(table) == sum(len(record.table()) for record in result.records)
    final = table[(table.name == "loss in") & (table.step == 1500)]
    assert sorted(final.value) == sorted(record.final("loss in") for record in result.records)


def test_a_real_trial_alone_and_in_a_group_of_eight_see_the_same_data_and_go_the_same_way():
    config = update(QUICK, {"steps": 400, "measure_every": 20, "test_lengths": "30", "test_sparsities": "4"})
    members = [Member(seed, config) for seed in range(8)]
    alone = Program(online(structure(config))).run(members[5:6])[0]
    group = Program(online(structure(config)), width=8).run(members)[5]
    assert (alone.step, alone.name, alone.status) == (group.step, group.name, group.status)
    first = [
        i for i, (step, name) in enumerate(zip(alone.step, alone.name, strict=True)) if step <= 20 and "loss" in name
    ]
    np.testing.assert_allclose(np.take(alone.value, first), np.take(group.value, first), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(alone.last("loss in"), group.last("loss in"), rtol=1e-2)
