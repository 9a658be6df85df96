"""Maintenance that has something to do in a table of a few rows."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from unittest.mock import patch

from lake_assets.iceberg.upkeep import retention, table_maintenance


@contextmanager
def little_kept() -> Iterator[None]:
    """Has maintenance merge two files, and keep nothing for marts longer than for readers."""
    with (
        patch.object(retention, "KEPT_FOR_MARTS", timedelta(0)),
        patch.object(table_maintenance, "MIN_SMALL_FILES", 2),
    ):
        yield
