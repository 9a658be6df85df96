"""The consistent cut of a source: whole transactions over all of its tables, or none of them.

Not here: finding the cut (`silver/plan/cut.py`).
"""

from datetime import timedelta

from pydantic import Field, model_validator

from lake_assets.config.base import Duration, Switched


class ConsistentCut(Switched):
    """How long after a commit all of its rows are in the bucket, whichever table's file they went to."""

    interval: Duration = timedelta(seconds=60)
    """The endpoint's CdcMaxBatchInterval: so long DMS may keep a change before it writes it to a file. Its default."""
    margin: Duration = timedelta(seconds=10)
    """What DMS lags behind the source, what the source's clock and DMS's differ by, and how long an upload takes."""
    every: Duration = timedelta(seconds=10)
    """A new cut at most so often: each is a tag on every table of the source."""
    keep: int = Field(default=20, ge=1)
    """Tags of earlier cuts that stay on a table."""

    @model_validator(mode="after")
    def _whole_seconds(self) -> "ConsistentCut":
        if self.every < timedelta(seconds=1) or self.every % timedelta(seconds=1):
            raise ValueError(
                "every must be a whole number of seconds, at least 1s: cuts are named by the second"
            )
        return self

    @property
    def delay(self) -> timedelta:
        """From a commit to the moment at which its rows count as being all there."""
        return self.interval + self.margin
