"""Models as plain tensors with a description: what goes out comes back equal to the bit, and does what it should."""

import json
import os
import random
from dataclasses import replace
from itertools import product

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

import stairwise as sw
from stairwise.cli import main
from stairwise.config import ConfigError, update
from stairwise.interop.huggingface import skeleton
from stairwise.interop.weights import export, load, read
from stairwise.lab import registry
from stairwise.lab.contract.experiment import Trial
from stairwise.lab.store.files import Damaged, seal, unseal
from stairwise.lab.store.store import Store
from stairwise.papers.composition import train as composition_train
from stairwise.papers.composition.task import Composition
from stairwise.papers.lego import train as lego_train
from stairwise.papers.lego.model import accuracy
from stairwise.papers.lego.task import lego
from stairwise.papers.parity_cot import train as parity_cot_train
from stairwise.papers.selection.task import SparseSelection
from stairwise.train.leaves import named_leaves
from stairwise.train.stage import Outcome
from tests.helpers import assert_close

CONSTRUCTIONS = [construction.name for paper in registry.papers() for construction in paper.constructions]
NAMES = {"composition/thm4", "composition/thm9", "parity_cot/thm1", "lego/solution", "selection/solution"}


def equal_bits(a, b) -> bool:
    same = jax.tree.structure(a) == jax.tree.structure(b)
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return same and all(x.dtype == y.dtype and np.asarray(x).tobytes() == np.asarray(y).tobytes() for x, y in pairs)


def there_and_back(target, folder, **options):
    export(target, folder, **options)
    return load(folder)


# --- what papers write down -------------------------------------------------------------------------------------------


def test_every_paper_has_a_construction():
    assert {*NAMES, "parity_onestep/solution"} == set(CONSTRUCTIONS)


@pytest.mark.parametrize("name", CONSTRUCTIONS)
def test_a_construction_comes_back_to_the_bit_and_every_tensor_says_what_it_is(tmp_path, name):
    about = export(name, tmp_path / "out", seed=3)
    description, tensors = read(tmp_path / "out")
    again = export(load(tmp_path / "out"), tmp_path / "again")
    assert description["tensors"] == about["tensors"]
    for tensor, facts in about["tensors"].items():
        assert facts["meaning"], tensor
        assert (facts["shape"], facts["dtype"]) == (list(tensors[tensor].shape), tensors[tensor].dtype.name)
    assert about["paper"]["id"] == name.partition("/")[0]
    assert (about["seed"], about["construction"]) == (3, name)
    assert about["versions"]["stairwise"] == sw.__version__
    assert list(again["tensors"]) == list(about["tensors"])
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == (
        tmp_path / "again" / "model.safetensors"
    ).read_bytes()
    assert load_file(tmp_path / "out" / "model.safetensors").keys() == tensors.keys()


@pytest.mark.parametrize("name", ["thm4", "thm9"])
def test_the_exported_theorems_of_composition_compute_every_hop(tmp_path, name):
    hidden = (1, 2, 0, 0, 1, 2, 0, 1, 2, 2, 0, 1)
    given = {"task.blocks": 4, "task.alphabet": 3} | ({"task.hidden": hidden} if name == "thm4" else {"task.moved": 0})
    model = there_and_back(f"composition/{name}", tmp_path / "out", changes=given)
    pi = np.array(hidden).reshape(4, 3) if name == "thm4" else np.tile(np.arange(3), (4, 1))
    task = Composition(jnp.asarray(pi, dtype=jnp.int32))
    sequence = task.sequence(jax.random.key(0))
    answers = np.argmax(eqx.filter_jit(model.heads)(sequence), axis=2)
    assert answers.tolist() == [task.hop(sequence, hops).reshape(-1).tolist() for hops in (1, 2, 4)]


def test_the_exported_theorem_1_has_the_parity_s_sign_on_every_input(tmp_path):
    model = there_and_back("parity_cot/thm1", tmp_path / "out", changes={"bits": 8, "secret": (1, 4, 6)})
    bits = np.array(list(product((0, 1), repeat=8)), dtype=np.int32)
    tokens = np.concatenate([bits, np.zeros((256, 1), dtype=np.int32)], axis=1)
    outputs = np.asarray(jax.jit(jax.vmap(model))(tokens))[:, -1]
    assert ((outputs > 0) == (bits[:, [1, 4, 6]].sum(axis=1) % 2 == 1)).all()


