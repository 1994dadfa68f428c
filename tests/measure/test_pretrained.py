"""Models that are not whole are refused by one line with their folder and file; nothing is made up for them."""

import json
import re
import shutil

import pytest

from stairwise.cli import main
from stairwise.measure import pretrained
from tests.language import INVENTED, need_transformers, save_tiny_model, write_problems

TEXTS = [f"{question} {answer}" for question, answer in INVENTED]
KINDS = ("gpt2", "qwen2")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    need_transformers()
    folder = tmp_path_factory.mktemp("whole")
    return {kind: save_tiny_model(folder / kind, TEXTS, kind) for kind in KINDS}


@pytest.fixture
def copy_of(whole, tmp_path):
    return lambda kind: shutil.copytree(whole[kind], tmp_path / "model")


def configured(**fields):
    def change(folder):
        file = folder / "config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | fields))

    return change


def tensors(make):
    def change(folder):
        from safetensors.torch import load_file, save_file

        file = folder / "model.safetensors"
        save_file(make(load_file(file)), file, {"format": "pt"})

    return change


def replaced(name, content):
    return lambda folder: (folder / name).write_bytes(content)


def every_second(found):
    return dict(list(found.items())[::2])


def poisoned(value):
    def make(found):
        found[sorted(found)[3]].view(-1)[1] = value
        return found

    return tensors(make)


def cut(folder):
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-9])


def pickled(folder):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04garbage.")


def untold(folder):
    for file in folder.glob("*token*"):
        file.unlink()


def small_table(folder):
    tensors(lambda found: {name: t[:20].clone() if len(t) == 600 else t for name, t in found.items()})(folder)
    configured(vocab_size=20)(folder)


def bidirectional(folder):
    from transformers import BertConfig, BertLMHeadModel

    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    BertLMHeadModel(BertConfig(vocab_size=600, initializer_range=0.5, **sizes)).save_pretrained(folder)


def bare(folder):
    (folder / "config.json").unlink()


GPTQ = {"quant_method": "gptq", "bits": 4}
WEIGHTS, CONFIG = r"model\.safetensors: ", r"config\.json: "


