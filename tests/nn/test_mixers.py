"""Facts about recurrent mixers: they equal the plain loops, whole sequences equal steps, and what they can compute."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.nn.mixers import delta, make_mixer
from stairwise.nn.parts import MIXERS
from tests.helpers import assert_close
from tests.reference import mixers as loops

LENGTH, WIDTH, HEADS = 7, 6, 2
PLAIN = {"mixer": "delta", "householders": 1, "eigenvalues": "positive"}
VARIANTS = {name: PLAIN | {"mixer": name} for name in MIXERS if name != "softmax"} | {
    "delta, signed": PLAIN | {"eigenvalues": "signed"},
    "delta, three steps": PLAIN | {"householders": 3, "eigenvalues": "signed"},
    "diagonal, signed": PLAIN | {"mixer": "diagonal", "eigenvalues": "signed"},
}
PRESENT = np.array([True, True, False, True, False, True, True])


def build(name, dtype="float64"):
    """A mixer none of whose leaves is special."""

    def made(key):
        return make_mixer(
            **VARIANTS[name], width=WIDTH, heads=HEADS, dropout=0.0, key=key, std=1.0, out_std=1.0, dtype=dtype
        )

    shapes = jax.eval_shape(made, jax.random.key(0))
    draw = np.random.default_rng(3)
    return jax.tree.map(lambda x: jnp.asarray(0.7 * draw.standard_normal(x.shape), dtype=x.dtype), shapes)


def inputs(length=LENGTH):
    return np.random.default_rng(4).standard_normal((length, WIDTH))


@jax.jit
def every_way(mixer, x, mask):
    """A whole sequence, the same by steps, and with padding; compiled once."""

    def step(state, row):
        told, state = mixer.advance(row, state)
        return state, told

    return mixer(x), jax.lax.scan(step, mixer.empty(x.dtype), x)[1], mixer(x, mask)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_mixer_equals_the_plain_loop_and_its_own_steps_and_padding_leaves_the_state_as_it_was(name):
    with jax.enable_x64(True):
        mixer, x = build(name), inputs()
        mask = jnp.tril(jnp.broadcast_to(jnp.asarray(PRESENT), (LENGTH, LENGTH)))
        whole, steps, padded = every_way(mixer, jnp.asarray(x), mask)
        expected = loops.forward(mixer, x)
        assert_close(whole, expected, 1e-10)
        assert_close(steps, expected, 1e-10)
        assert_close(padded[PRESENT], loops.forward(mixer, x, PRESENT)[PRESENT], 1e-10)
        assert_close(padded[PRESENT], loops.forward(mixer, x[PRESENT]), 1e-10)


def test_chunks_of_the_delta_rule_hand_the_state_on(monkeypatch):
    monkeypatch.setattr(delta, "CHUNK", 3)
    with jax.enable_x64(True):
        mixer, x = build("delta, three steps"), inputs()
        assert_close(jax.jit(lambda x: mixer(x))(jnp.asarray(x)), loops.forward(mixer, x), 1e-10)


@pytest.mark.parametrize(("eigenvalues", "low"), [("positive", 0.0), ("signed", -1.0)])
def test_the_eigenvalues_of_a_delta_step_fill_their_range_and_no_more(eigenvalues, low):
    mixer = build("delta, signed" if eigenvalues == "signed" else "delta", "float32")
    steps = jax.jit(lambda x: mixer._project(x))(1000 * jnp.asarray(inputs(200), dtype=jnp.float32))
    along = 1 - steps.strengths
    assert_close(along.min(), low, 1e-3)
    assert_close(along.max(), 1.0, 1e-3)
    assert_close(jnp.linalg.norm(steps.keys, axis=-1), jnp.ones_like(steps.strengths), 1e-5)


def test_two_signed_steps_make_a_rotation_and_one_makes_none():
    """A product of two reflections turns the plane: S_3's 3-cycle, which no single step with a real eigenvector is."""
    first, second = np.array([1.0, 0.0]), np.array([np.cos(np.pi / 3), np.sin(np.pi / 3)])
    steps = delta.Steps(
        query=jnp.eye(2, dtype=jnp.float32)[:1, None],
        keys=jnp.asarray(np.stack([first, second]), dtype=jnp.float32)[None, :, None],
        values=jnp.zeros((1, 2, 1, 2), dtype=jnp.float32),
        strengths=jnp.full((1, 2, 1), 2.0, dtype=jnp.float32),
    )
    turned, _ = jax.jit(delta.chunk)(jnp.eye(2, dtype=jnp.float32)[None], steps)
    angle = 2 * np.pi / 3
    rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    assert_close(turned[0], rotation, 1e-6)
    assert_close(np.linalg.matrix_power(np.asarray(turned[0]), 3), np.eye(2), 1e-5)


def test_half_precision_keeps_the_state_in_float32():
    for name in VARIANTS:
        mixer = build(name, "float32")
        x = jax.ShapeDtypeStruct((LENGTH, WIDTH), jnp.bfloat16)
        assert jax.eval_shape(mixer, x).dtype == jnp.bfloat16
        assert {leaf.dtype for leaf in jax.tree.leaves(mixer.empty(x.dtype))} == {jnp.dtype("float32")}
