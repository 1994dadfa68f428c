"""`stairwise data` and `stairwise eval`: files that can be made again, bad input in one line, real language models."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

import stairwise as sw
from stairwise.cli import main
from stairwise.config import ConfigError, leaves
from stairwise.lab import registry
from stairwise.lab.data.evaluate import Exam, few_shots
from stairwise.lab.data.formats import read_header
from tests.language import need_transformers, save_tiny_model

# of the YAML that lm-evaluation-harness documents (docs/task_guide.md): those that we write
HARNESS_FIELDS = {
    "task", "dataset_path", "dataset_kwargs", "training_split", "test_split", "fewshot_split", "fewshot_config",
    "output_type", "description", "doc_to_text", "doc_to_target", "generation_kwargs", "filter_list", "metric_list",
    "metadata",
}  # fmt: skip


def call(capsysbinary, *arguments):
    status = main(list(arguments))
    out, err = capsysbinary.readouterr()
    return status, out, err.decode()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["data"], ["needs a TASK", "--list"]),
        (["data", "lego"], ["-n 1000"]),
        (["data", "sudoku", "-n", "3"], ["unknown task: sudoku", "lego", "parity_chain"]),
        (["data", "nowhere/lego", "-n", "3"], ["unknown paper: nowhere"]),
        (["data", "lego", "-n", "0"], ["n=0", "1.."]),
        (["data", "lego", "-n", "some"], ["n=some", "whole number"]),
        (["data", "lego", "-n", "9", "--length", "24"], ["length=24 needs 25 variables", "variables=24"]),
        (["data", "lego", "-n", "9", "--distractors", "4"], ["distractors=4", "need 30 variables"]),
        (["data", "lego", "-n", "9", "--action", "X5"], ["action=X5", "C<n>"]),
        (["data", "lego", "-n", "9", "--lenght", "4"], ["lenght", "did you mean --length"]),
        (["data", "lego", "-n", "9", "--format", "csv"], ["format=csv", "jsonl, parquet, npz, tokens, lm-eval"]),
        (["data", "lego", "-n", "9", "--split", "all"], ["split=all", "train, val, test"]),
        (["data", "lego", "-n", "9", "--seed", "-1"], ["seed=-1", "0..4294967295"]),
        (["data", "lego", "-n", "9", "-o", "none/file"], ["cannot write none/file", "No such file"]),
        (["data", "lego", "-n", "9", "-o", "."], ["cannot write .", "directory"]),
        (["data", "parity_cot", "-n", "9", "--secret", "1,2,3,16"], ["secret=16", "0..15"]),
        (["data", "parity_chain", "-n", "9", "--secret", "1,1,3,4"], ["secret=1 must not be repeated"]),
        (["data", "parity_chain", "-n", "9", "--noise", "0.6"], ["noise=0.6", "at most 0.5"]),
        (["data", "parity_chain", "-n", "500", "--bits", "8"], ["n=500 must be at most 204", "256 different"]),
        (["data", "parity_tree", "-n", "9", "--bits", "4"], ["size=32 must be at most bits=4"]),
        (["data", "composition", "-n", "9", "--hops", "1,5"], ["hops=5 must be at most blocks=4"]),
        (["data", "composition", "-n", "9", "--hops", "2,2"], ["hops=2 must not be repeated"]),
        (["data", "selection", "-n", "9", "--format", "tokens", "-o", "x"], ["format=tokens", "vectors"]),
        (["data", "--from-header", "none"], ["cannot read none"]),
        (["data", "lego", "--from-header", "none"], ["only -o and --format"]),
        (["data", "--from-header", "none", "--seed", "0"], ["only -o and --format"]),
        (["data", "--from-header", "none", "--split", "train"], ["only -o and --format"]),
        (["data", "--from-header", "none", "--no-cot"], ["only -o and --format"]),
        (["data", "--from-header", "."], ["cannot read .", "must be a file"]),
        (["data", "lego", "-n", "9", "--format", "lm-eval"], ["format=lm-eval is a folder", "-o"]),
        (["data", "lego", "-n", "9", "--format", "lm-eval", "-o", "a/b"], ["out=a/b", "a folder that exists"]),
        (
            ["data", "lego", "-n", "9", "--format", "lm-eval", "--split", "train", "-o", "x"],
            ["split=train must be val or test where format=lm-eval"],
        ),
        (["data", "--card", "none.jsonl"], ["cannot read none.jsonl"]),
        (["data", "--card", "none.jsonl", "--seed", "1"], ["name only --url and -o"]),
        (["data", "lego", "-n", "9", "--url", "https://example.org"], ["--url goes with --card"]),
        (["data", "lego", "--list"], ["--list shows every task"]),
        (["data", "lego", "-n", "3", "--json"], ["--json goes with --list"]),
        (["data", "lego", "-n", "3", "--seed", ""], ["seed=", "whole number"]),
        (["eval", "sudoku", "--model", "m"], ["unknown task: sudoku"]),
        (["eval", "lego", "--model", "m", "--lengths", "5,x"], ["lengths=x", "whole number"]),
        (["eval", "lego", "--model", "m", "--lengths", "5,99"], ["length=99 needs 100 variables"]),
        (["eval", "lego", "--model", "m", "--shots", "-1"], ["shots=-1"]),
        (["eval", "lego", "--model", "m", "--lengths", "2,4,2"], ["lengths=2 must not be repeated"]),
        (["eval", "lego", "--model", "m", "--lengths", ""], ["lengths=", "whole number"]),
        (["eval", "lego", "--model", "m", "--split", "train", "--shots", "1"], ["split=train must be val or test"]),
        (["eval", "lego", "--model", "m", "--batch", "0"], ["batch=0", "1..4096"]),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing_behind(capsysbinary, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    status, out, err = call(capsysbinary, *arguments)
    assert (status, out, err.count("\n")) == (2, b"", 1)
    for word in words:
        assert word in err
    assert list(tmp_path.iterdir()) == []


def test_bad_input_is_refused_before_a_device_is_started(tmp_path):
    lines = [
        "import sys",
        "from stairwise.cli import main",
        "main(['data', '--list', '--json'])",
        "assert main(['data', 'parity_chain', '-n', '500', '--inputs', '8']) == 2",
        "assert main(['eval', 'composition', '--model', 'm', '--lengths', '9']) == 2",
        "main(['data', 'lego', '-n', '3'])",  # nor where the seed draws nothing
        "from jax._src import xla_bridge",
        "assert not xla_bridge._backends",
        "assert not {'torch', 'transformers', 'pyarrow'} & set(sys.modules)",
    ]
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True, cwd=tmp_path, capture_output=True)


def test_the_list_names_every_option_of_every_task_of_the_five_papers(capsysbinary):
    _, out, _ = call(capsysbinary, "data", "--list", "--json")
    listed = {task["id"]: task for task in json.loads(out)["tasks"]}
    papers = {"composition", "lego", "parity_cot", "parity_onestep", "selection"}
    assert {task["paper"] for task in listed.values()} >= papers
    _, text, _ = call(capsysbinary, "data", "--list")
    for name, task in listed.items():
        fields = [field.path for field in leaves(registry.task(name).Config())]
        assert [option["name"] for option in task["options"]] == fields
        assert task["difficulty"] in fields
        assert all(f"--{field}".encode() in text for field in fields)


def test_standard_output_is_the_file_and_help_lists_the_options(capsysbinary, tmp_path):
    arguments = ["data", "parity_chain", "-n", "20", "--secret", "3,1", "--size", "2", "--no-cot", "--seed", "1e3"]
    status, out, _ = call(capsysbinary, *arguments)
    call(capsysbinary, *arguments, "-o", str(tmp_path / "file"))
    assert status == 0
    assert out == (tmp_path / "file").read_bytes()
    lines = [json.loads(line) for line in out.splitlines()]
    assert read_header(tmp_path / "file")["drawn"] == {"secret": [1, 3]}
    assert lines == list(sw.data("parity_chain", 20, secret=(3, 1), size=2, cot=False, seed=1000))
    _, out, _ = call(capsysbinary, "data", "lego", "--help")
    assert b"--distractors INT" in out


@pytest.mark.parametrize("format", ["jsonl", "parquet", "npz", "tokens"])
def test_a_file_is_made_again_from_its_header_bit_for_bit(capsysbinary, tmp_path, format):
    first, again = tmp_path / "first", tmp_path / "again"
    options = ["--action", "S3", "--order", "shuffled", "--split", "val", "--seed", "9", "--format", format]
    assert call(capsysbinary, "data", "lego", "-n", "300", *options, "-o", str(first))[:2] == (0, b"")
    assert call(capsysbinary, "data", "--from-header", str(first), "-o", str(again))[0] == 0
    assert first.read_bytes() == again.read_bytes()
    beside = [".again.header", ".first.header"] if format == "jsonl" else []
    assert sorted(path.name for path in tmp_path.iterdir()) == [*beside, "again", "first"]


def test_a_task_of_the_evaluation_harness_asks_what_eval_asks(capsysbinary, tmp_path):
    yaml = pytest.importorskip("yaml")
    options = {"action": "C3", "length": 2}
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    folder = tmp_path / "task"
    status, out, _ = call(capsysbinary, "data", "lego", "-n", "9", *words, "--format", "lm-eval", "-o", str(folder))
    assert (status, b"--include_path . --tasks stairwise_lego" in out) == (0, True)
    task = yaml.safe_load((folder / "stairwise_lego.yaml").read_text())
    assert task.keys() <= HARNESS_FIELDS
    files = task["dataset_kwargs"]["data_files"]
    test, train = ([json.loads(line) for line in (folder / files[split]).open()] for split in ("test", "train"))
    assert test == list(sw.data("lego", 9, split="test", **options))
    assert train == list(sw.data("lego", 64, **options))
    assert (task["test_split"], task["fewshot_split"], task["dataset_path"]) == ("test", "train", "json")

    def filled(template, record):
        return re.sub(r"{{(\w+)}}", lambda found: record[found[1]], template)

    exam = Exam.of("lego", options, n=9, shots=2, cot=True)
    shown = [filled(f"{task['doc_to_text']} {task['doc_to_target']}\n\n", record) for record in train[:2]]
    assert task["description"] + "".join(shown) == few_shots(exam.requests[0][1], 2)
    for record in test:
        right = filled(task["doc_to_target"], record)
        for each in task["filter_list"]:
            assert re.findall(each["filter"][0]["regex_pattern"], right)[-1] == record["answer"]
        assert sw.score(record, right).right
        assert len(right) <= task["generation_kwargs"]["max_gen_toks"]
    assert "num_fewshot" not in task  # a 0 would overrule the flag of the harness


def test_a_card_describes_each_file_and_each_of_its_columns(capsysbinary, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for split in ("train", "test"):
        call(capsysbinary, "data", "selection", "-n", "5", "--split", split, "-o", f"{split}.jsonl")
    status, out, _ = call(capsysbinary, "data", "--card", "train.jsonl,test.jsonl", "--url", "https://example.org")
    card = json.loads(out)
    assert status == 0
    assert call(capsysbinary, "data", "--card", "train.jsonl,test.jsonl", "-o", "croissant.json")[:2] == (0, b"")
    assert json.loads((tmp_path / "croissant.json").read_text())["url"] == "https://arxiv.org/abs/2406.06893"
    required = {"@context", "@type", "conformsTo", "name", "description", "license", "url", "creator", "datePublished"}
    assert required | {"distribution", "recordSet"} <= card.keys()
    assert (card["@type"], card["conformsTo"]) == ("sc:Dataset", "http://mlcommons.org/croissant/1.0")
    assert card["url"] == "https://example.org"
    for file, records in zip(card["distribution"], card["recordSet"], strict=True):
        data = (tmp_path / file["contentUrl"]).read_bytes()
        assert file["sha256"] == hashlib.sha256(data).hexdigest()
        assert file["contentSize"] == f"{len(data)} B"
        first = json.loads(data.splitlines()[0])
        assert [field["name"] for field in records["field"]] == list(first)
        for field in records["field"]:
            assert field["source"] == {"fileObject": {"@id": file["@id"]}, "extract": {"column": field["name"]}}
            assert field.get("repeated", False) == isinstance(first[field["name"]], list)
            assert (field["dataType"] == "sc:Text") == isinstance(first[field["name"]], str)
    call(capsysbinary, "data", "lego", "-n", "5", "-o", "lego.jsonl")
    status, _, err = call(capsysbinary, "data", "--card", "train.jsonl,lego.jsonl")
    assert (status, err) == (2, "stairwise: card=lego.jsonl must be of selection/selection, not of lego/lego\n")


def test_a_response_is_scored_as_an_evaluation_scores_it():
    said = iter(["Answer: 0", "so the answer is 1.", "x1 = 2; Answer: 2", "no", "perhaps 9, or else 1"] * 8)
    entries = list(sw.data("lego", 40, split="test", action="C3", length=2))
    texts = [next(said) for _ in entries]
    scores = [sw.score(entry, text, answers=("0", "1", "2")) for entry, text in zip(entries, texts, strict=True)]
    replies = iter(texts)
    row = sw.evaluate(lambda prompt: next(replies), "lego", n=40, cot=True, action="C3", length=2).row()
    assert (sum(map(bool, scores)), sum(score.invalid for score in scores)) == (row.answer.right, row.invalid)
    assert [sum(score.steps[place] for score in scores) for place in range(2)] == [step.right for step in row.steps]
    assert float(sw.score({"answer": "(0.50, -1)"}, "It is (0.5, -1.0)")) == 1.0
    for entry in ({"prompt": "?"}, {"answer": "none"}):
        with pytest.raises(ConfigError, match="entry must have an answer in words"):
            sw.score(entry, "1")


def start(*arguments, **more):
    return subprocess.Popen([sys.executable, "-m", "stairwise.cli", *arguments], **more)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_leaves_nothing_behind(tmp_path, number):
    running = start("data", "lego", "-n", "30000000", "-o", str(tmp_path / "file"), stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not list(tmp_path.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [path.name.startswith(".stairwise-") for path in tmp_path.iterdir()] == [True]
    running.send_signal(number)
    assert running.wait(timeout=30) == 128 + number
    assert list(tmp_path.iterdir()) == []
    assert running.stderr is not None
    running.stderr.close()


@pytest.mark.slow
def test_a_reader_that_leaves_early_is_no_error():
    running = start("data", "lego", "-n", "1000000", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert running.stdout is not None
    assert json.loads(running.stdout.readline())["index"] == 0
    running.stdout.close()
    _, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (0, b"")


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_sentences(tmp_path):
    code = (
        "import resource, sys; from stairwise.cli import main;"
        "main(['data', 'lego', '-n', sys.argv[1], '--format', sys.argv[2], '-o', sys.argv[3]]);"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    for format in ("jsonl", "npz", "parquet"):
        small, large = (
            int(subprocess.check_output([sys.executable, "-c", code, n, format, str(tmp_path / "file")]))
            for n in ("20000", "200000")
        )
        assert large < small + 40_000  # KiB; ten times the file is 120 MB of text more


# --- language models --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    need_transformers()
    texts = [
        f"Q: {record['prompt']} A: {record['steps']}. Answer: {record['answer']}" for record in sw.data("lego", 200)
    ]
    return save_tiny_model(tmp_path_factory.mktemp("tiny"), texts)


def test_a_language_model_is_asked_and_its_score_printed_and_given_as_json(tiny, capsysbinary):
    small = ["-n", "6", "--length", "2", "--variables", "5", "--action", "C3", "--batch", "3", "--shots", "1"]
    arguments = ["eval", "lego", "--model", str(tiny), *small, "--lengths", "1,2"]
    status, out, err = call(capsysbinary, *arguments, "--json")
    assert status == 0, err
    found = json.loads(out)
    assert (found["task"], found["difficulty"], found["shots"], found["split"]) == ("lego/lego", "length", 1, "test")
    assert [(row["difficulty"], row["cot"]) for row in found["rows"]] == [(1, True), (1, False), (2, True), (2, False)]
    for row in found["rows"]:
        assert row["answer"]["of"] == 6
        assert 0 <= row["answer"]["low"] <= row["answer"]["value"] <= row["answer"]["high"] <= 1
        assert row["answer"]["right"] + row["invalid"] <= 6
        assert len(row["steps"]) == (row["difficulty"] if row["cot"] else 0)
    status, out, _ = call(capsysbinary, *arguments, "--no-cot")
    assert status == 0
    table = out.decode().splitlines()
    assert table[1].split()[:3] == ["length", "worked", "steps"]
    assert len(table) == 4


def test_prompts_side_by_side_are_continued_as_each_alone(tiny):
    from stairwise.measure.completion import load_language_model

    model = load_language_model(str(tiny), device="cpu", dtype="float32")
    prompts = ["Q: x1 = a2(x3); x3 = 4; x1 = ?\nA:", "Q: x7 = 0; x7 = ?\nA:", "A:"]
    together = model.complete(prompts, "x1 = 3. Answer: 3")
    assert together == [model.complete([prompt], "x1 = 3. Answer: 3")[0] for prompt in prompts]
    assert len(set(together)) > 1


def test_a_model_that_cannot_be_loaded_or_read_so_much_is_one_line(tiny, tmp_path, capsysbinary):
    status, out, err = call(capsysbinary, "eval", "lego", "--model", str(tmp_path / "none"))
    assert (status, out, err.count("\n")) == (2, b"", 1)
    assert f"model={tmp_path / 'none'}: there is no such folder" in err
    status, out, err = call(capsysbinary, "eval", "lego", "--model", str(tiny), "--device", "foo")
    assert (status, out, err) == (2, b"", "stairwise: device=foo must be auto, cpu, cuda or cuda:1\n")
    (tmp_path / "empty").mkdir()
    status, out, err = call(capsysbinary, "eval", "lego", "--model", str(tmp_path / "empty"))
    assert (status, out, err.count("\n")) == (2, b"", 1)
    assert "cannot be loaded as a causal language model" in err
    unread = shutil.copytree(tiny, tmp_path / "unread", ignore=shutil.ignore_patterns("*token*", "vocab*", "merges*"))
    status, out, err = call(capsysbinary, "eval", "lego", "--model", str(unread), "-n", "1")
    assert (status, out, err.count("\n")) == (2, b"", 1)
    assert "it has no tokenizer" in err
    status, out, err = call(capsysbinary, "eval", "lego", "--model", str(tiny), "--shots", "60", "-n", "1", "--cot")
    assert (status, out, err.count("\n")) == (2, b"", 1)
    assert "the model reads at most 2048" in err


def test_without_transformers_one_line_says_what_to_install(tmp_path):
    code = (
        "import sys; sys.modules['torch'] = None;"
        "from stairwise.cli import main; sys.exit(main(['eval', 'lego', '--model', 'm', '-n', '1']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=os.environ)
    assert done.returncode == 2
    assert done.stderr == "stairwise: a Hugging Face model needs the extra hf: pip install 'stairwise[hf]'\n"
