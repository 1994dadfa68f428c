"""A Hugging Face causal language model from its folder or by its name; ValueError, in one line, says why there is none.

Transformers fills up what the weights lack with random numbers, and reads a model of another kind as well as it can.
Here a model is given out only if every tensor that it needs was in its files and is finite, and if no token sees those
after it. PyTorch and Transformers (the extra `hf`) are imported when first used.
"""

import json
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stairwise.extras import missing

MISSING = missing("a Hugging Face model", "hf")
CONFIG, GENERATION, TOKENIZER = "config.json", "generation_config.json", "tokenizer"
LAYERS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers")  # under which configs say how many
SMALL = 2**26  # weights of a model that is loaded whatever its files hold, to name what they lack
PROBE = "1 + 1 ="


def load(name: str, *, device: str = "auto", dtype: str = "auto", **options: Any) -> tuple[Any, Any]:
    """The network, on its device and without dropout, and its tokenizer; `options` are those of `from_pretrained`."""
    try:
        import torch  # noqa: F401
        from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig
    except ImportError:
        raise ValueError(MISSING) from None

    place = _place(device)
    path = os.path.expanduser(name)
    folder = Path(path) if os.path.isdir(path) else None
    if folder is None and name.startswith((".", "/", "~")):
        raise ValueError(f"model={name}: there is no such folder")
    source, known = str(folder or name), {"trust_remote_code": False}  # never asks, never runs a model's own code
    files = [] if folder is None else sorted((*folder.glob("*.safetensors"), *folder.glob("pytorch_model*.bin")))
    weights = files[0].name if len(files) == 1 else "its weights"
    auto: Any = AutoModelForCausalLM  # its own types are too narrow
    with _quiet():
        if folder is not None:
            _check_layers(name, folder, sum(_tensors(name, file) for file in files))
        with _told(name, CONFIG):
            config = AutoConfig.from_pretrained(source, **known)
            if files:
                _check_size(auto, config, sum(file.stat().st_size for file in files))
        with _told(name, GENERATION):
            if folder is not None and (folder / GENERATION).exists():  # the library passes over a broken one
                GenerationConfig.from_pretrained(source)
        with _told(name, weights):
            network, report = auto.from_pretrained(
                source,
                config=config,
                dtype=dtype,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # the report has them
                **known,
                **options,
            )
            _check_loaded(network, report)
        with _told(name, TOKENIZER):
            tokenizer = AutoTokenizer.from_pretrained(source, **known)
            probe = tokenizer(PROBE)["input_ids"]
            if not probe:  # made up by the library where the folder has none
                raise ValueError("it has no tokenizer that reads text")
        check_tokens(name, network, probe)
        with _told(name, weights):
            network = network.to(place).eval()
            _check_causal(network, probe)
    return network, tokenizer


def check_tokens(name: str, network: Any, tokens: Iterable[int]) -> None:
    """ValueError where a token of the tokenizer is none of the network's."""
    rows, largest = network.get_input_embeddings().weight.shape[0], max(tokens)
    if largest >= rows:
        raise _refusal(name, TOKENIZER, f"token {largest} must lie below {rows}, the tokens that the weights know")


# --- refusals ---------------------------------------------------------------------------------------------------------


def _refusal(name: str, file: str, reason: str) -> ValueError:
    return ValueError(f"model={name} cannot be loaded as a causal language model: {file}: {reason}")


@contextmanager
def _told(name: str, file: str) -> Iterator[None]:
    """What the library says of a model that it cannot read, in one line; there is no end to the types of its errors."""
    try:
        yield
    except Exception as error:
        reason = f"unknown {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
        raise _refusal(name, file, reason[:200] or type(error).__name__) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the library's progress bar, warnings, and table of what it has made up."""
    from transformers.utils import logging

    before = logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.set_verbosity(before)


# --- what is checked --------------------------------------------------------------------------------------------------


