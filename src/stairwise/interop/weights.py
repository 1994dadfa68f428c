"""Models out as plain safetensors with a description, and back in: trained ones, and those that papers write down.

A folder holds model.safetensors, every array under its path in the model, and stairwise.json: for each tensor its
shape, its dtype and in a line what it is; the paper, the experiment or construction, config, seed and versions; and
the digests. Nothing in it is code: a model is built by the library, from the config, and then filled.
"""

import os
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from stairwise.config import ConfigError, as_dict, from_dict, short, update
from stairwise.interop.folder import DESCRIPTION, check_free, field, read_described, write_described
from stairwise.interop.huggingface import (
    ARGUMENTS,
    CONFIG,
    WEIGHTS,
    arguments_of,
    check_sizes,
    from_gpt2,
    skeleton,
    to_gpt2,
)
from stairwise.interop.tensors import filled, named
from stairwise.lab import registry
from stairwise.lab.api import load_model
from stairwise.lab.contract.experiment import Experiment, check_seed
from stairwise.lab.contract.paper import Construction
from stairwise.lab.run.execute import precision
from stairwise.lab.store import provenance
from stairwise.lab.store.files import Damaged, decode_arrays, encode_arrays
from stairwise.lab.store.shown import shown
from stairwise.lab.store.store import Store
from stairwise.lab.store.trial import StoredTrial
from stairwise.nn.transformer import Transformer

FORMATS = ("safetensors", "gpt2")
# the tensors of the standard transformer; linear maps are [inputs, outputs]
TRANSFORMER = {
    "table": "embeddings of the tokens, [token, width]; also the head where that is tied",
    "positions.table": "learned positions, [position, width]",
    "head": "the head, [output, width]",
    "norm.*": "the norm before the head",
    "blocks.*.attention_norm.*": "the layer's norm before attention",
    "blocks.*.attention.qkv.*": "queries, keys and values of all heads, in this order",
    "blocks.*.attention.out.*": "what attention writes to the stream",
    "blocks.*.mlp_norm.*": "the layer's norm before the perceptron",
    "blocks.*.mlp.expand.*": "first layer of the perceptron; GELU (tanh form) follows",
    "blocks.*.mlp.contract.*": "what the perceptron writes to the stream",
}


# --- out --------------------------------------------------------------------------------------------------------------


def export(
    target: Any,
    folder: Path | str,
    format: str = "safetensors",
    *,
    seed: int = 0,
    changes: Mapping[str, Any] | None = None,
    store: Store | str | None = None,
) -> dict[str, Any]:
    """Writes a model to a new folder, whole or not at all, and returns what is said of it.

    `target` is a stored trial (a record, or the beginning of its digest), a construction ("composition/thm4", at a
    seed and with changes of its config), or a model. `format` is safetensors, which takes every model, or gpt2.
    """
    if format not in FORMATS:
        raise ConfigError(f"format={format} must be one of {', '.join(FORMATS)}")
    folder = Path(folder)
    check_free(folder)
    if isinstance(target, str) and "/" in target:
        model, about = _written(registry.construction(target), seed, changes or {})
    elif changes:
        raise ConfigError(f"{next(iter(changes))} cannot be changed: only a construction's config can, not a trial's")
    elif isinstance(target, str | StoredTrial):
        model, about = _trained(_trial(target, store))
    else:
        model, about = target, {"versions": provenance.versions()}
    about = {"model": f"{type(model).__module__}.{type(model).__qualname__}", **about}
    if format == "gpt2":
        if not isinstance(model, Transformer):
            raise ConfigError(f"format=gpt2 must be safetensors: {about['model']} is not the standard decoder")
        about.pop("arrays", None)
        to_gpt2(model, folder, about)
        return about
    return _write(model, folder, about)


