"""Facts about the presets as a whole: the page of predicted hours is theirs, and no group is mostly empty."""

import sys
from collections import Counter
from pathlib import Path

import pytest

from stairwise.lab import registry

DOCS = Path(__file__).parent.parent / "docs"


def test_the_page_of_paper_presets_is_up_to_date(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(DOCS), *sys.path])
    from docs_site import paper_presets

    assert paper_presets.PAGE.read_text() == paper_presets.page(), "run docs/docs_site/paper_presets.py"


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
