"""The index, queries and tidying: a copy that is believed only while it is true, and that nothing depends on."""

import json
import os
import random
import shutil

import pytest

import stairwise as sw
from stairwise.cli import main
from stairwise.commands.runs import RunFilter
from stairwise.config import ConfigError
from stairwise.lab.progress import Silent
from stairwise.lab.run.tidy import clean, foreign, litter
from stairwise.lab.store import index as index_module
from stairwise.lab.store import trial as trial_module
from stairwise.lab.store.files import Damaged, scratch_name
from stairwise.lab.store.query import query
from stairwise.lab.store.segment import Segment
from stairwise.lab.store.store import Store
from stairwise.train.stage import Outcome
from tests.lab.tiny import RUN, Sizes, outcome, run_record, trial

pytest.importorskip("duckdb")
COUNT = 70
MAKING = {**RUN, "timing": {"started": 1.7e9, "seconds": 2.0, "seconds_per_trial": 1.0}}
MAKING |= {"device": {"platform": "cpu", "kind": "Abacus", "count": 1}, "source_hash": "0" * 64}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A store of seventy trials whose files are old enough to be entered."""
    store = Store.open(tmp_path_factory.mktemp("written"))
    for seed in range(COUNT):
        fields = {"task": Sizes(length=3), "rate": 0.5} if seed % 2 else {}
        folder = store.write(trial(seed, **fields), outcome(seed), MAKING)
        for name in os.listdir(folder):
            os.utime(folder / name, (1e9, 1e9))
    store.write_run(run_record(0, 1))
    store.write_verdict("tiny/thm1", "0123456789", {"verdict": {"status": "holds", "margin": 2.0}, "seconds": 0.5})
    return store


@pytest.fixture
def store(written, tmp_path) -> Store:
    """A copy of it, to be spoiled."""
    shutil.copytree(written.root, tmp_path / "store", copy_function=shutil.copy2)
    return Store.open(tmp_path / "store")


def digests(records) -> list[str]:
    return [record.digest for record in records]


@pytest.fixture
def unread(monkeypatch):
    """Counts the trials that are opened."""
    opened = []
    real = index_module.StoredTrial.open.__func__

    def counting(cls, path, **how):
        opened.append(path.name)
        return real(cls, path, **how)

    monkeypatch.setattr(index_module.StoredTrial, "open", classmethod(counting))
    return opened


def test_what_is_entered_is_listed_unopened_and_reads_the_same(store, unread):
    plain = {record.digest: record for record in store.trials()}
    store.index().refresh()
    unread.clear()
    entered = list(store.survey())
    assert unread == []
    assert digests(entered) == digests(store.glance()) == list(plain)
    for record in entered:
        same = plain[record.digest]
        assert (record.run, record.config_dict, record.seed, record.status) == (
            same.run, same.config_dict, same.seed, same.status,
        )  # fmt: skip
        assert record.config.task.length == same.config.task.length
        assert record.final("accuracy") == same.final("accuracy")


def test_what_is_read_ahead_is_what_the_files_have_and_is_read_once(store, monkeypatch):
    plain = {record.digest: measured(record) for record in store.trials()}
    monkeypatch.setattr(trial_module.recent, "kept", type(trial_module.recent.kept)())
    store.index().refresh()
    store.index().read_ahead()
    monkeypatch.setattr(trial_module.StoredTrial, "measurements", None)  # no file is opened
    assert {record.digest: measured(record) for record in store.glance()} == plain


def measured(record) -> str:
    """Everything, as text: NaN is not equal to itself."""
    series = {key: [column.tolist() for column in columns] for key, columns in record.every_series().items()}
    return str([record.names(), record.finals(), series])


def test_a_file_that_has_changed_since_it_was_read_ahead_is_not_believed(store):
    store.index().refresh()
    store.index().read_ahead()
    victim = next(iter(store.trials()))
    path = victim.path / "metrics.parquet"
    path.write_bytes(bytes(reversed(path.read_bytes())))
    with pytest.raises(Damaged, match=r"metrics\.parquet: digest differs"):
        victim.names()


@pytest.mark.parametrize("file", ["config.json", "metrics.parquet", "arrays.safetensors", "run.json"])
def test_a_file_that_has_changed_is_read_and_not_believed(store, file, unread):
    store.index().refresh()
    victim = trial(4)
    path = store.read(victim).path / file
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    unread.clear()
    assert victim.digest not in digests(store.survey())
    assert set(unread) == {victim.digest}
    assert [path.name for path, _ in store.damaged(again=False)] == [victim.digest]
    assert query(store, "select count(*) as n from trials").to_pylist() == [{"n": COUNT - 1}]
    assert query(store, f"select * from metrics where digest = '{victim.digest}'").num_rows == 0


def test_many_thousand_trials_share_their_configs_and_the_names_of_their_fields(indexed):
    first, second = [record for record in indexed.survey() if record.seed in (0, 2)]
    assert first.config_dict is second.config_dict

    def names(data: dict) -> list[int]:
        return [id(key) for key in data] + [each for value in data.values() if type(value) is dict
                                            for each in names(value)]  # fmt: skip

    assert names(first.run) == names(second.run)
    assert (id(first.experiment), id(first.arm)) == (id(second.experiment), id(second.arm))


def test_a_trial_that_has_gone_is_not_listed_and_a_new_one_is(store):
    store.index().refresh()
    shutil.rmtree(store.read(trial(4)).path)
    store.write(trial(1000), outcome(1000), MAKING)
    found = set(digests(store.survey()))
    assert trial(4).digest not in found
    assert trial(1000).digest in found
    seeds = query(store, "select seed from trials order by seed")["seed"].to_pylist()
    assert seeds == [seed for seed in range(COUNT) if seed != 4] + [1000]


def test_without_an_index_everything_is_the_same(store):
    whole = digests(store.trials())
    store.index().refresh()
    shutil.rmtree(store.root / "index")
    assert digests(store.glance()) == whole


@pytest.fixture(scope="module")
def indexed(written, tmp_path_factory):
    """The same store with its index."""
    root = tmp_path_factory.mktemp("indexed") / "store"
    shutil.copytree(written.root, root, copy_function=shutil.copy2)
    Store(root).index().refresh()
    return Store(root)


def flipped(data: bytes, draws: random.Random) -> bytes:
    place = draws.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << draws.randrange(8)]) + data[place + 1 :]


DAMAGES = {
    "flip": flipped,
    "truncation": lambda data, draws: data[: draws.randrange(len(data))],
    "nothing": lambda data, draws: b"",
    "absence": None,
}
ANSWERS = (
    "select digest, seed, status, rate, started from trials order by digest",
    "select * from finals order by all",
    "select name, step, sum(value), count(*), min(digest) from metrics group by all order by all",
)


@pytest.mark.parametrize("file", ["trials.jsonl", "trials.parquet", "finals.parquet", "metrics.parquet"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_to_the_index_changes_no_answer_and_is_mended(indexed, tmp_path, file, damage):
    wanted = answers(indexed)
    shutil.copytree(indexed.root, tmp_path / "store", copy_function=shutil.copy2)
    store = Store(tmp_path / "store")
    (path,) = (store.root / "index").glob(f"*/{file}")
    if DAMAGES[damage] is None:
        path.unlink()
    else:
        path.write_bytes(DAMAGES[damage](path.read_bytes(), random.Random(f"{file} {damage}")))
    assert answers(store) == wanted
    (mended,) = (store.root / "index").iterdir()
    assert {each.name: each.read_bytes() for each in mended.iterdir()} == {
        each.name: each.read_bytes() for each in next((indexed.root / "index").iterdir()).iterdir()
    }


def answers(store: Store) -> list[str]:
    """What `runs` and `query` say; as text, in which NaN equals NaN."""
    listed = [json.dumps([record.digest, record.run, record.config_dict], sort_keys=True) for record in store.survey()]
    return [*listed, *(str(query(store, sql).to_pylist()) for sql in ANSWERS)]


def test_the_index_of_another_version_is_neither_read_nor_removed_but_named_as_litter(indexed, tmp_path):
    shutil.copytree(indexed.root, tmp_path / "store", copy_function=shutil.copy2)
    store = Store(tmp_path / "store")
    (segment,) = (store.root / "index").iterdir()
    other = segment.rename(segment.with_name(f"3-{'0' * 32}"))
    assert len(list(store.survey())) == COUNT
    assert other.exists()
    assert [each.path for each in litter(store)] == [other]


def test_a_query_answers_while_another_process_merges_segments(store, monkeypatch):
    store.index().refresh()
    wanted = str(query(store, ANSWERS[2]).to_pylist())
    real, opened = Segment.file, []

    def merged_meanwhile(segment, name):
        if len(opened) < 2:  # both of the first attempts find the segment gone when they come to its measurements
            shutil.rmtree(segment.path, ignore_errors=True)
        opened.append(name)
        return real(segment, name)

    monkeypatch.setattr(Segment, "file", merged_meanwhile)
    assert str(query(store, ANSWERS[2]).to_pylist()) == wanted
    assert len(opened) > 2


def test_entering_many_trials_shows_progress(store):
    seen = []

    class Counting(Silent):
        def begin(self, what, total, done):
            seen.append((what, total, done))

        def finished(self, label, status):
            seen.append(label)

        def end(self):
            seen.append("end")

    store.index().refresh(Counting())
    assert seen[0] == ("entering trials in the index", COUNT, 0)
    assert seen[1:] == [*digests(store.trials()), "end"]


def test_few_trials_are_not_worth_an_index(tmp_path):
    few = Store.open(tmp_path)
    few.write(trial(0), outcome(0), MAKING)
    few.index().refresh()
    assert not (tmp_path / "index").exists()
    assert query(few, "select seed from trials").to_pylist() == [{"seed": 0}]


def test_small_segments_are_merged_and_no_measurement_is_lost_or_doubled(store, monkeypatch):
    monkeypatch.setattr(index_module, "WORTH_WRITING", 1)
    monkeypatch.setattr(index_module, "LARGEST_SEGMENT", 7)  # ten segments
    before = query(store, "select name, count(*) as n, sum(step) as steps from metrics group by name order by name")
    monkeypatch.setattr(index_module, "LARGEST_SEGMENT", 1000)
    store.write(trial(500), outcome(500), MAKING)
    for path in store.read(trial(500)).path.iterdir():
        os.utime(path, (1e9, 1e9))
    after = query(store, "select name, count(*) as n, sum(step) as steps from metrics group by name order by name")
    assert len(list((store.root / "index").iterdir())) == 1
    rows = {row["name"]: row for row in outcome_rows(500)}
    for old, new in zip(before.to_pylist(), after.to_pylist(), strict=True):
        assert new["n"] - old["n"] == rows[old["name"]]["n"]
        assert new["steps"] - old["steps"] == rows[old["name"]]["steps"]


def outcome_rows(seed: int) -> list[dict]:
    made = outcome(seed)
    return [
        {
            "name": name,
            "n": made.name.count(name),
            "steps": sum(step for step, each in zip(made.step, made.name, strict=True) if each == name),
        }
        for name in set(made.name)
    ]


# --- queries ----------------------------------------------------------------------------------------------------------


def test_the_tables_hold_what_the_files_hold(store):
    grouped = query(
        store,
        'select "task.length", rate, count(*) as n, max(value) as best from trials join finals using (digest)'
        " where name = 'accuracy' group by all order by 1",
    ).to_pylist()
    assert grouped == [
        {"task.length": 3, "rate": 0.5, "n": COUNT // 2, "best": 0.8},
        {"task.length": 8, "rate": 0.1, "n": COUNT // 2, "best": 0.8},
    ]
    assert query(
        store, 'select distinct status, device, hops from (select *, "task.hops" as hops from trials)'
    ).to_pylist() == [{"status": "reached", "device": "Abacus", "hops": "1,2"}]
    steps = query(store, f"select step, value from metrics where digest = '{trial(2).digest}' and name = 'loss'")
    stored = store.read(trial(2)).series("loss")
    assert steps["step"].to_pylist() == stored[0].tolist()
    assert steps["value"].to_pylist()[:-1] == stored[1].tolist()[:-1]  # the last is NaN
    assert query(store, "select preset, len(trials) as n from runs").to_pylist() == [{"preset": "quick", "n": 2}]
    assert query(store, "select claim, status, margin from claims").to_pylist() == [
        {"claim": "tiny/thm1", "status": "holds", "margin": 2.0}
    ]


def test_an_empty_store_has_the_same_tables(tmp_path):
    empty = Store.open(tmp_path / "none", create=False)
    for name in ("trials", "finals", "metrics", "runs", "claims"):
        assert query(empty, f"select * from {name}").num_rows == 0
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    "sql",
    [
        "copy trials to '{root}/x.csv'",
        "copy (select digest, name, 0.0 as value from finals) to '{segment}/finals.parquet' (format parquet)",
        "attach '{root}/index/evil.db' as e",
        "export database '{root}/index/all'",
        "create table mine as select 1",
        "drop view trials",
        "select 1; drop view trials",
        "select 1; select 2",
        "set enable_external_access=true",
        "install httpfs",
        "",
        "-- nothing",
    ],
)
def test_a_query_is_one_select_statement_and_writes_nowhere(indexed, sql):
    (segment,) = (indexed.root / "index").iterdir()
    before = {path: path.stat().st_mtime_ns for path in indexed.root.rglob("*")}
    with pytest.raises(ConfigError, match="query: must be one statement that selects"):
        query(indexed, sql.format(root=indexed.root, segment=segment))
    assert {path: path.stat().st_mtime_ns for path in indexed.root.rglob("*")} == before


@pytest.mark.parametrize(
    "sql",
    [
        "select * from '/etc/hostname'",
        "select * from read_csv('/etc/hostname')",
        "select * from read_parquet('{segment}/finals.parquet')",
        "with gone as (delete from runs returning *) select * from gone",
        "select * from query('drop view trials')",
    ],
)
def test_a_query_reads_and_changes_the_tables_of_the_store_and_nothing_else(indexed, sql):
    (segment,) = (indexed.root / "index").iterdir()
    with pytest.raises(ConfigError, match="query: "):
        query(indexed, sql.format(segment=segment))


def test_a_query_that_is_no_text_is_one_planned_line(tmp_path):
    with pytest.raises(ConfigError, match=r"^query: select '\?' must be text in UTF-8$"):
        query(Store.open(tmp_path / "none", create=False), "select '\udcff'")


def test_columns_of_the_same_name_are_all_kept(tmp_path):
    empty = Store(tmp_path / "none")
    assert query(empty, "select 1 as a, 2 as a, 3 as a_1, 4 as a").to_pylist() == [
        {"a": 1, "a_2": 2, "a_1": 3, "a_3": 4}
    ]


@pytest.mark.parametrize("name", [b"st*re", b"st[o]re", b"it's", b"st\xffre", b"two\nlines"])
def test_a_store_is_indexed_and_queried_under_any_name(written, tmp_path, name):
    shutil.copytree(written.root, tmp_path / "stare")
    root = tmp_path / os.fsdecode(name)
    shutil.copytree(written.root, root, copy_function=shutil.copy2)
    store = Store(root)
    store.index().refresh()
    assert len(list((root / "index").iterdir())) == 1
    assert query(store, "select count(*) as n from metrics").to_pylist() == [{"n": COUNT * len(outcome(0).value)}]


def test_load_gives_long_form_with_config_fields_to_arrow_and_pandas(store):
    frame = sw.load("tiny/walk", fields=["rate", "task.length", "status"], pandas=True, store=store)
    assert len(frame) == COUNT * len(outcome(0).value)
    assert set(frame[frame.seed % 2 == 1].rate) == {0.5}
    assert frame.groupby("task.length").digest.nunique().to_dict() == {3: 35, 8: 35}
    assert sw.load("tiny", store=store).column_names[:3] == ["experiment", "digest", "seed"]
    with pytest.raises(ConfigError, match="has no field speed"):
        sw.load("tiny", fields=["speed"], store=store)


# --- filters and tidying ----------------------------------------------------------------------------------------------


def test_filters_select_trials_by_status_config_time_and_number(store):
    assert len(RunFilter.of("tiny", where=["task.length=3", "rate=0.50"]).trials(store)) == COUNT // 2
    assert digests(RunFilter.of(None, where=["seed=5"]).trials(store)) == [
        trial(5, task=Sizes(length=3), rate=0.5).digest
    ]
    assert len(RunFilter.of(None, status="failed").trials(store)) == 0
    assert len(RunFilter.of(None, since="2023-11-01", last=3).trials(store)) == 3
    assert len(RunFilter.of(None, since="2023-12-01").trials(store)) == 0
    assert len(RunFilter.of(None, preset="gpu").runs(store)) == 0
    assert len(RunFilter.of("tiny/walk", preset="quick", last=5).runs(store)) == 1


OWNER = {"experiment": "tiny/walk", "source_hash": "0" * 64}


def test_tidying_removes_checkpoints_of_stored_trials_and_keeps_those_of_unfinished_ones(store):
    done, half = (trial(0), trial(1000))
    for name, owned in (("aaaaaaaa", done), ("bbbbbbbb", half)):
        store.checkpoint(name).save({}, {"owner": {**OWNER, "trials": [owned.digest]}})
    store.checkpoint("cccccccc").save({}, {})
    (store.root / "checkpoints" / "dddddddd.safetensors").write_bytes(b"broken")
    dead = store.root / "tmp" / f"stairwise-{'0' * 12}-1-00000000"
    dead.mkdir()
    os.utime(dead, (0, 0))
    found = litter(store)
    assert sorted(each.path.stem for each in found) == sorted(["aaaaaaaa", "cccccccc", "dddddddd", dead.name])
    clean(found)
    assert [path.stem for path in (store.root / "checkpoints").iterdir()] == ["bbbbbbbb"]
    assert not dead.exists()
    assert len(store.trials()) == COUNT


def test_tidying_keeps_the_checkpoint_of_a_failed_or_damaged_trial_that_is_run_again(store):
    failed, damaged = trial(2000), trial(0)
    store.write(failed, Outcome("failed", message="no room"), MAKING)
    (store.read(damaged).path / "metrics.parquet").write_bytes(b"broken")
    for name, owned in (("aaaaaaaa", failed), ("bbbbbbbb", damaged)):
        store.checkpoint(name).save({}, {"owner": {**OWNER, "trials": [trial(1).digest, owned.digest]}})
    assert litter(store) == []


def test_tidying_keeps_the_checkpoint_of_a_process_that_is_at_work_on_a_stored_trial(store):
    store.checkpoint("aaaaaaaa").save({}, {"owner": {**OWNER, "trials": [trial(0).digest], "process": scratch_name()}})
    assert litter(store) == []
    ended = f"{scratch_name().rsplit('-', 2)[0]}-999999999-00000000"
    store.checkpoint("aaaaaaaa").save({}, {"owner": {**OWNER, "trials": [trial(0).digest], "process": ended}})
    assert [each.path.stem for each in litter(store)] == ["aaaaaaaa"]


def test_foreign_files_among_the_checkpoints_are_named_and_left_alone(store, capsys):
    folder = store.root / "checkpoints"
    store.checkpoint("aaaaaaaa").save({}, {})
    (folder / "notes.safetensors").write_text("mine")
    (folder / "notes.txt").write_text("mine")
    os.mkfifo(folder / "bbbbbbbb.safetensors")  # reading it would block
    assert [path.name for path in foreign(store)] == ["bbbbbbbb.safetensors", "notes.safetensors", "notes.txt"]
    assert main(["gc", "--yes", "--store", str(store.root)]) == 0
    assert "checkpoints/notes.safetensors: not a checkpoint, left alone" in capsys.readouterr().out
    assert sorted(path.name for path in folder.iterdir()) == ["bbbbbbbb.safetensors", "notes.safetensors", "notes.txt"]
