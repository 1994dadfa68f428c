"""`stairwise falsify`: a search for counterexamples, one block each, with the command that reproduces its point."""

import argparse

from stairwise.commands import flags
from stairwise.lab.contract.experiment import check_seed
from stairwise.lab.contract.manifest import check_name
from stairwise.lab.ledger import falsify
from stairwise.lab.ledger.searching.findings import Falsification, Finding
from stairwise.lab.progress import for_terminal
from stairwise.lab.store.store import Store
from stairwise.terminal import open_console, print_json

WORDS = {
    "counterexample": "the conclusion is false",
    "none found": "no counterexample found",
    "none in the whole space": "no counterexample in the whole space",
    "nothing to look at": "no point was judged",
}
LONGER = "  give a point more time with --limit, and the search with --minutes"


def add_flags(command: argparse.ArgumentParser) -> None:
    flags.add_json(command)
    command.add_argument("claim", metavar="PAPER/CLAIM", help="the claim, such as selection/lemA3")
    command.add_argument("--minutes", action=flags.Decimal, default=5.0, help="how long to search (default: 5)")
    command.add_argument(
        "--drop",
        metavar="HYPOTHESIS",
        help="search only where this hypothesis is broken; '' searches only inside all of them",
    )
    flags.add_jobs(command)
    command.add_argument(
        "--limit", action=flags.Decimal, default=20.0, help="seconds that one point may take (default: 20)"
    )
    command.add_argument(
        "--points", action=flags.Whole, metavar="N", help="end each search after N points (default: no limit)"
    )
    command.add_argument("--seed", action=flags.Whole, default=0, help="seed of the search (default: 0)")
    command.add_argument("--fresh", action="store_true", help="start again, even where the same search is stored")


def act(options, fields) -> int:
    check_name(options.claim, "claims")
    check_seed(options.seed)
    asked = {"minutes": options.minutes, "jobs": options.jobs, "limit": options.limit, "points": options.points}
    falsify.check(**asked)
    claim = falsify.claim_of(options.claim)
    chosen = {
        "drop": options.drop,
        "seed": options.seed,
        "store": Store.open(options.store, create=False),
        "fresh": options.fresh,
    }
    found = falsify.falsify(claim, **asked, **chosen, progress=for_terminal())
    if options.json:
        print_json(found.as_dict())
    else:
        show(found)
    return found.exit_status


def show(found: Falsification) -> None:
    console = open_console()
    console.print(f"{found.claim} ({found.kind}): {'; '.join(found.space)}")
    for each in found.findings:
        where = f"without {each.dropped}" if each.dropped else "inside the hypotheses"
        more = f", {each.stopped} took too long" if each.stopped else ""
        points = f"{each.judged} of {each.looked_at} points judged{more}, {each.seconds:.1f} s"
        console.print(f"\n{where}: {WORDS[each.outcome]} ({points})")
        if each.command:
            console.print(f"  {_measured(each)}\n  {each.command}")
        if each.note:
            console.print(f"  {each.note}")
        if each.stopped and not each.judged:
            console.print(LONGER)
        if each.raised:
            console.print(f"  a check raised: {each.raised}")
    if found.counterexample is not None:
        known = "as expected: it is known to be false" if found.expected else "it should hold"
        console.print(f"\n{found.claim} is false inside its hypotheses; {known}")


def _measured(found: Finding) -> str:
    text = f"{found.quantity} {found.measured:.4g}  required {found.required:.4g}"
    none = found.log_margin is None or abs(found.log_margin) >= 700
    return text if none else f"{text}  log-margin {found.log_margin:.3g}"
