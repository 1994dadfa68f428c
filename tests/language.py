"""What tests of language models share: problems in GSM8K's format, and a tiny model that is made on the spot."""

import json
import os
from pathlib import Path

import pytest

INVENTED = [
    ("Ana has 3 boxes with 4 pens each. How many pens does she have?", "3 * 4 = <<3*4=12>>12 pens.\n#### 12"),
    (
        "A train runs 60 miles in one hour. How far does it run in 3 hours, if it waits for 1 hour?",
        "It runs for 3 - 1 = <<3-1=2>>2 hours.\nSo it runs 60 * 2 = <<60*2=120>>120 miles.\n#### 120",
    ),
    (
        "Tom had $2,500. He spent a fifth of it, then earned $125. How much does he have?",
        "He spent 2500 / 5 = $<<2500/5=500>>500.\nHe kept 2500 - 500 = $<<2500-500=2000>>2000.\n"
        "Now he has 2000 + 125 = $<<2000+125=2125>>2,125.\n#### 2,125",
    ),
    ("It was 5 degrees and fell by 15. What is it now?", "It is 5 - 15 = <<5-15=-10>>-10 degrees.\n#### -10"),
    (
        "Lena reads 12 pages a day for 6 days and 9 pages on Sunday. How many pages does she read?",
        "On the 6 days she reads 12 * 6 = <<12*6=72>>72 pages.\nIn all 72 + 9 = <<72+9=81>>81 pages.\n#### 81",
    ),
    (
        "A baker fills 8 trays with 12 rolls each and sells 70. How many rolls are left?",
        "There are 8 * 12 = <<8*12=96>>96 rolls.\n96 - 70 = <<96-70=26>>26 are left.\n#### 26",
    ),
]


def write_problems(path: Path, problems=INVENTED) -> Path:
    path.write_text("".join(json.dumps({"question": q, "answer": a}) + "\n" for q, a in problems))
    return path


def gsm8k_folder() -> Path:
    """The published data set: the folder that STAIRWISE_GSM8K names, or shared/data/gsm8k beside the repository."""
    beside = Path(__file__).parents[2] / "shared" / "data" / "gsm8k"
    folder = Path(os.environ.get("STAIRWISE_GSM8K") or beside)
    if not (folder / "test.jsonl").is_file():
        pytest.skip(f"GSM8K is not in {folder}: set STAIRWISE_GSM8K to a folder with train.jsonl and test.jsonl")
    return folder


def need_transformers() -> None:
    for name in ("torch", "transformers", "tokenizers"):
        pytest.importorskip(name, reason=f"{name} is not installed: pip install 'stairwise[hf]'")
    import torch

    torch.set_num_threads(1)  # models this small gain nothing from more, and waiting threads burn time


def save_tiny_model(folder: Path, texts, kind: str = "qwen2", scale: float = 8.0, seed: int = 0) -> Path:
    """A byte-level BPE tokenizer trained on the texts and a 3-layer model, scaled so that attention is not uniform."""
    import torch
    from tokenizers import ByteLevelBPETokenizer
    from transformers import AutoModelForCausalLM, GPT2Config, PreTrainedTokenizerFast, Qwen2Config

    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(texts, vocab_size=600, show_progress=False)
    PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer).save_pretrained(folder)
    common = {"vocab_size": 600, "bos_token_id": None, "eos_token_id": None}
    if kind == "qwen2":
        sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4}
        config = Qwen2Config(**sizes, num_key_value_heads=2, max_position_embeddings=2048, **common)
    else:
        config = GPT2Config(n_embd=64, n_layer=3, n_head=4, n_positions=256, **common)
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 2 and "embed" not in name and "wte" not in name:
                weight.mul_(scale)
    model.save_pretrained(folder)
    return folder
