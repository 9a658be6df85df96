"""A table's partitions: the current ones, and the statements that change them.

Here: partitions in the notation of lake.yaml, the statements, and values that fit in no path. Not here: which ones a
table should have (`silver/table/targets.py`), rewriting its files (`table_maintenance.py`).
"""

import re
from collections.abc import Sequence

from pyiceberg.table import Table

from lake_assets.iceberg.table_io import current_snapshot, partition_ddl
from lake_assets.spark.sql import Sql, sql

FOLDER_NAME_BYTES = 255
"""How long the name of a folder on a disk may be."""
_TOO_LONG_KEY = ("KeyTooLong", "key is too long", "File name too long")
"""Parts of the errors of S3 and of a disk for a path that is too long."""
_COUNTED = re.compile(r"(bucket|truncate)\[(\d+)\]")


def partitions_of(table: Table) -> tuple[str, ...]:
    """The partitions that new files are written into, such as `day(started_at)`."""
    schema, found = table.schema(), []
    for field in table.spec().fields:
        column, transform = str(schema.find_column_name(field.source_id)), str(field.transform)
        if (counted := _COUNTED.fullmatch(transform)) is not None:
            found.append(f"{counted[1]}({counted[2]}, {column})")
        elif transform != "void":  # a dropped field, in some formats
            found.append(column if transform == "identity" else f"{transform}({column})")
    return tuple(found)


def is_partitioned_by(table: Table, wanted: Sequence[str]) -> bool:
    """Whether the table has these partitions, in any order, and all of its files lie in them."""
    return not partition_changes(table, wanted) and not has_former_partitions(table)


def partition_changes(table: Table, wanted: Sequence[str]) -> list[Sql]:
    """The clauses of ALTER TABLE, one for each statement, that give new files the wanted partitions."""
    entries = [re.sub(r",\s*", ", ", entry) for entry in wanted]
    existing = partitions_of(table)
    dropped = [entry for entry in existing if entry not in entries]
    added = [entry for entry in entries if entry not in existing]
    return [
        *(sql("DROP PARTITION FIELD {field}", field=partition_ddl(entry)) for entry in dropped),
        *(sql("ADD PARTITION FIELD {field}", field=partition_ddl(entry)) for entry in added),
    ]


def has_former_partitions(table: Table) -> bool:
    """Whether some of its files lie in partitions of a former spec."""
    if len(table.specs()) == 1:
        return False
    snapshot = current_snapshot(table)
    manifests = snapshot.manifests(table.io) if snapshot is not None else []
    return any(
        manifest.partition_spec_id != table.spec().spec_id
        and (manifest.added_files_count or manifest.existing_files_count)
        for manifest in manifests
    )


def too_long_for_a_path(error: str, wanted: Sequence[str]) -> str | None:
    """Why Iceberg could not write into a partition, and what to do, if the error is about a path that a value makes too
    long; else None. `wanted`: the table's partitions in the notation of lake.yaml."""
    by_value = {entry: column for entry in wanted if (column := _written_out(entry)) is not None}
    too_long = re.findall(rf"/([^/=\s]+)=[^/\s]{{{FOLDER_NAME_BYTES},}}", error)
    if not by_value or not (too_long or any(sign in error for sign in _TOO_LONG_KEY)):
        return None
    named = {
        entry: column for entry, column in by_value.items() if any(n.startswith(column) for n in too_long)
    }
    entries = named or by_value
    columns = [*dict.fromkeys(entries.values())]
    return (
        f"a value of {' or '.join(columns)} is too long for the folder of its partition: a folder's name on a disk has "
        f"at most {FOLDER_NAME_BYTES} bytes, an object's key in S3 1,024, and a letter that is not ASCII takes up to "
        f"12. In partition_by, write {' and '.join(f'bucket(16, {column})' for column in columns)} or "
        f"{' and '.join(f'truncate(10, {column})' for column in columns)} instead of {' and '.join(entries)}"
    )


def _written_out(entry: str) -> str | None:
    """The column whose value, or the beginning of it, names the partition's folder."""
    if (cut := re.fullmatch(r"truncate\(\d+,\s*(.+)\)", entry)) is not None:
        return cut[1]
    return None if "(" in entry else entry
