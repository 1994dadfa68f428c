"""Plans of very many trials: made one by one, named as ever, and with a word on how far they are."""

import dataclasses
import tracemalloc

import pytest

from stairwise.commands import run
from stairwise.config import ConfigError, changed, update
from stairwise.lab import registry
from stairwise.lab.contract.experiment import Trial, digest_of
from stairwise.lab.progress import Silent, watched
from stairwise.lab.run import grid
from stairwise.lab.run.plan import plan, tally
from stairwise.lab.store.store import Store
from stairwise.lab.sweep import SweepRequest, preview
from tests.lab.walking import PAPER, Walk

WALK, ONWARD = PAPER.experiment("walk"), PAPER.experiment("onward")
EVERY = [(each, name) for paper in registry.papers() for each in paper.experiments for name in each.presets]


@pytest.mark.parametrize(("experiment", "preset"), EVERY, ids=lambda each: getattr(each, "name", each))
def test_a_trial_of_many_has_the_digest_of_its_whole_identity(experiment, preset):
    trials = experiment.trials(preset, [0, 4294967295])
    for trial in (trials[0], trials[-1]):
        assert trial.digest == digest_of(trial.identity) == Trial(experiment, trial.config, trial.seed).digest
        assert trial.program_key == Trial(experiment, trial.config, trial.seed).program_key


def test_trials_are_a_sequence_in_the_order_of_arms_and_seeds():
    trials = WALK.trials("quick", [5, 3, 5])
    assert [(trial.arm, trial.seed) for trial in trials] == [("slow", 5), ("slow", 3), ("fast", 5), ("fast", 3)]
    assert len(trials) == 4
    assert (trials[-1], trials[1:3]) == (list(trials)[-1], list(trials)[1:3])
    with pytest.raises(IndexError):
        trials[4]
    with pytest.raises(ConfigError, match=r"seed=4294967296 must lie in 0\.\.4294967295"):
        WALK.trials("quick", range(4294967290, 4294967297))


@pytest.mark.parametrize("changes", [{"rate": 0.5}, {"rate": "0.5", "steps": "7"}, {"shift": 1}, {"shift": -0.0}, {}])
def test_a_changed_config_is_the_updated_one(changes):
    assert str(changed(Walk(), changes)) == str(update(Walk(), changes))


@pytest.mark.parametrize("changes", [{"rate": -1.0}, {"stepz": 1}, {"steps": "half"}, {"steps": None}, {"steps.a": 1}])
def test_a_change_that_is_refused_is_refused_in_the_same_words(changes):
    with pytest.raises(ConfigError) as wanted:
        update(Walk(), changes)
    with pytest.raises(ConfigError) as found:
        changed(Walk(), changes)
    assert str(found.value) == str(wanted.value)


def test_fields_of_a_group_are_changed_together_and_refused_by_their_full_path():
    online = registry.experiment("selection/online").preset("quick").config
    both = {"task.length": 9, "task.sparsity": 8, "test_sparsities": (1, 2)}
    assert changed(online, both) == update(online, both)
    with pytest.raises(ConfigError, match=r"task\.length=1 must be at least 2"):
        changed(online, {"task.length": 1})


@pytest.mark.parametrize("experiment", [WALK, ONWARD], ids=["walk", "onward"])
def test_the_tally_of_a_plan_counts_what_the_plan_has(experiment):
    trials = grid.trials(experiment, "quick", grid.axes(Walk(), {"steps": [4, 9], "shift": [0.0, 1.0, 2.0]}), range(5))
    done = {trial.digest for trial in list(trials)[::4]}
    groups = plan(trials, lambda trial: trial.digest in done, 4)
    own, everything = tally(trials, lambda trial: trial.digest in done, lambda trial: 4)
    assert own.trials == len(trials) - len(done)
    assert everything.trials == sum(len(group.trials) for group in groups)
    assert everything.groups == len(groups)
    assert set(everything.count) == {group.trials[0].program_key for group in groups}
    assert {trial.program_key for trial, _ in everything.largest} == set(everything.count)


def test_of_very_many_programs_trials_of_the_largest_are_kept_and_all_are_counted(monkeypatch):
    monkeypatch.setattr("stairwise.lab.run.plan.MOST_KEPT", 5)
    trials = grid.trials(WALK, "quick", grid.axes(Walk(), {"steps": "1:200:1"}), range(3))
    own, _ = tally(trials, lambda trial: False, lambda trial: 2)
    assert (len(own.count), own.trials, own.groups) == (200, 1200, 600)
    assert [trial.config.steps for trial, _ in own.largest] == [200, 199, 198, 197, 196]


class Counting(Silent):
    """Keeps what it is told."""

    def __init__(self):
        self.begun, self.done, self.over = [], 0, 0

    def begin(self, what, total, done):
        self.begun.append((what, total))
        self.done += done

    def finished(self, label, status):
        self.done += 1

    def end(self):
        self.over += 1


def test_progress_is_shown_when_the_first_second_is_over(monkeypatch):
    times = iter(range(100))
    monkeypatch.setattr("stairwise.lab.progress.time.monotonic", lambda: next(times) / 2)
    shown = Counting()
    assert list(watched(range(7), 7, "planning", shown)) == list(range(7))
    assert (shown.begun, shown.done, shown.over) == ([("planning", 7)], 7, 1)


def test_a_plan_of_many_seeds_takes_the_memory_of_a_plan_of_few(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(run, "for_terminal", Silent)
    store = Store.open(tmp_path / "none", create=False)

    def peak(seeds: int) -> int:
        tracemalloc.start()
        try:
            run.dry_run(WALK, "quick", WALK.trials("quick", range(seeds)), store, True)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(1)  # what is made once
    assert peak(600) - peak(6) < 100_000  # bytes; one object per trial would be four times as much
    assert '"trials": 1200' in capsys.readouterr().out


def test_a_sweep_keeps_one_config_per_combination_and_none_per_seed(tmp_path):
    axes = {"shift": list(range(10)), "steps": [4, 9]}
    request = SweepRequest.of(dataclasses.replace(WALK), axes, seeds=100)
    assert len(request.trials) == 10 * 2 * 2 * 100
    shown = Counting()
    found = preview(request, Store.open(tmp_path / "none", create=False), group=8, progress=shown)
    assert (found["trials"], found["to run"], found["programs"]) == (4000, 4000, 2)
    assert found["groups"] == 2 * 2000 // 8
