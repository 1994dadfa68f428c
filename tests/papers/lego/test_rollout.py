"""Facts about the roll-out of the practical decoder."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.papers.lego.decoder import Decoder
from stairwise.papers.lego.evaluate import cut, rolled_out
from stairwise.papers.lego.own import OwnDecoder
from stairwise.papers.lego.rollout import roll_out
from stairwise.papers.lego.task import lego
from stairwise.papers.lego.theory.chains import drawn
from stairwise.train.own import OwnModel

LONGEST = 6
TASK = lego("C5", variables=9, length=LONGEST)
CHAINS = drawn(TASK, 0, 4)
CHAIN = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)[0]), CHAINS)


@eqx.filter_jit
def decoder(positions: str, attention_residual: bool = True) -> Decoder:
    """Weights large enough that no two tokens tie, and keys that are queries: an answer looks at itself most of all.

    Without the residual it knows itself in no other way, so that a mask that hides it shows.
    """
    model = Decoder(
        vocabulary=TASK.vocabulary,
        width=8,
        heads=2,
        positions=positions,
        max_clauses=2 * LONGEST + 1,
        attention_residual=attention_residual,
        key=jax.random.key(3),
    )
    model = jax.tree.map(lambda leaf: 2 * leaf, model)
    keys = model.key_value.weight.at[:, :8].set(model.query.weight)
    return eqx.tree_at(lambda model: model.key_value.weight, model, keys)


@eqx.filter_jit
def answers(model, clauses, length: int):
    return model(clauses, length)


def recomputed(model: Decoder, clauses: np.ndarray, length: int) -> np.ndarray:
    """The whole sentence anew for every clause."""
    sentence = np.array(clauses)
    for step in range(length):
        # what is not answered yet is in the future of the answer that is asked, which never looks there
        sentence[length + 1 + step] = np.asarray(answers(model, sentence, length))[step].argmax(axis=-1)
    return sentence[length + 1 :]


@pytest.mark.parametrize(("positions", "residual"), [("none", False), ("rotary", True)])
def test_cached_roll_outs_equal_full_recomputation_at_every_length_through_one_program(positions, residual):
    model = decoder(positions, residual)
    predicates, start = TASK.predicates(CHAIN), TASK.answers(CHAIN)[0]
    program = jax.jit(partial(roll_out, model))
    for length in (2, LONGEST):
        shorter = lego("C5", variables=9, length=length)
        expected = recomputed(model, np.asarray(shorter.clauses(cut(CHAIN, length))), length)
        made = np.asarray(program(predicates, start, jnp.int32(length)))
        np.testing.assert_array_equal(made[:length], expected)
        np.testing.assert_array_equal(made[length:], 0)
        assert len(np.unique(expected, axis=0)) > 1  # not the same clause again and again
    assert program._cache_size() == 1  # type: ignore[attr-defined]


def test_predicates_beyond_the_length_are_never_read():
    model, start = decoder("none"), TASK.answers(CHAIN)[0]
    predicates = TASK.predicates(CHAIN)
    other = predicates.at[3:].set(TASK.predicates(CHAIN)[0])
    length = jnp.int32(3)
    program = jax.jit(partial(roll_out, model))
    np.testing.assert_array_equal(program(predicates, start, length), program(other, start, length))


def test_the_five_measures_agree_with_their_definitions_on_counted_sentences():
    model = decoder("none")
    found = eqx.filter_jit(rolled_out)(model, TASK, CHAINS, (2, LONGEST))
    for place, length in enumerate((2, LONGEST)):
        exact, final, step, clause, expected = [], [], [], [], []
        for n in range(4):
            chain = cut(jax.tree.map(lambda leaf, n=n: leaf[n], CHAINS), length)
            task = lego("C5", variables=9, length=length)
            clauses = np.asarray(task.clauses(chain))
            made, true = recomputed(model, clauses, length), clauses[length + 1 :]
            right = made[:, 4] == true[:, 4]
            exact, final, step = [*exact, right.all()], [*final, right[-1]], [*step, right.mean()]
            clause = [*clause, (made == true).all()]
            logits = np.asarray(answers(model, clauses, length)[:-1], dtype=np.float64)
            odds = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
            chosen = np.take_along_axis(odds, true[..., None], axis=-1)[..., 0]
            expected = [*expected, chosen.prod(axis=-1).mean()]
        for name, values in zip(found._fields, (exact, final, step, clause, expected), strict=True):
            np.testing.assert_allclose(float(getattr(found, name)[place]), np.mean(values), rtol=1e-4, atol=1e-9)


class FaultyReader(eqx.Module):
    """Finds the predicate that is asked for, and adds.

    After action 2 its value is wrong by one; after action 3 it says a token where a blank belongs.
    """

    def __call__(self, clauses):
        before = jnp.tril(jnp.ones((len(clauses), len(clauses)), dtype=bool))
        asked = before & (clauses[:, None, 3] == clauses[None, :, 2]) & (clauses[None, :, 0] > 0)
        found = clauses[jnp.argmax(asked, axis=1)]
        action = found[:, 1] - 10
        value = (clauses[:, 4] - 15 + action + (action == 2)) % 5 + 15
        blank = jnp.zeros_like(action)
        said = jnp.stack([(action == 3).astype(action.dtype), blank, blank, found[:, 0], value], axis=1)
        return 5 * jax.nn.one_hot(said, TASK.vocabulary, dtype=jnp.float32)


def test_the_five_measures_of_a_reader_that_errs_now_and_then_are_those_of_a_count():
    chains = drawn(TASK, 1, 40)
    model = OwnDecoder(OwnModel(*eqx.partition(FaultyReader(), eqx.is_array)))
    found = eqx.filter_jit(rolled_out)(model, TASK, chains, (1, 3, LONGEST))
    likely, unlikely = np.exp([5, 0]) / (np.exp(5) + TASK.vocabulary - 1)
    for place, length in enumerate((1, 3, LONGEST)):
        rows = []
        for n in range(40):
            actions, values = (np.asarray(part[n]) for part in (chains.actions, chains.values))
            slips = np.cumsum(actions[:length] == 2)
            right, whole, chances = slips % 5 == 0, not np.any(actions[:length] == 3), []
            for action in actions[:length]:
                wrong = int(action == 2) + int(action == 3)
                chances.append(likely ** (5 - wrong) * unlikely**wrong)
            assert (values[1 : length + 1] == (values[0] + np.cumsum(actions[:length])) % 5).all()
            rows.append((right.all(), right[-1], right.mean(), right.all() and whole, np.mean(chances)))
        expected = np.mean(rows, axis=0)
        assert ((expected > 0.01) & (expected < 0.99)).all()
        np.testing.assert_allclose([float(part[place]) for part in found], expected, rtol=1e-5)
