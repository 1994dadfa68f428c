"""A model as named tensors, and back: every array of the pytree under its path, `blocks.0.attention.qkv.weight`."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.config import ConfigError


def named(model: Any) -> dict[str, np.ndarray]:
    """The tensors of a model by their names, in the order of its fields.

    >>> named({"first": jnp.zeros(2, dtype=jnp.float32), "rest": (jnp.ones((), dtype=jnp.int32),)})
    {'first': array([0., 0.], dtype=float32), 'rest.0': array(1, dtype=int32)}
    """
    leaves, names = jax.tree.leaves(model), names_of(model)
    for name, leaf in zip(names, leaves, strict=True):
        if not isinstance(leaf, (jax.Array, np.ndarray)):
            what = f"{name} of {type(model).__name__}" if name else "a model"
            raise ConfigError(f"{what} must be an array, not {type(leaf).__name__}")
    return {name: np.asarray(leaf) for name, leaf in zip(names, leaves, strict=True)}


def names_of(model: Any) -> list[str]:
    """The names of a model's leaves, be they arrays or the shapes of arrays."""
    paths, _ = jax.tree_util.tree_flatten_with_path(model)
    return [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in paths]


def filled(like: Any, tensors: Mapping[str, np.ndarray]) -> Any:
    """The model that is built as `like` is, with these tensors; names, shapes and dtypes must be the same."""
    names, kind = names_of(like), type(like).__name__
    known = set(names)
    different = [name for name in (*names, *tensors) if name not in tensors or name not in known]
    if different:
        there = "is missing" if different[0] not in tensors else "is not known"
        some = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
        raise ConfigError(f"tensor {different[0]} of {kind} {there} (tensors: {some})")
    leaves = [_like(name, leaf, tensors[name]) for name, leaf in zip(names, jax.tree.leaves(like), strict=True)]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def _like(name: str, leaf: Any, tensor: np.ndarray) -> jax.Array:
    if tensor.shape != leaf.shape or tensor.dtype != leaf.dtype:
        found, expected = (f"{part.dtype.name}{list(part.shape)}" for part in (tensor, leaf))
        raise ConfigError(f"tensor {name} is {found} and must be {expected}")
    array = jnp.asarray(tensor)
    if array.dtype != tensor.dtype:
        raise ConfigError(f"tensor {name} is {tensor.dtype.name}: read it inside jax.enable_x64(True)")
    return array
