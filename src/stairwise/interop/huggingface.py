"""The standard decoder to and from Hugging Face's GPT-2 layout: config.json and model.safetensors.

`transformers.GPT2LMHeadModel.from_pretrained(folder)` loads what `to_gpt2` wrote, and `from_gpt2` reads what its
`save_pretrained` wrote; logits agree to rounding. Neither PyTorch nor Transformers is needed here.
"""

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from stairwise.config import ConfigError, short
from stairwise.interop.folder import write_described
from stairwise.interop.tensors import filled, named, names_of
from stairwise.lab.store.files import Damaged, decode_arrays, encode_arrays, parse, read_file, render
from stairwise.nn.positions import (
    LearnedPositions,
    NoPositions,
    Positions,
    RandomisedPositions,
    RotaryPositions,
    SinusoidalPositions,
)
from stairwise.nn.relative import Alibi, T5Positions
from stairwise.nn.transformer import Transformer

CONFIG, WEIGHTS = "config.json", "model.safetensors"
EPS = 1e-5
# what a GPT-2 is where its config does not say so
DEFAULTS: dict[str, Any] = {
    "model_type": "gpt2",
    "vocab_size": 50257,
    "n_positions": 1024,
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "n_inner": None,
    "activation_function": "gelu_new",
    "layer_norm_epsilon": EPS,
    "resid_pdrop": 0.1,
    "embd_pdrop": 0.1,
    "attn_pdrop": 0.1,
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
}
SIZES = ("vocab_size", "n_positions", "n_embd", "n_layer", "n_head", "n_inner")
DROPOUTS = ("resid_pdrop", "embd_pdrop", "attn_pdrop")
# options of the decoder, and of GPT-2, of which the other has one value only
OURS = {
    "causal": True,
    "positions": "learned",
    "norm": True,
    "attention_residual": True,
    "mlp_residual": True,
    "compute_dtype": "float32",
    "parameter_dtype": "float32",
}
THEIRS: dict[str, tuple[Any, ...]] = {
    "model_type": ("gpt2",),
    "activation_function": ("gelu_new", "gelu_pytorch_tanh"),
    "layer_norm_epsilon": (EPS,),
    "scale_attn_weights": (True,),
    "scale_attn_by_inverse_layer_idx": (False,),
    "add_cross_attention": (False,),
}
# the same tensors under the two names; both keep a linear map as [inputs, outputs], queries, keys and values fused
OUTSIDE = {"table": "wte.weight", "positions.table": "wpe.weight", "norm": "ln_f", "head": "lm_head.weight"}
INSIDE = {
    "attention_norm": "ln_1",
    "attention.qkv": "attn.c_attn",
    "attention.out": "attn.c_proj",
    "mlp_norm": "ln_2",
    "mlp.expand": "mlp.c_fc",
    "mlp.contract": "mlp.c_proj",
}
BUFFERS = re.compile(r"h\.\d+\.attn\.(masked_)?bias")  # the causal mask, which old checkpoints carry


# --- out --------------------------------------------------------------------------------------------------------------


def to_gpt2(model: Transformer, folder: Path | str, about: Mapping[str, Any] | None = None) -> None:
    """Writes the decoder as a GPT-2 folder, whole or not at all; ConfigError names the option that GPT-2 has not.

    Beside it stands stairwise.json: the digests, and `about`, where the model came from.
    """
    options = arguments_of(model)
    _check_expressible(options)
    if jax.tree.structure(skeleton(options)) != jax.tree.structure(model):
        raise ConfigError("mixer and loops must be softmax and 1: GPT-2's layout has nothing else (to_gpt2)")
    tensors = {_prefixed(_outside_name(name)): tensor for name, tensor in named(model).items()}
    files = {CONFIG: render(_config(options)), WEIGHTS: encode_arrays(tensors, {"format": "pt"})}
    write_described(Path(folder), files, {"layout": "gpt2", **(about or {})})


# the types of a transformer's arguments
WHOLE, SWITCH, TEXT = (int,), (bool,), (str,)
ARGUMENTS: dict[str, tuple[type, ...]] = {
    "vocab": (int, type(None)),
    "width": WHOLE,
    "layers": WHOLE,
    "heads": WHOLE,
    "causal": SWITCH,
    "positions": TEXT,
    "max_length": (int, type(None)),
    "outputs": (int, type(None)),
    "hidden_multiple": WHOLE,
    "norm": (bool, str),
    "attention_residual": SWITCH,
    "mlp_residual": SWITCH,
    "dropout": (int, float),
    "compute_dtype": TEXT,
    "parameter_dtype": TEXT,
}


