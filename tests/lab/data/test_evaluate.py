"""Whoever answers is judged right: an oracle scores 1, a constant chance, and a slip is seen at its step."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stairwise as sw
from stairwise.config import ConfigError, update
from stairwise.lab.data.evaluate import Exam, few_shots, worked
from stairwise.lab.data.request import DataRequest
from stairwise.lab.registry import task
from tests.lab.data.shapes import NAMES, SHAPES


def question(prompt):
    """The last question of a prompt with examples before it."""
    return prompt.rpartition("Q: ")[2].removesuffix("\nA:")


def oracle(name, options, slip=None):
    """Answers by the task's oracle; `slip` changes the list of its steps."""
    found = task(name)
    config = update(found.Config(), options)
    drawn = DataRequest.of(name, options, 1, split="test").source.drawn

    def answer(prompt):
        steps, last = found.solve(config, drawn, question(prompt))
        steps = slip(steps) if slip else steps
        return f" {'; '.join(f'h{k} = {step}' for k, step in enumerate(steps))}. Answer: {last}"

    return answer


@pytest.mark.parametrize(("name", "options"), SHAPES, ids=NAMES)
def test_an_oracle_is_always_right_with_and_without_examples(name, options):
    one = {"hops": options["hops"][:1]} if "hops" in options else {}
    found = sw.evaluate(oracle(name, options | one), name, n=25, shots=2, **(options | one))
    assert [row.cot for row in found.rows] == [True, False]
    for row in found.rows:
        assert (row.answer.right, row.answer.of, row.answer.value, row.invalid) == (25, 25, 1.0, 0)
        assert 0.8 < row.answer.low < 1
        assert row.answer.high == 1
    assert all(step.value == 1 for step in found.rows[0].steps)
    assert len(found.rows[0].steps) >= 1
    assert found.rows[1].steps == ()


@pytest.mark.parametrize(("name", "chance"), [("lego", 1 / 6), ("parity_chain", 1 / 2)])
def test_a_constant_scores_chance_inside_its_interval_nineteen_times_of_twenty(name, chance):
    options = {"secret": (3, 7, 1, 9)} if name == "parity_chain" else {}
    rows = [
        sw.evaluate(lambda prompt: "Answer: 0", name, n=100, cot=False, seed=seed, **options).row(cot=False)
        for seed in range(20)
    ]
    assert sum(row.answer.low < chance < row.answer.high for row in rows) >= 16  # fewer: once in 4000 times
    assert abs(np.mean([row.answer.value for row in rows]) - chance) < 4 * (chance * (1 - chance) / 2000) ** 0.5
    assert all(row.invalid == 0 for row in rows)


def test_a_step_that_slips_is_caught_at_that_step_alone():
    def slip(steps):
        return [*steps[:2], str((int(steps[2]) + 1) % 6), *steps[3:]]

    row = sw.evaluate(oracle("lego", {}, slip), "lego", n=30).row()
    assert [step.value for step in row.steps] == [1, 1, 0, 1, 1]
    assert row.answer.value == 1


def test_steps_that_are_off_by_one_are_caught_at_every_step():
    row = sw.evaluate(oracle("lego", {}, lambda steps: steps[1:]), "lego", n=200).row()
    assert all(step.value < 0.3 for step in row.steps[:-1])  # equal by chance only
    assert row.steps[-1].value == 0  # one too few
    assert row.answer.value == 1


def test_what_holds_no_answer_is_wrong_and_counted_as_invalid():
    said = iter(["Answer: 17", "I cannot tell", "", "x3", *["Answer: 0"] * 6])
    row = sw.evaluate(lambda prompt: next(said), "lego", n=10, cot=False).row(cot=False)
    assert row.invalid == 4
    assert row.answer.right <= 6


def test_lengths_are_the_difficulty_of_the_task_and_each_has_its_row():
    def half(prompt):
        length = len(re.findall(r"a\d+\(", question(prompt)))
        return oracle("lego", {"length": length})(prompt) if length < 5 else "Answer: ?"

    found = sw.evaluate(half, "lego", n=20, lengths=(2, 4, 6), cot=True)
    assert [(row.difficulty, row.answer.value, row.invalid) for row in found.rows] == [(2, 1, 0), (4, 1, 0), (6, 0, 20)]
    assert [len(row.steps) for row in found.rows] == [2, 4, 6]
    with pytest.raises(ValueError, match="names 3 of the 3 rows"):
        found.row()


