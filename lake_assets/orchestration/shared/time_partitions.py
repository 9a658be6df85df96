"""The partitions of time of bronze and of the marts, in UTC: no hour is missing where clocks change."""

import dagster as dg

from lake_assets.config import LakeConfig
from lake_assets.gold.periods.grain import Grain


def daily_partitions(lake: LakeConfig) -> dg.DailyPartitionsDefinition:
    """From `gold.start_date` up to and including today, so that today's files have a partition."""
    return dg.DailyPartitionsDefinition(lake.gold.start_date.isoformat(), timezone="UTC", end_offset=1)


def mart_partitions(lake: LakeConfig, grain: Grain) -> dg.TimeWindowPartitionsDefinition:
    """From the period in which `gold.start_date` lies up to and including the present one."""
    start = grain.key(grain.of(lake.gold.start_date))
    match grain:
        case Grain.HOUR:
            return dg.HourlyPartitionsDefinition(start, timezone="UTC", end_offset=1)
        case Grain.WEEK:
            return dg.WeeklyPartitionsDefinition(start, day_offset=1, timezone="UTC", end_offset=1)
        case Grain.MONTH:
            return dg.MonthlyPartitionsDefinition(start, timezone="UTC", end_offset=1)
    return daily_partitions(lake)
