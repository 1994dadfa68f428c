"""A model as named arrays, and the model again from them: what a stage stores, and how it is read back.

A name is made from a leaf's `path` in the model (`blocks.0.mlp.expand.weight`) and its `number` in the order of leaves.

>>> import jax.numpy as jnp
>>> model = {"A": jnp.zeros((2, 3)), "b": jnp.ones(2)}
>>> sorted(named_leaves(model))
['A', 'b']
>>> sorted(named_leaves(model, "weights {number:02d}"))
['weights 00', 'weights 01']
>>> rebuilt(lambda: model, {"train/A": jnp.zeros((2, 3)), "train/b": jnp.full(2, 7)})["b"]
Array([7., 7.], dtype=float32)
"""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

ALONE = "model"  # the name of a model that is one array


def named_leaves(model: Any, name: str = "{path}") -> dict[str, Array]:
    """The arrays of a model by name; `name` is a format of `path` and `number`."""
    leaves = jax.tree_util.tree_leaves_with_path(eqx.filter(model, eqx.is_array))
    return {_name(name, number, path): leaf for number, (path, leaf) in enumerate(leaves)}


def rebuilt(make: Callable[[], Any], arrays: Mapping[str, Any], name: str = "{path}", stage: str = "train") -> Any:
    """The model that `named_leaves` took apart in a stage; `make` builds one like it, of which only shapes are used.

    Leaves take the number format that `make` gives them. A name that is missing is a KeyError.
    """
    like, static = eqx.partition(eqx.filter_eval_shape(make), _is_shape)
    paths, structure = jax.tree_util.tree_flatten_with_path(like)
    prefix = f"{stage}/" if stage else ""
    found = [_fitting(arrays, f"{prefix}{_name(name, n, path)}", leaf) for n, (path, leaf) in enumerate(paths)]
    return eqx.combine(jax.tree.unflatten(structure, found), static)


def stored(
    make: Callable[[Any], Any], name: str = "{path}", stage: str = "train"
) -> Callable[[Any, Mapping[str, Any]], Any]:
    """`Experiment(model=stored(make))`: a trial's model from its config and its arrays; `make(config)` builds one."""
    return lambda config, arrays: rebuilt(lambda: make(config), arrays, name, stage)


def _is_shape(leaf: Any) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct)


def _name(form: str, number: int, path: Any) -> str:
    return form.format(number=number, path=jax.tree_util.keystr(path, simple=True, separator=".") or ALONE)


def _fitting(arrays: Mapping[str, Any], name: str, leaf: jax.ShapeDtypeStruct) -> Array:
    array = arrays[name]
    if array.shape != leaf.shape:
        raise ValueError(f"{name} has shape {array.shape} and must have {leaf.shape} (rebuilt)")
    return jnp.asarray(array, dtype=leaf.dtype)
