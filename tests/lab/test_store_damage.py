"""Damage: whatever is not as it was written is named and skipped, never believed."""

import copy
import json
import os
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stairwise.lab.store import files, store
from stairwise.lab.store.files import StoreError
from stairwise.lab.store.query import query
from stairwise.lab.store.store import Store
from stairwise.lab.store.trial import encode_trial
from tests.lab.tiny import FILES, RUN, outcome, run_record, trial


@pytest.fixture
def opened(tmp_path) -> Store:
    return Store.open(tmp_path / "store")


def assert_named_and_skipped(opened: Store, path: Path, reason: str) -> None:
    [(named, why)] = opened.damaged()
    assert named == path
    assert why.startswith(reason), why
    assert opened.trials() == []
    assert not opened.has(trial(0))
    with pytest.raises(StoreError, match="is damaged") as caught:
        opened.read(trial(0))
    assert caught.value.exit_status == 1


texts = st.text(max_size=6)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts | st.floats(width=32).map(np.float32)


def grown(each):
    return st.lists(each, max_size=3) | st.dictionaries(texts | st.integers(), each, max_size=3)


@given(st.recursive(scalars, grown, max_leaves=8))
def test_json_is_written_as_the_standard_library_writes_it(value):
    wanted = json.dumps(files.storable(value), sort_keys=True, indent=1, allow_nan=False).encode() + b"\n"
    assert files.render(value) == wanted
    assert files.render((value, np.array([1, 2]))) == files.render([value, [1, 2]])


@pytest.fixture(scope="module")
def one_trial(tmp_path_factory) -> Store:
    opened = Store.open(tmp_path_factory.mktemp("one") / "store")
    opened.write(trial(0), outcome(0), RUN)
    return opened


@settings(max_examples=150, deadline=None)
@given(name=st.sampled_from(FILES), position=st.floats(0, 1, exclude_max=True), change=st.integers(1, 255))
def test_any_changed_byte_of_any_file_is_detected_and_the_file_named(one_trial, name, position, change):
    [record] = one_trial.trials()
    whole = (record.path / name).read_bytes()
    place = int(position * len(whole))
    (record.path / name).write_bytes(whole[:place] + bytes([whole[place] ^ change]) + whole[place + 1 :])
    try:
        assert_named_and_skipped(one_trial, record.path, f"{name}: ")
    finally:
        (record.path / name).write_bytes(whole)
    assert one_trial.damaged() == []


@pytest.mark.parametrize("change", [1, 32, 128])
def test_no_byte_of_a_sealed_file_can_change_unseen(one_trial, change):
    whole = (one_trial.read(trial(0)).path / "run.json").read_bytes()
    for place, byte in enumerate(whole):
        with pytest.raises(ValueError):
            files.unseal(whole[:place] + bytes([byte ^ change]) + whole[place + 1 :])


@settings(max_examples=40, deadline=None)
@given(name=st.sampled_from(FILES), kept=st.floats(0, 1, exclude_max=True))
def test_a_truncated_file_is_detected_and_named_even_at_a_glance(one_trial, name, kept):
    [record] = one_trial.trials()
    whole = (record.path / name).read_bytes()
    (record.path / name).write_bytes(whole[: int(kept * len(whole))])
    try:
        assert_named_and_skipped(one_trial, record.path, f"{name}: ")
        assert one_trial.glance() == []
    finally:
        (record.path / name).write_bytes(whole)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(opened, name):
    folder = opened.write(trial(0), outcome(0), RUN)
    (folder / name).unlink()
    assert_named_and_skipped(opened, folder, f"{name} is missing")


def test_damage_that_a_glance_does_not_see_is_met_before_a_value_is_believed(opened):
    folder = opened.write(trial(0), outcome(0), RUN)
    for name in ("metrics.parquet", "arrays.safetensors"):
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole[:-9] + b"x" + whole[-8:])
    [record] = opened.glance()
    with pytest.raises(StoreError, match=r"metrics\.parquet: digest differs"):
        record.final("loss")
    with pytest.raises(StoreError, match=r"arrays\.safetensors: digest differs"):
        record.array("weights")


def test_errors_keep_their_words_and_exit_status_when_they_travel_between_processes():
    for error in (StoreError("full", exit_status=1), files.Damaged(Path("folder"), "run.json is missing")):
        arrived = copy.copy(error)  # by the same protocol
        assert (type(arrived), str(arrived), arrived.exit_status) == (type(error), str(error), 1)


