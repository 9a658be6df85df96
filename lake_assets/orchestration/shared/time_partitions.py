"""The partitions of time of bronze and of the marts, in UTC: no hour is missing where clocks change."""

from datetime import date

import dagster as dg

from lake_assets.gold.periods.grain import Grain, Period


def daily_partitions(first: date) -> dg.DailyPartitionsDefinition:
    """From the first day up to and including today, so that today's files have a partition."""
    return dg.DailyPartitionsDefinition(first.isoformat(), timezone="UTC", end_offset=1)


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
