"""The daily partitions of bronze and of the marts. Days are UTC."""

import dagster as dg

from lake_assets.config import LakeConfig


def daily_partitions(lake: LakeConfig) -> dg.DailyPartitionsDefinition:
    """From `gold.start_date` up to and including today, so that today's files have a partition."""
    return dg.DailyPartitionsDefinition(
        start_date=lake.gold.start_date.isoformat(), timezone="UTC", end_offset=1
    )