def test_writing_replaces_a_damaged_folder_and_keeps_it_aside(opened):
    folder = opened.write(trial(0), outcome(0), RUN)
    (folder / "metrics.parquet").write_bytes(b"broken")
    assert opened.write(trial(0), outcome(0), RUN) == folder
    assert opened.has(trial(0))
    assert opened.damaged() == []
    [aside] = (opened.root / "damaged").glob("*/tiny/walk/*/metrics.parquet")
    assert aside.read_bytes() == b"broken"


def test_a_good_folder_wins_against_a_later_write(opened):
    folder = opened.write(trial(0), outcome(0), RUN)
    before = {name: ((folder / name).read_bytes(), (folder / name).stat().st_mtime_ns) for name in FILES}
    assert opened.write(trial(0), outcome(1), RUN) == folder
    assert {name: ((folder / name).read_bytes(), (folder / name).stat().st_mtime_ns) for name in FILES} == before


def test_a_folder_under_another_trials_name_is_foreign(opened):
    folder = opened.write(trial(0), outcome(0), RUN)
    shutil.copytree(folder, folder.parent / trial(1).digest)
    shutil.copytree(folder, opened.root / "trials" / "tiny" / "climb" / folder.name)
    assert [record.seed for record in opened.trials()] == [0]
    assert not opened.has(trial(1))
    assert [why for _, why in opened.damaged()] == [f"config.json describes another trial, tiny/walk {folder.name}"] * 2


def test_foreign_files_and_folders_are_named_and_skipped(opened):
    opened.write(trial(0), outcome(0), RUN)
    (opened.root / "trials" / "notes.txt").write_text("mine")
    (opened.root / "trials" / "tiny" / "walk" / "draft").mkdir()
    os.mkfifo(opened.root / "trials" / "tiny" / "walk" / "draft" / "run.json")  # reading it would block
    assert len(opened.trials()) == 1
    assert [(path.name, why) for path, why in opened.damaged()] == [
        ("notes.txt", "is not a trial folder"),
        ("draft", "run.json is not a regular file"),
    ]


def test_a_sealed_run_json_of_other_content_is_not_believed(opened):
    folder = opened.write(trial(0), outcome(0), RUN)
    sealed = files.unseal((folder / "run.json").read_bytes())
    (folder / "run.json").write_bytes(files.seal({**sealed, "files": ["config.json"]}))
    assert_named_and_skipped(opened, folder, "run.json and config.json are not those of a trial")
    (folder / "run.json").write_bytes(files.seal({**sealed, "format": "new"}))
    assert_named_and_skipped(opened, folder, "run.json: format new is not a known one")


@pytest.mark.parametrize(
    "use",
    [
        lambda opened: opened.has(trial(0)),
        lambda opened: opened.write(trial(0), outcome(0), RUN),
        lambda opened: opened.put(trial(0), encode_trial(trial(0), outcome(0), RUN)),
        lambda opened: opened.trials(),
        lambda opened: list(opened.survey()),
        lambda opened: opened.damaged(),
    ],
)
def test_a_trial_of_a_newer_format_is_refused_by_name_and_stays_where_it_is(opened, use):
    folder = opened.write(trial(0), outcome(0), RUN)
    newer = files.seal({**files.unseal((folder / "run.json").read_bytes()), "format": 2})
    (folder / "run.json").write_bytes(newer)
    with pytest.raises(
        files.Newer, match=r"run\.json was written by a newer version of Stairwise \(format 2"
    ) as caught:
        use(opened)
    assert caught.value.exit_status == 2
    assert str(folder) in str(caught.value)
    assert (folder / "run.json").read_bytes() == newer
    assert not (opened.root / "damaged").exists()


def test_runs_and_verdicts_of_a_newer_format_are_refused_by_name_and_not_written_over(opened):
    opened.write_verdict("tiny/thm1", "0123456789", {"status": "holds"})
    verdict = opened.root / "verdicts" / "tiny" / "thm1" / "0123456789.json"
    verdict.write_bytes(files.seal({**files.unseal(verdict.read_bytes()), "format": 3}))
    run = opened.root / "runs" / f"{opened.write_run(run_record(0))}.json"
    run.write_bytes(files.seal({**files.unseal(run.read_bytes()), "format": 3}))
    for path, use in ((run, opened.runs), (verdict, opened.verdicts)):
        with pytest.raises(files.Newer, match=rf"{path.name} was written by a newer version"):
            use()
    with pytest.raises(files.Newer):
        opened.read_verdict("tiny/thm1", "0123456789")


