"""Where the partitions of bronze and of the marts begin: at the first day of their data.

Only the process that shows the definitions looks at the data, once, when it loads them. A run accepts every partition
from `gold.start_date` on: it opens no catalog for this, and computes what another process has requested.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date

from lake_assets.bronze.log.first_days import first_days
from lake_assets.config import LakeConfig
from lake_assets.errors import LakeError
from lake_assets.gold.mart import Mart
from lake_assets.gold.periods.grain import Period, beginning, is_marker
from lake_assets.gold.table_snapshots import LoadedTables
from lake_assets.gold.view import mart_view
from lake_assets.iceberg.catalog import is_there
from lake_assets.runtime import LakeRuntime, owner_of
from lake_assets.spark.causes import root_cause

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FirstPeriods:
    """The first partition of each asset; `gold.start_date` for an asset that is not named."""

    earliest: date
    """`gold.start_date`"""
    tables: Mapping[tuple[str, str], date] = field(default_factory=dict)
    """By source and `schema.table`."""
    marts: Mapping[str, Period] = field(default_factory=dict)

    @classmethod
    def any(cls, lake: LakeConfig) -> "FirstPeriods":
        """The first partitions in a run: it accepts all from `gold.start_date` on."""
        return cls(lake.gold.start_date)

    def of_table(self, source: str, table: str) -> date:
        return max(self.earliest, self.tables.get((source, table), self.earliest))

    def of_mart(self, mart: Mart) -> Period:
        earliest = mart.partitions.of(self.earliest)
        return max(earliest, self.marts.get(mart.name, earliest))


def first_periods(runtime: LakeRuntime, marts: Iterable[Mart]) -> FirstPeriods:
    """The first partitions by the data. If the catalog fails, that is logged and they stay at `gold.start_date`: the
    definitions have to load without the catalog."""
    earliest = FirstPeriods.any(runtime.lake)
    if not is_there(runtime.lake.catalog):
        return earliest
    try:
        tables = first_days(runtime.catalog, owner_of(runtime.lake))
        loaded = LoadedTables(runtime.catalog)
        by_mart = {mart.name: _first(runtime.lake, loaded, mart) for mart in marts if mart.partition_column}
    except Exception as error:  # noqa: BLE001  (whatever a catalog's client raises)
        reason = str(error) if isinstance(error, LakeError) else root_cause(error)
        logger.warning(
            "Partitions begin at gold.start_date (%s), because the first day of the data is unknown: %s",
            earliest.earliest,
            reason,
        )
        return earliest
    return FirstPeriods(
        earliest.earliest, tables, {name: first for name, first in by_mart.items() if first is not None}
    )


def _first(lake: LakeConfig, loaded: LoadedTables, mart: Mart) -> Period | None:
    """The first period that the mart has computed or has still to compute; None if its inputs have no rows yet."""
    view = mart_view(loaded, mart, lake.gold)
    if view is None:
        return None
    earliest, now = mart.partitions.of(lake.gold.start_date), mart.partitions.of(view.now)
    dates = (period for period in {*view.span, *view.work} if not is_marker(period, now, earliest))
    return min(dates, key=beginning, default=None)
