"""Facts about the kernels of rows: interpreted, they compute what JAX computes, and its gradients."""

import re
from collections import Counter
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

from stairwise.nn import attention, fused, rows
from stairwise.nn.fused import written_for_this_jax
from stairwise.nn.taps import trace
from stairwise.nn.transformer import Transformer
from stairwise.papers.parity_cot import structured
from stairwise.papers.parity_cot.structured import answer_logits
from tests.helpers import assert_close

pytestmark = pytest.mark.skipif(not written_for_this_jax(), reason="this JAX lacks parts that the kernels are made of")
NORMS = {"layer": (rows.Norm(1e-5, True), eqx.nn.LayerNorm), "rms": (rows.Norm(1e-5, False), eqx.nn.RMSNorm)}


def pulled_back(function, given, cotangent):
    """What the function gives, and the cotangents of what it is given; one program."""

    @jax.jit
    def both(given, cotangent):
        found, back = jax.vjp(function, *given)
        return found, back(cotangent)

    return both(given, cotangent)


@partial(jax.jit, static_argnums=(0, 1, 2))
def drawn(count: int, width: int, dtype=jnp.float32):
    """Rows, a scale, a shift, and a cotangent of what comes out."""
    keys = jax.random.split(jax.random.key(3), 4)
    array, cotangent = (jax.random.normal(key, (count, width), dtype=jnp.float32) for key in keys[:2])
    scale, shift = (jax.random.normal(key, (width,), dtype=jnp.float32) for key in keys[2:])
    return (2 * array + 1).astype(dtype), 1 + 0.1 * scale, shift, cotangent.astype(dtype)


@pytest.mark.parametrize("kind", NORMS)
@pytest.mark.parametrize(("count", "width"), [(5, 12), (21, 256), (3, 720)])
def test_the_norms_equal_those_of_equinox(kind, count, width):
    norm, made = NORMS[kind]
    array, scale, shift, cotangent = drawn(count, width)
    wanted, pulled = pulled_back(partial(rows.by_equinox, made, norm.eps), (array, scale, shift), cotangent)
    assert_close(rows.norm_forward(norm, array, scale, shift, interpret=True), wanted, 1e-5)
    found = rows.norm_backward(norm, array, scale, shift, cotangent, interpret=True)
    for ours, theirs in zip(found, pulled, strict=True):
        assert_close(ours, theirs, 2e-5)


@partial(jax.jit, static_argnums=(0, 1))
def drawn_sum(count: int, width: int):
    """A stream, what is added to it, a scale and a shift, and cotangents of the sum and of its norm."""
    stream, scale, shift, cotangent = drawn(count, width)
    keys = jax.random.split(jax.random.key(4), 3)
    product, along = (jax.random.normal(key, (count, width), dtype=jnp.float32) for key in keys[:2])
    bias = jax.random.normal(keys[2], (width,), dtype=jnp.float32)
    return (stream, product, bias, scale, shift), (along, cotangent)


@pytest.mark.parametrize("kind", NORMS)
@pytest.mark.parametrize(("count", "width"), [(5, 12), (21, 256), (3, 720)])
def test_a_sum_and_its_norm_equal_those_of_equinox(kind, count, width):
    norm, made = NORMS[kind]
    given, cotangents = drawn_sum(count, width)
    wanted, pulled = pulled_back(partial(rows.add_by_equinox, made, norm.eps), given, cotangents)
    for ours, theirs in zip(rows.added_forward(norm, *given, interpret=True), wanted, strict=True):
        assert_close(ours, theirs, 1e-5)
    moved, *sums = rows.added_backward(norm, wanted[0], *given[2:], *cotangents, interpret=True)
    for ours, theirs in zip((moved, moved, *sums), pulled, strict=True):
        assert_close(ours, theirs, 2e-5)


def test_their_gradient_is_that_of_jax_where_there_is_no_gpu():
    norm, made = NORMS["layer"]
    given, cotangents = drawn_sum(5, 12)
    plain = partial(rows.add_by_equinox, made, norm.eps)
    wanted, back = pulled_back(plain, given, cotangents)
    found, own = pulled_back(partial(rows.added, norm, plain), given, cotangents)
    for ours, theirs in zip((*found, *own), (*wanted, *back), strict=True):
        assert_close(ours, theirs, 1e-6)