POSITIONS: dict[type[Positions], str] = {
    NoPositions: "none",
    LearnedPositions: "learned",
    SinusoidalPositions: "sinusoidal",
    RotaryPositions: "rotary",
    Alibi: "alibi",
    T5Positions: "t5",
    RandomisedPositions: "randomised",
}


def arguments_of(model: Transformer) -> dict[str, Any]:
    """The arguments from which a transformer of this shape is built (all but the initial scale and the key).

    Other mixers and loops are not among them: such a model is read back by the config of its trial.
    """
    block, positions = model.blocks[0], model.positions
    width, hidden = block.mlp.expand.weight.shape
    return {
        "vocab": None if model.table is None else len(model.table),
        "width": width,
        "layers": len(model.blocks),
        "heads": getattr(block.attention, "heads", 1),
        "causal": model.causal,
        "positions": POSITIONS[type(positions)],
        "max_length": positions.limit,
        "outputs": None if model.head is None else len(model.head),
        "hidden_multiple": hidden // width,
        "norm": "rms" if isinstance(model.norm, eqx.nn.RMSNorm) else model.norm is not None,
        "attention_residual": block.attention_residual,
        "mlp_residual": block.mlp_residual,
        "dropout": model.dropout,
        "compute_dtype": model.compute_dtype,
        "parameter_dtype": block.mlp.expand.weight.dtype.name,
    }


def _check_expressible(options: Mapping[str, Any]) -> None:
    for name, only in OURS.items():
        if options[name] != only:
            raise ConfigError(f"{name}={options[name]} must be {only}: GPT-2's layout has nothing else (to_gpt2)")
    vocab, outputs = options["vocab"], options["outputs"]
    if vocab is None:
        raise ConfigError("vocab=None must be a number of tokens: GPT-2 reads no embeddings (to_gpt2)")
    if outputs not in (None, vocab):
        raise ConfigError(f"outputs={outputs} must be None (tied) or vocab={vocab} in GPT-2's layout (to_gpt2)")


def _config(options: Mapping[str, Any]) -> dict[str, Any]:
    sizes = {
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": options["vocab"],
        "n_positions": options["max_length"],
        "n_embd": options["width"],
        "n_layer": options["layers"],
        "n_head": options["heads"],
        "n_inner": options["hidden_multiple"] * options["width"],
        "tie_word_embeddings": options["outputs"] is None,
        "bos_token_id": None,
        "eos_token_id": None,
    }
    return DEFAULTS | sizes | dict.fromkeys(DROPOUTS, options["dropout"])


# --- in ---------------------------------------------------------------------------------------------------------------


def from_gpt2(folder: Path | str, *, dropout: float | None = None) -> Transformer:
    """The decoder of a GPT-2 folder, weights in float32.

    Dropout is one number here: where the three of the folder differ, give it.
    """
    folder = Path(folder)
    config = _read_config(folder)
    options = _options(config, dropout)
    tensors = _read_tensors(folder)
    if config["tie_word_embeddings"]:
        _drop_tied(tensors)
    check_sizes({name: config[name] for name in SIZES}, "n_layer", r"h\.(\d+)\.", tensors)
    like = skeleton(options)
    known = {_outside_name(name): name for name in names_of(like)}
    return filled(like, {known.get(name, name): tensor for name, tensor in tensors.items()})


def check_sizes(sizes: Mapping[str, int | None], layers: str, block: str, tensors: Mapping[str, np.ndarray]) -> None:
    """ConfigError where there are more layers than the tensors have, or a size that they have not numbers enough for.

    Before a model of these sizes is built, which takes as long as they say.
    """
    held = len({found[1] for found in (re.match(block, name) for name in tensors) if found})
    if sizes[layers] != held:
        raise ConfigError(f"{layers}={sizes[layers]} must be {held}, the layers that the tensors are of")
    numbers = sum(tensor.size for tensor in tensors.values())
    for name, size in sizes.items():
        if size is not None and not 1 <= size <= numbers:
            raise ConfigError(f"{name}={short(size)} must lie in 1..{numbers}, the numbers that the tensors hold")


def skeleton(arguments: Mapping[str, Any]) -> Transformer:
    """A transformer of shapes instead of arrays."""
    try:
        return eqx.filter_eval_shape(partial(Transformer, **arguments), key=jax.random.key(0))
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _drop_tied(tensors: dict[str, np.ndarray]) -> None:
    """A tied table may be written once more, as the head that it is."""
    table, head = tensors.get("wte.weight"), tensors.pop("lm_head.weight", None)
    if head is not None and (table is None or head.tobytes() != table.tobytes()):
        raise ConfigError(
            "tensor lm_head.weight must be equal to wte.weight where tie_word_embeddings=True (from_gpt2)"
        )


