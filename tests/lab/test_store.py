"""The store: what it gives back, and that nothing in it is ever half there or wrong without being named."""

import dataclasses
import itertools
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stairwise.lab import files, store
from stairwise.lab.files import StoreError
from stairwise.lab.store import Store
from tests.lab.tiny import CLIMB, PAPER, RUN, Sizes, Tiny, outcome, trial

REPOSITORY = Path(__file__).parents[2]
FOUR = ("config.json", "metrics.parquet", "arrays.safetensors", "run.json")


@pytest.fixture
def opened(tmp_path) -> Store:
    return Store.open(tmp_path / "store")


def scratch(opened: Store) -> list[str]:
    return os.listdir(opened.root / "tmp")


# --- what is stored is what is read -----------------------------------------------------------------------------------


def test_a_trial_reads_back_as_it_was_written(opened):
    asked, made = trial(3), outcome(3)
    folder = opened.write(asked, made, RUN)
    record = opened.read(asked)
    assert record.path == folder == opened.root / "trials" / "tiny" / "walk" / asked.digest
    assert sorted(os.listdir(folder)) == sorted(FOUR)
    assert (record.digest, record.seed, record.arm, record.status) == (asked.digest, 3, "slow", "reached")
    assert record.config == asked.config
    assert record.run["message"] == "loss below 0.1"
    assert {name: record.run[name] for name in RUN} == RUN
    assert record.names() == ["loss", "accuracy"]
    assert record.arrays() == ["count", "mask", "weights"]
    for name, array in made.arrays.items():
        assert (record.array(name).dtype, record.array(name).shape) == (array.dtype, array.shape)
        assert record.array(name).tobytes() == array.tobytes()


def test_series_and_final_select_metric_and_stage_in_the_order_of_recording(opened):
    opened.write(trial(0), outcome(0), RUN)
    record = opened.read(trial(0))
    steps, values = record.series("loss", "warm")
    assert steps.tolist() == [0, 10, 20, 30, 40]
    assert values.tolist() == [1.0 / (step + 1) for step in range(0, 50, 10)]
    assert record.series("loss")[0].tolist() == [0, 10, 20, 30, 40, 3]
    assert record.final("accuracy") == 0.8
    assert np.isnan(record.final("loss"))


def test_a_metric_or_array_that_is_not_there_is_an_error_that_lists_those_that_are(opened):
    opened.write(trial(0), outcome(0), RUN)
    record = opened.read(trial(0))
    with pytest.raises(StoreError, match=r"did not measure margin \(it has loss, accuracy\)"):
        record.series("margin")
    with pytest.raises(StoreError, match="did not measure accuracy in stage main"):
        record.final("accuracy", "main")
    with pytest.raises(StoreError, match=r"no array bias \(it has count, mask, weights\)"):
        record.array("bias")


def test_the_table_is_long_form_with_the_trial_in_every_row(opened):
    opened.write(trial(5), outcome(5), RUN)
    table = opened.read(trial(5)).table()
    assert table.column_names == ["experiment", "digest", "seed", "arm", "stage", "step", "name", "value"]
    first = {"experiment": "tiny/walk", "digest": trial(5).digest, "seed": 5, "arm": "slow"}
    assert table.slice(0, 1).to_pylist() == [{**first, "stage": "warm", "step": 0, "name": "loss", "value": 1 / 6}]
    assert table.num_rows == len(outcome(5).value)


def test_a_config_is_typed_where_the_experiment_is_known_and_has_the_same_attributes_where_not(opened):
    opened.write(trial(0), outcome(0), RUN)
    [typed], [plain] = opened.trials(PAPER.experiment("walk")), opened.trials("tiny/walk")
    assert typed.config == Tiny()
    assert (plain.config.task.length, plain.config.task.hops, plain.config.rate) == (8, (1, 2), 0.1)
    assert plain.config_dict == {"task": {"length": 8, "hops": [1, 2]}, "rate": 0.1}


def test_an_experiment_sees_only_the_trials_of_its_own_version(opened):
    opened.write(trial(0), outcome(0), RUN)
    newer = dataclasses.replace(PAPER.experiment("walk"), version=2)
    assert opened.trials(newer) == []
    assert len(opened.trials(newer.name)) == 1


def test_the_arm_is_a_label_and_the_asking_trial_gives_it(opened):
    first = opened.write(trial(0, arm="slow"), outcome(0), RUN)
    assert opened.write(trial(0, arm="fast"), outcome(0), RUN) == first
    assert opened.read(trial(0, arm="fast")).arm == "fast"
    assert opened.read(trial(0).digest).arm == "slow"