def test_the_exported_solution_of_parity_in_one_step_computes_every_node(tmp_path):
    model = there_and_back("parity_onestep/solution", tmp_path / "out", changes={"task.bits": 12, "task.size": 5})
    inputs = jnp.asarray(np.random.default_rng(0).choice([-1.0, 1.0], size=12), dtype=jnp.float32)
    off = eqx.filter_jit(lambda model, inputs: model.by_tokens(inputs) - model.tree.complete(inputs))
    assert np.abs(off(model, inputs)).max() < 1e-5


def test_the_exported_solution_of_lego_gives_the_answer_all_of_the_clip(tmp_path):
    changes = {"task.action": "C3", "task.variables": 5, "task.length": 2}
    model, task = there_and_back("lego/solution", tmp_path / "out", changes=changes), lego("C3", 5, 4)
    found = jax.jit(lambda key: accuracy(model, task, task.sample(key)))(jax.random.key(1))
    assert_close(
        found, 1 / (1 + 11 * 12**-4.0), 1e-5
    )  # on longer chains too: the answer has B = 4 log 12, all others 0


def test_the_exported_solution_of_selection_selects(tmp_path):
    model = there_and_back("selection/solution", tmp_path / "out", changes={"width": 2, "encoding_width": 9})
    task = SparseSelection(9, 3, 2)

    def off(key):
        example = task.sample(key)
        chosen = jnp.zeros(9, dtype=jnp.float32).at[example.subset].set(1.0)
        query = jnp.concatenate([jnp.zeros(2, dtype=jnp.float32), chosen])
        return model(example.tokens, jnp.eye(9, dtype=jnp.float32), query) - task.answer(example)

    assert np.abs(jax.jit(off)(jax.random.key(2))).max() < 1e-5


# --- what was trained -------------------------------------------------------------------------------------------------

TINY = {
    "task.bits": 5, "task.size": 2, "task.padding": 2, "model.width": 8, "model.heads": 2, "batch": 16,
    "look": 16, "budget": 64, "test_examples": 4, "attention": 0,
}  # fmt: skip


def store_of(folder, name, changes, arrays_of, seeds=(5,)):
    """A store with trials of which only the arrays were made, and a run that asked for them."""
    experiment, store = registry.experiment(name), Store.open(folder)
    config = update(experiment.presets["quick"].config, changes)
    trials = [Trial(experiment, config, seed, "an arm") for seed in seeds]
    for trial in trials:
        arrays = arrays_of(config, np.random.default_rng(trial.seed))
        store.write(trial, Outcome("finished", arrays=arrays), {"versions": {"stairwise": "0.0.1"}})
    asked = {"experiment": name, "preset": "quick", "command": "", "started": 1.0, "seconds": 1.0}
    store.write_run(asked | {"trials": [trial.digest for trial in trials]})
    return store, [store.read(trial) for trial in trials]


def drawn(like, random):
    return jax.tree.map(lambda leaf: jnp.asarray(random.standard_normal(leaf.shape), dtype=leaf.dtype), like)


def kept_arrays(config, random):
    like = eqx.filter_eval_shape(lambda: parity_cot_train.decoder(config, jax.random.key(0)))
    leaves = named_leaves(drawn(like, random), parity_cot_train.WEIGHTS)
    return {f"train/{name}": np.asarray(leaf) for name, leaf in leaves.items()}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return store_of(tmp_path_factory.mktemp("kept") / "store", "parity_cot/kept", TINY, kept_arrays, (3, 4))


def test_a_kept_decoder_goes_out_as_a_gpt2_by_the_beginning_of_its_digest(tmp_path, trained, capsys):
    store, (record, _) = trained
    where = ["--store", str(store.root), "--format", "gpt2", "--json"]
    assert main(["export", record.digest[:12], "-o", str(tmp_path / "out"), *where]) == 0
    about = json.loads(capsys.readouterr().out)
    assert (about["experiment"], about["digest"], about["seed"]) == ("parity_cot/kept", record.digest, record.seed)
    assert sorted(os.listdir(tmp_path / "out")) == ["config.json", "model.safetensors", "stairwise.json"]
    assert equal_bits(sw.interop.load(tmp_path / "out"), sw.load_model(record))


