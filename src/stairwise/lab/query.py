"""SQL over the store: DuckDB on the index's files, with the tables `trials`, `finals`, `metrics`, `runs` and `claims`.

trials    one row a trial: digest, experiment, seed, arm, status, message, started, seconds, ..., every config field
finals    the last value of each metric of each trial: digest, name, value
metrics   every measurement: experiment, digest, seed, arm, stage, step, name, value
runs      one row a command: id, experiment, preset, command, started, seconds, trials (a list of digests)
claims    one row a stored verdict: claim, digest, status, measured, required, margin, note, seconds, checked

A query can read these and nothing else: neither other files nor the network.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stairwise.lab.config import ConfigError
from stairwise.lab.files import one_line
from stairwise.lab.store import Store

METRICS = {"experiment": "VARCHAR", "digest": "VARCHAR", "seed": "BIGINT", "arm": "VARCHAR", "stage": "VARCHAR"}
METRICS |= {"step": "BIGINT", "name": "VARCHAR", "value": "DOUBLE"}
FINALS = {"digest": "VARCHAR", "name": "VARCHAR", "value": "DOUBLE"}
TRIALS = {"digest": "VARCHAR", "experiment": "VARCHAR", "version": "BIGINT", "seed": "BIGINT", "arm": "VARCHAR"}
TRIALS |= {"status": "VARCHAR", "message": "VARCHAR", "started": "DOUBLE", "seconds": "DOUBLE"}
TRIALS |= {"group_width": "BIGINT", "platform": "VARCHAR", "device": "VARCHAR", "source_hash": "VARCHAR"}
RUNS = {"id": "VARCHAR", "experiment": "VARCHAR", "preset": "VARCHAR", "command": "VARCHAR", "started": "DOUBLE"}
RUNS |= {"seconds": "DOUBLE", "trials": "VARCHAR[]"}
CLAIMS = {"claim": "VARCHAR", "digest": "VARCHAR", "status": "VARCHAR", "measured": "DOUBLE", "required": "DOUBLE"}
CLAIMS |= {"margin": "DOUBLE", "note": "VARCHAR", "seconds": "DOUBLE", "checked": "DOUBLE"}
ARROW = {"VARCHAR": "string", "BIGINT": "int64", "DOUBLE": "float64", "BOOLEAN": "bool_"}


def query(store: Store, sql: str) -> Any:
    """The result of an SQL query as a pyarrow table; ConfigError where the query is none."""
    import duckdb

    with tables(store) as connection:
        try:
            found = connection.sql(sql)
            if found is None:
                raise ConfigError("query: the statement gives no rows; a query begins with select, with or from")
            return found.to_arrow_table()
        except duckdb.Error as error:
            raise ConfigError(f"query: {one_line(' '.join(str(error).split()))[:500]}") from None


@contextmanager
def tables(store: Store) -> Iterator[Any]:
    """A DuckDB connection that sees the store as tables."""
    try:
        import duckdb
    except ImportError:
        raise ConfigError("query needs duckdb: pip install 'stairwise[query]'") from None
    index = store.index()
    index.refresh()
    with tempfile.TemporaryDirectory(prefix="stairwise-") as folder:
        rest = Path(folder) / "rest"
        extra = index.write(index.missing(), rest, Path(folder) / "scratch", fresh=True)
        parts = list(index.current(extra))
        connection = duckdb.connect(":memory:")
        try:
            _fill(connection, store, [row for _, rows in parts for row in rows])
            _measurements(connection, parts)
            readable = [str(store.root / "index"), str(rest)]
            connection.execute(f"SET allowed_directories={readable!r}")
            connection.execute("SET enable_external_access=false")
            connection.execute("SET lock_configuration=true")
            yield connection
        finally:
            connection.close()


def _fill(connection: Any, store: Store, rows: list[dict[str, Any]]) -> None:
    fields = _config_columns(rows)
    _table(connection, "trials", {**TRIALS, **fields}, [_trial(row, set(fields)) for row in rows])
    finals = [{"digest": row["digest"], "name": n, "value": v} for row in rows for n, v in row["final"].items()]
    _table(connection, "finals", FINALS, finals)
    runs = [{name: getattr(run, name) for name in RUNS} for run in store.runs()]
    _table(connection, "runs", RUNS, runs)
    verdicts = [{**found, **found.get("verdict", {})} for found in store.verdicts()]
    _table(connection, "claims", CLAIMS, verdicts)


def _trial(row: dict[str, Any], fields: set[str]) -> dict[str, Any]:
    run = row["run"]
    timing, device = run.get("timing"), run.get("device")
    timing, device = (value if isinstance(value, dict) else {} for value in (timing, device))
    facts = {"started": timing.get("started"), "seconds": timing.get("seconds_per_trial")}
    facts |= {"platform": device.get("platform"), "device": device.get("kind")}
    facts |= {name: run.get(name) for name in ("status", "message", "group_width", "source_hash")}
    config = {path: value for path, value in _flat(row["config"]).items() if path in fields}
    return {**row, **config, **facts}


def _flat(config: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in config.items():
        found |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return found


def _config_columns(rows: list[dict[str, Any]]) -> dict[str, str]:
    """A column for each config field of any experiment; numbers and truth values where all are, else text."""
    kinds: dict[str, set[type]] = {}
    for row in rows:
        for path, value in _flat(row["config"]).items():
            kinds.setdefault(path, set()).add(type(value))
    return {path: _column(kind) for path, kind in kinds.items() if path not in TRIALS}


def _column(kinds: set[type]) -> str:
    for allowed, name in (({bool}, "BOOLEAN"), ({int}, "BIGINT"), ({int, float}, "DOUBLE")):
        if kinds <= allowed:
            return name
    return "VARCHAR"


def _table(connection: Any, name: str, columns: dict[str, str], rows: list[dict[str, Any]]) -> None:
    """A table in the connection's own memory."""
    import pyarrow

    data = {}
    for column, kind in columns.items():
        values = [row.get(column) for row in rows]
        if kind == "VARCHAR":
            values = [value if value is None or isinstance(value, str) else _words(value) for value in values]
        made = pyarrow.list_(pyarrow.string()) if kind.endswith("[]") else getattr(pyarrow, ARROW[kind])()
        data[column] = pyarrow.array(values, made)
    connection.register("incoming", pyarrow.table(data))
    connection.execute(f'CREATE TABLE "{name}" AS SELECT * FROM incoming')
    connection.unregister("incoming")


def _words(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _measurements(connection: Any, parts: list[tuple[Path, list[dict[str, Any]]]]) -> None:
    """The metrics as a view over the segments' files, without trials that have gone since."""
    import pyarrow.parquet

    selects = []
    for k, (path, rows) in enumerate(parts):
        place = "'" + str(path).replace("'", "''") + "'"
        chosen = f"SELECT {', '.join(METRICS)} FROM read_parquet({place})"
        held = (
            pyarrow.parquet.ParquetFile(path).num_row_groups
            and connection.execute(f"SELECT count(DISTINCT digest) FROM read_parquet({place})").fetchone()[0]
        )
        if held > len(rows):
            _table(connection, f"held {k}", {"digest": "VARCHAR"}, rows)
            chosen += f' WHERE digest IN (SELECT digest FROM "held {k}")'
        selects.append(chosen)
    empty = ", ".join(f"NULL::{kind} AS {name}" for name, kind in METRICS.items())
    connection.execute(f"CREATE VIEW metrics AS {' UNION ALL '.join(selects) or f'SELECT {empty} WHERE false'}")
