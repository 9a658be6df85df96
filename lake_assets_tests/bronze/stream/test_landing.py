"""Messages become files of the log, each of them once, whoever reads and whenever a reader dies."""

import csv
import gzip
import io
import json
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.file_log import FileLog
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.bronze.log.streams.stream_positions import parse_ranges
from lake_assets.bronze.stream import landed_files
from lake_assets.bronze.stream.landed_objects import CARRIER
from lake_assets.bronze.stream.landing import Landing
from lake_assets.config import SourceConfig
from lake_assets.storage.local_store import LocalStore
from lake_assets.storage.object_store import StoreError
from lake_assets.storage.stored_object import StoredObject
from lake_assets_tests.helpers.files.dms_messages import NOON, ODD, MemoryStream, control, message

TABLE = {
    "columns": {"id": "long not null", "v": "string", "born": "timestamp", "raw": "binary"},
    "primary_key": ["id"],
}
DMS = {
    "include_transaction_details": True,
    "include_null_and_empty": True,
    "before_image_settings": {"enable_before_image": True},
}


class Shop:
    """A source with a stream in memory, its log, and readers."""

    def __init__(self, folder: Path, open_catalog: Callable[[], Catalog], **stream: Any) -> None:
        self.folder, self.open_catalog = folder / "landed", open_catalog
        kafka = {"bootstrap_servers": "unused", "topic": "unused"}
        self.source = SourceConfig.model_validate(
            {
                "location": str(self.folder),
                "stream": {"kafka": kafka, "engine": "mysql"} | stream,
                "dms": DMS,
                "tables": {"public.items": TABLE},
            }
        )
        self.stream = MemoryStream()
        self.log = FileLog(open_catalog())

    def reader(self, at_once: int = 1000) -> Landing:
        """A reader, as in a process of its own."""
        log = FileLog(self.open_catalog())
        return Landing("shop", self.source, LocalStore(self.folder), log, self.stream.client(at_once))

    def rows(self, file: LoggedFile) -> list[dict[str, str]]:
        text = gzip.decompress((self.folder / file.key).read_bytes()).decode()
        return list(csv.DictReader(io.StringIO(text, newline="")))

    def all_rows(self) -> list[tuple[str, str]]:
        """Sequence and id of each row of each file in the log."""
        files = [file for file in self.log.files("shop") if not file.key.startswith(CARRIER)]
        return [(row["$dms.change_sequence"], row["id"]) for file in files for row in self.rows(file)]


@pytest.fixture
def shop(tmp_path: Path, open_catalog: Callable[[], Catalog]) -> Shop:
    return Shop(tmp_path, open_catalog)


def test_rows_of_a_table(shop: Shop) -> None:
    shop.stream.put(
        "a",
        message("load", {"id": 1, "v": "", "born": "2026-03-01T10:00:00Z", "raw": "0x0AFF"}),
        message("insert", {"id": 2, "v": None, "born": None, "raw": None}, transaction=5),
        message("update", {"id": 3, "v": "x"}, before={"id": 2}, transaction=6, record=4),
        message("delete", {"id": 3}, transaction=7),
    )
    landed = shop.reader().land(0)
    assert [(f.kind, f.rows, f.qualified_table) for f in landed.logged] == [
        (FileKind.LOAD, 1, "public.items"),
        (FileKind.CDC, 3, "public.items"),
    ]
    load, changes = (shop.rows(file) for file in landed.logged)
    assert load == [
        {
            "$dms.operation": "I",
            "$dms.commit_timestamp": "2026-03-01 12:00:01.000000",
            "$dms.change_sequence": "",
            "id": "1",
            "v": "",
            "born": "2026-03-01T10:00:00",
            "raw": "0AFF",
        }
    ]
    assert [row["$dms.operation"] for row in changes] == ["I", "U", "D"]
    assert [row["v"] for row in changes] == ["$dms.null", "x", "$dms.null"]
    assert [row["born"] for row in changes] == ["$dms.null", "$dms.absent", "$dms.null"]
    assert [row["$dms.before.id"] for row in changes] == ["$dms.null", "2", "$dms.null"]
    assert changes[1]["$dms.change_sequence"] == "000001" + "0000000006" + "0" * 18 + "4"


def test_rows_of_other_columns_are_in_another_file(shop: Shop) -> None:
    """A column that an insert does not have any more was dropped; one that it has for the first time was added."""
    old, new = {"id": 1, "v": "x", "born": None, "raw": None}, {"id": 2, "v": "y", "more": 1}
    shop.stream.put(
        "a",
        message("insert", old, transaction=1),
        message("update", {"id": 1}, transaction=2),
        message("insert", new, transaction=3),
        message("update", {"id": 2, "v": "z"}, transaction=4),
    )
    files = sorted(shop.reader().land(0).logged, key=lambda file: "more" in (file.columns or ()))
    leading = ("$dms.operation", "$dms.commit_timestamp", "$dms.change_sequence")
    assert [file.columns for file in files] == [(*leading, *old), (*leading, *new)]
    assert [[row["id"] for row in shop.rows(file)] for file in files] == [["1", "1"], ["2", "2"]]
    assert shop.rows(files[1])[1]["more"] == "$dms.absent"


