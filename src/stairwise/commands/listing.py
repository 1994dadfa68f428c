"""Every paper with its experiments, figures and claims as plain data: `stairwise list --json`."""

import typing
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from stairwise.config import Config, leaves
from stairwise.lab.contract.claims import Claim
from stairwise.lab.contract.experiment import Experiment, Preset
from stairwise.lab.contract.paper import Paper
from stairwise.lab.store.store import Store
from stairwise.words import seconds_of


def listing(papers: Sequence[Paper], store: Store) -> dict[str, Any]:
    """Every paper with its experiments, figures and claims, and what the store holds of them."""
    stored = by_experiment(store)
    return {"store": str(store.root), "papers": [_paper(paper, stored) for paper in papers]}


class Total(NamedTuple):
    """How many trials of an experiment are stored, and what they cost."""

    trials: int = 0
    seconds: float = 0.0


def by_experiment(store: Store) -> dict[str, Total]:
    """What is stored under each experiment's name."""
    found: dict[str, Total] = {}
    for record in store.glances():
        before = found.get(record.experiment, Total())
        found[record.experiment] = Total(before.trials + 1, before.seconds + seconds_of(record.run))
    return found


def _paper(paper: Paper, stored: Mapping[str, Total]) -> dict[str, Any]:
    return {
        "id": paper.id,
        "title": paper.title,
        "authors": paper.authors,
        "year": paper.year,
        "venue": paper.venue,
        "summary": paper.summary,
        "experiments": [_experiment(each, stored.get(each.name, Total())) for each in paper.experiments],
        "figures": [
            {"id": each.id, "experiment": each.experiment, "caption": each.caption, "headline": each.headline}
            for each in paper.figures
        ],
        "claims": [_claim(each, paper) for each in paper.claims],
        "constructions": [{"id": each.id, "says": each.says} for each in paper.constructions],
    }


def _experiment(experiment: Experiment, stored: Total) -> dict[str, Any]:
    return {
        "id": experiment.id,
        "name": experiment.name,
        "says": experiment.says,
        "presets": {name: _preset(preset) for name, preset in experiment.presets.items()},
        "figures": [figure.id for figure in experiment.figures],
        "fields": fields(experiment.Config()),
        "stored": stored.trials,
        "seconds": round(stored.seconds, 3),
    }


def _preset(preset: Preset) -> dict[str, Any]:
    settings = {leaf.path: leaf.default for leaf in leaves(preset.config)}
    return {
        "seeds": preset.seeds,
        "arms": list(preset.arms),
        "steps": settings.get("steps"),
        "trials": preset.seeds * len(preset.arms),
        "group": preset.group,
        "hours": preset.hours,
        "note": preset.note,
        "config": settings,
    }


def _claim(claim: Claim, paper: Paper) -> dict[str, Any]:
    base = claim.cases[0] if claim.cases else None
    if claim.judge is not None:
        base = next(iter(paper.experiment(claim.experiment).presets.values())).config
    return {
        "id": claim.id,
        "name": claim.name,
        "aliases": list(claim.aliases),
        "says": claim.says,
        "kind": claim.kind,
        "tier": claim.tier,
        "experiment": f"{claim.paper}/{claim.experiment}" if claim.experiment else None,
        "source": claim.source,
        "fields": [] if base is None else fields(base),
    }


def fields(config: Config) -> list[dict[str, Any]]:
    """The fields that a command line can set, with the config's values as their defaults."""
    return [
        {
            "name": leaf.path,
            "type": _type_name(leaf.kind),
            "default": leaf.default,
            "help": leaf.metadata.get("help", ""),
            "range": leaf.range,
            "choices": list(leaf.metadata.get("choices") or ()),
            "numeric": leaf.numeric,
        }
        for leaf in leaves(config)
    ]


def _type_name(kind: Any) -> str:
    if typing.get_origin(kind) is tuple:
        return f"list of {_type_name(typing.get_args(kind)[0])}"
    return getattr(kind, "__name__", str(kind))
