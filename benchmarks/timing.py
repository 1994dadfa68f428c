"""What benchmarks share: repeats with spread, and a table that is also JSON."""

import json
import statistics
import time
from collections.abc import Callable


def repeat(work: Callable[[], object], times: int = 5) -> list[float]:
    """Seconds of each of several calls, after one that warms up."""
    work()
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return taken


def row(name: str, seconds: list[float], per: int, reference: list[float] | None = None) -> dict:
    """Milliseconds a step (median and range), and how many times faster than the reference."""
    steps = [1e3 * value / per for value in seconds]
    made = {"name": name, "ms": statistics.median(steps), "lowest": min(steps), "highest": max(steps)}
    if reference is not None:
        made["ratio"] = statistics.median(reference) / made["ms"]
        made["ratio lowest"] = min(reference) / made["highest"]
    return made


def show(title: str, rows: list[dict], facts: dict) -> None:
    print(title)
    for made in rows:
        ratio = f"{made['ratio']:7.1f}x (at least {made['ratio lowest']:.1f}x)" if "ratio" in made else ""
        print(f"  {made['name']:44} {made['ms']:9.3f} ms a step [{made['lowest']:.3f}, {made['highest']:.3f}] {ratio}")
    print(json.dumps({"title": title, "rows": rows, **facts}))
