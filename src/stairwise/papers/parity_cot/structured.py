"""The decoder on 0/1 tokens, for a whole batch at once, at the supervised rows only.

Batched on purpose: sharing across the batch is the point. A position can hold two embeddings only, so everything that
the first layer computes before positions meet (norm, queries, keys, values) is a table over position x bit, of 2T rows
instead of batch x T. And the last layer's queries, perceptron and head are needed at the supervised rows alone. One
layer is both first and last: then its scores are a table over (row, bit, position, bit), values are mixed by one matrix
product with the one-hot attention weights, and only the perceptron sees batch x rows vectors.

Exact: the same numbers as `Transformer` gives at those rows (the tests say 1e-10, gradients included). No dropout.
Decoders of other parts (`stairwise.nn.parts`) read every sequence by itself.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Integer

from stairwise.nn.attention import MultiHeadAttention, Product, attend, attend_packed, attention_mask
from stairwise.nn.fused import Shift, on_gpu
from stairwise.nn.positions import LearnedPositions
from stairwise.nn.rows import Update, add_norm_rows, fits, norm_rows, updated
from stairwise.nn.transformer import Block, Norm, Transformer, without_bias

Tokens = Integer[Array, "batch length"]
Added = Float[Array, "... width"] | Update  # to the stream; a product and its bias where a kernel adds both


def answer_logits(model: Transformer, tokens: Tokens, first: int, rows: int) -> Float[Array, "batch rows outputs"]:
    """Logits at positions first .. first+rows-1 of every sequence of the batch."""
    if not has_tables(model):
        return jax.vmap(model)(tokens.astype(jnp.int32))[:, first : first + rows]
    table = embedding_table(model, tokens.shape[1])
    if len(model.blocks) == 1:
        stream = one_layer(model.blocks[0], table, tokens, first, rows)
    else:
        stream, update = first_layer(model.blocks[0], table, tokens)
        for block in model.blocks[1:-1]:
            stream, update = middle_layer(block, stream, update)
        stream = last_layer(model.blocks[-1], stream, update, first, rows)
    return read(model, stream)


def has_tables(model: Transformer) -> bool:
    """Whether the decoder is one whose parts this file knows: softmax, positions at the input, residuals, no loops."""
    block = model.blocks[0]
    attends = isinstance(block.attention, MultiHeadAttention) and isinstance(model.positions, LearnedPositions)
    return attends and block.attention_residual and block.mlp_residual and model.loops == 1


def attention_of(block: Block) -> MultiHeadAttention:
    """The attention of a block of such a decoder."""
    assert isinstance(block.attention, MultiHeadAttention)
    return block.attention


def embedding_table(model: Transformer, length: int) -> Float[Array, "length 2 width"]:
    """What each position holds under each bit: position + token."""
    if not isinstance(model.positions, LearnedPositions) or model.table is None or len(model.table) != 2:
        raise ValueError("the structured path must have learned positions and the vocabulary {0, 1}")
    return (model.positions.table[:length, None] + model.table).astype(model.compute_dtype)


def one_layer(
    block: Block, table: Float[Array, "length 2 width"], tokens: Tokens, first: int, rows: int
) -> Float[Array, "batch rows width"]:
    """The stream behind the only layer, at the supervised rows."""
    length = len(table)
    asked = slice(first, first + rows)
    query, key, value = jnp.moveaxis(projected(attention_of(block), norm(block.attention_norm, table)), 2, 0)
    wide = jnp.promote_types(query.dtype, jnp.float32)
    scale = query.shape[-1] ** 0.5
    scores = jnp.einsum("rahd,tchd->rathc", query[asked], key, preferred_element_type=wide) / scale
    bits = tokens == 1
    by_query = jnp.where(bits[:, asked, None, None, None], scores[:, 1], scores[:, 0])  # (batch, row, key, head, bit)
    chosen = jnp.where(bits[:, None, :, None], by_query[..., 1], by_query[..., 0])
    visible = jnp.arange(length, dtype=jnp.int32) <= jnp.arange(first, first + rows, dtype=jnp.int32)[:, None]
    weights = jax.nn.softmax(jnp.where(visible[:, :, None], chosen, -jnp.inf), axis=2)
    one_hot = jax.nn.one_hot(tokens, 2, dtype=value.dtype)
    spread = weights.astype(value.dtype)[..., None] * one_hot[:, None, :, None, :]
    attended = jnp.einsum("brthc,tchd->brhd", spread, value)
    stream, update = perceptron(block, select(table[asked], tokens[:, asked]), merged(attention_of(block), attended))
    return added(stream, update)


def first_layer(
    block: Block, table: Float[Array, "length 2 width"], tokens: Tokens
) -> tuple[Float[Array, "batch length width"], Added]:
    """The stream behind the first of several layers: its projections come from the table."""
    packed = select(projected(attention_of(block), norm(block.attention_norm, table)), tokens)
    return perceptron(block, select(table, tokens), mixed(attention_of(block), packed))


def middle_layer(
    block: Block, stream: Float[Array, "batch length width"], update: Added
) -> tuple[Float[Array, "batch length width"], Added]:
    stream, normed = add_norm(block.attention_norm, stream, update)
    attention = attention_of(block)
    if not on_gpu(normed.dtype):
        return perceptron(block, stream, mixed(attention, projected(attention, normed)))
    # the kernel adds the bias, as in `MultiHeadAttention`
    packed = (normed @ attention.qkv.weight.astype(normed.dtype)).reshape(*normed.shape[:-1], 3, attention.heads, -1)
    return perceptron(block, stream, mixed(attention, packed, attention.qkv.bias.reshape(packed.shape[2:])))


def last_layer(
    block: Block, stream: Float[Array, "batch length width"], update: Added, first: int, rows: int
) -> Float[Array, "batch rows width"]:
    """The stream behind the last layer at the supervised rows; other positions give keys and values only."""
    stream, normed = add_norm(block.attention_norm, stream, update)
    asked = slice(first, first + rows)
    width = normed.shape[-1]
    weight = attention_of(block).qkv.weight.astype(normed.dtype)
    bias = attention_of(block).qkv.bias.astype(normed.dtype)
    query = heads(attention_of(block), normed[:, asked] @ weight[:, :width] + bias[:width])
    key, value = (
        heads(attention_of(block), part) for part in jnp.split(normed @ weight[:, width:] + bias[width:], 2, axis=-1)
    )
    stream, update = perceptron(block, stream[:, asked], mixed_at(attention_of(block), query, key, value, first))
    return added(stream, update)


# --- parts ------------------------------------------------------------------------------------------------------------


def read(model: Transformer, stream: Float[Array, "batch rows width"]) -> Float[Array, "batch rows outputs"]:
    head = model.table if model.head is None else model.head
    assert head is not None  # embedding_table has refused a model without a vocabulary
    normed = norm(model.norm, stream)
    wide = jnp.promote_types(normed.dtype, jnp.float32)
    return jnp.matmul(normed, head.astype(normed.dtype).T, preferred_element_type=wide)


def perceptron(
    block: Block, stream: Float[Array, "batch rows width"], update: Added
) -> tuple[Float[Array, "batch rows width"], Added]:
    """The stream with its update, and what the perceptron adds to it."""
    stream, normed = add_norm(block.mlp_norm, stream, update)
    flat = normed.reshape(-1, stream.shape[-1])
    if not fits(flat):
        return stream, block.mlp(flat).reshape(stream.shape)
    mlp, bias = without_bias(block.mlp, lambda mlp: mlp.contract)
    return stream, Update(mlp(flat).reshape(stream.shape), bias)


def add_norm(
    layer: Norm, stream: Float[Array, "batch rows width"], update: Added
) -> tuple[Float[Array, "batch rows width"], Float[Array, "batch rows width"]]:
    """The stream with its update, and the norm of that."""
    if not isinstance(update, Update):
        stream = added(stream, update)
        return stream, norm(layer, stream)
    flat = stream.reshape(-1, stream.shape[-1])
    found = add_norm_rows(layer, flat, Update(update.product.reshape(flat.shape), update.bias))
    return found[0].reshape(stream.shape), found[1].reshape(stream.shape)


def added(stream: Float[Array, "batch rows width"], update: Added) -> Float[Array, "batch rows width"]:
    return updated(stream, update) if isinstance(update, Update) else stream + update


def norm(layer: Norm, stream: Float[Array, "*places width"]) -> Float[Array, "*places width"]:
    """The norm of every vector."""
    return norm_rows(layer, stream.reshape(-1, stream.shape[-1])).reshape(stream.shape)


def projected(
    attention: MultiHeadAttention, normed: Float[Array, "*places width"]
) -> Float[Array, "*places 3 heads each"]:
    """Queries, keys and values."""
    return attention.qkv(normed).reshape(*normed.shape[:-1], 3, attention.heads, -1)


def heads(attention: MultiHeadAttention, vectors: Float[Array, "*places width"]) -> Float[Array, "*places heads each"]:
    return vectors.reshape(*vectors.shape[:-1], attention.heads, -1)


def select(table: Float[Array, "length 2 *rest"], tokens: Tokens) -> Float[Array, "batch length *rest"]:
    """The entry of each position under the bit that it holds."""
    bits = (tokens == 1).reshape(*tokens.shape, *[1] * (table.ndim - 2))
    return jnp.where(bits, table[:, 1], table[:, 0])


def mixed(
    attention: MultiHeadAttention, packed: Float[Array, "batch length 3 heads each"], shift: Shift = None
) -> Added:
    """Causal attention of all positions, and its output projection; `shift` is still to be added to `packed`."""
    mask = attention_mask(packed.shape[1], causal=True)
    return merged(attention, jax.vmap(lambda one: attend_packed(one, mask, shift))(packed))


def mixed_at(
    attention: MultiHeadAttention,
    query: Float[Array, "batch queries heads each"],
    key: Float[Array, "batch length heads each"],
    value: Float[Array, "batch length heads each"],
    first: int,
) -> Added:
    """The same of the positions first, first+1, ... to all before them."""
    place = jnp.arange(first, first + query.shape[1], dtype=jnp.int32)
    mask = jnp.arange(key.shape[1], dtype=jnp.int32) <= place[:, None]
    return merged(attention, jax.vmap(lambda q, k, v: attend(q, k, v, mask))(query, key, value))


def merged(attention: MultiHeadAttention, attended: Float[Array, "batch queries heads each"]) -> Added:
    """The output projection, whose bias is left to the next norm where a kernel adds it."""
    vectors = attended.reshape(*attended.shape[:2], -1)
    if not fits(vectors.reshape(-1, vectors.shape[-1])):
        return attention.out(vectors)
    return Update(Product(attention.out.weight)(vectors), attention.out.bias)
