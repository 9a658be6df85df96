"""Work that nobody asks for: runs that stay up, and what maintenance keeps and rewrites.

Not here: a run's rounds (`orchestration/runs/continuous_run.py`), maintenance (`iceberg/table_maintenance.py`).
"""

from datetime import timedelta

from pydantic import Field, model_validator

from lake_assets.config.base import Duration, Model, Switched

SHORTEST_ORPHAN_AGE = timedelta(days=1)


class MaintenanceConfig(Model):
    keep_snapshots: Duration = timedelta(hours=2)
    """How long a snapshot stays readable after the next one took its place; longer than the longest read."""
    keep_for_marts: Duration = timedelta(days=7)
    """So much longer a snapshot may stay that a mart has not consumed yet; without it, the mart computes all days."""
    max_snapshots: int = Field(default=1000, ge=1)
    """At most so many are kept, whatever their age: every commit writes the list of them again."""
    target_file_size_mb: int = Field(default=128, ge=1)
    min_small_files: int = Field(default=5, ge=2)
    """So many small data files of a partition are rewritten as one; so many manifests, too."""
    abandoned_after: Duration = timedelta(days=1)
    """An attempt's branch that is older was left behind by a killed process; longer than the longest batch."""
    remove_orphan_files_after: Duration | None = None
    """Files of a table's folder that are older and that no snapshot knows are deleted; never, when None."""

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
    """A run of each source that stays up."""

    interval: Duration = timedelta(0)
    """Pause between two rounds; 0s: as fast as it can."""
    report_every: Duration = timedelta(seconds=30)
    """A table's batches become one event in Dagster so often: each event costs it 10 ms, and space for ever."""
    daily_marts_every: Duration = timedelta(minutes=5)
    """Marts with days are computed by runs of their own, so often at most; those without are refreshed each round."""
    tend_after: int = Field(default=20, ge=1)
    """Commits after which a table is tended between two rounds: small files are merged, old snapshots expired."""
    keep_commits: int = Field(default=50, ge=2)
    """So many snapshots of a table stay, and those that a mart has not consumed, up to `maintenance.max_snapshots`:
    each commit writes the list of them anew. A reader of an older one is disturbed, whatever its age."""
    hand_over_after: Duration = timedelta(hours=6)
    """A fresh run takes over then."""
    hand_over_events: int = Field(default=5000, ge=1)
    """Or after so many events: a run's page in the UI reads them all."""
