"""Facts about the claim of more letters: its verdict follows what the runs show, within each N."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from stairwise.papers.composition import presets
from stairwise.papers.composition.claims.figures import mixture_helps_with_more_letters

STEPS = (0, 7000, 14_000)


def run(N: int, hops: tuple[int, ...], seed: int, end: float):
    config = replace(presets.SLOWER, task=replace(presets.SLOWER.task, alphabet=N), hops=hops)
    values = (1 / N, 1 / N, end)
    return SimpleNamespace(
        config=config, seed=seed, series=lambda name: (STEPS, values), final=lambda name: values[-1]
    )  # fmt: skip


def failing(learnt: dict[int, int], alone: float = 0.0) -> set[str]:
    """Names of the comparisons that fail where so many of 12 runs on the mixture learn at each N."""
    runs = [run(N, (1, 2, 4), seed, 1.0 if seed < learnt[N] else 1 / N) for N in learnt for seed in range(12)]
    runs += [run(N, (4,), seed, 1 / N + alone) for N in learnt for seed in range(12)]
    found = [each for each in mixture_helps_with_more_letters(runs) if getattr(each, "met", None) is False]
    return {each.name for each in found}


@pytest.mark.parametrize(
    ("learnt", "failed"),
    [
        ({6: 6, 8: 6}, set()),
        ({6: 8, 8: 0}, set()),
        ({6: 2, 8: 2}, {"log-rank p of the two arms, within each N"}),
        ({6: 0, 8: 0}, {"log-rank p of the two arms, within each N", "the mixture is ahead"}),
    ],
)
def test_the_line_is_met_where_enough_runs_learn(learnt, failed):
    assert failing(learnt) == failed


def test_the_line_is_missed_where_four_hops_alone_leave_chance():
    assert failing({6: 6, 8: 6}, alone=0.06) == {f"accuracy at the end, 4 hops only, N = {N}" for N in (6, 8)}
