"""The standard pre-norm transformer, decoder or encoder, for one example; `vmap` makes batches.

    h = embed(tokens) + positions
    h = h + attention(norm(h)),  h = h + mlp(norm(h))      in every layer
    logits = norm(h) head^T

The details are GPT-2's, so that weights can move between the two: GELU in its tanh form, LayerNorm with bias and
eps 1e-5, biases everywhere but in the head, weights N(0, std^2) with std 0.02, and std / sqrt(2 layers) for the two
projections of each layer that write to the residual stream. Other parts are chosen by name (`stairwise.nn.parts`).
"""

from collections.abc import Callable
from functools import partial
from operator import itemgetter
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Integer, PRNGKeyArray

from stairwise.nn import rows
from stairwise.nn.attention import Cache, Linear, MultiHeadAttention, Product, Scale, attention_mask, dropout, normals
from stairwise.nn.mixers import Mixer, Recurrence, make_mixer
from stairwise.nn.parts import NORMS, SOFTMAX, Parts, check_parts
from stairwise.nn.positions import Positions, RandomisedPositions, lookup
from stairwise.nn.relative import make_positions
from stairwise.nn.rows import Update, add_norm_rows, norm_rows, updated
from stairwise.nn.taps import scope, tap, tapped

Norm = eqx.nn.LayerNorm | eqx.nn.RMSNorm | None
PLACES = 2**31 - 1  # folded into a call's key for random places; dropout splits the same key into a few


class MLP(eqx.Module):
    """A perceptron with one hidden layer, applied to every position by itself: GELU(x W_1 + b_1) W_2 + b_2."""

    expand: Linear
    contract: Linear

    def __init__(self, width: int, hidden: int, *, std: Scale, out_std: Scale, dtype: str, key: PRNGKeyArray):
        expand, contract = normals(key, (width, hidden), (hidden, width))
        self.expand = Linear((std * expand).astype(dtype))
        self.contract = Linear((out_std * contract).astype(dtype))

    def __call__(self, x: Float[Array, "length width"]) -> Float[Array, "length width"]:
        if rows.on_gpu(x.dtype) and not tapped():
            hidden = x @ self.expand.weight.astype(x.dtype)
            if rows.fits(hidden):
                return self.contract(rows.activated(hidden, self.expand.bias))
        hidden = jax.nn.gelu(tap("mlp.pre", self.expand(x)), approximate=True)
        return self.contract(tap("mlp.post", hidden))


class Block(eqx.Module):
    """One layer: attention, then the perceptron, each behind a norm and beside a residual connection.

    In the place of attention may be another mixer; the field keeps the name that stored weights have.
    """

    attention_norm: Norm
    attention: Mixer
    mlp_norm: Norm
    mlp: MLP
    attention_residual: bool = eqx.field(static=True)
    mlp_residual: bool = eqx.field(static=True)
    dropout: float = eqx.field(static=True)

    def __call__(
        self, stream: Float[Array, "length width"], mix: Callable[..., Any], aside: Any, key: PRNGKeyArray | None
    ) -> tuple[Float[Array, "length width"], Any]:
        """`mix(attention, normed, aside, key)` says how positions meet: all of them, or one and the cache `aside`."""
        mix_key, attention_key, mlp_key = (None, None, None) if key is None else jax.random.split(key, 3)
        stream = tap("resid_pre", stream)
        mixed, aside = mix(self.attention, norm_rows(self.attention_norm, stream), aside, mix_key)
        mixed = tap("attn_out", dropout(mixed, self.dropout, attention_key))
        stream = tap("resid_mid", stream + mixed if self.attention_residual else mixed)
        update = tap("mlp_out", dropout(self.mlp(norm_rows(self.mlp_norm, stream)), self.dropout, mlp_key))
        return tap("resid_post", stream + update if self.mlp_residual else update), aside

    def joined(
        self, stream: Float[Array, "length width"], update: Update | None, mix: Callable[..., Any], aside: Any
    ) -> tuple[Float[Array, "length width"], Update, Any]:
        """The same with fewer passes over memory: the kernel of the next norm adds what the stream is given.

        `update` is what the layer before has left to be added, and the one that comes out is left to the next.
        """
        stream, normed = add_norm_rows(self.attention_norm, stream, update)
        attention, bias = without_bias(self.attention, lambda attention: attention.out)
        mixed, aside = mix(attention, normed, aside, None)
        stream, normed = add_norm_rows(self.mlp_norm, stream, Update(mixed, bias))
        mlp, bias = without_bias(self.mlp, lambda mlp: mlp.contract)
        return stream, Update(mlp(normed), bias), aside

    def joins(self, stream: Float[Array, "length width"], key: PRNGKeyArray | None) -> bool:
        """Whether it may be run so: on a GPU, where nothing is dropped and nobody looks at what is in between."""
        same = (key is None or self.dropout == 0) and self.attention_residual and self.mlp_residual
        attends = isinstance(self.attention, MultiHeadAttention)
        return same and attends and self.mlp_norm is not None and not tapped() and rows.fits(stream)


