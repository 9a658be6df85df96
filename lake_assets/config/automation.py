"""Automatic work: the continuous run, maintenance.

Not here: the continuous run's rounds (`orchestration/runs/continuous_run.py`), maintenance
(`iceberg/table_maintenance.py`).
"""

from datetime import timedelta

from pydantic import Field, model_validator

from lake_assets.config.base import Duration, Model, Switched

SHORTEST_ORPHAN_AGE = timedelta(days=1)


class MaintenanceConfig(Model):
    keep_snapshots: Duration = timedelta(hours=2)
    """How long a snapshot stays readable after the next one replaced it; must exceed the longest read."""
    keep_for_marts: Duration = timedelta(days=7)
    """How long a snapshot that a mart has not consumed yet is kept; without it, the mart recomputes all days."""
    max_snapshots: int = Field(default=1000, ge=1)
    """The most snapshots that are kept, whatever their age: every commit rewrites the list of them."""
    target_file_size_mb: int = Field(default=128, ge=1)
    min_small_files: int = Field(default=5, ge=2)
    """If a partition has at least this many small data files, they are merged into one; manifests likewise."""
    abandoned_after: Duration = timedelta(days=1)
    """Branches of batches that are older than this are dropped: a killed process has left them behind. It must exceed
    the longest batch."""
    remove_orphan_files_after: Duration | None = None
    """Files in a table's folder that no snapshot references are deleted when they are older than this; never, if
    None."""

    keep_runs: Duration | None = timedelta(days=1)
    """How long Dagster keeps the lake's own runs that succeeded, with their events; for ever, if None. A run that holds
    the newest materialization of a table or a partition stays."""
    keep_failed_runs: Duration | None = timedelta(days=14)
    """As `keep_runs`, for runs that failed or were canceled."""

    @model_validator(mode="after")
    def _consistent(self) -> "MaintenanceConfig":
        if self.keep_for_marts < self.keep_snapshots:
            raise ValueError("keep_for_marts must not be below keep_snapshots")
        if not self.abandoned_after:
            raise ValueError(
                "abandoned_after must be above 0s: the branches of running batches would be dropped"
            )
        orphans = self.remove_orphan_files_after
        if orphans is not None and orphans < max(SHORTEST_ORPHAN_AGE, self.abandoned_after):
            raise ValueError(
                "remove_orphan_files_after must be at least 1d and not below abandoned_after: what a running batch "
                "has written and not yet committed is an orphan, too"
            )
        return self


class ContinuousConfig(Switched):
    """The continuous run of each source, which scans and applies in rounds."""

    interval: Duration = timedelta(0)
    """Pause between two rounds; 0s: no pause."""
    report_every: Duration = timedelta(seconds=30)
    """How often a table's batches are reported to Dagster as one event: each event takes 10 ms, and space for ever."""
    daily_marts_every: Duration = timedelta(minutes=5)
    """The shortest interval between the separate runs that compute marts with days, and those with `with_silver:
    false`. All other marts without days are refreshed in each round."""
    maintain_after: int = Field(default=20, ge=1)
    """Commits after which a table is maintained between two rounds: small files are merged, old snapshots expired."""
    keep_commits: int = Field(default=50, ge=2)
    """How many snapshots of a table maintenance keeps, in addition to those that a mart has not consumed; at most
    `maintenance.max_snapshots`: each commit rewrites the list of them. Reads of older snapshots fail, whatever their
    age."""
    hand_over_after: Duration = timedelta(hours=6)
    """After this time, a new run takes over."""
    hand_over_events: int = Field(default=5000, ge=1)
    """After this many events, a new run takes over: a run's page in the UI reads them all."""
