"""What is run: `Experiment`, its `Preset`s and `Figure`s, and a `Trial` of it, which the store knows as a `Record`.

Nothing here imports JAX.
"""

import bisect
import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from stairwise.config import (
    Config,
    ConfigError,
    as_dict,
    as_text,
    canonical,
    changed,
    leaves,
    named,
    static_fields,
    stored_dict,
    structure,
)
from stairwise.lab.contract.manifest import unknown

MOST_SHARED = 10_000  # cells whose common part is kept


# --- experiments ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Preset:
    """One way to run an experiment: a config, its arms (each a set of changed fields), how many seeds, on what.

    `group` is how many trials one compiled program trains side by side on a GPU; a CPU takes them one by one.
    `hours` is the predicted cost where nobody has run it.
    """

    config: Config
    arms: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {"": {}})
    seeds: int = 3
    group: int = 1
    hours: float | None = None
    note: str = ""

    @cached_property
    def axes(self) -> tuple[str, ...]:
        """The fields in which arms may differ: those that any of them sets."""
        return tuple(dict.fromkeys(path for fields in self.arms.values() for path in named(self.config, fields)))

    @cached_property
    def values(self) -> dict[str, tuple[Any, ...]]:
        """The values of each arm in these fields."""
        return {arm: self._of(changed(self.config, named(self.config, fields))) for arm, fields in self.arms.items()}

    def _of(self, config: Config) -> tuple[Any, ...]:
        found = {leaf.path: leaf.default for leaf in leaves(config)}
        return tuple(found[path] for path in self.axes)

    def has(self, arm: str, config: Config) -> bool:
        """Whether a config has the values of an arm of this name."""
        return self.values.get(arm) == self._of(config)

    def name(self, arm: str, config: Config) -> str:
        """What a trial is called: its arm, or the arm whose values it has, or (`task.action=D4`) its values."""
        for known in (arm, *self.arms):
            if self.has(known, config):
                return known
        return ", ".join(f"{path}={as_text(value)}" for path, value in zip(self.axes, self._of(config), strict=True))


@dataclass(frozen=True)
class Figure:
    """A picture drawn from stored records: `draw` takes them and gives a Matplotlib figure."""

    id: str
    caption: str
    draw: Callable[[list[Any]], Any]
    headline: bool = False
    paper: str = ""
    experiment: str = ""


@dataclass(frozen=True)
class Experiment:
    """Something to run: `program` makes the stages of a trial from the structure of its config.

    With `study=True` the function computes a record on the host instead: (config, seed) -> Outcome.
    `needs` maps a (config, seed) to the trials it starts from, by name; `model` rebuilds the
    trained model from a config and the stored arrays; `microscope` maps a record to what there is to see of it (see
    `lab.contract.microscope`).

    `own` makes the stages from a function that gives another model (see `train.own`) and the structure; `made_with`
    says which model that is, where there is one.

    Curves open with the metric `opens_with`; "exact *" is the last of those with that beginning, in the order of their
    numbers. They are drawn over what the stages count; over what a study's steps are, `counts` says.

    Trials carry a hash of the code that made them: the modules of `program` and `Config` with all that they import of
    papers and shared rooms, and those that `code` names where something is found in another way.
    """

    id: str
    says: str
    Config: type[Config]
    presets: Mapping[str, Preset]
    program: Callable[..., Any]
    figures: tuple[Figure, ...] = ()
    study: bool = False
    needs: Callable[[Any, int], dict[str, "Trial"]] | None = None
    model: Callable[[Any, dict[str, Any]], Any] | None = None
    microscope: Callable[[Any], Any] | None = None
    own: Callable[[Callable[..., Any], Any], Any] | None = None
    made_with: Mapping[str, str] | None = None
    code: tuple[Any, ...] = ()
    opens_with: str = ""
    counts: str = "steps"
    version: int = 1
    precision: int = 32
    paper: str = ""

    @property
    def name(self) -> str:
        return f"{self.paper}/{self.id}"

    def preset(self, name: str) -> Preset:
        if name not in self.presets:
            raise ConfigError(f"preset={name} must be one of {', '.join(self.presets)} ({self.name})")
        return self.presets[name]

    def trials(
        self, preset: str, seeds: Sequence[int] | None = None, changes: Mapping[str, Any] | None = None
    ) -> "Trials":
        """Every arm of a preset at every seed. A change overrides an arm's own value; equal trials merge."""
        return Trials(self, [[cell] for cell in self.cells(preset, [changes or {}])], self.seeds(preset, seeds))

    def seeds(self, preset: str, seeds: Sequence[int] | None) -> Sequence[int]:
        """The seeds asked for, else those of the preset, none twice."""
        chosen = self.preset(preset)
        if seeds is None or isinstance(seeds, range):
            return range(chosen.seeds) if seeds is None else seeds
        return list(dict.fromkeys(seeds))

    def cells(self, preset: str, changes: Iterable[Mapping[str, Any]]) -> Iterator["Cell"]:
        """Every arm of a preset under each set of changes; equal configs merge.

        An arm of which a change has overridden a value is called by the values that it has then, see `Preset.name`.
        """
        chosen = self.preset(preset)
        own = {arm: named(chosen.config, fields) for arm, fields in chosen.arms.items()}
        seen: set[bytes] = set()
        for change in changes:
            change = named(chosen.config, change)
            for arm, fields in own.items():
                config = changed(chosen.config, {**fields, **change})
                key = hashlib.sha256(canonical(as_dict(config)).encode()).digest()
                if key not in seen:
                    seen.add(key)
                    yield Cell(config, chosen.name(arm, config) if change else arm)

    def lacks_arms(self, arms: Iterable[str]) -> bool:
        """Whether these are not all the arms of any preset; what compares arms may then not find one."""
        there = set(arms)
        return not any(there.issuperset(preset.arms) for preset in self.presets.values())

    def arm_of(self, config: Any, arm: str) -> str:
        """The name of a stored trial: the one it was stored with, unless its values are not those of that arm."""
        known = [preset for preset in self.presets.values() if arm in preset.arms]
        if not known or any(preset.has(arm, config) for preset in known):
            return arm
        return known[0].name(arm, config)


