"""`python -m benchmarks.large_tables.others.ducklake FOLDER COLUMNS`: DuckLake, a lake of DuckDB's own.

Its MERGE refuses an update and a delete in one statement. In one transaction, a delete of the batch's keys and an
insert of the new rows are faster than a delete and a MERGE.
"""

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import duckdb

from benchmarks.large_tables.others.worker import serve

LAST_CHANGES = (
    "SELECT * FROM read_parquet({}) QUALIFY row_number() OVER (PARTITION BY id ORDER BY change_seq DESC) = 1"
)


class DuckLake:
    """A table of DuckLake, whose catalog is a file of DuckDB."""

    def __init__(self, folder: str, columns: str) -> None:
        self._columns = columns
        self._duckdb = duckdb.connect()
        for extension in ("ducklake", "icu"):
            self._duckdb.execute(f"LOAD '{_file(extension)}'")
        self._duckdb.execute("SET TimeZone = 'UTC'")
        self._duckdb.execute(
            f"ATTACH 'ducklake:{folder}/catalog.ducklake' AS lake (DATA_PATH '{folder}/data/')"
        )

    def load(self, files: Sequence[str]) -> None:
        self._duckdb.execute(
            f"CREATE TABLE lake.items AS SELECT {self._columns} FROM read_parquet({list(files)})"
        )

    def apply(self, files: Sequence[str]) -> None:
        self._duckdb.execute("BEGIN")
        self._duckdb.execute(f"CREATE OR REPLACE TEMP TABLE last AS {LAST_CHANGES.format(list(files))}")
        self._duckdb.execute("DELETE FROM lake.items WHERE id IN (SELECT id FROM last)")
        self._duckdb.execute(f"INSERT INTO lake.items SELECT {self._columns} FROM last WHERE Op <> 'D'")
        self._duckdb.execute("COMMIT")

    def write_rows(self, folder: str) -> None:
        Path(folder).mkdir()
        self._duckdb.execute(f"COPY lake.items TO '{folder}/rows.parquet' (FORMAT parquet)")


def _file(extension: str) -> Path:
    # A package holds each extension, as DuckDB's own download may not be reachable.
    spec = importlib.util.find_spec(f"duckdb_extension_{extension}")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    (found,) = Path(spec.submodule_search_locations[0]).glob("extensions/*/*.duckdb_extension")
    return found


if __name__ == "__main__":
    serve(DuckLake)
