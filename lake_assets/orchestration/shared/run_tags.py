"""The tags by which a sensor finds runs: those that it has requested, and those of backfills."""

SCOPE = "lake_assets/scope"
BACKFILL = "dagster/backfill"
"""Dagster's tag on the runs of a backfill: the backfill's id."""
RUN_TAGS = {"dagster/max_retries": "0"}
"""The sensor retries, with its back-off. With `run_retries` on, Dagster would start a second retry."""


def mart_tag(name: str) -> str:
    """The run tag by which a mart's own runs are found."""
    return f"lake_assets/mart.{name}"
