"""The search inside the hypotheses of a claim, or outside one of them: the points so far, and the next ones."""

import json
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from stairwise.config import as_flags, stored_dict
from stairwise.extras import installed
from stairwise.lab.contract.claims import Claim
from stairwise.lab.contract.experiment import digest_of
from stairwise.lab.ledger.searching.findings import Finding
from stairwise.lab.ledger.searching.points import SILENT, STOPPED, assumptions, look
from stairwise.lab.ledger.searching.proposals import FEW, Mutations, Region, Tpe, first
from stairwise.lab.ledger.searching.shrinking import shrunk
from stairwise.lab.ledger.searching.space import space
from stairwise.lab.progress import Silent
from stairwise.lab.run.forks import Forks
from stairwise.lab.store import provenance
from stairwise.lab.store.files import Damaged, explained, read_sealed, replace_file, seal

REPEATS = 200  # so many proposals in a row that are known already: nothing is left to look at
HOPELESS = 20  # proposals after which a search ends that has met no point that can be judged
BEGIN = 24  # points to begin with
JUDGED = ("true", "false")
FINDING = 5.0  # seconds at most for finding these
SHRINKING = 20.0  # seconds at most for making a counterexample small


def answers(*claims: Claim) -> Callable[[tuple[Any, ...]], Any]:
    """What a process that works for the searches of some claims answers to questions about one of them."""
    named = {claim.name: claim for claim in claims}

    @cache
    def region(name: str, dropped: str, wide: bool) -> Region:
        return Region(named[name], dropped, tuple(space(named[name], dropped, wide=wide)))

    starts: dict[Any, tuple[list[dict[str, Any]], int]] = {}  # the same for claims that are alike
    broken: dict[Any, Counter[frozenset[str]]] = {}

    def begin(there: Region, *rest: Any) -> tuple[list[dict[str, Any]], int]:
        alike = there.dropped, there.axes, there.claim.cases, id(there.claim.hypotheses)
        if alike not in starts:
            starts[alike] = first(there, *rest)
            broken[alike] = there.broken
        there.broken.update(broken[alike] if there.broken is not broken[alike] else ())
        return starts[alike]

    def answer(question: tuple[Any, ...]) -> Any:
        what, name, *about = question
        if what == "names":
            return assumptions(named[name])
        dropped, wide, *rest = about
        there = region(name, dropped, wide)
        if what == "first":
            return begin(there, *rest)
        if what == "silence":
            if not there.broken:
                begin(there, *rest)
            return there.silence()
        sizes, seed, repair = rest
        return look(there, sizes, seed, repair=repair)

    return answer


def asked(forks: Forks, question: tuple[Any, ...], seconds: float) -> Any:
    """The answer to one question, now; None where it ends its process or takes too long."""
    forks.ask(None, question, seconds)
    ((_, found),) = forks.ready()
    return found


