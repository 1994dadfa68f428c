"""The theory's transformer: gathers against 5d-wide products, the activation, the clip, the ideal FFN, the loss."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.papers.lego import model as models
from stairwise.papers.lego.activation import smooth_relu, smooth_relu_leaky, smooth_relu_printed, smooth_relu_slope
from stairwise.papers.lego.model import ClauseTransformer, FullScores, SparseScores, surprise
from stairwise.papers.lego.task import lego
from stairwise.papers.lego.theory import chains, literal
from tests.helpers import assert_close
from tests.reference import lego as reference

TASK = lego("S3", variables=5, length=3)


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def network(scores: str, clip: float = 2.0, neurons: int = 2) -> ClauseTransformer:
    rng, d = np.random.default_rng(0), TASK.vocabulary
    W = jnp.asarray(0.6 * rng.standard_normal((5, d, 5, d, neurons)))
    full = FullScores(jnp.asarray(rng.standard_normal((5, d, 5, d))))
    sparse = SparseScores(full.blocks[3, :, 2], full.blocks[3, :, 3])
    return ClauseTransformer(W, {"full": full, "sparse": sparse}[scores], 0.1, clip, 0.5, 4)


def sentences(count: int = 3) -> np.ndarray:
    return chains.sentences(TASK, chains.drawn(TASK, 1, count))


@pytest.mark.parametrize("scores", ["sparse", "full"])
def test_gathers_equal_the_dense_definition(scores):
    model = network(scores)
    run = eqx.filter_jit(lambda clauses: (model.attention(clauses, 3), model.logits(clauses, 3)))
    for row in sentences():
        attention, logits = run(jnp.asarray(row[:5], dtype=jnp.int32))
        assert_close(attention, reference.attention(model, row[:5]), 1e-12)
        assert_close(logits, reference.logits(model, row[:5]), 1e-12)
        assert_close(literal.step_of(literal.network_of(model), row[:5], 3, row[5]).F, logits, 1e-12)


def test_block_sparse_scores_are_the_full_ones_with_all_other_blocks_zero():
    sparse = network("sparse").scores
    assert isinstance(sparse, SparseScores)
    row = jnp.asarray(sentences(1)[0][:6], dtype=jnp.int32)
    full, own = jax.jit(lambda row: (FullScores.of(sparse)(row, 3), sparse(row, 3)))(row)
    assert_close(full, own, 1e-15)


def test_one_position_alone_predicts_what_it_predicts_among_five():
    model = network("sparse")
    row = jnp.asarray(sentences(1)[0][:4], dtype=jnp.int32)
    alone, among = jax.jit(lambda row: (model.only(4).logits(row, 3)[0], model.logits(row, 3)[4]))(row)
    assert_close(alone, among, 1e-15)


def test_untrained_attention_on_one_step_is_half_of_five_gathers():
    model = eqx.tree_at(lambda m: m.scores, network("sparse"), SparseScores.zero(TASK.vocabulary, jnp.float64))
    row = jnp.asarray(sentences(1)[0][[0, 3]], dtype=jnp.int32)
    run = jax.jit(lambda row: (model.first_step_logits(row), model.logits(row, 1), model.greedy(row, 1)))
    quick, logits, greedy = run(row)
    assert_close(quick, logits, 1e-14)
    np.testing.assert_array_equal(greedy, np.argmax(logits, axis=1))


def test_the_clip_stops_the_gradient_at_and_above_it():
    model = network("sparse", clip=1.0, neurons=1)
    gradient = jax.jit(jax.vmap(jax.grad(lambda x: model.output(x[None]))))
    at_clip = 1.0 + 0.5 * 0.75  # sReLU is 1 here
    assert gradient(jnp.array([at_clip - 1e-9, at_clip + 1e-9, 5.0], dtype=jnp.float64)).tolist() == [1.0, 0.0, 0.0]


@jax.jit
def all_activations(x):
    printed, leaky = smooth_relu_printed(x, 0.6, 4), smooth_relu_leaky(x, 0.6, 4, 0.1, 2.0)
    return smooth_relu(x, 0.6, 4), smooth_relu_slope(x, 0.6, 4), printed, leaky


def activations(x: np.ndarray) -> list[np.ndarray]:
    """The four functions at rho = .6, q = 4, w = .1, B = 2; one shape, so one compilation."""
    return [np.asarray(found)[: len(x)] for found in all_activations(np.pad(x, (0, 50 - len(x))))]


def test_the_activation_is_smooth_and_that_of_definition_3_4_is_continuous_and_falls():
    value, slope = activations(np.array([-1e-9, 1e-9, 0.6 - 1e-9, 0.6 + 1e-9]))[:2]
    assert np.abs(np.diff(value)[::2]).max() < 1e-8
    assert np.abs(np.diff(slope)[::2]).max() < 1e-7
    x = np.linspace(-1.5, 2, 50)
    value, slope, printed, _ = activations(x)
    assert_close(jax.jit(jax.vmap(jax.grad(lambda x: smooth_relu(x, 0.6, 4))))(x), slope, 1e-12)
    np.testing.assert_array_equal(printed[x > 0], value[x > 0])
    printed = activations(np.array([-9.0, -0.6 - 1e-9, -0.6 + 1e-9, -0.3, 0.0]))[2]
    assert_close(printed, [0.15, 0.15, 0.15, 0.15 / 16, 0.0], 1e-8)  # rho/q below -rho, then down to 0
    leaky = activations(np.array([-9.0, -2.0, -0.1 + 1e-9, -0.1 - 1e-9]))[3]
    assert_close(leaky, [0.195, 0.195, 0.005, 0.005], 1e-8)


@pytest.mark.parametrize("action", ["C4", "S3"])
def test_the_ideal_network_is_exact_on_one_step(action):
    task = lego(action, variables=3, length=1)
    model = models.ideal(task, clip=12.0, rho=0.8, q=4, dtype=jnp.float64)
    rows = chains.sentences(task, chains.every_word(task).examples)
    logits = jax.jit(jax.vmap(lambda row: model.logits(row, 1)[0]))(jnp.asarray(rows[:, :2], dtype=jnp.int32))
    expected = np.zeros(logits.shape)
    expected[np.arange(len(rows)), rows[:, 2, 4]] = 12.0
    assert_close(logits, expected, 1e-13)


def test_surprise_keeps_every_digit_of_a_tiny_loss():
    rows = np.array([[45.0, 0.0, 0.0], [45.0, 0.0, 0.0], [0.3, -1.0, 2.0]])
    found = jax.jit(surprise)(rows, jnp.array([0, 1, 2], dtype=jnp.int32))
    tiny = np.log1p(2 * np.exp(-45.0))
    assert_close(found[0], tiny, 1e-12)
    assert_close(found[1], 45 + tiny, 1e-15)
    assert_close(found[2], np.log(np.exp(rows[2]).sum()) - 2.0, 1e-13)


def test_losses_add_up_over_steps_and_tokens_and_accuracy_is_their_probability():
    model, task = network("sparse"), TASK
    chain = jax.tree.map(lambda leaf: leaf[0], chains.drawn(task, 1, 1))
    row = sentences(1)[0]
    each = []
    for step in (1, 2, 3):
        probabilities = reference.probabilities(model, row[: 3 + step])
        each.append([-np.log(probabilities[i, row[3 + step, i]]) for i in range(5)])
    run = jax.jit(lambda chain: (models.loss(model, task, chain, (1, 2, 3)), models.accuracy(model, task, chain)))
    loss, accuracy = run(chain)
    assert_close(loss, np.sum(each), 1e-12)
    assert_close(accuracy, np.exp(-np.sum(each, axis=1)).mean(), 1e-12)


def test_symmetric_scores_touch_variables_only():
    scores = models.symmetric_scores(TASK, 2.0, -1.0, 3.0, 0.5, dtype=jnp.float64)
    expected = np.zeros((TASK.vocabulary,) * 2)
    expected[1:6, 1:6] = -1.0 + 3.0 * np.eye(5)
    np.testing.assert_array_equal(scores.predicate, expected)
    assert float(scores.answer[2, 2]) == 3.0
    assert float(scores.answer[2, 3]) == 0.5


def test_a_small_power_is_refused():
    model = network("sparse")
    with pytest.raises(ValueError, match="q=2 must be at least 3"):
        ClauseTransformer(model.weights, model.scores, 0.0, 1.0, 0.5, 2)
