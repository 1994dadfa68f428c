"""Greedy continuations of texts by a Hugging Face causal language model, many side by side.

Prompts of a batch are filled up on the left, and the filling is masked: each is continued as if it were alone.
PyTorch and Transformers (the extra `hf`) are imported when first used.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stairwise.extras import missing

MISSING = missing("a Hugging Face model", "hf")


class LanguageModel:
    """A causal language model with its tokenizer; `load_language_model` makes one from a path or a name."""

    def __init__(self, network: Any, tokenizer: Any, batch: int = 16):
        self.network, self.tokenizer, self.batch = network.eval(), tokenizer, batch
        tokenizer.padding_side = "left"
        if tokenizer.pad_token_id is None:  # masked anyway: any token will do
            tokenizer.pad_token = tokenizer.eos_token or tokenizer.convert_ids_to_tokens(0)

    def complete(self, prompts: Sequence[str], like: str) -> list[str]:
        """The continuation of each prompt, with room for half as many tokens again as `like` has."""
        import torch

        room = 8 + 3 * len(self.tokenizer(like)["input_ids"]) // 2
        inputs = self.tokenizer(list(prompts), return_tensors="pt", padding=True, return_token_type_ids=False)
        length = inputs["input_ids"].shape[1]
        self._check_room(length + room)
        with torch.no_grad():
            found = self.network.generate(
                **inputs.to(self.network.device),
                max_new_tokens=room,
                do_sample=False,
                num_beams=1,
                pad_token_id=self.tokenizer.pad_token_id,
            )
        return self.tokenizer.batch_decode(found[:, length:], skip_special_tokens=True)

    def _check_room(self, needed: int) -> None:
        most = getattr(self.network.config, "max_position_embeddings", None)
        if most is not None and needed > most:
            raise ValueError(f"prompt and answer need {needed} tokens, and the model reads at most {most}")


def load_language_model(name: str, *, device: str = "auto", dtype: str = "auto", batch: int = 16) -> LanguageModel:
    """A model by path or name."""
    try:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
        from transformers.utils import logging
    except ImportError:
        raise ValueError(MISSING) from None

    logging.disable_progress_bar()
    auto: Any = AutoModelForCausalLM  # its own types are too narrow
    place = device if device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    if not re.fullmatch(r"cpu|(cuda|mps|xpu)(:\d+)?", place):
        raise ValueError(f"device={device} must be auto, cpu, cuda or cuda:1")
    if name.startswith((".", "/", "~")) and not Path(name).expanduser().is_dir():
        raise ValueError(f"model={name}: there is no such folder")
    try:
        network = auto.from_pretrained(name, dtype=dtype)
        tokenizer = AutoTokenizer.from_pretrained(name)
        if not tokenizer("1 + 1 =")["input_ids"]:  # made up by the library where the folder has none
            raise ValueError("it has no tokenizer that reads text")
        return LanguageModel(network.to(place), tokenizer, batch)
    except (OSError, ValueError, KeyError, RuntimeError) as error:  # the library says it in many lines
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"model={name} cannot be loaded as a causal language model: {reason}") from None
