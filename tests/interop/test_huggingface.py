"""GPT-2 folders against the Transformers library itself: the same logits out and in; what cannot be said is named."""

import json
import os
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stairwise.config import ConfigError
from stairwise.interop.huggingface import arguments_of, from_gpt2, skeleton, to_gpt2
from stairwise.lab.store.files import Damaged, StoreError
from stairwise.nn.parts import POSITIONS
from tests.helpers import assert_close

torch = pytest.importorskip("torch", reason="needs the extra hf")
transformers = pytest.importorskip("transformers", reason="needs the extra hf")

# layers, heads, width, vocabulary, positions, tied, perceptron
SHAPES = [
    (1, 1, 8, 2, 5, True, 4),
    (2, 2, 16, 11, 12, True, 4),
    (2, 4, 16, 11, 12, False, 2),
    (3, 1, 12, 7, 9, False, 1),
]
FEW = settings(max_examples=4, deadline=None)


def like(shape, **options):
    """A decoder of shapes only."""
    layers, heads, width, vocab, length, tied, multiple = shape
    sizes = {"vocab": vocab, "width": width, "layers": layers, "heads": heads, "hidden_multiple": multiple}
    more = {"causal": True, "positions": "learned", "max_length": length, "outputs": None if tied else vocab}
    return skeleton(sizes | more | options)


def decoder(shape, seed=0, **options):
    """Every tensor is drawn: biases and norms start at 0 and 1, where a swap would not show."""
    random = np.random.default_rng(seed)
    return jax.tree.map(
        lambda leaf: jnp.asarray(0.3 * random.standard_normal(leaf.shape), dtype=leaf.dtype), like(shape, **options)
    )


def tokens_of(shape, seed):
    return np.random.default_rng(seed).integers(shape[3], size=(3, shape[4]))


@eqx.filter_jit
def logits_of(model, tokens):
    return jax.vmap(model)(tokens)


def ours(model, tokens):
    return np.asarray(logits_of(model, jnp.asarray(tokens, dtype=jnp.int32)))


def theirs(model, tokens):
    with torch.no_grad():
        return model.eval()(torch.tensor(tokens)).logits.numpy()


def gpt2(shape, **options):
    layers, heads, width, vocab, length, tied, multiple = shape
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        n_layer=layers,
        n_head=heads,
        n_embd=width,
        vocab_size=vocab,
        n_positions=length,
        n_inner=multiple * width,
        initializer_range=0.3,
        tie_word_embeddings=tied,
        bos_token_id=None,
        eos_token_id=None,
        **options,
    )
    model = transformers.GPT2LMHeadModel(config)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.1 * torch.randn_like(weight)
    return model


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@FEW
@given(seed=st.integers(0, 2**31))
def test_transformers_reads_our_decoder_and_says_the_same(tmp_path_factory, shape, seed):
    folder = tmp_path_factory.mktemp("out") / "model"
    model, tokens = decoder(shape, seed), tokens_of(shape, seed)
    to_gpt2(model, folder)
    loaded, report = transformers.GPT2LMHeadModel.from_pretrained(folder, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert_close(theirs(loaded, tokens), ours(model, tokens), 1e-5)
    assert jax.tree.all(jax.tree.map(lambda a, b: (a == b).all(), from_gpt2(folder), model))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_our_decoder_reads_what_transformers_saved_and_says_the_same(tmp_path, shape):
    model, tokens = gpt2(shape, resid_pdrop=0.2, embd_pdrop=0.2, attn_pdrop=0.2), tokens_of(shape, 3)
    model.save_pretrained(tmp_path)
    read = from_gpt2(tmp_path)
    assert_close(ours(read, tokens), theirs(model, tokens), 1e-5)
    assert read.dropout == 0.2
    to_gpt2(read, tmp_path / "again")
    assert_close(
        theirs(transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "again"), tokens), ours(read, tokens), 1e-5
    )