@pytest.mark.parametrize(("count", "width"), [(5, 12), (40, 300)])
def test_gelu_equals_that_of_jax(count, width):
    array, _, bias, cotangent = drawn(count, width)
    wanted, pulled = pulled_back(rows.gelu, (array, bias), cotangent)
    assert_close(rows.gelu_forward(array, bias, interpret=True), wanted, 1e-5)
    for ours, theirs in zip(rows.gelu_backward(array, bias, cotangent, interpret=True), pulled, strict=True):
        assert_close(ours, theirs, 5e-5)


def test_examples_and_models_are_batched():
    norm, made = NORMS["layer"]
    array, scale, shift, cotangent = drawn(24, 12)
    array, cotangent = (part.reshape(2, 3, 4, 12) for part in (array, cotangent))
    scale, shift = (jnp.stack([part, 2 * part]) for part in (scale, shift))

    def twice(function):
        return jax.vmap(jax.vmap(function, in_axes=(0, None, None, 0)))

    def plain(array, scale, shift, cotangent):
        return jax.vjp(partial(rows.by_equinox, made, norm.eps), array, scale, shift)[1](cotangent)

    found = jax.jit(twice(partial(rows.norm_backward, norm, interpret=True)))(array, scale, shift, cotangent)
    for ours, theirs in zip(found, jax.jit(twice(plain))(array, scale, shift, cotangent), strict=True):
        assert_close(ours, theirs, 2e-5)


@pytest.mark.slow
def test_half_precision_is_as_exact_as_jax():
    norm, made = NORMS["layer"]
    array, scale, shift, cotangent = drawn(21, 256, jnp.bfloat16)
    wide, pulled = array.astype(jnp.float32), cotangent.astype(jnp.float32)

    def errors(found, plain):
        exact, back = jax.vjp(plain, wide, scale, shift)
        return [float(jnp.abs(a - b).max()) for a, b in zip(found, (exact, *back(pulled)), strict=True)]

    plain = partial(rows.by_equinox, made, norm.eps)
    by_jax, back = jax.vjp(plain, array, scale, shift)
    given = {"interpret": True}
    ours = [rows.norm_forward(norm, array, scale, shift, **given)]
    ours += rows.norm_backward(norm, array, scale, shift, cotangent, **given)
    for own, theirs in zip(errors(ours, plain), errors((by_jax, *back(cotangent)), plain), strict=True):
        assert own <= 1.5 * theirs + 1e-5


@pytest.mark.slow
def test_gelu_in_half_precision_is_as_exact_as_jax():
    array, _, bias, cotangent = drawn(21, 256, jnp.bfloat16)
    exact, exact_back = jax.vjp(rows.gelu, array.astype(jnp.float32), bias)
    known = (exact, *exact_back(cotangent.astype(jnp.float32)))
    by_jax, back = jax.vjp(rows.gelu, array, bias)
    ours = (rows.gelu_forward(array, bias, interpret=True), *rows.gelu_backward(array, bias, cotangent, interpret=True))
    for own, theirs, wanted in zip(ours, (by_jax, *back(cotangent)), known, strict=True):
        assert jnp.abs(own - wanted).max() <= 1.5 * jnp.abs(theirs - wanted).max() + 1e-5


