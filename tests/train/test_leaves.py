"""Models as named arrays and back: to the bit, by path or by number, with shapes checked."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.nn.transformer import Transformer
from stairwise.train.leaves import named_leaves, rebuilt, stored


def transformer(seed=0, dtype="float32"):
    return Transformer(
        vocab=3,
        width=8,
        layers=2,
        heads=2,
        causal=True,
        positions="learned",
        max_length=4,
        parameter_dtype=dtype,
        key=jax.random.key(seed),
    )


@pytest.mark.parametrize("name", ["{path}", "weights {path}", "weights {number:02d}"])
def test_a_model_comes_back_to_the_bit(name):
    model = transformer(seed=1)
    arrays = {f"train/{key}": np.asarray(leaf) for key, leaf in named_leaves(model, name).items()}
    assert len(arrays) == len(jax.tree.leaves(model))
    found = rebuilt(transformer, arrays, name)
    assert jax.tree.structure(found) == jax.tree.structure(model)
    jax.tree.map(np.testing.assert_array_equal, found, model)


def test_names_are_paths_of_fields():
    assert {"table", "blocks.0.mlp.expand.weight", "blocks.1.attention.out.bias"} <= named_leaves(transformer()).keys()
    assert list(named_leaves(jnp.zeros(2, dtype=jnp.float32))) == ["model"]


def test_arrays_take_the_number_format_of_the_model():
    arrays = {
        f"last/{name}": leaf.astype(jnp.float32) for name, leaf in named_leaves(transformer(2, "bfloat16")).items()
    }
    found = rebuilt(lambda: transformer(0, "bfloat16"), arrays, stage="last")
    assert found.table.dtype == jnp.bfloat16
    np.testing.assert_array_equal(found.table, transformer(2, "bfloat16").table)


def test_a_config_tells_how_its_model_is_rebuilt():
    arrays = {f"train/{name}": leaf for name, leaf in named_leaves(transformer(seed=5)).items()}
    model = stored(lambda seed: transformer(seed))(7, arrays)
    np.testing.assert_array_equal(model.table, transformer(seed=5).table)


def test_what_does_not_fit_is_named():
    arrays = {f"train/{name}": leaf for name, leaf in named_leaves(transformer()).items()}
    with pytest.raises(ValueError, match=r"train/table has shape \(2, 2\) and must have \(3, 8\)"):
        rebuilt(transformer, {**arrays, "train/table": np.zeros((2, 2))})
    with pytest.raises(KeyError, match="train/table"):
        rebuilt(transformer, {name: array for name, array in arrays.items() if name != "train/table"})
