"""Facts about the standard transformer: it equals the dense NumPy one, and has the symmetries it should have."""

from functools import lru_cache
from itertools import combinations

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
        logits, attention = model.with_attention(tokens())
        expected_logits, expected_attention = dense.forward(model, TOKENS)
        assert_close(logits, expected_logits, 1e-12)
        assert_close(attention, expected_attention, 1e-12)
        assert_close(model(tokens()), expected_logits, 1e-12)


@pytest.mark.parametrize("causal", [True, False])
def test_padding_embeddings_and_given_positions_equal_the_dense_reference(causal):
    with jax.enable_x64(True):
        model = build(causal=causal, vocab=None, outputs=5, **DOUBLE)
        embeddings = jax.random.normal(jax.random.key(9), (LENGTH, WIDTH), jnp.float64)
        positions = random_positions(jax.random.key(8), LENGTH, SIZES["max_length"])
        logits = model(embeddings, positions=positions, present=jnp.asarray(PRESENT))
        expected, _ = dense.forward(model, embeddings, positions=positions, present=PRESENT)
        assert_close(logits, expected, 1e-12)


def test_float32_equals_the_dense_reference_to_single_precision():
    assert_close(build()(tokens()), dense.forward(build(), TOKENS)[0], 1e-5)


def test_embeddings_of_tokens_give_the_logits_of_tokens():
    model = build(positions="rotary")
    np.testing.assert_array_equal(model(model.table[tokens()]), model(tokens()))


@pytest.mark.parametrize("positions", ["none", "learned", "rotary"])
def test_a_later_token_changes_no_earlier_logit(positions):
    model = build(positions=positions)
    logits = model(tokens())
    for place in range(1, LENGTH):
        changed = model(tokens().at[place].set((TOKENS[place] + 1) % VOCAB))
        np.testing.assert_array_equal(changed[:place], logits[:place])
        assert np.abs(changed[place] - logits[place]).max() > 1e-3


def test_a_later_token_changes_earlier_logits_of_an_encoder():
    model = build(causal=False)
    assert np.abs(model(tokens().at[-1].add(1)) - model(tokens()))[0].max() > 1e-3


def test_padding_has_no_influence_on_what_is_present():
    model, present = build(causal=False), jnp.asarray(PRESENT)
    logits = model(tokens(), present=present)
    changed = model(jnp.where(present, tokens(), VOCAB - 1), present=present)
    np.testing.assert_array_equal(changed[PRESENT], logits[PRESENT])


def test_an_encoder_without_positions_is_permutation_equivariant():
    with jax.enable_x64(True):
        model = build(positions="none", causal=False, **DOUBLE)
        order = np.array([4, 2, 0, 5, 1, 3])
        logits, attention = model.with_attention(tokens())
        permuted_logits, permuted_attention = model.with_attention(tokens()[order])
        assert_close(permuted_logits, logits[order], 1e-12)
        assert_close(permuted_attention, attention[:, :, order][..., order], 1e-12)


def test_a_rotary_model_sees_only_relative_positions():
    with jax.enable_x64(True):
        model = build(positions="rotary", **DOUBLE)
        positions = jnp.array([0, 2, 3, 7, 8, 11], dtype=jnp.int32)
        logits = model(tokens(), positions=positions)
        assert_close(model(tokens(), positions=positions + 100), logits, 1e-12)
        assert np.abs(model(tokens(), positions=2 * positions) - logits).max() > 1e-3


def test_every_leaf_is_an_array_and_every_one_matters():
    model = build(layers=1, outputs=VOCAB)
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(model))
    assert all(np.abs(leaf).max() > 0 for leaf in jax.tree.leaves(gradient_of(model)))


def test_a_tied_head_shares_the_leaf():
    tied = build(layers=1)
    assert sum(leaf.shape == (VOCAB, WIDTH) for leaf in jax.tree.leaves(tied)) == 1
    untied = eqx.tree_at(lambda model: model.head, tied, tied.table, is_leaf=lambda x: x is None)
    assert len(jax.tree.leaves(untied)) == len(jax.tree.leaves(tied)) + 1
    np.testing.assert_array_equal(untied(tokens()), tied(tokens()))
    parts = gradient_of(untied)
    assert_close(gradient_of(tied).table, parts.table + parts.head, 1e-5)


