"""Bronze in Dagster: one external asset per source table, and the events that say which files landed.

Here: asset specs and runless events. Not here: listing (`bronze/scan/discovery.py`), reading
(`silver/changes/reading.py`).
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import dagster as dg

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.day_totals import DayTotals, Landed
from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.config import LakeConfig
from lake_assets.orchestration.shared.asset_keys import bronze_key
from lake_assets.orchestration.shared.asset_metadata import column_schema
from lake_assets.orchestration.shared.first_periods import FirstPeriods
from lake_assets.orchestration.shared.links import bucket_link
from lake_assets.orchestration.shared.time_partitions import daily_partitions
from lake_assets.words import many

IO_MANAGER_KEY = "bronze_io_manager"
LAST_OFFSET = "last_offset"
"""Metadata of an event: the offset up to which the table's files have been reported."""


def bronze_specs(lake: LakeConfig, first: FirstPeriods) -> list[dg.AssetSpec]:
    """One external asset per table. Its partitions are the days (UTC) on which DMS wrote its files."""
    return [
        dg.AssetSpec(
            key=bronze_key(lake, name, table),
            description=config.description or f"DMS files of {table} as they landed.",
            group_name="bronze",
            partitions_def=daily_partitions(first.of_table(name, table)),
            kinds={
                "s3" if source.location.startswith("s3://") else "file",
                source.settings(table).data_format,
            },
            owners=list(config.owners or source.owners),
            tags={"layer": "bronze", "source": name, **config.tags},
            metadata={
                "dagster/uri": f"{source.location.rstrip('/')}/{table.replace('.', '/')}",
                "dagster/column_schema": column_schema(config.columns, config.comments),
                **bucket_link(f"{source.location.rstrip('/')}/{table.replace('.', '/')}", source.s3.endpoint),
            },
        ).with_io_manager_key(IO_MANAGER_KEY)
        for name, source in lake.sources.items()
        for table, config in source.tables.items()
    ]


def capture_day(file: LoggedFile) -> str:
    """The bronze partition of a file."""
    return file.capture_date.isoformat()


def landed_events(
    lake: LakeConfig, source_name: str, logged: Iterable[LoggedFile], days: DayTotals
) -> list[dg.AssetMaterialization]:
    """One event per table and day of the newly logged files. It has the files, rows and bytes of the whole day so far,
    because the UI shows a partition's newest event; and of the new files the number, the rows, the first and the last
    key.

    Tables that lake.yaml does not name get no event, though the log has their shares of transaction files. Rows are
    counted in the files; `files_uncounted` is the number of files that the scan did not count because of their size. A
    table's last event has its highest offset: if the process dies between two events, the next one can report the
    remaining ones (`bronze_reports.py`).
    """
    source = lake.sources[source_name]
    groups: dict[tuple[str, str], list[LoggedFile]] = defaultdict(list)
    for file in sorted(logged, key=lambda file: file.offset):
        if file.qualified_table not in source.tables or file.kind is FileKind.VANISHED:
            continue
        groups[file.qualified_table, capture_day(file)].append(file)
    return [
        dg.AssetMaterialization(
            asset_key=bronze_key(lake, source_name, table),
            partition=day,
            description=f"{many(len(files), 'file')} of {table} landed",
            metadata=_metadata(files, days.of(table, day)),
        )
        for (table, day), files in sorted(groups.items(), key=lambda group: group[1][-1].offset)
    ]


def _metadata(files: Sequence[LoggedFile], day: Landed) -> dict[str, dg.MetadataValue]:
    return {
        "dagster/partition_row_count": dg.MetadataValue.int(day.rows),
        "files": dg.MetadataValue.int(day.files),
        "bytes": dg.MetadataValue.int(day.bytes),
        **({"files_uncounted": dg.MetadataValue.int(day.uncounted)} if day.uncounted else {}),
        "new_files": dg.MetadataValue.int(len(files)),
        "new_rows": dg.MetadataValue.int(Landed.of(files).rows),
        "first_key": dg.MetadataValue.text(files[0].key),
        "last_key": dg.MetadataValue.text(files[-1].key),
        LAST_OFFSET: dg.MetadataValue.int(files[-1].offset),
    }
