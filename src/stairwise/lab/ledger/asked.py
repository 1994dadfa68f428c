"""What `verify` is asked for: claims at their own sizes or at given ones, chosen and checked before any work."""

import itertools
import math
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from stairwise.config import Config, ConfigError, find_leaf, leaves, unknown_field, update
from stairwise.lab import registry
from stairwise.lab.contract.claims import Claim
from stairwise.lab.contract.experiment import check_seed
from stairwise.lab.contract.manifest import TIERS
from stairwise.lab.run.sharing import Shard

MOST_JOBS, MOST_SEEDS = 64, 1000


class AskedClaim(NamedTuple):
    """A claim, whether it was named itself, the sizes that were given, and why its config refuses them."""

    claim: Claim
    named: bool
    sizes: Mapping[str, Any]
    refused: str = ""


@dataclass(frozen=True)
class VerifyRequest:
    """What a verification asks for, checked: made once, then previewed or performed."""

    claims: Sequence[AskedClaim]  # of the shard, where there is one
    asked: Sequence[AskedClaim]  # of all shards
    tier: str
    preset: str
    seed: int
    seeds: int | None
    jobs: int
    shard: Shard | None
    published: bool = False  # judged on the record, not on a store of one's own

    @classmethod
    def of(
        cls,
        targets: Sequence[str] = (),
        changes: Mapping[str, Any] | None = None,
        *,
        tier: str = "instant",
        preset: str = "quick",
        seed: int = 0,
        seeds: int | None = None,
        jobs: int = 1,
        shard: str | None = None,
        published: bool = False,
    ) -> "VerifyRequest":
        """ConfigError names what is wrong. With `published` only claims that are judged on trials are asked for."""
        if tier not in TIERS:
            raise ConfigError(f"tier={tier} must be one of {', '.join(TIERS)}")
        _check_preset(preset)
        check_seed(seed)
        if not 1 <= jobs <= MOST_JOBS:
            raise ConfigError(f"jobs={jobs} must lie in 1..{MOST_JOBS}")
        if seeds is not None and not 1 <= seeds <= MOST_SEEDS:
            raise ConfigError(f"seeds={seeds} must lie in 1..{MOST_SEEDS}")
        part = None if shard is None else Shard.parse(shard)
        chosen = [(claim, named) for claim, named in registry.claims(list(targets)) if claim.judge or not published]
        asked = _asked(chosen, dict(changes or {}), preset)
        mine = asked if part is None else _part(part, asked)
        return cls(mine, asked, tier, preset, seed, seeds, jobs, part, published)

    def due(self, asked: AskedClaim) -> bool:
        """A claim that was named itself is checked whatever its tier, others up to the tier that was asked for."""
        return not asked.refused and (asked.named or TIERS.index(asked.claim.tier) <= TIERS.index(self.tier))

    def seeds_of(self, claim: Claim) -> list[int]:
        return seeds_of(claim, self.seed, self.seeds)


def seeds_of(claim: Claim, seed: int, seeds: int | None) -> list[int]:
    """The seeds of a claim's check, from the first one on: as many as are given, or as the claim says."""
    return list(range(seed, seed + (seeds or claim.seeds)))


def _check_preset(preset: str) -> None:
    known = {name: None for paper in registry.manifests() for each in paper["experiments"] for name in each["presets"]}
    if preset not in known:
        raise ConfigError(f"preset={preset} must be one of {', '.join(known)}")


def _part(shard: Shard, asked: list[AskedClaim]) -> list[AskedClaim]:
    """A shard's checks, dealt out one by one; those that are judged on the same trials stay together."""
    units: dict[Any, list[AskedClaim]] = {}
    for position, each in enumerate(asked):
        claim, sizes = each.claim, each.sizes
        unit = position if claim.check is not None else (claim.paper, claim.experiment, str(sizes))
        units.setdefault(unit, []).append(each)
    return [each for unit in shard.of(list(units.values())) for each in unit]


def _asked(chosen: list[tuple[Claim, bool]], changes: dict[str, Any], preset: str) -> list[AskedClaim]:
    """Each claim once, or once for every combination of the listed sizes; all sizes are checked before any work.

    A combination that the claim's config refuses comes with the reason, unless there is no other.
    """
    known: set[str] = set()
    found: set[str] = set()
    asked: list[AskedClaim] = []
    refusals: list[ConfigError] = []
    for claim, named in chosen:
        base = base_of(claim, preset)
        fields = {leaf.path: leaf for leaf in leaves(base)} if base is not None else {}
        known |= set(fields)
        meant = {path: find_leaf(base, path) if base is not None else None for path in changes}
        found |= {path for path, leaf in meant.items() if leaf is not None}
        unknown = next((path for path, leaf in meant.items() if leaf is None), None)
        if unknown is not None and named:
            raise ConfigError(f"{claim.name}: {unknown_field(unknown, sorted(fields))}")
        if unknown is not None:
            continue
        mine = {leaf.path: changes[path] for path, leaf in meant.items() if leaf is not None}
        if len(mine) < len(changes):
            raise ConfigError(f"{claim.name}: {' and '.join(changes)} name the same field twice")
        axes = [_values(fields[path].kind, value) for path, value in mine.items()]
        for combination in itertools.product(*axes):
            sizes, why = dict(zip(mine, combination, strict=True)), ""
            assert base is not None or not sizes
            if base is not None:
                try:
                    config = _at(claim, base, sizes, named)
                except ConfigError as error:
                    refusals.append(error)
                    why = f"refused: {error}"
                else:
                    paths = {leaf.path: leaf.default for leaf in leaves(config)}
                    sizes = {path: paths[path] for path in sizes}
            asked.append(AskedClaim(claim, named, sizes, why))
        if refusals and math.prod(map(len, axes)) == 1:
            raise refusals[0]
    for path in changes:
        if path not in found:
            raise ConfigError(unknown_field(path, sorted(known)))
    if refusals and len(refusals) == len(asked):
        raise refusals[0]
    if changes and not asked:
        raise ConfigError(f"no claim takes {', '.join(changes)} together")
    return asked


def _at(claim: Claim, base: Config, sizes: Mapping[str, Any], named: bool) -> Config:
    """The claim's config at these sizes; raises for values outside their range, and names a claim that nobody named."""
    try:
        return update(base, sizes)
    except ConfigError as error:
        raise error if named else ConfigError(f"{claim.name}: {error}") from None


def base_of(claim: Claim, preset: str) -> Config | None:
    if claim.check is not None:
        return claim.cases[0] if claim.cases else None
    experiment = registry.paper(claim.paper).experiment(claim.experiment)
    return experiment.preset(preset).config


def _values(kind: Any, value: Any) -> list[Any]:
    """A list of sizes where a single one is expected: "8,16,32", "C3,S4", or a Python list."""
    if typing.get_origin(kind) is tuple:
        return [value]
    if isinstance(value, str):
        return [part for part in _parts(value) if part] or [value]
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _parts(text: str) -> list[str]:
    """What stands between the commas that are not within brackets.

    >>> _parts("C3,[[0,1],[1,0]],S4")
    ['C3', '[[0,1],[1,0]]', 'S4']
    """
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "[(<") - (letter in "])>")
        if letter == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts
