"""A bucket, a lake on it, and the oracle beside them.

Here: the common steps of the tests of silver: write files, run a turn, compare. Not here: the cases.
"""

import fnmatch
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from lake_assets.config import TableConfig
from lake_assets.iceberg.publish import KeptBranches
from lake_assets.orchestration.lake_definitions import Lake, open_lake
from lake_assets.rounds.arrivals import log_arrivals
from lake_assets.silver.apply.engine import apply_tables
from lake_assets.silver.batch.result import BatchResult, TableResult
from lake_assets.silver.table.targets import Tracked
from lake_assets_tests.helpers.files.dms_files import (
    TABLE,
    Clock,
    DmsFile,
    csv_bytes,
    parquet_bytes,
    parts_of,
    put,
    transactions_csv,
)
from lake_assets_tests.helpers.lakes.small_lakes import DMS, small_lake
from lake_assets_tests.helpers.oracles import oracle
from lake_assets_tests.helpers.oracles.masks import masked

KEEPS_BRANCHES = False
"""Whether a bench keeps its branches from one batch to the next, as the continuous run does."""
AT_ONCE = {"full_load_complete": "immediately"}
"""Loads are not waited for: what waits is `test_plan.py`'s subject."""


@dataclass
class Bench:
    """A lake with one source, `shop`, in a folder."""

    folder: Path
    tables: Mapping[str, Mapping[str, Any]]
    dms: Mapping[str, Any] = field(default_factory=dict)
    sections: Mapping[str, Any] = field(default_factory=dict)
    location: Path | None = None
    """Where the files are put; `folder`/bronze by default."""
    source: Mapping[str, Any] = field(default_factory=dict)
    """Further settings of the source."""

    def __post_init__(self) -> None:
        self.dms = DMS | dict(self.dms)
        self.location = self.location or self.folder / "bronze"
        tables = {name: AT_ONCE | dict(table) for name, table in self.tables.items()}
        source = {"dms": self.dms, "location": str(self.location), **self.source}
        self.lake: Lake = small_lake(self.folder, tables, source=source, **self.sections)
        if KEEPS_BRANCHES:
            self.lake.runtime.branches = KeptBranches()
        self.bucket: dict[str, DmsFile] = {}
        self.tracked: dict[str, Tracked] = {}
        """By silver table, columns whose touched days the commits must name, as a mart would ask for them."""

    def again(self) -> Self:
        """The same bench as another process would have it: see `restored.py`."""
        found = copy(self)
        found.bucket, found.tracked, found.lake = {**self.bucket}, {**self.tracked}, self.reopened()
        return found

    def reopened(self) -> Lake:
        """The same lake as another process would open it."""
        return open_lake(self.lake.config, marts=self.lake.marts)

    def edit(self, tables: Mapping[str, Mapping[str, Any]]) -> None:
        """lake.yaml is edited, and the lake opened again."""
        assert isinstance(self.dms, dict)
        self.tables = tables
        edited = {name: TableConfig.model_validate(AT_ONCE | dict(table)) for name, table in tables.items()}
        self.edit_source(tables=edited)

    def edit_source(self, **settings: Any) -> None:
        """Settings of the source, as its model has them, are edited, and the lake opened again."""
        config = self.lake.config
        source = config.sources["shop"].model_copy(update=settings)
        self.lake = open_lake(config.model_copy(update={"sources": {"shop": source}}), marts=())

    def columns(self, table: str) -> list[str]:
        return list(self.tables[table]["columns"])

    def key(self, table: str) -> list[str]:
        """The columns that have before images."""
        config = self.tables[table]
        return (
            self.columns(table) if config.get("mode") == "full_row" else list(config.get("primary_key", ()))
        )

    def put(self, *files: DmsFile, types: Mapping[str, pa.DataType] | None = None) -> None:
        """Files land in the bucket."""
        assert self.location is not None
        for file in files:
            self.bucket[file.key] = file
            if file.has_transactions:
                names = {
                    name: self.owner(name) for name in {*self.tables, *(row[TABLE] for row in file.rows)}
                }
                layouts = {name: (self.columns(own), self.key(own)) for name, own in names.items()}
                put(self.location, file.key, transactions_csv(file, layouts, self.dms))
                continue
            columns, key = self.columns(self._table(file)), self.key(self._table(file))
            if file.name.endswith(".parquet"):
                content = parquet_bytes(file, columns, key, self.dms, types or {})
            else:
                content = csv_bytes(file, columns, key, self.dms)
            put(self.location, file.key, content)

    def put_text(self, key: str, *lines: str) -> None:
        """A file that the oracle does not know of."""
        assert self.location is not None
        put(self.location, key, "".join(f"{line}\n" for line in lines).encode())

    def _table(self, file: DmsFile) -> str:
        schema, table, *_ = file.key.split("/")
        return self._owner(schema, table)

    def owner(self, table: str) -> str:
        """The table of lake.yaml that has the rows of a table of the source: itself, or one whose folders match."""
        return self._owner(*parts_of(table))

    def _owner(self, schema: str, table: str) -> str:
        own = [name for name in self.tables if parts_of(name) == (schema, table)]
        joined = [
            name
            for name, config in self.tables.items()
            if parts_of(name)[0] == schema
            and any(fnmatch.fnmatchcase(table, glob) for glob in config.get("folders", ()))
        ]
        return (own or joined)[0]

    def files(self, table: str) -> list[DmsFile]:
        """The objects of a table in the bucket."""
        own = [f for f in self.bucket.values() if not f.has_transactions and self._table(f) == table]
        return own + [file.of_table(table) for file in self.bucket.values() if file.has_transactions]

    def look(self) -> None:
        """New files enter the log."""
        log_arrivals(self.lake.runtime, "shop")

    def turn(self, only: Sequence[str] | None = None) -> dict[str, TableResult]:
        """One scan of the bucket and one turn of every table; results by silver name."""
        self.look()
        targets = [
            replace(target, tracked=self.tracked.get(target.name, target.tracked))
            for target in self.lake.targets
            if only is None or target.name in only
        ]
        return {result.target.name: result for result in apply_tables(self.lake.runtime, targets)}

    def apply(self, only: Sequence[str] | None = None) -> dict[str, list[BatchResult]]:
        """A turn in which nothing may fail: the batches that were published."""
        results = self.turn(only)
        for result in results.values():
            if result.error is not None:
                raise result.error
        return {name: result.batches for name, result in results.items()}

    def table(self, name: str = "items") -> Table:
        return self.lake.runtime.catalog.load_table(f"silver_shop.{name}")

    def rows(self, name: str = "items") -> list[str]:
        """The silver table's rows through PyIceberg, in comparable form."""
        return comparable(self.stored(name))

    def stored(self, name: str = "items") -> list[dict[str, Any]]:
        """The silver table's rows through PyIceberg, as they are."""
        found: list[dict[str, Any]] = self.table(name).scan().to_arrow().to_pylist()
        return found

    def stored_by_id(self, column: str, name: str = "items") -> dict[int, Any]:
        """A column's value by `id`, which no two rows share."""
        rows = self.stored(name)
        assert len({row["id"] for row in rows}) == len(rows), "no row is doubled"
        return {row["id"]: row[column] for row in rows}

    def truth(self, table: str = "public.items", shape: str = "current") -> list[str]:
        """The oracle's rows for the files in the bucket, in comparable form."""
        files, columns = self.files(table), self.columns(table)
        if shape == "current":
            kept = self.tables[table].get("kept_when_null", ())
            return self.as_silver(table, oracle.current(files, columns, self.key(table), kept))
        return self.as_silver(table, getattr(oracle, shape)(files, columns))

    def as_silver(self, table: str, rows: Sequence[Mapping[str, Any]]) -> list[str]:
        """Rows of the source, masked as lake.yaml says, in comparable form."""
        return comparable(masked(rows, self.tables[table].get("mask", {})))

    def summary(self, name: str = "items") -> dict[str, str]:
        """Properties of the current snapshot."""
        snapshot = self.table(name).current_snapshot()
        assert snapshot is not None
        assert snapshot.summary is not None
        return snapshot.summary.additional_properties


def main_snapshots(table: Table) -> list[Snapshot]:
    """The snapshots of the main branch that still exist, the oldest first."""
    found, snapshot = [], table.current_snapshot()
    while snapshot is not None:
        found.append(snapshot)
        parent = snapshot.parent_snapshot_id
        snapshot = table.snapshot_by_id(parent) if parent is not None else None
    return found[::-1]


def comparable(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Rows as sorted texts that are equal only for equal values of equal types, NaN and -0.0 included."""
    return sorted(repr({name: _plain(value) for name, value in row.items()}) for row in rows)


def _plain(value: Any) -> Any:
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else value


class OnBench:
    """What tests make of one bench, with the clock of its changes. It can be restored: see `restored.py`."""

    bench: Bench
    clock: Clock

    @property
    def folder(self) -> Path:
        return self.bench.folder

    def again(self) -> Self:
        """The same as another process would have it."""
        found = copy(self)
        found.bench, found.clock = self.bench.again(), copy(self.clock)
        return found
