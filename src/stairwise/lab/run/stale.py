"""Trials that other code has made than there is now: counted, named in a line, run again with `--fresh`."""

import logging
from collections.abc import Callable, Iterable

from stairwise.lab.contract import manifest
from stairwise.lab.contract.experiment import Experiment, Trial
from stairwise.lab.run.execute import source_hash
from stairwise.lab.store import provenance
from stairwise.lab.store.shown import experiment_of
from stairwise.lab.store.store import Store
from stairwise.lab.store.trial import FAILED, StoredTrial


def present_hash(experiment: Experiment | str) -> str | None:
    """The hash of the code that would make the experiment's trials now; None where it cannot be found.

    For the name of one in this package its modules are known from the manifest, and none of them is imported.
    """
    try:
        if isinstance(experiment, str):
            owner, _, id = experiment.partition("/")
            if owner in manifest.built_in():
                known = {each["id"]: each["code"] for each in manifest.read(owner)["experiments"]}
                return provenance.source_hash(*known[id]) if id in known else None
        found = experiment_of(experiment) if isinstance(experiment, str) else experiment
        return None if found is None else source_hash(found)
    except (ValueError, OSError):
        return None


def is_stale(record: StoredTrial, experiment: Experiment | None = None) -> bool:
    """Whether a trial says that it was made by other code than its experiment has now."""
    return _differ(record.run.get("source_hash"), present_hash(experiment or record.experiment))


def _differ(made_by: object, now: str | None) -> bool:
    return now is not None and isinstance(made_by, str) and made_by != now


def count(records: Iterable[StoredTrial], experiment: Experiment | None = None) -> int:
    """How many of the trials are stale."""
    now: dict[str, str | None] = {}
    found = 0
    for record in records:
        if record.experiment not in now:
            now[record.experiment] = present_hash(experiment or record.experiment)
        found += _differ(record.run.get("source_hash"), now[record.experiment])
    return found


def of_counts(made: Iterable[tuple[str, str | None, int]]) -> tuple[int, int]:
    """How many trials are stale, and how many there are, from (experiment, hash of its code, trials)."""
    rows = list(made)
    return sum(n for name, code, n in rows if _differ(code, present_hash(name))), sum(n for _, _, n in rows)


def words(stale: int, trials: int, remedy: str = "--fresh runs them again") -> str:
    """The line that says so; empty where there is nothing to say.

    >>> words(9, 16)
    '9 of 16 trials were made by other code: --fresh runs them again'
    >>> words(1, 1)
    '1 of 1 trial was made by other code: --fresh runs it again'
    >>> words(0, 16)
    ''
    """
    if not stale:
        return ""
    if stale == 1:
        remedy = remedy.replace("them", "it")
    were = "were" if stale > 1 else "was"
    return f"{stale} of {trials} trial{'s' if trials > 1 else ''} {were} made by other code: {remedy}"


def warn(stale: int, trials: int, remedy: str) -> None:
    """Says it on standard error."""
    if stale:
        logging.getLogger("stairwise").warning("stairwise: %s", words(stale, trials, remedy))


def made_now(store: Store, *, keep_failures: bool = False) -> Callable[[Trial], bool]:
    """Whether a trial need not run: the store has it, made by the code that there is now."""

    def settled(trial: Trial) -> bool:
        found = store.peek(trial)
        if found is None or (found.status == FAILED and not keep_failures):
            return False
        return not is_stale(found, trial.experiment)

    return settled
