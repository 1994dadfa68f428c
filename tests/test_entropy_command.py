"""`stairwise entropy` and the claims of Figures 6 and 7, on tiny models that are made on the spot."""

import builtins
import json

import pytest

from stairwise.cli import main
from stairwise.config import ConfigError
from stairwise.lab import registry
from stairwise.papers.parity_cot.config.gsm8k import Figures67
from tests.language import INVENTED, need_transformers, save_tiny_model, write_problems

TEXTS = [f"{question} {answer}" for question, answer in INVENTED]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return str(write_problems(tmp_path_factory.mktemp("data") / "problems.jsonl"))


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Two of one architecture; the second attends more sharply."""
    need_transformers()
    folder = tmp_path_factory.mktemp("models")
    return [str(save_tiny_model(folder / name, TEXTS, scale=scale)) for name, scale in (("soft", 4.0), ("sharp", 12.0))]


def test_the_paper_s_number_stands_beside_its_controls(models, data, capsys):
    assert main(["entropy", "--model", models[0], "--data", data, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["problems"], found["layers"], found["heads"]) == (6, 3, 4)
    rows = {(row["on"], row["reduction"], row["rows"], row["matched"]): row for row in found["comparisons"]}
    trained, random = models[0], f"{models[0]} (random weights)"
    assert {key[0] for key in rows} == {trained, random}
    for name in (trained, random):
        for row in (rows[name, "min", "all", False], rows[name, "min", "all", True], rows[name, "mean", "all", False]):
            assert row["low"] <= row["difference"] <= row["high"]
            assert abs(row["mean of first"] - row["mean of second"] - row["difference"]) < 1e-6
        assert rows[name, "min", "all", False]["mean of first"] <= rows[name, "min", "all", True]["mean of first"]


def test_json_with_a_nan_is_json(models, data, tmp_path, monkeypatch, capsys):
    from stairwise.papers.parity_cot import entropies

    def never(word):
        raise AssertionError(f"{word} is no JSON")

    real = entropies.measure

    def broken(*arguments, **options):
        found = real(*arguments, **options)
        for values in found.values.values():
            values[0] = float("nan")
        return found

    monkeypatch.setattr(entropies, "measure", broken)
    words = ["entropy", "--model", models[0], "--data", data, "--no-baseline", "--limit", "2", "--json"]
    assert main([*words, "--out", str(tmp_path / "a.json")]) == 0
    printed, written = capsys.readouterr().out, (tmp_path / "a.json").read_text()
    for text, shown in ((printed, None), (written, {"$float": "nan"})):  # in a file NaN can be told from infinity
        assert json.loads(text, parse_constant=never)["comparisons"][0]["difference"] == shown


def test_a_model_whose_logits_overflow_is_one_line(data, tmp_path, capsys):
    need_transformers()
    model = str(save_tiny_model(tmp_path / "large", TEXTS, scale=1e25))
    capsys.readouterr()
    assert main(["entropy", "--model", model, "--data", data, "--json"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.splitlines()[-1].endswith("the logits of a short text are not finite")


def test_numbers_and_figure_are_written_whole_and_agree(models, data, tmp_path, capsys):
    import pyarrow.parquet

    command = ["entropy", "--model", models[0], "--data", data, "--no-baseline", "--limit", "3", "--batch", "2"]
    drawn = tmp_path / "heads.png"
    assert main([*command, "--out", str(tmp_path / "a.json"), "--figure", str(drawn), "--layers", "1,3"]) == 0
    assert main([*command, "--out", str(tmp_path / "a.parquet")]) == 0
    assert "min, all" in capsys.readouterr().out
    kept = json.loads((tmp_path / "a.json").read_text())
    table = pyarrow.parquet.read_table(tmp_path / "a.parquet").to_pandas()
    assert len(table) == 2 * 3 * 3 * 4  # conditions, problems, layers, heads
    means = table.groupby(["condition", "layer", "head"])["min, all"].mean()
    for row in kept["heads"]:
        if (row["reduction"], row["rows"], row["matched"]) == ("min", "all", False):
            assert row["layers"][1][2] == pytest.approx(means[row["condition"], 2, 3], rel=1e-5)
    assert drawn.read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "a.parquet", "heads.png"]


def test_options_change_what_is_read(models, data, capsys):
    numbers = {}
    for option in ("--limit=3", "--skip-sink", "--strip-calculator", "--answer-rule=trailing-digits"):
        arguments = ["--data", data, "--no-baseline", "--json", *dict.fromkeys(["--limit=3", option])]
        assert main(["entropy", "--model", models[0], *arguments]) == 0
        row = json.loads(capsys.readouterr().out)["comparisons"][0]
        numbers[option] = (row["mean of first"], row["mean of second"])
    plain = numbers["--limit=3"]
    assert numbers["--skip-sink"] != plain
    assert numbers["--strip-calculator"][0] != plain[0]
    assert numbers["--strip-calculator"][1] == plain[1]
    assert numbers["--answer-rule=trailing-digits"][0] == plain[0]
    assert numbers["--answer-rule=trailing-digits"][1] != plain[1]  # 2,125 has become 125


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--data", "nowhere.jsonl"], ["data=nowhere.jsonl", "file that exists"]),
        (["--data", "empty.jsonl"], ["empty.jsonl holds no records"]),
        (["--data", "bad.jsonl"], ["bad.jsonl: line 2 is not JSON"]),
        (["--data", "good.jsonl", "--limit", "0"], ["limit=0", "1..4294967295"]),
        (["--data", "good.jsonl", "--batch", "-1"], ["batch=-1", "1..4294967295"]),
        (["--data", "good.jsonl", "--out", "x.csv"], ["out=x.csv", ".json or .parquet"]),
        (["--data", "good.jsonl", "--figure", "x.gif"], ["figure=x.gif", ".pdf, .svg or .png"]),
        (["--data", "good.jsonl", "--figure", "no/x.pdf"], ["figure=no/x.pdf", "folder that exists"]),
        (["--data", "good.jsonl", "--limit", str(2**32)], ["limit=4294967296", "1..4294967295"]),
        (["--data", "good.jsonl", "--seed", "-1"], ["seed=-1", "0..4294967295"]),
        (["--data", "good.jsonl", "--layers", "1"], ["layers=1", "no --figure"]),
        (["--data", "good.jsonl", "--figure", "x.pdf", "--layers", "1,x"], ["layers=x", "whole number"]),
        (["--data", "good.jsonl", "--figure", "x.pdf", "--layers", "2,0"], ["layers=0", "at least 1"]),
        (["--data", "good.jsonl", "--figure", "x.pdf", "--layers", "3,1,3"], ["layers=3", "not be repeated"]),
        (["--data", "good.jsonl", "--figure", "x.pdf", "--layers", "9" * 5000], ["layers=999", "whole number"]),
        (["--data", "good.jsonl", "--model", "other", "--model", "any"], ["model=any", "not be repeated"]),
        (["--data", "good.jsonl", "--out", "folder.json"], ["out=folder.json", "must be a file"]),
        (["--data", "good.jsonl", "--out", f"{'x' * 300}.json"], ["out=xxx", "at most 255 bytes"]),
        (["--data", "good.jsonl", "--out", f"{'x/' * 2500}x.json"], ["out=x/x", "folder that exists"]),
        (["--data", "good.jsonl", "--figure", f"{'x/' * 2500}x.pdf"], ["figure=x/x", "folder that exists"]),
        (["--data", "x/" * 2500], ["data=x/x"]),
    ],
)
def test_bad_input_is_one_line_and_needs_no_pytorch(tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    write_problems(tmp_path / "good.jsonl")
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "empty.jsonl").write_text("")
    write_problems(tmp_path / "bad.jsonl", INVENTED[:1]).open("a").write("{nonsense\n")
    refuse_hf(monkeypatch)
    assert main(["entropy", "--model", "any", *arguments]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    for word in words:
        assert word in err


def refuse_hf(monkeypatch):
    original = builtins.__import__

    def refuse(name, *rest, **more):
        if name.partition(".")[0] in ("torch", "transformers"):
            raise ImportError(name)
        return original(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)


def test_without_the_extra_one_line_names_it(data, monkeypatch, capsys):
    refuse_hf(monkeypatch)
    assert main(["entropy", "--model", "any", "--data", data]) == 2
    assert capsys.readouterr().err.endswith("pip install 'stairwise[hf]'\n")
    with pytest.raises(ConfigError, match=r"stairwise\[hf\]"):
        registry.paper("parity_cot").claim("fig6").at(Figures67(model="any"), 0)


def test_a_folder_that_holds_no_model_is_one_line(data, tmp_path, capsys):
    need_transformers()
    assert main(["entropy", "--model", str(tmp_path), "--data", data]) == 2
    err = capsys.readouterr().err.splitlines()[-1]
    assert f"model={tmp_path} cannot be loaded as a causal language model" in err
    with pytest.raises(ConfigError, match=f"^model={tmp_path} cannot be loaded as a causal language model"):
        registry.paper("parity_cot").claim("fig6").at(Figures67(model=str(tmp_path), data=data), 0)


def test_what_can_be_refused_before_hours_of_measuring_is_refused_before(models, data, tmp_path, monkeypatch, capsys):
    from stairwise.papers.parity_cot import entropies

    monkeypatch.setattr(entropies, "measure", None)
    figure = ["--figure", str(tmp_path / "x.pdf"), "--layers", "1,4"]
    assert main(["entropy", "--model", models[0], "--data", data, *figure]) == 2
    assert "layers=1,4 must lie in 1..3, the layers of the model" in capsys.readouterr().err
    assert main(["entropy", "--model", "/" + "x" * 5000, "--data", data]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("stairwise: model=/xxx")


def test_figures_6_and_7_are_judged_on_any_model_with_both_controls(models, data):
    model, tuned = models
    claim = registry.paper("parity_cot").claim("fig7")
    verdict = claim.at(Figures67(model=model, tuned=tuned, data=data, layers=(1, 3)), 0)
    rows = {(row["comparison"], row["tokens"]): row for row in verdict.details if "comparison" in row}
    own, other = rows["with CoT - without", "min, all"], rows["tuned - pre-trained, with CoT", "min, all"]
    assert verdict.status == ("holds" if max(own["high"], other["high"]) < 0 else "not-reproduced")
    assert other["difference"] < 0  # larger weights, sharper softmax
    assert "at equal length" in verdict.note
    assert "random weights" in verdict.note
    with pytest.raises(ConfigError, match=r"layers=4 must lie in 1\.\.3"):
        claim.at(Figures67(model=model, data=data, layers=(4,)), 0)
