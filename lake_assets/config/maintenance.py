"""What `lake-assets maintain` keeps and what it rewrites.

Not here: doing it (`iceberg/table_maintenance.py`).
"""

from datetime import timedelta

from pydantic import Field, model_validator

from lake_assets.config.base import Duration, Model

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
