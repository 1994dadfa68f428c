"""The same training with the decoder kept: its weights are stored beside what was measured, and can be exported."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from stairwise.nn.transformer import Transformer
from stairwise.papers.parity_cot.config.training import Training
from stairwise.papers.parity_cot.decoder import make_decoder
from stairwise.papers.parity_cot.task import Layout
from stairwise.papers.parity_cot.train import State, finish, training
from stairwise.train.loop import RunningTrial
from stairwise.train.stage import Stage


def training_kept(config: Training) -> list[Stage]:
    """The one stage of `training`, which also hands over its decoder."""
    (stage,) = training(config)
    return [dataclasses.replace(stage, finish=finish_kept)]


def finish_kept(trial: RunningTrial[Training], state: State, key) -> tuple[None, dict[str, Array]]:
    carry, arrays = finish(trial, state, key)
    return carry, arrays | {name_of(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(state.model)}


def stored_model(config: Training, arrays: dict[str, Any]) -> Transformer:
    """The trained decoder of a stored trial, in the precision of its training (float32 holds all of bfloat16)."""
    key, length = jax.random.key(0), Layout.of(config.task).length
    like = eqx.filter_eval_shape(lambda: make_decoder(config.decoder, length, config.decoder.std, key))
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: jnp.asarray(arrays[f"train/{name_of(path)}"], dtype=leaf.dtype), like
    )


def name_of(path: Any) -> str:
    """What the tensor at a path of the decoder is stored as."""
    return f"weights {jax.tree_util.keystr(path, simple=True, separator='.')}"
