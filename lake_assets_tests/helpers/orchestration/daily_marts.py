"""Assets of daily rows for tests of the IO manager, and runs of them."""

from collections.abc import Callable, Sequence
from datetime import date
from typing import Any

import dagster as dg
from pyspark.sql import DataFrame

from lake_assets.config import parse_column
from lake_assets.orchestration.io_managers.iceberg_io_manager import TableIOManager
from lake_assets.orchestration.io_managers.run_partitions import PARTITION_COLUMN
from lake_assets.orchestration.lake_definitions import Lake

DAYS = dg.DailyPartitionsDefinition("2024-03-01", timezone="UTC", end_offset=1)
COLUMNS = (
    parse_column("day", "date not null"),
    parse_column("id", "int not null"),
    parse_column("word", "string"),
)
ALL = "2024-03-01..2024-03-05"
OLD: list[tuple[int, int, str | None]] = [(day, 1, "old") for day in range(1, 6)]

Rows = Sequence[tuple[int, int, str | None]]
"""Day of March 2024, id, word."""


def frame(lake: Lake, rows: Rows) -> DataFrame:
    """The rows as a DataFrame."""
    schema = "day date, id int, word string"
    values = [(date(2024, 3, day), number, word) for day, number, word in rows]
    return lake.runtime.sessions.root().createDataFrame(values, schema)


def mart(name: str, result: Callable[[], Any], **arguments: Any) -> dg.AssetsDefinition:
    """A partitioned asset of the IO manager that returns `result()`."""

    @dg.asset(
        key=["gold", name],
        io_manager_key="io",
        **{"partitions_def": DAYS, "metadata": {PARTITION_COLUMN: "day"}, **arguments},
    )
    def compute() -> Any:
        return result()

    return compute


def run(
    lake: Lake,
    instance: dg.DagsterInstance,
    assets: Any,
    days: str | None = None,
    *,
    raises: bool = True,
    **arguments: Any,
) -> dg.ExecuteInProcessResult:
    """Materializes; `days` is one day, or a range such as 2024-03-01..2024-03-03 in one run."""
    first, _, last = (days or "").partition("..")
    tags = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
    return dg.materialize(
        assets if isinstance(assets, list) else [assets],
        instance=instance,
        resources={"io": TableIOManager(lake.runtime)},
        partition_key=first if days and not last else None,
        tags=tags if last else None,
        raise_on_error=raises,
        **arguments,
    )


def stored(lake: Lake, name: str) -> Rows:
    """The table's rows."""
    rows = lake.runtime.catalog.load_table(f"gold.{name}").scan().to_arrow().to_pylist()
    return sorted((row["day"].day, row["id"], row["word"]) for row in rows)


def snapshot(lake: Lake, name: str) -> int | None:
    """The id of the mart's current snapshot."""
    current = lake.runtime.catalog.load_table(f"gold.{name}").current_snapshot()
    return current.snapshot_id if current else None


def branches(lake: Lake, name: str) -> set[str]:
    """The branches and tags of the mart beside main."""
    return set(lake.runtime.catalog.load_table(f"gold.{name}").refs()) - {"main"}
