"""Claims: statements of a paper as checks that can fail. What an author writes is data, then a check that yields.

    @ledger.bound(
        "thm3.1",
        statement="Theorem 3.1",
        says=r"gradient descent has loss $\\le \\varepsilon$ after $T^2 d/(\\eta\\varepsilon)$ steps",
        of=(onehot.convergence_time,),
        hypotheses=theorem_3_1,
        cases=SIZES,
    )
    def descent_is_faster_than_the_bound(config, seed):
        yield at_most("time / bound", time, bound)

The kernel makes the verdict from what is yielded (`stairwise.lab.contract.checks`). Nothing here imports JAX.
"""

import dataclasses
import math
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from stairwise.config import Config, ConfigError, leaves, one_line
from stairwise.lab.contract.checks import Comparison, Emptiness, Hypothesis, Quantity, Remark, Table
from stairwise.lab.contract.manifest import KINDS, TIERS
from stairwise.lab.contract.verdict import Verdict

STRENGTHS = {"exact": "exact", "bound": "inequality", "rate": "rate"}  # by the form of a claim
ABOUT_PRINT = ("refuted", "misprint")  # their checks compare what is printed, and expect it to be false
Hypotheses = Mapping[str, Callable[[Any], Any]] | Callable[[Any], Mapping[str, Any]]


