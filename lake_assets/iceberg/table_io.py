"""Iceberg tables as this lake makes and reads them.

Here: creating a table with the properties that the engine relies on, and reading its metadata. Not here: rows, or what
a summary's properties mean to silver and gold.
"""

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from lake_assets.config import Column
from lake_assets.errors import LakeError, Remedy
from lake_assets.iceberg.catalog import ensure_namespace
from lake_assets.spark.sql import Sql, joined, literal, quoted, sql, table_address
from lake_assets.spark.types import spark_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)


RESTAMP_OF = "lake.restamp-of"
"""Id of the snapshot whose properties a commit repeats. A sum over `lake.batch.*` must leave such commits out."""
APPLIED_AT = "lake.applied-at"
"""When that snapshot was committed, ISO 8601 UTC."""
ORPHANS_REMOVED_AT = "lake.orphans-removed-at"
"""Property of a table: when it was last searched for orphan files, or created; ISO 8601 UTC."""
HISTORY_TRIMMED_TO = "lake.history-trimmed-to"
"""Property of a table with `keep_history`: until when maintenance last looked for rows to remove; ISO 8601 UTC."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TRANSFORM = re.compile(r"(?P<function>[a-z]+)\((?:(?P<count>\d+),\s*)?(?P<column>\w+)\)")

TABLE_PROPERTIES = {
    # A batch touches few rows of many files: marking rows deleted is cheaper than rewriting their files.
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.merge.mode": "merge-on-read",
    # Marts find their stale days by the partitions that each commit's summary names.
    "write.summary.partition-limit": "5000",
    # Without these two, a hundred batches over 20 partitions left 203 MB of metadata.
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "10",
}


LOADS = 3


def create_table(
    spark: "SparkSession",
    catalog: Catalog,
    identifier: str,
    columns: Iterable[Column],
    format_version: int,
    partition_by: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    comments: Mapping[str, str] | None = None,
) -> None:
    """Creates `namespace.table` unless it exists; safe when two processes do so at once. `comments`: by column."""
    ensure_namespace(catalog, identifier.split(".")[0])
    own = {"format-version": str(format_version), ORPHANS_REMOVED_AT: datetime.now(UTC).isoformat()}
    given = {**own, **TABLE_PROPERTIES, **(properties or {})}
    partitions = joined(", ", map(partition_ddl, partition_by))
    spark.sql(
        sql(
            "CREATE TABLE IF NOT EXISTS {table} ({columns}) USING iceberg {partitioned} TBLPROPERTIES ({properties})",
            table=table_address(catalog.name, identifier),
            columns=joined(", ", (column_ddl(c, (comments or {}).get(c.name)) for c in columns)),
            partitioned=sql("PARTITIONED BY ({partitions})", partitions=partitions) if partitions else Sql(),
            properties=joined(", ", (_property(name, value) for name, value in sorted(given.items()))),
        )
    )


def column_ddl(column: Column, comment: str | None = None) -> Sql:
    """One column as Spark's DDL takes it."""
    text = sql("{column} {type}", column=column.name, type=spark_type(column.type))
    if column.required:
        text = sql("{text} NOT NULL", text=text)
    return sql("{text} COMMENT {comment}", text=text, comment=literal(comment)) if comment else text


def partition_ddl(transform: str) -> Sql:
    """`day(started_at)` as Spark writes it: ``days(`started_at`)``; an identity partition is the column's name."""
    if (match := _TRANSFORM.fullmatch(transform)) is None:
        return quoted(transform)
    function, column = Sql(match["function"]), match["column"]
    if match["count"]:
        return sql(
            "{function}({count}, {column})", function=function, count=int(match["count"]), column=column
        )
    return sql("{function}s({column})", function=function, column=column)


def table_at(catalog: str, identifier: str, snapshot_id: int) -> Sql:
    """The query for the rows that the table had at a snapshot."""
    address = table_address(catalog, identifier)
    return sql("SELECT * FROM {table} VERSION AS OF {snapshot}", table=address, snapshot=snapshot_id)


def rollback(catalog: str, identifier: str, snapshot_id: int) -> Sql:
    """The statement that makes an earlier snapshot of main its newest one. As SQL, because PyIceberg does not write
    metadata of format version 3."""
    call = "CALL {catalog}.system.rollback_to_snapshot({table}, {snapshot})"
    return sql(call, catalog=catalog, table=literal(identifier), snapshot=snapshot_id)


def set_property(name: str, value: str) -> Sql:
    """The clause of ALTER TABLE that sets a property."""
    return sql("SET TBLPROPERTIES ({property})", property=_property(name, value))


def added_column(name: str, declared: str) -> Sql:
    """The clause of ALTER TABLE that adds a column."""
    return sql("ADD COLUMN {column} {type}", column=name, type=spark_type(declared))


def changed_comments(table: Table, comments: Mapping[str, str]) -> list[Sql]:
    """The clauses of ALTER TABLE, one for each statement, that give columns their comments; `comments`: by column."""
    return [
        sql("ALTER COLUMN {column} COMMENT {comment}", column=field.name, comment=literal(comment))
        for field in table.schema().fields
        if (comment := comments.get(field.name)) is not None and comment != field.doc
    ]


def relaxed_column(name: str) -> Sql:
    """The clause of ALTER TABLE that lets a column be NULL."""
    return sql("ALTER COLUMN {column} DROP NOT NULL", column=name)


