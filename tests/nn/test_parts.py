"""Facts about models from named parts: they equal the dense NumPy model, whole and position by position."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.nn.parts import MIXERS
from stairwise.nn.relative import bucket
from tests.helpers import assert_close
from tests.nn.test_transformer import DOUBLE, LENGTH, PRESENT, SIZES, TOKENS, build, tokens
from tests.reference import transformer as dense

PLACES = np.array([0, 1, 3, 4, 6, 7])  # 9 rows spread over 6 positions
DECODERS = {
    "alibi": {"positions": "alibi"},
    "t5": {"positions": "t5"},
    "sinusoidal": {"positions": "sinusoidal"},
    "randomised": {"positions": "randomised"},
    "rms norm, looped three times": {"norm": "rms", "loops": 3, "layers": 1},
    "delta": {"mixer": "delta", "householders": 2, "eigenvalues": "signed"},
    "lstm, looped": {"mixer": "lstm", "positions": "none", "layers": 1, "loops": 2},
}


@jax.jit
def read(model, present, places):
    """The whole call, and the logits of decoding position by position; compiled once."""

    def step(cache, position):
        logits, cache = model.decode(tokens()[position], position, cache, places)
        return cache, logits

    _, decoded = jax.lax.scan(step, model.empty_cache(LENGTH), jnp.arange(LENGTH, dtype=jnp.int32))
    return model(tokens()), model(tokens(), present=present), decoded


@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_of_named_parts_equals_the_dense_reference_whole_and_step_by_step(name):
    with jax.enable_x64(True):
        model = build(**DECODERS[name], **DOUBLE)
        random = name == "randomised"
        places = PLACES if random else None
        whole, padded, decoded = read(model, jnp.asarray(PRESENT), jnp.asarray(PLACES) if random else None)
        expected, _ = dense.forward(model, TOKENS, positions=places)
        assert_close(whole, expected, 1e-10)
        assert_close(decoded, expected, 1e-10)
        hidden, _ = dense.forward(model, TOKENS, positions=places, present=PRESENT)
        assert_close(padded[PRESENT], hidden[PRESENT], 1e-10)


@pytest.mark.parametrize("positions", ["alibi", "t5"])
def test_an_encoder_tells_distances_on_both_sides(positions):
    with jax.enable_x64(True):
        model = build(positions=positions, causal=False, layers=1, **DOUBLE)
        logits, weights, last = jax.jit(
            lambda model: (*model.with_attention(tokens()), model.at(tokens(), jnp.int32(3)))
        )(model)
        expected, attention = dense.forward(model, TOKENS)
        assert_close(logits, expected, 1e-10)
        assert_close(weights, attention, 1e-10)
        assert_close(last, expected[3], 1e-10)


@pytest.mark.parametrize("causal", [True, False])
def test_the_buckets_of_t5_are_those_of_its_definition(causal):
    distances = np.arange(-300, 301)
    expected = [dense.bucket(int(distance), causal) for distance in distances]
    np.testing.assert_array_equal(bucket(jnp.asarray(distances, dtype=jnp.int32), causal=causal), expected)


def test_randomised_places_increase_are_those_of_the_key_and_cover_the_table():
    positions = build(positions="randomised", layers=1).positions
    draw = jax.jit(jax.vmap(lambda key: positions.places(LENGTH, key)))
    places = np.asarray(draw(jax.random.split(jax.random.key(0), 200)))
    assert (np.diff(places, axis=1) > 0).all()
    assert set(places.ravel()) == set(range(SIZES["max_length"]))
    np.testing.assert_array_equal(positions.places(LENGTH, None), PLACES)


def test_a_looped_block_has_the_weights_of_one():
    once, often = build(layers=1), build(layers=1, loops=5)
    assert [leaf.shape for leaf in jax.tree.leaves(once)] == [leaf.shape for leaf in jax.tree.leaves(often)]
    assert len(often.stack) == 5


BAD = [
    ({"mixer": "mamba"}, f"mixer=mamba must be one of {', '.join(MIXERS)}"),
    ({"mixer": "delta", "causal": False}, "mixer=delta must be softmax: the model reads both ways"),
    ({"mixer": "lstm", "positions": "rotary"}, "positions=rotary must be one of none, learned, sinusoidal, randomised"),
    ({"mixer": "gated", "eigenvalues": "signed"}, "eigenvalues=signed must be positive where mixer=gated"),
    ({"householders": 2}, "householders=2 must be 1 where mixer=softmax"),
    ({"positions": "rotary", "heads": 4}, "width=12 must be an even multiple of heads=4 where positions=rotary"),
    ({"norm": "batch"}, "norm=batch must be one of none, rms, layer"),
    ({"loops": 0}, "loops=0 must be at least 1"),
]


@pytest.mark.parametrize(("fields", "message"), BAD, ids=[" ".join(map(str, fields.values())) for fields, _ in BAD])
def test_parts_that_do_not_go_together_are_refused_in_one_line(fields, message):
    with pytest.raises(ValueError, match=message) as error:
        build(**fields)
    assert "\n" not in str(error.value)


def test_attention_weights_of_a_recurrence_are_refused():
    with pytest.raises(ValueError, match="mixer=MinGRU must be softmax attention"):
        build(mixer="mingru", layers=1).with_attention(tokens())