@dataclass(frozen=True)
class Claim:
    """A statement of a paper as a check that can fail.

    Theory: `check(config, seed)` at each of `cases` (the sizes of the ledger), or at the user's own. Empirical:
    `judge(records)` of one experiment's preset, all of its trials or none. Both yield measurements.

    `kind` is the form under which it was entered, see `Ledger`. `statement` is what the paper calls it ("Theorem 3.1",
    or several such names); `says` is what it says, with LaTeX between dollars; `of` are the functions that it puts to
    the test. `hypotheses` are named predicates of the config, which are checked without running; `infeasible` says why
    no case meets all of them. `free` says of a function in `of` why it may give other values as well, for an audit: a
    basis that may be scaled. `search` gives ranges of fields in which counterexamples may be looked for. `seeds` is
    how many seeds a check runs at that draws at random, three or more; `one_seed` says why one is enough: it makes
    many draws itself, say. `argument` says of a true statement what its printed proof lacks. `corrected` names the
    claim that puts a false one right; the paper fills in the other way, `corrects`. `optimise` says that the check's
    programs run for longer than they take to compile.
    """

    id: str
    says: str
    kind: str
    tier: str = "instant"
    aliases: tuple[str, ...] = ()
    cases: tuple[Config, ...] = ()
    check: Callable[..., Any] | None = None
    experiment: str = ""
    judge: Callable[..., Any] | None = None
    paper: str = ""
    precision: int = 64
    statement: tuple[str, ...] = ()
    of: tuple[Callable[..., Any], ...] = ()
    hypotheses: Hypotheses | None = None
    infeasible: str = ""
    search: Mapping[str, tuple[float, float, str]] = field(default_factory=dict)
    seeds: int = 1
    one_seed: str = ""
    optimise: bool = False
    free: Mapping[str, str] = field(default_factory=dict)
    corrected: str = ""
    certificate: str = ""
    means: str = ""
    argument: str = ""
    corrects: tuple[str, ...] = ()

    def __post_init__(self):
        if self.kind not in KINDS or self.tier not in TIERS:
            raise ValueError(f"{self.id}: kind={self.kind} tier={self.tier} must be among {KINDS} and {TIERS}")
        if (self.check is None) == (self.judge is None):
            raise ValueError(f"{self.id}: a claim has either a check or a judge")
        needed: dict[str, Any] = {"statement": self.statement}
        if self.check is not None:
            needed["cases"] = self.cases
        if self.kind in STRENGTHS:
            needed["of"] = self.of
        if self.kind == "refuted":
            needed["certificate"] = self.certificate
        if self.kind == "misprint":
            needed["means"] = self.means
        missing = [name for name, value in needed.items() if not value]
        if self.argument and self.kind in ABOUT_PRINT:
            raise ValueError(f"{self.id}: argument= is for what is true; what is {self.kind} has a claim of its own")
        if missing:
            raise ValueError(f"{self.id}: a claim of the form {self.kind} needs {', '.join(missing)}")
        if not all(map(callable, self.of)):
            raise ValueError(f"{self.id}: of must name functions")
        if self.seeds < 1:
            raise ValueError(f"{self.id}: seeds={self.seeds} must be at least 1")
        if self.one_seed and self.seeds > 1:
            raise ValueError(f"{self.id}: one_seed= is for a check at one seed, and it has seeds={self.seeds}")
        known = {leaf.path for case in self.cases[:1] for leaf in leaves(case)}
        for path, (low, high, spacing) in self.search.items():
            if path not in known or not low < high or spacing not in ("log", "linear"):
                raise ValueError(f'{self.id}: search={path} must be a field with (low, high, "log" or "linear")')

    @property
    def name(self) -> str:
        return f"{self.paper}/{self.id}"

    @property
    def strength(self) -> str:
        """exact (an identity), inequality, or rate (up to a constant); empty where a claim has none."""
        return STRENGTHS.get(self.kind, "")

    @property
    def source(self) -> str:
        """Where its code is: module and function."""
        return place_of(self.check or self.judge)

    def unmet(self, config: Any) -> tuple[str, ...]:
        """The hypotheses that a config does not meet; nothing is run."""
        if self.hypotheses is None:
            return ()
        if callable(self.hypotheses):
            found = self.hypotheses(config)
        else:
            found = {name: predicate(config) for name, predicate in self.hypotheses.items()}
        return tuple(name for name, met in found.items() if not (met == met and met))

    def at(self, config: Any, seed: int) -> Verdict:
        """The verdict of one case. A ConfigError refuses the sizes; any other exception makes it fail."""
        assert self.check is not None
        return self._found(partial(self.check, config, seed), lambda: self.unmet(config))

    def judged(self, records: Sequence[Any]) -> Verdict:
        """The verdict on the trials of an experiment."""
        assert self.judge is not None
        return self._found(partial(self.judge, records), lambda: self.unmet(records[0].config))

    def _found(self, run: Callable[[], Any], unmet: Callable[[], tuple[str, ...]]) -> Verdict:
        found: list[Any] = []
        missing: tuple[str, ...] = ()
        try:
            missing = unmet()
            for each in run():
                found.append(each)
                if isinstance(each, Emptiness) and each.applies and each.status == "skipped":
                    break
        except ConfigError:
            raise
        except Exception as error:
            return Verdict("fails", note=exception_line(error), hypotheses=missing, details=_rows(found))
        return self._concluded(found, missing)

    def _concluded(self, found: Sequence[Any], unmet: tuple[str, ...]) -> Verdict:
        """The verdict that follows from what a check has yielded."""
        comparisons = [each for each in found if isinstance(each, Comparison)]
        values = [each for each in found if isinstance(each, Quantity)]
        unmet += tuple(each.name for each in found if isinstance(each, Hypothesis) and not each.met)
        empty = [each for each in found if isinstance(each, Emptiness) and each.applies]
        notes = [each.text for each in found if isinstance(each, Remark)]
        notes += [each.note for each in comparisons if each.note]
        lost = [each.name for each in comparisons if each.met is None]
        lost += [each.name for each in values if math.isnan(each.value)]
        missed = [each for each in comparisons if not each.met]
        head = min(comparisons, key=_first, default=None)
        skipped = [each.why for each in empty if each.status == "skipped"]
        if lost:
            status = "fails"
            notes.append(f"not a number: {', '.join(lost)}")
        elif skipped:
            return Verdict("skipped", note="; ".join(skipped), details=_rows(found))
        elif unmet:
            status = "outside"
            said = f"false here: {_names(missed)}" if missed else "true here" if comparisons else "not measured here"
            notes += [f"the conclusion is {said}", *filter(None, [self.infeasible])]
        elif missed:
            status = {"empirical": "not-reproduced", "reported": "reported"}.get(self.kind, "fails")
            if self.kind in ABOUT_PRINT:
                status = self.kind
            if len(comparisons) > 1:
                notes.append(f"not met: {_names(missed)}")
        elif empty:
            status = "vacuous"
            notes += [each.why for each in empty]
        elif self.kind == "reported" or (self.kind == "empirical" and not comparisons):
            status = "reported"
        elif not comparisons:
            status = "fails"
            notes.append("the check has compared nothing")
        else:
            status = "holds"
        more: dict[str, Any] = {"note": "; ".join(notes), "hypotheses": unmet, "details": _rows(found)}
        if head is not None:
            more |= {"quantity": head.name, "required": head.required, "margin": head.margin}
            return Verdict(status, head.measured, direction=head.direction, **more)
        if values:
            return Verdict(status, values[0].value, quantity=values[0].name, **more)
        return Verdict(status, **more)

    def over(self, cases: Sequence[tuple[str, int, Verdict]], *, own: bool) -> Verdict:
        """The verdict over cases (name, seed, verdict); `own`: they are those of the ledger, not sizes of a user."""
        verdict = Verdict.over(cases)
        if self.kind in ABOUT_PRINT and verdict.status in ("holds", "vacuous"):
            said = "the printed statement is true here"
            verdict = dataclasses.replace(verdict, note="; ".join(filter(None, [verdict.note, said])))
            if own:  # somewhere in the ledger it must be false
                verdict = dataclasses.replace(verdict, status="fails")
        return verdict


