"""Iceberg tables as this lake makes and reads them.

Here: creating a table with the properties that the engine relies on, and what its metadata says without a scan. Not
here: rows, or what a summary's properties mean to silver and gold.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyspark.sql import SparkSession

from lake_assets.config import Column
from lake_assets.errors import LakeError
from lake_assets.iceberg.catalog import ensure_namespace
from lake_assets.spark.types import spark_type

TABLE_PROPERTIES = {
    # A batch touches few rows of many files: marking rows deleted is cheaper than rewriting their files.
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.merge.mode": "merge-on-read",
    # The marts' work lists come from the partitions that each commit's summary names.
    "write.summary.partition-limit": "5000",
    # Untended, a hundred batches over 20 partitions left 203 MB of metadata.
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "10",
}


LOADS = 3


def create_table(
    spark: SparkSession,
    catalog: Catalog,
    identifier: str,
    columns: Iterable[Column],
    partition_by: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
) -> None:
    """Creates `namespace.table` unless it exists; safe when two processes do so at once."""
    ensure_namespace(catalog, identifier.split(".")[0])
    given = {"format-version": "3", **TABLE_PROPERTIES, **(properties or {})}
    listed = ", ".join(f"'{name}' = '{value}'" for name, value in sorted(given.items()))
    partitions = ", ".join(partition_ddl(entry) for entry in partition_by)
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {catalog.name}.{identifier} "
        f"({', '.join(column_ddl(column) for column in columns)}) USING iceberg "
        + (f"PARTITIONED BY ({partitions}) " if partitions else "")
        + f"TBLPROPERTIES ({listed})"
    )


def column_ddl(column: Column) -> str:
    """One column as Spark's DDL takes it."""
    return f"`{column.name}` {spark_type(column.type)}" + (" NOT NULL" if column.required else "")


def partition_ddl(transform: str) -> str:
    """`day(started_at)` as Spark writes it: ``days(`started_at`)``; an identity partition is the column's name."""
    if (match := re.match(r"(day|month|year|hour)\((\w+)\)$", transform)) is not None:
        return f"{match[1]}s(`{match[2]}`)"
    return transform if "(" in transform else f"`{transform}`"


def load_table(catalog: Catalog, identifier: str) -> Table | None:
    """The table as it is now, or None. Raises LakeError when the catalog names metadata that is gone."""
    for attempt in range(LOADS):
        try:
            return catalog.load_table(identifier)
        except NoSuchTableError:
            return None
        except FileNotFoundError as error:
            # Another process may have replaced and deleted it since the catalog was asked.
            if attempt == LOADS - 1:
                raise LakeError(
                    f"{identifier}: its metadata file is gone ({error}), so that the catalog was restored to an "
                    "earlier state, or the file was deleted. Run `lake-assets recover`."
                ) from error
    raise AssertionError("the last attempt returns or raises")


def current_snapshot(table: Table | None) -> Snapshot | None:
    """The snapshot that main is at; None for no table and for one that nothing was published to."""
    return table.current_snapshot() if table is not None else None


def committed_at(snapshot: Snapshot) -> datetime:
    """When the snapshot was committed, UTC, by the clock of who wrote it."""
    return datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC)


def summary(snapshot: Snapshot | None) -> dict[str, str]:
    """A snapshot's summary properties without its operation; empty for None."""
    return dict(snapshot.summary.additional_properties) if snapshot is not None and snapshot.summary else {}


def live_rows(properties: Mapping[str, str]) -> int:
    """Live rows from a summary, without a scan: exact, because no row position is deleted twice (format v3 has one
    deletion vector per data file, and a batch's delete sees the deletes before it)."""
    return int(properties.get("total-records", "0")) - int(properties.get("total-position-deletes", "0"))