def _read_config(folder: Path) -> dict[str, Any]:
    try:
        found = parse(read_file(folder / CONFIG))
    except ValueError as error:
        raise Damaged(folder, f"{CONFIG}: not readable as JSON: {error}") from error
    if not isinstance(found, dict):
        raise Damaged(folder, f"{CONFIG}: not a JSON object")
    config = DEFAULTS | found
    for name, allowed in THEIRS.items():
        if not any(type(config[name]) is type(one) and config[name] == one for one in allowed):
            words = " or ".join(str(value) for value in allowed)
            raise ConfigError(f"{name}={short(config[name])} must be {words}: the decoder has nothing else (from_gpt2)")
    for name in SIZES:
        if (type(config[name]) is not int or config[name] < 1) and (name, config[name]) != ("n_inner", None):
            raise ConfigError(f"{name}={short(config[name])} must be a whole number of at least 1 (from_gpt2)")
    for name in DROPOUTS:
        if type(config[name]) not in (int, float) or not 0 <= config[name] < 1:
            raise ConfigError(f"{name}={short(config[name])} must be at least 0 and below 1 (from_gpt2)")
    if type(config["tie_word_embeddings"]) is not bool:
        raise ConfigError(
            f"tie_word_embeddings={short(config['tie_word_embeddings'])} must be true or false (from_gpt2)"
        )
    return config


def _options(config: Mapping[str, Any], dropout: float | None) -> dict[str, Any]:
    width, hidden = config["n_embd"], config["n_inner"] or 4 * config["n_embd"]
    if hidden % width:
        raise ConfigError(f"n_inner={hidden} must be a multiple of n_embd={width} (from_gpt2)")
    rates = {config[name] for name in DROPOUTS}
    if dropout is None and len(rates) > 1:
        words = ", ".join(f"{name}={config[name]}" for name in DROPOUTS)
        raise ConfigError(f"{words} must be equal, or dropout given: the decoder has one (from_gpt2)")
    return {
        "vocab": config["vocab_size"],
        "width": width,
        "layers": config["n_layer"],
        "heads": config["n_head"],
        "causal": True,
        "positions": "learned",
        "max_length": config["n_positions"],
        "outputs": None if config["tie_word_embeddings"] else config["vocab_size"],
        "hidden_multiple": hidden // width,
        "dropout": float(rates.pop()) if dropout is None else dropout,
    }


def _read_tensors(folder: Path) -> dict[str, np.ndarray]:
    """The tensors in float32, without the prefix of the language model and without the mask of old checkpoints."""
    try:
        found = decode_arrays(read_file(folder / WEIGHTS))
    except ValueError as error:
        raise Damaged(folder, f"{WEIGHTS}: {error}") from error
    tensors = {name.removeprefix("transformer."): tensor for name, tensor in found.items()}
    if len(tensors) < len(found):
        twice = next(name for name in tensors if name in found and f"transformer.{name}" in found)
        raise ConfigError(f"tensor {twice} must be there once, with the prefix transformer. or without (from_gpt2)")
    for name, tensor in tensors.items():
        if tensor.dtype not in (np.float32, np.float16) and not BUFFERS.fullmatch(name):
            raise ConfigError(f"tensor {name} is {tensor.dtype.name} and must be float32 or float16 (from_gpt2)")
    return {name: tensor.astype(np.float32) for name, tensor in tensors.items() if not BUFFERS.fullmatch(name)}


# --- names ------------------------------------------------------------------------------------------------------------


def _outside_name(name: str) -> str:
    """GPT-2's name of one of our tensors, without the prefix `transformer.`.

    >>> _outside_name("blocks.3.mlp.expand.bias"), _outside_name("table")
    ('h.3.mlp.c_fc.bias', 'wte.weight')
    """
    inside = re.fullmatch(r"blocks\.(\d+)\.(.+)\.(weight|bias)", name)
    if inside:
        return f"h.{inside[1]}.{INSIDE[inside[2]]}.{inside[3]}"
    stem, _, kind = name.rpartition(".")
    return OUTSIDE[name] if name in OUTSIDE else f"{OUTSIDE[stem]}.{kind}"


def _prefixed(name: str) -> str:
    """The name as GPT2LMHeadModel has it."""
    return name if name.startswith("lm_head") else f"transformer.{name}"
