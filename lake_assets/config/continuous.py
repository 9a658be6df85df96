"""A run of each source that stays up.

Not here: its rounds (`orchestration/runs/continuous_run.py`).
"""

from datetime import timedelta
from typing import Any

from pydantic import Field, model_validator

from lake_assets.config.base import Duration, Model


class ContinuousConfig(Model):
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

    @model_validator(mode="before")
    @classmethod
    def _switched_on(cls, value: Any) -> Any:
        return {} if value is True else value
