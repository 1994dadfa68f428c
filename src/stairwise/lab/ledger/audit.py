"""Audit: break the formulas that a claim is `of`, one thing at a time, and see whether the claim notices.

Each mutant is tried in a process of its own, forked from one that has imported everything and has started no device:
patching in one process would leave survivors in the caches of compiled functions.

killed      a compared value has changed the status of a case: the first such case is enough
survived    no status has changed, though the function gives other values
masked      a status has changed to one that nobody looks at (outside, vacuous, skipped)
invalid     it raised, took too long, or gave something that is not a number: says nothing
equivalent  the function gives the same values to 1e-12, at the sizes of the ledger and at five others
"""

import json
import math
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from stairwise.compiler import children_compile_sooner
from stairwise.config import Config, ConfigError, leaves, update
from stairwise.lab import registry
from stairwise.lab.contract.claims import STRENGTHS, Claim
from stairwise.lab.ledger.asked import MOST_JOBS, seeds_of
from stairwise.lab.ledger.checking import compile_as_asked
from stairwise.lab.ledger.mutants import SIDES, Mutant, directions, functions_of, mutants, put_in_place
from stairwise.lab.ledger.reach import code_hash
from stairwise.lab.progress import Silent
from stairwise.lab.run.execute import prepare_jax
from stairwise.lab.run.forks import Forks
from stairwise.lab.store.files import StoreError, read_file, replace_file, seal, unseal

Outcome = tuple[str, str]  # how it ended, and a note
OUTCOMES = ("killed", "survived", "masked", "invalid", "equivalent")
MISSED = ("survived", "masked")
UNSEEN = ("outside", "vacuous", "skipped")
SAME = 1e-12
UNMOVED, TOGETHER = "no compared value changes", "both sides of every comparison change together"
TOO_LONG = "took too long, or ended its process"
BEYOND = "changes by more than the margin"
NOT_TAKEN = "the comparison lies in a branch that this claim does not take"
SEALED = b'"seal": "'
OTHER_CASES = 5  # at which a survivor that changes nothing is looked at again
LONGEST, PATIENCE = 120.0, 20.0  # seconds for one mutant, beyond ten times what the claim takes
KEY = 12  # hexadecimal digits
SAVED_EVERY = 30.0  # seconds: an audit that is killed loses no more
# which mutants a claim of each strength has to kill, and what share of them; see `counts_against`
BARS: Mapping[str, tuple[float, tuple[str, ...]]] = {
    "exact": (0.95, ("sign", "factor", "exponent", "term", "index", "inequality", "step")),
    "rate": (0.90, ("exponent", "sign", "term")),
    "inequality": (1.0, ("direction",)),
}


@dataclass(frozen=True)
class MutantResult:
    """What one mutant did to one claim."""

    paper: str
    claim: str
    strength: str
    operator: str
    place: str
    line: int
    before: str
    after: str
    outcome: str
    note: str = ""
    key: str = ""  # by which it is found again

    def __str__(self) -> str:
        return f"{self.paper}/{self.claim}: {self.place} line {self.line}: {self.before}  ->  {self.after}"


class Said(NamedTuple):
    """A claim at one case and seed: its status, every compared value and how it is compared, how long it took, and the
    margin that it prints."""

    status: str
    values: tuple[float, ...]
    seconds: float
    sides: tuple[str, ...] = ()
    margin: float | None = None


@dataclass(frozen=True)
class Found:
    """What a claim says at each case and seed, and why it says nothing if it does not."""

    said: tuple[Said, ...]
    broken: str

    @property
    def seconds(self) -> float:
        return sum(each.seconds for each in self.said)

    @property
    def margin(self) -> float:
        """The least one that is printed: a factor. Infinite where none is."""
        return min((each.margin for each in self.said if each.margin is not None), default=math.inf)


