"""A trial keeps its digest when a field of its config is added or renamed, and is found by either name."""

import json
import logging
from dataclasses import dataclass

import pytest

from stairwise import cli, config
from stairwise.commands.runs import RunFilter
from stairwise.config import Config, ConfigError, as_dict, from_dict, option, require, stored_dict, update
from stairwise.lab import api
from stairwise.lab.contract.checks import at_least
from stairwise.lab.contract.claims import Ledger
from stairwise.lab.contract.experiment import Experiment, Preset, Trial
from stairwise.lab.contract.paper import Paper
from stairwise.lab.ledger.asked import VerifyRequest
from stairwise.lab.ledger.verify import preview_verify
from stairwise.lab.run import grid
from stairwise.lab.store.store import Store
from stairwise.lab.sweep import SweepRequest
from stairwise.train.stage import Outcome


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


@dataclass(frozen=True)
class OldLessons(Config):
    batch: int = option(16, "examples per step", low=1)
    steps: int = option(100, "steps", low=1)


@dataclass(frozen=True)
class OldPlaces(Config):
    width: int = option(64, "width", low=1)
    precision: str = option("float32", "number format", choices=("float32", "bfloat16"))
    lessons: OldLessons = option(OldLessons(), "how it is trained")
    rate: float = option(0.1, "learning rate", above=0.0, numeric=True)


@dataclass(frozen=True)
class Model(Config):
    width: int = option(64, "width", low=1)
    compute: str = option("float32", "number format", choices=("float32", "bfloat16"), stored_as="precision")
    heads: int = option(1, "heads", low=1, since="0.2")

    def check(self) -> None:
        require(self.width % self.heads == 0, f"heads={self.heads} must divide width={self.width}")


@dataclass(frozen=True)
class Places(Config):
    """Some fields have come into a group, others have left one."""

    model: Model = option(Model(), "the model", stored_as="")
    batch: int = option(16, "examples per step", low=1, stored_as="lessons.batch")
    steps: int = option(100, "steps", low=1, stored_as="lessons.steps")
    learning_rate: float = option(0.1, "learning rate", above=0.0, numeric=True, stored_as="rate")


def compute(config, seed: int) -> Outcome:
    outcome = Outcome()
    outcome.add("study", 0, {"seed": seed})
    return outcome


LEDGER = Ledger()


@LEDGER.bound("lem1", statement="Lemma 1", says="lengths are positive", of=(compute,), cases=New())
def positive(config, seed):
    yield at_least("length", config.task.length, 1)


def experiment(kind: type[Config]) -> Experiment:
    presets = {"quick": Preset(kind(), seeds=1)}
    made = Experiment("study", "a study", kind, presets, compute, study=True)
    return Paper("renamed", "-", "-", 2026, "-", "-", tuple(LEDGER.claims), (made,)).experiments[0]


MOVED = Experiment("moved", "a study", Places, {"quick": Preset(Places(), seeds=1)}, compute, study=True)
PAPER = Paper("renamed", "-", "-", 2026, "-", "-", tuple(LEDGER.claims), (experiment(New), MOVED))


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
        SweepRequest.of(installed, {"learning-rate": "0.1"}, changes={"rate": "0.2"})
    (row,) = preview_verify(VerifyRequest.of(["renamed/lem1"], {"job.size": "5"}))
    assert row.changes == {"task.length": 5}


def test_a_trial_stored_before_the_rename_is_found_and_shown_by_the_new_names(installed, tmp_path):
    store = Store.open(tmp_path)
    old = Trial(experiment(Old), Old(OldTask(16), 0.5), 0)
    store.write(old, compute(New(), 0), {})
    new = Trial(installed, New(Task(16), 0.5), 0)
    assert store.has(new)
    assert [record.config for record in store.trials(installed)] == [new.config]
    for words in (["learning-rate=0.5"], ["rate=0.5", "job.size=16"], ["task.length=16"], ["task.tail=0"]):
        assert len(RunFilter.of("renamed", where=words).trials(store)) == 1
    assert RunFilter.of("renamed", where=["learning_rate=0.1"]).trials(store) == []
    table = api.load("renamed", fields=["learning_rate", "rate", "task.tail"], store=store)
    assert [table[name].to_pylist() for name in ("learning_rate", "rate", "task.tail")] == [[0.5], [0.5], [0]]


