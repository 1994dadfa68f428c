"""Five supervisions of one parity: what each asks, what it shows, and what counts."""

from dataclasses import replace
from functools import cache
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.config import ConfigError
from stairwise.papers.crossings import supervisions
from stairwise.papers.crossings.supervisions import SUPERVISIONS, Supervised, runs, train
from stairwise.papers.parity_cot.config.training import Decoder
from stairwise.tasks.parity import draw_subset
from stairwise.train.keys import role_key
from tests.papers.records import HandMade
from tests.trials import run, running

pytestmark = pytest.mark.slow  # most of them compile a network

SMALL = Supervised(
    bits=6,
    padding=4,
    model=Decoder(width=8, heads=2, std=0.5),
    batch=16,
    look=16,
    budget=32,
    test_examples=16,
)


def at(supervision: str, size: int = 4):
    return running(replace(SMALL, supervision=supervision, size=size), seed=3)


def rows(lesson) -> list[set[int]]:
    """The subsets that the live rows ask for."""
    asks, live = np.asarray(lesson.asks), np.asarray(lesson.live)
    assert not asks[~live].any()
    return [set(np.flatnonzero(row).tolist()) for row in asks[live]]


def secret(size: int) -> list[int]:
    return draw_subset(role_key(jnp.uint32(3), "secret"), 6, 4, None, size).tolist()[:size]


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("supervision", SUPERVISIONS)
def test_the_last_row_of_every_supervision_asks_for_the_same_secret(supervision, size):
    lesson = train.lesson_of(at(supervision, size))
    asked = rows(lesson)
    assert asked[-1] == asked[int(lesson.last)] == set(secret(size))
    assert len(asked) == {"none": 1, "tree": size - 1}.get(supervision, size)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_a_chain_takes_one_more_bit_a_row_and_a_tree_joins_two_that_are_known(size):
    chain = rows(train.lesson_of(at("chain", size)))
    assert [len(row) for row in chain] == list(range(1, size + 1))
    assert all(before < after for before, after in pairwise(chain))
    known = [{bit} for bit in secret(size)]
    for row in rows(train.lesson_of(at("tree", size))):
        assert any(a | b == row and not a & b for a in known for b in known)
        known.append(row)


def test_at_two_bits_a_tree_is_the_answer_alone():
    tree, none = (train.lesson_of(at(kind, 2)) for kind in ("tree", "none"))
    assert rows(tree) == rows(none)


@cache
def decoder():
    return jax.jit(train.initial)(at("none"))


@cache
def batch(supervision: str, size: int = 3):
    trial = at(supervision, size)

    @jax.jit
    def make(trial, model):
        lesson = train.lesson_of(trial)
        return lesson, model, train.batch_of(trial, lesson, model, jax.random.key(0), 0)

    return trial, *make(trial, decoder())


def test_every_supervision_sees_the_same_inputs():
    seen = [np.asarray(batch(kind)[-1].tokens[:, :6]) for kind in SUPERVISIONS]
    assert all((one == seen[0]).all() for one in seen)


def test_held_out_inputs_are_never_trained_on():
    trial, *_ = batch("none")
    config = trial.config
    held_out = train.inputs_at(trial, config.pool - 1 - jnp.arange(config.test_examples, dtype=jnp.int32))
    trained = train.inputs_at(trial, jnp.arange(config.pool - config.test_examples, dtype=jnp.int32))
    codes = [{tuple(row) for row in part.tolist()} for part in (held_out, trained)]
    assert not codes[0] & codes[1]
    assert len(codes[0] | codes[1]) == config.pool
    shown = {tuple(row) for row in batch("none")[-1].tokens[:, :6].tolist()}
    assert shown <= codes[1]


def test_a_mixture_asks_one_prefix_a_sequence_and_shows_no_answer():
    *_, made = batch("mixture")
    assert not np.asarray(made.tokens[:, 6:]).any()
    weights = np.asarray(made.weights)
    assert (weights.sum(axis=1) == 1).all()
    assert weights.sum(axis=0)[:3].all()
    assert not weights[:, 3:].any()


def test_own_chains_count_only_where_they_end_in_the_parity():
    _, lesson, _, made = batch("self")
    parity = np.asarray(lesson.answers(made.tokens[:, :6]))[:, 2]
    right = np.asarray(made.labels)[:, 2] == parity
    assert 0 < right.sum() < len(right)
    assert (np.asarray(made.weights) == right[:, None] * np.array([1.0, 1.0, 1.0, 0.0])).all()
    assert (np.asarray(made.tokens)[:, 7:] == np.asarray(made.labels)[:, :-1]).all()


