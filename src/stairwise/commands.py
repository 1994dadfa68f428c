"""What each command of the command line does: call lab and report, print, return the exit status."""

import shlex
import sys
import time
from pathlib import Path
from typing import Any

from stairwise.lab.config import ConfigError, as_flags


def _reader(options):
    from stairwise.lab.store import Store

    return Store.open(options.store, create=False)


def _print_json(data: Any) -> None:
    from stairwise.report.terminal import print_json

    print_json(data)


def _list(options, fields) -> int:
    from stairwise.lab.manifest import manifests

    if options.claims and not options.name:
        raise ConfigError("--claims needs a paper: stairwise list PAPER --claims")
    if options.json:
        from stairwise.lab import registry
        from stairwise.report.listing import listing

        papers = [registry.paper(options.name)] if options.name else registry.papers()
        _print_json(listing(papers, _reader(options)))
        return 0
    from stairwise.report import catalogue

    found = manifests(options.name)
    if options.find is not None:
        catalogue.found_table(found, options.find)
    elif options.claims:
        catalogue.claims_table(found[0])
    elif options.name:
        catalogue.paper_table(found[0], _reader(options).root)
    else:
        catalogue.papers_table(found)
    return 0


def _run(options, fields) -> int:
    from stairwise.lab import api, registry
    from stairwise.lab.progress import for_terminal
    from stairwise.lab.store import Store
    from stairwise.report import summary

    experiment = registry.experiment(options.target)
    _check_running(options)
    asked = experiment.trials(options.preset, api.seed_list(options.seeds), fields)
    _, trials = api.shard_of(options.shard, asked, options.group or experiment.preset(options.preset).group)
    if options.dry_run:
        chosen = {"group": options.group, "fresh": options.fresh}
        return summary.dry_run(experiment, options.preset, trials, _reader(options), options.json, **chosen)
    store = Store.open(options.store)
    began = time.monotonic()
    command = shlex.join(["stairwise", *sys.argv[1:]])
    result = api.run(
        options.target,
        options.preset,
        options.seeds,
        fields,
        store=store,
        group=options.group,
        shard=options.shard,
        fresh=options.fresh,
        progress=for_terminal(),
        command=command,
        save_every=options.save_every,
    )
    given = {"preset": options.preset if options.preset != "quick" else None, "seeds": options.seeds}
    given |= {"store": options.store} | fields
    flags = [word for name, value in given.items() if value is not None for word in (f"--{name}", str(value))]
    summary.result(result, time.monotonic() - began, options.json, shlex.join(flags))
    return 0


def _check_running(options) -> None:
    if options.group is not None and not 1 <= options.group <= 65536:
        raise ConfigError(f"group={options.group} must lie in 1..65536")
    if not options.save_every >= 0:
        raise ConfigError(f"save-every={options.save_every} must be at least 0")


def _sweep(options, fields) -> int:
    from stairwise.lab import grid as grids
    from stairwise.lab.cluster import Cluster
    from stairwise.lab.progress import for_terminal
    from stairwise.lab.sweep import Request, preview, sweep
    from stairwise.report import sweeps

    _check_running(options)
    grid = grids.from_words(options.grid or [])
    cluster = None
    if options.cluster is not None:
        cluster = Cluster.parse(options.cluster, options.cluster_config, options.cluster_timeout)
    if options.dry_run:
        sharing = {"shard": options.shard, "group": options.group, "progress": for_terminal()}
        request = Request.of(options.target, grid, options.preset, options.seeds, fields, **sharing)
        chosen = {"group": options.group, "retry_failed": options.retry_failed, "fresh": options.fresh}
        chosen |= {"progress": for_terminal()}
        found = preview(request, _reader(options), workers=cluster.workers if cluster else None, **chosen)
        script = cluster.job_script() if cluster is not None and cluster.kind == "slurm" else None
        sweeps.plan(found, script, as_json=options.json)
        return 0
    began = time.monotonic()
    result = sweep(
        options.target,
        grid,
        options.preset,
        options.seeds,
        fields,
        store=options.store,
        shard=options.shard,
        group=options.group,
        retry_failed=options.retry_failed,
        fresh=options.fresh,
        best=options.best,
        cluster=options.cluster,
        cluster_config=options.cluster_config,
        cluster_timeout=options.cluster_timeout,
        writer=options.writer,
        save_every=options.save_every,
        progress=for_terminal(),
        command=shlex.join(["stairwise", *sys.argv[1:]]),
    )
    sweeps.summary(result, time.monotonic() - began, as_json=options.json)
    again = options.fresh and result.stale  # what should have been run again has failed, and the old trial stays
    return 1 if result.statuses["failed"] or again else 0


