"""Falsify: search the space of a claim for a counterexample, inside its hypotheses and with each of them dropped.

Every point is looked at in a forked process with a time limit. Optuna proposes points where the signed log-margin is
small: log(margin) where the conclusion is true, at most 0 where it is false. A counterexample is made as small as
bisection makes it, field by field, and comes with the command that reproduces it. With a hypothesis dropped, only
points that break this hypothesis and no other are looked at.
"""

import json
import math
import random
import re
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from stairwise.config import ConfigError, Field, as_flags, as_text, leaves, stored_dict, update
from stairwise.extras import installed, missing
from stairwise.lab import registry
from stairwise.lab.contract import manifest
from stairwise.lab.contract.checks import Hypothesis
from stairwise.lab.contract.claims import ABOUT_PRINT, Claim
from stairwise.lab.contract.experiment import digest_of
from stairwise.lab.contract.verdict import Verdict
from stairwise.lab.ledger.verify import MOST_JOBS
from stairwise.lab.progress import Silent
from stairwise.lab.run.execute import prepare_jax
from stairwise.lab.run.forks import Forks
from stairwise.lab.store import provenance
from stairwise.lab.store.files import Damaged, explained, read_sealed, replace_file, seal
from stairwise.lab.store.store import Store

LIMIT = 20.0  # seconds for one point
MEMORY = 4 << 30  # bytes that one point may take
FEW = 256  # a space with at most so many points is looked at as a whole
FLAT = 700.0  # the log-margin where there is no margin, as of an error that is exactly zero
SILENT, STOPPED = 1000.0, 2000.0  # beyond every log-margin: points that say nothing, and those that took too long
REPEATS = 200  # so many proposals in a row that are known already: nothing is left to look at
ROUNDS = 4  # of making every field small
SHRINKING = 20.0  # seconds at most for making a counterexample small
FORMS = ("exact", "bound", "rate", *ABOUT_PRINT)
OUTCOMES = ("counterexample", "none found", "none in the whole space", "nothing to look at")


@dataclass(frozen=True)
class SearchAxis:
    """A field that varies: between two numbers, or over some values."""

    path: str
    low: float = 0.0
    high: float = 0.0
    spacing: str = "linear"
    whole: bool = False
    choices: tuple[Any, ...] = ()

    @property
    def count(self) -> float:
        """How many values it takes."""
        return len(self.choices) if self.choices else self.high - self.low + 1 if self.whole else math.inf

    @property
    def values(self) -> Sequence[Any]:
        return self.choices or range(int(self.low), int(self.high) + 1)

    @property
    def least(self) -> Any:
        """The first choice, or the number nearest to zero."""
        return self.choices[0] if self.choices else min(max(self.low, type(self.low)(0)), self.high)

    def holds(self, value: Any) -> bool:
        return value in self.choices if self.choices else self.low <= value <= self.high

    def between(self, a: float, b: float) -> float:
        """The middle, in the spacing of the axis."""
        if self.whole:
            return (int(a) + int(b)) // 2
        return math.sqrt(a * b) if self.spacing == "log" and a > 0 else (a + b) / 2

    def __str__(self) -> str:
        if self.choices:
            return f"{self.path} in {', '.join(map(as_text, self.choices))}"
        return f"{self.path} from {self.low:.6g} to {self.high:.6g}{' (log)' if self.spacing == 'log' else ''}"


@dataclass(frozen=True)
class Finding:
    """What one search has found: the counterexample, made small, or the point with the smallest margin.

    `dropped` is the hypothesis that the points break, empty inside the hypotheses. `log_margin` is at most 0 where the
    conclusion is false. `judged` counts the points that said something, `looked_at` all of them. A counterexample was
    `found_after` so many seconds, and the rest of `seconds` made it small.
    """

    dropped: str
    outcome: str
    sizes: Mapping[str, Any]
    seed: int
    log_margin: float | None
    quantity: str
    measured: float | None
    required: float | None
    command: str
    judged: int
    looked_at: int
    stopped: int
    raised: str
    found_after: float | None  # seconds
    seconds: float


