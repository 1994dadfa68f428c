"""Facts about the presets as a whole: predicted hours, points that are measured, programs, no group mostly empty."""

import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from stairwise.cli import main
from stairwise.lab import registry

DOCS = Path(__file__).parent.parent / "docs"


def test_the_page_of_paper_presets_is_up_to_date(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(DOCS), *sys.path])
    from docs_site import paper_presets

    assert paper_presets.PAGE.read_text() == paper_presets.page(), "run docs/docs_site/paper_presets.py"


def test_only_what_a_paper_prescribes_is_called_paper():
    disowned = re.compile("^not in|beyond the paper|the paper has no|no such", re.MULTILINE)
    for experiment in EXPERIMENTS:
        if "paper" in experiment.presets:
            assert experiment.paper != "crossings", f"{experiment.name}: a crossing is in no paper"
            assert not disowned.search(f"{experiment.says}\n{experiment.presets['paper'].note}"), experiment.name


def test_a_preset_that_an_experiment_does_not_have_is_refused_with_those_that_it_has(capsys):
    assert main(["run", "crossings/atlas", "--preset", "paper", "--dry-run"]) == 2
    assert "preset=paper must be one of quick, gpu (crossings/atlas)" in capsys.readouterr().err


FEW_STEPS = "it takes fewer than 20 gradient steps, and is measured after each"
SIZES = "a point is a number of samples, one gradient step each"
FEWER = {
    **dict.fromkeys(
        [f"composition/{id}" for id in ("curriculum", "mixture", "values", "sparse", "any-blocks")], FEW_STEPS
    ),
    **dict.fromkeys([f"parity_onestep/{id}" for id in ("onestep", "staircase", "regimes", "ablation")], FEW_STEPS),
    **dict.fromkeys([f"parity_onestep/{id}" for id in ("dimension", "lam", "link", "noise")], FEW_STEPS),
    "parity_cot/theorem3": FEW_STEPS,
    "composition/threshold": SIZES,
    "parity_onestep/phase": SIZES,
    "parity_onestep/scaling": SIZES,
    "lego/map": "its points are the cells of its figure",
    "crossings/filter": "before and after 200 steps of self-training; the training before it is filter-base",
    "parity_cot/gsm8k": "it needs data that is not in the package",
}


def points(experiment):
    """The fewest measuring points of any program of the quick preset."""
    trials = {trial.program_key: trial for trial in experiment.trials("quick", [0])}
    programs = [experiment.program(trial.structure) for trial in trials.values()]
    return min(sum(len({*stage.measure_at, stage.max_ticks}) for stage in stages) for stages in programs)


def test_quick_presets_that_train_measure_at_20_points_or_more():
    trained = [experiment for experiment in EXPERIMENTS if not experiment.study and experiment.name not in FEWER]
    found = {experiment.name: points(experiment) for experiment in trained}
    assert {name: count for name, count in found.items() if count < 20} == {}
    assert len(found) > 30


MOST_PROGRAMS = 6  # of a quick preset: two slow cores take seconds to compile one
MORE_PROGRAMS = {
    "parity_cot/puzzle": 7,  # seven ways to build or to train the decoder; k = 2 and 3 share each
    "parity_onestep/learning": 8,  # four models at two sizes
    "selection/beyond": 10,  # as many models, tokens and optimisers
}


def test_trials_of_a_quick_preset_share_few_programs():
    trained = [experiment for experiment in EXPERIMENTS if not experiment.study]
    found = {each.name: len({trial.program_key for trial in each.trials("quick")}) for each in trained}
    assert {name: count for name, count in found.items() if count > MOST_PROGRAMS} == MORE_PROGRAMS
    assert sum(found.values()) <= 196  # as there are now, for 66 experiments: one more is a decision


EXPERIMENTS = [experiment for paper in registry.papers() for experiment in paper.experiments]


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["gpu", "paper"])
def test_groups_compute_little_that_nobody_asked_for(preset):
    """A group computes as many trials as it is wide, however many there are."""
    for experiment in EXPERIMENTS:
        if experiment.study or preset not in experiment.presets:
            continue
        chosen = experiment.preset(preset)
        arms = Counter(trial.program_key for trial in experiment.trials(preset, seeds=[0]))
        asked = [arms_of * chosen.seeds for arms_of in arms.values()]
        computed = sum(-(-each // chosen.group) * chosen.group for each in asked)
        assert computed <= 1.25 * sum(asked), f"{experiment.name}, preset {preset}: {computed} for {asked}"
