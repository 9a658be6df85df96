"""The consistent cut of a source: whole transactions over all of its tables, or none of them.

Not here: finding the cut (`silver/plan/cut.py`).
"""

from datetime import timedelta

from pydantic import Field, model_validator

from lake_assets.config.base import Duration, Switched


class ConsistentCut(Switched):
    """How long after a commit all of its rows are in the bucket, in the files of all tables."""

    interval: Duration = timedelta(seconds=60)
    """The endpoint's CdcMaxBatchInterval: how long DMS may hold a change before it writes it to a file. The default is
    DMS's."""
    margin: Duration = timedelta(seconds=10)
    """The sum of DMS's lag behind the source, the difference of their clocks, and the time of an upload."""
    every: Duration = timedelta(seconds=10)
    """The shortest interval between two cuts: each is a tag on every table of the source."""
    keep: int = Field(default=20, ge=1)
    """The number of earlier cuts whose tags stay on a table."""

    @model_validator(mode="after")
    def _whole_seconds(self) -> "ConsistentCut":
        if self.every < timedelta(seconds=1) or self.every % timedelta(seconds=1):
            raise ValueError(
                "every must be a whole number of seconds, at least 1s: cuts are named by the second"
            )
        return self

    @property
    def delay(self) -> timedelta:
        """From a commit to the moment when all its rows count as arrived."""
        return self.interval + self.margin