@dataclass(frozen=True)
class Falsification:
    """What `falsify` found about a claim, one finding for each search."""

    claim: str
    kind: str
    space: tuple[str, ...]
    expected: bool  # that the statement is false inside its hypotheses
    findings: tuple[Finding, ...]

    @property
    def counterexample(self) -> Finding | None:
        """The one inside the hypotheses, if any."""
        inside = [each for each in self.findings if not each.dropped and each.outcome == "counterexample"]
        return inside[0] if inside else None

    @property
    def exit_status(self) -> int:
        """1 where a statement that should hold is false inside its hypotheses."""
        return 1 if self.counterexample is not None and not self.expected else 0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> "Falsification":
        findings = tuple(Finding(**each) for each in data["findings"])
        return Falsification(**{**data, "space": tuple(data["space"]), "findings": findings})


def falsify(
    claim: Claim,
    *,
    minutes: float = 5.0,
    drop: str | None = None,
    jobs: int = 1,
    limit: float = LIMIT,
    points: int | None = None,
    seed: int = 0,
    store: Store | None = None,
    fresh: bool = False,
    progress: Silent | None = None,
) -> Falsification:
    """Search inside the hypotheses for half of the time, then with each of them dropped.

    `drop` searches only where this hypothesis is broken; an empty one only inside the hypotheses.
    `limit` is how many seconds a point may take, `points` after how many of them a search ends at the latest. What
    `store` has of the same search is taken up again, unless `fresh`. To be called only in a process that has started no
    device: it is forked.
    """
    import jax  # noqa: F401  once, and not in every process that is forked

    check(minutes, jobs, limit, points)
    axes, names = space(claim), assumptions(claim, limit)
    if drop and drop not in names:
        raise ConfigError(f"drop={drop} must be a hypothesis of {claim.name}: {'; '.join(names) or 'it has none'}")
    progress = progress or Silent()
    searches = [
        _Search(claim, dropped, space(claim, dropped), seed, limit, None if store is None else store.root, fresh)
        for dropped in ([drop] if drop is not None else ["", *names])
    ]
    forks = Forks(jobs, lambda question: look(claim, *question))
    left = 60 * minutes
    progress.begin(f"searches of {claim.name}", len(searches), 0)
    try:
        for number, search in enumerate(searches):
            began, waiting = time.monotonic(), len(searches) - number
            share = left / 2 if number == 0 and waiting > 1 else left / waiting
            search.run(forks, share, math.inf if points is None else points, progress)
            left -= time.monotonic() - began
            progress.finished(search.label, search.finding.outcome)
    finally:
        forks.end()
        progress.end()
    findings = tuple(search.finding for search in searches)
    return Falsification(claim.name, claim.kind, tuple(map(str, axes)), expected(claim), findings)


def check(minutes: float, jobs: int, limit: float, points: int | None) -> None:
    """ConfigError for what cannot be asked of any claim."""
    if not installed("falsify"):
        raise ConfigError(missing("stairwise falsify", "falsify"))
    for name, value in {"minutes": minutes, "limit": limit}.items():
        if not 0 < value < math.inf:
            raise ConfigError(f"{name}={value} must be above 0 and finite")
    if points is not None and points < 1:
        raise ConfigError(f"points={points} must be at least 1")
    if not 1 <= jobs <= MOST_JOBS:
        raise ConfigError(f"jobs={jobs} must lie in 1..{MOST_JOBS}")


def claim_of(target: str) -> Claim:
    """The claim that a name means, if it can be searched."""
    if "/" not in target or manifest.is_pattern(target):
        raise ConfigError(f"claim={target} must name one claim, as PAPER/CLAIM")
    ((claim, _),) = registry.claims([target])
    return claim


def expected(claim: Claim) -> bool:
    """Whether the statement is known to be false: it is about print, or the manifest says so."""
    return claim.kind in ABOUT_PRINT or "fails" in manifest.expected(claim.name).values()


# --- the space --------------------------------------------------------------------------------------------------------