def test_a_mixture_of_hops_is_a_row_a_hop():
    found = sw.evaluate(lambda prompt: "Answer: 0", "composition", n=10, hops=(1, 3), cot=True)
    assert [(row.difficulty, len(row.steps)) for row in found.rows] == [(1, 1), (3, 3)]


def test_examples_come_from_the_training_split_and_are_worked_as_asked():
    for cot in (True, False):
        request = DataRequest.of("lego", {}, 5, split="test", cot=cot)
        before = few_shots(request, 3)
        train = list(sw.data("lego", 3, cot=cot))
        assert before.count("Q: ") == 3
        for record in train:
            assert f"Q: {record['prompt']}\nA: {worked(record)}\n\n" in before
        assert ("steps" in before) == cot


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"shots": -1}, "shots=-1 must lie in 0..1000"),
        ({"n": 0}, "n=0 must lie in 1.."),
        ({"form": "pictures"}, "form=pictures must be one of text, tokens"),
        ({"form": "tokens", "shots": 1}, "shots=1 must be 0 where form=tokens"),
        ({"lengths": (30,)}, "length=30 needs 31 variables"),
        ({"split": "all"}, "split=all must be one of train, val, test"),
        ({"n": True}, "n=True must lie in 1.."),
        ({"lengths": ()}, "lengths=[] must have at least one value of length"),
        ({"lengths": (2, 4, 2)}, "lengths=2 must not be repeated"),
        ({"split": "train", "shots": 2}, "split=train must be val or test where shots=2"),
    ],
)
def test_a_bad_exam_is_refused_in_one_line_before_anything_is_asked(more, words):
    with pytest.raises(ConfigError, match=re.escape(words)):
        Exam.of("lego", {}, **more)


def test_more_solved_examples_than_there_are_are_refused_before_a_model_is_loaded():
    with pytest.raises(ConfigError, match=r"^shots=300 must be at most 204, the examples of split=train$"):
        Exam.of("parity_chain", {"bits": 8}, n=5, shots=300)


# --- token ids to logits ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "options"), [shape for shape in SHAPES if shape[0] != "selection"])
def test_logits_that_know_the_sequences_score_one_and_shifted_ones_do_not(name, options):
    options = options | ({"hops": options["hops"][:1]} if "hops" in options else {})
    for cot in (True, False):
        request = DataRequest.of(name, options, 20, split="test", cot=cot)
        true = np.concatenate([block.columns["tokens"] for block in request.blocks()]).astype(int)
        vocabulary = len(request.source.vocabulary)

        def knows(tokens, true=true, vocabulary=vocabulary, shift=0):
            following = (true[:, 1 : tokens.shape[1] + 1] + shift) % vocabulary
            return np.eye(vocabulary)[following]

        found = sw.evaluate(knows, name, n=20, cot=cot, form="tokens", **options)
        assert found.row(cot=cot).answer.value == 1
        assert [step.value for step in found.row(cot=cot).steps] == [1] * (
            len(request.source.step_places) if cot else 0
        )
        wrong = sw.evaluate(lambda tokens, f=knows: f(tokens, shift=1), name, n=20, cot=cot, form="tokens", **options)
        assert wrong.row(cot=cot).answer.value == 0


def test_the_attention_of_theorem_5_answers_every_node_when_it_looks_at_its_children():
    from stairwise.papers.parity_onestep.model import PositionalAttention
    from stairwise.tasks.parity import Parity

    options = {"bits": 20, "size": 5}
    secret = DataRequest.of("parity_tree", options, 1).source.drawn["secret"]
    tree = Parity(20, tuple(secret)).decomposition
    model = PositionalAttention(20.0 * tree.is_child().astype(jnp.float32), tree)

    @jax.jit
    def values(inputs):
        return jax.vmap(model.by_tokens)(inputs)

    def logits(tokens):
        node = tokens.shape[1]  # the token that comes next
        sign = np.asarray(values(jnp.asarray(1 - 2 * tokens[:, :20], dtype=jnp.float32)))[:, node]
        return np.stack([sign, -sign], axis=1)[:, None]

    row = sw.evaluate(logits, "parity_tree", n=50, cot=True, form="tokens", **options).row()
    assert [step.value for step in row.steps] == [1.0] * 4
    assert row.invalid == 0


def test_vectors_have_no_tokens():
    with pytest.raises(ConfigError, match="form=tokens must be text"):
        sw.evaluate(lambda tokens: tokens, "selection", n=5, form="tokens")
