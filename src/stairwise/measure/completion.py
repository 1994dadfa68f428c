"""Greedy continuations of texts by a Hugging Face causal language model, many side by side.

Prompts of a batch are filled up on the left, and the filling is masked: each is continued as if it were alone.
PyTorch and Transformers (the extra `hf`) are imported when first used.
"""

from collections.abc import Sequence
from typing import Any

from stairwise.measure import pretrained


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
        pretrained.check_tokens(self.network.name_or_path, self.network, inputs["input_ids"].flatten().tolist())
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
    return LanguageModel(*pretrained.load(name, device=device, dtype=dtype), batch)