def audit(
    claims: Sequence[Claim],
    *,
    minutes: float = 10.0,
    jobs: int = 1,
    sample: int | None = None,
    seed: int = 0,
    cache: Path | None = None,
    kept: Mapping[str, Outcome] | None = None,
    progress: Silent | None = None,
) -> Iterator[MutantResult]:
    """Try the mutants of claims in an order drawn from `seed`, until the time is over.

    `sample` is how many mutants at most. What `kept` or `cache` (a JSON file) knows, by the text of the mutant and the
    code of the claim, is not tried again.
    """
    import jax  # noqa: F401  once, and not in every process that is forked

    if not 0 < minutes < math.inf:
        raise ConfigError(f"minutes={minutes} must be above 0 and finite")
    if not 1 <= jobs <= MOST_JOBS:
        raise ConfigError(f"jobs={jobs} must lie in 1..{MOST_JOBS}")
    if sample is not None and sample < 1:
        raise ConfigError(f"sample={sample} must be at least 1")
    pairs = [(claim, mutant) for claim in claims for mutant in of_claim(claim)]
    random.Random(seed).shuffle(pairs)
    pairs = pairs[:sample]
    known = {**(kept or {}), **read_cache(cache)}
    found: dict[str, Outcome] = {}
    progress = progress or Silent()
    end = time.monotonic() + 60 * minutes
    started: dict[str, Found] = {}
    untried = [pair for pair in pairs if key_of(*pair) not in known]

    def one_by_one(work: Forks) -> Iterator[tuple[Any, Callable[[], Any], float]]:
        for pair in untried:
            claim, _ = pair
            if time.monotonic() > end:
                return
            if claim.name not in started:
                started[claim.name] = work.alone(lambda claim=claim: look(claim, points(claim)))
            before = started[claim.name]
            if before is None or before.broken:
                continue
            yield (
                pair,
                (lambda pair=pair, before=before: _judge(*pair, before)),
                min(LONGEST, PATIENCE + 10 * before.seconds),
            )

    for pair in pairs:
        if (outcome := known.get(key_of(*pair))) is not None:
            yield _trial(*pair, *outcome)
    if not untried:
        return
    work = Forks(jobs)
    progress.begin("mutants", len(pairs), len(pairs) - len(untried))
    saved = time.monotonic()
    try:
        with children_compile_sooner():
            for pair, result in work.results(one_by_one(work)):
                outcome = ("invalid", TOO_LONG) if result is None else result
                if outcome[0] == "survived" and pair[1].operator != "direction":
                    outcome = _survivor(pair[0], pair[1], started[pair[0].name].margin, outcome[1], work)
                found[key_of(*pair)] = outcome
                progress.finished(pair[0].name, outcome[0])
                if time.monotonic() - saved > SAVED_EVERY:
                    _save(cache, found)
                    saved = time.monotonic()
                yield _trial(*pair, *outcome)
    finally:
        work.end()
        progress.end()
        _save(cache, found)


def auditable(targets: Sequence[str], strength: str | None = None) -> list[Claim]:
    """Theory claims that name a formula; those that take minutes only where they are asked for by name."""
    if strength not in (None, *STRENGTHS.values()):
        raise ConfigError(f"strength={strength} must be one of {', '.join(STRENGTHS.values())}")
    asked = [claim for claim, named in registry.claims(list(targets)) if named or claim.tier == "instant"]
    found = [claim for claim in asked if claim.check is not None and claim.of and claim.strength]
    return [claim for claim in found if strength in (None, claim.strength)]


def of_claim(claim: Claim) -> list[Mutant]:
    functions = list(dict.fromkeys(function for target in claim.of for function in functions_of(target)))
    found = [mutant for function in functions for mutant in mutants(function)]
    return found + (directions(claim.check) if claim.strength == "inequality" else [])


def points(claim: Claim) -> list[tuple[Config, int]]:
    """The cases and seeds at which the ledger asks a claim."""
    return [(case, seed) for case in claim.cases for seed in seeds_of(claim, 0, None)]


