"""How a source's location is looked through once it holds more than a listing can show at once.

Not here: looking (`bronze/listing.py`).
"""

from datetime import timedelta

from pydantic import Field

from lake_assets.config.base import Duration, Model


class ListingConfig(Model):
    """Of S3, a request lists a thousand objects."""

    whole_below: int = Field(default=5000, ge=0)
    """Up to so many files, every look lists them all."""
    tails: int = Field(default=200, ge=1)
    """Tables whose newest files one look asks for: those with new files of late, and others in turn."""
    pages: int = Field(default=10, ge=1)
    """Further requests of one look, of a pass through everything: for files that came late, and ones that are gone."""
    threads: int = Field(default=16, ge=1)
    """Requests at a time."""
    overlap: Duration = timedelta(minutes=15)
    """A table's newest files are those since so long before its newest one; older names wait for the pass."""
