"""The standard decoder on clauses: its roll-out is its own reading, other parts are trained, bad ones refused."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise import cli
from stairwise.config import ConfigError, stored_dict, update
from stairwise.nn.positions import random_places
from stairwise.papers.lego.config.practical import Practical, Shape
from stairwise.papers.lego.config.task import Task
from stairwise.papers.lego.decoder import Decoder
from stairwise.papers.lego.evaluate import cut, rolled_out
from stairwise.papers.lego.rollout import roll_out
from stairwise.papers.lego.stack import Stack
from stairwise.papers.lego.train import make_decoder, make_task

LONGEST = 3
TINY = {"width": 8, "heads": 2, "hidden_multiple": 1}


def practical(**shape):
    return Practical(Task("C3", 8, LONGEST), Shape(**TINY, **shape), test_lengths=(2, LONGEST))


def example(config, seed=1):
    task = make_task(config.task)
    chain = task.sample(jax.random.key(seed))
    return task, task.predicates(chain), task.answers(chain)


@pytest.mark.slow
@pytest.mark.parametrize(
    "shape",
    [
        {"mixer": "delta", "layers": 2, "householders": 2, "eigenvalues": "signed"},
        {"layers": 2, "positions": "alibi"},
        {"mixer": "mingru", "positions": "randomised"},
    ],
    ids=["delta", "alibi", "randomised"],
)
def test_a_roll_out_is_the_decoder_reading_its_own_clauses_one_after_another(shape):
    config = practical(**shape)
    model = make_decoder(config, jax.random.key(0))
    assert isinstance(model, Stack)
    _, predicates, answers = example(config)
    length = 2  # below the longest: the third predicate is padding
    places = jnp.arange(2 * LONGEST + 1, dtype=jnp.int32)
    if shape.get("positions") == "randomised":
        places = random_places(jax.random.key(5), 2 * length + 1, 2 * LONGEST + 1)
    found = jax.jit(roll_out)(model, predicates, answers[0], jnp.int32(length), places)

    @jax.jit
    def read(sentence):  # padded behind: what comes later changes nothing before it
        return model(sentence, length, positions=places[: 2 * length])

    sentence = jnp.zeros((2 * length, 5), dtype=answers.dtype)
    sentence = sentence.at[:length].set(predicates[:length]).at[length].set(answers[0])
    made = []
    for step in range(length):
        made.append(jnp.argmax(read(sentence)[step], axis=-1))
        if step + 1 < length:
            sentence = sentence.at[length + step + 1].set(made[-1])
    np.testing.assert_array_equal(found[:length], jnp.stack(made))
    np.testing.assert_array_equal(found[length:], 0)


@pytest.mark.slow
def test_a_padded_sentence_is_judged_as_the_short_one():
    """Tests of several lengths pad predicates; a recurrence must step over the padding."""
    config = practical(mixer="gated", layers=1, positions="learned")
    model = make_decoder(config, jax.random.key(0))
    long, short = make_task(config.task), make_task(config.task, 2)
    chains = jax.vmap(long.sample)(jax.random.split(jax.random.key(3), 4))
    padded = jax.jit(lambda model: rolled_out(model, long, chains, [2]))(model)
    alone = jax.jit(lambda model: rolled_out(model, short, cut(chains, 2), [2]))(model)
    for a, b in zip(padded, alone, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_the_papers_own_decoder_is_the_default_and_new_fields_leave_identities_alone():
    assert isinstance(jax.eval_shape(lambda: make_decoder(practical(), jax.random.key(0))), Decoder)
    stored = stored_dict(Practical())["model"]
    assert sorted(stored) == [
        "attention_residual",
        "heads",
        "hidden_multiple",
        "mlp_residual",
        "norm",
        "positions",
        "width",
    ]
    assert stored_dict(practical(mixer="delta"))["model"]["mixer"] == "delta"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model.mixer": "delta", "model.positions": "rotary"}, "model.positions=rotary must be one of none, learned"),
        ({"model.householders": "2"}, "model.householders=2 must be 1 where mixer=softmax"),
        ({"model.mixer": "mamba"}, "model.mixer=mamba must be one of softmax, linear"),
    ],
)
def test_parts_that_do_not_go_together_are_refused_by_their_paths(changes, message):
    with pytest.raises(ConfigError) as error:
        update(Practical(), changes)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_four_layers_of_deltanet_train_on_lego_from_the_command_line_and_are_stored(tmp_path, capsys):
    flags = {"model.mixer": "delta", "model.layers": 4, "model.width": 16, "task.action": "C3", "task.variables": 8}
    flags |= {
        "task.length": 2,
        "batch": 8,
        "steps": 4,
        "warm_up": 2,
        "measure_every": 2,
        "test_lengths": "2,3",
        "map_lengths": "2",
        "model.attention_residual": "true",
    }
    words = [f"--{name}={value}" for name, value in (flags | {"test_examples": 4}).items()]
    assert cli.main(["run", "lego/length", *words, "--seeds", "1", "--json", "--store", str(tmp_path)]) == 0
    (trial,) = json.loads(capsys.readouterr().out)["trials"]
    assert trial["status"] == "finished"