@pytest.mark.slow
def test_a_decoder_that_was_trained_here_says_the_same_in_transformers_and_back_again(tmp_path):
    torch = pytest.importorskip("torch", reason="needs the extra hf")
    transformers = pytest.importorskip("transformers", reason="needs the extra hf")
    (record,) = sw.run("parity_cot/kept", seeds=1, changes=TINY, store=str(tmp_path / "store")).records
    sw.export(record, tmp_path / "plain")
    sw.export(record, tmp_path / "gpt2", "gpt2")
    model = sw.load_model(record)
    assert equal_bits(load(tmp_path / "plain"), model)
    assert equal_bits(load(tmp_path / "gpt2"), model)
    tokens = np.array([0, 1, 1, 0, 1, 0])
    logits = np.asarray(model(jnp.asarray(tokens, dtype=jnp.int32)))
    assert np.array_equal(load(tmp_path / "plain")(jnp.asarray(tokens, dtype=jnp.int32)), logits)
    theirs = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "gpt2").eval()
    with torch.no_grad():
        assert_close(theirs(torch.tensor(tokens[None])).logits[0].numpy(), logits, 1e-5)


def composition_arrays(config, random):
    tokens, layers = config.task.tokens, config.task.layers
    shapes = {f"key_query{l + 1}": (l + 2, l + 2, tokens, tokens) for l in range(layers)}
    shapes["readout"] = (layers, layers + 2, tokens, config.task.alphabet)
    arrays = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    assert arrays.keys() == composition_train.weights(composition_train.stored_model(config, arrays)).keys()
    return {f"last/{name}": array for name, array in arrays.items()} | {"last/hidden": np.zeros((4, 3), dtype=np.int32)}


def lego_arrays(config, random):
    like = eqx.filter_eval_shape(lego_train.make_decoder, config, jax.random.key(0))
    zeros = jax.tree.map(lambda leaf: np.zeros(leaf.shape, dtype=leaf.dtype), like)  # many equal arrays, none is missed
    return {f"train/weights {number:02d}": leaf for number, leaf in enumerate(jax.tree.leaves(zeros))}


def onestep_arrays(config, random):
    W = random.standard_normal((config.task.bits + config.task.size - 1, config.task.size - 1))
    tree = {"children": np.array([[0, 3], [4, 5], [6, 7]]), "height": np.array([1, 1, 2]), "inputs": np.array(6)}
    arrays = {"W": W.astype(np.float32)} | {name: array.astype(np.int32) for name, array in tree.items()}
    return {f"descent/{name}": array for name, array in arrays.items()}


def selection_arrays(config, random):
    return {"train/W": np.eye(9, dtype=np.float32), "train/V": np.ones((2, 9), dtype=np.float32)}


@pytest.mark.parametrize(
    ("name", "changes", "arrays_of"),
    [
        ("composition/curriculum", {"task.blocks": 4, "task.alphabet": 3}, composition_arrays),
        ("lego/length", {"task.action": "C3", "task.variables": 41, "model.width": 8, "model.heads": 2}, lego_arrays),
        ("parity_cot/kept", TINY, kept_arrays),
        ("parity_cot/kept", TINY | {"model.compute": "bfloat16"}, kept_arrays),
        ("parity_onestep/onestep", {"task.bits": 6, "task.size": 4}, onestep_arrays),
        ("selection/online", {"task.width": 2, "encoding.width": 7}, selection_arrays),
    ],
)
def test_every_stored_model_comes_back_to_the_bit_with_its_history(tmp_path, name, changes, arrays_of):
    store, (record,) = store_of(tmp_path / "store", name, changes, arrays_of)
    (run,) = store.runs()
    about = export(run.id, tmp_path / "out", store=store)  # a run of one trial is that trial
    assert equal_bits(load(tmp_path / "out"), sw.load_model(record))
    assert (about["seed"], about["arm"], about["digest"]) == (5, "an arm", record.digest)
    assert (about["config"], about["versions"]) == (record.config_dict, {"stairwise": "0.0.1"})
    assert about["paper"]["title"] == registry.paper(name.partition("/")[0]).title
    assert all(facts["meaning"] for facts in about["tensors"].values())


# --- a user's own -----------------------------------------------------------------------------------------------------


def test_a_decoder_in_memory_comes_back_with_all_its_options(tmp_path):
    options = {"causal": False, "positions": "rotary", "outputs": 3, "norm": False, "mlp_residual": False}
    like = skeleton({"vocab": 5, "width": 8, "layers": 2, "heads": 2, "dropout": 0.1, **options})
    model = drawn(like, np.random.default_rng(0))
    export(model, tmp_path / "out")
    assert equal_bits(load(tmp_path / "out"), model)
    other = eqx.tree_at(lambda one: one.positions, model, replace(model.positions, base=500.0))
    export(other, tmp_path / "other")  # no argument sets the base: it must not come back as another model
    with pytest.raises(ConfigError, match="is not a model of this library"):
        load(tmp_path / "other")
    assert equal_bits(load(tmp_path / "other", like=other), other)


