"""What a dry run says: trials, programs, memory, and what the same or the nearest run cost last time."""

import json

import pytest

from stairwise.commands import run
from stairwise.lab import api, registry
from stairwise.lab.run import measured
from stairwise.lab.run.estimate import nearest, trial_bytes
from stairwise.lab.store import store as stores
from stairwise.lab.store.store import Store
from stairwise.train.stage import Outcome
from tests.lab.walking import PAPER

WALK = PAPER.experiment("walk")


def stored(store, seconds, started=0.0, **changes):
    """A trial that took so long."""
    trial = WALK.trials("quick", [0], changes)[0]
    timing = {"started": started, "seconds": seconds, "seconds_per_trial": seconds}
    device, machine = {"kind": "cpu"}, {"processor": "a processor", "cores": 2}
    store.write(trial, Outcome("finished"), {"timing": timing, "device": device, "machine": machine})
    return trial


def plan(capsys, trials, store, **options):
    assert run.dry_run(WALK, "quick", trials, store, True, **options) == 0
    return json.loads(capsys.readouterr().out)


def test_a_run_of_what_is_stored_opens_each_trial_once(monkeypatch, tmp_path):
    store, opened, open_trial = Store.open(tmp_path), [], stores.open_trial
    request = api.RunRequest.of(WALK, "quick", [0, 1])
    for trial in request.trials:
        store.write(trial, Outcome("finished"), {})
    monkeypatch.setattr(stores, "open_trial", lambda folder: opened.append(folder.name) or open_trial(folder))
    records = api.perform(request, "stairwise run", store=store).records
    assert [(record.digest, record.arm) for record in records] == [(each.digest, each.arm) for each in request.trials]
    assert opened == [trial.digest for trial in request.trials]


def test_it_counts_trials_and_programs_and_weighs_the_largest_group(capsys, tmp_path):
    store = Store.open(tmp_path)
    stored(store, 2.0)
    trials = [*WALK.trials("quick", range(5)), *WALK.trials("quick", range(5), {"width": 4000})]
    found = plan(capsys, trials, store, group=3)
    assert (found["trials"], found["stored"], found["programs"]) == (len(trials), 1, 2)
    assert found["megabytes of the largest group"] * 1e6 == pytest.approx(3 * trial_bytes(trials[-1]), rel=0.01)
    assert found["megabytes of the device"] > 1
    assert found["seconds (from stored trials)"] == pytest.approx(2.0 * (len(trials) - 1))


def test_the_same_program_is_preferred_to_a_nearer_past_and_the_nearest_names_what_differs(tmp_path):
    store = Store.open(tmp_path)
    wanted = WALK.trials("quick", [7])
    assert nearest(wanted, store) is None
    far = stored(store, 9.0, 1.0, width=77, steps=11)
    near = stored(store, 5.0, 0.0, width=77)
    past = nearest(wanted, store)
    assert (past.seconds, past.differs, [record.digest for record in past.records]) == (5.0, ("width",), [near.digest])
    said = run.last_time(WALK, "quick", wanted, store)
    assert (
        said == f"5 s a trial (1 trial, CPU, a processor, 2 cores; the nearest, {near.digest[:8]}, has another width)"
    )
    stored(store, 2.0)
    assert run.last_time(WALK, "quick", wanted, store).endswith("; the same program)")
    assert far.digest != near.digest


def test_an_empty_store_gives_what_was_measured_for_the_package(tmp_path):
    online = registry.experiment("selection/online")
    said = run.last_time(online, "gpu", online.trials("gpu"), Store.open(tmp_path))
    assert said == "16 trials in 28 s (NVIDIA H200; measured for this package)"
    other = run.last_time(online, "quick", online.trials("quick"), Store.open(tmp_path))
    assert other == f"preset gpu: {said}"
    assert run.last_time(WALK, "quick", WALK.trials("quick"), Store.open(tmp_path)) is None


def test_the_measured_table_names_whole_presets_of_experiments_that_exist():
    for name, presets in json.loads(measured.PLACE.read_text()).items():
        experiment = registry.experiment(name)
        for preset, facts in presets.items():
            assert facts["trials"] == len(experiment.trials(preset)), name
            assert facts["seconds"] > 0
