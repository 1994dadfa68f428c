"""The command line: bad input is one line and nothing else; listing is quick and never imports JAX."""

import dataclasses
import json
import shlex
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stairwise.cli import main
from stairwise.config import leaves
from stairwise.lab import registry
from stairwise.lab.contract.checks import at_most, row

QUICK = {
    experiment.name: experiment.presets["quick"].config
    for paper in registry.papers()
    for experiment in paper.experiments
}
FIELDS = sorted({field.path for config in QUICK.values() for field in leaves(config)})


@pytest.fixture(autouse=True, scope="module")
def nothing_is_traced():
    """A dry run traces its programs to weigh them: too slow for hundreds of configs, and tested elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stairwise.lab.run.estimate.trial_bytes", lambda trial: None)
        yield


def call(capsys, *arguments):
    status = main(list(arguments))
    out, err = capsys.readouterr()
    return status, out, err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "selection/online", "--task.sparsity", "300"], ["sparsity=300", "at most length=24"]),
        (["run", "selection/online", "--task.length", "-5"], ["task.length=-5", "at least 2"]),
        (["run", "selection/online", "--task.length", "ten"], ["task.length=ten", "whole number"]),
        (["run", "selection/online", "--task.lenght", "5"], ["task.lenght", "did you mean --task.length"]),
        (["run", "selection/online", "--learning_rate", "nan"], ["learning_rate=nan", "above 0"]),
        (["run", "selection/online", "--optimizer", "lion"], ["optimizer=lion", "sgd, adam"]),
        (["run", "selection/online", "--train_value", "maybe"], ["train_value=maybe", "true or false"]),
        (["run", "selection/online", "--test_lengths", "30,x"], ["test_lengths=30,x", "whole numbers"]),
        (["run", "selection/online", "--encoding.width", "2"], ["encoding.width=2", "at least the largest sparsity"]),
        (["run", "selection/nothing"], ["unknown experiment", "nothing", "online"]),
        (["run", "nowhere/online"], ["unknown paper", "nowhere", "selection"]),
        (["run", "online"], ["online", "PAPER/EXPERIMENT"]),
        (["run", "lego"], ["PAPER/EXPERIMENT, for example lego/", "stairwise list lego"]),
        (["report", "--port", "8001"], ["--port is for --serve"]),
        (["cite", "selektion"], ["unknown paper: selektion", "did you mean selection?"]),
        (["run", "selection/online", "--preset", "huge"], ["preset=huge", "quick, gpu, paper"]),
        (["run", "selection/online", "--seeds", "0"], ["seeds=0", "1..1000000"]),
        (["run", "selection/online", "--group", "0"], ["group=0", "1..65536"]),
        (["run", "selection/online", "--task.length"], ["--task.length needs a value"]),
        (["run", "selection/online", "--port", "80"], ["--port needs --live"]),
        (["sweep", "selection/online", "--grid", "batch=8", "--no-open"], ["--no-open needs --live"]),
        (["run", "selection/online", "--live", "--port", "70000"], ["port=70000", "0..65535"]),
        (["run", "selection/online", "--log", "paper"], ["log=paper", "tensorboard, wandb, csv"]),
        (["sweep", "selection/online", "--grid", "batch=8", "--log-to", "x"], ["--log-to needs --log"]),
        (["sweep", "selection/online"], ["needs a grid", "--grid"]),
        (["sweep", "selection/online", "--grid", "lr=1,2"], ["grid: unknown field lr", "fields:"]),
        (["sweep", "selection/online", "--grid", "learning_rate=fast"], ["learning_rate=fast", "a number"]),
        (["sweep", "selection/online", "--grid", "task.length=8,x"], ["task.length=x", "whole number"]),
        (["sweep", "selection/online", "--grid", "learning_rate=-1,1"], ["learning_rate=-1.0", "above 0"]),
        (["sweep", "selection/online", "--grid", "learning_rate="], ["learning_rate has no values"]),
        (["sweep", "selection/online", "--grid", "learning_rate=3:1:1"], ["3:1:1", "no values"]),
        (["sweep", "selection/online", "--grid", "learning_rate=1:2:0"], ["1:2:0", "step"]),
        (["sweep", "selection/online", "--grid", "learning_rate=1:2"], ["1:2", "first:last:step"]),
        (["sweep", "selection/online", "--grid", "learning_rate"], ["'learning_rate'", "field=v1,v2"]),
        (["sweep", "selection/online", "--grid", "batch=1:100000:1", "steps=1:900:1"], ["540000000", "1000000"]),
        (["sweep", "selection/online", "--grid", "batch=1,2", "--batch", "4"], ["batch", "both"]),
        (["sweep", "selection/online", "--grid", "batch=8", "--best", "up:loss"], ["best=up:loss", "max:METRIC"]),
        (["sweep", "selection/online", "--grid", "batch=8", "--group", "0"], ["group=0", "1..65536"]),
        (["sweep", "selection/online", "--grid", "batch=8", "--writer", "me"], ["writer=me", "workers, client"]),
        (["sweep", "selection/online", "--grid", "batch=8", "--writer", "me", "--dry-run"], ["writer=me"]),
        (["sweep", "selection/online", "--grid", "batch=8", "--cluster", "cloud"], ["cluster=cloud", "local:N"]),
        (["sweep", "selection/online", "--grid", "batch=8", "--cluster", "slurm"], ["--cluster-config"]),
        (
            [
                "sweep",
                "selection/online",
                "--grid",
                "batch=8",
                "--cluster",
                "tcp://127.0.0.1:9",
                "--cluster-timeout",
                "1",
            ],
            ["no scheduler answers at tcp://127.0.0.1:9 within 1 s"],
        ),
        (["runs", "--since", "yesterday"], ["since=yesterday", "a date"]),
        (["runs", "--where", "rate"], ["where=rate", "field=value"]),
        (["query", "selekt 1"], ["query:", "syntax error"]),
        (["query", "select * from read_csv('/etc/hostname')"], ["query:", "disabled"]),
        (["verify", "selection/thm99"], ["unknown claim", "thm99"]),
        (["verify", "--tier", "weeks"], ["tier=weeks", "instant, minutes, gpu"]),
        (["verify", "selection/thm3.5", "--task.length", "1"], ["task.length=1", "at least 2"]),
        (["verify", "selection/thm3.5", "--nothing", "1"], ["nothing", "fields:"]),
        (["verify", "--seed", "-1"], ["seed=-1", "0..4294967295"]),
        (["figure", "selection/fig99"], ["unknown figure", "fig99"]),
        (["figure", "selection/fig2"], ["not in the store", "--run"]),
        (["figure", "selection/fig2", "-o", "x.gif"], ["x.gif", ".pdf, .svg or .png"]),
        (["figure", "selection/fig2", "-o", "none/x.pdf"], ["none/x.pdf", "folder that exists"]),
        (["show", "feedbeef"], ["feedbeef"]),
        (["run", "selection/online", "--seeds", "1", "--seeds=2"], ["--seeds is given twice"]),
        (["run", "selection/online", "--batch", "1", "--batch", "2"], ["--batch is given twice: 1 and 2"]),
        (["figure", "selection/fig2", "-o", "a.pdf", "--out", "b.pdf"], ["--out is given twice"]),
        (["figure", "selection/fig2", "-oa.pdf", "-ob.pdf"], ["-o is given twice"]),
        (["data", "lego", "-n", "1", "--cot", "--no-cot"], ["--no-cot is given twice"]),
        (["run", "selection/online", "--group=--"], ["--group needs a value"]),
        (
            ["reproduce", "--out", "/dev/null/report"],
            ["cannot write the report to /dev/null/report", "Not a directory"],
        ),
        (["report", "--out", "/dev/null/x"], ["cannot write the report to /dev/null/x", "Not a directory"]),
        (["show", "feed\0beef"], ["feed?beef", "NUL"]),
        (["figure", "selection/fig2", "-o", f"{'a/' * 3000}x.pdf"], ["out=a/a/", "a folder that exists"]),
        (["new-paper", "fresh", "--into", "a" * 5000], ["cannot write aaa", "aaa: File name too long"]),
        (["verify", "selection/thm3.5", "--task.length", "1,0"], ["task.length=1", "at least 2"]),
        (["dance"], ["unknown command", "dance", "run"]),
        (["--dance"], ["unknown option", "--dance"]),
    ],
)
def test_bad_input_is_one_line_that_names_field_value_and_range(capsys, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    status, out, err = call(capsys, *arguments)
    assert status == 2
    assert out == ""
    assert err.count("\n") == 1
    for word in words:
        assert word in err
    assert list(tmp_path.iterdir()) == []


def test_options_that_gather_values_may_be_repeated(capsys, tmp_path):
    grid = ["--grid", "batch=1,2", "--grid", "learning_rate=0.1,0.2"]
    words = ["--steps", "2", "--dry-run", "--json", "--store", str(tmp_path / "none")]
    status, out, _ = call(capsys, "sweep", "selection/online", *grid, *words)
    assert status == 0
    assert set(json.loads(out)["grid"]) == {"batch", "learning_rate"}


def test_closed_streams_are_one_line_or_none(tmp_path):
    command = [sys.executable, "-m", "stairwise", "data", "lego", "-n", "1"]
    closed = subprocess.run(f"exec {shlex.join(command)} >&-", shell=True, stderr=subprocess.PIPE, text=True)
    assert (closed.returncode, closed.stderr.count("\n")) == (2, 1)
    assert closed.stderr.startswith("stairwise: standard output is closed")
    silent = subprocess.run(f"exec {shlex.join(command)} 2>&-", shell=True, stdout=subprocess.PIPE, text=True)
    assert (silent.returncode, silent.stdout.count("\n")) == (0, 1)


def test_an_unwritable_store_is_one_line(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    status, out, err = call(capsys, "run", "selection/online", "--store", str(tmp_path / "file" / "store"))
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert str(tmp_path / "file" / "store") in err


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
values = st.one_of(
    texts,
    st.integers(-(10**25), 10**25).map(str),
    st.floats().map(str),
    st.sampled_from(["", ",", "1,2", "1e400", "2**99", "2**-1", "--", "-1", "true", "None", "0x10", "１"]),
)


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(st.sampled_from(sorted(QUICK)), st.dictionaries(st.one_of(st.sampled_from(FIELDS), texts), values, max_size=3))
def test_any_config_is_either_planned_or_refused_in_one_line(tmp_path_factory, target, fields):
    assert_one_line_at_most(["run", target, "--dry-run", "--store", "/nonexistent/store"], fields, {0, 2})


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from([claim.name for paper in registry.papers() for claim in paper.claims]),
    st.dictionaries(
        st.one_of(st.sampled_from(["task.length", "task.sparsity", "task.width"]), texts), values, max_size=2
    ),
)
def test_any_sizes_of_a_claim_are_either_accepted_or_refused_in_one_line(target, fields):
    assert_one_line_at_most(["verify", target, "--dry-run", "--store", "/nonexistent/store"], fields, {0, 2})


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["show", "figure", "runs", "diff", "run", "verify"]), st.lists(texts, min_size=1, max_size=2))
def test_any_name_is_refused_in_one_line(command, names):
    names = [name for name in names if not name.startswith("-")]
    assert_one_line_at_most([command, *names, "--store", "/nonexistent/store"], {}, {0, 2})


def assert_one_line_at_most(arguments, fields, statuses):
    import contextlib
    import io

    words = [word for path, value in fields.items() for word in (f"--{path}={value}",) if "=" not in path]
    out, err = io.StringIO(), io.StringIO()
    refused_by_argparse = contextlib.suppress(SystemExit)  # a missing or surplus positional
    with refused_by_argparse, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main([*arguments, *words])
        assert status in statuses
        assert err.getvalue().count("\n") == (1 if status else 0)
        assert "Traceback" not in err.getvalue()


LISTING = [["--help"], ["list"], ["list", "lego"], ["list", "lego", "--claims"], ["list", "--find", "length"]]
LISTING += [["where", "lego", "Lemma", "D.8"]]
LISTING += [["runs"], ["gc"], ["bench", "--help"]]
UNKNOWN = [["run", "selection/onlin"], ["run", "selektion/online"], ["verify", "lego/thm99"], ["figure", "lego/fig99"]]


def listing(arguments, folder, status=0):
    lines = [
        "import sys",
        "from stairwise.cli import main",
        f"try: status = main({arguments!r})",
        "except SystemExit as stopped: status = stopped.code or 0",
        f"assert status == {status} and not {{'jax', 'distributed', 'duckdb'}} & set(sys.modules)",
    ]
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True, cwd=folder, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("arguments", LISTING)
def test_listing_imports_no_jax(arguments, tmp_path):
    listing(arguments, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", UNKNOWN)
def test_an_unknown_name_is_refused_without_jax(arguments, tmp_path):
    listing(arguments, tmp_path, status=2)
    assert list(tmp_path.iterdir()) == []


def test_the_listing_names_everything_that_can_be_run_drawn_or_verified(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("STAIRWISE_STORE", str(tmp_path / "none"))
    status, out, _ = call(capsys, "list", "--json")
    assert status == 0
    papers = {paper["id"]: paper for paper in json.loads(out)["papers"]}
    for paper in registry.papers():
        listed = papers[paper.id]
        assert [claim["id"] for claim in listed["claims"]] == [claim.id for claim in paper.claims]
        assert [experiment["id"] for experiment in listed["experiments"]] == [e.id for e in paper.experiments]
        assert {figure["id"] for figure in listed["figures"]} == {figure.id for figure in paper.figures}
    assert not (tmp_path / "none").exists()


def test_seeds_are_a_number_or_named_one_by_one(capsys):
    sizes = ["selection/online", "--steps", "300", "--dry-run", "--json"]
    for text, count in (("2", 4), ("3,5,8", 6), ("7,", 2)):  # two arms each
        assert main(["run", *sizes, "--seeds", text]) == 0
        assert json.loads(capsys.readouterr().out)["trials"] == count
    for text, words in (("3,x", "several (3,5,8)"), (",", "several"), ("3,-5", "seed=-5 must lie in"), ("0", "1..")):
        assert main(["run", *sizes, "--seeds", text]) == 2
        assert words in capsys.readouterr().err


def test_every_experiment_has_a_quick_and_a_gpu_preset_and_its_figures_a_home():
    for paper in registry.papers():
        for experiment in paper.experiments:
            assert {"quick", "gpu"} <= set(experiment.presets) <= {"quick", "gpu", "paper"}
            assert experiment.figures
            assert experiment.study or experiment.presets["gpu"].seeds >= 5
        assert any(figure.headline for figure in paper.figures)


# --- verify -----------------------------------------------------------------------------------------------------------


def test_of_a_list_only_the_combinations_that_cannot_be_are_refused(capsys, tmp_path):
    sizes = ["--task.length", "1,8", "--task.sparsity", "2,9"]
    status, out, err = call(
        capsys, "verify", "selection/thm3.5", *sizes, "--dry-run", "--json", "--store", str(tmp_path / "none")
    )
    rows = {(row["sizes"]["task.length"], row["sizes"]["task.sparsity"]): row["note"] for row in json.loads(out)}
    assert (status, err) == (0, "")
    assert rows.pop((8, 2)) == ""
    assert len(rows) == 3
    assert all(note.startswith("refused: ") for note in rows.values())
    assert "sparsity=9" in rows["8", "9"]


def test_a_list_of_words_is_split_but_not_a_table_of_an_action(capsys, tmp_path):
    words = ["--action", "C3,[[0,1],[1,0]],S3", "--dry-run", "--json", "--store", str(tmp_path / "none")]
    status, out, _ = call(capsys, "verify", "lego/critical-length", *words)
    assert status == 0
    assert [row["sizes"]["action"] for row in json.loads(out)] == ["C3", "[[0,1],[1,0]]", "S3"]


def test_a_refused_combination_is_a_row_that_says_why(capsys, tmp_path):
    sizes = ["--task.length", "1,8", "--task.sparsity", "2", "--task.width", "2"]
    status, out, _ = call(capsys, "verify", "selection/thm3.5", *sizes, "--json", "--store", str(tmp_path / "store"))
    refused, checked = json.loads(out)
    assert status == 0
    assert (refused["status"], refused["note"]) == (
        "skipped",
        "refused: task.length=1 must be at least 2 and at most 1048576",
    )
    assert checked["status"] == "holds"


def test_verdicts_with_nan_infinity_and_numpy_integers_are_strict_json(capsys, monkeypatch, tmp_path):
    def check(config, seed):
        yield at_most("gap", float("nan"), float("inf"))
        yield row({"length": np.int64(3), "gap": float("inf"), "slope": np.float32("nan")})

    claim, _ = registry.claims(["selection/thm3.5"])[0]
    claim = dataclasses.replace(claim, check=check, cases=claim.cases[:1], seeds=1)
    monkeypatch.setattr(registry, "claims", lambda names: [(claim, True)])
    status, out, _ = call(capsys, "verify", "selection/thm3.5", "--json", "--store", str(tmp_path / "store"))
    (found,) = json.loads(out, parse_constant=pytest.fail)
    assert (status, found["status"], found["measured"], found["required"]) == (1, "fails", None, None)
    assert found["details"][1] == {"length": 3, "gap": None, "slope": None}