def test_odd_texts_stay_as_they_are(shop: Shop) -> None:
    values = [message("insert", {"v": text, "id": n}, transaction=n + 1) for n, text in enumerate(ODD)]
    shop.stream.put("a", *values)
    (file,) = shop.reader().land(0).logged
    assert file.rows == len(ODD)
    assert file.irregular is not None
    assert [row["v"] for row in shop.rows(file)] == ODD


@pytest.mark.parametrize("operation", ["load", "insert"])
def test_a_time_that_is_none_stops_no_landing(shop: Shop, operation: str) -> None:
    good = message(operation, {"id": 1}, transaction=1)
    shop.stream.put("a", message(operation, {"id": 2}, transaction=2, timestamp="soon"), good)
    landed = shop.reader().land(0)
    assert [fault.reason for fault in landed.faults] == ["its timestamp is 'soon', which is no time"]
    assert [id_ for _, id_ in shop.all_rows()] == ["1"]


@pytest.mark.parametrize(
    ("odd", "why"),
    [
        *(
            (message("insert", {"id": 2}, table=name, transaction=2), "no name of a folder")
            for name in ("a.b/c", "a.\0", f"a.{'x' * 300}")
        ),
        (message("insert", {"id": 2}, transaction=2).replace(b"public", b".."), "no name of a folder"),
        (message("insert", {"id": 2, "n" * 70_000: 1}, transaction=2), "more than 16,000 characters"),
        (message("insert", {f"{'n' * 1000}{n}": n for n in range(300)}, transaction=2), "more than 250,000"),
        (
            message("update", {"id": 2}, before={"n" * 70_000: 1}, transaction=2),
            "more than 16,000 characters",
        ),
        (message("insert", {"id": 2}, timestamp="9999-12-31T23:59:59-14:00"), "no time"),
        (message("insert", {"id": 2}, record=10**19), "no place in a transaction"),
        (message("insert", {"id": 2}, record=-1), "no place in a transaction"),
    ],
)
def test_an_odd_message_stops_no_landing(shop: Shop, odd: bytes, why: str) -> None:
    shop.stream.put("a", odd, message("insert", {"id": 1}, transaction=1))
    landed = shop.reader().land(0)
    (fault,) = landed.faults
    assert why in fault.reason
    assert [id_ for _, id_ in shop.all_rows()] == ["1"]


@pytest.mark.parametrize(("most_bytes", "landed"), [(1 << 20, 20), (1, 2)])
def test_a_wait_for_a_column_ends_when_messages_have_many_bytes(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, most_bytes: int, landed: int
) -> None:
    columns = {"id": {"type": "INT64", "nullable": False}, "v": {"type": "STRING", "nullable": True}}
    created = control("create-table", {"table-def": {"columns": columns, "primary-key": ["id"]}})
    timed = json.loads(created)
    timed["metadata"]["timestamp"] = "2026-03-01T11:00:00Z"
    shop.stream.put("a", json.dumps(timed).encode())
    reader = shop.reader(at_once=2)
    assert reader.land(0).controls == 1
    monkeypatch.setattr("lake_assets.bronze.stream.landing.MOST_BYTES", most_bytes)
    monkeypatch.setattr("lake_assets.bronze.stream.landing.DEFINITION_SECONDS", 1.0)
    rows = [message("insert", {"id": n, "more": 1}, transaction=n + 1) for n in range(20)]
    shop.stream.put("a", *rows)
    assert reader.land(0).messages == landed


def test_a_message_that_is_too_large_is_kept(shop: Shop) -> None:
    huge = message("insert", {"id": 2, "v": "\0" + "x" * (33 << 20)}, transaction=2)
    shop.stream.put("a", huge, message("insert", {"id": 1}, transaction=1))
    landed = shop.reader().land(0)
    assert [fault.reason for fault in landed.faults] == [
        "it has 33 MiB, and the lake reads messages of up to 32 MiB"
    ]
    assert [id_ for _, id_ in shop.all_rows()] == ["1"]


def test_a_mark_of_the_lake_is_no_value(shop: Shop) -> None:
    shop.stream.put("a", message("insert", {"id": 1, "v": "$dms.absent"}, transaction=1))
    landed = shop.reader().land(0)
    assert [fault.reason for fault in landed.faults] == ["the value of its v is one of the lake's own marks"]


