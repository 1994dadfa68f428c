"""Figures 1a and 1b: how far decoders carry, with pass lines written down before the runs.

Everything is judged over seeds, with a 95 % bootstrap interval where two actions are compared.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from stairwise.lab.contract import Verdict
from stairwise.papers.lego.claims.ledger import LEDGER

APART = 0.05  # two actions, or two stages, differ: by at least this in mean exact match, beyond the interval
PROBE = 8  # in units of the training length: where actions and stages are compared
FAR = 32  # in the same units: L = 160 after training at 5
SOLVED = 0.9  # exact match from which a length counts as solved
NO = {"otherwise": "not-reproduced"}


def groups(records: Sequence[Any], by: Callable[[Any], Any]) -> dict[Any, list[Any]]:
    from stairwise.papers.lego.figures.common import grouped

    return grouped(records, by)


def _protocols(records: Sequence[Any]) -> dict[str, list[Any]]:
    from stairwise.papers.lego.figures.common import protocol

    return groups(records, lambda record: protocol(record.config))


def _compared(records: Sequence[Any], length: int, step: int | None = None, **more: Any) -> dict[str, Any]:
    """One row: both means, the difference with its interval, and who is ahead."""
    from stairwise.papers.lego.cells import compared

    cell = compared(records, length, step)
    names = {f"mean {name}": float(values.mean()) for name, values in zip(cell.actions, cell.values, strict=True)}
    interval = {"difference": cell.difference.value, "low": cell.difference.low, "high": cell.difference.high}
    return {**more, "L": length, **names, **interval, "ahead": cell.ahead, "informative": cell.informative}


def _median(records: Sequence[Any], name: str) -> float:
    import numpy as np

    return float(np.median([record.final(name) for record in records]))


# --- Figure 1a --------------------------------------------------------------------------------------------------------


@LEDGER.empirical(
    "fig1a",
    experiment="length",
    says="trained at L, the cyclic action beats the symmetric one at 8L by .05 in exact match, beyond the interval",
)
def cyclic_beats_symmetric(records: Sequence[Any]) -> Verdict:
    """The first protocol (on a GPU the paper's) decides; the others say where the separation vanishes."""
    protocols = _protocols(records)
    config = records[0].config
    probe = PROBE * config.task.length
    lengths = [length for length in config.test_lengths if length > config.task.length]
    rows = [_compared(chosen, L, protocol=name) for name, chosen in protocols.items() for L in lengths]
    for name, chosen in protocols.items():
        losses = groups(chosen, lambda record: record.config.task.action)
        rows.append(
            {"protocol": name} | {f"median loss {action}": _median(runs, "loss") for action, runs in losses.items()}
        )
    judged = [row for row in rows if row.get("L") == probe]
    if not judged:
        return Verdict.reported(0.0, details=tuple(rows), note=f"test_lengths has no {probe}: nothing to judge")
    deciding, others = judged[0], [f"{row['protocol']}: {row['ahead']} ahead" for row in judged[1:]]
    note = f"at L={probe}, {deciding['protocol']}: {deciding['difference']:.3f}"
    note += f" [{deciding['low']:.3f}, {deciding['high']:.3f}]" + "".join(f"; {other}" for other in others)
    verdict = Verdict.at_least(deciding["difference"], APART, details=tuple(rows), note=note, **NO)
    if verdict.status == "holds" and deciding["low"] <= 0:
        return replace(verdict, status="not-reproduced", margin=None, note=f"{note}; interval holds 0")
    return verdict


def _reach(records: Sequence[Any], free: bool) -> tuple[list[dict[str, Any]], int]:
    """Exact match at the longest length by protocol, of the free action or of the other; medians, all seeds."""
    import numpy as np

    longest = max(records[0].config.test_lengths)
    rows = []
    for name, chosen in _protocols(records).items():
        runs = [record for record in chosen if record.config.task.group.free == free]
        values = [record.final(f"exact {longest}") for record in runs]
        if values:
            row: dict[str, Any] = {"protocol": name, "action": runs[0].config.task.action, "L": longest}
            rows.append({**row, "median": float(np.median(values)), "lowest": min(values), "highest": max(values)})
    return rows, longest


def _too_short(rows: list[dict[str, Any]], longest: int, trained: int) -> Verdict | None:
    if longest >= FAR * trained and rows:
        return None
    best = max((row["median"] for row in rows), default=0.0)
    return Verdict.reported(best, details=tuple(rows), note=f"L={longest} is less than {FAR} times L={trained}")


@LEDGER.empirical(
    "fig1a-reach",
    experiment="length",
    says="under some protocol the cyclic action, trained at L, is near-perfect at 32L: median exact match .9 or more",
)
def cyclic_reaches_far(records: Sequence[Any]) -> Verdict:
    rows, longest = _reach(records, free=True)
    short = _too_short(rows, longest, records[0].config.task.length)
    return short or Verdict.at_least(max(row["median"] for row in rows), SOLVED, details=tuple(rows), **NO)


@LEDGER.empirical(
    "fig1a-constant",
    experiment="length",
    says="under no protocol does the symmetric action, trained at L without self-training, reach 32L: medians below .5",
)
def symmetric_stays_near(records: Sequence[Any]) -> Verdict:
    rows, longest = _reach(records, free=False)
    short = _too_short(rows, longest, records[0].config.task.length)
    return short or Verdict.at_most(max(row["median"] for row in rows), 0.5, details=tuple(rows), **NO)


@LEDGER.empirical(
    "fig1a-map",
    experiment="map",
    says="where cyclic and symmetric actions separate: pool size x steps x norm, each cell with its interval",
)
def the_separation_depends_on_training(records: Sequence[Any]) -> Verdict:
    """Measured: of the cells where a difference could show, the share in which the cyclic action is ahead."""
    config = records[0].config
    lengths = [length for length in config.test_lengths if length > config.task.length]
    steps = [int(step) for step in records[0].series("loss")[0]]
    cells = groups(records, lambda record: (record.config.lessons.pool, record.config.model.norm))
    rows = [
        _compared(chosen, length, step, sentences=pool or "fresh", norm=norm, steps=step)
        for (pool, norm), chosen in cells.items()
        for length in lengths
        for step in steps
    ]
    seen = [row for row in rows if row["informative"]]
    ahead = [row["ahead"] for row in seen]
    counts = ", ".join(f"{who} ahead in {ahead.count(who)}" for who in dict.fromkeys(ahead))
    note = f"{len(seen)} of {len(rows)} cells could show a difference: {counts or 'none'}"
    cyclic = next((r.config.task.action for r in records if r.config.task.group.free), "")
    return Verdict.reported(ahead.count(cyclic) / max(1, len(seen)), details=tuple(rows), note=note)


# --- Figure 1b --------------------------------------------------------------------------------------------------------


@LEDGER.empirical(
    "fig1b",
    experiment="self-training",
    says="no stage of self-training lowers the mean exact match over lengths by > .02; all together add .05 at 8L",
)
def self_training_moves_the_curve(records: Sequence[Any]) -> Verdict:
    import numpy as np

    from stairwise.papers.lego.cells import difference

    config = records[0].config
    base = config.base
    names = [f"L={length}" for length in (base.task.length, *config.lengths)]
    probe = PROBE * base.task.length
    probe = probe if probe in base.test_lengths else max(base.test_lengths)
    found = np.array([[[r.final(f"exact {L}", s) for L in base.test_lengths] for s in names] for r in records])
    rows = []
    for place, name in enumerate(names):
        row: dict[str, Any] = {"after": name}
        if place:
            labels = [[record.final(f"label {kind}", name) for record in records] for kind in ("exact", "step")]
            row |= {"own labels right": float(np.median(labels[0])), "own values right": float(np.median(labels[1]))}
        medians = np.median(found[:, place], axis=0)
        rows.append(row | {f"median L={L}": float(value) for L, value in zip(base.test_lengths, medians, strict=True)})
    worst = float(np.diff(found.mean(axis=2), axis=1).min())
    at = base.test_lengths.index(probe)
    gain = difference(found[:, -1, at], found[:, 0, at])
    verdict = Verdict.worst(
        {
            "no stage harms": Verdict.at_most(-worst, 0.02, **NO),
            f"gain at L={probe}": Verdict.at_least(gain.value, APART, note=f"gain at L={probe}: {gain}", **NO),
        }
    )
    return replace(verdict, details=(*verdict.details, *rows))


@LEDGER.empirical(
    "fig1b-reach",
    experiment="self-training",
    says="after all stages the symmetric action is near-perfect at 32 times the first length: median .9 or more",
)
def self_training_reaches_far(records: Sequence[Any]) -> Verdict:
    import numpy as np

    config = records[0].config
    longest, stage = max(config.base.test_lengths), f"L={config.lengths[-1]}"
    values = [record.final(f"exact {longest}", stage) for record in records]
    rows = [{"seed": record.seed, f"exact L={longest}": value} for record, value in zip(records, values, strict=True)]
    if longest < FAR * config.base.task.length:
        note = f"L={longest} is less than {FAR} times L={config.base.task.length}"
        return Verdict.reported(float(np.median(values)), details=tuple(rows), note=note)
    return Verdict.at_least(float(np.median(values)), SOLVED, details=tuple(rows), **NO)
