"""What the tables of the command line show of figures."""

from dataclasses import asdict, replace
from io import StringIO

from rich.console import Console

from lake_assets.commands.show.show import show_status, show_sync
from lake_assets.commands.show.status import TableStatus
from lake_assets.rounds.pending_work import SyncResult, no_files_sentence
from lake_assets.silver.plan.plan import State
from lake_assets.silver.table.batch_latency import Spread

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


def test_status_shows_what_needs_attention_and_the_rest_on_request() -> None:
    quiet = [replace(LINE, table=f"silver_shop.t{number}", quarantined=0, rows=1) for number in range(2)]
    empty = replace(
        LINE, table="silver_shop.t2", state=State.NO_FILES, rows=0, reason="no files", quarantined=0
    )
    stopped = replace(LINE, table="silver_shop.t3", state=State.STOPPED, reason="it is odd.", quarantined=0)
    waiting = replace(LINE, table="silver_shop.t4", state=State.WAITING, reason="a load.", quarantined=0)
    noted = replace(LINE, table="silver_shop.t5", reason="its rows are unknown.", quarantined=0)
    text = printed(show_status, [*quiet, empty, stopped, waiting, noted, LINE])
    assert [name for name in ("t0", "t1", "t2", "t3", "t4", "t5", "items") if name in text] == [
        "t3",
        "t4",
        "t5",
        "items",
    ]
    assert "2 tables are up to date, with 2 rows; 1 table has no files yet." in text
    assert "lake-assets status --all" in text
    console = Console(file=StringIO(), width=200)
    show_status(console, [*quiet, empty], every=True)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert all(name in shown for name in ("t0", "t1", "t2"))
    assert "--all" not in shown


def test_status_gives_latency_in_words() -> None:
    text = printed(show_status, [replace(LINE, latency=Spread(0.8, 2.0, 7200.0, 9000.0))])
    assert "0.8 / 2h" in text
    assert "for half of the batches / for 99 % of them" in " ".join(text.split())
    assert "p50" not in text


def test_a_batch_without_files_is_its_kind() -> None:
    emptied = {"kind": "truncate", "files": "0", "rows-read": "0"}
    text = printed(show_status, [replace(LINE, last_batch=emptied)])
    assert "truncate" in text
    assert "0 files" not in text


def test_a_thousand_tables_without_files_are_one_line() -> None:
    expected = {
        f"silver_shop.t{number}": f"no DMS files under s3://b/t{number}/ yet" for number in range(1187)
    }
    sentence = no_files_sentence(expected)
    assert sentence is not None
    assert sentence.startswith(
        "1,187 tables have no files yet, the first of them silver_shop.t0: no DMS files under"
    )
    assert "t1" not in sentence.replace("t0", "")
    assert (
        no_files_sentence(dict([*expected.items()][:1]))
        == "silver_shop.t0: no DMS files under s3://b/t0/ yet"
    )
    assert no_files_sentence({}) is None
