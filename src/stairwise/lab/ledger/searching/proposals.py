"""Which points to look at: those that meet the hypotheses, or break the one that is dropped and no other.

Hypotheses are cheap predicates of a config, so such points are found before anything is computed: by changing one field
of the ledger's cases, else by a walk that never breaks more than it has broken. Samplers then propose where margins are
small, and what they propose is led to the nearest such point.
"""

import math
import re
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from random import Random
from typing import Any

from stairwise.config import ConfigError, update
from stairwise.lab.contract.claims import Claim
from stairwise.lab.ledger.searching.space import SearchAxis, values_of

REFUSED = 1000  # how wrong a config is that cannot be made
FEW = 256  # a space with at most so many points is looked at as a whole
WALKS, MOVES = 40, 250  # to points that can be judged, and moves of each
WORST = 8  # points with the smallest margins, around which is looked again


@dataclass(frozen=True)
class Region:
    """Where to look: inside the hypotheses of a claim, or where `dropped` is broken and no other is.

    `broken` counts the configs that were asked for and break `dropped`, by what else they break.
    """

    claim: Claim
    dropped: str
    axes: tuple[SearchAxis, ...]
    broken: Counter[frozenset[str]] = field(default_factory=Counter, compare=False, repr=False)

    def wrong(self, sizes: Mapping[str, Any]) -> tuple[int, list[SearchAxis]]:
        """How many hypotheses are not as they should be, and which fields a config names that refuses them."""
        try:
            config = update(self.claim.cases[0], dict(sizes))
            unmet = set(self.claim.unmet(config))
        except (ConfigError, ArithmeticError, ValueError, LookupError) as error:
            named = re.findall(r"([\w.]+)=", str(error)) if isinstance(error, ConfigError) else []
            return REFUSED, [axis for axis in self.axes if any(f".{axis.path}".endswith(f".{name}") for name in named)]
        if self.dropped in unmet:
            self.broken[frozenset(unmet - {self.dropped})] += 1
        given = self.claim.hypotheses or {}
        names = given(config) if callable(given) else given
        return len(unmet ^ ({self.dropped} & set(names))), []

    @cached_property
    def cases(self) -> list[dict[str, Any]]:
        """The ledger's cases, as points."""
        cases = [values_of(case) for case in self.claim.cases]
        return [{axis.path: axis.nearest(case[axis.path]) for axis in self.axes} for case in cases]

    def silence(self) -> str:
        """Why no config can be judged, of those that were asked for; empty where one can."""
        if not self.dropped or frozenset() in self.broken:
            return ""
        if not self.broken:
            return "no config was met that breaks it"
        if always := frozenset.intersection(*self.broken):
            return f"every config that breaks it breaks {' and '.join(sorted(always))} too"
        others = Counter[str]()
        for names, count in self.broken.items():
            others.update(dict.fromkeys(names, count))
        return f"every config that breaks it breaks another one, most often {others.most_common(1)[0][0]}"

    @property
    def points(self) -> float:
        """How many there are."""
        return math.prod(axis.count for axis in self.axes)

    @property
    def least(self) -> dict[str, Any]:
        return {axis.path: axis.least for axis in self.axes}

    def draw(self, random: Random) -> dict[str, Any]:
        return {axis.path: axis.draw(random) for axis in self.axes}

    def extent(self, sizes: Mapping[str, Any]) -> float:
        """How large a point is: small ones are computed sooner and are easier to read."""
        return sum(math.log1p(abs(sizes[axis.path])) for axis in self.axes if not axis.choices)

    def all(self, random: Random) -> list[dict[str, Any]]:
        """Every point, in any order."""
        names = [axis.path for axis in self.axes]
        found = [dict(zip(names, values, strict=True)) for values in product(*(axis.values for axis in self.axes))]
        random.shuffle(found)
        return found


def reach(region: Region, start: Mapping[str, Any], random: Random, moves: int) -> dict[str, Any] | None:
    """A point that can be judged, by a walk from another one; None where none is met."""
    here, (wrong, named) = dict(start), region.wrong(start)
    for _ in range(moves):
        if wrong == 0:
            return here
        there = dict(here)
        for axis in random.sample(region.axes, min(len(region.axes), random.choice((1, 1, 2, 3)))):
            there[axis.path] = axis.move(there[axis.path], random)
        if named:  # a field that is refused takes another value, or that of a case
            axis = random.choice(named)
            known = random.choice(region.cases)[axis.path]
            there = here | {axis.path: random.choice((known, axis.move(here[axis.path], random)))}
        found, names = region.wrong(there)
        if found <= wrong:
            here, wrong, named = there, found, names
    return here if wrong == 0 else None


