"""Automatic work: the continuous run, maintenance.

Not here: the continuous run's rounds (`orchestration/runs/continuous_run.py`), maintenance
(`iceberg/upkeep/table_maintenance.py`).
"""

from datetime import timedelta

from pydantic import Field, field_validator

from lake_assets.config.base import Duration, Model, Switched

ABANDONED_AFTER = timedelta(days=1)
"""Longer than the longest batch: what is older and belongs to no commit has been left behind by a killed process."""


SHORTEST_WINDOW = timedelta(days=1)
"""Of superseded files: a full load whose parts arrive over more than this has been applied too early anyway."""


class MaintenanceConfig(Model):
    keep_snapshots: Duration = timedelta(hours=2)
    """How long a snapshot stays readable after the next one replaced it; must exceed the longest read."""
    remove_orphan_files_after: Duration | None = timedelta(days=3)
    """Files of a table's folder that no state of a table needs are deleted when they are older than this; never, if
    None. Each table is searched once in this time."""

    keep_superseded_files: Duration | None = None
    """Files of a source that only a former full load needed are deleted when a later load has superseded them longer
    ago than this; never, if None."""

    keep_runs: Duration | None = timedelta(days=1)
    """How long Dagster keeps the lake's own runs that succeeded, with their events; for ever, if None. A run that holds
    the newest materialization of a table or a partition stays."""
    keep_failed_runs: Duration | None = timedelta(days=14)
    """As `keep_runs`, for runs that failed or were canceled."""

    @field_validator("remove_orphan_files_after")
    @classmethod
    def _old_enough(cls, age: timedelta | None) -> timedelta | None:
        if age is not None and age < ABANDONED_AFTER:
            raise ValueError(
                "must be at least 1d: what a running batch has written and not yet committed is an orphan, too"
            )
        return age

    @field_validator("keep_superseded_files")
    @classmethod
    def _long_enough(cls, age: timedelta | None) -> timedelta | None:
        if age is not None and age < SHORTEST_WINDOW:
            raise ValueError(
                "must be at least 1d: a late part of a full load must find the files that it needs"
            )
        return age


class ContinuousConfig(Switched):
    """The continuous run of each source, which scans and applies in rounds."""

    interval: Duration = timedelta(0)
    """Pause between two rounds; 0s: no pause."""
    daily_marts_every: Duration = timedelta(minutes=5)
    """The shortest interval between the separate runs that compute marts with days, and those with `with_silver:
    false`. All other marts without days are refreshed in each round."""
    keep_commits: int = Field(default=50, ge=2)
    """How many snapshots of a table maintenance keeps, in addition to those that a mart has not consumed; at most
    a thousand: each commit rewrites the list of them. Reads of older snapshots fail, whatever their age."""
