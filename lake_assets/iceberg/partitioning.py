"""A table's partitions: the current ones, and the statements that change them.

Here: partitions in the notation of lake.yaml, and the statements. Not here: which ones a table should have
(`silver/table/targets.py`), rewriting its files (`table_maintenance.py`).
"""

import re
from collections.abc import Sequence

from pyiceberg.table import Table

from lake_assets.iceberg.table_io import current_snapshot, partition_ddl
from lake_assets.spark.sql import Sql, sql

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