def test_a_trial_that_starts_from_another_records_its_digest(opened):
    climb = trial(1, "climb")
    opened.write(climb, outcome(1), RUN)
    assert CLIMB.needs is not None
    assert opened.read(climb).needs == {"start": trial(1).digest}
    assert opened.damaged() == []


def test_trials_are_selected_by_paper_or_experiment(opened):
    for seed, experiment in [(0, "walk"), (1, "walk"), (0, "climb")]:
        opened.write(trial(seed, experiment), outcome(seed), RUN)
    counts = {name: len(opened.trials(name)) for name in (None, "tiny", "tiny/walk", "tiny/climb", "other")}
    assert counts == {None: 3, "tiny": 3, "tiny/walk": 2, "tiny/climb": 1, "other": 0}
    assert [record.digest for record in opened.glance()] == [record.digest for record in opened.trials()]


def test_the_same_outcome_gives_the_same_bytes_whatever_the_order_and_layout_of_its_arrays(tmp_path):
    made, other = outcome(0, floats=600), outcome(0, floats=600)
    other.arrays = {name: np.array(array, order="F") for name, array in reversed(made.arrays.items())}
    other.arrays["weights"] = np.repeat(made.arrays["weights"], 2, axis=1)[:, ::2]
    first = Store.open(tmp_path / "a").write(trial(0), made, RUN)
    second = Store.open(tmp_path / "b").write(trial(0), other, {**RUN, "timing": 9.0})
    same = {name: (first / name).read_bytes() == (second / name).read_bytes() for name in FOUR}
    assert same == {"config.json": True, "metrics.parquet": True, "arrays.safetensors": True, "run.json": False}


def test_what_the_store_writes_itself_cannot_be_set_and_foreign_types_are_refused_by_name(opened):
    with pytest.raises(ValueError, match="run: status cannot be set"):
        opened.write(trial(0), outcome(0), {"status": "finished"})
    made = outcome(0)
    made.arrays["phases"] = np.zeros(2, dtype=np.complex64)
    with pytest.raises(ValueError, match="array phases: dtype=complex64 must be one of bool"):
        opened.write(trial(0), made, RUN)
    assert opened.trials() == []
    assert scratch(opened) == []


def test_a_trial_without_metrics_or_arrays_is_stored_too(opened):
    from stairwise.lab.contract import Outcome

    opened.write(trial(0), Outcome("diverged"), RUN)
    record = opened.read(trial(0))
    assert (record.status, record.names(), record.arrays(), record.table().num_rows) == ("diverged", [], [], 0)


# --- opening ----------------------------------------------------------------------------------------------------------


def test_a_store_is_where_it_is_asked_for_then_where_the_environment_says_then_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STAIRWISE_STORE", raising=False)
    assert Store.open().root == tmp_path / "stairwise-store"
    monkeypatch.setenv("STAIRWISE_STORE", str(tmp_path / "elsewhere"))
    assert Store.open().root == tmp_path / "elsewhere"
    assert Store.open("here").root == tmp_path / "here"


def test_a_store_that_does_not_exist_reads_as_empty_and_is_not_made(tmp_path):
    absent = Store.open(tmp_path / "absent", create=False)
    assert (absent.trials(), absent.damaged(), absent.runs(), absent.verdicts()) == ([], [], [], [])
    assert not absent.has(trial(0))
    assert absent.checkpoint("0123456789").load() is None
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("create", [True, False])
def test_a_store_under_a_regular_file_is_one_line_with_exit_status_2(tmp_path, create):
    (tmp_path / "file").write_text("mine")
    place = tmp_path / "file" if not create else tmp_path / "file" / "deep" / "store"
    with pytest.raises(StoreError) as caught:
        Store.open(place, create=create)
    assert caught.value.exit_status == 2
    assert str(caught.value).endswith("Not a directory")
    assert len(str(caught.value).splitlines()) == 1
    assert os.listdir(tmp_path) == ["file"]


def test_a_store_that_turns_out_unwritable_leaves_no_folder_behind(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "touch", refuse)
    with pytest.raises(StoreError, match="Permission denied"):
        Store.open(tmp_path / "deep" / "store")
    assert os.listdir(tmp_path) == []


