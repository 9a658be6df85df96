"""`lake-assets demo`: generates the bike-sharing source and compares the lake with it.

Here: where the demonstration keeps its source database, generating a history, comparing. Not here: the simulator
(`lake_assets.demo`), printing (`commands/demo/demo_cli.py`).
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog

from lake_assets.config import LakeConfig, SourceConfig, TableName
from lake_assets.demo.compare import NOTHING_ADDED, TableComparison, compare_with_source
from lake_assets.demo.dms.dms_settings import DmsWriterSettings
from lake_assets.demo.dms.written_files import WrittenFiles
from lake_assets.demo.feed import run_feed
from lake_assets.demo.history import generate_history
from lake_assets.demo.source_masks import SourceMasks
from lake_assets.errors import LakeError
from lake_assets.iceberg.table_io import load_table
from lake_assets.lake import Lake

SOURCE = "bikeshare"


@dataclass(frozen=True, slots=True)
class ShownMart:
    """The rows of a mart that the demonstration shows: those with the highest `by`."""

    name: str
    title: str
    by: str
    of_full_day: bool
    columns: tuple[str, ...]


SHOWN = (
    ShownMart(
        "racks_empty_now",
        "racks_empty_now: longest empty first",
        "minutes_empty",
        False,
        ("station_id", "name", "empty_since", "minutes_empty", "state"),
    ),
    ShownMart(
        "station_daily",
        "station_daily: most minutes empty on the last full day",
        "minutes_empty",
        True,
        (
            "day",
            "name",
            "trips_out",
            "trips_in",
            "minutes_empty",
            "longest_empty_minutes",
            "empty_limit_breaches",
        ),
    ),
    ShownMart(
        "trip_revenue_daily",
        "trip_revenue_daily: highest revenue on the last full day",
        "revenue",
        True,
        ("day", "district", "trips", "revenue", "distance_km"),
    ),
)


@dataclass(frozen=True, slots=True)
class DemoSource:
    """The demonstration's source: where its database is and where its DMS files go."""

    config: SourceConfig
    database: Path

    @property
    def output(self) -> str:
        """Where DMS writes: the source's location, or the topic of its stream."""
        stream = self.config.stream
        if stream is None or stream.kafka is None:
            return self.config.location
        return f"kafka://{stream.kafka.bootstrap_servers}/{stream.kafka.topic}"

    @property
    def exists(self) -> bool:
        return self.database.exists()

    @property
    def settings(self) -> DmsWriterSettings:
        """The endpoint settings that lake.yaml declares for the files."""
        dms = self.config.dms
        return DmsWriterSettings(
            data_format=dms.data_format,
            compression=dms.compression_type,
            add_column_name=dms.add_column_name,
            csv_null_value=dms.csv_null_value,
            rfc_4180=dms.rfc_4180,
            timestamp_column_name=dms.timestamp_column_name or "",
            change_sequence_column=dms.change_sequence_column,
            before_image_prefix=dms.before_image_prefix,
            include_op_for_full_load=dms.include_op_for_full_load,
        )


def demo_source(lake: LakeConfig, folder: Path) -> DemoSource:
    """The demonstration's source in lake.yaml, whose database is in `folder`. Raises LakeError without it."""
    if SOURCE not in lake.sources:
        raise LakeError(
            f"lake.yaml has no source {SOURCE}: the demonstration runs on the lake.yaml that came with lake_assets."
        )
    return DemoSource(lake.sources[SOURCE], folder / "source.db")


def generate(
    source: DemoSource, *, changes: int, days: float, seed: int, progress: Callable[[int, int], None]
) -> WrittenFiles:
    """Writes a history that ends now, unless one exists. Files of a killed attempt are removed first.

    Raises LakeError if other files exist at the location.
    """
    unfinished = source.database.with_name(f".{source.database.name}.unfinished")
    try:
        return generate_history(
            source.output,
            source.database,
            seed=seed,
            changes=changes,
            days=days,
            end=datetime.now(UTC),
            settings=source.settings,
            endpoint_url=source.config.s3.endpoint,
            overwrite=unfinished.exists(),
            progress=progress,
        )
    except FileExistsError as error:
        raise LakeError(f"{error}. Remove {source.config.location} if it is an old demonstration.") from error


def flush_leftovers(source: DemoSource) -> bool:
    """Writes the changes that a killed live feed had committed but not flushed; False if a feed is running."""
    try:
        run_feed(source.output, source.database, duration=0, endpoint_url=source.config.s3.endpoint)
    except RuntimeError:
        return False
    return True


def compare(
    lake: Lake, source: DemoSource, added: Mapping[str, Collection[str]] = NOTHING_ADDED
) -> list[TableComparison]:
    """Every silver table of the demonstration against the source's own database, row by row, through PyIceberg.
    `added`: see `compare_with_source`."""
    masks = source_masks(lake.config)
    return compare_with_source(lake.runtime.catalog, f"silver_{SOURCE}", source.database, masks, added)


def source_masks(lake: LakeConfig) -> SourceMasks:
    """The masks of the demonstration's tables in lake.yaml, for the comparison."""
    by_table = {
        TableName.parse(name).table: {column: mask.value for column, mask in table.mask.items()}
        for name, table in lake.sources[SOURCE].tables.items()
    }
    salt = lake.masking.salt
    return SourceMasks(by_table, salt.get_secret_value() if salt is not None else "")


def top_rows(
    catalog: Catalog, identifier: str, by: str, count: int, of_full_day: bool
) -> list[dict[str, Any]]:
    """The `count` rows of a mart with the highest `by`; with `of_full_day`, only rows of the last day that is over."""
    table = load_table(catalog, identifier)
    rows: list[dict[str, Any]] = table.scan().to_arrow().to_pylist() if table is not None else []
    if of_full_day and rows:
        # Shortly after midnight, the present day has almost no rows.
        days = sorted({row["day"] for row in rows})
        chosen = days[-2] if len(days) > 1 else days[-1]
        rows = [row for row in rows if row["day"] == chosen]
    return sorted(rows, key=lambda row: (row[by] is not None, row[by]), reverse=True)[:count]
