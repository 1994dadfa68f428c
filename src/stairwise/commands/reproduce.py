"""`stairwise reproduce`: the main job, from nothing to a page that a person wants to look at."""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from stairwise.commands.background import SecondProcess
from stairwise.commands.verify import ledger_table
from stairwise.config import ConfigError
from stairwise.lab import api, registry
from stairwise.lab.contract.verdict import STATUSES
from stairwise.lab.ledger.asked import VerifyRequest
from stairwise.lab.ledger.verify import LedgerRow, exit_status, perform_verify
from stairwise.lab.progress import for_terminal
from stairwise.lab.store import provenance
from stairwise.lab.store.store import Store
from stairwise.lab.worker import in_worker
from stairwise.report.site.build import build
from stairwise.report.site.folder import check_free
from stairwise.words import counted

LOOK_AT = ("fails", "not-reproduced")
MOST_CHECKING = 4  # processes that share the claims; each takes up to two gigabytes


def add_flags(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--all", action="store_true", help="run every quick preset, and check the claims that take minutes too"
    )
    command.add_argument("-o", "--out", default="report", help="folder to write to (default: report)")


def act(options, fields) -> int:
    """Run, draw, check, report; what is stored already is not done again. The exit status is that of `verify`."""
    began, out, everything = time.monotonic(), Path(options.out), options.all
    check_free(out)
    store = Store.open(options.store)
    wanted = [
        (experiment, [figure for figure in experiment.figures if everything or figure.headline])
        for paper in registry.papers()
        for experiment in paper.experiments
    ]
    chosen = [(experiment, figures) for experiment, figures in wanted if figures or everything]
    tier = "minutes" if everything else "instant"
    request = VerifyRequest.of(tier=tier, jobs=min(provenance.machine()["cores"], MOST_CHECKING))
    checks = [each.claim.name for each in request.claims if each.claim.check is not None and request.due(each)]
    running, shown = ([experiment.name for experiment, _ in each] for each in (chosen, wanted))
    second = SecondProcess(running, str(store.root), checks, record=shown)
    for index, (experiment, figures) in enumerate(chosen):
        print(f"== {experiment.name}: {experiment.says}", flush=True)
        second.take(index)
        try:
            result = api.run(experiment, "quick", store=store, progress=for_terminal())
        except ConfigError as error:  # it needs something that is not here, such as a data set
            print(f"   skipped: {error}", flush=True)
            continue
        for figure in figures:
            path = out / f"{experiment.paper}-{figure.id}.pdf"
            api.save_figure(result.figure(figure.id), path)
            print(f"   {path}: {figure.caption}", flush=True)
    second.end()
    print("== claims", flush=True)
    asked = {"run": everything, "store": store, "progress": for_terminal()}
    rows = in_worker(lambda stop: list(perform_verify(request, **asked, stop=stop)))
    print_claims(rows)
    page = build(store, out, progress=for_terminal())
    print(f"\n{page} is the report; {time.monotonic() - began:.0f} s in all. Look first at")
    print(f"  {page}: every paper's headline figure, and every claim with what was measured")
    print(f"  {page.with_name('ledger.html')}#status=refuted: what is false as printed, each with its correction")
    print(f"  {page.parent / 'stories' / 'index.html'}: each paper explained screen by screen")
    return exit_status(rows)


def print_claims(rows: Sequence[LedgerRow]) -> None:
    """How many claims of each paper have each status, and those that need a look; the report has them all."""
    by_paper: dict[str, list[str]] = {}
    for row in rows:
        by_paper.setdefault(row.claim.paper, []).append(row.verdict.status)
    widest = max(map(len, by_paper), default=0)
    for paper, found in by_paper.items():
        said = ", ".join(f"{count} {status}" for status, count in counted(found, STATUSES[::-1]).items())
        print(f"   {paper:{widest}}  {said}")
    look = [row for row in rows if row.verdict.status in LOOK_AT or row.unexpected]
    if look:
        print("== claims to look at")
        ledger_table(look)
