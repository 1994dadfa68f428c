"""The sequences: Definitions 1 and 2, the authors' layout, several bits a step, noise, and sets without repeats."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stairwise.config import ConfigError, structure
from stairwise.papers.parity_cot import steps, task, train
from stairwise.papers.parity_cot.config.task import PaddedTask, Task
from stairwise.papers.parity_cot.config.theorem3 import ThreeSteps
from stairwise.papers.parity_cot.config.training import Decoder, Training
from stairwise.papers.parity_cot.task import Layout, secret_of
from stairwise.tasks.parity import ParityTokens, coin_flips
from stairwise.tasks.shuffle import distinct_bits, shuffled
from stairwise.train.keys import at, role, role_key
from tests.trials import running

BITS = jnp.array([0, 1, 0, 1, 0], dtype=jnp.int8)
SEED = jnp.uint32(0)
problem_of = eqx.filter_jit(task.problem_of)


def test_the_worked_example_of_both_definitions():
    secret = (0, 1, 3)
    with_chain = problem_of(Task(5, 3, secret=secret), SEED)
    without = problem_of(Task(5, 3, cot=False, secret=secret), SEED)
    assert with_chain.tokens(BITS).tolist() == [0, 1, 0, 1, 0, 0, 0, 1, 0]
    assert without.tokens(BITS).tolist() == [0, 1, 0, 1, 0, 0, 0]
    assert with_chain.labels(with_chain.tokens(BITS)).tolist() == [0, 1, 0]
    assert without.labels(without.tokens(BITS)).tolist() == [0]


def test_the_authors_layout_drops_the_zero_without_a_chain_and_supervises_it_with_one():
    secret = (0, 1, 3)
    without = problem_of(Task(5, 3, cot=False, secret=secret, layout="authors"), SEED)
    assert without.tokens(BITS).tolist() == [0, 1, 0, 1, 0, 0]
    assert (without.layout.length, without.layout.first) == (5, 4)
    with_chain = problem_of(Task(5, 3, secret=secret, layout="authors"), SEED)
    assert with_chain.tokens(BITS).tolist() == [0, 1, 0, 1, 0, 0, 0, 1, 0]
    assert with_chain.labels(with_chain.tokens(BITS)).tolist() == [0, 0, 1, 0]
    assert with_chain.layout.first == 4
    assert with_chain.looks_at.sum(axis=1).tolist() == [0, 1, 1, 1]


@given(seed=st.integers(0, 2**32 - 1), cot=st.booleans())
@settings(max_examples=10, deadline=None)
def test_tokens_are_those_of_the_kernels_parity_with_the_same_secret(seed, cot):
    (ours, labels), told = told_both_ways(cot, jnp.uint32(seed), jax.random.key(seed))
    assert ours.tolist()[:-1] == told.tokens.tolist()
    assert labels.tolist() == np.asarray(told.targets)[np.asarray(told.weights) > 0].tolist()


@eqx.filter_jit
def told_both_ways(cot, seed, key):
    """Tokens and labels of one problem, and the sentence of the kernel's parity."""
    of = Task(9, 4, cot=cot, order="random")
    reference = ParityTokens(9, secret_of(of, role_key(seed, "secret"), 4), size=4)
    bits, problem = coin_flips(key, 9), problem_of(of, seed)
    ours = problem.tokens(bits)
    return (ours, problem.labels(ours)), reference.sentence(bits, "chain" if cot else "answer")


def test_padding_changes_no_secret_and_no_token():
    for size in (1, 3, 6):
        exact = problem_of(Task(9, size), SEED)
        padded = problem_of(PaddedTask(9, size, padding=8), SEED)
        bits = jnp.array([1, 0, 1, 1, 0, 1, 0, 0, 1], dtype=jnp.int8)
        length = 9 + 1 + size
        assert padded.tokens(bits)[:length].tolist() == exact.tokens(bits).tolist()
        assert padded.live.tolist() == [True] * size + [False] * (8 - size)
        assert padded.absorbs[:size].tolist() == exact.absorbs.tolist()


