"""What is read off stored runs: boundaries, staircases, verdicts; and the hidden descent."""

from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
import pytest

from stairwise.papers.parity_onestep import PAPER
from stairwise.papers.parity_onestep.boundary import boundary, success_map, threshold
from stairwise.papers.parity_onestep.config import Descent, Hardness, PaddedDescent, PaddedTask, Task
from stairwise.papers.parity_onestep.hardness import at_tolerance, hidden_descent, parity_class
from stairwise.papers.parity_onestep.runs import follows_eq11, gates_text, is_staircase, solved_at
from stairwise.papers.parity_onestep.theory import hiding
from tests.reference import parity_onestep as reference

COUNTS = tuple(2**power for power in range(6, 15))


@dataclass
class Kept:
    """A record as the store would give it."""

    config: Any
    seed: int = 0
    arm: str = ""
    status: str = "finished"
    metrics: dict[str, list[float]] = field(default_factory=dict)
    kept: dict[str, np.ndarray] = field(default_factory=dict)
    ticks: np.ndarray | None = None

    def series(self, name):
        values = np.array(self.metrics[name], dtype=float)
        return np.arange(len(values)) if self.ticks is None else self.ticks, values

    def final(self, name):
        return float(self.metrics[name][-1])

    def array(self, name):
        return self.kept[name]

    def arrays(self):
        return list(self.kept)


