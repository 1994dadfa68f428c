"""A trial keeps its digest when a field of its config is added or renamed, and is found by either name."""

import json
import logging
from dataclasses import dataclass

import pytest

from stairwise import cli
from stairwise.lab import api, config, grid
from stairwise.lab.config import Config, ConfigError, as_dict, from_dict, option, stored_dict, update
from stairwise.lab.contract import Experiment, Ledger, Outcome, Paper, Preset, Trial, Verdict
from stairwise.lab.store import Store
from stairwise.lab.sweep import Request
from stairwise.lab.verify import verify
from stairwise.report.listing import Filter


@dataclass(frozen=True)
class OldTask(Config):
    size: int = option(8, "length of the sequence", low=1)


@dataclass(frozen=True)
class Old(Config):
    job: OldTask = option(OldTask(), "the task")
    rate: float = option(0.1, "learning rate", above=0.0, numeric=True)


@dataclass(frozen=True)
class Extra(Config):
    depth: int = option(1, "how deep", low=1)


@dataclass(frozen=True)
class Task(Config):
    length: int = option(8, "length of the sequence", low=1, stored_as="size")
    tail: int = option(0, "ignored tokens", low=0, since="0.2")


@dataclass(frozen=True)
class New(Config):
    task: Task = option(Task(), "the task", stored_as="job")
    learning_rate: float = option(0.1, "learning rate", above=0.0, numeric=True, stored_as="rate")
    hops: tuple[int, ...] = option((1, 2), "hops", since="0.2")
    extra: Extra = option(Extra(2), "more", since="0.3")


def compute(config, seed: int) -> Outcome:
    outcome = Outcome()
    outcome.add("study", 0, {"length": getattr(config, "task", None) and config.task.length})
    return outcome


LEDGER = Ledger()


@LEDGER.theory("lem1", kind="identity", says="lengths are positive", cases=New())
def positive(config, seed):
    return Verdict.at_least(config.task.length, 1)


def experiment(kind: type[Config]) -> Experiment:
    presets = {"quick": Preset(kind(), seeds=1)}
    made = Experiment("study", "a study", kind, presets, compute, study=True)
    return Paper("renamed", "-", "-", 2026, "-", "-", tuple(LEDGER.claims), (made,)).experiments[0]


PAPER = Paper("renamed", "-", "-", 2026, "-", "-", tuple(LEDGER.claims), (experiment(New),))


@pytest.fixture
def installed(install):
    """The paper with the new names."""
    install("renamed", {}, "tests.lab.test_identity:PAPER")
    config._say_renamed.cache_clear()
    return PAPER.experiments[0]


def test_added_and_renamed_fields_leave_digests_as_they_were():
    assert Trial(experiment(Old), Old(), 3).digest == "658ec49c8698404b20cc"
    assert Trial(experiment(New), New(), 3).digest == "658ec49c8698404b20cc"
    changed = update(New(), {"task.length": 16, "learning_rate": 0.5})
    assert Trial(experiment(New), changed, 0).digest == "69cff486b6cff3f83019"
    assert Trial(experiment(Old), Old(OldTask(16), 0.5), 0).digest == "69cff486b6cff3f83019"


def test_a_later_field_counts_once_it_has_another_value():
    assert stored_dict(New()) == as_dict(Old())
    assert stored_dict(New(hops=(3,)))["hops"] == [3]
    assert stored_dict(New(task=Task(tail=1)))["job"] == {"size": 8, "tail": 1}
    assert stored_dict(New(extra=Extra(1)))["extra"] == {"depth": 1}
    digests = {
        Trial(experiment(New), made, 0).digest
        for made in (New(), New(hops=(3,)), New(task=Task(tail=1)), New(extra=Extra(1)))
    }
    assert len(digests) == 4


@pytest.mark.parametrize("made", [New(), New(task=Task(5, 2), learning_rate=0.3, hops=(7,), extra=Extra(1))])
def test_what_is_stored_reads_back(made):
    assert from_dict(New, stored_dict(made)) == made
    assert from_dict(New, as_dict(made)) == made


def test_both_names_at_once_are_refused():
    with pytest.raises(ConfigError, match=r"task\.length is given twice"):
        from_dict(New, {"job": {"size": 3, "length": 4}})
    with pytest.raises(ConfigError, match="learning_rate is given twice"):
        update(New(), {"rate": "0.1", "learning-rate": "0.2"})


def test_two_fields_cannot_share_a_stored_name():
    @dataclass(frozen=True)
    class Clash(Config):
        new: int = option(1, "renamed", stored_as="old")
        old: int = option(2, "another one")

    with pytest.raises(TypeError, match="Clash: two fields have the same name in the store"):
        stored_dict(Clash())


def test_a_former_name_is_accepted_and_said_once(installed, caplog):
    with caplog.at_level(logging.WARNING, "stairwise"):
        for _ in range(2):
            changed = update(New(), {"job.size": "4", "rate": "0.7"})
    assert changed == New(task=Task(4), learning_rate=0.7)
    said = [record.getMessage() for record in caplog.records]
    assert said == ["stairwise: job.size is now called task.length", "stairwise: rate is now called learning_rate"]


def test_dashes_and_underscores_are_one_flag(installed, capsys, tmp_path):
    digests = []
    for flag in ("--learning-rate", "--learning_rate", "--rate"):
        assert cli.main(["run", "renamed/study", flag, "0.4", "--json", "--store", str(tmp_path)]) == 0
        digests += [trial["digest"] for trial in json.loads(capsys.readouterr().out)["trials"]]
    assert digests == [Trial(installed, New(learning_rate=0.4), 0).digest] * 3
    (axis,) = grid.axes(New(), {"learning-rate": "0.1,0.2"})
    assert axis.path == "learning_rate"
    with pytest.raises(ConfigError, match="learning_rate is given both as a field and in the grid"):
        Request.of(installed, {"learning-rate": "0.1"}, changes={"rate": "0.2"})
    (row,) = verify(["renamed/lem1"], {"job.size": "5"}, plan_only=True)
    assert row.changes == {"task.length": 5}


def test_a_trial_stored_before_the_rename_is_found_and_shown_by_the_new_names(installed, tmp_path):
    store = Store.open(tmp_path)
    old = Trial(experiment(Old), Old(OldTask(16), 0.5), 0)
    store.write(old, compute(New(), 0), {})
    new = Trial(installed, New(Task(16), 0.5), 0)
    assert store.has(new)
    assert [record.config for record in store.trials(installed)] == [new.config]
    for words in (["learning-rate=0.5"], ["rate=0.5", "job.size=16"], ["task.length=16"], ["task.tail=0"]):
        assert len(Filter.of("renamed", where=words).trials(store)) == 1
    assert Filter.of("renamed", where=["learning_rate=0.1"]).trials(store) == []
    table = api.load("renamed", fields=["learning_rate", "rate", "task.tail"], store=store)
    assert [table[name].to_pylist() for name in ("learning_rate", "rate", "task.tail")] == [[0.5], [0.5], [0]]
