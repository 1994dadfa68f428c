"""The planner: which trials are missing, and which of them run through the same compiled program."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stairwise.lab.contract import Experiment, Trial


@dataclass(frozen=True)
class Group:
    """Trials that one compiled program runs side by side (`width` of them at most; 1 on a CPU)."""

    trials: tuple[Trial, ...]
    width: int

    @property
    def experiment(self) -> Experiment:
        return self.trials[0].experiment

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


def plan(trials: Sequence[Trial], stored: Callable[[Trial], bool], width: int) -> list[Group]:
    """Groups of the trials that are not stored yet, in an order that lets every group start when it is reached.

    Trials with the same static config share a program. The width is given, never derived from how many trials are
    left, since bits depend on it.
    """
    programs: dict[tuple[int, str], list[Trial]] = {}
    depth: dict[str, int] = {}
    for trial in with_upstream(trials):
        depth[trial.digest] = 1 + max((depth[needed.digest] for needed in trial.needs.values()), default=-1)
        if not stored(trial):
            programs.setdefault((depth[trial.digest], trial.program_key), []).append(trial)
    groups = []
    for (_, _), members in sorted(programs.items(), key=lambda item: item[0][0]):
        step = 1 if members[0].experiment.study else width
        groups += [Group(tuple(members[i : i + step]), step) for i in range(0, len(members), step)]
    return groups