def first(region: Region, seed: int, most: int, seconds: float) -> tuple[list[dict[str, Any]], int]:
    """Points to begin with, and how many configs were tried to find them, in so many seconds of computing.

    Where a hypothesis is dropped: the ledger's cases with one field changed, as many of each field as there are, then
    walks from the cases. Inside the hypotheses the cases are no start, since of a refuted statement they are the
    counterexample: walks begin at the smallest point, and at any.
    """
    random, end, tried = Random(seed), time.process_time() + seconds, 0
    found: dict[str, dict[str, Any]] = {}
    if region.dropped:
        for near in _changed(region):
            tried += 1
            if region.wrong(near)[0] == 0:
                found.setdefault(repr(near), near)
            if len(found) >= most // 2 or time.process_time() > end:
                break
    starts = [*(region.cases if region.dropped else ()), region.least]
    for number in range(WALKS):
        if len(found) >= most or time.process_time() > end:
            break
        start = starts[number] if number < len(starts) else region.draw(random)
        tried += MOVES
        if (near := reach(region, start, random, MOVES)) is not None:
            found.setdefault(repr(near), near)
    changed = list(found.values())
    return (changed if region.dropped else sorted(changed, key=region.extent)), tried


def _changed(region: Region) -> Iterator[dict[str, Any]]:
    """Cases with one field changed: the next value of every field first."""
    ladders = [(case, axis.path, axis.ladder(case[axis.path])) for case in region.cases for axis in region.axes]
    for rung in range(max((len(values) for *_, values in ladders), default=0)):
        for case, path, values in ladders:
            if rung < len(values):
                yield {**case, path: values[rung]}


class Mutations:
    """Proposes points around those with the smallest margins, and every third time any."""

    def __init__(self, region: Region, seed: int):
        self.region, self.random = region, Random(seed)
        self.told: list[tuple[float, dict[str, Any]]] = []

    def ask(self) -> tuple[Any, dict[str, Any]]:
        worst = sorted(self.told, key=lambda pair: pair[0])[:WORST]
        if not worst or self.random.random() < 1 / 3:
            return None, self.region.draw(self.random)
        sizes = dict(self.random.choice(worst)[1])
        for axis in self.random.sample(self.region.axes, min(len(self.region.axes), self.random.choice((1, 2)))):
            change = self.random.choice((axis.near, axis.near, axis.move))
            sizes[axis.path] = change(sizes[axis.path], self.random)
        return None, sizes

    def tell(self, token: Any, sizes: Mapping[str, Any], value: float) -> None:
        self.told.append((value, dict(sizes)))


class Tpe:
    """Optuna's tree-structured Parzen estimator."""

    def __init__(self, region: Region, seed: int):
        import optuna
        from optuna import distributions

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.ranges: dict[str, Any] = {}
        for axis in region.axes:
            log = axis.spacing == "log"
            if axis.choices:
                self.ranges[axis.path] = distributions.CategoricalDistribution(axis.choices)
            elif axis.whole:
                self.ranges[axis.path] = distributions.IntDistribution(int(axis.low), int(axis.high), log=log)
            else:
                self.ranges[axis.path] = distributions.FloatDistribution(axis.low, axis.high, log=log)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some arguments are new, and may change
            sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, n_startup_trials=20, constant_liar=True)
        self.study = optuna.create_study(sampler=sampler)

    def ask(self) -> tuple[Any, dict[str, Any]]:
        trial = self.study.ask(self.ranges)
        return trial, dict(trial.params)

    def tell(self, token: Any, sizes: Mapping[str, Any], value: float) -> None:
        """What was found at a point: one that was proposed here, or another."""
        import optuna

        if token is not None:
            self.study.tell(token, value)
        else:
            trial = optuna.trial.create_trial(value=value, params=dict(sizes), distributions=self.ranges)
            self.study.add_trial(trial)
