"""The standard transformer as a toy model of TransformerLens: a config and a state dict, with equal logits.

    config, state = to_transformer_lens(model)
    bridge = TransformerBridge.boot_native(config)                                  # TransformerLens 4
    bridge.load_state_dict(convert_tl_checkpoint(state, bridge.cfg))

The names and shapes are those of HookedTransformer, the model class before 4.0 ("blocks.0.attn.W_Q" is heads by width
by head width). Positions are a learned table, or none at all, which is a table of zeros.
"""

from typing import Any

import jax
import numpy as np

from stairwise.config import ConfigError
from stairwise.extras import missing
from stairwise.interop.huggingface import EPS, arguments_of, skeleton
from stairwise.interop.tensors import named
from stairwise.nn.transformer import Transformer

# what the toy models of TransformerLens have one value of
ONLY = {
    "attention_residual": True,
    "mlp_residual": True,
    "compute_dtype": "float32",
    "parameter_dtype": "float32",
}
NORMS = {True: "LN", "rms": "RMS", False: None}


def to_transformer_lens(model: Transformer, context: int | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments of HookedTransformerConfig, and the state dict in PyTorch tensors.

    `context` is the longest sequence; it is the size of the table where positions are learned. ConfigError names the
    option that these models have not.
    """
    try:
        import torch
    except ImportError:
        raise ConfigError(missing("to_transformer_lens", "hf")) from None
    options = arguments_of(model)
    _check_expressible(model, options)
    length = context or options["max_length"]
    if length is None:
        raise ConfigError("context=None must be the longest sequence where positions=none (to_transformer_lens)")
    if options["max_length"] not in (None, length):
        raise ConfigError(f"context={length} must be max_length={options['max_length']} (to_transformer_lens)")
    width, heads, vocab = options["width"], options["heads"], options["vocab"]
    config = {
        "n_layers": options["layers"],
        "d_model": width,
        "n_ctx": length,
        "d_head": width // heads,
        "n_heads": heads,
        "d_mlp": options["hidden_multiple"] * width,
        "d_vocab": vocab,
        "d_vocab_out": options["outputs"] or vocab,
        "act_fn": "gelu_new",
        "normalization_type": NORMS[options["norm"]],
        "eps": EPS,
        "attention_dir": "causal" if options["causal"] else "bidirectional",
        "positional_embedding_type": "standard",
    }
    tensors = _renamed(named(model), length, heads)
    return config, {name: torch.tensor(np.ascontiguousarray(tensor)) for name, tensor in tensors.items()}


def _check_expressible(model: Transformer, options: dict[str, Any]) -> None:
    if options["vocab"] is None:
        raise ConfigError(
            "vocab=None must be a number of tokens: these models read no embeddings (to_transformer_lens)"
        )
    if options["positions"] not in ("learned", "none"):
        raise ConfigError(f"positions={options['positions']} must be learned or none (to_transformer_lens)")
    for name, only in ONLY.items():
        if options[name] != only:
            raise ConfigError(f"{name}={options[name]} must be {only}: there is nothing else (to_transformer_lens)")
    if jax.tree.structure(skeleton(options)) != jax.tree.structure(model):
        raise ConfigError("mixer and loops must be softmax and 1: there is nothing else (to_transformer_lens)")


def _renamed(tensors: dict[str, np.ndarray], length: int, heads: int) -> dict[str, np.ndarray]:
    """Our tensors under their names, heads apart."""
    table = tensors["table"]
    width = table.shape[1]
    found = {
        "embed.W_E": table,
        "pos_embed.W_pos": tensors.get("positions.table", np.zeros((length, width), dtype=table.dtype)),
        "unembed.W_U": tensors.get("head", table).T,
        "unembed.b_U": np.zeros(len(tensors.get("head", table)), dtype=table.dtype),
    }
    found |= _norm(tensors, "norm", "ln_final")
    for layer in range(1 + max(int(name.split(".")[1]) for name in tensors if name.startswith("blocks."))):
        block = f"blocks.{layer}"
        weight = tensors[f"{block}.attention.qkv.weight"].reshape(width, 3, heads, -1)
        bias = tensors[f"{block}.attention.qkv.bias"].reshape(3, heads, -1)
        for place, letter in enumerate("QKV"):
            found[f"{block}.attn.W_{letter}"] = np.moveaxis(weight[:, place], 1, 0)
            found[f"{block}.attn.b_{letter}"] = bias[place]
        found[f"{block}.attn.W_O"] = tensors[f"{block}.attention.out.weight"].reshape(heads, -1, width)
        found[f"{block}.attn.b_O"] = tensors[f"{block}.attention.out.bias"]
        for part, letter in (("expand", "in"), ("contract", "out")):
            found[f"{block}.mlp.W_{letter}"] = tensors[f"{block}.mlp.{part}.weight"]
            found[f"{block}.mlp.b_{letter}"] = tensors[f"{block}.mlp.{part}.bias"]
        found |= _norm(tensors, f"{block}.attention_norm", f"{block}.ln1")
        found |= _norm(tensors, f"{block}.mlp_norm", f"{block}.ln2")
    return found


def _norm(tensors: dict[str, np.ndarray], ours: str, theirs: str) -> dict[str, np.ndarray]:
    """Gain and bias, where there are such."""
    names = {f"{theirs}.w": f"{ours}.weight", f"{theirs}.b": f"{ours}.bias"}
    return {name: tensors[own] for name, own in names.items() if own in tensors}