def look(
    claim: Claim, at: Iterable[tuple[Config, int]], noticed: Callable[[int, Said], bool] = lambda number, said: False
) -> Found:
    """The claim at some cases and seeds, as it stands in this process, until one of them is `noticed`."""
    import jax

    prepare_jax()
    compile_as_asked(claim)
    found: list[Said] = []
    with jax.enable_x64(claim.precision == 64):
        for case, seed in at:
            began = time.monotonic()
            try:
                verdict = claim.at(case, seed)
            except ConfigError as error:
                return Found(tuple(found), f"refused: {error}")
            if verdict.status == "fails" and (verdict.measured is None or "not a number" in verdict.note):
                return Found(tuple(found), verdict.note)
            rows = [row for row in verdict.details if "is" in row]
            values = tuple(float(row[name]) for row in rows for name in ("measured", "required"))
            sides, took = tuple(row["is"] for row in rows), time.monotonic() - began
            found.append(Said(verdict.status, values, took, sides, verdict.margin))
            if noticed(len(found) - 1, found[-1]):
                break
    return Found(tuple(found), "")


def _judge(claim: Claim, mutant: Mutant, before: Found) -> tuple[str, str]:
    """In a process of its own: outcome and note. Quick cases come first, and the first that notices is enough."""
    put_in_place(mutant)
    asked = sorted(zip(points(claim), before.said, strict=True), key=lambda pair: pair[1].seconds)
    was = [said for _, said in asked]

    def killed(number: int, said: Said) -> bool:
        return said.status not in (was[number].status, *UNSEEN)

    after = look(claim, [point for point, _ in asked], killed)
    if after.broken:
        return "invalid", after.broken[:120]
    if killed(len(after.said) - 1, after.said[-1]):
        return "killed", ""
    masked = [(a.status, b.status) for a, b in zip(was, after.said, strict=True) if a.status != b.status]
    if masked:
        return "masked", f"{masked[0][0]} became {masked[0][1]}"
    if mutant.operator == "direction":
        return _of_reversed(mutant, was, after.said)
    pairs = list(zip(was, after.said, strict=True))
    if all(same(a.values, b.values) for a, b in pairs):
        return "survived", UNMOVED
    return "survived", TOGETHER if all(same(_rooms(a), _rooms(b)) for a, b in pairs) else ""


def _rooms(said: Said) -> list[float]:
    """What is measured over what is required, of every comparison."""
    pairs = zip(said.values[::2], said.values[1::2], strict=True)
    return [measured / required if required else measured for measured, required in pairs]


def _of_reversed(mutant: Mutant, was: Sequence[Said], now: Sequence[Said]) -> tuple[str, str]:
    """Of an inequality that is met in both directions: whether it is an equality wherever it is asked."""
    pairs = [
        (measured, required)
        for a, b in zip(was, now, strict=True)
        for measured, required, before, after in zip(b.values[::2], b.values[1::2], a.sides, b.sides, strict=False)
        if before != after
    ]
    if mutant.before.strip("'") in SIDES:
        return "survived", "the exponent is met on both sides"
    if not pairs:
        return "equivalent", NOT_TAKEN
    if all(same([measured], [required]) for measured, required in pairs):
        return "equivalent", "an equality wherever it is asked: the reverse is true as well"
    return "survived", "the status does not depend on it"