def test_opening_sweeps_scratch_of_the_dead_and_the_old_and_nothing_else(opened):
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    mine = files.scratch_name()
    machine = mine.split("-")[1]
    names = {
        "dead": f"stairwise-{machine}-{child.pid}-00000000",
        "alive": mine,
        "elsewhere": f"stairwise-{'0' * 12}-{child.pid}-00000000",
        "old": f"stairwise-{'0' * 12}-1-11111111",
        "foreign": "thesis",
    }
    for name in names.values():
        (opened.root / "tmp" / name).mkdir()
        (opened.root / "tmp" / name / "run.json").write_text("half")
    for name in ("old", "foreign"):
        os.utime(opened.root / "tmp" / names[name], (0, time.time() - 2 * 3600))
    Store.open(opened.root, create=False)
    assert len(scratch(opened)) == 5
    Store.open(opened.root)
    assert sorted(scratch(opened)) == sorted([names["alive"], names["elsewhere"], names["foreign"]])


def test_importing_the_store_loads_neither_jax_nor_the_file_formats():
    code = "import sys, stairwise.lab.store, stairwise.lab.provenance\n"
    code += "print(sorted({'jax', 'pyarrow', 'safetensors'} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


# --- crashes ----------------------------------------------------------------------------------------------------------


class Crash(BaseException):
    """The process ends here."""


def crash_at(monkeypatch, step: int, after: bool, fault: BaseException) -> list[str]:
    """Lets the calls that touch the disk through up to the given one, which fails before or after its effect.

    Gives the list of calls, which grows as they are made.
    """
    calls: list[str] = []

    def failing(name: str):
        real = getattr(os, name)

        def call(*arguments, **more):
            calls.append(name)
            now = len(calls) == step + 1
            if now and not after:
                raise fault
            result = real(*arguments, **more)
            if now:
                raise fault
            return result

        return call

    for name in ("fsync", "rename", "mkdir"):
        monkeypatch.setattr(os, name, failing(name))
    if isinstance(fault, Crash):  # the dead do not clean up
        monkeypatch.setattr(store, "remove", lambda path: None)
    return calls


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("fault", [Crash(), OSError(5, "Input/output error")], ids=["crash", "error"])
def test_a_write_that_ends_at_any_step_leaves_a_complete_trial_or_none(tmp_path, monkeypatch, fault, after):
    for step in itertools.count():
        opened = Store.open(tmp_path / str(step))
        with monkeypatch.context() as patched:
            calls = crash_at(patched, step, after, fault)
            with suppress(Crash, StoreError):
                opened.write(trial(0), outcome(0), RUN)
        if len(calls) <= step:
            break
        assert opened.damaged() == []
        assert [record.digest for record in opened.trials()] in ([], [trial(0).digest])
        assert isinstance(fault, Crash) or scratch(opened) == []
        opened.write(trial(0), outcome(0), RUN)
        assert opened.read(trial(0)).final("accuracy") == 0.8
    assert calls[:6] == ["mkdir"] + 5 * ["fsync"]  # the four files and their folder are on the disk
    assert calls[-2:] == ["rename", "fsync"]  # before the name is given, which then lasts


def child(code: str, *arguments: object) -> subprocess.Popen[str]:
    lines = "import sys, os, time\nfrom stairwise.lab.store import Store\nfrom tests.lab.tiny import *\n" + code
    command = [sys.executable, "-c", lines, *map(str, arguments)]
    return subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)


WRITE_FOR_EVER = """
store = Store.open(sys.argv[1])
for seed in range(int(sys.argv[2]), 10**6):
    store.write(trial(seed), outcome(seed, 20_000), RUN)
    store.checkpoint(trial(0).digest).save(outcome(seed, 20_000).arrays, {"seed": seed})
    print(seed, flush=True)
"""


def test_after_kill_9_every_listed_trial_verifies_and_no_reported_one_is_lost(tmp_path):
    opened, done = Store.open(tmp_path / "store"), set()
    for attempt in range(3):
        process = child(WRITE_FOR_EVER, opened.root, 1000 * attempt)
        assert process.stdout is not None
        done |= {int(process.stdout.readline()) for _ in range(5)}
        time.sleep(0.0137 * attempt)
        process.kill()
        done |= {int(line) for line in process.stdout}
        process.wait()
    assert opened.damaged() == []
    assert done <= {record.seed for record in opened.trials()} <= done | {seed + 1 for seed in done}
    loaded = opened.checkpoint(trial(0).digest).load()
    assert loaded is not None
    assert loaded[0]["count"] == loaded[1]["seed"]
    Store.open(opened.root)
    assert scratch(opened) == []


