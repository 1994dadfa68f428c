"""Claims about the network on given weights, at small sizes that no ledger lists."""

import importlib
import json

import pytest

from tests.papers.composition.ledger import check, claim_of

pytestmark = pytest.mark.slow

TINY = {"task.blocks": 2, "task.alphabet": 2}
FOUR = {"task.blocks": 4, "task.alphabet": 2, "beta0": 0.8}
ROUGH = {"task.blocks": 4, "task.alphabet": 2, "beta": 8.0, "sequences": 30}
NETWORK = {
    **dict.fromkeys(("lem15", "lem19", "lem18", "lem18-printed", "lem23", "lem36", "sec5.4-mtp", "appC2", "eq6"), TINY),
    **dict.fromkeys(("lem24", "lem28"), FOUR),
    **dict.fromkeys(("lem17", "lem22", "lem27", "lem34-printed"), ROUGH),
    "lem29": {**FOUR, "betas": (27.0, 28.0, 30.0), "samples": 16},
    "lem29-induction": {**FOUR, "betas": (26.5, 27.0, 28.0)},
    "lem29-jacobian": {"keys": 5, "epsilon": 0.3},
    "lem32-softmax": {"task.blocks": 4, "task.alphabet": 2, "trained": 1},
    "lem35-norm": {**FOUR, "betas": (14.0, 17.0, 20.0)},
    "lem30": {"task.blocks": 2, "task.alphabet": 4, "leak": 0.02},
    "mix-zero": FOUR,
    "lem20-pert": {**FOUR, "betas": (7.0, 9.0, 12.0), "samples": 20},
    "lem25-pert": {**FOUR, "betas": (7.0, 9.0, 12.0), "samples": 20},
    "lem31": {**FOUR, "samples": 16},
    "lem32": {**FOUR, "betas": (14.0, 17.0, 20.0)},
    "lem33": {**FOUR, "samples": 16},
    "lem37": {**FOUR, "samples": 16},
    "lem37-first": {**FOUR, "samples": 16},
    "lem31-printed": {**FOUR, "samples": 16},
    "lem37-printed": {**FOUR, "samples": 16},
    "value-signal": {**TINY, "scale": 0.3},
}


@pytest.mark.parametrize("id", sorted(NETWORK))
def test_the_claim_has_its_status_at_a_size_of_the_users_own(id):
    verdict = check(id, NETWORK[id])
    json.dumps([dict(row) for row in verdict.details], allow_nan=False)  # it must fit into the store
    assert verdict.status == ("refuted" if claim_of(id).kind == "refuted" else "holds"), (verdict, verdict.details)


WRONG = (
    ("lem15", "population", "key_query_gradient", lambda right: right * (1 + 1e-9), TINY),
    ("lem15", "noise", "learning_rate_theorem", lambda right: right * 2, TINY),
    ("lem18", "population", "readout_separation", lambda right: right * (1 + 1e-9), TINY),
    ("lem18", "population", "readout_gradient", lambda right: right * (1 + 1e-9), TINY),
    ("lem27", "perturbation", "stream_error", lambda right: right / 3, ROUGH),
    ("lem27", "perturbation", "stream_error_sharp", lambda right: right * 1.2, ROUGH),
    ("lem30", "perturbation", "untrained_error", lambda right: right / 4, {}),
    ("value-signal", "values", "signal_factors", lambda right: right + 1e-6, {**TINY, "scale": 0.3}),
    ("lem20-pert", "perturbation", "gradient_error", lambda right: right**2, {**FOUR, "samples": 20}),
    ("lem20-pert", "perturbation", "gradient_error_sharp", lambda right: right * 1.1, {**FOUR, "samples": 20}),
    ("lem29", "perturbation", "trained_gradient", lambda right: right / 24**4, {"samples": 16}),
    ("lem29", "perturbation", "trained_gradient_sharp", lambda right: right / 10, {"samples": 16}),
    ("lem31", "perturbation", "step_two_gradient", lambda right: right / 24**5, {"samples": 16}),
    ("lem33", "perturbation", "trained_own_gradient", lambda right: right / 24**2, {"samples": 16}),
    ("lem37", "perturbation", "uniform_cross_gradient", lambda right: right / 36**3, {"samples": 16}),
    ("lem37", "perturbation", "uniform_cross_gradient_sharp", lambda right: right / 10, {"samples": 16}),
    ("lem37-first", "perturbation", "first_untrained_gradient", lambda right: right * 2, {"samples": 16}),
    ("lem32", "perturbation", "mixture_growth", lambda right: -right, {"betas": (14.0, 17.0, 20.0)}),
    ("lem29-induction", "sensitivity", "reach_bound", lambda right: right / 200, {}),
    ("lem29-induction", "sensitivity", "reach_sharp", lambda right: right * 1.01, {}),
    ("lem29-jacobian", "sensitivity", "jacobian_bound", lambda right: right * (1 + 1e-6), {}),
    ("lem32-softmax", "sensitivity", "off_uniform_bound", lambda right: right * 1.01, {}),
    ("lem32-softmax", "sensitivity", "score_spread", lambda right: right * 1.01, {}),
    ("lem35-norm", "sensitivity", "norm_after", lambda right: -right, {}),
    ("appC2", "literal", "own_gradient", lambda right: -right, TINY),
    ("eq6", "literal", "sample_signal", lambda right: right * (1 + 1e-9), TINY),
    ("sec5.4-mtp", "exact", "mean_loss", lambda right: right / 3, TINY),
)


@pytest.mark.parametrize(("id", "module", "name", "spoil", "sizes"), WRONG, ids=lambda part: str(part)[:24])
def test_a_wrong_formula_makes_its_claim_fail(monkeypatch, id, module, name, spoil, sizes):
    home = importlib.import_module(f"stairwise.papers.composition.theory.{module}")
    right = getattr(home, name)
    monkeypatch.setattr(home, name, lambda *args, **more: spoil(right(*args, **more)))
    assert check(id, sizes).status == "fails"