@pytest.mark.parametrize("positions", ["none", "learned", "rotary"])
@pytest.mark.parametrize(("outputs", "norm", "hidden"), [(None, True, 4), (5, False, 3)])
def test_the_number_of_parameters_is_the_closed_formula(positions, outputs, norm, hidden):
    """(V + P + outputs) w + L [(4 + 2m) w^2 + (5 + m) w + 4w] + 2w: tables, matrices, biases, two vectors per norm."""
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


@lru_cache
def initial(seed, dtype="float32"):
    sizes = {"vocab": 200, "width": 48, "layers": 2, "heads": 2, "max_length": 300, "outputs": 200}
    return jax.jit(lambda seed: fresh(seed=seed, compute_dtype=dtype, parameter_dtype=dtype, **sizes))(seed)


def test_initial_weights_have_gpt2s_scales():
    model, narrow = initial(3), 0.02 / np.sqrt(2 * 2)
    expected = [(model.table, 0.02), (model.positions.table, 0.02), (model.head, 0.02)]
    for block in model.blocks:
        expected += [(block.attention.qkv.weight, 0.02), (block.attention.out.weight, narrow)]
        expected += [(block.mlp.expand.weight, 0.02), (block.mlp.contract.weight, narrow)]
    for weight, std in expected:
        assert abs(np.std(weight) / std - 1) < 5 / np.sqrt(2 * weight.size)
    norms = [norm for block in model.blocks for norm in (block.attention_norm, block.mlp_norm)] + [model.norm]
    linears = [part for b in model.blocks for part in (b.attention.qkv, b.attention.out, b.mlp.expand, b.mlp.contract)]
    assert all(np.all(module.bias == 0) for module in norms + linears)
    assert all(np.all(norm.weight == 1) for norm in norms)


def test_no_two_matrices_start_alike():
    model = initial(3)
    corners = [leaf[:3, :3] for leaf in jax.tree.leaves(model) if leaf.ndim == 2]
    assert len(corners) == 3 + 2 * 4
    assert all(np.abs(a / np.std(a) - b / np.std(b)).max() > 0.1 for a, b in combinations(corners, 2))


def test_all_precisions_start_from_the_same_weights():
    single = initial(3)
    with jax.enable_x64(True):
        for a, b in zip(jax.tree.leaves(single), jax.tree.leaves(initial(3, "float64")), strict=True):
            assert b.dtype == jnp.float64
            assert_close(a, b, 1e-7)


def test_without_a_key_dropout_is_off_and_the_model_deterministic():
    noisy, plain = build(dropout=0.5), build()
    np.testing.assert_array_equal(noisy(tokens()), plain(tokens()))


@pytest.mark.slow
def test_dropout_is_a_function_of_its_key_and_has_the_right_mean_where_the_model_is_linear_in_it():
    """Without norms, with a dead perceptron and constant scores, one layer is linear in every dropped factor."""
    model = build(positions="none", layers=1, norm=False, dropout=0.2)
    dead = [lambda m: m.blocks[0].mlp, lambda m: m.blocks[0].attention.qkv.weight]
    for part in dead:
        model = eqx.tree_at(part, model, jax.tree.map(jnp.zeros_like, part(model)))
    keys = jax.random.split(jax.random.key(4), 4000)
    draws = np.asarray(jax.jit(jax.vmap(lambda key: model(tokens(), key=key)))(keys.at[1].set(keys[0])))
    np.testing.assert_array_equal(draws[1], draws[0])
    assert draws[1:].std(axis=0).min() > 1e-2
    error = np.abs(draws[1:].mean(axis=0) - model(tokens())) / (draws.std(axis=0) / np.sqrt(4000))
    assert np.max(error) < 5


def test_bfloat16_gives_finite_float32_gradients_close_to_the_exact_ones():
    exact = gradient_of(build(layers=1))
    rough = gradient_of(build(layers=1, compute_dtype="bfloat16"))
    for a, b in zip(jax.tree.leaves(rough), jax.tree.leaves(exact), strict=True):
        assert a.dtype == jnp.float32
        assert_close(a, b, 0.1)


