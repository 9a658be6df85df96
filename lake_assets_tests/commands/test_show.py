"""What the tables of the command line show of figures."""

from dataclasses import asdict
from io import StringIO

from rich.console import Console

from lake_assets.commands.show.show import show_status, show_sync
from lake_assets.commands.show.status import TableStatus
from lake_assets.rounds.pending_work import SyncResult
from lake_assets.silver.plan.planner import State

LINE = TableStatus(
    table="silver_shop.items",
    state=State.UP_TO_DATE,
    rows=1234,
    position=7,
    pending_files=0,
    quarantined=3,
    lag_seconds=224_071.4,
    latency=None,
    last_batch={"kind": "cdc", "files": "1", "rows-read": "2"},
    last_applied=None,
    reason=None,
    quarantined_files=1,
    source_table="public.items",
)


def printed(show: object, *arguments: object) -> str:
    console = Console(file=StringIO(), width=200)
    show(console, *arguments)  # type: ignore[operator]
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_status_shows_lag_in_days_and_hours_and_what_is_quarantined() -> None:
    text = printed(show_status, [LINE])
    assert "2 d 14 h" in text
    assert "224" not in text
    assert "cdc, 1 file, 2 rows" in text
    assert "quaran" in text
    assert LINE.quarantine_note == (
        "silver_shop.items: 2 rows and 1 file are quarantined; to see which: "
        "lake-assets quarantine list --table public.items"
    )
    assert asdict(LINE)["lag_seconds"] == 224_071.4


def test_sync_shows_the_same() -> None:
    figures = dict.fromkeys(
        ("files", "rows_read", "rows_inserted", "rows_updated", "rows_deleted", "dagster/row_count"), 1
    )
    data = figures | {
        "rows_quarantined": 40,
        "files_quarantined": 2,
        "seconds": 1.0,
        "lag_seconds": 224_071.4,
    }
    text = printed(show_sync, SyncResult(applied={"silver_shop.items": data}))
    assert " 42 " in text
    assert "2 d 14 h" in text
