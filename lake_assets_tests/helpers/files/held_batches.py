"""Batches that this process may hold: their files, with every type of value, and the ways in which they are applied.

Here: those, and watching the looks at a batch's files. Not here: the tests (`silver/write/test_held_rows.py`,
`silver/write/test_held_logs.py`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from lake_assets.bronze.decode import files as decoding
from lake_assets.bronze.reader import arrow_frame
from lake_assets.silver.changes.held_rows import held_rows
from lake_assets_tests.helpers.files.dms_files import Clock, DmsFile, cdc_file, load_file

EVERY_TYPE = {
    "id": ("int not null", pa.int32()),
    "part.no": ("string not null", pa.string()),
    "_tombstone": ("string", pa.string()),
    "n": ("long", pa.int64()),
    "ok": ("boolean", pa.bool_()),
    "price": ("decimal(12, 2)", pa.decimal128(12, 2)),
    "weight": ("float", pa.float32()),
    "score": ("double", pa.float64()),
    "on": ("date", pa.date32()),
    "wall": ("timestamp", pa.timestamp("us")),
    "at": ("timestamptz", pa.timestamp("us", "UTC")),
    "uid": ("uuid not null", pa.string()),
    "doc": ("json", pa.string()),
    "clock": ("time", pa.string()),
    "raw": ("binary", pa.binary()),
}
KEY = ["id", "part.no", "uid"]


@contextmanager
def read_by(way: str) -> Iterator[None]:
    """`process`: rows are held, and few go to Spark with its plan; `staged`: as many do, as files; `Spark`: as of
    batches that are too large to be held."""
    most = decoding.MOST_BYTES if way in ("process", "staged") else -1
    in_plan = 0 if way == "staged" else arrow_frame.IN_PLAN_ROWS
    with (
        patch.object(decoding, "MOST_BYTES", most),
        patch.object(arrow_frame, "IN_PLAN_ROWS", in_plan),
        patch.object(arrow_frame, "ROWS_OF_A_TASK", 1),
    ):
        yield


def watched_looks(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """For each look at the files of a batch, the number of held files; None where Spark had to read them."""
    found: list[int | None] = []
    plain = held_rows

    def look(*given: Any, **more: Any) -> Any:
        result = plain(*given, **more)
        found.append(None if result is None else len(result.counted))
        return result

    monkeypatch.setattr("lake_assets.silver.changes.reading.held_rows", look)
    return found


def image(number: int, version: int, **more: Any) -> dict[str, Any]:
    at = datetime(2026, 2, 27 + version % 2, 23, 59, 59, 999_999, UTC)
    return {
        "id": number,
        "part.no": f'p "{number}",\n',
        "_tombstone": ["", "NULL?", None][version % 3],
        "n": None if version == 2 else -(2**63) + version,
        "ok": [True, False, None][version % 3],
        "price": Decimal(f"-{version}.50"),
        "weight": 0.5 + version,
        "score": 1e300 / (version + 1),
        "on": date(1, 1, 1) + timedelta(days=version),
        "wall": at.replace(tzinfo=None),
        "at": at,
        "uid": uid(number),
        "doc": ['{"a": [1, "ä"]}', " null ", None][version % 3],
        "clock": ["23:59:59.500000", "00:00:00", None][version % 3],
        "raw": [b"\x00\xff", b"", None][version % 3],
    } | more


def key_of(number: int) -> dict[str, Any]:
    return {"id": number, "part.no": f'p "{number}",\n', "uid": uid(number)}


def uid(number: int) -> str:
    return f"{number:08x}-abcd-0000-0000-00000000000f"


def files_of(clock: Clock, extension: str) -> list[list[DmsFile]]:
    """Batches: a full load with the changes since, then changes, among them of rows that are not there, and rows that
    move from key to key."""
    load = load_file("public.items", [image(n, 0) for n in range(5)], extension=extension)
    first = [clock.change("U", image(1, 1)), clock.change("D", image(2, 0)), clock.change("I", image(7, 2))]
    since = cdc_file("public.items", clock.now + timedelta(minutes=1), first, extension)
    clock.now += timedelta(minutes=2)
    gone = [dict.fromkeys(EVERY_TYPE) | key_of(number) for number in (3, 8)]
    second = [
        clock.change("U", image(1, 3)),
        clock.change("D", gone[0]),
        clock.change("I", image(3, 4)),
        clock.change("U", image(9, 1)),
        clock.change("D", gone[1]),
        clock.change("I", image(5, 1)),
        clock.change("D", image(4, 0)),
        clock.change("U", image(1, 5), key_of(1)),
        clock.change("U", image(10, 1), key_of(0)),
        clock.change("U", image(11, 2), key_of(10)),
        clock.change("U", image(7, 3, **{"part.no": "moved"}), {"part.no": 'p "7",\n'}),
        clock.change("U", image(21, 4), key_of(20)),
        clock.change("D", image(21, 4)),
    ]
    return [[load, since], [cdc_file("public.items", clock.now + timedelta(minutes=1), second, extension)]]