def test_bfloat16_parameters_give_float32_logits_close_to_the_exact_ones():
    rough = build(layers=1, compute_dtype="bfloat16", parameter_dtype="bfloat16")
    assert {leaf.dtype for leaf in jax.tree.leaves(rough)} == {jnp.dtype("bfloat16")}
    logits = jax.jit(lambda: rough(tokens()))()
    assert logits.dtype == jnp.float32
    assert_close(logits, build(layers=1)(tokens()), 0.05)


def test_a_batch_by_vmap_equals_one_by_one():
    model = build(layers=1, positions="rotary")
    batch = jnp.stack([tokens(), tokens()[::-1], jnp.roll(tokens(), 2)])
    together = jax.jit(lambda batch: jax.vmap(model)(batch))(batch)
    assert_close(together, jnp.stack([model(row) for row in batch]), 1e-5)


def test_an_ensemble_of_models_by_vmap_equals_one_by_one():
    models = [build(layers=1, seed=seed) for seed in (0, 5, 9)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *models)
    together = jax.jit(jax.vmap(lambda model: model(tokens())))(stacked)
    assert_close(together, jnp.stack([model(tokens()) for model in models]), 1e-5)


@pytest.mark.parametrize("token", [-1, VOCAB])
def test_a_token_outside_the_vocabulary_gives_nan_and_not_another_tokens_logits(token):
    assert np.isnan(build()(tokens().at[0].set(token))).all()


BAD = [
    ({"width": 0}, "width=0 must be at least 1"),
    ({"layers": 0}, "layers=0 must be at least 1"),
    ({"heads": 5}, "heads=5 must be at least 1 and divide width=12"),
    ({"vocab": None}, "outputs=None must be a number of outputs where vocab=None"),
    ({"outputs": 0}, "outputs=0 must be at least 1"),
    (
        {"positions": "absolute"},
        "positions=absolute must be one of none, learned, sinusoidal, rotary, alibi, t5, randomised",
    ),
    ({"max_length": None}, "max_length=None must be at least 1 where positions=learned"),
    ({"dropout": 1.0}, r"dropout=1.0 must be at least 0 and below 1"),
    ({"compute_dtype": "float16"}, "compute_dtype=float16 must be one of bfloat16, float32, float64"),
    ({"parameter_dtype": "float64"}, r"parameter_dtype=float64 must be built inside jax.enable_x64"),
]


@pytest.mark.parametrize(("fields", "message"), BAD, ids=[next(iter(fields)) for fields, _ in BAD])
def test_bad_arguments_are_named_in_one_line(fields, message):
    with pytest.raises(ValueError, match=message) as error:
        eqx.filter_eval_shape(fresh, **fields)
    assert "\n" not in str(error.value)


def test_a_sequence_longer_than_the_learned_table_is_refused():
    with pytest.raises(ValueError, match="length=10 must be at most max_length=9"):
        build()(jnp.zeros((10,), dtype=jnp.int32))


def test_tokens_are_refused_where_there_is_no_vocabulary():
    with pytest.raises(ValueError, match=r"inputs.dtype=int32 must be floating: vocab=None"):
        build(vocab=None, outputs=3)(tokens())


@pytest.mark.parametrize("causal", [True, False])
def test_the_logits_at_one_position_are_those_of_the_whole_call_and_so_are_their_gradients(causal):
    with jax.enable_x64(True):
        model = build(causal=causal, positions="rotary", **DOUBLE)
        present = jnp.array([1, 1, 1, 0, 1, 1], dtype=bool)

        def whole(model, place):
            return model(tokens(), present=present)[place]

        def one(model, place):
            return model.at(tokens(), place, present=present)

        def with_gradient(logits):
            return jax.jit(lambda m, at: (logits(m, at), jax.grad(lambda n: jnp.sum(jnp.sin(logits(n, at))))(m)))

        of_one, of_whole = with_gradient(one), with_gradient(whole)
        for place in (jnp.int32(1), jnp.int32(4)):
            (found, slopes), (wanted, wanted_slopes) = of_one(model, place), of_whole(model, place)
            assert_close(found, wanted, 1e-12)
            for slope, wanted_slope in zip(*map(jax.tree.leaves, (slopes, wanted_slopes)), strict=True):
                assert_close(slope, wanted_slope, 1e-12)
