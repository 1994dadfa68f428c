"""Claims about the network on given weights, at small sizes that no ledger lists."""

import importlib
import json

import pytest

from tests.papers.composition.ledger import PRINTED, check, theory

pytestmark = pytest.mark.slow

TINY = {"task.blocks": 2, "task.alphabet": 2}
FOUR = {"task.blocks": 4, "task.alphabet": 2, "beta0": 0.8}
EIGHT = {"task.blocks": 8, "task.alphabet": 2, "beta0": 0.8}
ROUGH = {"task.blocks": 4, "task.alphabet": 2, "beta": 8.0, "sequences": 30}
LEAKY = {**FOUR, "betas": (11.0, 15.0), "samples": 16}
NETWORK = {
    **dict.fromkeys(("lem15", "lem19", "lem18", "lem18-printed", "lem23", "lem36", "sec5.4-mtp"), TINY),
    **dict.fromkeys(("lem24", "lem28"), EIGHT),
    **dict.fromkeys(("lem17", "lem22", "lem27", "lem30", "lem34-printed"), ROUGH),
    **dict.fromkeys(("lem29", "lem29-const"), LEAKY),
    "mix-zero": FOUR,
    "lem20-pert": {**FOUR, "betas": (7.0,), "samples": 100},
    "lem25-pert": {**FOUR, "betas": (7.0,), "samples": 100},
    "lem37-const": {**FOUR, "scale": 0.01, "samples": 16},
    "lem37-printed": {**FOUR, "samples": 16},
    "value-signal": {**TINY, "scale": 0.3},
}


HEAVY = {"lem15", "lem20-pert", "lem24"}  # five seconds of compiling each


@pytest.mark.parametrize(
    "id", [pytest.param(id, marks=pytest.mark.slow if id in HEAVY else ()) for id in sorted(NETWORK)]
)
def test_the_claim_has_its_status_at_a_size_of_the_users_own(id):
    verdict = check(id, NETWORK[id])
    json.dumps([dict(row) for row in verdict.details], allow_nan=False)  # it must fit into the store
    assert verdict.status == ("refuted" if id in PRINTED else "holds"), (verdict, verdict.details)
    if id in PRINTED:
        assert verdict.note


def test_the_first_untrained_layer_feels_later_losses_exactly_as_computed():
    row = check("lem37-printed", {**FOUR, "samples": 16}).details[0]
    assert row["gradient over it"] == pytest.approx(1.0, rel=1e-12)


WRONG = (
    ("lem15", "population", "key_query_gradient", lambda right: right * (1 + 1e-9), TINY),
    ("lem18", "population", "readout_separation", lambda right: right * (1 + 1e-9), TINY),
    ("lem18", "population", "readout_gradient", lambda right: right * (1 + 1e-9), TINY),
    ("lem27", "perturbation", "stream_error", lambda right: right / 10, ROUGH),
    ("lem30", "streams", "deviation", lambda right: right._replace(leak=right.leak / 100), ROUGH),
    ("value-signal", "values", "signal_factors", lambda right: right + 1e-6, {**TINY, "scale": 0.3}),
    ("lem20-pert", "perturbation", "gradient_error", lambda right: right / 1e4, {**FOUR, "samples": 100}),
    (
        "lem29-const",
        "perturbation",
        "trained_gradient",
        lambda right: right / 1e8,
        {**FOUR, "samples": 16, "betas": (30.0,)},
    ),
)


@pytest.mark.parametrize(("id", "module", "name", "spoil", "sizes"), WRONG, ids=lambda part: str(part)[:24])
def test_a_wrong_formula_makes_its_claim_fail(monkeypatch, id, module, name, spoil, sizes):
    theory()
    home = importlib.import_module(f"stairwise.papers.composition.theory.{module}")
    right = getattr(home, name)
    monkeypatch.setattr(home, name, lambda *args, **more: spoil(right(*args, **more)))
    assert check(id, sizes).status == "fails"
