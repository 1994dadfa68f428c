"""The standard transformer of the experiments: built from its config, read at the supervised rows, its loss."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Integer, PRNGKeyArray

from stairwise.nn.transformer import Transformer
from stairwise.papers.parity_cot.config.training import Decoder
from stairwise.papers.parity_cot.structured import answer_logits
from stairwise.papers.parity_cot.task import Layout
from stairwise.train.own import OwnModel


def make_decoder(config: Decoder, length: int, std: float | Float[Array, ""], key: PRNGKeyArray) -> Transformer:
    """GPT-2's architecture on {0, 1}, or another of the config's parts; the initial scale may be traced."""
    sizes = config.arguments(length)
    return Transformer(vocab=2, dropout=config.dropout, std=std, parameter_dtype=config.parameters, key=key, **sizes)


def logits_of(
    model: Transformer | OwnModel,
    layout: Layout,
    tokens: Integer[Array, "batch tokens"],
    key: PRNGKeyArray | None = None,
) -> Float[Array, "batch rows 2"]:
    """Logits at the supervised rows of a batch: by tables, or through the dense path where a key matters (dropout)."""
    read = tokens[:, : layout.length]
    if not isinstance(model, Transformer):
        return jax.vmap(model)(read.astype(jnp.int32))[:, layout.first : layout.first + layout.rows]
    if key is None or not model.draws:
        return answer_logits(model, read, layout.first, layout.rows)
    keys = jax.random.split(key, len(tokens))
    everywhere = jax.vmap(lambda one, own: model(one, key=own))(read.astype(jnp.int32), keys)
    return everywhere[:, layout.first : layout.first + layout.rows]


def cross_entropy(
    logits: Float[Array, "batch rows 2"], labels: Integer[Array, "batch rows"], live: Bool[Array, " rows"]
) -> Float[Array, ""]:
    """-log p(label) averaged over the rows that count: softplus of the wrong logit above the right one."""
    wrong_over_right = jnp.where(labels == 1, -1, 1) * (logits[..., 1] - logits[..., 0])
    return jnp.mean(jnp.mean(jax.nn.softplus(wrong_over_right), axis=0), where=live)
