"""Word problems as training data: texts are put together exactly, and data is named by its content."""

import subprocess
import sys
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.cli import main
from stairwise.config import ConfigError, as_dict, from_dict, update
from stairwise.lab import registry
from stairwise.lab.contract.experiment import Trial
from stairwise.papers.parity_cot import corpus, language_decoder, word_problems
from stairwise.papers.parity_cot.config.gsm8k import Corpus, Figures67, Model, Prefixes, Reading
from stairwise.papers.parity_cot.gsm8k import WordProblem
from stairwise.papers.parity_cot.presets.gsm8k import ARMS, GSM8K
from tests.helpers import assert_close
from tests.language import INVENTED, gsm8k_folder, write_problems
from tests.trials import run, running

LENGTH = 144
PARTS = [corpus.split_parts(WordProblem(*one), strip_calculator=False) for one in INVENTED]
VOCABULARY = corpus.build_vocabulary(PARTS, 200)
LAID_OUT = corpus.lay_out(PARTS, VOCABULARY)
ON_DEVICE = corpus.Parts(*map(jnp.asarray, LAID_OUT))
CONFIG = Reading(corpus=Corpus(vocabulary=200, length=LENGTH), model=Model(width=16, layers=1, heads=2))
compose = jax.jit(partial(language_decoder.compose, ON_DEVICE, LENGTH))


def words(text):
    return [VOCABULARY[token] for token in np.asarray(text.tokens)[: int(text.end)]]


@pytest.fixture(scope="module")
def read():
    """What is read off a text by a decoder of random weights, and its attention."""
    decoder = jax.jit(lambda key: language_decoder.make_model(update(CONFIG, {"model.std": 0.3}), key))(
        jax.random.key(1)
    )
    return jax.jit(lambda text: (language_decoder.read(decoder, text), decoder.with_attention(text.tokens)[1]))


# --- texts ------------------------------------------------------------------------------------------------------------


def test_a_text_is_question_reasoning_and_result_one_after_another():
    for i, (question, reasoning, result) in enumerate(PARTS):
        own = compose(i, i, True)
        assert words(own) == question + reasoning + result
        bare = compose(i, i, False)
        assert words(bare) == question + result
        assert words(own)[: int(own.question)] == question
        assert words(own)[int(own.result) :] == result
        assert not np.any(own.tokens[int(own.end) :])


def test_borrowed_reasoning_is_another_problems_and_as_long_as_the_own():
    longest = int(np.argmax(LAID_OUT.lengths[:, 1]))
    for i, (question, reasoning, result) in enumerate(PARTS):
        other = int(LAID_OUT.partner[i])
        assert other != i
        text = compose(i, other, True)
        kept = PARTS[other][1][: len(reasoning)]
        assert words(text) == question + kept + result
        if i != longest:
            assert int(text.end) == len(question + reasoning + result)


def test_borrowing_keeps_the_lengths_of_the_published_problems():
    problems = word_problems.read(word_problems.address(str(gsm8k_folder()))).train
    lengths = np.array([len(corpus.split_parts(one, strip_calculator=False)[1]) for one in problems], dtype=np.int32)
    borrowed = np.minimum(lengths, lengths[corpus.partners(lengths)])
    assert np.sum(borrowed != lengths) <= 1
    assert np.all(np.bincount(corpus.partners(lengths), minlength=len(lengths)) <= 2)
    assert np.mean(lengths[corpus.partners(lengths)] - lengths) < 0.1  # hardly anything is cut off


def test_frequent_pieces_are_known_and_others_are_unknown():
    small = corpus.build_vocabulary(PARTS, 20)
    assert small[: len(corpus.ALWAYS)] == corpus.ALWAYS
    assert len(small) == 20
    laid = corpus.lay_out(PARTS, small)
    flat = [piece for one in PARTS for part in one for piece in part]
    assert [small[token] for token in laid.tokens] == [piece if piece in small else corpus.UNKNOWN for piece in flat]


