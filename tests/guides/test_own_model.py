"""The guide to a model of your own: its LSTM trains on parity, its trials are found again, and mistakes are refused."""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stairwise as sw
from stairwise.cli import main
from stairwise.config import ConfigError
from stairwise.lab.own import imported, with_model
from stairwise.lab.registry import experiment
from stairwise.lab.store import provenance
from stairwise.papers.lego.own import OwnDecoder
from stairwise.train.own import ModelSizes, OwnModel, builder
from tests.guides.page import python, text

MODEL, RUN = python(text("how-to/own-model"))
SMALL = {  # one arm
    "task.bits": 5,
    "task.size": 2,
    "task.padding": 2,
    "task.cot": True,
    "batch": 8,
    "look": 16,
    "budget": 64,
    "test_examples": 32,
}


@pytest.fixture
def my_models(tmp_path, monkeypatch):
    """The guide's file, where the command finds it: in the working folder."""
    (tmp_path / "my_models.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STAIRWISE_STORE", str(tmp_path / "store"))
    provenance.forget()
    yield tmp_path / "my_models.py"
    sys.modules.pop("my_models", None)
    provenance.forget()


def small(model):
    return sw.run("parity_cot/complexity", seeds=1, changes=SMALL, model=model)


def lookup(sizes, key):
    """The smallest model there is: a table from a token to logits."""
    table = jax.random.normal(key, (sizes.vocabulary, sizes.outputs))
    return jax.tree_util.Partial(lambda table, tokens: table[tokens], table)


def test_the_command_line_names_a_model_by_its_import_path(my_models, capsys):
    words = [word for name, value in SMALL.items() for word in (f"--{name}", str(value).lower())]
    ask = ["run", "parity_cot/complexity", "--seeds", "1", "--dry-run", *words]
    assert main([*ask, "--model", "my_models:make_model"]) == 0
    assert "parity_cot/complexity+my_models.make_model" in capsys.readouterr().out
    assert main([*ask, "--model", "my_models:make_model", "--model.width", "8"]) == 2
    assert main([*ask, "--model", "my_models"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "stairwise: model.width must not be set beside a model of your own: it is about the experiment's model",
        "stairwise: model=my_models must be written as MODULE:NAME, for example my_package:make_model",
    ]


@pytest.mark.slow
def test_the_lstm_of_the_guide_trains_and_its_trials_are_found_again(my_models):
    first = small("my_models:make_model")
    assert first.share.here == len(first.records) > 0
    assert {record.experiment for record in first.records} == {"parity_cot/complexity+my_models.make_model"}
    assert all(np.isfinite(record.final("loss")) for record in first.records)
    again = small("my_models:make_model")
    assert again.share.here == 0
    assert [record.digest for record in again.records] == [record.digest for record in first.records]
    assert first.figure() is not None


def test_the_source_of_a_model_is_part_of_the_identity_of_its_trials(my_models):
    own = experiment("parity_cot/complexity")

    def digests():
        provenance.forget()
        return {trial.digest for trial in with_model(own, imported("my_models:make_model"), ()).trials("quick", [0])}

    before = digests()
    assert before == digests()
    my_models.write_text(MODEL.replace("64", "32"))
    assert not before & digests()
    assert "model" not in own.trials("quick", [0])[0].identity


@pytest.mark.slow
def test_an_unnamed_model_runs_and_is_not_stored(my_models):
    result = small(lambda sizes, key: lookup(sizes, key))
    assert all(record.final("exact match") <= 1 for record in result.records)
    assert not list((my_models.parent / "store").glob("**/run.json"))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("my_models", "model=my_models must be written as MODULE:NAME"),
        ("my_models:other", "my_models has no function other"),
        ("no_such_module:f", "No module named 'no_such_module'"),
        (3, r"model=3 must be a function of \(sizes, key\)"),
    ],
)
def test_what_is_no_model_is_refused(my_models, model, message):
    with pytest.raises(ConfigError, match=message):
        small(model)


def test_experiments_without_a_sequence_model_and_fields_of_the_other_model_are_refused(my_models):
    with pytest.raises(ConfigError, match="takes no model of your own"):
        sw.run("selection/fig2", model=lookup)
    with pytest.raises(ConfigError, match=r"model\.width must not be set beside a model of your own"):
        sw.run("parity_cot/complexity", model=lookup, changes={"model.width": 8})


def test_wrong_shapes_are_refused_in_one_line():
    sizes = ModelSizes(vocabulary=3, outputs=3, length=7)
    with pytest.raises(ConfigError, match=r"gives float32 of shape \(7,\), which must be .* \(7, 3\)$"):
        builder(lambda sizes, key: lambda tokens: tokens * 1.0, sizes)
    with pytest.raises(ConfigError, match=r"raises ZeroDivisionError on tokens of shape \(7,\): division by zero$"):
        builder(lambda sizes, key: lambda tokens: 1 / 0, sizes)
    with pytest.raises(ConfigError, match="has nothing to train: its parameters must be leaves of it"):
        builder(lambda sizes, key: lambda tokens, hidden=jnp.eye(3): hidden[tokens], sizes)


