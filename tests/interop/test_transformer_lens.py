"""The standard transformer as a toy model of TransformerLens: against plain NumPy, and against the package itself."""

import numpy as np
import pytest

from stairwise.config import ConfigError
from stairwise.interop.transformer_lens import to_transformer_lens
from tests.helpers import assert_close
from tests.interop.test_huggingface import SHAPES, decoder, ours, tokens_of

torch = pytest.importorskip("torch", reason="needs the extra hf")

VARIANTS = {
    "learned, tied": (SHAPES[1], {}),
    "learned, own head": (SHAPES[2], {}),
    "no positions": (SHAPES[1], {"positions": "none", "max_length": None}),
    "rms": (SHAPES[1], {"norm": "rms"}),
    "no norm": (SHAPES[1], {"norm": False}),
    "both ways": (SHAPES[1], {"causal": False}),
}


@pytest.fixture(params=VARIANTS, ids=list(VARIANTS))
def exported(request):
    shape, options = VARIANTS[request.param]
    model = decoder(shape, **options)
    tokens = tokens_of(shape, 1)
    return (*to_transformer_lens(model, context=shape[4]), tokens, ours(model, tokens))


def normed(config, state, name, x):
    if config["normalization_type"] is None:
        return x
    x = x - x.mean(-1, keepdims=True) if config["normalization_type"] == "LN" else x
    scaled = x / np.sqrt((x**2).mean(-1, keepdims=True) + config["eps"]) * state[f"{name}.w"]
    return scaled + state.get(f"{name}.b", 0)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def by_hand(config, state, tokens):
    """What the names mean, one sequence at a time."""
    x = state["embed.W_E"][tokens] + state["pos_embed.W_pos"][: len(tokens)]
    for layer in range(config["n_layers"]):
        at = {name.removeprefix(f"blocks.{layer}."): each for name, each in state.items()}
        read = normed(config, at, "ln1", x)
        q, k, v = (np.einsum("tm,hmd->htd", read, at[f"attn.W_{n}"]) + at[f"attn.b_{n}"][:, None] for n in "QKV")
        scores = np.einsum("hqd,hkd->hqk", q, k) / np.sqrt(config["d_head"])
        if config["attention_dir"] == "causal":
            scores = np.where(np.tri(len(tokens), dtype=bool), scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        x = x + np.einsum("hqk,hkd,hdm->qm", weights, v, at["attn.W_O"]) + at["attn.b_O"]
        read = normed(config, at, "ln2", x)
        x = x + gelu(read @ at["mlp.W_in"] + at["mlp.b_in"]) @ at["mlp.W_out"] + at["mlp.b_out"]
    return normed(config, state, "ln_final", x) @ state["unembed.W_U"] + state["unembed.b_U"]


def test_the_tensors_mean_what_their_names_say(exported):
    config, state, tokens, logits = exported
    plain = {name: tensor.numpy().astype(np.float64) for name, tensor in state.items()}
    assert_close(np.stack([by_hand(config, plain, each) for each in tokens]), logits, 1e-4)


def test_transformer_lens_gives_the_same_logits(exported):
    reason = "needs transformer_lens from 4.0 on, which no extra brings: pip install transformer_lens"
    lens = pytest.importorskip("transformer_lens.model_bridge", reason=reason)
    from transformer_lens.utilities.tl_checkpoint_conversion import convert_tl_checkpoint

    config, state, tokens, logits = exported
    bridge = lens.TransformerBridge.boot_native(config)
    loaded = bridge.load_state_dict(convert_tl_checkpoint(state, bridge.cfg))
    assert not loaded.missing_keys
    assert not loaded.unexpected_keys
    with torch.no_grad():
        found, cache = bridge.run_with_cache(torch.tensor(tokens))
    assert_close(found.numpy(), logits, 1e-4)
    assert cache["blocks.0.attn.hook_pattern"].shape == (3, config["n_heads"], tokens.shape[1], tokens.shape[1])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"positions": "rotary", "max_length": None}, "positions=rotary must be learned or none"),
        ({"mlp_residual": False}, "mlp_residual=False must be True"),
        ({"positions": "none", "max_length": None}, "context=None must be the longest sequence"),
    ],
)
def test_what_these_models_have_not_is_refused_by_name(options, words):
    with pytest.raises(ConfigError, match=words):
        to_transformer_lens(decoder(SHAPES[1], **options))