def _place(device: str) -> str:
    import torch

    place = device if device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    if not re.fullmatch(r"cpu|(cuda|mps|xpu)(:\d{1,4})?", place):
        raise ValueError(f"device={device} must be auto, cpu, cuda or cuda:1")
    try:
        torch.empty(0, device=place)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device={device} is not here: {str(error).splitlines()[0]}") from None
    return place


def _tensors(name: str, file: Path) -> int:
    """How many tensors a safetensors file has; what cannot be read is refused by its name."""
    from safetensors import safe_open

    with _told(name, file.name):
        return len(safe_open(file, "np").keys()) if file.suffix == ".safetensors" else 0


def _check_layers(name: str, folder: Path, tensors: int) -> None:
    """As many layers as there are tensors at most: the library would build them one after the other, for hours."""
    try:
        config = json.loads((folder / CONFIG).read_bytes())
    except (OSError, ValueError, RecursionError):
        return  # the library says what is wrong with it
    for field in LAYERS if tensors and isinstance(config, dict) else ():
        layers = config.get(field, 1)
        if isinstance(layers, int | float) and not 1 <= layers <= tensors:
            raise _refusal(name, CONFIG, f"{field}={layers:g} must lie in 1..{tensors}, the tensors in the folder")


def _check_size(auto: Any, config: Any, held: int) -> None:
    """About as many weights as the files can hold: what they lack, the library would make up first."""
    import torch

    with torch.device("meta"):  # shapes only
        needed = sum(weight.numel() for weight in auto.from_config(config).parameters())
    most = max(SMALL, held * (32 if hasattr(config, "quantization_config") else 4))
    if needed > most:
        raise ValueError(f"{config.model_type} of these sizes has {needed:,} weights, and its files {held:,} bytes")


def _check_loaded(network: Any, report: dict[str, Any]) -> None:
    kind, state, modules = network.config.model_type, list(network.state_dict()), dict(network.named_modules())
    absent = [tensor for tensor in state if tensor in report["missing_keys"]] or sorted(report["missing_keys"])
    if absent:
        more = f" (and {len(absent) - 1} more)" if len(absent) > 1 else ""
        raise ValueError(f"tensor {absent[0]} of {kind} is missing{more}")
    for tensor, found, expected in sorted(report["mismatched_keys"]):
        raise ValueError(f"tensor {tensor} is {list(found)} and must be {list(expected)}")
    shapes = {_numberless(tensor) for tensor in state}
    for tensor in sorted(report["unexpected_keys"]):
        parent = modules.get(tensor.rpartition(".")[0])
        inside = parent is not None and any(True for _ in parent.parameters(recurse=False))
        if inside or _numberless(tensor) in shapes:  # not a head or a mask beside the network, but a part of it
            raise ValueError(f"tensor {tensor} has no place in {kind} as {CONFIG} describes it")
    for tensor, weight in network.named_parameters():
        if weight.is_floating_point() and weight.element_size() > 1 and weight.numel():
            low, high = weight.detach().aminmax()  # NaN comes through; no copy is made
            if not (low.isfinite() and high.isfinite()):
                raise ValueError(f"tensor {tensor} is not finite")


def _numberless(tensor: str) -> str:
    return re.sub(r"\d+", "0", tensor)


def _check_causal(network: Any, probe: Sequence[int]) -> None:
    """The logits of a text are finite, and those before its last token stay when that is another one."""
    import torch

    if len(probe) < 2:
        return
    other = [*probe[:-1], int(probe[-1] == 0)]
    with torch.inference_mode():
        logits = network(torch.tensor([probe, other], device=network.device), use_cache=False).logits[:, :-1].float()
    if not logits.isfinite().all():
        raise ValueError("the logits of a short text are not finite")
    near = torch.finfo(network.dtype).eps ** 0.5 * logits.abs().max()
    if (logits[0] - logits[1]).abs().max() > near:
        raise ValueError(f"{network.config.model_type} is not causal: its tokens see those after them")