@pytest.mark.parametrize("supervision", ["chain", "mixture"])
def test_a_greedy_roll_out_is_what_the_dense_decoder_says_token_by_token(supervision):
    trial, lesson, model, made = batch(supervision)
    bits = made.tokens[:4, :6]
    said = jax.jit(lambda bits: train.own_answers(trial.config, lesson, model, bits, None))(bits)
    dense = jax.jit(lambda tokens: model(tokens))
    for one, answers in zip(np.asarray(bits), np.asarray(said), strict=True):
        tokens = np.array([*one, 0, 0, 0, 0], dtype=np.int32)  # causal: what follows is not read
        for row in range(3):
            logits = dense(tokens)[6 + row]
            assert int(logits[1] > logits[0]) == answers[row]
            tokens[7 + row] = answers[row] if lesson.shown else 0


def test_what_does_not_count_has_no_gradient():
    trial, _, model, made = batch("mixture")
    gradient = jax.jit(jax.grad(lambda model: train.batch_loss(trial.config, model, made)))(model)
    # the place of the padded row is read by no row that counts
    assert not np.asarray(gradient.positions.table)[6 + 3].any()
    assert np.asarray(gradient.positions.table)[6].any()


# --- what the records say ---------------------------------------------------------------------------------------------


def record(supervision: str, size: int, hit: int, rate: float = 1e-3, seed: int = 0) -> HandMade:
    config = replace(Supervised(), supervision=supervision, size=size, learning_rate=rate)
    return HandMade(config, measured={"hit": ([0], [hit]), "accuracy": ([0], [0.5])}, seed=seed)


def made_up(hits: dict[str, list[int]]) -> list[HandMade]:
    return [record(kind, k, hit) for kind, column in hits.items() for k, hit in zip((2, 3, 4, 6), column, strict=True)]


RECORDS = made_up(
    {
        "none": [4, 15, -1, -1],
        "chain": [2, 5, 7, 8],
        "tree": [4, 6, 12, 20],
        "mixture": [5, 15, 30, -1],
        "self": [30, -1, 9, -1],
    }
)


def test_the_reach_ends_before_the_first_size_that_is_not_learnt():
    assert runs.reaches(RECORDS) == {"none": 3, "chain": 6, "tree": 6, "mixture": 4, "self": 2}


def test_the_hypotheses_can_hold_and_can_fall():
    claims = {claim.id: claim.judged for claim in supervisions.LEDGER.claims}
    assert {id: judge(RECORDS).status for id, judge in claims.items()} == dict.fromkeys(claims, "holds")
    fallen = made_up({kind: [30, 30, 20, -1] if kind == "chain" else [5, 5, 5, 5] for kind in SUPERVISIONS[:3]})
    fallen += made_up({"mixture": [-1] * 4, "self": [5] * 4})
    fallen = [replace(one, config=replace(one.config, size=5)) if one.config.size == 6 else one for one in fallen]
    assert {
        claims[id](fallen).status for id in ("supervisions-chain", "supervisions-tree", "supervisions-mixture")
    } == {"not-reproduced"}


def test_the_rate_is_the_one_at_which_most_seeds_succeed_then_the_fastest():
    slow_but_sure = [record("none", 3, 40, 1e-3, seed) for seed in (0, 1)]
    fast_but_not = [record("none", 3, hit, 3e-3, seed) for seed, hit in enumerate((2, -1))]
    assert runs.at_best_rate(fast_but_not + slow_but_sure) == slow_but_sure
    faster = [record("none", 3, 30, 3e-4, seed) for seed in (0, 1)]
    assert runs.at_best_rate(slow_but_sure + faster) == faster


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"size": 7}, "size=7 must be at most padding=6"),
        ({"padding": 13}, "padding=13 must be at most bits=12"),
        ({"look": 100}, "look=100 must be a multiple of batch=128"),
        ({"budget": 1000}, "budget=1000 must be a multiple of look=1024"),
        ({"test_examples": 4096}, "test_examples=4096 must be below"),
        ({"model": Decoder(dropout=0.1)}, "dropout=0.1 must be 0"),
    ],
)
def test_bad_sizes_are_one_line(changes, words):
    with pytest.raises(ConfigError, match=words):
        replace(Supervised(), **changes)


def test_a_chain_is_learnt_sooner_than_the_answer_alone():
    learnt = {}
    for supervision in ("chain", "none"):
        config = Supervised(bits=8, padding=4, supervision=supervision, budget=16_384, test_examples=64)
        found = run(train.training, config)
        learnt[supervision] = found.last("hit") if found.status == "reached" else np.inf
    assert learnt["chain"] < learnt["none"]