WRITE_TOGETHER = """
store = Store.open(sys.argv[1])
print("ready", flush=True)
while not os.path.exists(sys.argv[2]):
    time.sleep(0.001)
for seed in range(25):
    store.write(trial(seed), outcome(seed), {**RUN, "device": sys.argv[3]})
"""


def test_processes_that_write_and_repair_the_same_trials_leave_each_exactly_once(tmp_path):
    opened = Store.open(tmp_path / "store")
    for seed in range(0, 25, 2):
        (opened.write(trial(seed), outcome(seed), RUN) / "metrics.parquet").write_bytes(b"broken")
    writers = [child(WRITE_TOGETHER, opened.root, tmp_path / "go", name) for name in ("a", "b", "c")]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    (tmp_path / "go").touch()
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert sorted(record.seed for record in opened.trials()) == list(range(25))
    assert opened.damaged() == []
    assert scratch(opened) == []
    assert len(list((opened.root / "damaged").glob("*/tiny/walk/*"))) == 13
    here = Store.open(tmp_path / "here").write(trial(7), outcome(7), RUN)
    for name in FOUR[:3]:  # another process, the same bytes
        assert (here / name).read_bytes() == (opened.read(trial(7)).path / name).read_bytes()


# --- damage -----------------------------------------------------------------------------------------------------------


def assert_named_and_skipped(opened: Store, path: Path, reason: str) -> None:
    [(named, why)] = opened.damaged()
    assert named == path
    assert why.startswith(reason), why
    assert opened.trials() == []
    assert not opened.has(trial(0))
    with pytest.raises(StoreError, match="is damaged") as caught:
        opened.read(trial(0))
    assert caught.value.exit_status == 1


@pytest.fixture(scope="module")
def one_trial(tmp_path_factory) -> Store:
    opened = Store.open(tmp_path_factory.mktemp("one") / "store")
    opened.write(trial(0), outcome(0), RUN)
    return opened


@settings(max_examples=150, deadline=None)
@given(name=st.sampled_from(FOUR), position=st.floats(0, 1, exclude_max=True), change=st.integers(1, 255))
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
@given(name=st.sampled_from(FOUR), kept=st.floats(0, 1, exclude_max=True))
def test_a_truncated_file_is_detected_and_named_even_at_a_glance(one_trial, name, kept):
    [record] = one_trial.trials()
    whole = (record.path / name).read_bytes()
    (record.path / name).write_bytes(whole[: int(kept * len(whole))])
    try:
        assert_named_and_skipped(one_trial, record.path, f"{name}: ")
        assert one_trial.glance() == []
    finally:
        (record.path / name).write_bytes(whole)


@pytest.mark.parametrize("name", FOUR)
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
    before = {name: ((folder / name).read_bytes(), (folder / name).stat().st_mtime_ns) for name in FOUR}
    assert opened.write(trial(0), outcome(1), RUN) == folder
    assert {name: ((folder / name).read_bytes(), (folder / name).stat().st_mtime_ns) for name in FOUR} == before


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
        ("draft", "run.json is missing"),
    ]


def test_a_sealed_run_json_of_other_content_or_format_is_not_believed(opened):
    folder = opened.write(trial(0), outcome(0), RUN)
    sealed = files.unseal((folder / "run.json").read_bytes())
    (folder / "run.json").write_bytes(files.seal({**sealed, "files": ["config.json"]}))
    assert_named_and_skipped(opened, folder, "run.json and config.json are not those of a trial")
    (folder / "run.json").write_bytes(files.seal({**sealed, "format": 2}))
    assert_named_and_skipped(opened, folder, "run.json: format 2 is not the known one, 1")


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