def without_bias(part: Any, linear: Callable[[Any], Linear]) -> tuple[Any, Float[Array, " width"]]:
    """A part of a layer in which a linear map adds no bias, and that bias."""
    return eqx.tree_at(linear, part, Product(linear(part).weight)), linear(part).bias


class Transformer(eqx.Module):
    """A stack of blocks between an embedding and a linear head; every leaf is an array.

    Parameters keep `parameter_dtype`; the stream is carried in `compute_dtype`, while softmax, norms and logits are
    float32 or better. Dropout (on the embeddings, the attention weights and what the layers add to the stream) acts
    only in calls that bring a key.

    The blocks are a tuple and run by a Python loop: under `lax.scan` only one block would be compiled, but the scan
    stores every intermediate of a layer for the gradient and copies every cache.

    >>> model = Transformer(vocab=2, width=8, layers=1, heads=2, causal=True, positions="rotary", key=jax.random.key(0))
    >>> model(jnp.array([0, 1, 1], dtype=jnp.int32)).shape
    (3, 2)
    """

    table: Float[Array, "vocab width"] | None
    positions: Positions
    blocks: tuple[Block, ...]
    norm: Norm
    head: Float[Array, "outputs width"] | None
    causal: bool = eqx.field(static=True)
    loops: int = eqx.field(static=True)
    dropout: float = eqx.field(static=True)
    compute_dtype: str = eqx.field(static=True)

    def __init__(
        self,
        *,
        vocab: int | None,
        width: int,
        layers: int,
        heads: int,
        causal: bool,
        positions: str,
        max_length: int | None = None,
        outputs: int | None = None,
        hidden_multiple: int = 4,
        mixer: str = SOFTMAX,
        householders: int = 1,
        eigenvalues: str = "positive",
        loops: int = 1,
        norm: bool | str = True,
        attention_residual: bool = True,
        mlp_residual: bool = True,
        dropout: float = 0.0,
        std: Scale = 0.02,
        compute_dtype: str = "float32",
        parameter_dtype: str = "float32",
        key: PRNGKeyArray,
    ):
        """`vocab=None`: the inputs are embeddings. `outputs=None`: the head is the token table (tied).

        `mixer`, `positions` and their options are those of `stairwise.nn.parts`; `max_length` is the size of a learned
        table of positions and of no other use. `norm` is layer, rms or none (True: layer, False: none). The layers
        are run `loops` times.
        """
        _check_sizes(width=width, layers=layers, hidden_multiple=hidden_multiple)
        _check_sizes(vocab=vocab, outputs=outputs, max_length=max_length)
        _check_dtypes(compute_dtype=compute_dtype, parameter_dtype=parameter_dtype)
        if vocab is None and outputs is None:
            raise ValueError("outputs=None must be a number of outputs where vocab=None (Transformer)")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout={dropout} must be at least 0 and below 1 (Transformer)")
        kind = ("layer" if norm else "none") if isinstance(norm, bool) else norm
        if kind not in NORMS:
            raise ValueError(f"norm={norm} must be one of {', '.join(NORMS)} (Transformer)")
        named = {"mixer": mixer, "householders": householders, "eigenvalues": eigenvalues}
        check_parts(Parts(loops=loops, **named), positions, width, heads, causal=causal)
        table_key, positions_key, head_key, blocks_key = jax.random.split(key, 4)
        dtype = parameter_dtype
        initial = {"std": std, "out_std": std / (2 * layers * loops) ** 0.5, "dtype": dtype}

        def table(rows: int, key: PRNGKeyArray) -> Float[Array, "rows width"]:
            return (std * normals(key, (rows, width))[0]).astype(dtype)

        def new_norm() -> Norm:
            if kind == "rms":
                return eqx.nn.RMSNorm(width, eps=1e-5, use_bias=False, dtype=jnp.dtype(dtype))
            return eqx.nn.LayerNorm(width, eps=1e-5, dtype=jnp.dtype(dtype)) if kind == "layer" else None

        def block(key: PRNGKeyArray) -> Block:
            attention_key, mlp_key = jax.random.split(key)
            return Block(
                attention_norm=new_norm(),
                attention=make_mixer(width=width, heads=heads, dropout=dropout, key=attention_key, **named, **initial),
                mlp_norm=new_norm(),
                mlp=MLP(width, hidden_multiple * width, key=mlp_key, **initial),
                attention_residual=attention_residual,
                mlp_residual=mlp_residual,
                dropout=dropout,
            )

        self.table = None if vocab is None else table(vocab, table_key)
        self.positions = make_positions(
            positions, max_length, partial(table, key=positions_key), heads=heads, causal=causal
        )
        stacked = eqx.filter_vmap(block)(jax.random.split(blocks_key, layers))  # one draw to compile, not one a layer
        self.blocks = tuple(jax.tree.map(itemgetter(layer), stacked) for layer in range(layers))
        self.norm = new_norm()
        self.head = None if outputs is None else table(outputs, head_key)
        self.causal = causal
        self.loops = loops
        self.dropout = dropout
        self.compute_dtype = compute_dtype

    def __call__(
        self,
        inputs: Integer[Array, " length"] | Float[Array, "length width"],
        *,
        positions: Integer[Array, " length"] | None = None,
        present: Bool[Array, " length"] | None = None,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "length outputs"]:
        """Logits at every position, from tokens or from embeddings.

        `positions` defaults to 0, 1, …; `present` marks the inputs that are no padding (padding, too, needs a token of
        the vocabulary: any other gives NaN); without a key no dropout, and randomised places are spread evenly.
        """
        return self._forward(inputs, positions, present, key, want_weights=False)[0]

    def with_attention(
        self,
        inputs: Integer[Array, " length"] | Float[Array, "length width"],
        *,
        positions: Integer[Array, " length"] | None = None,
        present: Bool[Array, " length"] | None = None,
        key: PRNGKeyArray | None = None,
    ) -> tuple[Float[Array, "length outputs"], Float[Array, "layers heads length length"]]:
        """Logits, and the attention weights (layer, head, query, key) as they were before dropout."""
        self._check_attends("with_attention")
        logits, weights = self._forward(inputs, positions, present, key, want_weights=True)
        return logits, jnp.stack(weights)

    def at(
        self,
        inputs: Integer[Array, " length"] | Float[Array, "length width"],
        place: Integer[Array, ""],
        *,
        present: Bool[Array, " length"] | None = None,
    ) -> Float[Array, " outputs"]:
        """The logits at one position, `self(inputs)[place]`, without what the last layer does at the others.

        There only keys and values are needed of the other positions.
        """
        if tapped():
            return self(inputs, present=present)[place]
        self._check_length(len(inputs))
        self._check_attends("at")
        counted = jnp.arange(len(inputs), dtype=jnp.int32)
        here, positions = counted == place, self._places(counted, None)
        mask = attention_mask(len(inputs), causal=self.causal, present=present)
        seen = None if mask is None else jnp.any(here[:, None] & mask, axis=0, keepdims=True)
        rotate = partial(self.positions.rotate, positions=positions)

        def row(stream: Float[Array, "length width"]) -> Float[Array, "1 width"]:
            return jnp.sum(jnp.where(here[:, None], stream, 0), axis=0, keepdims=True)  # its gradient scatters nothing

        bias = self.positions.bias(positions, positions)

        def everywhere(attention, normed, _, key):
            return attention(normed, mask, rotate=rotate, bias=bias), None

        def there(attention, normed, aside, key):
            asked = jnp.reshape(place, (1,))  # where places are randomised, nothing turns and nothing is added
            turn = partial(self.positions.rotate, positions=asked)
            own = self.positions.bias(asked, positions)
            return attention.at(aside, normed, seen, rotate=rotate, rotate_asked=turn, bias=own), None

        stream, update = self._embed(inputs, positions), None
        for block in self.stack[:-1]:
            if block.joins(stream, None):
                stream, update, _ = block.joined(stream, update, everywhere, None)
            else:
                stream, _ = block(stream, everywhere, None, None)
        last = self.stack[-1]
        stream, normed = add_norm_rows(last.attention_norm, stream, update)
        stream, _ = last(row(stream), there, normed, None)
        return self._read(stream)[0]

    @property
    def stack(self) -> tuple[Block, ...]:
        """The layers in the order in which they are run."""
        return self.blocks * self.loops

    @property
    def draws(self) -> bool:
        """Whether a call that brings a key differs from one that does not."""
        return self.dropout > 0 or isinstance(self.positions, RandomisedPositions)

    def empty_cache(self, total: int) -> tuple[Any, ...]:
        """What decoding of up to `total` positions starts from: a cache, or a recurrence's state, for every layer."""
        if not self.causal:
            raise ValueError("causal=False must be True to decode position by position (Transformer)")
        self._check_length(total)
        mixer = self.blocks[0].attention
        if isinstance(mixer, Recurrence):
            return tuple(mixer.empty(self.compute_dtype) for _ in self.stack)
        width = len(mixer.out.weight)
        empty = jnp.zeros((total, mixer.heads, width // mixer.heads), dtype=self.compute_dtype)
        return tuple(Cache(empty, empty) for _ in self.stack)

    def decode(
        self,
        item: Integer[Array, ""] | Float[Array, " width"],
        position: Integer[Array, ""],
        cache: tuple[Any, ...],
        places: Integer[Array, " total"] | None = None,
    ) -> tuple[Float[Array, " outputs"], tuple[Any, ...]]:
        """The logits after one token (or embedding) at `position`, given the cache of all positions before it.

        `places` are the positions that the sequence is told, by default 0, 1, …
        """
        if places is None and isinstance(self.positions, RandomisedPositions):
            raise ValueError("places=None must be given where positions are randomised (Transformer.decode)")
        place = position[None] if places is None else places[position][None]
        rotate = partial(self.positions.rotate, positions=place)

        def mix(mixer, normed, layer_cache, key):
            bias = None
            if isinstance(layer_cache, Cache):
                seen = jnp.arange(len(layer_cache.keys), dtype=jnp.int32) if places is None else places
                bias = self.positions.bias(place, seen)
            return mixer.step(normed, layer_cache, position, rotate=rotate, bias=bias)

        stream = self._embed(item[None], place)
        stream, cache = self._through_blocks(stream, mix, cache, None)
        return self._read(stream)[0], cache

    def _forward(self, inputs, positions, present, key, *, want_weights: bool):
        if positions is None:
            self._check_length(len(inputs))
            positions = self._places(jnp.arange(len(inputs), dtype=jnp.int32), key)
        mask = attention_mask(len(inputs), causal=self.causal, present=present)
        rotate = partial(self.positions.rotate, positions=positions)
        bias = self.positions.bias(positions, positions)

        def mix(mixer, normed, _, key):
            if want_weights:
                return mixer.with_weights(normed, mask, rotate=rotate, bias=bias, key=key)
            return mixer(normed, mask, rotate=rotate, bias=bias, key=key), None

        embed_key, blocks_key = (None, None) if key is None else jax.random.split(key)
        stream = dropout(self._embed(inputs, positions), self.dropout, embed_key)
        stream, weights = self._through_blocks(stream, mix, [None] * len(self.stack), blocks_key)
        return self._read(stream), weights

    def _places(self, counted: Integer[Array, " length"], key: PRNGKeyArray | None) -> Integer[Array, " length"]:
        """The positions that a sequence is told: 0, 1, …, or rows of a randomised table."""
        if isinstance(self.positions, RandomisedPositions):
            return self.positions.places(len(counted), None if key is None else jax.random.fold_in(key, PLACES))
        return counted

    def _embed(self, inputs: Array, positions: Integer[Array, " length"]) -> Float[Array, "length width"]:
        if jnp.issubdtype(inputs.dtype, jnp.integer):
            if self.table is None:
                raise ValueError(f"inputs.dtype={inputs.dtype} must be floating: vocab=None (Transformer)")
            inputs = tap("embed", lookup(self.table, inputs))
        return self.positions.add(inputs, positions).astype(self.compute_dtype)

    def _through_blocks(self, stream: Float[Array, "length width"], mix: Callable[..., Any], asides: Any, key: Any):
        keys = [None] * len(self.stack) if key is None else jax.random.split(key, len(self.stack))
        results, update = [], None
        for layer, (block, aside, block_key) in enumerate(zip(self.stack, asides, keys, strict=True)):
            with scope(f"blocks.{layer}"):
                if block.joins(stream, block_key):
                    stream, update, result = block.joined(stream, update, mix, aside)
                else:
                    stream, result = block(stream, mix, aside, block_key)
            results.append(result)
        return updated(stream, update), tuple(results)

    def _read(self, stream: Float[Array, "length width"]) -> Float[Array, "length outputs"]:
        head = self.table if self.head is None else self.head
        assert head is not None  # __init__ refuses a model that has neither
        normed = norm_rows(self.norm, stream)
        dtype = jnp.promote_types(normed.dtype, jnp.float32)
        return jnp.matmul(normed, head.astype(normed.dtype).T, preferred_element_type=dtype)

    def _check_attends(self, asked: str) -> None:
        mixer = self.blocks[0].attention
        if not isinstance(mixer, MultiHeadAttention):
            raise ValueError(f"mixer={type(mixer).__name__} must be softmax attention (Transformer.{asked})")

    def _check_length(self, length: int) -> None:
        limit = self.positions.limit
        if limit is not None and length > limit:
            raise ValueError(f"length={length} must be at most max_length={limit} (Transformer)")


def _check_sizes(**sizes: int | None) -> None:
    for name, size in sizes.items():
        if size is not None and size < 1:
            raise ValueError(f"{name}={size} must be at least 1 (Transformer)")


def _check_dtypes(**dtypes: str) -> None:
    for name, dtype in dtypes.items():
        if dtype not in ("bfloat16", "float32", "float64"):
            raise ValueError(f"{name}={dtype} must be one of bfloat16, float32, float64 (Transformer)")
        if dtype == "float64" and not jax.config.read("jax_enable_x64"):
            raise ValueError(f"{name}=float64 must be built inside jax.enable_x64(True) (Transformer)")
