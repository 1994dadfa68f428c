"""What `stairwise run` says before and after: the plan, and the results over seeds."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.api import Result
from stairwise.lab.contract import Experiment, Trial
from stairwise.lab.store import Store


def dry_run(experiment: Experiment, preset: str, trials: Sequence[Trial], store: Store, as_json: bool) -> int:
    """How many trials and programs, how many are stored, and what the stored trials of this experiment cost."""
    missing = [trial for trial in trials if not store.has(trial)]
    cost = [record.run["timing"]["seconds_per_trial"] for record in store.glance(experiment.name)]
    plan = {
        "experiment": experiment.name,
        "preset": preset,
        "trials": len(trials),
        "stored": len(trials) - len(missing),
        "programs": len({trial.program_key for trial in missing}),
        "group on a GPU": experiment.preset(preset).group,
        "seconds a trial last time": round(float(np.median(cost)), 2) if cost else None,
        "predicted hours": experiment.preset(preset).hours,
    }
    if as_json:
        print(json.dumps(plan, indent=1))
    else:
        print("\n".join(f"{name:28} {'unknown' if value is None else value}" for name, value in plan.items()))
    return 0


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


def result(result: Result, seconds: float, as_json: bool) -> None:
    rows = final_metrics(result)
    statuses = [record.status for record in result.records]
    if as_json:
        trials = [{"digest": r.digest, "arm": r.arm, "seed": r.seed, "status": r.status} for r in result.records]
        print(json.dumps({"experiment": result.experiment.name, "trials": trials, "final": rows}, indent=1))
        return
    print(f"{result.experiment.name}: {len(statuses)} trials in {seconds:.1f} s")
    for status in sorted(set(statuses) - {"finished"}):
        print(f"  {statuses.count(status)} {status}")
    width = max((len(row["metric"]) for row in rows), default=0)
    arm = None
    for row in rows:
        if row["arm"] != arm:
            arm = row["arm"]
            print(f"  {arm or 'final values'} (median over {row['seeds']} seeds, lowest to highest)")
        print(f"    {row['metric']:{width}}  {row['median']:<10.4g} {row['lowest']:.4g} .. {row['highest']:.4g}")
    figures = [f"{figure.paper}/{figure.id}" for figure in result.experiment.figures]
    if figures:
        print(f"  figures: {', '.join(f'stairwise figure {name}' for name in figures)}")