def _rows(found: Sequence[Any]) -> tuple[Mapping[str, Any], ...]:
    """The table of details: comparisons and values first, then the rows that the check gives."""
    lines: list[Mapping[str, Any]] = [each.line for each in found if isinstance(each, Comparison)]
    lines += [{"quantity": each.name, "measured": each.value} for each in found if isinstance(each, Quantity)]
    return (*lines, *(each.values for each in found if isinstance(each, Table)))


def _first(comparison: Comparison) -> tuple[bool, float]:
    """What is not met comes first, then what has the least margin."""
    return bool(comparison.met), math.inf if comparison.margin is None else comparison.margin


def _names(comparisons: Iterable[Comparison]) -> str:
    return ", ".join(each.name for each in comparisons)


def exception_line(error: Exception) -> str:
    """What was raised and where, in one line."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "site-packages" not in frame.filename]
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {one_line(' '.join(str(error).split()))[:300]}{where}"


def place_of(function: Any) -> str:
    """The module and name of a function, of a method, or of what wraps one: "module:Class.method"."""
    while isinstance(function, partial):
        function = function.func
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{function.__module__}:{function.__name__ if '<locals>' in name else name}"


# --- the ledger -------------------------------------------------------------------------------------------------------


@dataclass
class Ledger:
    """Collects a paper's claims as their checks are defined; one decorator per form.

    All take `statement`, `says`, `tier`, `aliases`, `hypotheses`, `infeasible`, `search`, `seeds`, `one_seed`,
    `precision`, `optimise` and `argument`.
    """

    claims: list[Claim] = field(default_factory=list)

    def exact(self, id: str, **fields: Any):
        """An identity: the two sides of `equal` share no formula."""
        return self._enter("exact", id, **fields)

    def bound(self, id: str, **fields: Any):
        """An inequality with its constants: the sharpest constant that still holds is printed beside the margin."""
        return self._enter("bound", id, **fields)

    def rate(self, id: str, **fields: Any):
        """A statement up to a constant: the check sweeps a size, and yields the fitted exponent (`slope`)."""
        return self._enter("rate", id, **fields)

    def refuted(self, id: str, *, certificate: str, corrected: str = "", **fields: Any):
        """A legible printed statement that is false: the check compares what is printed, inside the hypotheses.

        `certificate` is a script beside the paper's code that shows it without this package; `corrected` is the id of
        the claim that is true. Where the comparisons are met, the claim fails.
        """
        return self._enter("refuted", id, certificate=certificate, corrected=corrected, **fields)

    def misprint(self, id: str, *, means: str, corrected: str = "", **fields: Any):
        """A slip in print whose intended reading is plain: `means` says it, and the check compares what is printed."""
        return self._enter("misprint", id, means=means, corrected=corrected, **fields)

    def reported(self, id: str, **fields: Any):
        """A statement without a pass line: what is measured is shown."""
        return self._enter("reported", id, **fields)

    def empirical(self, id: str, *, experiment: str, tier: str = "minutes", kind: str = "empirical", **fields: Any):
        """A judge of an experiment's records: it yields comparisons, drawn before the run."""

        def register(judge: Callable[..., Any]):
            self._add(id, kind=kind, tier=tier, experiment=experiment, judge=judge, **fields)
            return judge

        return register

    def family(self, check: Callable[..., Any], members: Mapping[str, Mapping[str, Any]], *, form: str, **common: Any):
        """Several claims of one check: a table of literal ids and what each says; `given` are arguments of the check.

        ledger.family(check, {"lemD8": {"statement": "Lemma D.8", "says": "..."}, ...}, form="bound", cases=SIZES)
        """
        enter = getattr(self, form)
        for id, fields in members.items():
            chosen = {**common, **fields}
            given = chosen.pop("given", {})
            enter(id, **chosen)(partial(check, **given) if given else check)

    def _enter(self, kind: str, id: str, **fields: Any):
        def register(check: Callable[..., Any]):
            self._add(id, kind=kind, check=check, **fields)
            return check

        return register

    def _add(self, id: str, *, cases: Any = (), statement: str | Sequence[str] = (), **fields: Any) -> None:
        cases = (cases,) if isinstance(cases, Config) else tuple(cases)
        statement = tuple(filter(None, [statement] if isinstance(statement, str) else statement))
        self.claims.append(Claim(id, cases=cases, statement=statement, **fields))