def _query(options, fields) -> int:
    from stairwise.lab import stale
    from stairwise.lab.progress import for_terminal
    from stairwise.lab.query import query
    from stairwise.report import sweeps

    if options.json and options.csv:
        raise ConfigError("json and csv exclude each other")
    made_by: list[Any] = []
    found = query(_reader(options), options.sql, for_terminal(), made_by)
    sweeps.answer(found, "json" if options.json else "csv" if options.csv else "table")
    stale.warn(*stale.of_counts(made_by), "stairwise run --fresh runs them again")
    return 0


def _gc(options, fields) -> int:
    from stairwise.lab.tidy import clean, foreign, litter
    from stairwise.report import sweeps

    store = _reader(options)
    found = litter(store)
    sweeps.litter(found, foreign(store), store.root)
    if not found:
        return 0
    if not options.yes:
        if not sys.stdin.isatty():
            print("nothing was removed: --yes removes them")
            return 0
        if input("remove them? [y/N] ").strip().lower() not in ("y", "yes"):
            print("nothing was removed")
            return 0
    clean(found)
    print("removed")
    return 0


def _verify(options, fields) -> int:
    from stairwise.lab.manifest import check_name, manifests
    from stairwise.lab.progress import for_terminal
    from stairwise.lab.store import Store
    from stairwise.lab.verify import unchecked, verify
    from stairwise.lab.worker import in_worker
    from stairwise.report import text

    for target in options.targets:
        check_name(target, "claims")
    _check_seed(options.seed)
    presets = {name: None for paper in manifests() for each in paper["experiments"] for name in each["presets"]}
    if options.preset not in presets:
        raise ConfigError(f"preset={options.preset} must be one of {', '.join(presets)}")
    asked = {"tier": options.tier, "preset": options.preset}
    # bad input is refused here, before the store is made
    planned = list(verify(options.targets, fields, **asked, shard=options.shard, plan_only=True))
    if options.dry_run and options.json:
        _print_json([row.as_dict() for row in planned])
        return 0
    if options.dry_run:
        text.claims_table(list({row.claim.name: row.claim for row in planned}.values()))
        for row in planned:
            if row.verdict.note:
                print(f"{row.claim.name}: {row.verdict.note}")
        print(f"{len(planned)} checks, none of which was run")
        return 0
    store = Store.open(options.store)
    rows = in_worker(
        lambda stop: list(
            verify(
                options.targets,
                fields,
                **asked,
                shard=options.shard,
                run=options.run,
                fresh=options.fresh,
                seed=options.seed,
                store=store,
                progress=for_terminal(),
                stop=stop,
            )
        )
    )
    if options.json:
        _print_json([row.as_dict() for row in rows])
    else:
        text.ledger_table(rows, details=options.details)
        if options.shard is not None:
            left = unchecked(options.targets, fields, **asked, seed=options.seed, store=store)
            print(f"shard {options.shard}: {left} checks of the whole request have no verdict in this store yet")
    return 1 if any(row.verdict.status == "fails" for row in rows) else 0


def _check_seed(seed: int) -> None:
    if not 0 <= seed < 2**32:
        raise ConfigError(f"seed={seed} must lie in 0..4294967295")


def _figure(options, fields) -> int:
    from stairwise.lab import api, registry, stale
    from stairwise.lab.files import output_file
    from stairwise.lab.progress import for_terminal
    from stairwise.lab.store import Store

    if options.fresh and not options.run:
        raise ConfigError("--fresh needs --run: without it a figure is drawn from what is stored")
    figure = registry.figure(options.target)
    out = output_file("out", options.out or f"{figure.id}.pdf", (".pdf", ".svg", ".png"))
    experiment = registry.experiment(figure)
    trials = experiment.trials(options.preset, api.seed_list(options.seeds), fields)
    if options.run:
        asked = {"fresh": options.fresh, "command": shlex.join(["stairwise", *sys.argv[1:]])}
        api.run(figure, options.preset, options.seeds, fields, store=options.store, progress=for_terminal(), **asked)
    store = Store.open(options.store, create=False)
    there = [trial for trial in trials if store.has(trial)]
    missing = len(trials) - len(there)
    if missing and not (options.so_far and there):
        chosen = {"seeds": options.seeds} if options.seeds is not None else {}
        hint = f"stairwise figure {options.target} --preset {options.preset}{as_flags(chosen | fields)} --run"
        raise ConfigError(f"{missing} of {len(trials)} trials of {experiment.name} are not in the store: {hint}")
    records = [store.read(trial) for trial in there]
    api.save_figure(api.draw(figure, records, missing), out)
    print(out)
    stale.warn(stale.count(records, experiment), len(records), "--run --fresh runs them again")
    return 0