def _property(name: str, value: str) -> Sql:
    return sql("{name} = {value}", name=literal(name), value=literal(value))


def load_table(catalog: Catalog, identifier: str) -> Table | None:
    """The table as it is now, or None. Raises LakeError when the catalog points to metadata that is gone."""
    # Another process may replace and delete the metadata between the catalog's answer and the read.
    policy = Retrying(
        retry=retry_if_exception_type(FileNotFoundError), stop=stop_after_attempt(LOADS), reraise=True
    )
    try:
        return policy(catalog.load_table, identifier)
    except NoSuchTableError:
        return None
    except FileNotFoundError as error:
        raise LakeError(
            f"{identifier}: its metadata file is gone ({error}), so that the catalog was restored to an earlier state, "
            "or the file was deleted. Run `lake-assets recover`."
        ).mended_by(Remedy.RECOVER) from error


def tables_in(catalog: Catalog, namespace: str) -> frozenset[str]:
    """The `namespace.table` of every table that the namespace has; none without the namespace."""
    try:
        return frozenset(".".join(identifier) for identifier in catalog.list_tables(namespace))
    except NoSuchNamespaceError:
        return frozenset()


def folder_of(table: Table) -> str:
    """Where the table is, without the scheme, which Spark and PyIceberg spell in different ways."""
    location = table.location()
    return (location.partition(":")[2] or location).strip("/")


def sharing_folder(catalog: Catalog, table: Table) -> str | None:
    """Another table of the namespace that has the table's folder: one that was renamed keeps the folder of its former
    name."""
    own = ".".join(table.name())
    names = sorted(tables_in(catalog, own.rpartition(".")[0]) - {own})
    others = (load_table(catalog, name) for name in names)
    return next(
        (".".join(other.name()) for other in others if other and folder_of(other) == folder_of(table)), None
    )


def current_snapshot(table: Table | None) -> Snapshot | None:
    """Main's head; None without a table, and for a table without commits."""
    return table.current_snapshot() if table is not None else None


def since_1970(passed: timedelta) -> datetime:
    """The UTC time so long after the beginning of 1970. A source's zone moves markers such as 0001-01-01 and 9999-12-31
    into years that Python does not have: such a time becomes Python's first or last one."""
    try:
        return _EPOCH + passed
    except OverflowError:
        is_last = passed > timedelta(0)
        return datetime.max.replace(tzinfo=UTC) if is_last else datetime.min.replace(tzinfo=UTC)


def committed_at(snapshot: Snapshot) -> datetime:
    """When the snapshot was committed, UTC, by the writer's clock."""
    return datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC)


def summary(snapshot: Snapshot | None) -> dict[str, str]:
    """A snapshot's summary properties without its operation; empty for None."""
    return dict(snapshot.summary.additional_properties) if snapshot is not None and snapshot.summary else {}


def live_rows(properties: Mapping[str, str]) -> int:
    """Live rows from a summary, without a scan: exact, because no row position is deleted twice (format v3 has one
    deletion vector per data file, and a batch's delete sees the deletes before it)."""
    return int(properties.get("total-records", "0")) - int(properties.get("total-position-deletes", "0"))


def applied_at(snapshot: Snapshot) -> datetime:
    """When the snapshot was committed, UTC; of a re-stamp, when the commit that it repeats was."""
    given = summary(snapshot).get(APPLIED_AT)
    return datetime.fromisoformat(given) if given else committed_at(snapshot)


def add_missing_columns(table: Table, schema: Schema) -> bool:
    """Adds the columns that a table of an earlier release lacks, by name, because field ids differ between tables.
    Returns whether it lacked any. Raises CommitFailedException when another process changes the columns meanwhile."""
    known = {*table.schema().column_names}
    missing = [field for field in schema.fields if field.name not in known]
    if missing:
        with table.update_schema() as update:
            for field in missing:
                update.add_column(field.name, field.field_type, field.doc)
    return bool(missing)


def drop_with_files(catalog: Catalog, table: Table) -> None:
    """Drops a table of the lake's own and deletes its files. Does not raise: nothing depends on it."""
    identifier = ".".join(table.name())
    # Most of the files first: nothing would find them once the table is dropped.
    for step in (
        partial(_delete_below, table, f"{table.location()}/data"),
        partial(drop, catalog, identifier),
        partial(_delete_below, table, table.location()),
    ):
        try:
            step()
        except FileNotFoundError:
            pass
        except Exception:
            logger.debug("%s could not be dropped with all of its files", identifier, exc_info=True)


def drop(catalog: Catalog, identifier: str) -> None:
    """Drops a table, if it is there."""
    try:
        catalog.drop_table(identifier)
    except NoSuchTableError:
        return
    except Exception:  # noqa: BLE001  (some catalogs only know the other call)
        catalog.purge_table(identifier)


def _delete_below(table: Table, folder: str) -> None:
    """Deletes a folder of the table with all that is in it. Of one file after the other, Arrow would leave a marker."""
    from pyiceberg.io.pyarrow import PyArrowFileIO

    if table.name()[-1] not in folder:
        return  # a location that the catalog may have given to others, too
    io = table.io if isinstance(table.io, PyArrowFileIO) else PyArrowFileIO(table.io.properties)
    scheme, netloc, path = io.parse_location(folder, io.properties)
    io.fs_by_scheme(scheme, netloc).delete_dir(path)