def test_a_trial_reads_each_problem_in_the_shares_it_is_given():
    many = corpus.lay_out(PARTS * 100, VOCABULARY)
    many = corpus.Parts(*map(jnp.asarray, many._replace(partner=np.full(600, 2, dtype=np.int32))))
    everyone = jnp.arange(600, dtype=jnp.int32)
    all_texts = jax.jit(lambda trial: jax.vmap(partial(language_decoder.own_text, many, trial))(everyone))
    texts, own = (all_texts(running(replace(CONFIG, reasoning=0.5, own=share))) for share in (0.25, 1.0))
    reasoned = np.asarray(texts.result > texts.question)
    assert abs(np.mean(reasoned) - 0.5) < 0.08
    same = np.all(np.asarray(texts.tokens == own.tokens), axis=1)
    assert abs(np.mean(same[reasoned]) - 0.375) < 0.1  # 1/4, and the copies of problem 2 itself
    assert np.all(same[~reasoned])


# --- measurements -----------------------------------------------------------------------------------------------------


def test_what_stands_behind_the_end_changes_nothing(read):
    text = compose(1, 1, True)
    place = np.arange(LENGTH)
    other = text._replace(tokens=jnp.where(place < text.end, text.tokens, jnp.asarray(place % 7, dtype=jnp.int32)))
    a, b = read(text)[0], read(other)[0]
    for name in a:
        assert_close(a[name], b[name], 1e-6)


def test_entropies_are_those_of_eq1_written_out(read):
    text = compose(1, 1, True)
    found, weights = read(text)
    rows = []
    for i in range(1, int(text.end)):
        p = np.clip(np.asarray(weights, dtype=np.float64)[..., i, : i + 1], 1e-300, None)
        rows.append(-np.sum(p * np.log(p), axis=-1) / np.log(i + 1))
    assert_close(found["min"], np.min(rows, axis=0), 1e-5)
    assert_close(found["mean"], np.mean(rows, axis=0), 1e-5)
    assert_close(found["mean question"], np.mean(rows[: int(text.question) - 1], axis=0), 1e-5)


def test_the_rows_of_the_question_do_not_know_what_follows(read):
    found = [read(compose(2, other, told))[0] for other, told in ((2, True), (4, True), (2, False))]
    for name in ("min question", "mean question"):
        assert_close(found[1][name], found[0][name], 1e-6)
        assert_close(found[2][name], found[0][name], 1e-6)


@pytest.mark.slow
def test_training_learns_what_the_texts_look_like(tmp_path):
    data = write_problems(tmp_path / "problems.jsonl", INVENTED * 4)
    sizes = Corpus(vocabulary=128, length=80, held_out=2)
    config = Reading(
        data=str(data), corpus=sizes, model=Model(width=16, layers=1, heads=2, std=0.2), batch=4, steps=60,
        learning_rate=1e-2, measure_every=60,
    )  # fmt: skip
    found = run(language_decoder.reading, config)
    first, last = (value for name, value in zip(found.name, found.value, strict=True) if name == "loss")
    assert first > 0.9 * np.log(128)
    assert last < 0.6 * first  # the held-out problems are copies of the others here
    means = found.arrays["train/heads"].mean(axis=(1, 2))
    assert_close(means, [found.last(name) for name in language_decoder.LOOKS], 1e-5)


# --- data by content --------------------------------------------------------------------------------------------------


def test_the_same_data_elsewhere_is_the_same_trial_and_other_data_is_another(tmp_path):
    here, there, other = (tmp_path / name for name in ("a.jsonl", "b.jsonl", "c.jsonl"))
    for path in (here, there):
        write_problems(path)
    write_problems(other, INVENTED[:-1])
    experiment = registry.experiment("parity_cot/gsm8k")
    digests = [Trial(experiment, Reading(data=str(path)), 0).digest for path in (here, there, other)]
    assert digests[0] == digests[1] != digests[2]
    assert str(tmp_path) not in str(as_dict(Reading(data=str(here))))


def test_a_stored_config_needs_no_file_to_be_read_and_one_to_be_run(tmp_path):
    path = write_problems(tmp_path / "a.jsonl")
    stored = as_dict(Reading(data=str(path)))
    path.write_text(path.read_text() + "\n")
    config = from_dict(Reading, stored)
    with pytest.raises(ConfigError, match="is not here"):
        word_problems.read(config.data)
    path.unlink()
    assert from_dict(Reading, stored) == config


