"""A table's partitions: as they are, and what makes them others.

Here: partitions in the words of lake.yaml, and the statements. Not here: which ones a table is to have
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
        elif transform != "void":  # what a dropped one becomes in some formats
            found.append(column if transform == "identity" else f"{transform}({column})")
    return tuple(found)


def is_partitioned_by(table: Table, wanted: Sequence[str]) -> bool:
    """Whether these are the partitions of the table, in whatever order, and all of its files lie in them."""
    return not to_be_changed(table, wanted) and not has_files_of_before(table)


def to_be_changed(table: Table, wanted: Sequence[str]) -> list[Sql]:
    """What makes them the partitions of new files, after ALTER TABLE and the table, one after the other."""
    entries = [re.sub(r",\s*", ", ", entry) for entry in wanted]
    there = partitions_of(table)
    dropped = [entry for entry in there if entry not in entries]
    added = [entry for entry in entries if entry not in there]
    return [
        *(sql("DROP PARTITION FIELD {field}", field=partition_ddl(entry)) for entry in dropped),
        *(sql("ADD PARTITION FIELD {field}", field=partition_ddl(entry)) for entry in added),
    ]


def has_files_of_before(table: Table) -> bool:
    """Whether some of its files lie in partitions that it had before."""
    if len(table.specs()) == 1:
        return False
    snapshot = current_snapshot(table)
    manifests = snapshot.manifests(table.io) if snapshot is not None else []
    return any(
        manifest.partition_spec_id != table.spec().spec_id
        and (manifest.added_files_count or manifest.existing_files_count)
        for manifest in manifests
    )