def test_a_step_that_adds_g_bits_skips_g_minus_one_partial_sums():
    one = problem_of(Task(9, 6), SEED)
    bits = jnp.array([1, 0, 1, 1, 0, 1, 1, 0, 1], dtype=jnp.int8)
    partial_sums = one.labels(one.tokens(bits)).tolist()
    for g in (2, 4, 6):
        many = problem_of(Task(9, 6, absorbed=g), SEED)
        steps = -(-6 // g)
        assert many.live.sum() == steps
        expected = [partial_sums[min(g * (i + 1), 6) - 1] for i in range(steps)]
        assert many.labels(many.tokens(bits))[:steps].tolist() == expected


def test_a_wrong_step_flips_itself_and_all_that_builds_on_it():
    problem = problem_of(Task(5, 3, secret=(0, 1, 3)), SEED)
    right = problem.labels(problem.tokens(BITS))
    wrong = problem.labels(problem.tokens(BITS, jnp.array([False, True, False], dtype=bool)))
    assert (right ^ wrong).tolist() == [0, 1, 1]


def test_the_authors_secret_avoids_the_last_input_unless_it_must_hold_it():
    key = jax.random.key(0)
    for seed in range(8):
        own = jax.random.fold_in(key, seed)
        assert 5 not in secret_of(Task(6, 5, layout="authors"), own, 5).tolist()
    assert secret_of(Task(6, 6, layout="authors"), key, 6).tolist() == list(range(6))


# --- sets without repeats ---------------------------------------------------------------------------------------------


def test_a_shuffle_is_a_bijection_that_the_key_decides():
    shuffle = jax.jit(
        lambda seed, size: shuffled(jax.random.key(seed), jnp.arange(4096, dtype=jnp.uint32) % size, size)
    )
    for size in (1, 2, 5, 1000, 4096):
        first, second = (np.asarray(shuffle(seed, jnp.uint32(size)))[:size] for seed in (0, 1))
        assert sorted(first.tolist()) == list(range(size))
        if size > 100:
            assert np.mean(first == second) < 0.02
            assert abs(np.corrcoef(first, np.arange(size))[0, 1]) < 0.1


def test_codes_are_distinct_and_no_parity_of_their_bits_is_biased():
    bits = np.asarray(jax.vmap(lambda i: distinct_bits(jax.random.key(2), i, 12))(jnp.arange(2048, dtype=jnp.int32)))
    assert len(np.unique(bits, axis=0)) == 2048
    masks = (np.arange(1, 4096)[:, None] >> np.arange(12)) & 1
    means = 1 - 2 * ((bits @ masks.T) % 2).mean(axis=0)
    # half of all codes: each of 4095 parities has mean 0 and deviation 1/sqrt(4096); 4.5 of those in each direction
    assert np.abs(means).max() < 4.5 / 64


def test_training_and_validation_sets_are_disjoint_and_every_epoch_sees_every_sequence_once():
    config = Training(
        task=PaddedTask(8, 2, padding=2), model=Decoder(8, heads=1), samples=96, test_examples=160, batch=32
    )
    problem, trial = problem_of(config.task, SEED), running(config)
    draw = jax.jit(jax.vmap(lambda n: train.batch(trial, problem, None, None, n).tokens[:, :8]))
    epochs = np.asarray(draw(jnp.arange(6, dtype=jnp.int32))).reshape(2, 96, 8)
    held_out = np.asarray(train.validation_tokens(trial, problem))[:, :8]
    for epoch in epochs:
        assert len(np.unique(np.concatenate([epoch, held_out]), axis=0)) == 256
    assert not np.array_equal(epochs[0], epochs[1])


def test_steps_are_wrong_with_the_chance_of_the_noise_whatever_the_inputs_and_never_where_they_are_tested():
    config = Training(
        task=PaddedTask(4, 2, padding=2, noise=0.2), model=Decoder(8, heads=1), samples=0,
        test_examples=16, batch=16,
    )  # fmt: skip
    problem, trial = problem_of(config.task, SEED), running(config)
    drawn = jax.jit(jax.vmap(lambda n: train.training_tokens(trial, problem, n)))(jnp.arange(8000, dtype=jnp.int32))
    tokens, secret = np.asarray(drawn), np.argmax(problem.absorbs, axis=1)
    wrong = tokens[:, 5:] ^ tokens[:, 4:6] ^ tokens[:, secret]  # each step against the one before it
    assert np.abs(wrong.mean(axis=0) - 0.2).max() < 5 * np.sqrt(0.16 / 8000)
    signs = 1 - 2 * tokens[:, :4].astype(float)
    assert np.abs(signs.T @ (wrong - 0.2) / 8000).max() < 5 * np.sqrt(0.16 / 8000)
    assert abs(np.mean((wrong[:, 0] - 0.2) * (wrong[:, 1] - 0.2))) < 5 * 0.16 / np.sqrt(8000)
    held_out = np.asarray(train.validation_tokens(trial, problem))
    assert not (held_out[:, 5:] ^ held_out[:, 4:6] ^ held_out[:, secret]).any()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Task(5, 6), "size=6 must be at most bits=5"),
        (lambda: Task(5, 2, secret=(0, 5)), "secret=5 must lie in 0..4"),
        (lambda: Task(5, 2, secret=(1, 1)), "secret=1 must not be repeated"),
        (lambda: Task(5, 0), "size=0 must be at least 1"),
        (lambda: Training(task=PaddedTask(10, 2, padding=2), samples=1000, test_examples=1000), "must be at most 1024"),
        (lambda: Training(look=100), "look=100 must be a multiple of batch=128"),
        (lambda: Decoder(64, heads=3), "heads=3 must divide width=64"),
    ],
)
def test_bad_sizes_are_refused_in_one_line(make, words):
    with pytest.raises(ConfigError) as refused:
        make()
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_static_part_of_a_padded_training_does_not_know_k():
    first, second = (structure(Training(task=PaddedTask(size=size))) for size in (1, 7))
    assert first == second
    assert Layout.of(first.task).rows == 16


def test_wrong_steps_have_a_key_of_their_own_and_say_nothing_of_the_inputs():
    """Were they drawn with the inputs' key, a learner could tell from the inputs which steps are wrong."""
    config, rho, count, key = ThreeSteps(task=Task(8, 4)), 0.25, 4096, jax.random.key(3)
    problem = problem_of(config.task, SEED)
    clean, noisy = (np.asarray(steps.draw_tokens(config, problem, each, count, key)) for each in (0.0, rho))
    assert np.array_equal(clean[:, :9], noisy[:, :9])
    flips = clean[:, 9:] ^ noisy[:, 9:]
    wrong = np.diff(flips, axis=1, prepend=0) != 0

    def drawn(name):
        keys = jax.vmap(lambda number: role(at(key, number), name))(jnp.arange(count))
        return np.asarray(jax.vmap(lambda each: jax.random.uniform(each, (4,), dtype=jnp.float32) < rho)(keys))

    assert np.array_equal(wrong, drawn("noise"))
    assert not np.array_equal(wrong, drawn("bits"))
    covariance = (wrong - rho).T @ (clean[:, :8] - 0.5) / count
    assert np.abs(covariance).max() < 5 * np.sqrt(rho * (1 - rho)) / 2 / np.sqrt(count)