def test_a_model_of_one_s_own_comes_back_into_its_like(tmp_path):
    like = eqx.filter_eval_shape(eqx.nn.Linear, 3, 2, key=jax.random.key(0))
    model = drawn(like, np.random.default_rng(0))
    export(model, tmp_path / "out")
    with pytest.raises(ConfigError, match=r"equinox.* is not a model of this library: load\(folder, like=MODEL\)"):
        load(tmp_path / "out")
    assert equal_bits(load(tmp_path / "out", like=like), model)
    with pytest.raises(ConfigError, match=r"^tensor weight is float32\[2, 3\] and must be float32\[2, 4\]$"):
        load(tmp_path / "out", like=eqx.nn.Linear(4, 2, key=jax.random.key(1)))
    with pytest.raises(ConfigError, match=r"^tensor bias of Linear is not known"):
        load(tmp_path / "out", like=eqx.nn.Linear(3, 2, use_bias=False, key=jax.random.key(1)))


def test_float64_is_never_rounded_in_silence(tmp_path):
    with jax.enable_x64(True):
        model = {"third": jnp.asarray(1 / 3, dtype=jnp.float64)}
        export(model, tmp_path / "out")
        assert equal_bits(load(tmp_path / "out", like=model), model)
    with pytest.raises(ConfigError, match=r"^tensor third is float64: read it inside jax.enable_x64\(True\)$"):
        load(tmp_path / "out", like=model)


# --- what is wrong ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "change", "line"),
    [
        ("model.safetensors", lambda data: data[:-1] + bytes([data[-1] ^ 1]), "model.safetensors: digest differs"),
        ("model.safetensors", lambda data: b"", "model.safetensors: digest differs"),
        ("model.safetensors", None, "model.safetensors is missing"),
        ("stairwise.json", lambda data: data.replace(b'"seed": 0', b'"seed": 1'), "stairwise.json: digest differs"),
        ("stairwise.json", lambda data: b"{}", "stairwise.json: not sealed"),
    ],
)
def test_a_tampered_file_is_one_clear_line(tmp_path, file, change, line):
    folder = tmp_path / "out"
    export("selection/solution", folder, changes={"encoding_width": 3})
    place = folder / file
    if change is None:
        place.unlink()
    else:
        place.write_bytes(change(place.read_bytes()))
    with pytest.raises(Damaged) as found:
        load(folder)
    assert str(found.value) == f"{folder} is damaged: {line}"


def test_no_bit_of_an_exported_folder_can_change_unseen(tmp_path):
    folder, draws = tmp_path / "out", random.Random(7)
    export("selection/solution", folder, changes={"encoding_width": 3})
    assert sorted(os.listdir(folder)) == ["model.safetensors", "stairwise.json"]
    for path in folder.iterdir():
        whole = path.read_bytes()
        for place in [0, len(whole) - 1, *(draws.randrange(len(whole)) for _ in range(60))]:
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << draws.randrange(8)]) + whole[place + 1 :])
            with pytest.raises(Damaged):
                load(folder)
        path.write_bytes(whole)
    load(folder)


