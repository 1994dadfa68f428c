"""A task of lm-evaluation-harness: a folder with its YAML, the questions, solved examples and a card.

    NAME.yaml        the task: how to ask, how to read the answer, what is counted
    test.jsonl       the questions, of the split that was asked for
    train.jsonl      solved examples of the training split, for few-shot prompts
    croissant.json   what the files hold

Questions, solved examples and the way to answer are those of `stairwise eval`. Answers are compared as text.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from stairwise.config import ConfigError
from stairwise.lab.data import croissant
from stairwise.lab.data.evaluate import few_shots, worked
from stairwise.lab.data.formats import write
from stairwise.lab.data.request import DataRequest
from stairwise.lab.store.files import explained, replacing, sync_folder, write_file

SHOTS = 64  # solved examples to choose from
ROOM = 64  # tokens that an answer may be longer than the right one
SCALAR, VECTOR = r"[-+]?\d+(?:\.\d+)?", r"\([^()]*\)"


def check(request: DataRequest, out: Path | None) -> Path:
    """The folder to write, where there can be one; ConfigError otherwise."""
    if out is None:
        raise ConfigError("format=lm-eval is a folder: name it with -o")
    if request.split == "train":
        raise ConfigError("split=train must be val or test where format=lm-eval: solved examples come from train")
    if not out.absolute().parent.is_dir():
        raise ConfigError(f"out={out} must lie in a folder that exists")
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise ConfigError(f"out={out} must not exist yet, or be an empty folder")
    return out


def write_task(request: DataRequest, out: Path, tell: Callable[[int], None] = lambda done: None) -> str:
    """Writes the folder, whole or not at all; gives the name of its task."""
    folder = check(request, out)
    name = f"stairwise_{request.task.id.replace('-', '_')}"
    shots = replace(request, split="train", n=min(SHOTS, request.space.capacity("train")))
    with explained(f"write {folder}"), replacing(folder.absolute()) as temporary:
        temporary.mkdir()
        write(request, "jsonl", temporary / "test.jsonl", tell)
        write(shots, "jsonl", temporary / "train.jsonl")
        text = "".join(f"{key}: {json.dumps(value)}\n" for key, value in described(request, name).items())
        write_file(temporary / f"{name}.yaml", text.encode())
        card = croissant.card([temporary / "train.jsonl", temporary / "test.jsonl"])
        write_file(temporary / croissant.NAME, (json.dumps(card, indent=1) + "\n").encode())
        sync_folder(temporary)
    return name


def described(request: DataRequest, name: str) -> dict[str, Any]:
    """The fields of the YAML. Files are named relative to the folder, in which the harness must be started."""
    (example,) = request.block(0, 1).records()
    value = VECTOR if example["answer"].startswith("(") else SCALAR
    return {
        "task": name,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"train": "train.jsonl", "test": "test.jsonl"}},
        "training_split": "train",
        "test_split": "test",
        "fewshot_split": "train",
        "fewshot_config": {"sampler": "first_n"},
        "output_type": "generate_until",
        "description": few_shots(request, 0),
        "doc_to_text": "Q: {{prompt}}\nA:",
        "doc_to_target": worked({key: f"{{{{{key}}}}}" for key in ("steps", "answer") if key in example}),
        "generation_kwargs": {
            "until": ["\nQ:", "\n\n"],
            "do_sample": False,
            "max_gen_toks": 2 * len(worked(example)) + ROOM,
        },
        "filter_list": [
            _filter("strict-match", rf"(?i)answer(?:\s+is)?\s*[:=]?\s*({value})"),
            _filter("flexible-extract", rf"(?<![\w.])({value})(?!\w)" if value == SCALAR else f"({value})"),
        ],
        "metric_list": [
            {
                "metric": "exact_match",
                "aggregation": "mean",
                "higher_is_better": True,
                "regexes_to_ignore": ["(?s).*Answer: ", r"\s", r"^\+"],
            }
        ],
        "metadata": {"version": float(request.task.version)},
    }


def _filter(name: str, pattern: str) -> dict[str, Any]:
    """Takes the last match of a pattern."""
    regex = {"function": "regex", "regex_pattern": pattern, "group_select": -1}
    return {"name": name, "filter": [regex, {"function": "take_first"}]}