@pytest.mark.parametrize("compute", ["float32", "bfloat16"])
def test_a_training_on_a_gpu_goes_through_the_kernels(monkeypatch, compute):
    """Lowered for a GPU that is not there, down to the kernels' own code: eight in a layer, forward and backward."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert fused.on_gpu(jnp.dtype(compute))
    sizes = {"vocab": 5, "width": 16, "layers": 2, "heads": 2, "causal": False, "positions": "learned"}
    model = jax.eval_shape(
        lambda: Transformer(max_length=6, outputs=5, compute_dtype=compute, key=jax.random.key(0), **sizes)
    )

    def loss(model, tokens):
        return jnp.sum(jax.vmap(model)(tokens))

    tokens = jax.ShapeDtypeStruct((3, 6), jnp.int32)
    lowered = jax.jit(jax.grad(loss)).trace(model, tokens).lower(lowering_platforms=("cuda",)).as_text()
    assert kernels_in(lowered) == {
        "norm_forward_kernel": 2,  # the first, and the last, which nothing comes after
        "norm_backward_kernel": 2,
        "added_forward_kernel": 3,
        "added_backward_kernel": 3,
        "gelu_forward_kernel": 2,
        "gelu_backward_kernel": 2,
        "forward_kernel": 2,
        "backward_kernel": 2,
    }


@eqx.filter_jit
def model_of(**sizes):
    """A model with biases that are not zero."""
    return jax.tree.map(lambda leaf: leaf + 0.1, Transformer(key=jax.random.key(0), **sizes))


def test_layers_that_leave_their_sums_to_the_next_norm_give_the_same_numbers(monkeypatch):
    """The way of a GPU, with the plain forms of its kernels, against the way of others."""
    sizes = {"vocab": 5, "width": 16, "layers": 3, "heads": 2, "causal": False, "positions": "learned", "max_length": 6}
    tokens = jnp.array([0, 3, 1, 4, 2, 2], dtype=jnp.int32)

    def losses(model):
        return jnp.sum(model(tokens) ** 2) + jnp.sum(model.at(tokens, jnp.int32(2)))

    with jax.enable_x64(True):
        wide = {"compute_dtype": "float64", "parameter_dtype": "float64"}
        model = model_of(outputs=5, **sizes, **wide)
        wanted = jax.jit(jax.value_and_grad(losses))(model)
        monkeypatch.setattr(rows, "fits", lambda stream: True)
        found = jax.jit(jax.value_and_grad(losses))(model)
        for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
            assert_close(ours, theirs, 1e-9)


def test_so_do_those_of_the_decoder_by_tables(monkeypatch):
    sizes = {"vocab": 2, "width": 16, "layers": 3, "heads": 2, "causal": True, "positions": "learned", "max_length": 6}
    tokens = jnp.array([[0, 1, 1, 0, 1, 0], [1, 1, 0, 0, 0, 1]], dtype=jnp.int8)

    def loss(model):
        return jnp.sum(answer_logits(model, tokens, 4, 2) ** 2)

    with jax.enable_x64(True):
        wide = {"compute_dtype": "float64", "parameter_dtype": "float64"}
        model = model_of(**sizes, **wide)
        wanted = jax.jit(jax.value_and_grad(loss))(model)
        for module in (rows, structured):
            monkeypatch.setattr(module, "fits", lambda stream: True)
        monkeypatch.setattr(structured, "on_gpu", lambda dtype: True)
        found = jax.jit(jax.value_and_grad(loss))(model)
        for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
            assert_close(ours, theirs, 1e-8)


def test_who_looks_at_the_stream_sees_all_that_was_added_on_a_gpu_too(monkeypatch):
    sizes = {"vocab": 5, "width": 16, "layers": 2, "heads": 2, "causal": False, "positions": "learned", "max_length": 6}
    model = model_of(outputs=5, **sizes)
    tokens = jnp.array([0, 3, 1, 4, 2, 2], dtype=jnp.int32)
    _, wanted = trace(model, tokens)
    monkeypatch.setattr(rows, "fits", lambda stream: True)
    _, found = trace(model, tokens)
    assert list(found) == list(wanted)
    for name in ("blocks.0.resid_mid", "blocks.0.resid_post", "blocks.1.resid_post"):
        assert_close(found[name], wanted[name], 1e-5)


def kernels_in(lowered: str) -> dict[str, int]:
    """How often each kernel is called in a lowered program."""
    return dict(Counter(re.findall(r'"(\w+_kernel)"', lowered)))


@pytest.mark.parametrize("compute", ["float32", "bfloat16"])
def test_a_decoder_by_tables_goes_through_them_too(monkeypatch, compute):
    """Norms and attention of the first layer are tables; the last one's attention is XLA's, at few rows."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    sizes = {"vocab": 2, "width": 16, "layers": 3, "heads": 2, "causal": True, "positions": "learned"}
    model = jax.eval_shape(lambda: Transformer(max_length=6, compute_dtype=compute, key=jax.random.key(0), **sizes))

    def loss(model, tokens):
        return jnp.sum(answer_logits(model, tokens, 4, 2))

    tokens = jax.ShapeDtypeStruct((3, 6), jnp.int8)
    lowered = jax.jit(jax.grad(loss)).trace(model, tokens).lower(lowering_platforms=("cuda",)).as_text()
    assert kernels_in(lowered) == {
        "norm_forward_kernel": 2,  # of the table, and the last
        "norm_backward_kernel": 2,
        "added_forward_kernel": 5,
        "added_backward_kernel": 5,
        "gelu_forward_kernel": 3,
        "gelu_backward_kernel": 3,
        "forward_kernel": 2,
        "backward_kernel": 2,
    }


def test_nothing_changes_where_there_is_no_gpu():
    array, scale, shift, _ = drawn(5, 12)
    norm = eqx.tree_at(lambda norm: (norm.weight, norm.bias), eqx.nn.LayerNorm(12), (scale, shift))
    assert not rows.fits(array)
    assert not attention.on_gpu(array.dtype)
    assert_close(rows.norm_rows(norm, array), jax.vmap(norm)(array), 0)
