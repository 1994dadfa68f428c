"""What `stairwise run` says before and after: the plan, and the results over seeds."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stairwise.lab.api import Result
from stairwise.lab.contract import Experiment, Trial
from stairwise.lab.plan import plan as plan_groups
from stairwise.lab.stale import count, is_stale, made_now, words
from stairwise.lab.store import Store
from stairwise.report.words import device_of

MEASURED = Path(__file__).with_name("measured.json")  # whole presets that have been run, and what they took


def dry_run(
    experiment: Experiment,
    preset: str,
    trials: Sequence[Trial],
    store: Store,
    as_json: bool,
    group: int | None = None,
    fresh: bool = False,
) -> int:
    """How many trials and programs, how many are stored, the memory they need, and what such a run cost last time."""
    from stairwise.lab.estimate import device_bytes, largest_group, seconds, widths

    settled = made_now(store) if fresh else store.has
    missing = [trial for trial in trials if not settled(trial)]
    records = [record for trial in trials if (record := store.peek(trial)) is not None]
    chosen = experiment.preset(preset)
    groups = plan_groups(missing, settled, widths(chosen.group, group))
    needed, room, total = largest_group(groups), device_bytes(), seconds(missing, store)
    plan = {
        "experiment": experiment.name,
        "preset": preset,
        "trials": len(trials),
        "stored": len(trials) - len(missing),
        "made by other code": count(records, experiment),
        "programs": len({trial.program_key for trial in missing}),
        "group on a GPU": chosen.group,
        "megabytes of the largest group": None if needed is None else float(f"{needed / 1e6:.3g}"),
        "megabytes of the device": None if room is None else round(room / 1e6),
        "seconds (from stored trials)": None if total is None else round(total, 1),
        "last time": last_time(experiment, preset, trials, store),
        "predicted hours": chosen.hours,
    }
    if as_json:
        print(json.dumps(plan, indent=1))
    else:
        width = max(map(len, plan))
        print("\n".join(f"{name:{width}}  {'unknown' if value is None else value}" for name, value in plan.items()))
    return 0


def last_time(experiment: Experiment, preset: str, trials: Sequence[Trial], store: Store) -> str | None:
    """What the same or the nearest trials of the store cost, else what was measured before the package was made."""
    from stairwise.lab.estimate import nearest

    past = nearest(trials, store)
    if past is not None:
        latest = past.records[0]
        count = "1 trial" if len(past.records) == 1 else f"median of {len(past.records)} trials"
        near = (
            f"the nearest, {latest.digest[:8]}, has another {', '.join(past.differs)}"
            if past.differs
            else "the same program"
        )
        return f"{past.seconds:.3g} s a trial ({count}, {device_of(latest.run)}; {near})"
    known = json.loads(MEASURED.read_text()).get(experiment.name)
    if not known:
        return None
    nearest_preset = preset if preset in known else next(iter(known))
    facts = known[nearest_preset]
    asked = "" if nearest_preset == preset else f"preset {nearest_preset}: "
    return f"{asked}{facts['trials']} trials in {facts['seconds']} s ({facts['device']}; measured for this package)"


def final_metrics(result: Result) -> list[dict[str, Any]]:
    """The last value of each metric, arm by arm: median, lowest and highest over seeds."""
    arms: dict[str, list[Any]] = {}
    for record in result.records:
        arms.setdefault(record.arm, []).append(record)
    rows = []
    for arm, records in arms.items():
        for name in records[0].names():
            values = [record.final(name) for record in records if name in record.names()]
            low, middle, high = np.quantile(values, [0, 0.5, 1])
            rows.append(
                {"arm": arm, "metric": name, "median": middle, "lowest": low, "highest": high, "seeds": len(values)}
            )
    return rows


def result(result: Result, seconds: float, as_json: bool, flags: str = "") -> None:
    """`flags` are those with which a figure command finds the same trials."""
    rows = final_metrics(result)
    statuses = [record.status for record in result.records]
    if as_json:
        columns = ("digest", "arm", "seed", "status")
        trials = [
            {name: getattr(record, name) for name in columns} | {"stale": is_stale(record, result.experiment)}
            for record in result.records
        ]
        data = {"experiment": result.experiment.name, "stale": result.stale, "trials": trials, "final": rows}
        print(json.dumps(data, indent=1))
        return
    print(f"{result.experiment.name}: {len(statuses)} trials in {seconds:.1f} s")
    for status in sorted(set(statuses) - {"finished"}):
        print(f"  {statuses.count(status)} {status}")
    if result.stale:
        print(f"  {words(result.stale, len(statuses))}")
    width = max((len(row["metric"]) for row in rows), default=0)
    arm = None
    for row in rows:
        if row["arm"] != arm:
            arm = row["arm"]
            count = "1 seed" if row["seeds"] == 1 else f"{row['seeds']} seeds"
            print(f"  {arm or 'final values'} (median over {count}, lowest to highest)")
        print(f"    {row['metric']:{width}}  {row['median']:<10.4g} {row['lowest']:.4g} .. {row['highest']:.4g}")
    figures = [f"{figure.paper}/{figure.id}" for figure in result.experiment.figures]
    if figures:
        print(f"  figures: {', '.join(f'stairwise figure {name} {flags}'.rstrip() for name in figures)}")