def test_of_a_single_file_every_tenth_problem_is_held_out(tmp_path):
    path = write_problems(tmp_path / "a.jsonl", INVENTED * 5)
    found = word_problems.read(word_problems.address(str(path)))
    assert (len(found.train), len(found.held_out)) == (27, 3)
    assert found.held_out == [WordProblem(*(INVENTED * 5)[k]) for k in (9, 19, 29)]


def test_the_published_name_is_that_of_the_published_files():
    folder = gsm8k_folder()
    assert word_problems.address(str(folder)) == word_problems.PUBLISHED
    found = word_problems.read(word_problems.PUBLISHED)
    assert (len(found.train), len(found.held_out)) == (7473, 1319)


def test_a_path_that_is_absent_is_one_line_before_a_device_is_started(tmp_path):
    code = (
        "from jax._src import xla_bridge; from stairwise.cli import main\n"
        "statuses = [main(['run', 'parity_cot/gsm8k', f'--data={data}']) for data in ('nowhere', '')]\n"
        "print(statuses, bool(xla_bridge._backends))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout == "[2, 2] False\n"
    for line, data in zip(done.stderr.splitlines(), ("nowhere", "(nothing)"), strict=True):
        assert f"data={data} must be a folder with train.jsonl and test.jsonl" in line


def test_without_the_data_set_a_run_says_how_to_give_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("STAIRWISE_GSM8K", str(tmp_path))
    monkeypatch.setattr(word_problems, "_places", {})
    assert main(["run", "parity_cot/gsm8k", "--seeds", "1", "--store", str(tmp_path / "store")]) == 2
    assert "the published GSM8K is not here: give --data FOLDER or set STAIRWISE_GSM8K" in capsys.readouterr().err


def test_problems_that_are_all_too_long_are_said(tmp_path):
    path = write_problems(tmp_path / "a.jsonl")
    with pytest.raises(ConfigError, match="length=16 leaves 0 training problems"):
        corpus.tokenise(word_problems.address(str(path)), Corpus(length=16))


# --- claims -----------------------------------------------------------------------------------------------------------


def records(shift):
    """Final values as a store would give them: with CoT lower by `shift`, seeds differ by themselves."""
    noise = np.random.default_rng(0).normal(scale=0.001, size=(3, 5))
    base = {"with CoT": 0.5 - shift, "borrowed": 0.5, "without CoT": 0.6}
    return [
        SimpleNamespace(
            config=SimpleNamespace(**fields), seed=seed, final=lambda name, v=base[arm] + noise[k, seed]: float(v)
        )
        for k, (arm, fields) in enumerate(ARMS.items())
        for seed in range(5)
    ]


@pytest.mark.parametrize(("shift", "status"), [(0.02, "holds"), (0.0, "not-reproduced"), (-0.02, "not-reproduced")])
def test_cot_data_is_judged_by_the_interval_of_its_paired_difference(shift, status):
    verdict = registry.paper("parity_cot").claim("gsm8k-sparser").judged(records(shift))
    assert verdict.status == status
    assert abs(verdict.details[2]["difference"] + shift) < 0.002


def test_arms_of_the_presets_share_one_program():
    for name in GSM8K.presets:
        trials = registry.experiment("parity_cot/gsm8k").trials(name)
        assert len({trial.program_key for trial in trials}) == 1
        assert len(trials) == 3 * GSM8K.presets[name].seeds


def test_a_longer_text_looks_sparser_to_any_head():
    with jax.enable_x64(True):
        verdict = registry.paper("parity_cot").claim("fig6-length").at(Prefixes(lengths=(5, 20), texts=4, layers=1), 3)
    assert verdict.status == "holds", verdict.note


def test_figure_6_without_weights_is_skipped_with_what_it_needs():
    assert "needs weights: --model" in registry.paper("parity_cot").claim("fig6").at(Figures67(), 0).note