@pytest.mark.parametrize("slots", [None, 5])
def test_a_model_that_looks_ahead_is_refused_and_one_that_looks_back_is_not(slots):
    sizes = ModelSizes(vocabulary=3, outputs=3, length=12, slots=slots)

    def ahead(sizes, key):
        return jax.tree_util.Partial(lambda table, tokens: table[tokens] + table[tokens].mean(0), jnp.eye(3))

    def back(sizes, key):
        return jax.tree_util.Partial(lambda table, tokens: jnp.cumsum(table[tokens], 0), jnp.eye(3))

    with pytest.raises(ConfigError, match="model=ahead looks ahead: a later token changes the logits before it"):
        builder(ahead, sizes)
    assert builder(back, sizes)(jax.random.key(0))(jnp.zeros(sizes.tokens, dtype=int)).shape == (*sizes.tokens, 3)


def test_arms_that_differ_in_the_other_model_alone_are_run_once():
    practical = experiment("lego/positions")
    assert len(practical.preset("quick").arms) > len(with_model(practical, lookup, ()).preset("quick").arms)


def test_a_decoder_of_clauses_reads_sentences_without_their_padding():
    """The model counts what it has read, so a clause of padding that it saw would show."""
    model = OwnDecoder(OwnModel(None, lambda clauses: jnp.cumsum(jax.nn.one_hot(clauses, 9), axis=0)))
    clauses = jnp.arange(30, dtype=jnp.int32).reshape(6, 5) % 9
    present = jnp.array([True, True, False, True, True, True])
    whole = model(clauses[np.asarray(present)], 2)
    np.testing.assert_array_equal(model(clauses, 3, present=present), whole)
    # greedy: the next clause is what came most often in each slot
    made = model.roll_out(jnp.array([[1] * 5, [1] * 5, [7] * 5], dtype=jnp.int32), jnp.full(5, 2, jnp.int32), 2)
    np.testing.assert_array_equal(made, [[1] * 5, [1] * 5, [0] * 5])


class OfClauses(eqx.Module):
    """The mean of the clauses so far, by a table of words, to the words of the next clause."""

    table: jax.Array
    head: jax.Array

    def __call__(self, clauses):
        read = jax.nn.one_hot(clauses, len(self.table)).sum(axis=1) @ self.table
        mean = jnp.cumsum(read, axis=0) / jnp.arange(1, len(clauses) + 1)[:, None]
        return jnp.einsum("kw,swv->ksv", mean, self.head)


@pytest.mark.slow
def test_a_model_of_clauses_trains_on_lego(tmp_path):
    def make(sizes, key):
        assert sizes.slots == 5
        drawn = jax.random.normal(key, (sizes.slots + 1, sizes.vocabulary, 8))
        return OfClauses(drawn[0], drawn[1:].transpose(0, 2, 1))

    changes = {"task.action": "C3", "task.variables": 5, "steps": 40, "measure_every": 20, "batch": 16, "samples": 0}
    small = {"task.length": 2, "test_lengths": (2, 3), "test_examples": 8, "warm_up": 2, "learning_rate": 0.1}
    small["map_lengths"] = ()  # of which the longest needs 21 variables
    result = sw.run("lego/length", model=make, seeds=1, changes={**changes, **small})
    for record in result.records:
        losses = record.series("loss")[1]
        assert losses[-1] < 0.7 * losses[0]
        assert 0 <= record.final("exact 3") <= record.final("step 3") <= 1


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("def make_model(", "importing strange raises SyntaxError: "),
        ("import sys\nsys.exit(0)", "importing strange raises SystemExit: 0"),
        ("raise RuntimeError('two\\nlines')", "importing strange raises RuntimeError: two"),
        ("1 / 0", "importing strange raises ZeroDivisionError: division by zero"),
        ("import nowhere_at_all", "No module named 'nowhere_at_all'"),
        ("make_model = 3", "strange has no function make_model"),
    ],
)
def test_a_module_that_cannot_be_imported_is_one_line_and_no_exit(tmp_path, monkeypatch, capsys, code, words):
    (tmp_path / "strange.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "strange", raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert main(["run", "parity_cot/complexity", "--model", "strange:make_model", "--dry-run"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"stairwise: model=strange:make_model: {words}")
    assert said.count("\n") == 1


@pytest.mark.parametrize("module", ["..up", ".", "a..b", "nul\0byte", "\udcff"])
def test_a_name_that_no_module_has_is_one_line(module):
    with pytest.raises(ConfigError, match=r"^model="):
        imported(f"{module}:make_model")
