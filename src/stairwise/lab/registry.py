"""Finds papers: the built-in folders, and plug-ins through the entry-point group `stairwise.papers`. Imports no JAX."""

import importlib
import importlib.metadata
import pkgutil
from functools import lru_cache

import stairwise.papers
from stairwise.lab.config import ConfigError
from stairwise.lab.contract import Claim, Construction, Experiment, Figure, Paper, TaskSource


@lru_cache(maxsize=1)
def modules() -> dict[str, str]:
    """Paper id -> the module that holds its `PAPER`, built-ins first."""
    names = [
        f"stairwise.papers.{found.name}" for found in pkgutil.iter_modules(stairwise.papers.__path__) if found.ispkg
    ]
    names += [entry.value.partition(":")[0] for entry in importlib.metadata.entry_points(group="stairwise.papers")]
    found: dict[str, str] = {}
    for name in names:
        paper = importlib.import_module(name).PAPER
        if paper.id in found:
            raise ConfigError(f"two papers are called {paper.id}: {found[paper.id]} and {name}")
        found[paper.id] = name
    return found


def papers() -> list[Paper]:
    """Every paper that is installed."""
    return [importlib.import_module(name).PAPER for name in modules().values()]


def paper(id: str) -> Paper:
    if id not in modules():
        raise ConfigError(f"unknown paper: {id} (known: {', '.join(modules())})")
    return importlib.import_module(modules()[id]).PAPER


def _split(name: str, what: str) -> tuple[Paper, str]:
    owner, _, rest = name.partition("/")
    if not rest:
        raise ConfigError(f"{name} must be written as PAPER/{what}, for example {_example(what)}")
    return paper(owner), rest


def _example(what: str) -> str:
    first = papers()[0]
    items = {"EXPERIMENT": first.experiments, "FIGURE": first.figures, "CONSTRUCTION": first.constructions}[what]
    return f"{first.id}/{items[0].id}"


def experiment(target: str | Experiment | Figure) -> Experiment:
    """The experiment that a name, an experiment or one of its figures means."""
    if isinstance(target, Experiment):
        return target
    if isinstance(target, Figure):
        return paper(target.paper).experiment(target.experiment)
    owner, id = _split(target, "EXPERIMENT")
    for figure in owner.figures:
        if figure.id == id:
            return owner.experiment(figure.experiment)
    return owner.experiment(id)


def figure(target: str | Figure) -> Figure:
    if isinstance(target, Figure):
        return target
    owner, id = _split(target, "FIGURE")
    return owner.figure(id)


def construction(target: str) -> Construction:
    owner, id = _split(target, "CONSTRUCTION")
    return owner.construction(id)


def task(target: str | TaskSource) -> TaskSource:
    """The task that a name means: its own ("lego"), its paper's where that has one task, or both ("lego/lego")."""
    if isinstance(target, TaskSource):
        return target
    owner, _, id = target.partition("/")
    if id:
        return paper(owner).task(id)
    every = [known for one in papers() for known in one.tasks]
    for found in ([one for one in every if one.id == target], [one for one in every if one.paper == target]):
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(one.name for one in found)
            raise ConfigError(f"task={target} could be any of {names}: write it as PAPER/TASK")
    raise ConfigError(f"unknown task: {target} (known: {', '.join(one.id for one in every)})")


def claims(targets: list[str]) -> list[tuple[Claim, bool]]:
    """The claims that targets name ("selection", "selection/thm3.1"; none: all), and whether each was named itself."""
    found: dict[str, tuple[Claim, bool]] = {}
    for target in targets or [known.id for known in papers()]:
        owner, _, id = target.partition("/")
        chosen = [paper(owner).claim(id)] if id else paper(owner).claims
        for claim in chosen:
            if claim.name not in found or id:
                found[claim.name] = (claim, bool(id))
    return list(found.values())
