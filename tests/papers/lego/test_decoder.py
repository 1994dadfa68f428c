"""Facts about the practical decoder."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.papers.lego import decoder as lego_decoder
from stairwise.papers.lego import evaluate as lego_evaluate
from stairwise.papers.lego.decoder import Decoder
from stairwise.papers.lego.evaluate import clause_losses, diagonals, equivariance, mean_attention
from stairwise.papers.lego.rollout import VARIABLE, roll_out
from stairwise.papers.lego.task import Chain, lego
from stairwise.papers.lego.theory.chains import drawn
from tests.helpers import assert_close

LENGTH, WIDTH = 4, 8
TASK = lego("S3", variables=9, length=LENGTH)
CHAINS = drawn(TASK, 0, 3)
CLAUSES = jax.jit(lambda chains: TASK.clauses(jax.tree.map(lambda leaf: leaf[0], chains)))(CHAINS)


@eqx.filter_jit
def decoder(dtype="float32", **options) -> Decoder:
    options = {"positions": "none", "max_clauses": 2 * LENGTH + 1} | options
    return Decoder(vocabulary=TASK.vocabulary, width=WIDTH, heads=2, key=jax.random.key(1), dtype=dtype, **options)


@eqx.filter_jit
def answers(model, clauses, predicates=LENGTH, **more):
    return model(clauses, predicates, **more)


def turned(vectors: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Rotary positions by complex numbers; `vectors` are [clause, head_width]."""
    half = vectors.shape[1] // 2
    frequencies = 10000.0 ** (-2 * np.arange(half) / vectors.shape[1])
    pairs = (vectors[:, :half] + 1j * vectors[:, half:]) * np.exp(1j * positions[:, None] * frequencies)
    return np.concatenate([pairs.real, pairs.imag], axis=1)


