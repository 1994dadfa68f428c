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
from stairwise.report.site.build import build


def reproduce(root: str | None, out: Path, *, everything: bool) -> int:
    """Run, draw, check, report; what is stored already is not done again. Exit status 1 if a claim fails."""
    began = time.monotonic()
    store = Store.open(root)
    out.mkdir(parents=True, exist_ok=True)
    for paper in registry.papers():
        for experiment in paper.experiments:
            chosen = [figure for figure in experiment.figures if everything or figure.headline]
            if not chosen and not everything:
                continue
            print(f"== {experiment.name}: {experiment.says}", flush=True)
            try:
                result = api.run(experiment, "quick", store=store, progress=for_terminal())
            except ConfigError as error:  # it needs something that is not here, such as a data set
                print(f"   skipped: {error}", flush=True)
                continue
            for figure in chosen:
                path = out / f"{paper.id}-{figure.id}.pdf"
                api.save_figure(result.figure(figure.id), path)
                print(f"   {path}: {figure.caption}", flush=True)
    print("== claims", flush=True)
    tier = "minutes" if everything else "instant"
    rows = in_worker(
        lambda stop: list(verify(tier=tier, run=everything, store=store, progress=for_terminal(), stop=stop))
    )
    text.ledger_table(rows)
    page = build(store, out, progress=for_terminal())
    print(f"\n{page} is the report; {time.monotonic() - began:.0f} s in all")
    return 1 if any(row.verdict.status == "fails" for row in rows) else 0
