"""Decoders of other parts on parities: how they are read and stored, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.config import ConfigError, stored_dict, update
from stairwise.papers.composition.config import Encoder
from stairwise.papers.crossings.depth.config import Solver
from stairwise.papers.crossings.repetition.config import Repeated
from stairwise.papers.parity_cot.config.task import Task
from stairwise.papers.parity_cot.config.training import Decoder, Training
from stairwise.papers.parity_cot.decoder import logits_of, make_decoder
from stairwise.papers.parity_cot.structured import has_tables
from stairwise.papers.parity_cot.task import problem_of

TINY = {"width": 8, "heads": 2, "layers": 1}


@pytest.mark.parametrize(
    "parts",
    [{"mixer": "delta", "positions": "none"}, {"residual": False}, {"loops": 2}, {"positions": "randomised"}],
    ids=lambda parts: next(iter(parts)),
)
def test_other_parts_are_read_sequence_by_sequence_at_the_supervised_rows(parts):
    problem = problem_of(Task(5, 2), jnp.uint32(3))
    layout = problem.layout
    bits = np.random.default_rng(0).integers(0, 2, (3, 5)).astype(np.int8)

    @jax.jit
    def both(bits):
        model = make_decoder(Decoder(**TINY, **parts), layout.length, 0.3, jax.random.key(0))
        tokens = jax.vmap(problem.tokens)(bits)
        whole = jnp.stack([model(row[: layout.length].astype(jnp.int32)) for row in tokens])
        return logits_of(model, layout, tokens), whole[:, layout.first : layout.first + layout.rows]

    found, expected = both(bits)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_only_the_papers_parts_have_tables():
    def made(**parts):
        return jax.eval_shape(lambda: make_decoder(Decoder(**TINY, **parts), 8, 0.1, jax.random.key(0)))

    assert has_tables(made())
    assert has_tables(made(norm="rms"))
    others = [
        {"mixer": "lstm"},
        {"positions": "rotary"},
        {"residual": False},
        {"loops": 2},
        {"positions": "randomised"},
    ]
    assert not any(has_tables(made(**parts)) for parts in others)


def test_new_fields_are_stored_only_where_they_differ():
    stored = stored_dict(Training())["decoder"]
    assert sorted(stored) == ["compute", "dropout", "heads", "layers", "parameters", "std", "width"]
    assert stored_dict(Training(model=Decoder(mixer="delta")))["decoder"]["mixer"] == "delta"


@pytest.mark.parametrize(
    ("config", "changes", "message"),
    [
        (
            Training(),
            {"model.mixer": "lstm", "attention": "8", "watch": "true"},
            "watch=True must be False where model.mixer=lstm",
        ),
        (
            Training(),
            {"model.mixer": "lstm", "model.positions": "t5"},
            "model.positions=t5 must be one of none, learned",
        ),
        (Repeated(), {"model.positions": "randomised"}, "model.positions=randomised must be fixed"),
        (Encoder(), {"model.mixer": "delta"}, "model.mixer=delta must be softmax: the model reads both ways"),
        (Solver(solver="depth"), {"model.mixer": "delta"}, "model.mixer=delta must be softmax where solver=depth"),
    ],
    ids=["watch", "positions", "places", "encoder", "depth"],
)
def test_what_makes_no_sense_is_refused_in_one_line(config, changes, message):
    with pytest.raises(ConfigError) as error:
        update(config, changes)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)
