"""Facts about the record: what is published comes back, is never changed, and is read by commands as a store is."""

import hashlib
import json
import random
import shutil
from dataclasses import replace

import numpy as np
import pytest

import stairwise as sw
from stairwise.cli import main
from stairwise.config import ConfigError
from stairwise.lab import api, registry
from stairwise.lab.contract import plots
from stairwise.lab.contract.checks import at_least
from stairwise.lab.contract.claims import Ledger
from stairwise.lab.contract.experiment import Figure
from stairwise.lab.ledger.verify import verify
from stairwise.lab.store.files import Damaged, Newer
from stairwise.record import again, archive, published

SMALL = {"task.length": 6, "steps": 20, "measure_every": 10, "test_examples": 16}
EXPERIMENT = "selection/online"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    store = tmp_path_factory.mktemp("store")
    return store, sw.run(EXPERIMENT, "quick", 2, SMALL, store=str(store))


@pytest.fixture
def measurements(tmp_path, monkeypatch):
    monkeypatch.setattr(published, "MEASUREMENTS", tmp_path / "measurements")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "measurements"


def publish(run, measurements, **more):
    store, _ = run
    return published.add(EXPERIMENT, "quick", seeds=2, store=str(store), changes=SMALL, to=measurements, **more)


def test_every_measurement_comes_back_to_single_precision_with_its_trial(run, measurements):
    publish(run, measurements, arrays="all")
    back = {record.digest: record for record in sw.published(EXPERIMENT).records}
    for record in run[1].records:
        there = back.pop(record.digest)
        assert (there.seed, there.arm, there.status, there.config) == (
            record.seed,
            record.arm,
            record.status,
            record.config,
        )
        assert there.names() == record.names()
        for name in record.names():
            steps, values = record.series(name)
            again, found = there.series(name)
            assert (steps == again).all()
            np.testing.assert_array_equal(values.astype(np.float32), found.astype(np.float32))
        for name in record.arrays():
            np.testing.assert_allclose(there.array(name), record.array(name), rtol=1e-3, atol=1e-4)
    assert not back


def test_published_trials_come_in_the_order_of_the_preset(run, measurements):
    publish(run, measurements)
    assert [record.digest for record in sw.published(EXPERIMENT).records] == [
        trial.digest for trial in run[1].experiment.trials("quick", [0, 1], SMALL)
    ]


def test_of_several_published_presets_that_which_is_judged_is_taken_unless_another_is_asked_for(tmp_path, monkeypatch):
    for name in ("parity_cot/theorem3", "selection/online"):  # the others need not be unpacked
        shutil.copytree(published.MEASUREMENTS / name, tmp_path / "record" / name)
    monkeypatch.setattr(published, "MEASUREMENTS", tmp_path / "record")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    sizes = {
        preset: {r.config.task.bits for r in sw.published("parity_cot/theorem3", preset).records}
        for preset in (None, "quick")
    }
    assert sizes == {None: {20, 100}, "quick": {12}}
    batches = {
        preset: {r.config.batch for r in sw.published("selection/online", preset).records} for preset in (None, "paper")
    }
    assert batches == {None: {128}, "paper": {256}}


def test_large_arrays_are_those_of_the_first_seed_of_every_arm_unless_more_are_asked_for(
    run, measurements, monkeypatch
):
    monkeypatch.setattr(archive, "SMALL", 50)
    publish(run, measurements)
    made = {record.digest: record for record in run[1].records}
    for record in sw.published(EXPERIMENT).records:
        whole = made[record.digest]
        small = [name for name in whole.arrays() if whole.array(name).size <= 50]
        assert 0 < len(small) < len(whole.arrays())
        assert record.arrays() == (whole.arrays() if record.seed == 0 else small)
        assert record.bare() == (record.seed != 0)
        for name in small:
            np.testing.assert_array_equal(record.array(name), whole.array(name), strict=True)


