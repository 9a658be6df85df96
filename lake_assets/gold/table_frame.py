"""Reading a table of the lake into Spark: the one way in which marts and the IO manager do it.

Not here: which snapshot, columns or partitions, writing (`write_mart.py`).
"""

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame

from lake_assets.gold.partition_rows import PartitionRows
from lake_assets.iceberg.table_io import table_at
from lake_assets.runtime import LakeRuntime
from lake_assets.spark.sql import quoted, table_address


def table_frame(
    runtime: LakeRuntime,
    identifier: str,
    snapshot_id: int | None,
    *,
    columns: Sequence[str] = (),
    rows: PartitionRows | None = None,
    kinds: Mapping[str, str] | None = None,
) -> DataFrame:
    """The table at a snapshot, or at its head for None, not computed yet: all columns or some, all rows or those of
    some partitions. `kinds`: Iceberg types by column, for `rows`."""
    spark, catalog = runtime.sessions.root(), runtime.lake.catalog.name
    if snapshot_id is None:
        frame = spark.table(table_address(catalog, identifier))
    else:
        frame = spark.sql(table_at(catalog, identifier, snapshot_id))
    if rows is not None:
        frame = frame.filter(rows.in_spark(kinds or {}))
    return frame.select(*map(quoted, columns)) if columns else frame
