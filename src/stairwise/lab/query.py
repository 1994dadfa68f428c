"""SQL over the store: DuckDB on the index's files, with the tables `trials`, `finals`, `metrics`, `runs` and `claims`.

trials    one row a trial: digest, experiment, seed, arm, status, message, started, seconds, ..., every config field
finals    the last value of each metric of each trial: digest, name, value
metrics   every measurement: digest, stage, step, name, value
runs      one row a command: id, experiment, preset, command, started, seconds, trials (a list of digests)
claims    one row a stored verdict: claim, digest, status, measured, required, margin, note, seconds, checked

A query can read these and nothing else: neither other files nor the network.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stairwise.extras import missing
from stairwise.lab.config import ConfigError
from stairwise.lab.files import one_line
from stairwise.lab.index import Part
from stairwise.lab.segment import (
    FINAL_COLUMNS,
    FINALS,
    MEASUREMENTS,
    METRIC_COLUMNS,
    TRIAL_COLUMNS,
    TRIALS,
    arrow_table,
)
from stairwise.lab.store import Store

RUNS = {"id": "VARCHAR", "experiment": "VARCHAR", "preset": "VARCHAR", "command": "VARCHAR", "started": "DOUBLE"}
RUNS |= {"seconds": "DOUBLE", "trials": "VARCHAR[]"}
CLAIMS = {"claim": "VARCHAR", "digest": "VARCHAR", "status": "VARCHAR", "measured": "DOUBLE", "required": "DOUBLE"}
CLAIMS |= {"margin": "DOUBLE", "note": "VARCHAR", "seconds": "DOUBLE", "checked": "DOUBLE"}
VIEWS = {
    "trials": (TRIALS, TRIAL_COLUMNS),
    "finals": (FINALS, FINAL_COLUMNS),
    "metrics": (MEASUREMENTS, METRIC_COLUMNS),
}


def query(store: Store, sql: str) -> Any:
    """The result of an SQL query as a pyarrow table; ConfigError where the query is none."""
    with tables(store) as connection:
        import duckdb

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
        raise ConfigError(missing("stairwise query", "query")) from None
    index = store.index()
    index.refresh()
    with tempfile.TemporaryDirectory(prefix="stairwise-") as folder:
        rest = Path(folder) / "rest"
        extra = index.write(index.missing(), rest, Path(folder) / "scratch", fresh=True)
        parts = list(index.parts(extra))
        connection = duckdb.connect(":memory:")
        try:
            for name, (file, columns) in VIEWS.items():
                _view(connection, name, file, columns, parts)
            _fill(connection, "runs", RUNS, [run.record for run in store.runs()])
            _fill(connection, "claims", CLAIMS, [{**each, **each.get("verdict", {})} for each in store.verdicts()])
            readable = ", ".join(_quoted(path) for path in (store.root / "index", rest))
            connection.execute(f"SET allowed_directories=[{readable}]")
            connection.execute("SET enable_external_access=false")
            connection.execute("SET lock_configuration=true")
            yield connection
        finally:
            connection.close()


def _view(connection: Any, name: str, file: str, columns: Mapping[str, str], parts: Sequence[Part]) -> None:
    """The tables of all segments as one, without trials that have changed or gone since they were entered."""
    whole = [_quoted(part.folder / file) for part in parts if part.digests is None]
    selects = [f"SELECT * FROM read_parquet([{', '.join(whole)}], union_by_name=true)"] if whole else []
    for k, part in enumerate(parts):
        if part.digests is not None:
            kept = f"kept {k}"
            _fill(connection, kept, {"digest": "VARCHAR"}, [{"digest": digest} for digest in part.digests])
            chosen = f'digest IN (SELECT digest FROM "{kept}")'
            selects.append(f"SELECT * FROM read_parquet({_quoted(part.folder / file)}) WHERE {chosen}")
    nothing = ", ".join(f"NULL::{kind} AS {column}" for column, kind in columns.items())
    selects = selects or [f"SELECT {nothing} WHERE false"]
    connection.execute(f'CREATE VIEW "{name}" AS {" UNION ALL BY NAME ".join(selects)}')


def _fill(connection: Any, name: str, columns: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> None:
    """A table in the connection's own memory."""
    connection.register(
        "incoming", arrow_table(columns, {column: [row.get(column) for row in rows] for column in columns})
    )
    connection.execute(f'CREATE OR REPLACE TABLE "{name}" AS SELECT * FROM incoming')
    connection.unregister("incoming")


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
