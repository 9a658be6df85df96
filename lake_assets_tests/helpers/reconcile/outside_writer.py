"""A writer outside the engine that changes rows of a silver table and copies the commit properties of the table's head,
so that the guard takes its commit for one of the engine's.

Here: that. Not here: tests that use it.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake_assets.iceberg.publish import attempt
from lake_assets.iceberg.table_io import summary
from lake_assets.orchestration.lake_definitions import Lake
from lake_assets.spark.checkpoint import checkpointed
from lake_assets.spark.sql import Sql, sql, table_address


def rewrite(lake: Lake, identifier: str, condition: str, **columns: str) -> int:
    """Replaces the rows that meet the condition by the same rows with other values, SQL by column; returns how many.
    The condition must not name a changed column."""
    table = lake.runtime.catalog.load_table(identifier)
    head = table.current_snapshot()
    assert head is not None
    catalog = lake.config.catalog.name
    with lake.runtime.sessions.isolated() as spark:
        rows: DataFrame = checkpointed(spark.table(table_address(catalog, identifier)).filter(condition))
        number = rows.count()
        changed = (
            rows.withColumns({name: F.expr(value) for name, value in columns.items()}) if columns else rows
        )
        stamps = {name: value for name, value in summary(head).items() if name.startswith("lake.")}
        with attempt(spark, catalog, identifier, head.snapshot_id) as current:
            where = sql(
                "DELETE FROM {branch} WHERE {condition}", branch=current.address, condition=Sql(condition)
            )
            spark.sql(where)
            if not columns:
                changed = changed.limit(0)
            current.writer(changed, stamps).append()
            current.publish()
    return number
