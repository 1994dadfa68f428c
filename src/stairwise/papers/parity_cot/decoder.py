"""The standard transformer of the experiments: built from its config, read at the supervised rows, its loss."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Integer, PRNGKeyArray

from stairwise.nn.transformer import Transformer
from stairwise.papers.parity_cot.config.training import Decoder
from stairwise.papers.parity_cot.structured import answer_logits
from stairwise.papers.parity_cot.task import Layout


def make_decoder(config: Decoder, length: int, std: float | Float[Array, ""], key: PRNGKeyArray) -> Transformer:
    """GPT-2's architecture on {0, 1} with `length` learned positions; the initial scale may be traced."""
    return Transformer(
        vocab=2,
        width=config.width,
        layers=config.layers,
        heads=config.heads,
        causal=True,
        positions="learned",
        max_length=length,
        dropout=config.dropout,
        std=std,
        compute_dtype=config.compute,
        parameter_dtype=config.parameters,
        key=key,
    )


def logits_of(
    model: Transformer, layout: Layout, tokens: Integer[Array, "batch tokens"], key: PRNGKeyArray | None = None
) -> Float[Array, "batch rows 2"]:
    """Logits at the supervised rows of a batch; with a key and dropout through the dense path, else by tables."""
    read = tokens[:, : layout.length]
    if key is None or model.dropout == 0:
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