def dense(model: Decoder, clauses: np.ndarray, positions: str) -> np.ndarray:
    """The whole decoder at every clause, as one would first write it: causal attention over all of the sentence."""
    table, unembedding = np.asarray(model.table), np.asarray(model.unembedding)
    places = np.arange(len(clauses))

    def norm(x, layer):
        return x if layer is None else np.asarray(layer.weight) * x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)

    def linear(x, layer):
        return x @ np.asarray(layer.weight) + np.asarray(layer.bias)

    told = [[table[slot, token] for slot, token in enumerate(clause) if token != 0] for clause in clauses]
    embedded = np.array([np.sum(rows, axis=0) for rows in told])
    if positions == "learned":
        embedded = embedded + np.asarray(model.positions.table)[places]  # type: ignore[attr-defined]
    x = norm(embedded, model.attention_norm)
    key_value, query = linear(x, model.key_value), linear(x, model.query)
    attended = []
    for head in range(2):
        part = slice(head * WIDTH // 2, (head + 1) * WIDTH // 2)
        q, k, v = query[:, part], key_value[:, :WIDTH][:, part], key_value[:, WIDTH:][:, part]
        if positions == "rotary":
            q, k = turned(q, places), turned(k, places)
        scores = np.where(places[None, :] <= places[:, None], np.exp(q @ k.T / np.sqrt(WIDTH // 2)), 0)
        attended.append(scores / scores.sum(axis=1, keepdims=True) @ v)
    stream = linear(np.concatenate(attended, axis=1), model.out) + (embedded if model.attention_residual else 0)
    update = linear(np.asarray(jax.nn.gelu(linear(norm(stream, model.mlp_norm), model.mlp.expand))), model.mlp.contract)
    stream = update + (stream if model.mlp_residual else 0)
    return np.einsum("kw,swv->ksv", norm(stream, model.norm), unembedding)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"positions": "learned", "attention_residual": False},
        {"positions": "rotary", "norm": False},
        {"mlp_residual": False},
    ],
)
def test_the_decoder_at_answers_equals_a_causal_transformer_at_every_clause(options):
    with jax.enable_x64(True):
        model = decoder("float64", **options)
        logits = answers(model, CLAUSES)
        assert_close(logits, dense(model, np.asarray(CLAUSES), options.get("positions", "none"))[LENGTH:], 1e-12)


@pytest.mark.parametrize("positions", ["none", "learned"])
@pytest.mark.parametrize("present", [None, jnp.asarray(np.arange(2 * LENGTH + 1) != 1)])
def test_the_way_of_a_gpu_gives_the_same_loss_and_gradient(monkeypatch, positions, present):
    """With the plain forms of its kernels; a loss by comparison is that by indexing."""
    with jax.enable_x64(True):
        model = jax.tree.map(lambda leaf: leaf + 0.1, decoder("float64", positions=positions))  # biases that are not 0

        def loss(model):
            read = None if present is None else present[: len(CLAUSES) - 1]
            return jnp.sum(clause_losses(model(CLAUSES[:-1], LENGTH, present=read), CLAUSES[LENGTH + 1 :]))

        wanted = jax.jit(jax.value_and_grad(loss))(model)
        for module in (lego_decoder, lego_evaluate):
            monkeypatch.setattr(module, "on_gpu", lambda dtype: True)
        found = jax.jit(jax.value_and_grad(loss))(model)
        for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
            assert_close(ours, theirs, 1e-9)


def test_the_blank_adds_nothing_to_a_clause():
    model = decoder()
    other = eqx.tree_at(lambda m: m.table, model, model.table.at[:, 0].set(7.0))
    np.testing.assert_array_equal(answers(model, CLAUSES), answers(other, CLAUSES))


def test_padding_changes_no_logit():
    model = decoder(positions="rotary")
    padding = jnp.full((2, 5), 3, dtype=jnp.int32)
    padded = jnp.concatenate([CLAUSES[:LENGTH], padding, CLAUSES[LENGTH:]])
    places = jnp.array([0, 1, 2, 3, 0, 0, 4, 5, 6, 7, 8], dtype=jnp.int32)
    present = jnp.array([True] * LENGTH + [False] * 2 + [True] * (LENGTH + 1), dtype=bool)
    assert_close(answers(model, padded, LENGTH + 2, positions=places, present=present), answers(model, CLAUSES), 1e-6)


def test_without_positions_the_order_of_predicates_matters_to_rounding_only():
    order = jnp.array([2, 0, 3, 1], dtype=jnp.int32)
    changed = eqx.filter_jit(equivariance)
    change = changed(decoder(), TASK, CHAINS, order)
    assert max(float(value) for value in change) < 1e-6
    assert float(changed(decoder(positions="rotary"), TASK, CHAINS, order).logits) > 1e-3


def test_mean_attention_is_a_distribution_over_what_each_answer_may_see():
    weights = np.asarray(eqx.filter_jit(mean_attention)(decoder(), TASK, CHAINS))
    assert weights.shape == (2, LENGTH, 2 * LENGTH)
    assert_close(weights.sum(axis=-1), np.ones((2, LENGTH)), 1e-6)
    later = np.triu_indices(LENGTH, 1)
    assert np.all(weights[:, later[0], LENGTH + later[1]] == 0)
    predicate, answer = diagonals(jnp.asarray(weights))
    assert float(predicate[1, 2]) == weights[1, 2, 2]
    assert float(answer[1, 2]) == weights[1, 2, LENGTH + 2]


def test_heads_that_do_not_divide_the_width_are_refused():
    with pytest.raises(ValueError, match="heads=3 must be at least 1 and divide width=8"):
        Decoder(vocabulary=5, width=8, heads=3, key=jax.random.key(0))


def test_a_roll_out_that_is_told_the_variables_reads_them_in_every_answer():
    model = decoder()
    chain = Chain(*(part[0] for part in CHAINS))
    predicates, answers = TASK.predicates(chain), TASK.answers(chain)
    told = np.asarray(roll_out(model, predicates, answers[0], TASK.length, None, answers[1:, VARIABLE]))
    assert (told[:, VARIABLE] == np.asarray(answers[1:, VARIABLE])).all()
    clauses, said = np.concatenate([predicates, answers[:1]]), eqx.filter_jit(lambda given: model(given, TASK.length))
    for made in told:  # each clause is what the decoder says after the clauses that it was given
        logits = np.asarray(said(jnp.asarray(clauses)))[-1]
        expected = logits.argmax(axis=-1)
        expected[VARIABLE] = made[VARIABLE]
        assert (made == expected).all()
        clauses = np.concatenate([clauses, made[None]])


def test_a_roll_out_of_a_padded_sentence_is_that_of_the_sentence_alone():
    task = lego("C3", variables=72, length=70)  # longer than a block, and than the first rows of the memory
    model = Decoder(vocabulary=task.vocabulary, width=WIDTH, heads=2, key=jax.random.key(2))
    model = jax.tree.map(lambda leaf: 2 * leaf if leaf.ndim > 1 else leaf, model)  # so that clauses differ
    chain = jax.tree.map(lambda leaf: leaf[0], drawn(task, 0, 1))
    predicates, start = task.predicates(chain), task.answers(chain)[0]
    padded = jax.jit(roll_out)
    said = eqx.filter_jit(lambda clauses, length: jnp.argmax(model(clauses, length), axis=-1))
    for length in (5, 40, 70):
        made = np.asarray(padded(model, predicates, start, jnp.int32(length)))
        assert not made[length:].any()
        sentence = jnp.concatenate([predicates[:length], start[None], jnp.asarray(made[: length - 1])])
        assert (np.asarray(said(sentence, length)) == made[:length]).all()
        assert len(np.unique(made[:length], axis=0)) > 2
