"""`--config run.toml`: what a run wrote into its record runs the same trials again, and a bad file is one line."""

import json
from importlib.metadata import EntryPoint

import pytest

from stairwise.cli import main
from stairwise.lab import registry
from stairwise.lab.contract import manifest
from stairwise.lab.store.store import Store
from tests.lab import walking


@pytest.fixture(autouse=True)
def _only_walking(monkeypatch):
    monkeypatch.setattr(manifest, "built_in", list)
    found = [EntryPoint("walking", f"{walking.__name__}:PAPER", manifest.GROUP)]
    monkeypatch.setattr(manifest, "plug_ins", lambda: found)
    monkeypatch.setattr(registry, "plug_ins", lambda: registry.PlugIns({"walking": walking.__name__}, {}, {}))


def call(capsys, *words):
    status = main([str(word) for word in words])
    out, err = capsys.readouterr()
    return status, out, err


def digests(capsys, *words):
    status, out, err = call(capsys, *words, "--json")
    assert status == 0, err
    return [trial["digest"] for trial in json.loads(out)["trials"]]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("run", ["--seeds", "3,5", "--rate", "0.25", "--steps", "20"]),
        ("sweep", ["--grid", "rate=0.1,0.4", "shift=0:1:0.5", "--seeds", "2", "--steps", "20"]),
    ],
)
def test_the_settings_of_a_record_run_the_same_trials_again(tmp_path, capsys, command, words):
    first, again = tmp_path / "first", tmp_path / "again"
    made = digests(capsys, command, "walking/census", *words, "--store", first)
    (run,) = Store.open(first).runs()
    status, text, _ = call(capsys, "show", run.id, "--config", "--store", first)
    (tmp_path / "run.toml").write_text(text)
    assert (status, text) == (0, run.record["settings"])
    assert digests(capsys, command, "--config", tmp_path / "run.toml", "--store", again) == made
    (second,) = Store.open(again).runs()
    assert second.record["settings"] == text
    changed = digests(capsys, command, "--config", tmp_path / "run.toml", "--steps", "30", "--store", again)
    assert len(changed) == len(made)
    assert not set(changed) & set(made)  # a flag beside the file comes first


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("experiment = 3", "experiment=3 must be text"),
        ("preset = 'quick'", "experiment must be named, as PAPER/EXPERIMENT"),
        (
            "experiment = 'walking/census'\nsteps = 3",
            "unknown key steps (keys: experiment, preset, seeds, model, fields, grid)",
        ),
        ("experiment = 'walking/census'\n[fields]\nstepz = 3", "unknown field stepz; did you mean steps?"),
        ("experiment = 'walking/census'\n[fields]\nsteps = 'many'", "steps=many must be a whole number"),
        ("experiment = 'walking/census'\n[fields]\nrate = -1.0", "rate=-1.0 must"),
        ("experiment = 'walking/census'\nseeds = 'two'", "seeds=two must be a whole number, or a list of them"),
        ("experiment = 'walking/census'\nseeds = [0.5]", "seeds=[0.5] must be whole numbers"),
        ("experiment = 'walking/census'\npreset = 'big'", "preset=big must be one of"),
        ("experiment = 'walking/census'\n[grid]\nrate = 'x'", "a grid is for stairwise sweep --config"),
        ("experiment = 'walking/run'", "unknown experiment"),
        ("experiment =", "it must be TOML"),
    ],
)
def test_a_bad_file_is_one_line_that_names_it(tmp_path, capsys, text, line):
    (tmp_path / "run.toml").write_text(text)
    status, out, err = call(capsys, "run", "--config", tmp_path / "run.toml", "--store", tmp_path / "store")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert f"{tmp_path / 'run.toml'}: " in err
    assert line in err
    assert not (tmp_path / "store").exists()


def test_a_file_that_is_none_and_another_experiment_than_the_file_has_are_refused(tmp_path, capsys):
    status, _, err = call(capsys, "run", "--config", tmp_path / "none.toml")
    assert (status, err) == (2, f"stairwise: cannot read {tmp_path / 'none.toml'}: No such file or directory\n")
    (tmp_path / "run.toml").write_text("experiment = 'walking/census'")
    status, _, err = call(capsys, "run", "walking/walk", "--config", tmp_path / "run.toml")
    assert (status, "experiment=walking/census must be walking/walk" in err) == (2, True)


def test_trials_are_listed_with_the_fields_that_vary(tmp_path, capsys):
    call(
        capsys,
        "sweep",
        "walking/census",
        "--grid",
        "rate=0.1,0.4",
        "--seeds",
        "1",
        "--steps",
        "20",
        "--store",
        tmp_path,
    )
    status, out, _ = call(capsys, "runs", "--trials", "--json", "--store", tmp_path)
    assert status == 0
    assert sorted(trial["varied"]["rate"] for trial in json.loads(out)) == [0.1, 0.4]
    assert all(trial["varied"].keys() == {"rate"} for trial in json.loads(out))
    _, out, _ = call(capsys, "runs", "--trials", "--store", tmp_path)
    assert "fields that vary" in out
    assert "--rate 0.4" in out