def test_what_is_no_row_is_kept_whole(shop: Shop) -> None:
    drop, strange = control("drop-table"), b'{"data": {"id": 1}}'
    unordered = message("insert", {"id": 9}, transaction=-(1 << 32))
    shop.stream.put("a", drop, strange, None, unordered, message("insert", {"id": 1}, table="public.other"))
    landed = shop.reader().land(0)
    assert (landed.messages, landed.controls, dict(landed.unconfigured)) == (5, 1, {"public.other": 1})
    assert [(f.message.position, f.table) for f in landed.faults] == [
        ("1", None),
        ("2", None),
        ("3", "public.items"),
    ]
    assert "metadata" in landed.faults[0].reason
    assert landed.faults[1].reason == "it is empty"
    assert "transaction-id is 0" in landed.faults[2].reason
    carrier = next(file for file in landed.logged if file.key.startswith(CARRIER))
    kept = [
        json.loads(line) for line in gzip.decompress((shop.folder / carrier.key).read_bytes()).splitlines()
    ]
    assert [(one["position"], one["reason"] is None) for one in kept] == [
        ("0", True),
        ("1", False),
        ("2", False),
        ("3", False),
    ]
    assert (carrier.rows, carrier.qualified_table) == (0, ".")


def test_many_large_rows_are_in_several_files(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landed_files, "MOST_TEXT", 50_000)
    texts = [f"{n} \U0001f600\n" * 1000 for n in range(20)]
    values = [message("insert", {"id": n, "v": text}, transaction=n + 1) for n, text in enumerate(texts)]
    shop.stream.put("a", *values, message("update", {"id": 99, "v": ""}, before={"id": 1}, transaction=99))
    files = shop.reader().land(0).logged
    assert sorted(file.rows or 0 for file in files) == [6, 7, 8]
    rows = [row for file in files for row in shop.rows(file)]
    rows.sort(key=lambda row: row["$dms.change_sequence"])
    assert [row["v"] for row in rows] == [*texts, ""]
    assert [row.get("$dms.before.id") for row in rows] == [*[None] * 15, *["$dms.null"] * 5, "1"]


def test_a_column_of_a_before_image_that_comes_late(shop: Shop) -> None:
    befores: list[dict[str, Any] | None] = [None, {"id": 1}, {"v": "\n"}, {"v": None, "id": 2}]
    values = [message("update", {"id": 9}, before=old, transaction=n + 1) for n, old in enumerate(befores)]
    shop.stream.put("a", *values)
    (file,) = shop.reader().land(0).logged
    null = "$dms.null"
    assert [(row["$dms.before.id"], row["$dms.before.v"]) for row in shop.rows(file)] == [
        (null, null),
        ("1", null),
        (null, "\n"),
        ("2", null),
    ]


