"""Facts about the standard transformer: it equals the dense NumPy one, and has the symmetries it should have."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.nn.positions import random_positions
from stairwise.nn.transformer import Transformer
from tests.helpers import assert_close
from tests.reference import transformer as dense

LENGTH, VOCAB, WIDTH, HEADS, LAYERS = 6, 7, 12, 2, 2
SIZES = {"vocab": VOCAB, "width": WIDTH, "layers": LAYERS, "heads": HEADS, "max_length": 9}
DOUBLE = {"compute_dtype": "float64", "parameter_dtype": "float64"}
TOKENS = np.array([3, 0, 6, 6, 1, 2], dtype=np.int32)
PRESENT = np.array([True, True, False, True, True, False])


def fresh(positions="learned", causal=True, seed=0, **more):
    return Transformer(**{**SIZES, "causal": causal, "positions": positions, **more, "key": jax.random.key(seed)})


def build(seed=0, **arguments):
    """A model none of whose leaves is special: gains differ from 1, biases from 0, matrices are large."""
    draw = np.random.default_rng(seed)
    shapes = eqx.filter_eval_shape(fresh, **arguments)  # draws by NumPy: nothing to compile
    return jax.tree.map(lambda x: jnp.asarray(0.5 * draw.standard_normal(x.shape), dtype=x.dtype), shapes)


@jax.jit
def logits_of(model, inputs, **options):
    return model(inputs, **options)


@jax.jit
def logits_and_attention(model, inputs):
    return model.with_attention(inputs)


def tokens():
    return jnp.asarray(TOKENS)


@jax.jit
@jax.grad
def gradient_of(model):
    logits = model(tokens())[:-1]
    return -jnp.mean(jax.nn.log_softmax(logits)[jnp.arange(LENGTH - 1, dtype=jnp.int32), tokens()[1:]])


VARIANTS = {
    "decoder with learned positions": {},
    "decoder without positions": {"positions": "none"},
    "rotary decoder": {"positions": "rotary"},
    "encoder with learned positions": {"causal": False},
    "rotary encoder": {"causal": False, "positions": "rotary"},
    "no norms": {"norm": False},
    "no residual around attention": {"attention_residual": False},
    "no residuals": {"attention_residual": False, "mlp_residual": False},
    "untied head": {"outputs": 4},
    "one layer, narrow perceptron": {"layers": 1, "hidden_multiple": 1},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_logits_and_attention_equal_the_dense_reference(name):
    with jax.enable_x64(True):
        model = build(**VARIANTS[name], **DOUBLE)
        logits, attention = logits_and_attention(model, tokens())
        expected_logits, expected_attention = dense.forward(model, TOKENS)
        assert_close(logits, expected_logits, 1e-12)
        assert_close(attention, expected_attention, 1e-12)
        assert_close(logits_of(model, tokens()), expected_logits, 1e-12)


@pytest.mark.parametrize("causal", [True, False])
def test_padding_embeddings_and_given_positions_equal_the_dense_reference(causal):
    with jax.enable_x64(True):
        model = build(causal=causal, vocab=None, outputs=5, **DOUBLE)
        embeddings = jax.random.normal(jax.random.key(9), (LENGTH, WIDTH), jnp.float64)
        positions = random_positions(jax.random.key(8), LENGTH, SIZES["max_length"])
        logits = logits_of(model, embeddings, positions=positions, present=jnp.asarray(PRESENT))
        expected, _ = dense.forward(model, embeddings, positions=positions, present=PRESENT)
        assert_close(logits, expected, 1e-12)


def test_float32_equals_the_dense_reference_to_single_precision():
    assert_close(logits_of(build(), tokens()), dense.forward(build(), TOKENS)[0], 1e-5)


def test_embeddings_of_tokens_give_the_logits_of_tokens():
    model = build(positions="rotary")
    np.testing.assert_array_equal(logits_of(model, model.table[tokens()]), logits_of(model, tokens()))


@pytest.mark.parametrize("positions", ["none", "learned", "rotary"])
def test_a_later_token_changes_no_earlier_logit(positions):
    model = build(positions=positions)
    logits = logits_of(model, tokens())
    for place in range(1, LENGTH):
        changed = logits_of(model, tokens().at[place].add(1))
        np.testing.assert_array_equal(changed[:place], logits[:place])
        assert np.abs(changed[place] - logits[place]).max() > 1e-3


def test_a_later_token_changes_earlier_logits_of_an_encoder():
    model = build(causal=False)
    assert np.abs(logits_of(model, tokens().at[-1].add(1)) - logits_of(model, tokens()))[0].max() > 1e-3


def test_padding_has_no_influence_on_what_is_present():
    model, present = build(causal=False), jnp.asarray(PRESENT)
    logits = logits_of(model, tokens(), present=present)
    changed = logits_of(model, jnp.where(present, tokens(), VOCAB - 1), present=present)
    np.testing.assert_array_equal(changed[PRESENT], logits[PRESENT])


def test_an_encoder_without_positions_is_permutation_equivariant():
    with jax.enable_x64(True):
        model = build(positions="none", causal=False, **DOUBLE)
        order = np.array([4, 2, 0, 5, 1, 3])
        logits, attention = logits_and_attention(model, tokens())
        permuted_logits, permuted_attention = logits_and_attention(model, tokens()[order])
        assert_close(permuted_logits, logits[order], 1e-12)
        assert_close(permuted_attention, attention[:, :, order][..., order], 1e-12)


def test_a_rotary_model_sees_only_relative_positions():
    with jax.enable_x64(True):
        model = build(positions="rotary", **DOUBLE)
        positions = jnp.array([0, 2, 3, 7, 8, 11], dtype=jnp.int32)
        logits = logits_of(model, tokens(), positions=positions)
        assert_close(logits_of(model, tokens(), positions=positions + 100), logits, 1e-12)
        assert np.abs(logits_of(model, tokens(), positions=2 * positions) - logits).max() > 1e-3


def test_every_leaf_is_an_array_and_every_one_matters():
    model = build(outputs=VOCAB)
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(model))
    assert all(np.abs(leaf).max() > 0 for leaf in jax.tree.leaves(gradient_of(model)))


def test_a_tied_head_shares_the_leaf():
    tied = build()
    assert sum(leaf.shape == (VOCAB, WIDTH) for leaf in jax.tree.leaves(tied)) == 1
    untied = eqx.tree_at(lambda model: model.head, tied, tied.table, is_leaf=lambda x: x is None)
    assert len(jax.tree.leaves(untied)) == len(jax.tree.leaves(tied)) + 1
    np.testing.assert_array_equal(logits_of(untied, tokens()), logits_of(tied, tokens()))
    parts = gradient_of(untied)
    assert_close(gradient_of(tied).table, parts.table + parts.head, 1e-5)


@pytest.mark.parametrize("positions", ["none", "learned", "rotary"])
@pytest.mark.parametrize(("outputs", "norm", "hidden"), [(None, True, 4), (5, False, 3)])
def test_the_number_of_parameters_is_the_closed_formula(positions, outputs, norm, hidden):
    """V w + P w + outputs w + L [(4 + 2m) w^2 + (5 + m) w + 4w] + 2w: matrices, biases, and a gain and bias per norm."""
    model = build(positions=positions, outputs=outputs, norm=norm, hidden_multiple=hidden)
    w, m = WIDTH, hidden
    tables = VOCAB * w + (9 * w if positions == "learned" else 0) + (outputs or 0) * w
    norms = (4 * w * LAYERS + 2 * w) if norm else 0
    expected = tables + norms + LAYERS * ((4 + 2 * m) * w**2 + (5 + m) * w)
    assert sum(leaf.size for leaf in jax.tree.leaves(model)) == expected


def test_gpt2_small_has_its_124439808_parameters():
    gpt2 = {"vocab": 50257, "width": 768, "layers": 12, "heads": 12, "max_length": 1024}
    model = eqx.filter_eval_shape(fresh, **gpt2)
    assert sum(leaf.size for leaf in jax.tree.leaves(model)) == 124439808


def test_initial_weights_have_gpt2s_scales():
    sizes = {"vocab": 400, "width": 96, "layers": 4, "heads": 2, "max_length": 300}
    model = jax.jit(lambda: fresh(**sizes, outputs=400))()
    narrow = 0.02 / np.sqrt(2 * 4)
    attention, blocks = model.blocks.attention, model.blocks
    expected = [
        (model.table, 0.02),
        (model.positions.table, 0.02),
        (model.head, 0.02),
        (attention.qkv.weight, 0.02),
        (attention.out.weight, narrow),
        (blocks.mlp.expand.weight, 0.02),
        (blocks.mlp.contract.weight, narrow),
    ]
    for weight, std in expected:
        assert abs(np.std(weight) / std - 1) < 5 / np.sqrt(2 * weight.size)
    for bias in (
        attention.qkv.bias,
        attention.out.bias,
        blocks.mlp.expand.bias,
        blocks.mlp.contract.bias,
        model.norm.bias,
    ):
        np.testing.assert_array_equal(bias, 0)
    for gain in (blocks.attention_norm.weight, blocks.mlp_norm.weight, model.norm.weight):
        np.testing.assert_array_equal(gain, 1)


def test_layers_and_seeds_start_from_different_weights_and_one_seed_from_the_same():
    first, again, other = (fresh(seed=seed) for seed in (3, 3, 4))
    assert eqx.tree_equal(first, again)
    assert np.abs(first.blocks.mlp.expand.weight[0] - first.blocks.mlp.expand.weight[1]).max() > 0.01
    assert np.abs(first.blocks.mlp.expand.weight - other.blocks.mlp.expand.weight).max() > 0.01


def test_all_precisions_start_from_the_same_weights():
    single = fresh()
    with jax.enable_x64(True):
        double = fresh(**DOUBLE)
        for a, b in zip(jax.tree.leaves(single), jax.tree.leaves(double), strict=True):
            assert b.dtype == jnp.float64
            np.testing.assert_array_equal(a, b)


def test_without_a_key_dropout_is_off_and_the_model_deterministic():
    noisy, plain = build(dropout=0.5), build()
    np.testing.assert_array_equal(logits_of(noisy, tokens()), logits_of(plain, tokens()))


def test_dropout_is_a_function_of_its_key():
    model = build(dropout=0.5)
    once, again, other = (logits_of(model, tokens(), key=jax.random.key(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(once, again)
    assert np.abs(once - other).max() > 1e-2


def test_dropout_has_the_right_mean_where_the_model_is_linear_in_it():
    """Without norms and with a dead perceptron, one layer of constant values is linear in every dropped factor."""
    model = build(positions="none", layers=1, norm=False, dropout=0.2)
    dead = jax.tree.map(
        jnp.zeros_like, (model.blocks.mlp.expand, model.blocks.mlp.contract, model.blocks.attention.qkv.weight)
    )
    model = eqx.tree_at(
        lambda m: (m.blocks.mlp.expand, m.blocks.mlp.contract, m.blocks.attention.qkv.weight), model, dead
    )
    draws = jax.jit(jax.vmap(lambda key: model(tokens(), key=key)))(jax.random.split(jax.random.key(4), 4000))
    error = np.abs(draws.mean(axis=0) - logits_of(model, tokens())) / (draws.std(axis=0) / np.sqrt(4000))
    assert np.max(error) < 5
    assert draws.std(axis=0).min() > 1e-2


def test_bfloat16_gives_finite_float32_gradients_close_to_the_exact_ones():
    exact = gradient_of(build())
    rough = gradient_of(build(compute_dtype="bfloat16"))
    for a, b in zip(jax.tree.leaves(rough), jax.tree.leaves(exact), strict=True):
        assert a.dtype == jnp.float32
        assert_close(a, b, 0.1)


def test_bfloat16_parameters_stay_bfloat16_and_logits_are_float32():
    model = build(compute_dtype="bfloat16", parameter_dtype="bfloat16")
    assert {leaf.dtype for leaf in jax.tree.leaves(gradient_of(model))} == {jnp.dtype("bfloat16")}
    assert logits_of(model, tokens()).dtype == jnp.float32


def test_a_batch_by_vmap_equals_one_by_one():
    model = build(positions="rotary")
    batch = jnp.stack([tokens(), tokens()[::-1], jnp.roll(tokens(), 2)])
    together = jax.vmap(logits_of, in_axes=(None, 0))(model, batch)
    assert_close(together, jnp.stack([logits_of(model, row) for row in batch]), 1e-5)


def test_an_ensemble_of_models_by_vmap_equals_one_by_one():
    models = [build(seed=seed) for seed in (0, 5, 9)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *models)
    together = jax.vmap(logits_of, in_axes=(0, None))(stacked, tokens())
    assert_close(together, jnp.stack([logits_of(model, tokens()) for model in models]), 1e-5)


def test_the_program_does_not_grow_with_depth():
    def size(layers):
        return len(str(jax.make_jaxpr(build(layers=layers))(tokens())).splitlines())

    assert size(2) == size(6)


BAD = [
    ({"width": 0}, "width=0 must be at least 1"),
    ({"layers": 0}, "layers=0 must be at least 1"),
    ({"heads": 5}, "heads=5 must be at least 1 and divide width=12"),
    ({"vocab": None}, "outputs=None must be a number of outputs where vocab=None"),
    ({"outputs": 0}, "outputs=0 must be at least 1"),
    ({"positions": "sinusoidal"}, "positions=sinusoidal must be one of none, learned, rotary"),
    ({"max_length": None}, "max_length=None must be at least 1 where positions=learned"),
    ({"dropout": 1.0}, r"dropout=1.0 must be at least 0 and below 1"),
    ({"compute_dtype": "float16"}, "compute_dtype=float16 must be one of bfloat16, float32, float64"),
    ({"parameter_dtype": "float64"}, r"parameter_dtype=float64 must be built inside jax.enable_x64"),
]


@pytest.mark.parametrize(("fields", "message"), BAD, ids=[next(iter(fields)) for fields, _ in BAD])
def test_bad_arguments_are_named_in_one_line(fields, message):
    with pytest.raises(ValueError, match=message) as error:
        fresh(**fields)
    assert "\n" not in str(error.value)


def test_a_sequence_longer_than_the_learned_table_is_refused():
    with pytest.raises(ValueError, match="length=10 must be at most max_length=9"):
        build()(jnp.zeros((10,), dtype=jnp.int32))


def test_tokens_are_refused_where_there_is_no_vocabulary():
    with pytest.raises(ValueError, match=r"inputs.dtype=int32 must be floating: vocab=None"):
        build(vocab=None, outputs=3)(tokens())