def test_files_whose_arrays_were_not_compressed_are_read_as_before(run, measurements):
    path = publish(run, measurements, arrays="all")
    packed = archive.beside(path)
    plain = archive.unpacked(packed.read_bytes())
    wanted = contents(path)[2]
    digests = archive.about(path).digests | {"arrays": hashlib.sha256(plain).hexdigest()}
    packed.unlink()
    path.with_suffix(archive.PLAIN).write_bytes(plain)
    found = archive.outcomes(path, replace(archive.about(path), digests=digests))
    assert [{name: each.tobytes() for name, each in made.arrays.items()} for made, _ in found] == wanted


def test_what_is_published_is_added_to_and_never_changed(run, measurements):
    first = publish(run, measurements)
    before = first.read_bytes()
    second = publish(run, measurements, note="once more")
    assert (first.name, second.name) == ("quick-1.parquet", "quick-2.parquet")
    assert first.read_bytes() == before
    assert [entry["note"] for entry in published.listed()] == ["", "once more"]


def test_publishing_the_same_measurements_again_writes_nothing(run, measurements):
    first = publish(run, measurements)
    before = {path: path.stat().st_mtime_ns for path in measurements.rglob("*")}
    assert publish(run, measurements) == first
    assert {path: path.stat().st_mtime_ns for path in measurements.rglob("*")} == before
    assert publish(run, measurements, arrays="all").stem == "quick-2"  # more than before
    first.unlink()
    assert publish(run, measurements).stem == "quick-3"  # and never over one that is there


def test_published_trials_are_not_called_made_by_other_code_and_say_where_they_come_from(run, measurements):
    publish(run, measurements)
    result = sw.published(EXPERIMENT)
    assert result.stale == 0
    assert {record.run["published"]["run"] for record in result.records} == {f"{EXPERIMENT}/quick-1"}


def test_a_preset_of_which_a_trial_is_missing_is_not_published(run, measurements):
    store, _ = run
    with pytest.raises(ConfigError, match="trials are not in the store"):
        published.add(EXPERIMENT, "quick", store=str(store), changes=SMALL, to=measurements)
    assert not measurements.exists()