@pytest.mark.parametrize(
    "change",
    [
        {"started": "yesterday"},
        {"seconds": "long"},
        {"started": 10**400},
        {"trials": "all"},
        {"trials": [1]},
        {"experiment": None},
        {"command": ["stairwise"]},
        {"preset": True},
    ],
    ids=str,
)
def test_a_sealed_run_with_a_wrong_type_is_damaged_and_stops_nothing(opened, change):
    pytest.importorskip("duckdb")
    good = opened.write_run(run_record(0))
    bad = opened.write_run({**run_record(1), **change})
    assert [run.id for run in opened.runs()] == [good]
    assert [(path.stem, why) for path, why in opened.damaged()] == [(bad, f"{bad}.json: not a run")]
    assert query(opened, "select id from runs").to_pylist() == [{"id": good}]


def test_a_sealed_verdict_with_a_wrong_type_stops_no_query(opened):
    pytest.importorskip("duckdb")
    opened.write_verdict("tiny/thm1", "0123456789", {"verdict": {"status": "holds", "margin": "wide"}, "seconds": []})
    opened.write_verdict("tiny/thm2", "0123456789", {"verdict": "holds"})
    found = query(opened, "select claim, status, margin, seconds from claims order by claim").to_pylist()
    assert [tuple(row.values()) for row in found] == [
        ("tiny/thm1", "holds", None, None),
        ("tiny/thm2", None, None, None),
    ]


@pytest.mark.parametrize("kind", ["run", "verdict", "checkpoint"])
def test_any_changed_byte_of_runs_verdicts_and_checkpoints_is_detected(opened, kind):
    id = opened.write_run(run_record(0, 1, 2))
    opened.write_verdict("tiny/thm1", "0123456789", {"status": "holds", "margin": 0.5})
    opened.checkpoint("0123456789").save(outcome(0).arrays, {"owner": {"trials": ["abc"]}})
    path, read = {
        "run": (opened.root / "runs" / f"{id}.json", lambda: opened.runs() or None),
        "verdict": (
            opened.root / "verdicts/tiny/thm1/0123456789.json",
            lambda: opened.read_verdict("tiny/thm1", "0123456789"),
        ),
        "checkpoint": (
            opened.root / "checkpoints/0123456789.safetensors",
            lambda: opened.checkpoint("0123456789").peek(),
        ),
    }[kind]
    whole, draws = path.read_bytes(), random.Random(kind)
    assert read() is not None
    for _ in range(60):
        place, bit = draws.randrange(len(whole)), 1 << draws.randrange(8)
        path.write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
        assert read() is None, (place, bit)
    for kept in (0, 1, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:kept])
        assert read() is None, kept


@pytest.mark.parametrize(
    "use",
    [
        lambda opened: opened.read("../../secret"),
        lambda opened: opened.trials("../.."),
        lambda opened: opened.trials(".."),
        lambda opened: opened.checkpoint("../../outside"),
        lambda opened: opened.write_verdict("../outside", "0123456789", {}),
        lambda opened: opened.write_verdict("tiny/thm1", "../../../outside", {}),
        lambda opened: opened.read_verdict("tiny/..", "0123456789"),
        lambda opened: opened.write_run(dict.fromkeys(store.RUN_FIELDS, "x") | {"id": "../../outside"}),
    ],
)
def test_no_name_leads_out_of_the_store(opened, use):
    with pytest.raises(StoreError, match="must be of the form"):
        use(opened)
    assert os.listdir(opened.root.parent) == ["store"]


def test_damaged_runs_and_verdicts_are_named_and_skipped(opened):
    id = opened.write_run(run_record(0))
    opened.write_verdict("tiny/thm1", "0123456789", {"status": "fails"})
    verdict = opened.root / "verdicts" / "tiny" / "thm1" / "0123456789.json"
    verdict.write_bytes(verdict.read_bytes().replace(b"fails", b"holds"))
    shutil.copy(opened.root / "runs" / f"{id}.json", opened.root / "runs" / "other.json")
    assert opened.verdicts() == []
    assert opened.read_verdict("tiny/thm1", "0123456789") is None
    assert [run.id for run in opened.runs()] == [id]
    assert [why for _, why in opened.damaged()] == ["other.json: not a run", "0123456789.json: digest differs"]