def sealed_again(folder, changes):
    """Changes of the description that its seal does not tell of."""
    file = folder / "stairwise.json"
    kept = {name: value for name, value in unseal(file.read_bytes()).items() if changes.get(name, 0) is not None}
    file.write_bytes(seal(kept | {name: value for name, value in changes.items() if value is not None}))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"files": None}, "stairwise.json: files is missing and must be a dict"),
        ({"files": {"../secret": {"sha256": ""}}}, "files must be names with digests, not ../secret"),
        ({"files": {"model.safetensors": 3}}, "files must be names with digests, not model.safetensors"),
        ({"files": {}}, "model.safetensors: "),
        ({"construction": 3}, "stairwise.json: construction is a int and must be a str"),
        ({"construction": "selection/other"}, "unknown construction of selection: other"),
        ({"config": []}, "stairwise.json: config is a list and must be a dict"),
        ({"config": {"width": "2"}}, "width=2 must be a whole number"),
        ({"seed": "0"}, "stairwise.json: seed is a str and must be a int"),
        ({"seed": -1}, "seed=-1 must lie in 0..4294967295"),
        ({"construction": None, "model": None}, "stairwise.json: model is missing and must be a str"),
        ({"construction": None, "experiment": "selection/online"}, "stairwise.json: version is missing"),
        ({"arguments": {"layers": 1}}, "arguments=['layers'] must be vocab, width, layers"),
        ({"format": 2}, "format 2 is not the known one, 1"),
    ],
)
def test_a_description_that_was_altered_and_sealed_again_is_one_planned_line(tmp_path, changes, words):
    folder = tmp_path / "out"
    export("selection/solution", folder, changes={"encoding_width": 3})
    sealed_again(folder, changes)
    with pytest.raises((ConfigError, Damaged)) as refused:
        load(folder)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"layers": 20_000}, "layers=20000 must be 2, the layers that the tensors are of"),
        ({"width": 2**50}, f"width={2**50} must lie in 1..1800, the numbers that the tensors hold"),
        ({"heads": 0}, "heads=0 must lie in 1.."),
        ({"heads": 3}, "heads=3"),
        ({"vocab": "5"}, "vocab=5 must be int or None"),
        ({"causal": 1}, "causal=1 must be bool"),
        ({"dropout": None}, "dropout=None must be int or float"),
        ({"positions": "none such"}, "positions=none such"),
    ],
)
def test_arguments_of_a_decoder_that_its_tensors_cannot_be_of_are_refused_at_once(tmp_path, changes, words):
    like = skeleton({"vocab": 5, "width": 8, "layers": 2, "heads": 2, "causal": True, "positions": "none"})
    export(drawn(like, np.random.default_rng(0)), tmp_path / "out")
    arguments = read(tmp_path / "out")[0]["arguments"]
    sealed_again(tmp_path / "out", {"arguments": arguments | changes})
    with pytest.raises(ConfigError) as refused:
        load(tmp_path / "out")
    assert str(refused.value).startswith(words)


@pytest.mark.parametrize("status", ["diverged", "failed"])
def test_a_trial_without_a_model_is_named_with_its_status(tmp_path, capsys, status):
    experiment, store = registry.experiment("selection/online"), Store.open(tmp_path / "store")
    trial = Trial(experiment, experiment.presets["quick"].config, 5, "an arm")
    store.write(trial, Outcome(status, message="NaN seen at tick 3"), {})
    line = f"trial {trial.digest} has no model: it {status} (NaN seen at tick 3)"
    with pytest.raises(ConfigError) as refused:
        sw.load_model(trial.digest, store=store)
    assert str(refused.value) == line
    assert main(["export", trial.digest, "-o", str(tmp_path / "out"), "--store", str(store.root)]) == 2
    assert capsys.readouterr().err == f"stairwise: {line}\n"
    assert not (tmp_path / "out").exists()


def test_a_finished_trial_that_keeps_no_weights_is_named_with_what_is_missing(tmp_path):
    _, (record,) = store_of(tmp_path / "store", "selection/online", {}, lambda config, random: {})
    with pytest.raises(ConfigError, match=rf"^trial {record.digest} \(finished\) has no model: it keeps no 'train/W'$"):
        sw.load_model(record)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["composition/thm5"], ["unknown construction of composition: thm5", "thm4, thm9"]),
        (["composition/thm4", "--beta", "-1"], ["beta=-1.0", "above 0"]),
        (["composition/thm4", "--task.blocks", "6"], ["blocks=6", "power of two"]),
        (["composition/thm4", "--seed", "-1"], ["seed=-1", "0..4294967295"]),
        (["composition/thm4", "--format", "onnx"], ["format=onnx", "safetensors, gpt2"]),
        (["composition/thm4", "--format", "gpt2"], ["format=gpt2", "AttentionOnly is not the standard decoder"]),
        (["abc"], ["no trial or run begins with 'abc'"]),
    ],
)
def test_a_bad_request_is_one_line_and_writes_nothing(tmp_path, capsys, arguments, words):
    Store.open(tmp_path / "store")
    assert main(["export", *arguments, "-o", str(tmp_path / "out"), "--store", str(tmp_path / "store")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert all(word in error for word in words), error
    assert os.listdir(tmp_path) == ["store"]


def test_a_run_of_several_trials_must_be_narrowed_down_and_a_trial_cannot_be_changed(tmp_path, trained):
    store, records = trained
    (run,) = store.runs()
    with pytest.raises(ConfigError, match=f"is a run of 2 trials: name one of them .{records[0].digest}, "):
        export(run.id, tmp_path / "out", store=store)
    with pytest.raises(ConfigError, match=r"^learning_rate cannot be changed: only a construction's config can"):
        export(records[0], tmp_path / "out", changes={"learning_rate": 1.0})
    assert os.listdir(tmp_path) == []
