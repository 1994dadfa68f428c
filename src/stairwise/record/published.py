"""What is published: files that are added to, and the store that commands read with --published.

The files are unpacked once into a store in the cache folder, so that every command reads them as it reads its own
trials: a fresh machine draws, judges and queries what was measured on a large one.
"""

import hashlib
import logging
import os
import re
import shutil
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from stairwise.config import ConfigError, as_flags, short
from stairwise.lab import registry
from stairwise.lab.api import Result, seed_list
from stairwise.lab.run.execute import cache_folder
from stairwise.lab.store.entries import new_id
from stairwise.lab.store.files import explained, remove, render, replace_file, scratch_name, seal
from stairwise.lab.store.index import LARGEST_SEGMENT, MOST_PROCESSES, WORTH_WRITING
from stairwise.lab.store.store import Store
from stairwise.lab.store.trial import DESCRIPTION, encode_files
from stairwise.lab.worker import leave_with_the_caller, unheard_by_children
from stairwise.record import archive

NAME = re.compile(r"\w+(/[\w+-][\w.+-]*)?")
MEASUREMENTS = Path(__file__).parent / "measurements"
JUDGED = "gpu"  # the preset whose published trials are judged and drawn unless another is asked for
MOST_METRICS, MOST_ARRAYS = 11_000_000, 8_000_000  # bytes of all files


def files(name: str | None = None) -> list[Path]:
    """The runs of a paper or an experiment, or all, in the order of their names."""
    if name is not None and not NAME.fullmatch(name):
        raise ConfigError(f"target={short(name)} must be PAPER or PAPER/EXPERIMENT")
    return sorted((MEASUREMENTS / (name or "")).rglob("*.parquet"))


def add(
    target: str,
    preset: str,
    *,
    seeds: int | None = None,
    store: Store | str | None = None,
    changes: Mapping[str, Any] | None = None,
    note: str = "",
    arrays: str = "first",
    to: Path | None = None,
) -> Path:
    """Publish the stored trials of a preset, all of them or none; nothing that is published is ever changed.

    What is published already, to the last number, is not written twice: the path is that of the old file.
    """
    experiment = registry.experiment(target)
    trials = experiment.trials(preset, seed_list(seeds), changes or {})
    to = to or MEASUREMENTS
    opened = store if isinstance(store, Store) else Store.open(store, create=False)
    missing = [trial.label for trial in trials if not opened.has(trial)]
    if missing:
        raise ConfigError(f"{len(missing)} of {len(trials)} trials are not in the store {opened.root}: {missing[0]}")
    folder = to / experiment.paper / experiment.id
    there = {int(number): path for path in folder.glob(f"{preset}-*.parquet")
             if (number := path.stem.removeprefix(f"{preset}-")).isdecimal()}  # fmt: skip
    path = folder / f"{preset}-{1 + max(there, default=0)}.parquet"
    told = {
        "experiment": experiment.name,
        "preset": preset,
        "written": datetime.now(UTC).date().isoformat(),
        "command": f"stairwise run {experiment.name} --preset {preset}{as_flags(changes or {})}",
        "note": note,
    }
    records = [opened.read(trial) for trial in trials]
    known = {name for record in records for name in record.arrays()}
    if arrays not in archive.MODES and (unknown := [name for name in arrays.split(",") if name not in known]):
        modes, names = ", ".join(archive.MODES), ", ".join(sorted(known)) or "it has none"
        raise ConfigError(f"arrays={short(unknown[0])} must be one of {modes}, or names of arrays ({names})")
    measured, kept = archive.encode(told, records, arrays=arrays)
    for old in there.values():
        if archive.same(old, [trial.digest for trial in trials], note, measured, kept):
            return old
    _check_size("metrics", (".parquet",), len(measured), MOST_METRICS, to)
    _check_size("arrays", (archive.PLAIN, archive.PACKED), len(kept), MOST_ARRAYS, to)
    with explained(f"write {path}"):
        folder.mkdir(parents=True, exist_ok=True)
        if kept:
            replace_file(path.with_suffix(archive.PACKED), kept)
        replace_file(path, measured)
    return path


def listed(name: str | None = None) -> list[dict[str, Any]]:
    """What is published: one entry per run."""
    found = []
    for path in files(name):
        run = archive.about(path)
        beside = archive.beside(path)
        size = path.stat().st_size + (beside.stat().st_size if beside.exists() else 0)
        entry = {"run": f"{run.experiment}/{path.stem}", "trials": len(run.trials), "written": run.written}
        found.append(entry | {"devices": run.devices, "bytes": size, "command": run.command, "note": run.note})
    return found


def _check_size(what: str, suffixes: tuple[str, ...], new: int, most: int, to: Path) -> None:
    there = sum(path.stat().st_size for path in to.rglob("*") if path.name.endswith(suffixes))
    if there + new > most:
        raise ConfigError(f"{what} of the record: {there + new} bytes must be at most {most}")


def store(paths: Iterable[Path] | None = None) -> Store:
    """The published trials as a store, unpacked when first asked for."""
    chosen = list(files() if paths is None else paths)
    seen = hashlib.sha256()
    for path in chosen:
        for part in (path, archive.beside(path)):
            if part.exists():
                seen.update(f"{path.parent.parent.name}/{path.parent.name}/{part.name}".encode())
                seen.update(part.read_bytes())
    root = cache_folder() / "published" / seen.hexdigest()[:16]
    if root.is_dir() and (broken := Store.open(root, create=False).damaged(again=False)):
        logging.getLogger("stairwise").warning("stairwise: %s is damaged; the record is unpacked anew", broken[0][0])
        remove(root)
    if not root.is_dir():
        temporary = root.parent / scratch_name()
        with explained(f"unpack the record into {root}"):
            try:
                _unpack(chosen, temporary)
                os.rename(temporary, root)
            except OSError:
                if not root.is_dir():  # another command has been faster
                    raise
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
    return Store.open(root, create=False)


