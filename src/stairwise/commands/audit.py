"""`stairwise audit`: how many mutants of formulas were killed, by paper and strength, and which were not."""

import argparse
from collections.abc import Sequence

from stairwise.commands import flags
from stairwise.config import ConfigError
from stairwise.lab.contract.experiment import check_seed
from stairwise.lab.contract.manifest import built_in, check_name
from stairwise.lab.ledger import audit, audited
from stairwise.lab.progress import for_terminal
from stairwise.lab.run.execute import cache_folder
from stairwise.terminal import open_console, print_json, print_table


def add_flags(command: argparse.ArgumentParser) -> None:
    flags.add_json(command)
    command.add_argument(
        "targets",
        nargs="*",
        metavar="PAPER[/CLAIM]",
        help="papers or claims, also as a pattern: 'lego/thm4.1*' (default: all)",
    )
    command.add_argument("--minutes", action=flags.Decimal, default=10.0, help="how long to try mutants (default: 10)")
    flags.add_jobs(command)
    command.add_argument("--strength", help="only claims of this strength: exact, inequality or rate")
    command.add_argument("--sample", action=flags.Whole, metavar="N", help="at most N mutants, drawn by --seed")
    command.add_argument(
        "--seed", action=flags.Whole, default=0, help="seed of the order in which mutants are tried (default: 0)"
    )
    command.add_argument("--fresh", action="store_true", help="try mutants again that were tried before")
    command.add_argument(
        "--keep",
        action="store_true",
        help="write the results beside the papers, and docs/audit.md (in a clone)",
    )


def act(options, fields) -> int:
    for target in options.targets:
        check_name(target, "claims")
    check_seed(options.seed)
    asked = {"minutes": options.minutes, "jobs": options.jobs, "sample": options.sample, "seed": options.seed}
    cache = None if options.fresh else cache_folder() / "audit.json"
    claims = audit.auditable(options.targets, options.strength)
    papers = {claim.paper for claim in claims}
    if options.keep and (cache is None or not papers <= set(built_in())):
        raise ConfigError("--keep writes what is known of papers of this package: leave out --fresh and plug-ins")
    kept = {} if options.fresh else audited.outcomes(papers)
    trials = list(audit.audit(claims, **asked, cache=cache, kept=kept, progress=for_terminal()))
    if options.json:
        print_json(audit.as_dicts(trials))
    else:
        print_outcomes(trials)
    if options.keep:
        assert cache is not None
        for paper in sorted(papers):
            audited.keep(paper, cache)
        audited.write_page()
    return 1 if audit.below_bar(trials) else 0


def print_outcomes(trials: Sequence[audit.MutantResult]) -> None:
    """A table of counts, then every mutant that no claim has noticed."""
    console = open_console()
    rows = []
    for (paper, strength), row in audit.counts(trials).items():
        judged = row["killed"] + row["survived"] + row["masked"]
        share = f"{row['killed'] / judged:.0%}" if judged else ""
        rows.append([paper, strength, *(row[outcome] for outcome in audit.OUTCOMES), share])
    columns = ["paper", "strength", *audit.OUTCOMES, "killed of judged"]
    print_table(console, columns, rows, right=columns[2:])
    missed = [trial for trial in trials if trial.outcome in ("survived", "masked")]
    if missed:
        console.print("\nnot noticed:")
    for trial in sorted(missed, key=str):
        console.print(f"  {trial.operator:10} {trial}{f'  ({trial.note})' if trial.note else ''}")
    for line in audit.below_bar(trials):
        console.print(f"below the bar: {line}")
