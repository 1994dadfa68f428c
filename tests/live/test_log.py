"""What `--log` writes, read back by the readers that people use."""

import csv
import sys
import types
from pathlib import Path

import pytest

from stairwise.config import ConfigError
from stairwise.lab.contract.experiment import Trial
from stairwise.lab.progress import Silent
from stairwise.lab.run.execute import execute
from stairwise.lab.store.store import Store
from stairwise.live import log as logs
from stairwise.live.log import Log, logged
from stairwise.train.stage import Outcome
from tests.lab.walking import PAPER, Walk

WALK = PAPER.experiment("walk")


def trial(seed: int, arm: str = "rate 0.5") -> Trial:
    return Trial(WALK, Walk(), seed, arm)


def grown(ticks: int) -> Outcome:
    outcome = Outcome()
    for tick in range(ticks):
        outcome.add("train", tick, {"loss": 0.5**tick, "accuracy": tick / 8})
    return outcome


@pytest.fixture
def store(tmp_path) -> Store:
    return Store.open(tmp_path / "store")


def written(kind: str, folder: Path, store: Store) -> Log:
    """A log of one trial that grew while it was watched."""
    log, outcome = Log(kind, folder, store), grown(2)
    log.measured([trial(0)], [outcome])
    log.wake.set()
    outcome.add("test", 7, {"loss": 0.25})
    log.measured([trial(0)], [outcome])
    log.concluded(trial(0), "finished", "", {})
    assert log.close() == ""
    return log


EXPECTED = [("train", "loss", 0, 1.0), ("train", "accuracy", 0, 0.0), ("train", "loss", 1, 0.5)]
EXPECTED += [("train", "accuracy", 1, 0.125), ("test", "loss", 7, 0.25)]


def test_a_csv_file_has_every_measurement_once_and_in_order(store, tmp_path):
    log = written("csv", tmp_path / "logs", store)
    path = log.path(trial(0))
    with path.with_name(f"{path.name}.csv").open() as file:
        found = list(csv.DictReader(file))
    rows = [(row["stage"], row["metric"], int(row["step"]), float(row["value"])) for row in found]
    assert rows == EXPECTED


def test_tensorboard_reads_every_measurement_and_a_second_run_replaces_the_first(store, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for _ in range(2):
        log = written("tensorboard", tmp_path / "logs", store)
    reader = EventAccumulator(str(log.path(trial(0))))
    reader.Reload()
    assert sorted(reader.Tags()["scalars"]) == ["test/loss", "train/accuracy", "train/loss"]
    found = {tag: [(event.step, event.value) for event in reader.Scalars(tag)] for tag in reader.Tags()["scalars"]}
    assert found["train/loss"] == [(0, 1.0), (1, 0.5)]
    assert found["train/accuracy"] == [(0, 0.0), (1, 0.125)]
    assert found["test/loss"] == [(7, 0.25)]


def test_weights_and_biases_gets_a_run_per_trial_whose_stages_have_their_own_steps(store, tmp_path, monkeypatch):
    said = []

    class Run:
        def __getattr__(self, name):
            return lambda *given, **more: said.append((name, *given, more))

    def init(**options):
        said.append(("init", options["group"], options["config"]["seed"]))
        return Run()

    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=init))  # the service itself needs an account
    written("wandb", tmp_path / "logs", store)
    assert said[0] == ("init", WALK.name, 0)
    assert ("define_metric", "test/*", {"step_metric": "test/step"}) in said
    assert ("log", {"train/step": 1, "train/loss": 0.5, "train/accuracy": 0.125}, {}) in said
    assert said[-1] == ("finish", {})


def test_a_run_is_logged_while_it_trains_and_what_is_stored_is_logged_from_the_store(store, tmp_path):
    trials = [trial(0), trial(1)]
    execute(trials[:1], store)
    with logged(Silent(), "csv", tmp_path / "logs", store, trials, fresh=False) as display:
        execute(trials, store, progress=display)
    for each in trials:
        (file,) = (tmp_path / "logs" / "walking" / "walk").glob(f"*seed-{each.seed}-*.csv")
        rows = file.read_text().splitlines()
        stored = store.read(each).table().select(["stage", "name", "step", "value"]).to_pylist()
        assert [row.split(",")[:3] for row in rows[1:]] == [[r["stage"], r["name"], str(r["step"])] for r in stored]
        assert [float(row.split(",")[3]) for row in rows[1:]] == [r["value"] for r in stored]


def test_a_log_that_fails_is_said_once_and_the_run_goes_on(store, tmp_path):
    warnings = []

    class Display(Silent):
        def warn(self, text):
            warnings.append(text)

    (tmp_path / "file").write_text("in the way")
    with logged(Display(), "csv", tmp_path / "file", store, [trial(0)], fresh=False) as display:
        assert execute([trial(0)], store, progress=display) == (1, 0)
    assert len(warnings) == 1
    assert warnings[0].startswith("stairwise: --log csv: ")


def test_names_are_files_everywhere_and_end_in_the_digest(store, tmp_path):
    log = Log("csv", tmp_path, store)
    named = log.path(trial(3, "a/b: c?"))
    log.close()
    assert named.name == f"a-b-c-seed-3-{trial(3).digest[:8]}"
    assert named.parent == tmp_path / "walking" / "walk"


@pytest.mark.parametrize("kind", ["tensorboard", "wandb"])
def test_without_the_extra_there_is_one_line(kind, monkeypatch):
    monkeypatch.setattr(logs.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=rf"^--log {kind} needs the extra log: pip install 'stairwise\[log\]'$"):
        logs.check_kind(kind)
