"""The planner: which trials are missing, and which of them run through the same compiled program."""

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from stairwise.lab.contract.experiment import Experiment, Trial
from stairwise.lab.run.grid import size

Width = Callable[[Trial], int]
MOST_KEPT = 256  # programs of which a trial is kept


@dataclass(frozen=True)
class Group:
    """Trials that one compiled program runs side by side (`width` of them at most; 1 on a CPU)."""

    trials: tuple[Trial, ...]
    width: int

    @property
    def experiment(self) -> Experiment:
        return self.trials[0].experiment

    def halves(self) -> list["Group"]:
        """The group as two, at the same width: each trial gives the same bits in either."""
        half = len(self.trials) // 2
        return [Group(self.trials[:half], self.width), Group(self.trials[half:], self.width)]

    @property
    def label(self) -> str:
        first = self.trials[0].label
        return first if len(self.trials) == 1 else f"{first} and {len(self.trials) - 1} more"


def with_upstream(trials: Sequence[Trial]) -> list[Trial]:
    """The trials and all that they start from, each before those that need it, none twice."""
    ordered: dict[str, Trial] = {}

    def visit(trial: Trial) -> None:
        if trial.digest in ordered:
            return
        for needed in trial.needs.values():
            visit(needed)
        ordered[trial.digest] = trial

    for trial in trials:
        visit(trial)
    return list(ordered.values())


def once(settled: Callable[[Trial], bool], known: Iterable[str] = ()) -> Callable[[Trial], bool]:
    """`settled`, asked of a trial until it says yes: what is stored stays. `known` are digests of which it has."""
    done = set(known)

    def asked(trial: Trial) -> bool:
        if trial.digest not in done and settled(trial):
            done.add(trial.digest)
        return trial.digest in done

    return asked


def outstanding(trials: Sequence[Trial], settled: Callable[[Trial], bool]) -> tuple[list[Trial], int]:
    """Those of the trials that are still to run, and how many that makes with what they start from."""
    missing = [trial for trial in trials if not settled(trial)]
    if not any(trial.needs for trial in missing):
        return missing, len(missing)
    return missing, sum(not settled(trial) for trial in with_upstream(missing))


def cut(trials: Sequence[Trial], width: int) -> list[Group]:
    """The trials of one program as groups of at most `width`."""
    return [Group(tuple(trials[i : i + width]), width) for i in range(0, len(trials), width)]


def plan(trials: Sequence[Trial], stored: Callable[[Trial], bool], width: int | Width) -> list[Group]:
    """Groups of the trials that are not stored yet, in an order that lets every group start when it is reached."""
    return [group for wave in waves(trials, stored, width) for group in wave]


def waves(trials: Sequence[Trial], stored: Callable[[Trial], bool], width: int | Width) -> list[list[Group]]:
    """As `plan`, in waves: the groups of one wave may run at the same time, once the waves before it are stored.

    Trials with the same static config share a program. The width is given, for all or by program, never derived from
    how many trials are left, since bits depend on it.
    """
    programs: dict[tuple[int, str], list[Trial]] = {}
    depth: dict[str, int] = {}
    for trial in with_upstream(trials):
        depth[trial.digest] = 1 + max((depth[needed.digest] for needed in trial.needs.values()), default=-1)
        if not stored(trial):
            programs.setdefault((depth[trial.digest], trial.program_key), []).append(trial)
    found: dict[int, list[Group]] = {}
    for (level, _), members in sorted(programs.items(), key=lambda item: item[0][0]):
        first = members[0]
        step = 1 if first.experiment.study else width(first) if callable(width) else width
        found.setdefault(level, []).extend(cut(members, step))
    return list(found.values())


@dataclass
class Tally:
    """How many trials share each program and run side by side: what is to be known of a plan that nobody runs yet.

    Trials are kept of the largest programs only, since a grid may have a program per trial.
    """

    width: Width
    count: dict[str, int] = field(default_factory=dict)
    side_by_side: dict[str, int] = field(default_factory=dict)
    kept: list[tuple[float, int, Trial]] = field(default_factory=list)  # a heap: size, number of the program, trial

    def add(self, trial: Trial) -> None:
        key = trial.program_key
        if key not in self.count:
            self.count[key], self.side_by_side[key] = 0, 1 if trial.experiment.study else self.width(trial)
            keep = heapq.heappush if len(self.kept) < MOST_KEPT else heapq.heappushpop
            keep(self.kept, (size(trial.config), -len(self.count), trial))
        self.count[key] += 1

    @property
    def trials(self) -> int:
        return sum(self.count.values())

    @property
    def groups(self) -> int:
        return sum(-(-count // self.side_by_side[key]) for key, count in self.count.items())

    @property
    def largest(self) -> list[tuple[Trial, int]]:
        """A trial of each of the largest programs, the largest first, and the width of its groups."""
        return [(trial, self.side_by_side[trial.program_key]) for _, _, trial in sorted(self.kept, reverse=True)]


def tally(trials: Iterable[Trial], stored: Callable[[Trial], bool], width: Width) -> tuple[Tally, Tally]:
    """The trials that are not stored, by program; and the same with what they start from and is not stored either."""
    own, everything, seen = Tally(width), Tally(width), set()
    for trial in trials:
        if stored(trial):
            continue
        own.add(trial)
        if trial.experiment.needs is None:
            continue
        for each in with_upstream([trial]):
            if each is trial or (each.digest not in seen and not stored(each)):
                everything.add(each)
            seen.add(each.digest)
    return own, everything if everything.count else own