def space(claim: Claim, dropped: str = "") -> list[SearchAxis]:
    """Where to look. Inside the hypotheses: the space that a claim declares, else one by rule.

    By rule, a field with choices takes all of them. A whole number goes from its lower limit, or 1, to the power of ten
    at or above its largest value in the ledger. Another number goes one power of ten beyond those around its values,
    within its limits. Lists and free text stay as they are. What is declared lies mostly inside the hypotheses, so
    where one is dropped, all fields vary by rule, and as far as what is declared.
    """
    if claim.check is None or claim.kind not in FORMS:
        raise ConfigError(f"{claim.name} is {claim.kind}: only theory with a pass line can be false")
    fields = {leaf.path: leaf for leaf in leaves(claim.cases[0])}
    declared = {path: _axis(fields[path], *range_) for path, range_ in claim.search.items()}
    if declared and not dropped:
        return list(declared.values())
    values = {path: [dict(_values(case))[path] for case in claim.cases] for path in fields}
    ruled = {path: _by_rule(field, values[path]) for path, field in fields.items()}
    axes = [axis for path in fields if (axis := _hull(declared.get(path), ruled[path])) is not None]
    if not axes:
        raise ConfigError(f"{claim.name} has no field to search over")
    return axes


def _hull(a: SearchAxis | None, b: SearchAxis | None) -> SearchAxis | None:
    if a is None or b is None:
        return a or b
    low, high = min(a.low, b.low), max(a.high, b.high)
    return replace(a, low=low, high=high, spacing="log" if low > 0 and a.spacing == "log" else "linear")


def _values(case: Any) -> Iterator[tuple[str, Any]]:
    return ((leaf.path, leaf.default) for leaf in leaves(case))


def _axis(field: Field, low: float, high: float, spacing: str) -> SearchAxis:
    whole = field.kind is int
    return SearchAxis(field.path, round(low) if whole else low, round(high) if whole else high, spacing, whole)


def _by_rule(field: Field, values: Sequence[Any]) -> SearchAxis | None:
    if field.kind is bool:
        return SearchAxis(field.path, choices=(False, True))
    if field.metadata.get("choices"):
        return SearchAxis(field.path, choices=tuple(field.metadata["choices"]))
    if field.kind not in (int, float):
        return None
    lowest, highest = _limits(field)
    smallest, largest = min(map(abs, values)), max(map(abs, values))
    if field.kind is int:
        low, high = (1 if lowest is None else lowest), max(10.0, 10.0 ** math.ceil(math.log10(largest or 1)))
    elif (lowest is not None and lowest < 0) or min(values) <= 0:
        high = 10.0 ** (math.ceil(math.log10(largest or 1)) + 1)
        low = -high if lowest is None or lowest < 0 else 0.0
    else:
        low, high = 10.0 ** (math.floor(math.log10(smallest)) - 1), 10.0 ** (math.ceil(math.log10(largest)) + 1)
    low = low if lowest is None else max(low, lowest)
    high = high if highest is None else min(high, highest)
    if not low < high:
        return None
    return _axis(field, low, high, "log" if low > 0 and high >= 10 * low else "linear")


def _limits(field: Field) -> tuple[float | None, float | None]:
    """The least and the largest value that a field takes."""
    low, high, above, below = (field.metadata.get(name) for name in ("low", "high", "above", "below"))
    if field.kind is int:
        return (low if above is None else above + 1), (high if below is None else below - 1)
    low = low if above is None else math.nextafter(above, math.inf)
    return low, (high if below is None else math.nextafter(below, -math.inf))


# --- one point --------------------------------------------------------------------------------------------------------


def assumptions(claim: Claim, limit: float = LIMIT) -> list[str]:
    """The names of the hypotheses: those of the config, and those that the check yields at its first case."""

    def names() -> list[str]:
        found = _declared(claim, claim.cases[0])
        drawn: list[Hypothesis] = []
        _at(_relaxed(claim, "", drawn), claim.cases[0], 0)
        return [*found, *dict.fromkeys(each.name for each in drawn)]

    found = Forks(1).alone(names, limit)
    if found is None:  # the first case takes too long
        found = Forks(1).alone(lambda: _declared(claim, claim.cases[0]))
    return found or []


def _declared(claim: Claim, config: Any) -> list[str]:
    """The names of the hypotheses of the config."""
    given = claim.hypotheses or {}
    return list(given(config) if callable(given) else given)


