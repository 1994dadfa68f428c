"""A stored trial: the four files of its folder, how they are made and how they are read back.

config.json           which trial this is: experiment, version, config, seed, arm, the digests of what it started from
metrics.parquet       what was measured, in long form: stage, step, name, value
arrays.safetensors    named arrays
run.json              how it ended and how it was made, the sha256 of the other three, and its own

The first three are functions of trial and outcome alone, byte for byte; what varies from run to run (timing, device)
is in run.json. Loading executes no code, and nothing is believed before its digest agrees.
"""

import dataclasses
import hashlib
import io
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stairwise.config import ConfigError, from_dict, stored_dict
from stairwise.lab.contract.experiment import Experiment, Trial, digest_of
from stairwise.lab.store.files import (
    Damaged,
    StoreError,
    check_format,
    decode_arrays,
    encode_arrays,
    file_size,
    parse,
    read_file,
    read_sealed,
    render,
    seal,
    unseal,
)
from stairwise.train.stage import Outcome

if TYPE_CHECKING:
    import pyarrow

FORMAT = 1
RECENT_BYTES = 96 * 2**20  # of measurements that are kept in memory
FAILED = "failed"  # the status of a trial that raised: a record, but not a result
CONFIG, METRICS, ARRAYS, RUN = "config.json", "metrics.parquet", "arrays.safetensors", "run.json"
# the fields of run.json that the store writes itself
RESERVED = ("format", "status", "message", "files", "seal")
DESCRIPTION = {"experiment": str, "version": int, "config": dict, "seed": int, "arm": str, "needs": dict}
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}/[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}")


def encode_trial(trial: Trial, outcome: Outcome, run: Mapping[str, Any]) -> dict[str, bytes]:
    """The four files, by name. `run` says how the trial was made: versions, device, cores, timing, source hash."""
    return encode_files(describe(trial), outcome, _measured(outcome), run)


def encode_files(
    description: bytes, outcome: Outcome, measured: "pyarrow.Table", run: Mapping[str, Any]
) -> dict[str, bytes]:
    """The same of a trial that is known by the content of its config.json; its measurements are those in the table."""
    taken = [name for name in RESERVED if name in run]
    if taken:
        raise ValueError(f"run: {', '.join(taken)} cannot be set, the store writes {', '.join(RESERVED)} itself")
    files = {
        CONFIG: description,
        METRICS: _encode_metrics(measured),
        ARRAYS: encode_arrays(outcome.arrays),
    }
    facts = {name: {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)} for name, data in files.items()}
    ending = {"format": FORMAT, "status": outcome.status, "message": outcome.message, "files": facts}
    return {**files, RUN: seal({**run, **ending})}


def describe(trial: Trial) -> bytes:
    """The content of config.json."""
    return render({**trial.identity, "arm": trial.arm})


def _digest(description: Mapping[str, Any]) -> str:
    """The trial's digest, from its description: all of it but the arm, which is a label."""
    return digest_of({name: value for name, value in description.items() if name != "arm"})


def _measured(outcome: Outcome) -> "pyarrow.Table":
    import pyarrow

    columns = {
        "stage": pyarrow.array(outcome.stage, pyarrow.string()),
        "step": pyarrow.array(outcome.step, pyarrow.int64()),
        "name": pyarrow.array(outcome.name, pyarrow.string()),
        "value": pyarrow.array(outcome.value, pyarrow.float64()),
    }
    return pyarrow.table(columns)


def _encode_metrics(measured: "pyarrow.Table") -> bytes:
    import pyarrow.parquet

    buffer = io.BytesIO()
    pyarrow.parquet.write_table(measured, buffer, compression="zstd")
    return buffer.getvalue()