MANY = Places(Model(32, "bfloat16"), batch=8, steps=50, learning_rate=0.4)


def test_fields_that_moved_into_or_out_of_a_group_are_stored_where_they_were():
    assert stored_dict(Places()) == as_dict(OldPlaces())
    old = OldPlaces(32, "bfloat16", OldLessons(8, 50), 0.4)
    assert stored_dict(MANY) == as_dict(old) == stored_dict(old)
    assert stored_dict(Places(Model(heads=2))) == as_dict(OldPlaces()) | {"heads": 2}


@pytest.mark.parametrize("made", [Places(), MANY, Places(Model(8, heads=4), steps=3)])
def test_moved_fields_read_back_from_old_and_new_places(made):
    assert from_dict(Places, stored_dict(made)) == made
    assert from_dict(Places, as_dict(made)) == made


def test_old_places_are_accepted_and_said(installed, caplog):
    with caplog.at_level(logging.WARNING, "stairwise"):
        changes = {"width": "32", "precision": "bfloat16", "lessons.batch": "8", "lessons.steps": 50, "rate": 0.4}
        assert (
            update(Places(), changes) == config.changed(Places(), changes | {"width": 32, "lessons.batch": 8}) == MANY
        )
    said = [record.getMessage().removeprefix("stairwise: ") for record in caplog.records]
    present = ["model.width", "model.compute", "batch", "steps", "learning_rate"]
    assert said == [f"{path} is now called {now}" for path, now in zip(changes, present, strict=True)]


def test_old_places_are_flags_and_axes_of_a_sweep(installed, capsys, tmp_path):
    store, digests = ["--json", "--store", str(tmp_path)], []
    for flags in (["--width", "32", "--lessons.steps", "50"], ["--model.width", "32", "--steps", "50"]):
        assert cli.main(["run", "renamed/moved", *flags, *store]) == 0
        digests += [trial["digest"] for trial in json.loads(capsys.readouterr().out)["trials"]]
    assert digests == [Trial(PAPER.experiments[1], Places(Model(32), steps=50), 0).digest] * 2
    assert [axis.path for axis in grid.axes(Places(), {"width": "8,16", "lessons.batch": "1,2"})] == [
        "model.width",
        "batch",
    ]
    for words in (["width=32"], ["model.width=32"], ["lessons.steps=50"], ["steps=50"], ["precision=float32"]):
        assert len(RunFilter.of("renamed/moved", where=words).trials(Store.open(tmp_path))) == 1
    RunFilter.of("renamed/moved", where=["width=32"]).check(Store.open(tmp_path / "empty"))
    table = api.load("renamed/moved", fields=["width", "lessons.steps", "model.heads"], store=Store.open(tmp_path))
    assert [table[name].to_pylist() for name in table.column_names[-3:]] == [[32], [50], [1]]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"width": 0}, r"^model\.width=0 must be at least 1$"),
        ({"lessons": {"steps": "many"}}, r"^steps=many must be a whole number$"),
        ({"width": 9, "model": {"heads": 2}}, r"^model\.heads=2 must divide width=9$"),
        ({"width": 8, "model": {"width": 9}}, r"^model\.width is given twice, as width and as model\.width$"),
        ({"lessons": {"step": 1}}, r"^unknown field lessons\.step \(fields: batch, learning_rate, model\.compute"),
        ({"lessons": {}}, r"^unknown field lessons \("),
        ({"lessons": 3}, r"^unknown field lessons \("),
        ({"model": 3}, r"^model=3 must be a Model$"),
        ({"steps": {"a": 1}}, r"^steps=\{'a': 1\} must be a whole number$"),
    ],
)
def test_a_bad_value_in_an_old_place_is_refused_by_the_present_path(data, says):
    with pytest.raises(ConfigError, match=says):
        from_dict(Places, data)


def test_a_group_cannot_lie_over_another_field_in_the_store():
    @dataclass(frozen=True)
    class Over(Config):
        model: Model = option(Model(), "the model", stored_as="")
        width: int = option(1, "another width")

    with pytest.raises(TypeError, match="Over: two fields have the same name in the store, width"):
        stored_dict(Over())