class CounterexampleSearch:
    """One search. What is stored of the same one is taken up again, unless it is `fresh`.

    With `alike`, its process works for other claims as well: points to begin with, and what is computed, are kept.
    """

    def __init__(
        self,
        claim: Claim,
        dropped: str,
        seed: int,
        limit: float,
        root: Path | None,
        fresh: bool,
        *,
        alike: bool = False,
    ):
        self.claim, self.dropped, self.seed, self.limit, self.alike = claim, dropped, seed, limit, alike
        self.region = Region(claim, dropped, tuple(space(claim, dropped)))
        self.label = f"without {dropped}" if dropped else "inside the hypotheses"
        code = provenance.source_hash(claim.source.partition(":")[0])
        named = [
            claim.name,
            dropped,
            [asdict(axis) for axis in self.region.axes],
            stored_dict(claim.cases[0]),
            seed,
            code,
        ]
        self.file = None if root is None else root / "searches" / claim.name / f"{digest_of(named)}.json"
        kept: dict[str, Any] = {}
        if self.file is not None and not fresh:
            with suppress(Damaged):
                kept = read_sealed(self.file)
        self.points: list[dict[str, Any]] = kept.get("points", [])
        self.smallest: dict[str, Any] | None = kept.get("smallest")
        self.found_after: float | None = kept.get("found_after")
        self.seconds: float = kept.get("seconds", 0.0)
        self.tried: int = kept.get("tried", 0)  # configs, to find points that can be judged
        self.met: int = kept.get("met", 0)  # such points
        self.hints: list[dict[str, Any]] = []  # small counterexamples of claims that are alike
        self.silent: str = kept.get("silent", "")  # why none of them can be judged
        self.wide = False
        if kept.get("wide"):
            self._widen()
        self.known = {_name(point): point for point in self.points}

    def _widen(self) -> None:
        self.wide, axes = True, space(self.claim, self.dropped, wide=True)
        self.region = Region(self.claim, self.dropped, tuple(axes))

    @property
    def over(self) -> bool:
        """Whether all points of a small space have been looked at."""
        return self.claim.seeds == 1 and len(self.known) >= self.region.points

    def run(self, forks: Forks, seconds: float, most: float, progress: Silent) -> None:
        if self.smallest is not None or self.over:
            return
        began, before = time.monotonic(), self.seconds
        try:
            found = self._false() or self._search(forks, began + seconds, most, progress)
            if self.dropped and not any(point["said"] in JUDGED for point in self.points):
                asking = ("silence", self.claim.name, self.dropped, self.wide, self.seed, BEGIN, 1.0)
                self.silent = asked(forks, asking, self.limit) or ""
            if found is not None:
                if self.found_after is None:
                    self.found_after = before + time.monotonic() - began
                if found["sizes"] in self.hints:
                    self.smallest = found
                    return
                end = time.monotonic() + min(SHRINKING, max(2.0, seconds))
                self.smallest = shrunk(found, self.region.axes, lambda sizes, seed: self._ask(forks, sizes, seed, end))
        finally:
            self.seconds = before + time.monotonic() - began
            self._write()

    def _false(self) -> dict[str, Any] | None:
        return next((point for point in self.points if point["said"] == "false"), None)

    def _search(self, forks: Forks, end: float, most: float, progress: Silent) -> dict[str, Any] | None:
        """The first counterexample, or None when the time, the points or the space are over."""
        began = time.monotonic()
        queue = self._begin(forks, end)
        queue.extendleft(self.hints)
        if self.alike:  # what is found here serves the others
            end += time.monotonic() - began
        if not queue and not self.points:
            most = min(most, 0 if self.dropped and self.tried else HOPELESS)
        sampler = (Tpe if installed("falsify") else Mutations)(self.region, self.seed + len(self.points))
        for point in self.points:
            sampler.tell(None, point["sizes"], point["value"])
        began, written, repeats = time.monotonic(), time.monotonic(), 0
        while self._goes_on(forks, end) and repeats < REPEATS and len(self.points) < most and not self.over:
            while len(forks.running) < forks.jobs and repeats < REPEATS:
                repair = not queue
                token, sizes = sampler.ask() if repair else (None, queue.popleft())
                point = {"sizes": sizes, "seed": 0}
                while self.claim.seeds > 1 and _name(point) in self.known:
                    point["seed"] += 1
                if (known := self.known.get(_name(point))) is not None:
                    sampler.tell(token, sizes, known["value"])
                    repeats += 1
                    continue
                repeats = 0
                forks.ask((token, point), self._look(sizes, point["seed"], repair), self._patience(end))
            for (token, point), found in forks.ready() if forks.running else ():
                self._add(point, found)
                sampler.tell(token, point["sizes"], point["value"])
            if (false := self._false()) is not None:
                forks.stop()
                return false
            worst = min((point["value"] for point in self.points), default=SILENT)
            told = {} if worst >= SILENT else {"log-margin": worst}
            progress.ticks(self.label, round(time.monotonic() - began), max(1, round(end - began)), told)
            if time.monotonic() - written > 10:
                written = time.monotonic()
                self._write()
        forks.stop()
        return None

    def _begin(self, forks: Forks, end: float) -> deque[dict[str, Any]]:
        """Points to begin with: all where they are few, else some that can be judged."""
        if self.region.points <= FEW:
            return deque(self.region.all(Random(self.seed)))
        if self.points:
            return deque()
        found = self._first(forks, end)
        if not found and self.dropped and not self.wide:
            self._widen()
            found = self._first(forks, end)
        return deque(found)

    def _first(self, forks: Forks, end: float) -> list[dict[str, Any]]:
        seconds = FINDING if self.alike else max(0.5, min(FINDING, (end - time.monotonic()) / 4))
        asking = ("first", self.claim.name, self.dropped, self.wide, self.seed, BEGIN, seconds)
        found, tried = asked(forks, asking, self.limit + 10 * seconds) or ([], 0)  # of computing, so others may compute
        self.tried, self.met = self.tried + tried, self.met + len(found)
        return found

    def _look(self, sizes: Mapping[str, Any], seed: int, repair: bool) -> tuple[Any, ...]:
        return ("look", self.claim.name, self.dropped, self.wide, sizes, seed, repair)

    def _goes_on(self, forks: Forks, end: float) -> bool:
        """While there is time; the first point may take its own, since nothing is known without it."""
        return time.monotonic() < end or (bool(forks.running) and not self.points)

    def _patience(self, end: float) -> float:
        """Seconds for one point. A process that is stopped loses what it has computed for others."""
        return self.limit if self.alike or not self.points else max(0.1, min(self.limit, end - time.monotonic()))

    def _add(self, point: dict[str, Any], found: Mapping[str, Any] | None) -> None:
        self.known[_name(point)] = point
        point.update(found or {"said": "stopped", "value": STOPPED})
        self.points.append(point)
        self.known[_name(point)] = point  # its sizes may be others now

    def _ask(self, forks: Forks, sizes: Mapping[str, Any], seed: int, end: float) -> dict[str, Any]:
        """One point, now."""
        point = {"sizes": dict(sizes), "seed": seed}
        if (known := self.known.get(_name(point))) is None:
            if time.monotonic() >= end:
                return {"said": "not looked at"}
            self._add(point, asked(forks, self._look(point["sizes"], seed, False), self._patience(end)))
            known = point
        return known

    # what was found

    @property
    def drawn(self) -> list[str]:
        """Hypotheses that the check yielded."""
        return list(dict.fromkeys(name for point in self.points for name in point.get("drawn", ())))

    @property
    def finding(self) -> Finding:
        judged = [point for point in self.points if point["said"] in JUDGED]
        chosen = self.smallest or min(judged, key=lambda point: point["value"], default=None)
        outcome = "none in the whole space" if self.over else "none found"
        if self.smallest is not None:
            outcome = "counterexample"
        elif chosen is None:
            outcome = "nothing to look at"
        raised = next((point for point in self.points if point["said"] == "raised"), None)
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
            raised="" if raised is None else f"{raised['note']} at{as_flags(raised['sizes'])}",
            found_after=self.found_after,
            seconds=self.seconds,
            note="" if judged else self._silence(),
        )

    def _silence(self) -> str:
        """Why no point was judged."""
        said = Counter(point["said"] for point in self.points)
        kind = "breaks it and meets the others" if self.dropped else "meets the hypotheses"
        if not self.points and self.met:
            return "the time was over before a point was judged"
        if not set(said) - {"outside", "inside", "refused"}:
            why = self.silent or f"no config was met that {kind}"
            return f"{why} ({max(self.tried, len(self.points)):,} tried)"
        words = {
            "stopped": f"took over {self.limit:g} s",
            "raised": "made the check raise an error",
            "refused": "were refused by the config or the check",
            "outside": "broke another hypothesis",
            "inside": "met the hypothesis",
        }
        return "; ".join(f"{count} {words.get(name, f'were {name}')}" for name, count in said.most_common())

    def _write(self) -> None:
        if self.file is not None:
            kept = {"points": self.points, "smallest": self.smallest, "tried": self.tried, "met": self.met}
            kept |= {"wide": self.wide, "silent": self.silent}
            kept |= {"seconds": self.seconds, "found_after": self.found_after}
            with explained(f"store the search of {self.claim.name} in {self.file.parent}"):
                replace_file(self.file, seal({"claim": self.claim.name, "dropped": self.dropped, **kept}))


def _name(point: Mapping[str, Any]) -> str:
    return json.dumps([point["sizes"], point["seed"]], sort_keys=True)