def _compared(claim: Claim, mutant: Mutant) -> tuple[str, str, float]:
    """Of one that has changed no status: whether the function gives other values than it should, and by which factor
    at a case of the ledger.

    What is traced is compared when its program runs.
    """
    import jax

    calls: list[float] = []

    def both(original: Callable[..., Any], broken: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        value = broken(*args, **kwargs)
        _compare(original(*args, **kwargs), value, calls)
        return value

    put_in_place(mutant, both)
    own = points(claim)
    for number, point in enumerate([*own, *other_cases(claim)]):
        look(claim, [point])
        jax.effects_barrier()
        if max(calls, default=1.0) > 1.0:
            return "survived", "", max(calls) if number < len(own) else 1.0
    return ("equivalent", "", 1.0) if calls else ("survived", "the function is not called", 1.0)


def _survivor(claim: Claim, mutant: Mutant, margin: float, note: str, work: Forks) -> tuple[str, str]:
    """What is written down of one that has changed no status.

    It is equivalent where the claim says why this function may give other values. A comparison is judged by its values,
    so one that becomes false is always noticed. What can be missed is a function that changes by more than the printed
    margin, while no comparison moves at all; of an inequality that has moved nothing more is asked.
    """
    compared = ("survived", "", 1.0)
    if claim.strength != "inequality" or note in (UNMOVED, TOGETHER):
        compared = work.alone(lambda: _compared(claim, mutant), LONGEST)
    outcome, why, factor = compared or ("invalid", f"could not be compared: {TOO_LONG}", 1.0)
    if outcome != "survived":
        return outcome, why
    if free := claim.free.get(mutant.place.rpartition(":")[2]):
        return "equivalent", free
    if claim.strength == "inequality" and note in (UNMOVED, TOGETHER) and factor > margin:
        return "survived", f"{BEYOND} ({factor:.3g} over {margin:.3g}): {note}"
    return "survived", why or note


def _compare(a: Any, b: Any, calls: list[float]) -> None:
    """Note by which factor two results differ: now, or, where they are traced, whenever the program runs."""
    import jax
    from jax.core import Tracer

    left, right = jax.tree.leaves(a), jax.tree.leaves(b)
    if not any(isinstance(leaf, Tracer) for leaf in (*left, *right)):
        calls.append(_factor(left, right))
        return
    both = [jax.tree.map(_numbers, side) for side in (left, right)]
    if [getattr(leaf, "shape", ()) for leaf in both[0]] != [getattr(leaf, "shape", ()) for leaf in both[1]]:
        calls.append(math.inf)
        return

    @jax.custom_batching.custom_vmap
    def tell(sides: Any) -> Any:
        jax.debug.callback(lambda sides: calls.append(_factor(*sides)), sides)
        return jax.numpy.zeros(())

    @tell.def_vmap
    def _(size: int, batched: Any, sides: Any) -> Any:  # a batch at once; one call for each of its rows is far slower
        def whole(leaf: Any, has_rows: bool) -> Any:
            return leaf if has_rows else jax.numpy.broadcast_to(leaf, (size, *jax.numpy.shape(leaf)))

        return tell(jax.tree.map(whole, sides, batched[0])), False

    tell(jax.lax.stop_gradient(both))


def _numbers(leaf: Any) -> Any:
    """A random key as the numbers that it is made of; anything else as it is."""
    import jax

    is_key = hasattr(leaf, "dtype") and jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return jax.random.key_data(leaf) if is_key else leaf


def _factor(left: Sequence[Any], right: Sequence[Any]) -> float:
    """The largest factor by which two results differ, array by array: 1 where they are the same.

    What is true or false stays so, whatever factor it is multiplied by.

    >>> _factor([2.0, [1.0, 3.0]], [4.0, [1.0, 3.0]]), _factor([[True, False]], [[2, 0]])
    (2.0, 1.0)
    """
    import numpy as np

    found = 1.0 if len(left) == len(right) else math.inf
    for x, y in zip(left, right, strict=False):
        try:
            if np.asarray(x).dtype == bool:
                y = np.asarray(y).astype(bool)
            x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
        except (TypeError, ValueError):
            found = found if x is y else math.inf
            continue
        if x.shape != y.shape:
            found = math.inf
        elif not same(x.reshape(-1).tolist(), y.reshape(-1).tolist()):
            least = min(np.max(np.abs(x)), np.max(np.abs(y)))
            change = np.max(np.abs(x - y)) / least if least > 0 else math.inf
            found = max(found, 1.0 + SAME, 1.0 + change if change == change else math.inf)
    return float(found)


def other_cases(claim: Claim) -> list[tuple[Config, int]]:
    """Five configs drawn from where the claim may be searched, else its first case at other seeds."""
    draw = random.Random(claim.name)
    found: list[tuple[Config, int]] = []
    kinds = {leaf.path: leaf.kind for leaf in leaves(claim.cases[0])}
    for number in range(4 * OTHER_CASES):
        sizes = {path: _drawn(draw, *range_, kinds[path]) for path, range_ in claim.search.items()}
        try:
            found.append((update(claim.cases[0], sizes), 1 + number))
        except ConfigError:
            continue
        if len(found) == OTHER_CASES:
            break
    return found


def _drawn(draw: random.Random, low: float, high: float, spacing: str, kind: Any) -> Any:
    value = math.exp(draw.uniform(math.log(low), math.log(high))) if spacing == "log" else draw.uniform(low, high)
    return round(value) if kind is int else value


def same(a: Sequence[float], b: Sequence[float]) -> bool:
    return len(a) == len(b) and all(
        x == y or abs(x - y) <= SAME * max(abs(x), abs(y)) for x, y in zip(a, b, strict=True)
    )


# --- what is known, and what is shown ---------------------------------------------------------------------------------


def key_of(claim: Claim, mutant: Mutant) -> str:
    """By which a result is found again: another one as soon as the mutant or the code of the claim is another."""
    from stairwise.lab.contract.experiment import digest_of

    return digest_of([claim.name, mutant.place, mutant.text, code_hash(claim.check, claim.cases)])[:KEY]


def _save(cache: Path | None, found: Mapping[str, Outcome]) -> None:
    if cache is not None:
        cache.parent.mkdir(parents=True, exist_ok=True)
        others = read_cache(cache)  # another audit may have written meanwhile
        replace_file(cache, seal({"outcomes": {**others, **found}}))


def read_cache(cache: Path | None) -> dict[str, Outcome]:
    """What a cache knows; nothing where it is damaged, since it is only a cache. One without a seal is an older one."""
    try:
        text = b"" if cache is None else read_file(cache)
        found = unseal(text)["outcomes"] if SEALED in text else json.loads(text)
        return {name: (outcome, note) for name, (outcome, note) in found.items()}
    except (StoreError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def _trial(claim: Claim, mutant: Mutant, outcome: str, note: str) -> MutantResult:
    place = mutant.place.removeprefix("stairwise.papers.")
    fields = (mutant.operator, place, mutant.line, mutant.before, mutant.after, outcome, note)
    return MutantResult(claim.paper, claim.id, claim.strength, *fields, key_of(claim, mutant))


def known_trials(claims: Sequence[Claim], known: Mapping[str, Outcome]) -> tuple[list[MutantResult], dict[str, int]]:
    """What has been tried so far of the claims as they stand now, and how many mutants each of them has."""
    found: list[MutantResult] = []
    mutants_of: dict[str, int] = {}
    for claim in claims:
        pairs = [(claim, mutant) for mutant in of_claim(claim)]
        mutants_of[claim.id] = len(pairs)
        found += [_trial(*pair, *known[key_of(*pair)]) for pair in pairs if key_of(*pair) in known]
    return found, mutants_of


def counts(trials: Iterable[MutantResult]) -> dict[tuple[str, str], dict[str, int]]:
    """Per paper and strength: how many mutants ended how."""
    table: dict[tuple[str, str], dict[str, int]] = {}
    for trial in trials:
        row = table.setdefault((trial.paper, trial.strength), dict.fromkeys(OUTCOMES, 0))
        row[trial.outcome] += 1
    return dict(sorted(table.items()))


def below_bar(trials: Sequence[MutantResult]) -> list[str]:
    """Which papers kill too few of the mutants that a strength has to kill."""
    found = []
    for paper in sorted({trial.paper for trial in trials}):
        for strength, (share, _) in BARS.items():
            own = [trial for trial in trials if (trial.paper, trial.strength) == (paper, strength)]
            killed = sum(t.outcome == "killed" and counts_for(strength, t.operator) for t in own)
            missed = sum(t.outcome in MISSED and counts_against(strength, t.operator, t.note) for t in own)
            if killed < share * (killed + missed):
                found.append(
                    f"{paper}: {killed} of {killed + missed} mutants of {strength} claims killed, {share:.0%} asked"
                )
    return found


def counts_for(strength: str, operator: str) -> bool:
    """Whether a mutant that is killed counts: of an inequality all do, since each has made the statement false."""
    return strength == "inequality" or operator in BARS[strength][1]


def counts_against(strength: str, operator: str, note: str) -> bool:
    """Whether one that is missed counts: of an inequality the reversed ones, and those beyond the printed margin."""
    return operator in BARS[strength][1] or (strength == "inequality" and note.startswith(BEYOND))


def as_dicts(trials: Iterable[MutantResult]) -> list[dict[str, Any]]:
    return [asdict(trial) for trial in trials]