def test_commands_read_what_is_published(run, measurements, capsys):
    publish(run, measurements)
    assert main(["query", "--published", "--json", "select count(*) as n from trials"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"n": len(run[1].records)}]
    assert main(["runs", "--published", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["experiment"] == EXPERIMENT
    assert main(["record", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["trials"] == len(run[1].records)


def test_a_claim_that_reads_arrays_which_are_not_published_is_skipped_and_says_so(run, measurements, monkeypatch):
    publish(run, measurements)

    def reads_arrays(records):
        yield at_least("largest weight", float(max(record.array("train/W").max() for record in records)), 0.0)

    ledger = Ledger()
    ledger.empirical("arrays", experiment="online", statement="ours", says="weights are there")(reads_arrays)
    trials = registry.experiment(EXPERIMENT).trials("quick", [0, 1], SMALL)
    monkeypatch.setattr(registry, "claims", lambda targets: [(replace(ledger.claims[0], paper="selection"), True)])
    monkeypatch.setattr("stairwise.lab.ledger.verify._trials", lambda claim, sizes, preset: trials)
    (row,) = verify(["selection/arrays"], store=published.store())
    bare = len(run[1].records) - len({record.arm for record in run[1].records})
    assert row.verdict.status == "skipped"
    assert f"it reads arrays, and {bare} of {len(run[1].records)} trials are published without" in row.verdict.note


def test_a_figure_of_arrays_is_drawn_from_the_trials_that_have_them_and_says_how_many(run, measurements):
    def of_arrays(records):
        drawn, axes = plots.subplots()
        axes.plot([record.array("train/W").max() for record in records])
        return drawn

    figure = Figure("arrays", "the largest weight", of_arrays, paper="selection")
    publish(run, measurements)
    records = sw.published(EXPERIMENT).records
    words = api.draw(figure, records).legends[0].get_title().get_text()
    assert words == f"2 of {len(records)} trials; the others are published without their arrays"
    bare = [record for record in records if record.bare()]
    with pytest.raises(ConfigError, match="arrays reads arrays that are not published"):
        api.draw(figure, bare)


@pytest.mark.parametrize("flag", [["--run"], ["--store", "elsewhere"], ["--fresh"]])
def test_what_would_write_is_refused_with_published(measurements, capsys, flag):
    assert main(["figure", "selection/fig2", "--published", *flag]) == 2
    assert f"{flag[0]} cannot go with it" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["nopaper", "selection/nothing", "../../..", "selection/..", "", "/", "selection/"])
def test_the_record_of_what_does_not_exist_is_refused_and_no_name_leads_out_of_it(run, measurements, capsys, name):
    publish(run, measurements)
    (measurements.parent / "other.parquet").write_bytes(b"not ours")
    assert main(["record", "list", name]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert "unknown" in said.err or "target=" in said.err


def test_of_what_is_not_published_the_list_says_so(run, measurements, capsys):
    publish(run, measurements)
    assert main(["record", "list", "lego"]) == 0
    assert capsys.readouterr().out == "nothing is published of lego\n"


def test_an_experiment_that_is_not_published_is_named_with_those_that_are(run, measurements):
    publish(run, measurements)
    with pytest.raises(ConfigError, match=r"lego/length is not in the record \(which has selection/online\)"):
        sw.published("lego/length")


def test_a_damaged_file_of_the_record_is_one_line(run, measurements):
    path = publish(run, measurements)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(Damaged, match="not a file of the record"):
        archive.about(path)


def test_a_published_trial_is_run_again_and_found_equal_unlike_that_of_another_seed(run, measurements, capsys):
    publish(run, measurements)
    assert main(["record", "check", EXPERIMENT, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["equal"] == found["metrics"] == len(run[1].records[0].names())
    there = again.cheapest(registry.experiment(EXPERIMENT))
    other = next(record for record in run[1].records if record.arm == there.arm and record.seed != there.seed)
    assert max(each.largest for each in again.differences(there, other)) > 0.01


@pytest.mark.parametrize(
    ("words", "line"), [(["nobody"], "target=nobody must"), (["--seconds", "0"], "seconds=0 must")]
)
def test_a_check_of_what_is_not_published_is_refused(run, measurements, capsys, words, line):
    publish(run, measurements)
    assert main(["record", "check", *words]) == 2
    assert line in capsys.readouterr().err


@pytest.fixture(scope="module")
def whole(run, tmp_path_factory):
    """A published run, and what it holds."""
    path = publish(run, tmp_path_factory.mktemp("whole"), arrays="all")
    return path, contents(path)


def contents(path):
    """All that is read of a file of the record, NaN being NaN."""
    run = archive.about(path)
    found = archive.outcomes(path, run)
    told = [(made.status, repr(measured.to_pydict())) for made, measured in found]
    arrays = [{name: each.tobytes() for name, each in made.arrays.items()} for made, _ in found]
    return run, told, arrays


@pytest.mark.parametrize("suffix", [".parquet", archive.PACKED])
def test_no_bit_of_a_file_of_the_record_changes_what_is_read_of_it(whole, tmp_path, suffix):
    source, wanted = whole
    for each in (".parquet", archive.PACKED):
        (tmp_path / f"quick-1{each}").write_bytes(source.with_suffix(each).read_bytes())
    path, draws, refused = tmp_path / f"quick-1{suffix}", random.Random(suffix), 0
    data = path.read_bytes()
    places = [draws.randrange(len(data)) for _ in range(120)]
    for place in places:
        path.write_bytes(data[:place] + bytes([data[place] ^ 1 << draws.randrange(8)]) + data[place + 1 :])
        try:
            assert contents(tmp_path / "quick-1.parquet") == wanted, place  # a bit that nothing depends on
        except Damaged as damage:
            refused += "quick-1." in damage.reason
    assert refused > (119 if suffix == archive.PACKED else 60)
    path.write_bytes(data)
    assert contents(tmp_path / "quick-1.parquet") == wanted


@pytest.mark.parametrize("words", [["query", "select 1"], ["runs"], ["figure", "selection/fig2"]], ids=lambda w: w[0])
def test_commands_name_a_file_of_the_record_whose_numbers_were_altered(run, measurements, capsys, words):
    path = publish(run, measurements)
    beside = archive.beside(path)
    data = beside.read_bytes()
    beside.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert main([*words, "--published"]) == 1
    assert capsys.readouterr().err == f"stairwise: {path.parent} is damaged: quick-1.safetensors.gz: digest differs\n"
    beside.unlink()
    assert main([*words, "--published"]) == 1
    assert capsys.readouterr().err.endswith("is damaged: quick-1.safetensors.gz is missing\n")
    assert not list(measurements.parent.glob("cache/stairwise/published/*"))


@pytest.mark.parametrize("name", ["config.json", "metrics.parquet", "arrays.safetensors", "run.json"])
def test_what_was_unpacked_and_altered_is_unpacked_anew_and_that_is_said(run, measurements, capsys, caplog, name):
    publish(run, measurements, arrays="all")
    ask = [
        "query",
        "--published",
        "--json",
        "select digest, sum(value) as total from metrics group by all order by all",
    ]
    assert main(ask) == 0
    wanted = capsys.readouterr().out
    first = min((measurements.parent / "cache").rglob(name))
    data = first.read_bytes()
    first.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])
    assert main(ask) == 0
    assert capsys.readouterr().out == wanted
    assert f"{first.parent} is damaged; the record is unpacked anew" in caplog.text
    assert first.read_bytes() == data


def unpacked(measurements):
    """What lies in the store that the record is unpacked into, by file."""
    root = published.store().root
    found = {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("trials/*/*/*/*"))}
    shutil.rmtree(root)
    return found


def test_several_processes_unpack_what_one_does_and_of_a_trial_published_twice_the_last(run, measurements, monkeypatch):
    publish(run, measurements)
    once = unpacked(measurements)
    publish(run, measurements, note="once more")
    wanted = unpacked(measurements)
    assert wanted != once
    monkeypatch.setattr(published, "LARGEST_SEGMENT", 1)
    monkeypatch.setattr(published.os, "cpu_count", lambda: 2)
    assert unpacked(measurements) == wanted
    assert [json.loads(each)["published"]["run"] for name, each in wanted.items() if name.endswith("run.json")] == [
        f"{EXPERIMENT}/quick-2"
    ] * len(run[1].records)


def test_trials_entered_while_they_are_unpacked_are_those_that_are_read(run, measurements, monkeypatch):
    publish(run, measurements)
    monkeypatch.setattr(published, "WORTH_WRITING", 1)
    store = published.store()
    assert store.index().missing() == []
    entered, read = store.glance(), store.trials()
    assert len(entered) == len(run[1].records)
    for known, found in zip(entered, read, strict=True):
        assert (known.config_dict, known.run, known.digest) == (found.config_dict, found.run, found.digest)
    (segment,) = store.index().segments
    (metrics,) = store.index().tables()["metrics"]
    rows = metrics.to_table().to_pylist()
    wanted = [row for record in read for row in record.table().to_pylist()]
    assert sorted(map(repr, rows)) == sorted(repr({name: row[name] for name in rows[0]}) for row in wanted)
    assert [segment.row(segment.lines[f"{EXPERIMENT}/{record.digest}"])["final"] for record in read] == [
        record.finals() for record in read
    ]


def test_a_file_of_a_newer_format_is_not_called_damaged(run, measurements, monkeypatch):
    monkeypatch.setattr(archive, "FORMAT", 2)
    path = publish(run, measurements)
    monkeypatch.undo()
    with pytest.raises(Newer, match="was written by a newer version of Stairwise"):
        archive.about(path)


def test_the_record_stays_small(run, measurements, monkeypatch):
    monkeypatch.setattr(published, "MOST_METRICS", 100)
    with pytest.raises(ConfigError, match="bytes must be at most 100"):
        publish(run, measurements)


def test_what_is_published_with_the_package_can_be_read():
    for path in published.files():
        run = archive.about(path)
        assert len(archive.outcomes(path, run)) == len(run.trials) > 0
    assert sum(path.stat().st_size for path in published.files()) < published.MOST_METRICS
