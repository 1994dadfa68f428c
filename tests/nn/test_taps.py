"""Facts about looking inside: what is seen is what was computed, what is edited is all that changes."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stairwise as sw
from stairwise.nn import attention, transformer
from tests.nn.test_transformer import LAYERS, build, tokens

ATTENTION = ("resid_pre", "attn.q", "attn.k", "attn.v", "attn.scores", "attn.pattern", "attn.z", "attn_out")
PERCEPTRON = ("resid_mid", "mlp.pre", "mlp.post", "mlp_out", "resid_post")
NAMES = ["embed", *(f"blocks.{layer}.{name}" for layer in range(LAYERS) for name in ATTENTION + PERCEPTRON)]

look = jax.jit(sw.trace)
call = jax.jit(lambda model, tokens: model(tokens))


def test_a_trace_has_every_name_in_the_order_of_computation():
    model = build()
    in_order = []
    jax.eval_shape(lambda: in_order.extend(sw.trace(model, tokens())[1]))
    assert in_order == NAMES
    outputs, seen = look(model, tokens())
    logits, weights = jax.jit(lambda model: model.with_attention(tokens()))(model)
    np.testing.assert_allclose(outputs, logits, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(seen["blocks.1.attn.pattern"], weights[1], rtol=1e-5)
    np.testing.assert_array_equal(seen["blocks.0.resid_post"], seen["blocks.1.resid_pre"])
    mid = np.asarray(seen["blocks.1.resid_pre"]) + np.asarray(seen["blocks.1.attn_out"])
    np.testing.assert_allclose(seen["blocks.1.resid_mid"], mid, rtol=1e-5, atol=1e-5)


def test_a_stream_patched_from_another_input_gives_that_inputs_answer():
    model, other = build(), tokens()[::-1]
    answer, seen = look(model, other)
    patched = sw.edit(model, {"blocks.0.resid_post": lambda _: seen["blocks.0.resid_post"]})
    np.testing.assert_allclose(call(patched, tokens()), answer, rtol=1e-4, atol=1e-5)
    assert not np.allclose(call(model, tokens()), answer, atol=1e-2)


def test_an_ablated_head_adds_nothing_to_the_stream():
    model = build()
    ablated = sw.edit(model, {"blocks.0.attn.z": lambda z: z.at[:, 1].set(0)})
    _, seen = look(ablated, tokens())
    own = np.asarray(look(model, tokens())[1]["blocks.0.attn.z"])[:, 0]
    projection = jax.tree.map(np.asarray, model.blocks[0].attention.out)
    expected = own @ projection.weight[: own.shape[1]] + projection.bias
    np.testing.assert_allclose(seen["blocks.0.attn_out"], expected, rtol=2e-5, atol=1e-6)


def test_edits_hold_in_every_method_and_where_only_one_position_is_asked_for():
    edited = sw.edit(build(), {"blocks.1.attn.pattern": lambda pattern: jnp.roll(pattern, 1, axis=0)})
    whole = call(edited, tokens())
    one = jax.jit(lambda model: model.at(tokens(), jnp.int32(3)))(edited)
    np.testing.assert_allclose(one, whole[3], rtol=1e-4, atol=1e-5)
    decode, cache = jax.jit(lambda model, *more: model.decode(*more)), edited.empty_cache(len(whole))
    for place, token in enumerate(tokens()):
        logits, cache = decode(edited, token, jnp.int32(place), cache)
        np.testing.assert_allclose(logits, whole[place], rtol=1e-4, atol=1e-5)


def test_traces_and_edits_work_under_jit_and_over_seeds():
    models = jax.tree.map(lambda *leaves: np.stack(leaves), build(seed=0), build(seed=1))

    def steer(stream):
        return stream + 1

    steered = sw.edit(models, {"blocks.0.resid_mid": steer})
    together = jax.jit(jax.vmap(lambda model: sw.trace(model, tokens())))(steered)
    for seed in range(2):
        one = sw.edit(build(seed=seed), {"blocks.0.resid_mid": steer})  # the same function: compiled once
        outputs, seen = look(one, tokens())
        np.testing.assert_allclose(together[0][seed], outputs, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(together[1]["blocks.1.attn.z"][seed], seen["blocks.1.attn.z"], rtol=1e-4, atol=1e-5)


def test_where_nobody_looks_the_program_is_the_one_without_taps(monkeypatch):
    def program():
        arrays, rest = eqx.partition(build(), eqx.is_array)
        return str(
            jax.make_jaxpr(lambda arrays: jax.grad(lambda a: eqx.combine(a, rest)(tokens()).sum())(arrays))(arrays)
        )

    with_taps = program()
    for module in (attention, transformer):
        monkeypatch.setattr(module, "tap", lambda name, value: value)
    assert with_taps == program()


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        (
            {"blocks.9.attn.pattern": jnp.zeros_like},
            "blocks.9.attn.pattern must be one of the names of this call: embed",
        ),
        ({"embed": lambda value: value[:2]}, r"embed: the edit gives shape \(2, 12\), which must be \(6, 12\)"),
        ({"embed": 0.0}, r"edits\[embed\]=0.0 must be a function of the value"),
    ],
)
def test_a_wrong_edit_is_refused(edits, message):
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(lambda: sw.edit(build(), edits)(tokens()))


def test_weights_of_an_edited_model_are_not_handed_on():
    edited = sw.edit(build(), {"embed": jnp.zeros_like})
    with pytest.raises(AttributeError, match=r"methods only: blocks is found at \.model\.blocks"):
        _ = edited.blocks
    assert edited.causal is True


def test_what_cannot_be_seen_is_said():
    with pytest.raises(ValueError, match="meets no name"):
        sw.trace(jnp.sin, jnp.ones(2))
    model = build()
    with pytest.raises(ValueError, match="embed is computed inside a loop or a compiled function"):
        jax.eval_shape(lambda: sw.trace(jax.vmap(model), tokens()[None]))
    with pytest.raises(ValueError, match="embed is computed twice"):
        jax.eval_shape(lambda: sw.trace(lambda: (model(tokens()), model(tokens()))))
