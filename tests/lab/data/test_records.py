"""Records say the truth: by their oracles, which read the prompt alone, and by the papers' own task code."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stairwise as sw
from stairwise.config import ConfigError, leaves
from stairwise.lab.data.check import problem_with
from stairwise.lab.data.request import DataRequest
from stairwise.lab.registry import task
from stairwise.papers.composition.task import Example
from stairwise.papers.lego.task import Chain
from stairwise.tasks.enumeration import SPLITS
from tests.lab.data.shapes import NAMES, SHAPES


def records(request):
    return [record for block in request.blocks() for record in block.records()]


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.sampled_from(SHAPES), st.integers(0, 2**32 - 1), st.sampled_from(list(SPLITS)), st.booleans())
def test_every_record_is_what_its_oracle_says(shape, seed, split, cot):
    task, options = shape
    request = DataRequest.of(task, options, 30, seed=seed, split=split, cot=cot)
    header, found = request.header("jsonl"), records(request)
    assert [problem_with(header, record) for record in found] == [None] * 30
    assert all(("steps" in record) == ("step_values" in record) == cot for record in found)
    assert len({record["prompt"] for record in found}) == 30


@pytest.mark.parametrize(("task", "options"), SHAPES, ids=NAMES)
def test_an_oracle_sees_a_wrong_answer_and_a_wrong_step(task, options):
    request = DataRequest.of(task, options, 1, split="test")
    header, (record,) = request.header("jsonl"), records(request)
    for name in ("answer_value", "step_values"):
        changed = np.array(record[name]) + 1
        assert problem_with(header, record | {name: changed.tolist()}).startswith(name)
    assert problem_with(header, record | {"answer": "77"}).startswith("answer:")
    assert problem_with(header, record | {"steps": "y = 77"}).startswith("steps:")


def questions(task, split, seed, options):
    """What is held out: the prompt, without what it takes from the seed (a selection's subset)."""
    found = sw.data(task, 150, split=split, seed=seed, **options)
    return {record["prompt"].partition("; average")[0] for record in found}


@pytest.mark.parametrize(("task", "options"), SHAPES, ids=NAMES)
def test_splits_share_no_prompt_whatever_the_seeds(task, options):
    hidden = options | ({"tell": False} if "tell" in options and task != "lego" else {})
    held = {(split, seed): questions(task, split, seed, hidden) for split in SPLITS for seed in (0, 1)}
    for (split, _), some in held.items():
        for (other, _), others in held.items():
            assert split == other or not some & others


def test_a_split_is_used_up_exactly_and_no_further():
    held = 2**8 // 10 * 8 + 4  # 204 of 256
    found = {tuple(record["bits"]) for record in sw.data("parity_chain", held, bits=8, size=2)}
    assert len(found) == held
    with pytest.raises(ConfigError, match=r"n=205 must be at most 204: split=train has that many of the 256"):
        sw.data("parity_chain", held + 1, bits=8, size=2)


def test_blocks_and_shards_change_no_record():
    request = DataRequest.of("composition", {"hops": (1, 2)}, 100)
    whole = records(request)
    for shards in (2, 3, 7):
        parts = [
            record for shard in range(shards) for block in request.blocks(shard, shards) for record in block.records()
        ]
        assert sorted(parts, key=lambda record: record["index"]) == whole
    assert [
        record for start in range(0, 100, 30) for record in request.block(start, min(30, 100 - start)).records()
    ] == whole


def test_label_noise_is_as_frequent_as_asked_and_only_in_training():
    noisy = DataRequest.of("parity_chain", {"noise": 0.25, "size": 4}, 5000)
    wrong = np.concatenate([block.columns["wrong"] for block in noisy.blocks()])
    assert abs(wrong.mean() - 0.25) < 4 * (0.25 * 0.75 / wrong.size) ** 0.5
    assert "wrong" not in next(DataRequest.of("parity_chain", {"noise": 0.25}, 5, split="test").blocks()).columns


# --- the papers' own code ---------------------------------------------------------------------------------------------


def test_lego_sentences_are_the_clauses_of_the_paper():
    from stairwise.papers.lego.task import Chain, lego

    block = next(DataRequest.of("lego", {"action": "S3", "length": 4}, 50).blocks())
    task = lego("S3", variables=24, length=4)
    values = np.concatenate([block.columns["start_value"][:, None], block.columns["step_values"]], axis=1)
    chain = Chain(
        *(jnp.asarray(part, dtype=jnp.int32) for part in (block.columns["variables"], block.columns["actions"], values))
    )
    assert (jax.vmap(task.clauses)(chain).reshape(50, -1) == block.columns["tokens"]).all()
    tracked = jax.vmap(task.track_by_products)(chain.values[:, 0], chain.actions)
    assert (tracked == chain.values).all()


def test_composition_steps_are_the_hops_of_the_paper_with_the_same_hidden_permutations():
    from stairwise.papers.composition.task import composition

    request = DataRequest.of("composition", {"hops": (4,), "moved": 2}, 50, seed=3)
    columns = next(request.blocks()).columns
    hidden = np.array(request.source.drawn["hidden"], dtype=np.int32)
    assert (hidden != np.arange(5)).any(axis=1).sum() <= 2
    task = composition(hidden)
    steps = jax.vmap(lambda sequence: task.steps(sequence, 4))(jnp.asarray(columns["sequence"], dtype=jnp.int32))
    block, letter = columns["query"].T
    assert (np.asarray(steps)[np.arange(50), :, block, letter] == columns["step_values"]).all()


@pytest.mark.parametrize("cot", [True, False])
@pytest.mark.parametrize("layout", ["paper", "authors"])
def test_parity_chains_are_the_sequences_of_the_paper(layout, cot):
    from stairwise.papers.parity_cot.task import problem_of

    request = DataRequest.of("parity_chain", {"layout": layout, "order": "random", "absorbed": 1}, 50, seed=5, cot=cot)
    columns = next(request.blocks()).columns
    problem = problem_of(request.config.task(cot=cot), 5)
    tokens = jax.vmap(problem.tokens)(jnp.asarray(columns["bits"], dtype=jnp.int8))
    assert (tokens == columns["tokens"]).all()
    labels = columns["tokens"][:, request.source.prompt_tokens :]
    assert (problem.labels(tokens) == labels).all()
    assert (labels[:, list(request.source.step_places)][:, -1] == columns["answer_value"]).all()


@pytest.mark.parametrize("tree", ["balanced", "chain"])
def test_parity_trees_are_the_products_of_the_paper(tree):
    from stairwise.tasks.parity import Parity

    request = DataRequest.of("parity_tree", {"bits": 20, "size": 5, "tree": tree}, 50)
    columns = next(request.blocks()).columns
    task = Parity(20, tuple(request.source.drawn["secret"]), tree)
    tokens = jax.vmap(task.tokens)(jnp.asarray(columns["bits"], dtype=jnp.int8))
    assert (tokens[:, 20:] == columns["step_values"]).all()
    assert (jax.vmap(task.label)(jnp.asarray(columns["bits"], dtype=jnp.int8)) == columns["answer_value"]).all()


def test_selection_averages_are_the_papers_answers_and_its_entries_have_unit_second_moment():
    from stairwise.papers.selection.task import Selection, SparseSelection

    request = DataRequest.of("selection", {"length": 9, "sparsity": 4, "width": 3}, 2000)
    columns = next(request.blocks()).columns
    inputs = jnp.asarray(columns["inputs"] / 1000, dtype=jnp.float32)
    task = SparseSelection(9, 4, 3)
    true = jax.vmap(lambda x, y: task.answer(Selection(x, y)))(inputs, jnp.asarray(columns["subset"], dtype=jnp.int32))
    assert np.abs(np.asarray(true) - columns["answer_value"] / 1000).max() <= 0.000501
    assert abs(float((inputs**2).mean()) - 1) < 0.02
    for law in ("gaussian", "laplace"):
        from stairwise.papers.selection.data import quantiles

        levels = quantiles(law, 4)
        assert len(np.unique(levels)) == 10**4
        assert (levels == -levels[::-1]).all()


def told_in_values(name, columns):
    """Steps and answers as the task tells them: LEGO in clauses of five tokens, the value last."""
    if name != "lego":
        return columns["step_values"] if name != "parity_tree" else (1 - columns["step_values"]) // 2
    clauses = columns["tokens"].reshape(len(columns["tokens"]), -1, 5)
    return clauses[:, -columns["step_values"].shape[1] :]


EXAMPLES = {
    "lego": lambda c: Chain(c["variables"], c["actions"], np.c_[c["start_value"], c["step_values"]]),
    "composition": lambda c: Example(c["sequence"], (c["query"] @ [5, 1]).astype(np.int32), c["answer_value"]),
    "parity_chain": lambda c: c["bits"].astype(np.int8),
    "parity_tree": lambda c: ((1 - c["bits"]) // 2).astype(np.int8),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_data_are_examples_of_the_task_that_models_train_on(name):
    found = sw.task(name, seed=4)
    columns = next(DataRequest.of(name, {}, 20, seed=4).blocks()).columns
    examples = jax.tree.map(lambda part: jnp.asarray(part, dtype=part.dtype), EXAMPLES[name](columns))
    wanted = told_in_values(name, columns)
    assert (jax.vmap(found.chain)(examples) == wanted).all()
    assert (jax.vmap(found.answer)(examples) == wanted[:, -1]).all()
    assert found.difficulty.field == task(name).difficulty


def test_what_a_task_cannot_be_is_refused():
    for name, options, words in [
        ("parity_chain", {"absorbed": 2}, "absorbed=2 must be 1"),
        ("composition", {"hops": (1, 2)}, "hops=1,2 must be one number"),
        ("lego", {"distractors": 1, "length": 3}, "distractors=1 must be 0"),
    ]:
        with pytest.raises(ConfigError, match=words):
            sw.task(name, **options)


# --- any options ------------------------------------------------------------------------------------------------------

TASKS = sorted({task for task, _ in SHAPES})
FIELDS = {name: [field.path for field in leaves(task(name).Config())] for name in TASKS}
VALUES = st.one_of(
    st.integers(-(10**20), 10**20).map(str),
    st.integers(0, 40).map(str),
    st.text(max_size=10),
    st.sampled_from(
        ["1,2", "true", "shuffled", "random", "authors", "S8", "[[1,0]]", "<[[1,2,0]]>", "0.3", "1e3", "[["]
    ),
)


@settings(max_examples=120, deadline=None)
@given(st.data(), st.sampled_from(TASKS), st.integers(1, 10**6))
def test_any_options_are_either_taken_or_refused_in_one_line(draw, name, n):
    options = draw.draw(st.dictionaries(st.sampled_from(FIELDS[name]), VALUES, max_size=3))
    try:
        request = DataRequest.of(name, options, n)
    except ConfigError as error:
        refused = str(error)
    else:
        refused = "" if request.space.capacity("train") >= n else "taken, but too small"
    assert refused == "" or re.search(r"must|unknown|needs?|has|the", refused)
    assert len(refused) < 1000
