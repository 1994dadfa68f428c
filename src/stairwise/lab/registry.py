"""Finds papers: the built-in folders, and plug-ins through the entry-point group `stairwise.papers`.

Names are checked against manifests (`lab.contract.manifest`); a paper is imported when something of it is asked for.
"""

import fnmatch
import importlib
import logging
from functools import lru_cache
from typing import Any, NamedTuple

from stairwise.config import ConfigError, one_line, short
from stairwise.lab.contract import manifest
from stairwise.lab.contract.claims import Claim
from stairwise.lab.contract.experiment import Experiment, Figure
from stairwise.lab.contract.paper import Construction, Paper
from stairwise.lab.contract.sources import TaskSource

MESSAGE_LENGTH = 300
# what a target may name
KINDS = {"EXPERIMENT": ("experiments", "figures"), "FIGURE": ("figures",), "CONSTRUCTION": ("constructions",)}


class PlugIns(NamedTuple):
    """By paper id: the module that holds its `PAPER`, its distribution; and what cannot be used -> why."""

    modules: dict[str, str]
    distributions: dict[str, dict[str, str]]
    broken: dict[str, str]


def modules() -> dict[str, str]:
    """Paper id -> the module that holds its `PAPER`, built-ins first."""
    return {**_built_in(), **plug_ins().modules}


def _built_in() -> dict[str, str]:
    return {id: f"stairwise.papers.{id}" for id in manifest.built_in()}


@lru_cache(maxsize=1)
def plug_ins() -> PlugIns:
    """What others have installed; one that is broken, or takes the id of another paper, is named once and left out."""
    found = PlugIns({}, {}, {})
    for entry in manifest.plug_ins():
        try:
            paper = _load(entry)
            taken = {**_built_in(), **found.modules}.get(paper.id)
            if taken is not None:
                raise ConfigError(f"its paper is called {paper.id}, as that of {taken} is: give it another id")
        except (Exception, SystemExit) as error:  # whatever somebody else's code does when it is imported
            origin = f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.name
            what, why = f"{origin} ({entry.value})", one_line(f"{type(error).__name__}: {error}")[:MESSAGE_LENGTH]
            found.broken[what] = why
            logging.getLogger("stairwise").warning("stairwise: plug-in %s is left out: %s", what, why)
            continue
        found.modules[paper.id] = entry.module
        if entry.dist:
            found.distributions[paper.id] = {entry.dist.name: entry.dist.version}
    return found


def _load(entry: Any) -> Paper:
    module, _, attribute = entry.value.partition(":")
    if attribute.strip() not in ("", "PAPER"):
        raise ValueError(f"the entry point must be {module}:PAPER")
    paper = getattr(importlib.import_module(module), "PAPER", None)
    if not isinstance(paper, Paper):
        raise TypeError(f"{module}.PAPER must be a stairwise.lab.contract.paper.Paper, not {type(paper).__name__}")
    return paper


def distribution(id: str) -> dict[str, str]:
    """The distribution that a plug-in paper was installed with -> its version; empty for a built-in."""
    return {} if id in _built_in() else plug_ins().distributions.get(id, {})


def papers() -> list[Paper]:
    """Every paper that is installed."""
    return [importlib.import_module(name).PAPER for name in modules().values()]


def paper(id: str) -> Paper:
    return importlib.import_module(_module(id)).PAPER


def _module(id: str) -> str:
    """The module of a paper; a built-in one is found without a look at the plug-ins."""
    found = _built_in().get(id) or plug_ins().modules.get(id)
    if found is None:
        unusable = "".join(f"; left out: {what}: {why}" for what, why in plug_ins().broken.items())
        raise ConfigError(manifest.unknown_paper(id, modules()) + unusable)
    return found


def _split(name: str, what: str) -> tuple[Paper, str]:
    if not isinstance(name, str):
        raise ConfigError(f"{short(name)} must be the name PAPER/{what}, for example {_example(what)!r}")
    owner, _, rest = name.partition("/")
    if not rest:
        owner = owner if owner in modules() else ""
        listed = f"stairwise list {owner}" if owner else "stairwise list"
        raise ConfigError(f"{name} must be written as PAPER/{what}, for example {_example(what, owner)} ({listed})")
    manifest.check_name(name, *KINDS[what])
    return paper(owner), rest


def _example(what: str, owner: str = "") -> str:
    """A name of this kind, of the paper that was meant where it has one."""
    for found in (*(manifests(owner) if owner else ()), manifest.read(manifest.built_in()[0])):
        if named := found[KINDS[what][0]]:
            return f"{found['id']}/{named[0]['id']}"
    return f"PAPER/{what}"


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
    if not isinstance(target, str):
        raise ConfigError(f"{short(target)} must be the name of a task, for example 'lego'")
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
    """The claims that targets name, and whether each was named itself.

    A target is a paper, a claim ("selection/thm3.1") or a pattern ("lego/thm4.1*"); without any, all claims are meant.
    """
    found: dict[str, tuple[Claim, bool]] = {}
    for target in targets or modules():
        if not isinstance(target, str):
            raise ConfigError(f"{short(target)} must be the name of a paper or a claim, for example 'selection/thm3.5'")
        owner, _, id = target.partition("/")
        manifest.check_name(target, "claims")
        itself = bool(id) and not manifest.is_pattern(id)
        for claim in [paper(owner).claim(id)] if itself else paper(owner).claims:
            like = itself or not id or any(fnmatch.fnmatchcase(name, id) for name in (claim.id, *claim.aliases))
            if like and (claim.name not in found or itself):
                found[claim.name] = (claim, itself)
    return list(found.values())


def manifests(id: str | None = None) -> list[manifest.Manifest]:
    """What every paper offers, or the one named; plug-ins are imported for it, papers of this package are not."""
    if id in manifest.built_in():
        return [manifest.read(id)]
    found = [manifest.read(name) for name in manifest.built_in()]
    if manifest.plug_ins():
        found += [manifest.describe(paper) for paper in papers() if paper.id not in manifest.built_in()]
    if id is None:
        return found
    chosen = [each for each in found if each["id"] == id]
    if not chosen:
        raise ConfigError(manifest.unknown_paper(id, [each["id"] for each in found]))
    return chosen