@dataclass(eq=False)
class StoredTrial:
    """A trial as figures, judges and tables see it.

    `config` is a Config where the experiment is known, otherwise the same fields as plain attributes; `config_dict`
    is always there. Metrics and arrays are read, and their digests checked, when first asked for; Damaged says which
    file is not as it was written.
    """

    path: Path
    experiment: str
    version: int
    config: Any
    config_dict: dict[str, Any]
    seed: int
    arm: str
    needs: dict[str, str]
    digest: str
    status: str
    run: dict[str, Any]
    last: tuple[tuple[str, ...], tuple[float, ...]] | None = None  # metrics and last values, where an index has them

    def __repr__(self) -> str:
        arm = f" arm {self.arm!r}" if self.arm else ""
        return f"<trial {self.digest[:12]} of {self.experiment}{arm} seed {self.seed}: {self.status}>"

    @classmethod
    def open(cls, path: Path, *, whole: bool = False) -> "StoredTrial":
        """Reads and checks config.json and run.json, and the sizes of the two others; Damaged where they disagree.

        With `whole` every byte of these is read as well. Newer where a later version of the program has written them.
        """
        if not os.path.isdir(path):  # unlike Path.is_dir, never raises
            raise Damaged(path, "is not a trial folder")
        run = read_sealed(path / RUN)
        check_format(path / RUN, run, FORMAT)
        with _believed(path):
            for name in (METRICS, ARRAYS):
                _check_size(path / name, run)
                if whole:
                    _read_checked(path / name, run)
            return cls._described(path, _read_checked(path / CONFIG, run), run)

    @classmethod
    def written(cls, path: Path, files: Mapping[str, bytes]) -> "StoredTrial":
        """The trial whose files have just been written to a folder, from what is in them; nothing is opened."""
        with _believed(path):
            return cls._described(path, files[CONFIG], unseal(files[RUN]))

    @classmethod
    def _described(cls, path: Path, config: bytes, run: dict[str, Any]) -> "StoredTrial":
        description = parse(config)
        stored = cls(
            path=path,
            config=attributes(_is(dict, description["config"])),
            config_dict=description["config"],
            digest=_digest(description),
            status=_is(str, run["status"]),
            run=run,
            **{name: _is(kind, description[name]) for name, kind in DESCRIPTION.items() if name != "config"},
        )
        place = [*stored.experiment.split("/"), stored.digest]
        if place != list(path.parts[-3:]) or not NAME.fullmatch(stored.experiment):
            raise Damaged(path, f"{CONFIG} describes another trial, {stored.experiment} {stored.digest}")
        return stored

    @classmethod
    def entered(
        cls, path: Path, config_dict: dict[str, Any], config: Any, run: dict[str, Any], **fields: Any
    ) -> "StoredTrial":
        """A trial as an index has it; nothing is opened."""
        return cls(path, config=config, config_dict=config_dict, status=run["status"], run=run, **fields)

    def check(self) -> None:
        """Damaged unless every file is as it was written."""
        for name in (CONFIG, METRICS, ARRAYS):
            _read_checked(self.path / name, self.run)

    def of(self, trial: Trial) -> "StoredTrial":
        """The same record with the config and the arm of the trial that asked for it."""
        return dataclasses.replace(self, config=trial.config, arm=trial.arm)

    def typed(self, experiment: Experiment) -> "StoredTrial | None":
        """The same record with a Config; None where the experiment, as it is now, could not ask for this trial."""
        if (self.experiment, self.version) != (experiment.name, experiment.version):
            return None
        try:
            config = from_dict(experiment.Config, self.config_dict)
        except ConfigError:
            return None
        return dataclasses.replace(self, config=config) if stored_dict(config) == self.config_dict else None

    def series(self, name: str, stage: str | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Steps and values of a metric in the order of recording; of one stage, or of all."""
        found = self._columns
        rows = found.name == found.names.get(name, -1)
        if stage is not None:
            rows &= found.stage == found.stages.get(stage, -1)
        if not rows.any():
            where = "" if stage is None else f" in stage {stage}"
            raise StoreError(f"trial {self.digest} did not measure {name}{where} (it has {', '.join(self.names())})")
        return found.step[rows], found.value[rows]

    def every_series(self) -> dict[tuple[str, str], tuple[np.ndarray, np.ndarray]]:
        """By stage and metric, in the order they first appear: its steps and values."""
        found = self._columns
        stages, names = list(found.stages), list(found.names)
        each = found.stage.astype(np.int64) * len(names) + found.name
        kinds, first = np.unique(each, return_index=True)
        series = {}
        for kind in kinds[np.argsort(first)]:
            stage, name = divmod(int(kind), len(names))
            rows = each == kind
            series[stages[stage], names[name]] = found.step[rows], found.value[rows]
        return series

    def finals(self) -> dict[str, float]:
        """The last value of every metric, in the order in which they first appear; from the index, where it is."""
        return self._columns.finals() if self.last is None else dict(zip(*self.last, strict=True))

    def final(self, name: str, stage: str | None = None) -> float:
        """The last value of a metric."""
        return float(self.series(name, stage)[1][-1])

    def names(self) -> list[str]:
        """The metrics, in the order they first appear."""
        return self._columns.measured()

    def array(self, name: str) -> np.ndarray:
        """The array of that name."""
        if name not in self._arrays:
            has = ", ".join(self.arrays()) or ("none: it is published without" if "published" in self.run else "none")
            raise StoreError(f"trial {self.digest} has no array {name} (it has {has})")
        return self._arrays[name]

    def arrays(self) -> list[str]:
        """The names of the arrays, sorted."""
        return sorted(self._arrays)

    def bare(self) -> bool:
        """Whether it is published without some of its arrays; the oldest files of the record do not say how many."""
        published = self.run.get("published")
        return published is not None and bool(published.get("without", not self.arrays()))

    def table(self) -> "pyarrow.Table":
        """The metrics in long form, with their trial: experiment, digest, seed, arm, stage, step, name, value."""
        import pyarrow

        metrics = self.measurements()
        trial = {"experiment": self.experiment, "digest": self.digest, "seed": self.seed, "arm": self.arm}
        columns = {name: pyarrow.repeat(value, metrics.num_rows) for name, value in trial.items()}
        return pyarrow.table({**columns, **{name: metrics[name] for name in ("stage", "step", "name", "value")}})

    def measurements(self, *, encoded: bool = False) -> "pyarrow.Table":
        """The columns of metrics.parquet as a table; encoded: each text once, and where it stands."""
        import pyarrow
        import pyarrow.parquet

        data = _read_checked(self.path / METRICS, self.run)
        try:
            # in one thread, from memory: a pool of threads that holds Python objects may abort the exit
            file = pyarrow.parquet.ParquetFile(
                pyarrow.BufferReader(data), read_dictionary=["stage", "name"] if encoded else None
            )
            return file.read(["stage", "step", "name", "value"], use_threads=False)
        except (pyarrow.ArrowException, OSError) as error:
            raise Damaged(self.path, f"{METRICS}: {error}") from error

    @cached_property
    def _columns(self) -> "Columns":
        """Kept for a while: one command reads the same trials for claims, for tables and for curves."""
        path = f"{self.path}/{METRICS}"
        try:
            facts = os.stat(path)
            key = path, facts.st_mtime_ns, facts.st_size, self.run["files"][METRICS]["sha256"]
        except (OSError, KeyError, TypeError):  # reading it says what is wrong
            return Columns.of(self.measurements(encoded=True))
        found = recent.get(key)
        if found is None:
            found = Columns.of(self.measurements(encoded=True))
            recent.put(key, found)
        return found

    @cached_property
    def _arrays(self) -> dict[str, np.ndarray]:
        try:
            return decode_arrays(_read_checked(self.path / ARRAYS, self.run))
        except ValueError as error:
            raise Damaged(self.path, f"{ARRAYS}: {error}") from error


class Columns(NamedTuple):
    """What a trial measured, row by row: texts as numbers, by the place of each in `stages` and `names`."""

    stages: dict[str, int]
    names: dict[str, int]
    stage: np.ndarray
    name: np.ndarray
    step: np.ndarray
    value: np.ndarray

    @classmethod
    def of(cls, table: "pyarrow.Table") -> "Columns":
        """From the table of the file, with texts that are encoded or not."""
        stage, name, step, value = (table[name].combine_chunks() for name in ("stage", "name", "step", "value"))
        stage, name = (each if hasattr(each, "indices") else each.dictionary_encode() for each in (stage, name))
        stages, names = (
            {text: place for place, text in enumerate(each.dictionary.to_pylist())} for each in (stage, name)
        )
        return cls(stages, names, _numbers(stage.indices), _numbers(name.indices), _numbers(step), _numbers(value))

    def measured(self) -> list[str]:
        """The metrics, in the order they first appear."""
        names = list(self.names)
        kinds, first = np.unique(self.name, return_index=True)
        return [names[kind] for kind in kinds[np.argsort(first)]]

    def finals(self) -> dict[str, float]:
        """The last value of each of them."""
        last = np.zeros(len(self.names), np.int64)
        last[self.name] = np.arange(len(self.name))  # of equal places the last one stays
        return {name: float(self.value[last[self.names[name]]]) for name in self.measured()}

    def slice(self, rows: slice) -> "Columns":
        return self._replace(**{name: getattr(self, name)[rows] for name in ("stage", "name", "step", "value")})

    def bytes(self) -> int:
        return sum(column.nbytes for column in self[2:])


class Recent:
    """What was read last of metrics.parquet, by path, time, size and sha256; of more than so many bytes the least
    recently asked for goes.
    """

    def __init__(self, most: int):
        self.most, self.bytes = most, 0
        self.kept: OrderedDict[Any, Columns] = OrderedDict()
        self.lock = threading.Lock()

    def get(self, key: Any) -> Columns | None:
        with self.lock:
            if key in self.kept:
                self.kept.move_to_end(key)
            return self.kept.get(key)

    def put(self, key: Any, found: Columns) -> None:
        with self.lock:
            if key not in self.kept:
                self.kept[key], self.bytes = found, self.bytes + found.bytes()
            while self.bytes > self.most:
                self.bytes -= self.kept.popitem(last=False)[1].bytes()


recent = Recent(RECENT_BYTES)


class Fields:
    """The fields of a config whose experiment is not known, as attributes; made when asked for."""

    def __init__(self, fields: dict[str, Any]):
        self.__dict__["fields of the config"] = fields

    def __getattr__(self, name: str) -> Any:
        fields = self.__dict__.get("fields of the config", {})
        if name not in fields:
            raise AttributeError(f"the config has no field {name} (it has {', '.join(fields)})")
        return attributes(fields[name])


@contextmanager
def _believed(path: Path) -> Iterator[None]:
    """Damaged where what is read within is not of a trial."""
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged(path, f"{RUN} and {CONFIG} are not those of a trial") from error


def _is(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} is not of type {kind.__name__}")
    return value


def _check_size(path: Path, run: Mapping[str, Any]) -> None:
    size, expected = file_size(path), run["files"][path.name]["bytes"]
    if size != expected:
        raise Damaged(path.parent, f"{path.name}: {size} bytes instead of {expected}")


def _read_checked(path: Path, run: Mapping[str, Any]) -> bytes:
    data = read_file(path)
    if hashlib.sha256(data).hexdigest() != run["files"][path.name]["sha256"]:
        raise Damaged(path.parent, f"{path.name}: digest differs")
    return data


def _numbers(column: Any) -> np.ndarray:
    """An Arrow array of numbers; its own `to_numpy` would import pandas."""
    return np.from_dlpack(column)


def attributes(value: Any) -> Any:
    """Plain JSON with a config's access: fields as attributes, lists as tuples."""
    if isinstance(value, dict):
        return Fields(value)
    if isinstance(value, list):
        return tuple(attributes(item) for item in value)
    return value
