"""Figures 1a and 1b: how far decoders carry, with pass lines written down before the runs.

Everything is judged over seeds, with a 95 % bootstrap interval where two actions are compared.
"""

from collections.abc import Sequence
from typing import Any

from stairwise.lab.contract.checks import at_least, at_most, measured, note, row
from stairwise.lab.contract.plots import grouped
from stairwise.papers.lego.claims.ledger import LEDGER

APART = 0.05  # two actions, or two stages, differ: by at least this in mean exact match, beyond the interval
PROBE = 8  # in units of the training length: where actions and stages are compared
FAR = 32  # in the same units: L = 160 after training at 5
SOLVED = 0.9  # exact match from which a length counts as solved


def _protocols(records: Sequence[Any]) -> dict[str, list[Any]]:
    from stairwise.papers.lego.figures.length_curves import protocol

    return grouped(records, lambda record: protocol(record.config))


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


def far_enough(config: Any) -> dict[str, bool]:
    """The caption speaks of L = 160 after training at 5."""
    trained = getattr(config, "base", config)
    return {"tested at 32 times the training length": max(trained.test_lengths) >= FAR * trained.task.length}


def probed(config: Any) -> dict[str, bool]:
    trained = getattr(config, "base", config)
    return {"tested at 8 times the training length": PROBE * trained.task.length in trained.test_lengths}


def _reach(records: Sequence[Any]) -> list[dict[str, Any]]:
    """Exact match at the longest length, by protocol, of the free action and of the other."""
    import numpy as np

    longest, rows = max(records[0].config.test_lengths), []
    for name, chosen in _protocols(records).items():
        found: dict[str, Any] = {"protocol": name, "L": longest}
        for kind, free in (("cyclic", True), ("symmetric", False)):
            runs = [record for record in chosen if record.config.task.group.free == free]
            values = [record.final(f"exact {longest}") for record in runs]
            if values:
                spread = {f"{kind} lowest": min(values), f"{kind} highest": max(values)}
                found |= {kind: float(np.median(values)), "seeds": len(values), **spread}
        rows.append(found)
    return rows


@LEDGER.empirical(
    "fig1a",
    experiment="length",
    statement=("Figure 1a", "Section 7"),
    says=r"under one and the same protocol both: trained at $L$, the cyclic action is near-perfect at $32L$ (median 0.9"
    r" or more) and the symmetric one is not (median 0.5 or less)",
    hypotheses=far_enough,
)
def cyclic_reaches_and_symmetric_does_not(records: Sequence[Any]):
    rows = _reach(records)
    best = max(rows, key=lambda one: min(one.get("cyclic", 0.0) - SOLVED, 0.5 - one.get("symmetric", 1.0)))
    yield at_least(f"cyclic at L={best['L']}, {best['protocol']}", best.get("cyclic", 0.0), SOLVED)
    yield at_most(f"symmetric at L={best['L']}, {best['protocol']}", best.get("symmetric", 1.0), 0.5)
    both = [one["protocol"] for one in rows if one.get("cyclic", 0) >= SOLVED and one.get("symmetric", 1) <= 0.5]
    yield note(f"both are true under: {', '.join(both) or 'no protocol'}")
    for one in rows:
        yield row(one)


@LEDGER.empirical(
    "fig1a-separation",
    experiment="length",
    statement="Figure 1a",
    says=r"trained at $L$, the cyclic action beats the symmetric one at $8L$ by 0.05 in exact match, beyond the"
    " interval; the first protocol decides",
    hypotheses=probed,
)
def cyclic_beats_symmetric(records: Sequence[Any]):
    """The first protocol (on a GPU the paper's) decides; the others say where the separation vanishes."""
    protocols, config = _protocols(records), records[0].config
    lengths = [length for length in config.test_lengths if length > config.task.length]
    rows = [_compared(chosen, L, protocol=name) for name, chosen in protocols.items() for L in lengths]
    judged = [one for one in rows if one["L"] == PROBE * config.task.length]
    for one in judged[:1]:
        yield at_least(f"difference at L={one['L']}, {one['protocol']}", one["difference"], APART)
        yield at_least(f"low end of its interval, {one['protocol']}", one["low"], 0.0)
    for one in judged[1:]:
        yield note(f"{one['protocol']}: {one['ahead']} ahead")
    for one in rows:
        yield row(one)
    for name, chosen in protocols.items():
        losses = grouped(chosen, lambda record: record.config.task.action)
        medians = {f"median loss {action}": _median(runs, "loss") for action, runs in losses.items()}
        yield row({"protocol": name} | medians)