def test_the_base_model_in_half_precision_with_the_mask_of_old_checkpoints_is_read_too(tmp_path):
    from safetensors.torch import load_file, save_file

    shape, tokens = SHAPES[1], tokens_of(SHAPES[1], 5)
    whole = gpt2(shape)
    whole.transformer.half().save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    mask = torch.ones(1, 1, 12, 12, dtype=torch.bool).tril()
    save_file(load_file(file) | {"h.0.attn.bias": mask, "h.1.attn.bias": mask.clone()}, file, {"format": "pt"})
    assert_close(ours(from_gpt2(tmp_path), tokens), theirs(whole.float(), tokens), 1e-5)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"positions": "none"}, "positions=none must be learned"),
        ({"positions": "rotary"}, "positions=rotary must be learned"),
        ({"causal": False}, "causal=False must be True"),
        ({"norm": False}, "norm=False must be True"),
        ({"norm": "rms"}, "norm=rms must be True"),
        ({"positions": "alibi"}, "positions=alibi must be learned"),
        ({"mixer": "lstm"}, "mixer and loops must be softmax and 1"),
        ({"loops": 2}, "mixer and loops must be softmax and 1"),
        ({"attention_residual": False}, "attention_residual=False must be True"),
        ({"mlp_residual": False}, "mlp_residual=False must be True"),
        ({"compute_dtype": "bfloat16"}, "compute_dtype=bfloat16 must be float32"),
        ({"parameter_dtype": "bfloat16"}, "parameter_dtype=bfloat16 must be float32"),
        ({"outputs": 3}, "outputs=3 must be None (tied) or vocab=11"),
        ({"vocab": None, "outputs": 3}, "vocab=None must be a number of tokens"),
    ],
    ids=lambda case: ",".join(case) if isinstance(case, dict) else "",
)
def test_an_option_that_gpt2_has_not_is_named_and_nothing_is_written(tmp_path, options, line):
    with pytest.raises(ConfigError) as refused:
        to_gpt2(like(SHAPES[1], **options), tmp_path / "model")
    assert str(refused.value).startswith(line)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"activation_function": "relu"}, "activation_function=relu must be gelu_new or gelu_pytorch_tanh"),
        ({"layer_norm_epsilon": 1e-6}, "layer_norm_epsilon=1e-06 must be 1e-05"),
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx=True must be False"),
        ({"resid_pdrop": 0.3}, "resid_pdrop=0.3, embd_pdrop=0.1, attn_pdrop=0.1 must be equal"),
    ],
)
def test_a_gpt2_that_our_decoder_cannot_be_is_refused_by_name(tmp_path, options, line):
    gpt2(SHAPES[0], **options).save_pretrained(tmp_path)
    with pytest.raises(ConfigError) as refused:
        from_gpt2(tmp_path)
    assert str(refused.value).startswith(line)


def test_dropout_that_is_given_settles_what_the_folder_leaves_open(tmp_path):
    gpt2(SHAPES[0], resid_pdrop=0.3).save_pretrained(tmp_path)
    assert from_gpt2(tmp_path, dropout=0.0).dropout == 0


