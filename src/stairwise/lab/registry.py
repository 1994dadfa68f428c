"""Finds papers: the built-in folders, and plug-ins through the entry-point group `stairwise.papers`. Imports no JAX."""

import importlib
import importlib.metadata
import logging
import pkgutil
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import stairwise.papers
from stairwise.lab.config import ConfigError
from stairwise.lab.contract import Claim, Construction, Experiment, Figure, Paper, TaskSource
from stairwise.lab.files import one_line

GROUP = "stairwise.papers"
MESSAGE_LENGTH = 300


class Installed(NamedTuple):
    """By paper id: the module that holds its `PAPER`, a plug-in's distribution; and what cannot be used -> why."""

    modules: dict[str, str]
    distributions: dict[str, dict[str, str]]
    broken: dict[str, str]


def modules() -> dict[str, str]:
    """Paper id -> the module that holds its `PAPER`, built-ins first."""
    return installed().modules


@lru_cache(maxsize=1)
def installed() -> Installed:
    """What there is; a plug-in that is broken is named once, on one line, and takes nobody down with it."""
    found = Installed({}, {}, {})
    for name in _built_in():
        _enter(found, importlib.import_module(name).PAPER, name)
    for entry in _plug_ins():
        try:
            paper = _load(entry)
        except (Exception, SystemExit) as error:  # whatever somebody else's code does when it is imported
            origin = f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.name
            what, why = f"{origin} ({entry.value})", one_line(f"{type(error).__name__}: {error}")[:MESSAGE_LENGTH]
            found.broken[what] = why
            logging.getLogger("stairwise").warning("stairwise: plug-in %s is left out: %s", what, why)
            continue
        _enter(found, paper, entry.module)
        if entry.dist:
            found.distributions[paper.id] = {entry.dist.name: entry.dist.version}
    return found


def _built_in() -> Iterator[str]:
    for found in pkgutil.iter_modules(stairwise.papers.__path__):
        if found.ispkg:
            yield f"stairwise.papers.{found.name}"


def _plug_ins() -> list[Any]:
    """Their entry points, in the order of names, whatever order the file system has.

    Of the standard library's class, or of that of `importlib_metadata`, which takes its place once it is imported.
    """
    return sorted(importlib.metadata.entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value))


def _load(entry: Any) -> Paper:
    module, _, attribute = entry.value.partition(":")
    if attribute.strip() not in ("", "PAPER"):
        raise ValueError(f"the entry point must be {module}:PAPER")
    paper = getattr(importlib.import_module(module), "PAPER", None)
    if not isinstance(paper, Paper):
        raise TypeError(f"{module}.PAPER must be a stairwise.lab.contract.Paper, not {type(paper).__name__}")
    return paper


def _enter(found: Installed, paper: Paper, module: str) -> None:
    if paper.id in found.modules:
        raise ConfigError(f"two papers are called {paper.id}: {found.modules[paper.id]} and {module}")
    found.modules[paper.id] = module


def package(id: str) -> str:
    """The package whose files are a paper's code: that of its `PAPER`, or the one that this module lies in."""
    name = modules()[id]
    inside = hasattr(importlib.import_module(name), "__path__") or "." not in name
    return name if inside else name.rpartition(".")[0]


def distribution(id: str) -> dict[str, str]:
    """The distribution that a plug-in paper was installed with -> its version; empty for a built-in."""
    return installed().distributions.get(id, {})


def papers() -> list[Paper]:
    """Every paper that is installed."""
    return [importlib.import_module(name).PAPER for name in modules().values()]


def paper(id: str) -> Paper:
    if id not in modules():
        unusable = "".join(f"; left out: {what}: {why}" for what, why in installed().broken.items())
        raise ConfigError(f"unknown paper: {id} (known: {', '.join(modules())}{unusable})")
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