class Cell(NamedTuple):
    """What trials that differ in their seeds share: a config, the name of the arm, the program where it is known."""

    config: Config
    arm: str
    program_key: str | None = None


class SharedParts:
    """What all trials of a config share, computed when it is asked for."""

    def __init__(self, experiment: Experiment, config: Config):
        self.experiment, self.config = experiment, config

    @cached_property
    def program_key(self) -> str:
        return digest_of([self.experiment.name, self.experiment.version, static_fields(self.config)])

    @cached_property
    def around_seed(self) -> tuple[str, str]:
        """The text of the identity of a trial that starts from no other, before and after its seed."""
        identity = Trial(self.experiment, self.config, 0).identity
        before, after = canonical({**identity, "seed": "@"}).rsplit('"@"', 1)
        return before, after


def digest_of(identity: Any) -> str:
    """A short name for a JSON value: the same for the same value, on every machine."""
    return _short(canonical(identity))


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def check_seed(seed: Any) -> None:
    if not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise ConfigError(f"seed={seed} must lie in 0..4294967295")


@dataclass(frozen=True)
class Trial:
    """One config at one seed; its digest (of these, of what it starts from and of the version) names it for ever."""

    experiment: Experiment
    config: Config
    seed: int
    arm: str = ""

    def __post_init__(self):
        check_seed(self.seed)

    @cached_property
    def needs(self) -> dict[str, "Trial"]:
        if self.experiment.needs is None:
            return {}
        return self.experiment.needs(self.config, self.seed)

    @property
    def identity(self) -> dict[str, Any]:
        """All that makes it this trial and no other; the arm is a label."""
        return {
            "experiment": self.experiment.name,
            "version": self.experiment.version,
            "config": stored_dict(self.config),
            "seed": self.seed,
            "needs": {name: trial.digest for name, trial in self.needs.items()},
            **({} if self.experiment.made_with is None else {"model": dict(self.experiment.made_with)}),
        }

    @cached_property
    def digest(self) -> str:
        if self.experiment.needs is not None:
            return digest_of(self.identity)
        before, after = self.parts.around_seed
        return _short(f"{before}{self.seed}{after}")

    @cached_property
    def parts(self) -> SharedParts:
        return SharedParts(self.experiment, self.config)

    @property
    def structure(self) -> Config:
        """The config as `program` gets it."""
        return structure(self.config)

    @property
    def program_key(self) -> str:
        """Trials with equal keys run through the same compiled program."""
        return self.parts.program_key

    @property
    def label(self) -> str:
        arm = f" {self.arm}" if self.arm else ""
        return f"{self.experiment.name}{arm} seed {self.seed}"


class Trials(Sequence[Trial]):
    """The trials of some blocks of cells at some seeds, each made when it is asked for.

    Block by block; of a block the first seed of every cell comes before the second of any.
    """

    def __init__(self, experiment: Experiment, blocks: Iterable[Sequence[Cell]], seeds: Sequence[int]):
        self.experiment, self.blocks, self.seeds = experiment, list(blocks), seeds
        self.ends = list(itertools.accumulate(len(block) * len(seeds) for block in self.blocks))
        for seed in seeds[:: max(1, len(seeds) - 1)] if isinstance(seeds, range) else seeds:
            check_seed(seed)
        self.parts: dict[tuple[int, int], SharedParts] = {}

    def __len__(self) -> int:
        return self.ends[-1] if self.ends else 0

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[k] for k in range(*index.indices(len(self)))]
        position = range(len(self))[index]
        number = bisect.bisect_right(self.ends, position)
        block = self.blocks[number]
        which, place = divmod(position - (self.ends[number] - len(block) * len(self.seeds)), len(block))
        return self._trial((number, place), block[place], self.seeds[which])

    def _trial(self, where: tuple[int, int], cell: Cell, seed: int) -> Trial:
        trial = Trial(self.experiment, cell.config, seed, cell.arm)
        if where not in self.parts:
            if len(self.parts) >= MOST_SHARED:
                self.parts.clear()
            self.parts[where] = trial.parts
            if cell.program_key is not None:
                trial.parts.__dict__["program_key"] = cell.program_key
        trial.__dict__["parts"] = self.parts[where]
        return trial


class Record(Protocol):
    """A stored trial as figures and judges see it."""

    config: Any
    seed: int
    digest: str
    status: str

    def series(self, name: str, stage: str | None = None) -> tuple[Any, Any]: ...
    def final(self, name: str, stage: str | None = None) -> float: ...
    def names(self) -> list[str]: ...
    def array(self, name: str) -> Any: ...
    def arrays(self) -> list[str]: ...


def find(items: Sequence[Any], id: str, what: str) -> Any:
    """The one with that id."""
    for item in items:
        if item.id == id:
            return item
    raise ConfigError(unknown(what, id, [item.id for item in items]))