def _written(construction: Construction, seed: int, changes: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    check_seed(seed)
    config = update(construction.Config(), changes)
    about = {
        "paper": _paper(construction.paper),
        "construction": construction.name,
        "says": construction.says,
        "config": as_dict(config),
        "seed": seed,
        "versions": provenance.versions(),
    }
    with precision(construction):
        return construction.build(config, seed), about


def _trial(target: str | StoredTrial, store: Store | str | None) -> StoredTrial:
    if isinstance(target, StoredTrial):
        return target
    opened = store if isinstance(store, Store) else Store.open(store, create=False)
    found = opened.find(target)
    if isinstance(found, StoredTrial):
        return found
    if len(found.trials) != 1:
        some = ", ".join(found.trials[:4]) + (", ..." if len(found.trials) > 4 else "")
        raise ConfigError(f"{target} is a run of {len(found.trials)} trials: name one of them ({some})")
    return opened.read(found.trials[0])


def _trained(trial: StoredTrial) -> tuple[Any, dict[str, Any]]:
    experiment = registry.experiment(trial.experiment)
    with precision(experiment):
        model = load_model(trial)
    return model, {
        "paper": _paper(experiment.paper),
        "experiment": trial.experiment,
        "version": trial.version,
        "says": experiment.says,
        "config": trial.config_dict,
        "seed": trial.seed,
        "arm": shown(trial).arm,
        "digest": trial.digest,
        "status": trial.status,
        "versions": trial.run.get("versions", {}),
        "arrays": _arrays(model, trial),
    }


def _arrays(model: Any, trial: StoredTrial) -> dict[str, str]:
    """The trial's arrays that are tensors of the model, under which name: what the model is built from again."""
    tensors = named(model)
    found = {}
    for stored in trial.arrays():
        array = trial.array(stored)
        for name, tensor in tensors.items():
            if array.dtype == tensor.dtype and array.shape == tensor.shape and array.tobytes() == tensor.tobytes():
                found[stored] = name
                break
    return found


def _write(model: Any, folder: Path, about: Mapping[str, Any]) -> dict[str, Any]:
    tensors = named(model)
    meanings = _meanings(model, about)
    description = {
        "layout": "safetensors",
        **about,
        "tensors": {
            name: {"shape": list(tensor.shape), "dtype": tensor.dtype.name, "meaning": _meaning(name, meanings)}
            for name, tensor in tensors.items()
        },
    }
    if isinstance(model, Transformer):
        arguments = arguments_of(model)
        if jax.tree.structure(skeleton(arguments)) == jax.tree.structure(model):
            description["arguments"] = arguments
    try:
        data = encode_arrays(tensors)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    write_described(folder, {WEIGHTS: data}, description)
    return description


def _paper(id: str) -> dict[str, Any]:
    paper = registry.paper(id)
    return {"id": id, "title": paper.title, "authors": paper.authors, "year": paper.year}


def _meanings(model: Any, about: Mapping[str, Any]) -> Mapping[str, str]:
    if isinstance(model, Transformer):
        return TRANSFORMER
    return registry.paper(about["paper"]["id"]).tensors if "paper" in about else {}


def _meaning(name: str, meanings: Mapping[str, str]) -> str:
    return next((meaning for pattern, meaning in meanings.items() if fnmatchcase(name, pattern)), "")


# --- in ---------------------------------------------------------------------------------------------------------------


def read(folder: Path | str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The description and the tensors of an exported folder, every byte checked."""
    folder = Path(folder)
    description, files = read_described(folder)
    try:
        return description, decode_arrays(files[WEIGHTS])
    except (KeyError, ValueError) as error:
        raise Damaged(folder, f"{WEIGHTS}: {error}") from error


def load(folder: Path | str, *, like: Any = None) -> Any:
    """The model of an exported folder, equal to the bit; also that of a GPT-2 folder that Transformers has saved.

    A model of your own comes back into `like`, one of the same shape.
    """
    folder = Path(folder)
    if not os.path.exists(folder / DESCRIPTION) and os.path.exists(folder / CONFIG):
        return from_gpt2(folder)
    if not os.path.isdir(folder):
        raise ConfigError(f"folder={folder} must be a folder that holds {DESCRIPTION} or GPT-2's {CONFIG}")
    description, tensors = read(folder)
    if like is not None:
        return filled(like, tensors)
    if description.get("layout") == "gpt2":
        return from_gpt2(folder)
    said = partial(field, folder, description)
    if "arguments" in description:
        return filled(_decoder(said("arguments", dict), tensors), tensors)
    if "construction" in description:
        return _rebuilt(registry.construction(said("construction", str)), said, tensors)
    if "experiment" in description:
        return _retrained(registry.experiment(said("experiment", str)), said, tensors)
    raise ConfigError(f"{said('model', str)} is not a model of this library: load(folder, like=MODEL) fills one")


def _decoder(arguments: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> Transformer:
    if arguments.keys() != ARGUMENTS.keys():
        raise ConfigError(f"arguments={short(sorted(arguments))} must be {', '.join(ARGUMENTS)}")
    for name, kinds in ARGUMENTS.items():
        if type(arguments[name]) not in kinds:
            words = " or ".join(kind.__name__.removesuffix("Type") for kind in kinds)
            raise ConfigError(f"{name}={short(arguments[name])} must be {words}")
    sizes = {name: arguments[name] for name, kinds in ARGUMENTS.items() if int in kinds and float not in kinds}
    check_sizes(sizes, "layers", r"blocks\.(\d+)\.", tensors)
    return skeleton(arguments)


def _rebuilt(construction: Construction, said: Callable[..., Any], tensors: Mapping[str, np.ndarray]) -> Any:
    config, seed = from_dict(construction.Config, said("config", dict)), said("seed", int)
    check_seed(seed)
    with precision(construction):
        return filled(construction.build(config, seed), tensors)


def _retrained(experiment: Experiment, said: Callable[..., Any], tensors: Mapping[str, np.ndarray]) -> Any:
    if experiment.model is None or experiment.version != said("version", int):
        raise ConfigError(f"{experiment.name} has another version than {said('version', int)}, which was exported")
    config, names = from_dict(experiment.Config, said("config", dict)), said("arrays", dict)
    for name in names.values():
        if not isinstance(name, str) or name not in tensors:
            raise ConfigError(f"arrays={short(name)} must be a tensor of {WEIGHTS}")
    arrays = {stored: tensors[name] for stored, name in names.items()}
    with precision(experiment):
        try:
            like = experiment.model(config, arrays)
        except KeyError as error:
            words = f"{experiment.name} needs {error}, no tensor: load(folder, like=MODEL) fills one"
            raise ConfigError(words) from None
        except (TypeError, ValueError, IndexError) as error:  # exchanged with each other, say
            raise ConfigError(f"{experiment.name} makes no model of arrays of these shapes") from error
        return filled(like, tensors)