# --- disks ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path):
    """A disk of one megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount a small tmpfs")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_is_one_line_with_exit_status_1_and_leaves_nothing_behind(small_disk):
    opened = Store.open(small_disk / "store")
    with pytest.raises(StoreError) as caught:
        opened.write(trial(0), outcome(0, floats=400_000), RUN)
    assert caught.value.exit_status == 1
    assert str(caught.value) == f"cannot store trial {trial(0).digest} in {opened.root}: No space left on device"
    assert [path for path in opened.root.rglob("*") if path.is_file()] == []
    assert scratch(opened) == []
    opened.write(trial(0), outcome(0), RUN)
    assert opened.has(trial(0))


def test_a_disk_that_fills_up_keeps_every_trial_that_was_stored(small_disk):
    opened = Store.open(small_disk / "store")
    stored = []
    with suppress(StoreError):
        for seed in range(100):
            opened.write(trial(seed), outcome(seed, floats=30_000), RUN)
            stored.append(seed)
    assert 3 <= len(stored) < 100
    assert sorted(record.seed for record in opened.trials()) == stored
    assert opened.damaged() == []
    checkpoint = opened.checkpoint("0123456789")
    with pytest.raises(StoreError, match=r"cannot write checkpoint .*: No space left on device"):
        checkpoint.save({"state": np.zeros(200_000, dtype=np.float32)}, {})
    assert checkpoint.load() is None
    assert scratch(opened) == []


def test_a_read_only_disk_can_be_read_and_is_one_line_with_exit_status_2_to_a_writer(small_disk):
    Store.open(small_disk / "store").write(trial(0), outcome(0), RUN)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert [record.seed for record in Store.open(small_disk / "store", create=False).trials()] == [0]
    for place in ("store", "new"):
        with pytest.raises(StoreError, match=r"cannot use the store .*: Read-only file system") as caught:
            Store.open(small_disk / place)
        assert caught.value.exit_status == 2


# --- runs, verdicts, finding ------------------------------------------------------------------------------------------


def run_record(*seeds: int, **more) -> dict:
    asked = {"experiment": "tiny/walk", "preset": "quick", "command": "stairwise run tiny/walk", "started": 1.5e9}
    return {**asked, "seconds": 2.5, "trials": [trial(seed).digest for seed in seeds], **more}


def test_runs_come_back_in_the_order_they_were_written_under_ids_of_their_own(opened):
    ids = [opened.write_run(run_record(seed, note="n")) for seed in range(20)]
    assert len(set(ids)) == 20
    assert [run.id for run in opened.runs()] == ids == sorted(ids)
    first = opened.runs()[0]
    assert (first.experiment, first.preset, first.seconds) == ("tiny/walk", "quick", 2.5)
    assert (first.trials, first.record["note"]) == ([trial(0).digest], "n")


def test_a_run_can_be_completed_under_its_id(opened):
    id = opened.write_run(run_record(0, seconds=None))
    assert opened.write_run(run_record(0, seconds=4.0, id=id)) == id
    assert [run.seconds for run in opened.runs()] == [4.0]


def test_a_run_record_without_its_fields_is_refused(opened):
    with pytest.raises(ValueError, match=r"run record: preset, seconds missing"):
        opened.write_run({"experiment": "x", "command": "y", "trials": [], "started": 0})


def test_verdicts_keep_their_numbers_and_the_latest_stays(opened):
    data = {"status": "fails", "measured": float("nan"), "margin": np.float32(0.5), "details": [{"n": np.int64(3)}]}
    opened.write_verdict("tiny/thm1", "0123456789", {"status": "holds"})
    opened.write_verdict("tiny/thm1", "0123456789", data)
    read = opened.read_verdict("tiny/thm1", "0123456789")
    assert np.isnan(read["measured"])
    assert (read["status"], read["margin"], read["details"]) == ("fails", 0.5, [{"n": 3}])
    [listed] = opened.verdicts()
    assert (listed["claim"], listed["digest"], listed["status"]) == ("tiny/thm1", "0123456789", "fails")
    assert opened.read_verdict("tiny/thm1", "9876543210") is None


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


def test_a_unique_prefix_finds_a_trial_or_a_run(opened):
    for seed in range(40):
        opened.write(trial(seed, task=Sizes(length=3)), outcome(seed), RUN)
    id = opened.write_run(run_record(0))
    wanted = trial(7, task=Sizes(length=3)).digest
    assert opened.find(wanted[:10]).digest == wanted
    assert opened.find(id[:12]).id == id
    with pytest.raises(StoreError, match="no trial or run begins with 'xyz'"):
        opened.find("xyz")
    with pytest.raises(StoreError, match="'' is ambiguous, 41 trials and runs begin with it"):
        opened.find("")
    initials = Counter(record.digest[0] for record in opened.trials())
    [(initial, count)] = initials.most_common(1)  # of forty, some two begin alike
    same = sorted(record.digest for record in opened.trials() if record.digest.startswith(initial))
    with pytest.raises(StoreError, match=f"'{initial}' is ambiguous, {count} trials .*: {', '.join(same[:6])}"):
        opened.find(initial)
