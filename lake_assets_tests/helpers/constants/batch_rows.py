"""Rows of the batch log that no batch has made."""

from dataclasses import replace
from datetime import UTC, datetime, time, timedelta

from lake_assets.silver.batch_log.batch_row import BatchRow

START = datetime.combine(datetime.now(UTC) - timedelta(days=30), time(), UTC)
"""A month ago: the log does not record what is older than a year."""
_ROW = BatchRow(
    table="silver_shop.items",
    table_uuid="u",
    snapshot_id=0,
    committed_at=START,
    published_at=START,
    kind="cdc",
    strategy="append",
    reason="",
    files=1,
    bytes=200,
    rows_read=3,
    rows_inserted=2,
    rows_updated=1,
    rows_deleted=0,
    rows_quarantined=0,
    unmatched=0,
    rows_behind_cut=0,
    rows=10,
    position=1,
    epoch=1,
    newest_commit=None,
    first_file_at=None,
    first_commit_at=None,
    lag_seconds=None,
    latency_seconds=None,
    seconds=0.5,
    run_id="",
    stages={"read": 0.1, "write": 0.3, "publish": 0.1},
)


def batch_row(number: int, table: str = "silver_shop.items", latency: float | None = None) -> BatchRow:
    """The batch of that minute after START; `latency`: seconds from its file."""
    at = START + timedelta(minutes=number)
    landed = None if latency is None else at - timedelta(seconds=latency)
    return replace(
        _ROW,
        table=table,
        table_uuid=table,
        snapshot_id=number,
        committed_at=at,
        published_at=at,
        first_file_at=landed,
        latency_seconds=latency,
    )