def test_a_tampered_folder_is_one_clear_line(tmp_path):
    folder = tmp_path / "model"
    to_gpt2(decoder(SHAPES[0]), folder)
    weights, config = folder / "model.safetensors", folder / "config.json"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-9])
    with pytest.raises(Damaged, match=r"model\.safetensors: not readable as arrays"):
        from_gpt2(folder)
    weights.write_bytes(whole)
    config.write_text(json.dumps(json.loads(config.read_text()) | {"n_positions": 6}))
    with pytest.raises(ConfigError, match=r"^tensor positions.table is float32\[5, 8\] and must be float32\[6, 8\]$"):
        from_gpt2(folder)
    config.write_text("{")
    with pytest.raises(Damaged, match=r"config\.json: not readable as JSON"):
        from_gpt2(folder)
    weights.unlink()
    config.write_text("{}")
    with pytest.raises(Damaged, match=r"model\.safetensors is missing"):
        from_gpt2(folder)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"n_layer": 20_000}, "n_layer=20000 must be 1, the layers that the tensors are of"),
        ({"n_layer": 10**18}, f"n_layer={10**18} must be 1, the layers"),
        ({"n_layer": True}, "n_layer=True must be a whole number of at least 1"),
        ({"vocab_size": 2**40}, "vocab_size=1099511627776 must lie in 1.."),
        ({"n_positions": 10**30}, "n_positions=1000000000000000000000000000000 must lie in 1.."),
        ({"n_head": 0}, "n_head=0 must be a whole number of at least 1"),
        ({"n_inner": "32"}, "n_inner=32 must be a whole number of at least 1"),
        ({"n_inner": 0}, "n_inner=0 must be a whole number of at least 1"),
        ({"resid_pdrop": []}, "resid_pdrop=[] must be at least 0 and below 1"),
        ({"attn_pdrop": float("nan")}, "attn_pdrop=nan must be at least 0 and below 1"),
        ({"tie_word_embeddings": 1}, "tie_word_embeddings=1 must be true or false"),
        ({"scale_attn_weights": 1}, "scale_attn_weights=1 must be True"),
        ({"model_type": ["gpt2"]}, "model_type=['gpt2'] must be gpt2"),
    ],
    ids=lambda case: next(iter(case)) if isinstance(case, dict) else "",
)
def test_a_config_of_other_types_or_of_more_than_the_weights_hold_is_refused_at_once(tmp_path, changes, line):
    to_gpt2(decoder(SHAPES[0]), tmp_path / "model")
    config = tmp_path / "model" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | changes))
    began = time.monotonic()
    with pytest.raises(ConfigError) as refused:
        from_gpt2(tmp_path / "model")
    assert str(refused.value).startswith(line)
    assert time.monotonic() - began < 5


def test_of_two_tensors_for_one_place_neither_is_taken_in_silence(tmp_path):
    from safetensors.numpy import load_file, save_file

    to_gpt2(decoder(SHAPES[0]), tmp_path / "model")
    file = tmp_path / "model" / "model.safetensors"
    tensors = load_file(file)
    table = tensors["transformer.wte.weight"]
    save_file(tensors | {"lm_head.weight": table.copy()}, file)
    from_gpt2(tmp_path / "model")
    save_file(tensors | {"lm_head.weight": table + 1}, file)
    with pytest.raises(ConfigError, match=r"^tensor lm_head.weight must be equal to wte.weight where tie"):
        from_gpt2(tmp_path / "model")
    save_file(tensors | {"wte.weight": table + 1}, file)
    with pytest.raises(ConfigError, match=r"^tensor wte.weight must be there once"):
        from_gpt2(tmp_path / "model")


def test_a_config_that_is_nested_too_deeply_is_damaged(tmp_path):
    to_gpt2(decoder(SHAPES[0]), tmp_path / "model")
    (tmp_path / "model" / "config.json").write_text("[" * 10**5)
    with pytest.raises(Damaged, match=r"config\.json: not readable as JSON: nested too deeply"):
        from_gpt2(tmp_path / "model")


def test_nothing_is_written_over_and_a_failure_leaves_nothing(tmp_path, monkeypatch):
    model = decoder(SHAPES[0])
    (tmp_path / "empty").mkdir()
    to_gpt2(model, tmp_path / "empty")
    with pytest.raises(ConfigError, match="must not exist yet, or be an empty folder"):
        to_gpt2(model, tmp_path / "empty")
    with pytest.raises(ConfigError, match="must lie in a folder that exists"):
        to_gpt2(model, tmp_path / "no" / "where")

    def full(path, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("stairwise.interop.folder.write_file", full)
    with pytest.raises(StoreError, match=r"cannot write .*: No space left on device"):
        to_gpt2(model, tmp_path / "other")
    assert os.listdir(tmp_path) == ["empty"]


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("norm", [True, False, "rms"])
def test_a_decoder_s_arguments_build_its_like(positions, norm):
    model = like(SHAPES[2], positions=positions, norm=norm, mlp_residual=False, dropout=0.5)
    assert eqx.tree_equal(skeleton(arguments_of(model)), model)
