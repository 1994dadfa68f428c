"""Presets, and what judges and figures read from records: best of the rates, censoring, growth."""

from dataclasses import dataclass, field
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest

from stairwise.config import update
from stairwise.lab import registry
from stairwise.papers.parity_cot import runs
from stairwise.papers.parity_cot.config.training import Training
from stairwise.papers.parity_cot.figures import complexity
from stairwise.papers.parity_cot.presets.training import EXPERIMENTS


@dataclass
class Fake:
    """A record with metrics by name."""

    config: Any
    seed: int
    hit: float
    metrics: dict = field(default_factory=dict)
    arm: str = ""

    @property
    def status(self):
        return "censored" if self.hit < 0 else "reached"

    def series(self, name, stage=None):
        values = np.array(self.metrics.get(name, [0.5, 1.0]))
        return np.arange(len(values)), values

    def final(self, name, stage=None):
        return self.hit if name == "hit" else float(self.series(name)[1][-1])


def fake(hit, seed=0, metrics=None, **changes):
    config = update(Training(), {name.replace("task_", "task."): value for name, value in changes.items()})
    return Fake(config, seed, hit, metrics or {})


def judged(id, records):
    return registry.paper("parity_cot").claim(id).judged(records)


def learners(growth, sizes, cot, seeds=4, **more):
    random = np.random.default_rng(0)
    return [
        fake(int(1024 * np.ceil(growth(k) * random.uniform(0.9, 1.1) / 1024)), seed, task_size=k, task_cot=cot, **more)
        for k in sizes
        for seed in range(seeds)
    ]


def test_the_best_of_the_rates_is_taken_seed_by_seed_and_censored_only_if_all_are():
    records = [
        fake(hit, seed, learning_rate=rate)
        for seed, pair in enumerate([(2048, 1024), (-1, 4096), (-1, -1)])
        for hit, rate in zip(pair, (1e-3, 1e-4), strict=True)
    ]
    best = runs.best_of_rates(records)
    assert best.times.tolist() == [1024, 4096, Training().budget]
    assert best.censored.tolist() == [False, False, True]


@pytest.fixture(autouse=True)
def few_replicates(monkeypatch):
    monkeypatch.setattr(runs, "REPEATS", 40)


def test_exponential_growth_without_and_linear_growth_with_the_chain_are_told_apart():
    chains = learners(lambda k: 3000 * k, (1, 2, 4, 8, 16), True)
    plain = learners(lambda k: 500 * 8.0**k, (1, 2), False) + [
        fake(-1, s, task_size=3, task_cot=False) for s in range(4)
    ]
    assert judged("fig1a", chains + plain).status == "holds"
    slow = learners(lambda k: 3000 * 2.0**k, (1, 2, 3, 4), False)
    assert judged("fig1a", chains + slow).status == "not-reproduced"
    steep = learners(lambda k: 3000 * k**2, (1, 2, 4), True)
    assert judged("fig1a", steep + plain).status == "not-reproduced"


def test_figure_3a_is_drawn_where_not_every_size_has_every_rate():
    chains = learners(lambda k: 3000 * k, (2, 8), True) + learners(
        lambda k: 3000 * k, (2, 4, 8), True, learning_rate=1e-4
    )
    plain = learners(lambda k: 500 * 8.0**k, (1, 2), False)
    drawn = complexity.long(chains + plain)
    labels = drawn.axes[0].get_legend_handles_labels()[1]
    plt.close(drawn)
    assert {"rate 0.0001", f"rate {Training().learning_rate:g}"} <= set(labels)


def test_nothing_is_claimed_of_a_growth_that_no_two_sizes_show():
    chains = learners(lambda k: 3000 * k, (1, 2, 4), True)
    plain = [fake(-1, s, task_size=k, task_cot=False) for k in (3, 4) for s in range(3)]
    verdict = judged("fig1a", chains + plain)
    assert verdict.status == "holds"
    assert "without CoT fewer than two sizes are learnt" in verdict.note


def test_repetition_counts_only_when_the_censored_comparison_is_significant():
    def pools(small, fresh):
        first = [fake(hit, seed, samples=2000) for seed, hit in enumerate(small)]
        return first + [fake(hit, seed, samples=0) for seed, hit in enumerate(fresh)]

    clear = pools([2048 + 1024 * i for i in range(12)], [-1] * 12)
    assert judged("fig5", clear).status == "holds"
    even = pools([2048, -1, 4096, -1], [4096, -1, 2048, -1])
    assert judged("fig5", even).status == "not-reproduced"
    # sooner, but by the larger set: no evidence for repetition
    reverse = pools([-1] * 12, [2048 + 1024 * i for i in range(12)])
    assert judged("fig5", reverse).status == "not-reproduced"
    assert judged("fig10", reverse).status == "not-reproduced"


def test_almost_all_shapes_must_learn_from_a_small_set():
    def shapes(*learnt):
        pairs = [(layers, heads) for layers in (1, 2) for heads in (1, 4)]
        return [
            fake(hits[seed], seed, task_cot=False, **{"model.layers": pair[0], "model.heads": pair[1]})
            for pair, hits in zip(pairs, learnt, strict=True)
            for seed in range(4)
        ]

    every, half, none = [4096] * 4, [4096, 4096, -1, -1], [-1] * 4
    assert judged("fig4", shapes(every, half, every, none)).status == "holds"
    assert judged("fig4", shapes(every, every, none, none)).status == "not-reproduced"
    slow = [fake(8192, seed) for seed in range(4)]
    assert judged("fig4", shapes(every, every, every, every) + slow).status == "not-reproduced"


def test_no_success_at_all_is_no_evidence_for_small_sets():
    nothing = [fake(-1, seed, samples=samples) for samples in (2000, 0) for seed in range(4)]
    assert judged("fig10", nothing).status == "not-reproduced"
    small = [fake(4096, seed, samples=2000) for seed in range(4)]
    assert judged("fig10", small + nothing[4:]).status == "holds"


def test_one_success_without_the_chain_contradicts_figure_9():
    records = [fake(-1, seed, task_size=8, task_cot=False) for seed in range(3)]
    assert judged("fig9", records).status == "holds"
    records.append(fake(4096, 3, task_size=8, task_cot=False))
    assert judged("fig9", records).status == "not-reproduced"


def test_larger_steps_must_not_be_learnt_sooner():
    def steps(*hits):
        return [fake(hit, seed, task_absorbed=g) for g, hit in zip((1, 2, 4), hits, strict=True) for seed in range(3)]

    assert judged("bits-a-step", steps(2048, 4096, -1)).status == "holds"
    assert judged("bits-a-step", steps(2048, 1024, -1)).status == "not-reproduced"


def test_the_jump_is_when_accuracy_passes_three_quarters():
    heads = {f"entropy 1.{head}": [0.8, 0.8, 0.7, 0.1, 0.1] for head in range(1, 5)}
    record = fake(4096, metrics={**heads, "exact match": [0.5, 0.5, 0.6, 0.9, 1.0]})
    assert runs.jump(record) == (3 * 1024, 3 * 1024)


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.id)
def test_presets_pad_so_that_few_programs_are_compiled(experiment):
    for preset, most in (("quick", 8), ("gpu", 8)):
        trials = experiment.trials(preset)
        assert len({trial.program_key for trial in trials}) <= most
        for trial in trials:
            assert trial.config.budget % trial.config.look == 0