def _runs(options, fields) -> int:
    from stairwise.lab.progress import for_terminal
    from stairwise.report import text
    from stairwise.report.listing import Filter

    store = _reader(options).snapshot()
    chosen = Filter.of(options.name, options.preset, options.status, options.where, options.since, options.last)
    trials = options.trials or chosen.of_trials
    if trials and chosen.preset is not None:
        raise ConfigError(f"preset={chosen.preset} selects runs; --trials, --status and --where select trials")
    chosen.check(store)
    store.index().refresh(for_terminal())
    if options.json:
        _print_json(text.runs_listing(store, chosen, trials=trials))
    else:
        (text.trials_table if trials else text.runs_table)(store, chosen)
    return 0


def _show(options, fields) -> int:
    from stairwise.report import text

    text.show(_reader(options).find(options.id), _reader(options), as_json=options.json)
    return 0


def _diff(options, fields) -> int:
    from stairwise.report import text

    store = _reader(options)
    text.diff(store.find(options.a), store.find(options.b), store, as_json=options.json)
    return 0


def _report(options, fields) -> int:
    from stairwise.report.site.command import report

    return report(_reader(options), Path(options.out), show=options.open, serve=options.serve, port=options.port)


def _reproduce(options, fields) -> int:
    from stairwise.report.reproduce import reproduce

    return reproduce(options.store, Path(options.out), everything=options.all)


def _export(options, fields) -> int:
    from stairwise.lab import registry
    from stairwise.lab.config import update

    if "/" in options.target:  # what is wrong with the request is said before JAX is imported
        update(registry.construction(options.target).Config(), fields)
    from stairwise.interop.weights import export

    about = export(options.target, options.out, options.format, seed=options.seed, changes=fields, store=options.store)
    if options.json:
        _print_json(about)
    else:
        source = about.get("construction") or f"{about['experiment']} {about['digest']}"
        print(f"{options.out}: {about['model'].rpartition('.')[2]} of {source}, seed {about['seed']}")
    return 0


def _entropy(options, fields) -> int:
    from stairwise.lab.progress import for_terminal
    from stairwise.report import entropy

    problems, layers = entropy.check(options)
    found = entropy.measured(options, problems, layers, for_terminal())
    rows = entropy.summary(found, options.model)
    facts = entropy.facts(options, found)
    if options.out:
        entropy.write(Path(options.out), found, rows, facts)
    if options.json:
        _print_json(facts | {"comparisons": rows})
    else:
        entropy.print_summary(rows, len(problems))
    if options.figure:
        entropy.draw(Path(options.figure), found, options.model, layers)
    return 0


def _data(options, fields) -> int:
    from stairwise.report import datasets

    return datasets.data(options, fields)


def _eval(options, fields) -> int:
    from stairwise.report import datasets

    return datasets.evaluate(options, fields)


def _new_paper(options, fields) -> int:
    from stairwise.skeleton.write import id_of, new_paper

    folder = new_paper(options.name, options.into, options.title)
    place = shlex.quote(str(folder))
    print(f"{folder} holds a paper that works as it stands; every file says what to change in it. Next:")
    for command in (f"pip install -e {place}", f"python -m pytest {place}", f"stairwise verify {id_of(options.name)}"):
        print(f"  {command}")
    return 0


def _bench(options, fields) -> int:
    from stairwise.bench.command import bench

    return bench(options)


def _cite(options, fields) -> int:
    from stairwise.lab.manifest import manifests
    from stairwise.report.catalogue import bibtex

    print(bibtex(None if options.name is None else manifests(options.name)[0]))
    return 0


def _doctor(options, fields) -> int:
    from stairwise.report.doctor import doctor

    return doctor(options.store, as_json=options.json)


COMMANDS = {
    "list": _list,
    "run": _run,
    "sweep": _sweep,
    "verify": _verify,
    "figure": _figure,
    "runs": _runs,
    "show": _show,
    "diff": _diff,
    "report": _report,
    "reproduce": _reproduce,
    "export": _export,
    "data": _data,
    "eval": _eval,
    "entropy": _entropy,
    "query": _query,
    "gc": _gc,
    "new-paper": _new_paper,
    "bench": _bench,
    "cite": _cite,
    "doctor": _doctor,
}
