"""The partitions of time of bronze and of the marts, in UTC: no hour is missing where clocks change."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Any

import dagster as dg

from lake_assets.gold.periods.grain import Grain, Period


class UtcDays(dg.DailyPartitionsDefinition):
    """Days in UTC. Every run lists all days of each bronze asset that it reads, and Dagster finds the next day by a
    cron expression: for the 9,800 days since 2000 of 45 tables, that took a sixth of their first `sync`."""

    def get_partition_keys(
        self,
        current_time: datetime | None = None,
        dynamic_partitions_store: Any = None,
    ) -> Sequence[str]:
        """All keys, the earliest first."""
        with dg.partition_loading_context(current_time, dynamic_partitions_store):
            first, last = self.get_first_partition_key(), self.get_last_partition_key()
        return _days(first, last) if first is not None and last is not None else []


@lru_cache(maxsize=8)
def _days(first: str, last: str) -> Sequence[str]:
    begin, end = date.fromisoformat(first), date.fromisoformat(last)
    return [(begin + timedelta(days=number)).isoformat() for number in range((end - begin).days + 1)]


def daily_partitions(first: date) -> dg.DailyPartitionsDefinition:
    """From the first day up to and including today, so that today's files have a partition."""
    return UtcDays(first.isoformat(), timezone="UTC", end_offset=1)


def time_partitions(grain: Grain, first: Period) -> dg.TimeWindowPartitionsDefinition:
    """From the first period up to and including the present one."""
    match grain:
        case Grain.HOUR:
            return dg.HourlyPartitionsDefinition(grain.key(first), timezone="UTC", end_offset=1)
        case Grain.WEEK:
            return dg.WeeklyPartitionsDefinition(grain.key(first), day_offset=1, timezone="UTC", end_offset=1)
        case Grain.MONTH:
            return dg.MonthlyPartitionsDefinition(grain.key(first), timezone="UTC", end_offset=1)
    return daily_partitions(first)
