"""Facts about greedy roll-out: it equals recomputation from scratch, and one program serves all prompt lengths."""

import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float

from stairwise.nn.transformer import Transformer
from stairwise.train.rollout import greedy
from tests.helpers import assert_close
from tests.reference import transformer as dense

TOTAL, VOCAB = 12, 11
PROMPT = np.array([3, 0, 6, 6, 1, 2, 9, 9, 9, 9, 9, 9], dtype=np.int32)
KINDS = ["none", "learned", "rotary"]


def build(positions="learned", **more):
    sizes = {
        "vocab": VOCAB,
        "width": 12,
        "layers": 2,
        "heads": 2,
        "max_length": TOTAL,
        "outputs": VOCAB,
        "causal": True,
    }
    shapes = eqx.filter_eval_shape(lambda: Transformer(**{**sizes, **more}, positions=positions, key=jax.random.key(0)))
    draw = np.random.default_rng(4)  # draws by NumPy: nothing to compile
    return jax.tree.map(lambda x: jnp.asarray(draw.standard_normal(x.shape), dtype=x.dtype), shapes)


class Counting(eqx.Module):
    """Says the number after the one it reads, and counts how often it was traced."""

    table: Float[Array, "vocab vocab"]
    traced: list = eqx.field(static=True)

    def empty_cache(self, total):
        return jnp.zeros((), dtype=jnp.int32)

    def decode(self, item, position, cache):
        self.traced.append(None)
        return jnp.roll(self.table, 1, axis=1)[item], cache


def counting():
    return Counting(jnp.eye(VOCAB, dtype=jnp.float32), [])


@pytest.mark.parametrize("positions", KINDS)
def test_rollout_equals_dense_recomputation_token_for_token(positions):
    prompts = np.random.default_rng(0).integers(0, VOCAB, (6, TOTAL)).astype(np.int32)
    with jax.enable_x64(True):
        model = build(positions, compute_dtype="float64", parameter_dtype="float64")
        generated = np.stack([greedy(model, jnp.asarray(prompt), 4) for prompt in prompts])
        np.testing.assert_array_equal(generated, [dense.greedy(model, prompt, 4) for prompt in prompts])
    assert len(np.unique(generated[:, 4:], axis=0)) >= 3  # the prompt matters


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rollout_equals_full_recomputation_by_the_same_model(dtype):
    model = build(compute_dtype=dtype)
    generated = greedy(model, jnp.asarray(PROMPT), 4)
    # what comes later changes no earlier logit, so one call recomputes every step
    np.testing.assert_array_equal(generated[:4], PROMPT[:4])
    np.testing.assert_array_equal(generated[4:], np.argmax(model(generated), axis=1)[3:-1])


def decoded(model, items):
    """The logits at every position, one position at a time."""

    def step(cache, inputs):
        logits, cache = model.decode(*inputs, cache)
        return cache, logits

    steps = (items, jnp.arange(TOTAL, dtype=jnp.int32))
    return jax.lax.scan(step, model.empty_cache(TOTAL), steps)[1]


@pytest.mark.parametrize("positions", KINDS)
def test_decoded_logits_equal_the_full_forward_pass(positions):
    with jax.enable_x64(True):
        model = build(positions, compute_dtype="float64", parameter_dtype="float64")
        assert_close(decoded(model, jnp.asarray(PROMPT)), model(jnp.asarray(PROMPT)), 1e-12)


def test_continuous_inputs_decode_like_the_full_forward_pass():
    model = build("rotary", vocab=None)
    embeddings = jnp.asarray(np.random.default_rng(1).standard_normal((TOTAL, 12)), dtype=jnp.float32)
    assert_close(decoded(model, embeddings), model(embeddings), 1e-5)


def test_padding_after_the_prompt_is_never_read():
    model = build()
    other = np.where(np.arange(TOTAL) < 5, PROMPT, 0).astype(np.int32)
    np.testing.assert_array_equal(greedy(model, jnp.asarray(PROMPT), 5), greedy(model, jnp.asarray(other), 5))


def test_a_model_that_counts_counts_on_from_every_prompt_length():
    for length in (1, 4, 11, 12):
        generated = np.asarray(greedy(counting(), jnp.asarray(PROMPT), length))
        expected = [*PROMPT[:length], *((PROMPT[length - 1] + 1 + np.arange(TOTAL - length)) % VOCAB)]
        np.testing.assert_array_equal(generated, expected)


def test_prompt_length_is_traced_and_one_program_serves_all_lengths():
    model = counting()
    greedy(model, jnp.asarray(PROMPT), 2)
    traces = len(model.traced)
    for length in range(1, TOTAL + 1):
        greedy(model, jnp.asarray(PROMPT), length)
    assert len(model.traced) == traces >= 1


def test_vmapped_over_prompts_and_lengths_equals_one_by_one():
    model = build("rotary")
    prompts = jax.random.randint(jax.random.key(2), (5, TOTAL), 0, VOCAB, jnp.int32)
    lengths = jnp.array([1, 3, 5, 8, 12], dtype=jnp.int32)
    together = jax.vmap(greedy, in_axes=(None, 0, 0))(model, prompts, lengths)
    for row, prompt, length in zip(together, prompts, lengths, strict=True):
        np.testing.assert_array_equal(row, greedy(model, prompt, length))


def test_items_of_several_slots_are_generated_slot_by_slot():
    class Clauses(eqx.Module):
        """Every slot counts on by itself: a clause model as a wrapper around a token model."""

        slot: Counting

        def empty_cache(self, total):
            return self.slot.empty_cache(total)

        def decode(self, item, position, cache):
            return self.slot.decode(item, position, cache)

    prompt = jnp.stack([jnp.asarray(PROMPT), jnp.asarray(PROMPT[::-1])], axis=1)
    generated = greedy(Clauses(counting()), prompt, 3)
    for slot in range(2):
        np.testing.assert_array_equal(generated[:, slot], greedy(counting(), prompt[:, slot], 3))


def test_a_position_costs_one_pass_over_the_context():
    """The program is one scan, and no array in it pairs positions with positions."""
    total = 53  # no other size of the model
    program = str(jax.make_jaxpr(greedy)(build("none"), jnp.zeros((total,), dtype=jnp.int32), 2))
    assert program.count("scan[") == 1
    shapes = [shape.split(",") for shape in re.findall(r"[a-z]+[0-9]+\[([0-9,]+)\]", program)]
    assert max(shape.count(str(total)) for shape in shapes) == 1


def test_an_encoder_cannot_be_rolled_out():
    with pytest.raises(ValueError, match="causal=False must be True to decode"):
        greedy(build(causal=False), jnp.asarray(PROMPT), 3)


def test_a_rollout_longer_than_the_learned_table_is_refused():
    with pytest.raises(ValueError, match="length=13 must be at most max_length=12"):
        greedy(build(), jnp.zeros((13,), dtype=jnp.int32), 3)
