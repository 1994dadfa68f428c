"""Facts about the atlas: its words, its cells, its registration, and how the hypotheses are judged."""

import tomllib
from importlib.resources import files

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.config import ConfigError, structure, update
from stairwise.papers import crossings
from stairwise.papers.crossings import atlas
from stairwise.papers.crossings.atlas import runs, train
from stairwise.papers.crossings.atlas.config import PARITY, POSITIONS, SUPERVISED, Cell, has
from stairwise.papers.crossings.atlas.task import group_words
from stairwise.papers.lego.groups import named
from stairwise.tasks.protocols import SequenceTask
from stairwise.train.own import ModelSizes
from tests.papers.crossings import judged
from tests.papers.records import HandMade

GPU = atlas.EXPERIMENT.preset("gpu")


def test_states_of_a_word_are_the_products_of_its_permutations_and_the_two_oracles_agree():
    words = group_words("S3", 7)
    assert isinstance(words, SequenceTask)
    word = words.sample(jax.random.key(3))
    table, state = named("S3").table, np.arange(3)
    for element, found in zip(word.tolist(), words.chain(word).tolist(), strict=True):
        state = table[element][state]
        assert (table[found] == state).all()
    assert int(words.answer(word)) == words.chain(word).tolist()[-1]


def test_every_state_is_asked_for_or_the_last_alone_and_none_is_shown():
    word = jnp.array([1, 1, 0, 1], dtype=jnp.int32)
    states, answer = (group_words("C2", 4).sentence(word, name) for name in ("states", "answer"))
    assert states.tokens.tolist() == answer.tokens.tolist() == [1, 1, 0, 1]
    assert (states.targets.tolist(), states.weights.tolist()) == ([1, 0, 0, 1], [1, 1, 1, 1])
    assert (answer.targets.tolist(), answer.weights.tolist()) == ([0, 0, 0, 1], [0, 0, 0, 1])


def test_cells_and_programs_stay_few_and_every_row_of_every_question_is_among_them():
    trials = atlas.EXPERIMENT.trials("gpu")
    assert len(GPU.arms) == 40
    assert len({trial.program_key for trial in trials}) == 20
    for question in (PARITY, atlas.HOUSEHOLDERS, SUPERVISED, POSITIONS):
        for fields in question.values():
            assert any(has(trial.config, fields) for trial in trials)


def test_what_was_registered_is_what_is_judged():
    text = files(crossings).joinpath("registered/atlas.toml").read_text(encoding="utf-8")
    kept = tomllib.loads(text)
    assert {each["claim"] for each in kept["hypothesis"]} == {f"crossings/{c.id}" for c in atlas.LEDGER.claims}
    assert kept["seeds"] == GPU.seeds == atlas.RUNS


def test_a_model_of_ones_own_is_told_the_tokens_and_the_longest_test():
    told = []

    def make_model(sizes, key):
        told.append(sizes)
        shape = (*sizes.tokens, sizes.outputs)
        return jax.tree_util.Partial(lambda bias, tokens: jnp.zeros(shape) + bias, jnp.zeros(sizes.outputs))

    train.training_own(make_model, structure(Cell(length=3)))
    train.training_own(make_model, structure(update(Cell(), {"told": "clauses", "supervision": "chain", "length": 2})))
    assert told[0] == ModelSizes(vocabulary=2, outputs=2, length=12)
    assert told[-1] == ModelSizes(
        vocabulary=41, outputs=41, length=16, slots=5
    )  # a blank, 36 variables, 2 actions, 2 values


def test_impossible_cells_are_refused_by_name():
    with pytest.raises(ConfigError, match=r"supervision=chain must be one of answer, states where told=word"):
        update(Cell(), {"supervision": "chain"})
    with pytest.raises(ConfigError, match=r"variables=36 must be at least 65, 4 times length=16 and one"):
        update(Cell(), {"told": "clauses", "supervision": "chain"})
    with pytest.raises(ConfigError, match=r"row 1 = \[1, 1\] must be a permutation"):
        update(Cell(), {"action": "[[0,1],[1,1]]"})


# --- judging ----------------------------------------------------------------------------------------------------------

GOOD = ("[-1, 1]", "LSTM", "chain, L", "none", "rotary", "alibi")


def record(arm: str, seed: int, solved: bool) -> HandMade:
    config = update(GPU.config, GPU.arms[arm])
    share = 1.0 - 0.01 * seed if solved else 0.0
    measured = {f"exact {times}": ([1], [share]) for times in (1, 2, 4)}
    return HandMade(config, measured=measured | {"hit": ([1], [3 + seed if solved else -1])}, seed=seed)


def predicted(arm: str) -> bool:
    return any(word in arm for word in GOOD) and "1 step" not in arm


def all_runs(solved=predicted) -> list[HandMade]:
    return [record(arm, seed, solved(arm)) for arm in GPU.arms for seed in range(5)]


def test_what_is_predicted_holds_where_cells_fall_as_predicted():
    found = all_runs()
    assert {judged(claim.id, found).status for claim in atlas.LEDGER.claims} == {"holds"}


def test_a_hypothesis_falls_where_its_own_cells_do_and_only_there():
    found = all_runs(lambda arm: predicted(arm) or "gated" in arm or "answer, L=2" in arm)
    fallen = ("atlas-positive", "atlas-chain")
    assert {judged(claim, found).status for claim in fallen} == {"not-reproduced"}
    assert {judged(claim, found).status for claim in ("atlas-s5", "atlas-parity-delta")} == {"holds"}
    nothing = all_runs(lambda arm: False)
    assert judged("atlas-householders", nothing).status == "not-reproduced"
    assert judged("atlas-positive", nothing).status == "holds"


def test_other_seeds_are_outside_of_what_was_registered_and_a_missing_row_is_skipped():
    few = [one for one in all_runs() if one.seed < 2]
    assert judged("atlas-parity-delta", few).status == "outside"
    without = [one for one in all_runs() if not has(one.config, PARITY["minGRU"])]
    assert judged("atlas-parity-lstm", without).status == "skipped"
    assert judged("atlas-parity-delta", without).status == "outside"  # six tests are not the registered family


def test_five_against_five_can_pass_after_correction():
    values = runs.p_values(all_runs())
    assert values["parity-delta"] == pytest.approx(1 / 252)
    assert max(runs.holm(values).values()) <= 0.05