@LEDGER.empirical(
    "fig1a-reach",
    experiment="length",
    statement="Figure 1a",
    says=r"under some protocol the cyclic action, trained at $L$, is near-perfect at $32L$: its median is 0.9 or more",
    hypotheses=far_enough,
)
def cyclic_reaches_far(records: Sequence[Any]):
    rows = _reach(records)
    yield at_least("best median of the cyclic action", max(one.get("cyclic", 0.0) for one in rows), SOLVED)
    for one in rows:
        yield row(one)


@LEDGER.empirical(
    "fig1a-constant",
    experiment="length",
    statement="Figure 1a",
    says=r"under no protocol does the symmetric action, trained at $L$ without self-training, reach $32L$: medians at"
    " most 0.5",
    hypotheses=far_enough,
)
def symmetric_stays_near(records: Sequence[Any]):
    rows = _reach(records)
    yield at_most("best median of the symmetric action", max(one.get("symmetric", 0.0) for one in rows), 0.5)
    for one in rows:
        yield row(one)


@LEDGER.empirical(
    "fig1a-map",
    experiment="map",
    statement="Figure 1a",
    says="where cyclic and symmetric actions separate: pool size, steps and norm, each cell with its interval; measured"
    " is the share of cells that could show a difference in which the cyclic action is ahead",
)
def the_separation_depends_on_training(records: Sequence[Any]):
    config = records[0].config
    lengths = [length for length in config.test_lengths if length > config.task.length]
    steps = [int(step) for step in records[0].series("loss")[0]]
    cells = grouped(records, lambda record: (record.config.samples, record.config.model.norm))
    rows = [
        _compared(chosen, length, step, sentences=pool or "fresh", norm=norm, steps=step)
        for (pool, norm), chosen in cells.items()
        for length in lengths
        for step in steps
    ]
    ahead = [one["ahead"] for one in rows if one["informative"]]
    counts = ", ".join(f"{who} ahead in {ahead.count(who)}" for who in dict.fromkeys(ahead))
    cyclic = next((r.config.task.action for r in records if r.config.task.group.free), "")
    yield measured("share of cells in which the cyclic action is ahead", ahead.count(cyclic) / max(1, len(ahead)))
    yield note(f"{len(ahead)} of {len(rows)} cells could show a difference: {counts or 'none'}")
    for one in rows:
        yield row(one)


# --- Figure 1b --------------------------------------------------------------------------------------------------------


@LEDGER.empirical(
    "fig1b",
    experiment="self-training",
    statement="Figure 1b",
    says=r"no stage of self-training lowers the mean exact match over lengths by more than 0.02; all together add 0.05"
    r" at $8L$",
    hypotheses=probed,
)
def self_training_moves_the_curve(records: Sequence[Any]):
    import numpy as np

    from stairwise.papers.lego.cells import difference

    config = records[0].config
    base = config.base
    names = [f"L={length}" for length in (base.task.length, *config.lengths)]
    probe = PROBE * base.task.length
    found = np.array([[[r.final(f"exact {L}", s) for L in base.test_lengths] for s in names] for r in records])
    yield at_most("largest loss of any stage", -float(np.diff(found.mean(axis=2), axis=1).min()), 0.02)
    if probe in base.test_lengths:
        at = base.test_lengths.index(probe)
        gain = difference(found[:, -1, at], found[:, 0, at])
        yield at_least(f"gain at L={probe}", gain.value, APART)
        yield note(f"gain at L={probe}: {gain}")
    for place, name in enumerate(names):
        shown: dict[str, Any] = {"after": name}
        if place:
            labels = [[record.final(f"label {kind}", name) for record in records] for kind in ("exact", "step")]
            shown |= {"own labels right": float(np.median(labels[0])), "own values right": float(np.median(labels[1]))}
        medians = np.median(found[:, place], axis=0)
        yield row(shown | {f"median L={L}": float(v) for L, v in zip(base.test_lengths, medians, strict=True)})


@LEDGER.empirical(
    "fig1b-reach",
    experiment="self-training",
    statement="Figure 1b",
    says="after all stages the symmetric action is near-perfect at 32 times the first length: median 0.9 or more",
    hypotheses=far_enough,
)
def self_training_reaches_far(records: Sequence[Any]):
    import numpy as np

    config = records[0].config
    longest, stage = max(config.base.test_lengths), f"L={config.lengths[-1]}"
    values = [record.final(f"exact {longest}", stage) for record in records]
    yield at_least(f"median exact match at L={longest}", float(np.median(values)), SOLVED)
    for record, value in zip(records, values, strict=True):
        yield row({"seed": record.seed, f"exact L={longest}": value})
