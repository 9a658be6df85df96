"""The look at operations, times, sequences and keys of Parquet files that Spark may read as they are.

Here: the figures of a file, and every reason why it is decoded instead. Not here: what Spark reads
(`bronze/reader/test_as_is.py`), batches that are applied so (`silver/write/test_large_batches.py`).
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.bronze.decode import fields
from lake_assets.bronze.decode.dms_columns import FAULTS, all_differ
from lake_assets.bronze.decode.files import looked_at, of_key
from lake_assets.silver.changes.keyed_events import ARRIVAL, DELETE, DEPARTURE, INSERT, events_of
from lake_assets.silver.changes.taken_rows import figures_of, usable_of
from lake_assets.silver.table.change_events import ChangeFigures
from lake_assets.storage.object_store import LocalStore
from lake_assets_tests.helpers.files.read_folder import PARQUET_DMS, Folder

FIRST, SECOND = "2026-03-01 12:00:00.5", "2026-03-01 12:00:01"
CHANGES: dict[str, Any] = {
    "Op": ["I", "U", "D"],
    "commit_ts": [SECOND, FIRST, SECOND],
    "id": [1, 2, 3],
    "v": ["not looked at"] * 3,
    "change_seq": [f"20260301{number:027d}" for number in (7, 3, 5)],
    "BI_id": [None, 4, None],
}
EXPECTED = ChangeFigures(
    rows=3,
    by_op={"I": 1, "U": 1, "D": 1},
    min_sequence=CHANGES["change_seq"][1],
    max_sequence=CHANGES["change_seq"][0],
    min_commit_ts=datetime(2026, 3, 1, 12, 0, 0, 500_000, UTC),
    max_commit_ts=datetime(2026, 3, 1, 12, 0, 1, tzinfo=UTC),
    used=3,
)
CDC, LOAD = "20260301-120000000", "LOAD00000001"


class InBucket(LocalStore):
    """A store whose ranges are requests."""

    @property
    def has_free_ranges(self) -> bool:
        return False


def folder_of(path: Path, columns: Mapping[str, Any], name: str = CDC, **dms: Any) -> Folder:
    folder = Folder(path, {"id": "long not null", "v": "string not null"}, ["id"], **PARQUET_DMS | dms)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(dict(columns)), sink, row_group_size=2)
    assert folder.put(f"public/items/{name}.parquet", sink.getvalue().to_pybytes())
    return folder


def pieces(folder: Folder) -> list[pa.Table] | None:
    given: dict[str, Any] = {"name": "public.items", "table": folder.table, "dms": folder.dms}
    try:
        return list(looked_at(folder.store, folder.files[0], **given))
    except FAULTS:
        return None


def figures(path: Path, columns: Mapping[str, Any], name: str = CDC, **dms: Any) -> ChangeFigures | None:
    """None for a file that has to be decoded."""
    folder = folder_of(path, columns, name, **dms)
    found = pieces(folder)
    known = None if found is None else seen(found)
    return known if known is None or not known.bad_rows else None


def seen(pieces: list[pa.Table]) -> ChangeFigures:
    every = (figures_of(piece, usable_of(piece)) for piece in pieces)
    return sum(every, ChangeFigures(by_op=dict.fromkeys("IUD", 0)))


@pytest.mark.parametrize("at_once", [1, 1 << 14])
def test_the_figures_and_keys_of_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(fields, "ROWS_AT_ONCE", at_once)
    monkeypatch.setattr(fields, "PIECE", 1)
    folder = folder_of(tmp_path, CHANGES)
    found = pieces(folder)
    assert found is not None
    # Arrow ends a batch where a row group has other texts.
    assert len(found) == (3 if at_once == 1 else 2)
    assert seen(found) == EXPECTED
    every = [events_of(piece, of_key(folder.table), ["id"], 0).events for piece in found]
    events = sorted(pa.concat_tables(every).to_pylist(), key=lambda event: (event["_row"], event["_key_0"]))
    kinds = [(event["_key_0"], event["_kind"], event["_row"]) for event in events]
    assert kinds == [(1, INSERT, 0), (2, ARRIVAL, 1), (4, DEPARTURE, 1), (3, DELETE, 2)]


def test_of_a_full_load_the_keys_alone(tmp_path: Path) -> None:
    """A sequence for each of thirty million rows would take a gigabyte."""
    load = CHANGES | {"Op": ["I"] * 3, "change_seq": [""] * 3}
    folder = folder_of(tmp_path, load, LOAD)
    found = next(iter(pieces(folder) or ()))
    events = events_of(found, of_key(folder.table), ["id"], 0).events
    assert events.column_names == ["_key_0", "_number", "_row"]
    expected = ChangeFigures(3, {"I": 3, "U": 0, "D": 0}, max_commit_ts=EXPECTED.max_commit_ts, used=3)
    assert figures(tmp_path, load, LOAD) == expected


def test_a_full_load_may_have_neither_operation_nor_time(tmp_path: Path) -> None:
    columns = {"id": [1, 2], "v": ["a", "b"]}
    dms = {"include_op_for_full_load": False, "timestamp_column_name": None}
    found = figures(tmp_path, columns, LOAD, **dms)
    assert found == ChangeFigures(2, {"I": 2, "U": 0, "D": 0}, used=2)


def test_a_file_without_rows(tmp_path: Path) -> None:
    kinds = {"id": pa.int64(), "BI_id": pa.int64()}
    nothing = {name: pa.array([], kinds.get(name, pa.string())) for name in CHANGES}
    assert figures(tmp_path, nothing) == ChangeFigures(by_op=dict.fromkeys("IUD", 0))


def test_sequences_are_made_of_times_where_there_are_none(tmp_path: Path) -> None:
    without = {name: values for name, values in CHANGES.items() if name != "change_seq"}
    first, last = (f"{time}{'0' * 19}" for time in ("2026030112000050", "2026030112000100"))
    found = figures(tmp_path, without, change_sequence_column=None)
    assert found == replace(EXPECTED, min_sequence=first, max_sequence=last)


def test_operations_may_have_other_names(tmp_path: Path) -> None:
    columns = CHANGES | {"Op": ["INSERT", "U", "D"]}
    assert figures(tmp_path, columns, operations={"INSERT": "I"}) == EXPECTED


SEQUENCE = CHANGES["change_seq"][0]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("Op", "X"),
        ("Op", None),
        ("Op", ""),
        ("id", None),
        ("commit_ts", None),
        ("commit_ts", ""),
        ("commit_ts", "2026-02-30 12:00:00"),
        ("commit_ts", "2026-03-01 24:00:00"),
        ("commit_ts", "2026-03-01"),
        ("commit_ts", "2026-03-01 12:00:00Z"),
        ("commit_ts", "2026-03-01 12:00:00\n"),
        ("commit_ts", "2026-03-01 12:00:00.1234567"),
        ("commit_ts", "0000-03-01 12:00:00"),
        ("commit_ts", "٢٠٢٦-03-01 12:00:00"),
        ("change_seq", None),
        ("change_seq", ""),
        ("change_seq", SEQUENCE[:-1]),
        ("change_seq", f"{SEQUENCE}0"),
        ("change_seq", f"{SEQUENCE[:-1]}x"),
        ("change_seq", f"{SEQUENCE[:-1]}\n"),
        ("change_seq", f"{SEQUENCE[:-2]}٣"),
    ],
)
def test_a_row_that_may_be_unusable(tmp_path: Path, column: str, value: str | None) -> None:
    assert figures(tmp_path, CHANGES | {column: [*CHANGES[column][:2], value]}) is None


@pytest.mark.parametrize("column", ["Op", "change_seq", "id"])
def test_texts_that_are_not_utf_8(tmp_path: Path, column: str) -> None:
    """Spark does not look at these."""
    texts = pa.array([b"a", b"b", b"c\xff"]).view(pa.string())
    if column != "id":
        assert figures(tmp_path, CHANGES | {column: texts}) is None
        return
    folder = Folder(tmp_path, {"id": "string not null", "v": "string"}, ["id"], **PARQUET_DMS)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(CHANGES | {"id": texts, "BI_id": pa.nulls(3, pa.string())}), sink)
    assert folder.put(f"public/items/{CDC}.parquet", sink.getvalue().to_pybytes())
    assert seen(pieces(folder) or []).bad_rows == 1


def test_columns_of_dms_of_other_types(tmp_path: Path) -> None:
    times = pa.array([datetime(2026, 3, 1, tzinfo=UTC)] * 3, pa.timestamp("us", tz="UTC"))
    assert figures(tmp_path, CHANGES | {"commit_ts": times}) is None
    assert figures(tmp_path, CHANGES | {"change_seq": pa.array([1, 2, 3])}) is None


def test_a_damaged_file_and_one_that_is_gone(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, CHANGES)
    path = tmp_path / folder.files[0].key
    path.write_bytes(path.read_bytes()[:-50])
    assert pieces(folder) is None
    path.unlink()
    assert pieces(folder) is None


def test_a_large_file_in_a_bucket_is_copied_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each range of it would be a request."""
    folder = folder_of(tmp_path, CHANGES)
    folder.store = InBucket(tmp_path)
    folder.files = [replace(folder.files[0], size=100)]
    whole = pieces(folder)
    monkeypatch.setattr(fields, "LARGEST_FETCHED", 10)
    copied = pieces(folder)
    assert whole is not None
    assert copied is not None
    assert pa.concat_tables(copied).equals(pa.concat_tables(whole))


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ([5], True),
        ([1, 2, 5], True),
        ([1, 2, 2], False),
        ([1, 5, 2, 3], True),
        ([1, 5, 2, 5], False),
        ([3, 1, 2], True),
        ([3, 1, 3], False),
        ([-(2**63), 2**63 - 1], True),
        ([-(2**63), 2**63 - 1, -(2**63)], False),
        ([10**12, 0, 10**6], True),
        ([10**12, 0, 10**12], False),
    ],
)
def test_whether_keys_repeat(keys: list[int], expected: bool) -> None:
    for size in range(1, len(keys) + 1):
        parts = [pa.array(keys[first : first + size], pa.int64()) for first in range(0, len(keys), size)]
        assert all_differ(pa.chunked_array(parts)) == expected