def test_files_of_many_tables_are_written_at_the_same_time(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, write = threading.Barrier(2, timeout=10), LocalStore.write

    def slow_write(store: LocalStore, key: str, content: bytes) -> StoredObject:
        both.wait()
        return write(store, key, content)

    monkeypatch.setattr(LocalStore, "write", slow_write)
    for n in range(6):
        shop.stream.put("a", message("insert", {"id": n}, table=f"public.t{n}", transaction=n + 1))
    files = shop.reader().land(0).logged
    assert sorted(file.qualified_table for file in files) == [f"public.t{n}" for n in range(6)]
    assert shop.all_rows() == [(f"000001000000000{n + 1}{1:019d}", str(n)) for n in range(6)]


def test_a_file_that_cannot_be_written_lands_nothing(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    write = LocalStore.write

    def failing_write(store: LocalStore, key: str, content: bytes) -> StoredObject:
        if key.startswith("public/t3"):
            raise StoreError("The disk is full.")
        return write(store, key, content)

    monkeypatch.setattr(LocalStore, "write", failing_write)
    for n in range(6):
        shop.stream.put("a", message("insert", {"id": n}, table=f"public.t{n}", transaction=n + 1))
    reader = shop.reader()
    with pytest.raises(StoreError, match="disk is full"):
        reader.land(0)
    assert shop.log.files("shop") == []
    monkeypatch.undo()
    assert reader.land(0).messages == 6
    assert len(shop.all_rows()) == 6


def test_a_message_of_ten_mebibytes(shop: Shop) -> None:
    text = '"\u00e9\r\n' * 1_900_000
    shop.stream.put("a", message("insert", {"id": 1, "v": text}, transaction=1))
    (file,) = shop.reader().land(0).logged
    csv.field_size_limit(1 << 25)
    assert [row["v"] == text for row in shop.rows(file)] == [True]


def test_a_message_that_exhausts_a_parser_stops_no_landing(shop: Shop) -> None:
    good, deep = message("insert", {"id": 1}, transaction=1), b"[" * 100_000 + b"]" * 100_000
    shop.stream.put("a", good.replace(b"1", deep), b'{"metadata": %s}' % deep, deep, good)
    landed = shop.reader().land(0)
    assert (len(landed.faults), [id_ for _, id_ in shop.all_rows()]) == (3, ["1"])


def test_positions_are_in_the_log(shop: Shop) -> None:
    shop.stream.put("a", message("insert", {"id": 1}, transaction=1))
    shop.stream.put(
        "b", message("insert", {"id": 2}, transaction=2), message("insert", {"id": 3}, transaction=3)
    )
    first = shop.reader()
    (file,) = first.land(0).logged
    assert file.ranges is not None
    assert {s: (r.after, r.through, r.messages) for s, r in parse_ranges(file.ranges).items()} == {
        "a": (None, "0", 1),
        "b": (None, "1", 2),
    }
    assert first.land(0).logged == []
    shop.stream.put("a", message("insert", {"id": 4}, transaction=4))
    shop.stream.closed.add("b")
    (file,) = shop.reader().land(0).logged
    assert {s: (r.after, r.through, r.drained) for s, r in parse_ranges(file.ranges or "").items()} == {
        "a": ("0", "1", False),
        "b": ("1", "1", True),
    }
    assert [id_ for _, id_ in shop.all_rows()] == ["1", "2", "3", "4"]


def test_changes_of_before_and_after_a_load_are_in_files_of_their_own(shop: Shop) -> None:
    """By a file's time, a full load supersedes it or does not."""

    def change(number: int, ms: int) -> bytes:
        at = NOON + timedelta(milliseconds=ms)
        return message("insert", {"id": number}, transaction=number, at=at)

    created = control("create-table", {}, at=NOON + timedelta(milliseconds=1010))
    shop.stream.put("a", change(1, ms=0), created, change(2, ms=20))
    files = [f for f in shop.reader().land(0).logged if not f.key.startswith(CARRIER)]
    assert [[row["id"] for row in shop.rows(file)] for file in files] == [["1"], ["2"]]
    shop.stream.put("a", change(3, ms=21), change(4, ms=1))
    late = shop.reader().land(0).logged
    assert [[row["id"] for row in shop.rows(file)] for file in late] == [["4"], ["3"]]


@pytest.mark.parametrize("landings", [1, 2])
def test_so_they_are_before_the_message_that_creates_the_table_has_landed(shop: Shop, landings: int) -> None:
    """It waits in another shard. A row of the load has landed, before the changes or with them."""

    def at(ms: int) -> datetime:
        return NOON + timedelta(milliseconds=ms)

    old, new = (
        message("insert", {"id": number}, transaction=number, at=at(ms)) for number, ms in ((1, 0), (2, 20))
    )
    load = message("load", {"id": 9}, at=at(10))
    reader = shop.reader()
    for messages in [(old, new, load)] if landings == 1 else [(load,), (old, new)]:
        shop.stream.put("a", *messages)
        reader.land(0)
    files = [file for file in shop.log.files("shop") if file.kind is FileKind.CDC]
    assert [[row["id"] for row in shop.rows(file)] for file in files] == [["1"], ["2"]]


def test_so_they_are_before_anything_of_the_load_has_landed(shop: Shop) -> None:
    """Everything of it waits in another shard. DMS writes no change of the table while it loads it."""
    seconds = [0.0, 0.9, 1.8, 60.0, 1.2, 60.5]
    for number, second in enumerate(seconds):
        at = NOON + timedelta(seconds=second)
        shop.stream.put("a", message("insert", {"id": number}, transaction=number, at=at))
    files = shop.reader().land(0).logged
    assert [[row["id"] for row in shop.rows(file)] for file in files] == [["0", "1", "2", "4"], ["3", "5"]]


def test_so_are_rows_of_two_loads_before_their_creations_have_landed(shop: Shop) -> None:
    """A file of both could not be moved to the later load."""
    for number, second in enumerate([0.0, 0.5, 90.0, 90.5]):
        shop.stream.put("a", message("load", {"id": number}, at=NOON + timedelta(seconds=second)))
    files = shop.reader().land(0).logged
    assert sorted([row["id"] for row in shop.rows(file)] for file in files) == [["0", "1"], ["2", "3"]]


def test_a_quiet_table_has_few_files(shop: Shop) -> None:
    for number in range(50):
        at = NOON + timedelta(minutes=number)
        shop.stream.put("a", message("insert", {"id": number}, transaction=number, at=at))
    files = shop.reader().land(0).logged
    assert len(files) == landed_files.MOST_SPELLS
    assert sorted(int(row["id"]) for file in files for row in shop.rows(file)) == [*range(50)]