def _unpack(paths: Sequence[Path], root: Path) -> None:
    """Files of the record as a store in a folder that is new; many trials are written by several processes."""
    runs = {path: archive.about(path) for path in paths}
    last = {(run.experiment, trial["digest"]): path for path, run in runs.items() for trial in run.trials}
    chosen: dict[Path, list[str]] = {}  # of a trial that was published again, what came last
    for (_, digest), path in last.items():
        chosen.setdefault(path, []).append(digest)
    parts = _shared_out(chosen, LARGEST_SEGMENT)
    processes = min(MOST_PROCESSES, os.cpu_count() or 1, len(parts))
    if processes < 2 or not _unpacked_by(processes, parts, root):
        remove(root)
        for part in parts:
            _unpack_part(part, root)
    (root / "runs").mkdir()
    for run in runs.values():  # in the order of their names, which is that of the ids
        _write_run(run, root)


def _unpacked_by(processes: int, parts: Sequence[Mapping[Path, Sequence[str]]], root: Path) -> bool:
    """Whether so many processes have written all parts; not where one of them was ended from outside."""
    pool = ProcessPoolExecutor(processes, get_context("spawn"), initializer=leave_with_the_caller)
    try:
        with unheard_by_children():
            waiting = [pool.submit(_unpack_part, part, root) for part in parts]
        for each in waiting:
            each.result()
        return True
    except BrokenProcessPool:
        return False
    finally:
        pool.shutdown(cancel_futures=True)


def _shared_out(digests: Mapping[Path, Sequence[str]], most: int) -> list[dict[Path, Sequence[str]]]:
    """Parts with about as many digests each, at most about `most`; the largest comes first.

    >>> [sorted(map(str, part)) for part in _shared_out({Path("a"): "12345", Path("b"): "6", Path("c"): "7890"}, 6)]
    [['a'], ['b', 'c']]
    """

    def size(part: Mapping[Path, Sequence[str]]) -> int:
        return sum(map(len, part.values()))

    parts: list[dict[Path, Sequence[str]]] = [{} for _ in range(max(1, -(-size(digests) // most)))]
    for path in sorted(digests, key=lambda path: -len(digests[path])):
        min(parts, key=size)[path] = digests[path]
    return sorted(parts, key=size, reverse=True)


def _unpack_part(chosen: Mapping[Path, Sequence[str]], root: Path) -> None:
    """The chosen trials of some files; many are entered in the index as they are written."""
    (root / "trials").mkdir(parents=True, exist_ok=True)
    written = (trial for path, digests in chosen.items() for trial in _unpacked(path, set(digests), root))
    if sum(map(len, chosen.values())) >= WORTH_WRITING:
        Store(root).index().enter_written(written)
    else:
        deque(written, maxlen=0)


def _unpacked(path: Path, digests: Set[str], root: Path) -> Iterator[tuple[Path, dict[str, bytes], Any]]:
    """Writes trials of a file one by one; yields the folder of each, its files and what it measured."""
    run = archive.about(path)
    name = f"{run.experiment}/{path.stem}"
    for trial, (outcome, measured) in zip(run.trials, archive.outcomes(path, run), strict=True):
        if trial["digest"] in digests:
            description = render({key: trial[key] for key in DESCRIPTION})
            folder = root / "trials" / run.experiment / trial["digest"]
            folder.mkdir(parents=True, exist_ok=True)
            files = encode_files(description, outcome, measured, archive.made(trial, run, name))
            for file, data in files.items():
                (folder / file).write_bytes(data)
            yield folder, files, measured


def _write_run(run: archive.Run, root: Path) -> None:
    record = {"experiment": run.experiment, "preset": run.preset, "command": run.command}
    timing = [trial["run"].get("timing", {}) for trial in run.trials]
    record |= {"trials": [trial["digest"] for trial in run.trials]}
    record |= {"started": min((t.get("started", 0.0) for t in timing), default=0.0)}
    record |= {"seconds": sum(t.get("seconds_per_trial", 0.0) for t in timing), "format": 1}
    id = new_id()
    (root / "runs" / f"{id}.json").write_bytes(seal({**record, "id": id}))


def published(target: str, preset: str | None = None) -> Result:
    """The published trials of an experiment, or of the one that owns a figure: `sw.published("lego/length")`.

    With several presets in the record, the one asked for; else the judged one (`gpu`), or the largest.
    """
    experiment = registry.experiment(target)
    found = files(experiment.name)
    if not found:
        known = ", ".join(sorted({f"{path.parent.parent.name}/{path.parent.name}" for path in files()})) or "nothing"
        raise ConfigError(f"{experiment.name} is not in the record (which has {known})")
    presets = [archive.about(path).preset for path in found]
    if preset is not None and preset not in presets:
        raise ConfigError(f"preset={preset} must be one of {', '.join(dict.fromkeys(presets))} ({experiment.name})")
    wanted = preset or (JUDGED if JUDGED in presets else max(presets, key=list(experiment.presets).index))
    opened = store()
    digests = [
        trial["digest"]
        for path, found_preset in zip(found, presets, strict=True)
        if found_preset == wanted
        for trial in archive.about(path).trials
    ]
    places = {digest: place for place, digest in enumerate(digests)}  # the preset's order: figures read the first arm
    records = [record for record in opened.trials(experiment) if record.digest in places]
    records.sort(key=lambda record: places[record.digest])
    figure = target.partition("/")[2]
    return Result(experiment, records, figure if figure in {each.id for each in experiment.figures} else None)