def look(
    claim: Claim, dropped: str, sizes: Mapping[str, Any], seed: int, mend: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The claim at one point, in a process of its own: whether the conclusion is true there, and by how much.

    `said` is true, false, raised, or why the point says nothing. `mend` has the ledger's values of fields, which take
    the place of values that the config refuses.
    """
    _limit_memory()
    sizes, mend = dict(sizes), dict(mend or {})
    while True:
        try:
            config = update(claim.cases[0], sizes)
            unmet = set(claim.unmet(config))
            break
        except (ConfigError, ArithmeticError, ValueError) as error:
            named = re.findall(r"([\w.]+)=", str(error)) if isinstance(error, ConfigError) else []
            field = next((path for name in named for path in mend if f".{path}".endswith(f".{name}")), None)
            if field is None:
                return {"said": "refused", "value": SILENT, "note": str(error)[:200]}
            sizes[field] = mend.pop(field)
    return {"sizes": sizes, **_judged(claim, dropped, config, unmet, seed)}


def _judged(claim: Claim, dropped: str, config: Any, unmet: set[str], seed: int) -> dict[str, Any]:
    wrong = len(unmet - {dropped})
    if wrong:
        return {"said": "outside", "value": SILENT + wrong}
    if dropped and dropped not in unmet and dropped in _declared(claim, config):
        return {"said": "inside", "value": SILENT + 1}
    drawn: list[Hypothesis] = []
    try:
        verdict = _at(_relaxed(claim, dropped, drawn), config, seed)
    except ConfigError as error:
        return {"said": "refused", "value": SILENT, "note": str(error)[:200]}
    unmet |= {each.name for each in drawn if not each.met}
    if dropped and dropped not in unmet:
        return {"said": "inside", "value": SILENT + 1}
    if verdict.status not in ("holds", "fails", *ABOUT_PRINT):
        return {"said": verdict.status, "value": SILENT}
    if verdict.measured is None or "not a number" in verdict.note:
        return {"said": "raised", "value": SILENT, "note": verdict.note[:200]}
    holds = verdict.status == "holds"
    size = FLAT if verdict.margin is None or not verdict.margin > 0 else min(abs(math.log(verdict.margin)), FLAT)
    found = {"quantity": verdict.quantity, "measured": verdict.measured, "required": verdict.required}
    return {"said": "true" if holds else "false", "value": size if holds else -size, **found}


def _relaxed(claim: Claim, dropped: str, drawn: list[Hypothesis]) -> Claim:
    """The claim without one of its hypotheses; what its check draws of them is gathered."""
    check = claim.check
    assert check is not None

    def without(config: Any, seed: int) -> Iterator[Any]:
        for each in check(config, seed):
            if isinstance(each, Hypothesis):
                drawn.append(each)
                if each.name == dropped:
                    continue
            yield each

    return replace(claim, check=without, hypotheses=None)


def _at(claim: Claim, config: Any, seed: int) -> Verdict:
    import jax

    prepare_jax()
    with jax.enable_x64(claim.precision == 64):
        return claim.at(config, seed)


def _limit_memory() -> None:
    """A point that asks for too much ends its own process, not the machine."""
    with suppress(ImportError, OSError, ValueError):  # some systems have no such limit
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, resource.getrlimit(resource.RLIMIT_DATA)[1]))


# --- a search ---------------------------------------------------------------------------------------------------------


class _Search:
    """The search inside the hypotheses, or outside one of them."""

    def __init__(
        self,
        claim: Claim,
        dropped: str,
        axes: list[SearchAxis],
        seed: int,
        limit: float,
        root: Path | None,
        fresh: bool,
    ):
        self.claim, self.dropped, self.axes, self.seed, self.limit = claim, dropped, axes, seed, limit
        base = dict(_values(claim.cases[0]))
        self.mend = {axis.path: base[axis.path] for axis in axes if axis.holds(base[axis.path])}
        self.label = f"without {dropped}" if dropped else "inside the hypotheses"
        code = provenance.source_hash(claim.source.partition(":")[0])
        asked = [claim.name, dropped, [asdict(axis) for axis in axes], stored_dict(claim.cases[0]), seed, code]
        self.file = None if root is None else root / "searches" / claim.name / f"{digest_of(asked)}.json"
        kept: dict[str, Any] = {}
        if self.file is not None and not fresh:
            with suppress(Damaged):
                kept = read_sealed(self.file)
        self.points: list[dict[str, Any]] = kept.get("points", [])
        self.smallest: dict[str, Any] | None = kept.get("smallest")
        self.found_after: float | None = kept.get("found_after")
        self.seconds: float = kept.get("seconds", 0.0)
        self.known = {_name(point): point for point in self.points}

    # what is left to look at

    @property
    def few(self) -> float:
        return math.prod(axis.count for axis in self.axes)

    @property
    def over(self) -> bool:
        """Whether all points of a small space have been looked at."""
        return self.claim.seeds == 1 and len(self.known) >= self.few

    def run(self, forks: Forks, seconds: float, most: float, progress: Silent) -> None:
        if self.smallest is not None or self.over:
            return
        began, before = time.monotonic(), self.seconds
        try:
            found = self._false() or self._search(forks, began + seconds, most, progress)
            if found is not None:
                if self.found_after is None:
                    self.found_after = before + time.monotonic() - began
                end = time.monotonic() + SHRINKING
                self.smallest = self._shrunk(found, lambda sizes, seed: self._ask(forks, sizes, seed, end))
        finally:
            self.seconds = before + time.monotonic() - began
            self._write()

    def _false(self) -> dict[str, Any] | None:
        return next((point for point in self.points if point["said"] == "false"), None)

    def _search(self, forks: Forks, end: float, most: float, progress: Silent) -> dict[str, Any] | None:
        """The first counterexample, or None when the time, the points or the space are over."""
        study, distributions = self._study()
        began, written, repeats = time.monotonic(), time.monotonic(), 0
        while time.monotonic() < end and repeats < REPEATS and len(self.points) < most and not self.over:
            while len(forks.running) < forks.jobs and repeats < REPEATS:
                trial = study.ask(distributions)
                point = {"sizes": dict(trial.params), "seed": 0}
                while self.claim.seeds > 1 and _name(point) in self.known:
                    point["seed"] += 1
                if (known := self.known.get(_name(point))) is not None:
                    study.tell(trial, known["value"])
                    repeats += 1
                    continue
                repeats = 0
                asked = (self.dropped, point["sizes"], point["seed"], self.mend)
                forks.ask((trial, point), asked, self._patience(end))
            for (trial, point), found in forks.ready() if forks.running else ():
                if found is None and time.monotonic() >= end:
                    continue  # the search has stopped it, not its own limit
                self._add(point, found)
                study.tell(trial, point["value"])
            if (first := self._false()) is not None:
                forks.stop()
                return first
            worst = min((point["value"] for point in self.points), default=SILENT)
            told = {} if worst >= SILENT else {"log-margin": worst}
            progress.ticks(self.label, round(time.monotonic() - began), max(1, round(end - began)), told)
            if time.monotonic() - written > 10:
                written = time.monotonic()
                self._write()
        forks.stop()
        return None

    def _patience(self, end: float) -> float:
        return max(0.1, min(self.limit, end - time.monotonic()))

    def _study(self) -> tuple[Any, dict[str, Any]]:
        """A study that knows the points so far. It begins with the smallest sizes, or with all where they are few."""
        import optuna
        from optuna import distributions

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        ranges: dict[str, Any] = {}
        for axis in self.axes:
            if axis.choices:
                ranges[axis.path] = distributions.CategoricalDistribution(axis.choices)
            elif axis.whole:
                ranges[axis.path] = distributions.IntDistribution(
                    int(axis.low), int(axis.high), log=axis.spacing == "log"
                )
            else:
                ranges[axis.path] = distributions.FloatDistribution(axis.low, axis.high, log=axis.spacing == "log")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some arguments are new, and may change
            draw = self.seed + len(self.points)
            sampler = optuna.samplers.TPESampler(seed=draw, multivariate=True, n_startup_trials=20, constant_liar=True)
        study = optuna.create_study(sampler=sampler)
        for point in self.points:
            common = {"params": point["sizes"], "distributions": ranges}
            study.add_trial(optuna.trial.create_trial(value=point["value"], **common))
        first = [{axis.path: axis.least for axis in self.axes}]
        if self.few <= FEW:
            first = [dict(zip(ranges, values, strict=True)) for values in product(*(axis.values for axis in self.axes))]
            random.Random(self.seed).shuffle(first)
        for sizes in first:
            if _name({"sizes": sizes, "seed": 0}) not in self.known:
                study.enqueue_trial(sizes)
        return study, ranges

    def _add(self, point: dict[str, Any], found: Mapping[str, Any] | None) -> None:
        self.known[_name(point)] = point
        point.update(found or {"said": "stopped", "value": STOPPED})
        self.points.append(point)
        self.known[_name(point)] = point  # its sizes may have been mended

    # making it small

    def _ask(self, forks: Forks, sizes: Mapping[str, Any], seed: int, end: float) -> dict[str, Any]:
        """One point, now."""
        point = {"sizes": dict(sizes), "seed": seed}
        if (known := self.known.get(_name(point))) is None:
            if time.monotonic() >= end:
                return {"said": "not looked at"}
            forks.ask(None, (self.dropped, point["sizes"], seed), self._patience(end))
            ((_, found),) = forks.ready()
            self._add(point, found)
            known = point
        return known

    def _shrunk(self, point: dict[str, Any], ask: Callable[[Mapping[str, Any], int], dict[str, Any]]) -> dict[str, Any]:
        """A counterexample that is as small as bisection makes it in each field, whole numbers first."""
        best = point

        def false_at(path: str, value: Any) -> bool:
            nonlocal best
            found = ask({**best["sizes"], path: value}, point["seed"])
            if found["said"] == "false":
                best = found
            return found["said"] == "false"

        axes = sorted(self.axes, key=lambda axis: not (axis.whole or axis.choices))
        for _ in range(ROUNDS):  # one field may give way once another has
            before = best
            for axis in axes:
                now = best["sizes"][axis.path]
                if axis.choices:
                    any(false_at(axis.path, value) for value in axis.choices[: axis.choices.index(now)])
                elif now != axis.least and not false_at(axis.path, axis.least):
                    _bisect(axis, now, lambda value, path=axis.path: false_at(path, value))
            if best is before:
                break
        return best

    # what was found

    @property
    def finding(self) -> Finding:
        judged = [point for point in self.points if point["said"] in ("true", "false")]
        chosen = self.smallest or min(judged, key=lambda point: point["value"], default=None)
        outcome = "none in the whole space" if self.over else "none found"
        if self.smallest is not None:
            outcome = "counterexample"
        elif chosen is None:
            outcome = "nothing to look at"
        raised = next((f"{point['note']} at{as_flags(point['sizes'])}" for point in self.points if _raised(point)), "")
        sizes = dict(chosen["sizes"]) if chosen else {}
        draws = f" --seed {chosen['seed']} --seeds 1" if chosen and self.claim.seeds > 1 else ""
        return Finding(
            dropped=self.dropped,
            outcome=outcome,
            sizes=sizes,
            seed=chosen["seed"] if chosen else 0,
            log_margin=chosen["value"] if chosen else None,
            quantity=chosen["quantity"] if chosen else "",
            measured=chosen["measured"] if chosen else None,
            required=chosen["required"] if chosen else None,
            command=f"stairwise verify {self.claim.name}{as_flags(sizes)}{draws}" if chosen else "",
            judged=len(judged),
            looked_at=len(self.points),
            stopped=sum(point["said"] == "stopped" for point in self.points),
            raised=raised,
            found_after=self.found_after,
            seconds=self.seconds,
        )

    def _write(self) -> None:
        if self.file is not None:
            kept = {"points": self.points, "smallest": self.smallest}
            kept |= {"seconds": self.seconds, "found_after": self.found_after}
            with explained(f"store the search of {self.claim.name} in {self.file.parent}"):
                replace_file(self.file, seal({"claim": self.claim.name, "dropped": self.dropped, **kept}))


def _bisect(axis: SearchAxis, false: float, is_false: Callable[[float], bool]) -> None:
    """From a value at which the statement is false towards the least one, at which it is not."""
    true, given = axis.least, false
    for _ in range(64 if axis.whole else 12):
        if axis.whole and false - true <= 1:
            while false - 2 > axis.least and is_false(false - 2):  # it may be false at odd sizes only
                false -= 2
            return
        middle = axis.between(true, false)
        if is_false(middle):
            false = middle
        else:
            true = middle
    for digits in (2, 3, 4):  # the roundest number of those that are left
        unit = 10.0 ** (math.floor(math.log10(abs(false) or 1)) - digits + 1)
        value = float(f"{math.ceil(false / unit) * unit:.{digits}g}")
        if false <= value <= max(given, true) and (value == false or is_false(value)):
            return


def _name(point: Mapping[str, Any]) -> str:
    return json.dumps([point["sizes"], point["seed"]], sort_keys=True)


def _raised(point: Mapping[str, Any]) -> bool:
    return point["said"] == "raised"
