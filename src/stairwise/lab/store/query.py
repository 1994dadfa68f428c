"""SQL over the store: DuckDB on the index, with the tables `trials`, `finals`, `metrics`, `runs` and `claims`.

trials    one row per trial: digest, experiment, seed, arm, status, message, started, seconds, ..., every config field
finals    the last value of each metric of each trial: digest, name, value
metrics   every measurement: digest, stage, step, name, value
runs      one row per command: id, experiment, preset, command, started, seconds, trials (a list of digests)
claims    one row per stored verdict: claim, digest, status, measured, required, margin, note, seconds, checked

A query is one SELECT statement. It reads these tables, which are in memory, and can neither read nor write anything
else: no file, no network.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from stairwise.config import ConfigError, one_line, short
from stairwise.extras import missing
from stairwise.lab.progress import Silent
from stairwise.lab.store.files import Damaged
from stairwise.lab.store.segment import FINAL_COLUMNS, METRIC_COLUMNS, TRIAL_COLUMNS, arrow_table
from stairwise.lab.store.store import Store

RUNS = {"id": "VARCHAR", "experiment": "VARCHAR", "preset": "VARCHAR", "command": "VARCHAR", "started": "DOUBLE"}
RUNS |= {"seconds": "DOUBLE", "trials": "VARCHAR[]"}
CLAIMS = {"claim": "VARCHAR", "digest": "VARCHAR", "status": "VARCHAR", "measured": "DOUBLE", "required": "DOUBLE"}
CLAIMS |= {"margin": "DOUBLE", "note": "VARCHAR", "seconds": "DOUBLE", "checked": "DOUBLE"}
VIEWS = {"trials": TRIAL_COLUMNS, "finals": FINAL_COLUMNS, "metrics": METRIC_COLUMNS, "runs": RUNS, "claims": CLAIMS}
ATTEMPTS = 5  # another process may merge or repair segments while they are read


MADE_BY = "select experiment, source_hash, count(*) from trials group by all"


def query(store: Store, sql: str, progress: Silent | None = None, made_by: list[Any] | None = None) -> Any:
    """The result of an SQL query as a pyarrow table; ConfigError where the query is none.

    `made_by` is filled with how many trials the store holds of each experiment, by the hash of the code that made them.
    """
    try:
        sql.encode()
    except UnicodeEncodeError:  # bytes of a command line that are no text
        raise ConfigError(f"query: {short(sql)} must be text in UTF-8") from None
    with tables(store, progress) as connection:
        import duckdb

        try:
            statements = connection.extract_statements(sql)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise ConfigError("query: must be one statement that selects: it begins with select, with or from")
            table = connection.sql(sql).to_arrow_table()
            if made_by is not None:
                made_by += connection.sql(MADE_BY).fetchall()
        except duckdb.Error as error:
            raise ConfigError(f"query: {one_line(' '.join(str(error).split()))}") from None
    return table.rename_columns(_unique(table.column_names))


def _unique(names: Sequence[str]) -> list[str]:
    """The names with a number after each that is there already.

    >>> _unique(["a", "b", "a", "a"])
    ['a', 'b', 'a_1', 'a_2']
    """
    found: dict[str, None] = {}
    for name in names:
        numbered = (f"{name}_{k}" for k in range(1, len(names) + 1))
        found[name if name not in found else next(each for each in numbered if each not in {*names, *found})] = None
    return list(found)


@contextmanager
def tables(store: Store, progress: Silent | None = None) -> Iterator[Any]:
    """A DuckDB connection that sees the store as tables."""
    try:
        import duckdb
    except ImportError:
        raise ConfigError(missing("stairwise query", "query")) from None
    parts = _from_the_index(store, progress)
    parts["runs"] = [_rows(RUNS, [run.record for run in store.runs()])]
    parts["claims"] = [_rows(CLAIMS, [{**each, **_of(each.get("verdict"))} for each in store.verdicts()])]
    connection = duckdb.connect(":memory:")
    try:
        for name, columns in VIEWS.items():
            _view(connection, name, parts[name] or [_rows(columns, [])])
        connection.execute("SET enable_external_access=false")
        connection.execute("SET lock_configuration=true")
        yield connection
    finally:
        connection.close()


def _from_the_index(store: Store, progress: Silent | None) -> dict[str, list[Any]]:
    for attempt in range(ATTEMPTS):
        index = store.index()
        index.refresh(progress)
        if attempt == ATTEMPTS - 1:
            index.do_without()
        try:
            return index.tables()
        except Damaged:
            continue
    raise AssertionError("without segments none is damaged")


def _of(verdict: Any) -> Mapping[str, Any]:
    return verdict if isinstance(verdict, Mapping) else {}


def _view(connection: Any, name: str, parts: Sequence[Any]) -> None:
    """The parts of a table as one."""
    for k, part in enumerate(parts):
        connection.register(f"part {k} of {name}", part)
    selects = [f'SELECT * FROM "part {k} of {name}"' for k in range(len(parts))]
    connection.execute(f'CREATE VIEW "{name}" AS {" UNION ALL BY NAME ".join(selects)}')


def _rows(columns: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> Any:
    return arrow_table(columns, {column: [row.get(column) for row in rows] for column in columns})
