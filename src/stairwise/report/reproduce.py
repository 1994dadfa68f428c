"""`stairwise reproduce`: the main job, from nothing to a page that a person wants to look at."""

import time
from pathlib import Path

from stairwise.lab import api, registry
from stairwise.lab.config import ConfigError
from stairwise.lab.progress import for_terminal
from stairwise.lab.store import Store
from stairwise.lab.verify import verify
from stairwise.lab.worker import in_worker
from stairwise.report import text
from stairwise.report.ahead import Ahead
from stairwise.report.site.build import build
from stairwise.report.site.folder import check_free


def reproduce(root: str | None, out: Path, *, everything: bool) -> int:
    """Run, draw, check, report; what is stored already is not done again. Exit status 1 if a claim fails."""
    began = time.monotonic()
    check_free(out)
    store = Store.open(root)
    wanted = [
        (experiment, [figure for figure in experiment.figures if everything or figure.headline])
        for paper in registry.papers()
        for experiment in paper.experiments
    ]
    chosen = [(experiment, figures) for experiment, figures in wanted if figures or everything]
    ahead = Ahead([experiment.name for experiment, _ in chosen], str(store.root))
    for index, (experiment, figures) in enumerate(chosen):
        print(f"== {experiment.name}: {experiment.says}", flush=True)
        ahead.take(index)
        try:
            result = api.run(experiment, "quick", store=store, progress=for_terminal())
        except ConfigError as error:  # it needs something that is not here, such as a data set
            print(f"   skipped: {error}", flush=True)
            continue
        for figure in figures:
            path = out / f"{experiment.paper}-{figure.id}.pdf"
            api.save_figure(result.figure(figure.id), path)
            print(f"   {path}: {figure.caption}", flush=True)
    ahead.end()
    print("== claims", flush=True)
    tier = "minutes" if everything else "instant"
    rows = in_worker(
        lambda stop: list(verify(tier=tier, run=everything, store=store, progress=for_terminal(), stop=stop))
    )
    text.ledger_table(rows)
    page = build(store, out, progress=for_terminal())
    print(f"\n{page} is the report; {time.monotonic() - began:.0f} s in all")
    return 1 if any(row.verdict.status == "fails" for row in rows) else 0