@pytest.mark.parametrize(
    ("kind", "change", "words"),
    [
        ("gpt2", tensors(every_second), WEIGHTS + r"tensor transformer\.wte\.weight of gpt2 is missing \(and 20"),
        ("qwen2", tensors(every_second), WEIGHTS + r"tensor model\.embed_tokens\.weight of qwen2 is missing"),
        ("qwen2", configured(model_type="bert"), WEIGHTS + r"tensor bert\.embeddings.* of bert is missing"),
        ("qwen2", configured(model_type="llama"), WEIGHTS + r"tensor .*k_proj\.bias has no place in llama as config"),
        ("gpt2", configured(model_type="llama"), CONFIG + r"llama of these sizes has 6,\d+,\d+,\d+ weights"),
        ("gpt2", configured(model_type="t5"), CONFIG + "Unrecognized configuration class"),
        ("gpt2", bidirectional, WEIGHTS + "bert is not causal: its tokens see those after them"),
        ("gpt2", configured(n_layer=2), WEIGHTS + r"tensor transformer\.h\.2\..* has no place in gpt2"),
        ("gpt2", configured(n_layer=4), WEIGHTS + r"tensor transformer\.h\.3\.ln_1\.weight of gpt2 is missing"),
        ("gpt2", configured(n_layer=0), CONFIG + r"n_layer=0 must lie in 1\.\.40, the tensors in the folder"),
        ("gpt2", configured(n_layer=10**6), CONFIG + r"n_layer=1e\+06 must lie in 1\.\.40"),
        ("qwen2", configured(num_hidden_layers=10**15), CONFIG + r"num_hidden_layers=1e\+15 must lie in 1\.\.39"),
        ("gpt2", configured(vocab_size=100), WEIGHTS + r"tensor .* is \[600, 64\] and must be \[100, 64\]"),
        ("gpt2", configured(n_embd=10**6), CONFIG + "gpt2 of these sizes has 36,.* weights, and its files"),
        ("gpt2", configured(vocab_size="600"), CONFIG + "Validation error for field 'vocab_size'"),
        ("qwen2", configured(hidden_act="none such"), CONFIG + "unknown 'none such'"),
        ("gpt2", configured(quantization_config=GPTQ), WEIGHTS + ".* requires (optimum|gptqmodel)"),
        ("gpt2", configured(quantization_config=7), CONFIG),
        ("gpt2", poisoned(float("nan")), WEIGHTS + "tensor .* is not finite"),
        ("qwen2", poisoned(float("inf")), WEIGHTS + "tensor .* is not finite"),
        ("gpt2", cut, WEIGHTS + "Error while deserializing header"),
        ("gpt2", replaced("model.safetensors", b""), WEIGHTS),
        ("gpt2", replaced("model.safetensors", b"\xff" * 100), WEIGHTS),
        ("gpt2", pickled, r"pytorch_model\.bin: "),
        ("gpt2", replaced("config.json", b"[]"), CONFIG),
        ("gpt2", replaced("config.json", b"[" * 10**5), CONFIG + "maximum recursion depth"),
        ("gpt2", bare, CONFIG),
        ("gpt2", replaced("generation_config.json", b"{"), r"generation_config\.json: "),
        ("gpt2", replaced("tokenizer.json", b"{"), "tokenizer: "),
        ("gpt2", replaced("tokenizer_config.json", b"[]"), "tokenizer: "),
        ("gpt2", untold, "tokenizer: it has no tokenizer that reads text"),
        ("gpt2", small_table, r"tokenizer: token \d+ must lie below 20, the tokens that the weights know"),
    ],
)
def test_a_model_that_is_not_whole_is_refused_by_folder_and_file(copy_of, capfd, kind, change, words):
    folder = copy_of(kind)
    change(folder)
    capfd.readouterr()
    with pytest.raises(ValueError) as refused:
        pretrained.load(str(folder), device="cpu")
    start = f"model={folder} cannot be loaded as a causal language model: "
    assert re.match(re.escape(start) + words, str(refused.value)), refused.value
    assert "\n" not in str(refused.value)
    assert capfd.readouterr() == ("", "")  # the line is all that is said


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_model_is_loaded_in_every_precision_with_tied_weights_and_a_head_beside_it(copy_of, kind, dtype):
    import torch

    folder = copy_of(kind)
    tensors(lambda found: found | {"v_head.summary.weight": torch.ones(1, 64)})(folder)
    network, tokenizer = pretrained.load(str(folder), device="cpu", dtype=dtype)
    assert str(network.dtype) == f"torch.{dtype}"
    assert not network.training
    assert tokenizer(pretrained.PROBE)["input_ids"]


def test_a_device_that_is_not_here_is_refused_before_anything_is_loaded():
    need_transformers()
    import torch

    absent = f"cuda:{torch.cuda.device_count()}"
    with pytest.raises(ValueError, match=f"^device={absent} is not here: "):
        pretrained.load("any", device=absent)


@pytest.mark.parametrize("command", ["eval", "entropy"])
def test_eval_and_entropy_say_it_in_one_line(copy_of, tmp_path, capsys, command):
    folder = copy_of("gpt2")
    tensors(every_second)(folder)
    problems = str(write_problems(tmp_path / "problems.jsonl"))
    more = {"eval": ["lego", "-n", "1"], "entropy": ["--data", problems]}[command]
    assert main([command, "--model", str(folder), *more]) == 2
    err = capsys.readouterr().err.splitlines()[-1]
    assert err.startswith(f"stairwise: model={folder} cannot be loaded as a causal language model: model.safetensors: ")
    assert err.endswith("tensor transformer.wte.weight of gpt2 is missing (and 20 more)")
