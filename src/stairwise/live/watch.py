"""`sw.watch`: a run or a sweep from Python, with a page that shows it."""

from collections.abc import Mapping, Sequence
from typing import Any

from stairwise.lab import api
from stairwise.lab.contract.experiment import Experiment, Figure
from stairwise.lab.progress import Silent
from stairwise.lab.store.store import Store
from stairwise.lab.sweep import SweepRequest, sweep


def watch(
    target: str | Experiment | Figure,
    preset: str = "quick",
    seeds: int | Sequence[int] | None = None,
    changes: Mapping[str, Any] | None = None,
    *,
    grid: Mapping[str, Any] | None = None,
    store: Store | str | None = None,
    port: int = 0,
    show: bool = True,
    progress: Silent | None = None,
    **options: Any,
) -> api.Result:
    """As `sw.run`, or with a `grid` as `sw.sweep`, and a page that shows curves and maps while it trains.

    The address of the page is printed, and opened in a browser where there is a screen and `show` is left on. It is
    served, to this machine only, until the process ends.
    """
    from stairwise.live.command import watched

    opened = store if isinstance(store, Store) else Store.open(store)
    chosen = {name: options.get(name) for name in ("shard", "group")}
    if grid:
        request = SweepRequest.of(target, grid, preset, seeds, changes, **chosen)
    else:
        request = api.RunRequest.of(target, preset, seeds, changes, model=options.get("model"), **chosen)
    how = {"fresh": options.get("fresh", False), "port": port, "show": show, "stay": True}
    with watched(progress or Silent(), opened, request, **how) as display:
        common = {"store": opened, "progress": display, **options}
        if grid:
            return sweep(target, grid, preset, seeds, changes, **common)
        return api.run(target, preset, seeds, changes, **common)