def phase_record(bits, seed, from_count):
    task = PaddedTask(bits, bits // 2, slots=128, leaves=64)
    config = PaddedDescent(task=task, samples=COUNTS[-1], block=64, looks=COUNTS)
    passed = [float(n >= from_count) for n in COUNTS]
    metrics = {"success": passed, "support": passed}
    return Kept(config, seed, metrics=metrics, ticks=np.array(COUNTS) // 64)


def test_a_threshold_is_where_success_begins_to_last():
    counts = np.array([1.0, 2.0, 4.0, 8.0])
    assert threshold(counts, np.array([False, True, True, True])) == (2.0, False)
    assert threshold(counts, np.array([True, True, False, True])) == (8.0, False)
    assert threshold(counts, np.array([False, True, True, False])) == (8.0, True)
    assert threshold(counts, np.array([True, True, True, True])) == (1.0, False)


@pytest.mark.parametrize("exponent", [1, 2])
def test_the_fitted_boundary_has_the_exponent_of_the_thresholds(exponent):
    records = [phase_record(d, seed, 16 * d**exponent) for d in (8, 16) for seed in range(4)]
    found = boundary(records, "success")
    assert found.exponent.value == pytest.approx(exponent, abs=0.01)
    assert found.law.predict([8]) == pytest.approx(16 * 8**exponent / np.sqrt(2), rel=0.01)


def test_sizes_that_always_or_never_succeed_do_not_bend_the_boundary():
    clean = [phase_record(d, seed, 16 * d) for d in (8, 16, 32) for seed in range(3)]
    easy = [phase_record(4, seed, 1) for seed in range(3)]
    hard = [phase_record(128, seed, 10**9) for seed in range(3)]
    assert boundary(clean + easy + hard, "success").bits == (8, 16, 32)
    assert boundary(easy + hard, "success") is None


def test_the_success_map_counts_seeds():
    records = [phase_record(8, 0, 64), phase_record(8, 1, 4096)]
    sizes, counts, share = success_map(records)
    assert sizes == [8]
    assert share[0].tolist() == [0.5 if n < 4096 else 1.0 for n in counts]


def chain_record(errors, success, gates=None, **kept):
    config = Descent(task=Task(4, 4), mask="block", forcing=False, samples=64, block=64, steps=len(success) - 1)
    metrics = {f"sup level {level + 1}": row for level, row in enumerate(errors)} | {"success": success}
    metrics |= {f"gate level {level + 1}": row for level, row in enumerate(gates or [])}
    return Kept(config, metrics=metrics, kept=kept)


def test_a_staircase_solves_level_l_from_step_l_on_and_not_before():
    assert is_staircase(chain_record([[2, 0.1, 0.1], [2, 2, 0.1]], [0, 0, 1]))
    assert not is_staircase(chain_record([[2, 0.1, 0.1], [2, 0.1, 0.1]], [0, 1, 1]))  # too early
    assert not is_staircase(chain_record([[2, 0.1, 0.1], [2, 2, 0.6]], [0, 0, 0]))  # never


def test_a_run_is_solved_only_from_where_it_stays_solved():
    assert solved_at(chain_record([[1]], [0, 1, 1, 1])) == 1
    assert solved_at(chain_record([[1]], [0, 1, 0, 1])) == 3
    assert solved_at(chain_record([[1]], [0, 1, 1, 0])) is None


def test_gates_are_written_step_by_step():
    assert gates_text(chain_record([], [0, 0], gates=[[1, 1], [0, 1]])) == "10 11"


def test_equation_11_allows_equal_children_of_solved_levels_and_nothing_else():
    children, height = np.array([[0, 1], [2, 3], [4, 5]]), np.array([1, 1, 2])

    def snapshots(change=None):
        made = {}
        for step in range(3):
            W = np.zeros((7, 3))
            W[children, np.arange(3)[:, None]] = 5.0 * (height <= step)[:, None]
            if change and step == 2:
                W[change] += 1
            made[f"descent/W@{step}"] = W
        return made | {"descent/children": children, "descent/height": height}

    def record(change=None):
        return chain_record([], [0, 0, 1], **snapshots(change))

    assert follows_eq11(record())
    assert not follows_eq11(record((0, 0)))  # children apart
    assert not follows_eq11(record((3, 0)))  # another weight


def judged(claim, records):
    return PAPER.claim(claim).judged(records)


def test_the_headline_verdict_fails_on_one_bad_seed():
    good = {"root sup": [0.01], "nodes sup": [0.1], "accuracy": [1.0], "support": [1.0]}
    good |= {"imbalance": [0.2], "root logit": [9.0]}
    records = [Kept(Descent(), seed, metrics=good) for seed in range(3)]
    assert judged("fig-onestep", records).status == "holds"
    assert judged("fig-onestep", records).margin == pytest.approx(5)
    bad = [*records, Kept(Descent(), 3, metrics=good | {"accuracy": [0.999]})]
    assert judged("fig-onestep", bad).status == "not-reproduced"


def test_the_phase_verdict_rejects_a_boundary_as_steep_as_the_square():
    slow = [phase_record(d, seed, 32 * d) for d in (8, 16, 32) for seed in range(4)]
    steep = [phase_record(d, seed, d**3 // 4) for d in (8, 16, 32) for seed in range(4)]
    assert judged("fig-phase", slow).status == "holds"
    assert judged("fig-phase", steep).status == "not-reproduced"


def test_a_hidden_run_is_the_same_for_every_parity_and_worth_nothing_to_any():
    config = Hardness(bits=8, size=4, width=4, queries=10, tolerances=(0.5, 2.0, 50.0))
    with jax.enable_x64(True):
        found = hidden_descent(config, 0)
    assert int(found.arrays["oracle/differing replays"]) == 0
    hidden = found.arrays["oracle/hidden"]
    assert (np.diff(hidden) >= 0).all()
    assert hidden[-1] == 1
    assert (found.arrays["oracle/loss"] >= found.arrays["oracle/loss bound"]).all()
    assert found.arrays["oracle/zero-one"][-1] == pytest.approx(0.5, abs=0.01)
    variance = [v for name, v in zip(found.name, found.value, strict=True) if name == "variance"]
    bound = [v for name, v in zip(found.name, found.value, strict=True) if name == "bound"]
    assert all(v <= b for v, b in zip(variance, bound, strict=True))


def test_what_an_oracle_hides_is_measured_parity_by_parity():
    config = Hardness(bits=5, size=2, width=2, queries=3, learning_rate=2.0, samples=40)
    cls, net = parity_class(config, 0), hiding.TanhNet(5, 2)
    run = hiding.hidden_run(cls, net, net.start(0), config.learning_rate, config.queries)
    factor = float(np.median(run.deviations.max(axis=0)) / np.sqrt(run.variances.max()))
    found = at_tolerance(config, cls, net, run, factor * (1 + 1e-9))
    data = reference.inputs(5)
    f = net.outputs(run.thetas[-1], np.array(data, dtype=float))
    losses, errors = [], []
    for place, code in enumerate(cls.codes):
        if run.deviations[:, place].max() <= found["epsilon"]:
            p = reference.parity_values([j for j in range(5) if code >> j & 1], data)
            losses.append(np.mean((p - f) ** 2))
            errors.append(np.mean(p != np.where(f >= 0, 1, -1)))
    assert 0 < len(losses) < len(cls.codes)
    share = len(losses) / len(cls.codes)
    assert found["hidden"] == pytest.approx(share)
    assert found["loss"] == pytest.approx(np.mean(losses))
    assert found["zero-one"] == pytest.approx(np.mean(errors))
    assert found["loss bound"] == pytest.approx(2 - 1 / share)
    assert found["chebyshev"] == pytest.approx(1 - 3 * run.variances.max() / found["epsilon"] ** 2)


def test_every_preset_of_every_experiment_makes_valid_trials_and_the_quick_ones_share_few_programs():
    for experiment in PAPER.experiments:
        for preset in experiment.presets:
            assert experiment.trials(preset)
        programs = {trial.program_key for trial in experiment.trials("quick")}
        assert experiment.study or len(programs) <= 8
