"""Operations, times and sequences of Parquet files, checked without Spark.

Here: which files pass, their figures, and every reason why one does not. Not here: batches that are applied so
(`silver/write/test_large_batches.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.bronze.checked import parquet_values
from lake_assets.bronze.checked.dms_columns import DmsFigures, all_differ
from lake_assets.bronze.checked.parquet_values import checked_file
from lake_assets.bronze.files.formats import Layout
from lake_assets.bronze.files.keys import FileKind
from lake_assets.config import DmsSettings
from lake_assets.local_times import LocalClock
from lake_assets.storage.object_store import LocalStore

FIRST, SECOND = "2026-03-01 12:00:00.5", "2026-03-01 12:00:01"
DMS = DmsSettings(timestamp_column_name="commit_ts", change_sequence_column="change_seq")
CHANGES: dict[str, list[Any]] = {
    "Op": ["I", "U", "D"],
    "commit_ts": [SECOND, FIRST, SECOND],
    "id": [1, 2, 3],
    "change_seq": [f"20260301{number:027d}" for number in (7, 3, 5)],
}


class InBucket(LocalStore):
    """A store whose ranges are requests."""

    @property
    def has_free_ranges(self) -> bool:
        return False


@dataclass(frozen=True)
class Written:
    path: str
    size: int
    kind: FileKind


def figures(
    folder: Path,
    columns: Mapping[str, Any],
    kind: FileKind = FileKind.CDC,
    dms: DmsSettings = DMS,
    store: type[LocalStore] = LocalStore,
) -> DmsFigures | None:
    table = pa.table(columns)
    pq.write_table(table, folder / "file.parquet", row_group_size=2)
    types = {name: str(table.schema.field(name).type) for name in table.column_names}
    names = tuple(table.column_names)
    file = Written("file.parquet", (folder / "file.parquet").stat().st_size, kind)
    found = checked_file(
        store(folder), file, Layout(names, names), types, dms, LocalClock(dms.timestamp_zone)
    )
    return None if found is None else found.figures


EXPECTED = DmsFigures(
    rows=3,
    by_op={"I": 1, "U": 1, "D": 1},
    min_sequence=CHANGES["change_seq"][1],
    max_sequence=CHANGES["change_seq"][0],
    min_commit_ts=datetime(2026, 3, 1, 12, 0, 0, 500_000, UTC),
    max_commit_ts=datetime(2026, 3, 1, 12, 0, 1, tzinfo=UTC),
)


@pytest.mark.parametrize("store", [LocalStore, InBucket])
@pytest.mark.parametrize("rows_at_once", [1, 1_000])
def test_usable_changes_have_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: type[LocalStore], rows_at_once: int
) -> None:
    monkeypatch.setattr(parquet_values, "_ROWS_AT_ONCE", rows_at_once)
    assert figures(tmp_path, CHANGES, store=store) == EXPECTED


def test_rows_of_a_full_load_have_no_sequence(tmp_path: Path) -> None:
    load = CHANGES | {"Op": ["I"] * 3, "change_seq": [""] * 3}
    found = figures(tmp_path, load, FileKind.LOAD)
    assert found == DmsFigures(3, {"I": 3, "U": 0, "D": 0}, max_commit_ts=EXPECTED.max_commit_ts)
    assert found is not None
    assert found + EXPECTED == DmsFigures(
        6,
        {"I": 4, "U": 1, "D": 1},
        EXPECTED.min_sequence,
        EXPECTED.max_sequence,
        EXPECTED.min_commit_ts,
        EXPECTED.max_commit_ts,
    )


def test_sequences_are_made_of_times_where_there_are_none(tmp_path: Path) -> None:
    """As Spark makes them: down to centiseconds."""
    without = {name: values for name, values in CHANGES.items() if name != "change_seq"}
    first, last = (f"{time}{'0' * 19}" for time in ("2026030112000050", "2026030112000100"))
    assert figures(tmp_path, without) == replace(EXPECTED, min_sequence=first, max_sequence=last)


def test_a_file_without_rows_has_figures_and_no_changes(tmp_path: Path) -> None:
    nothing = {name: pa.array([], pa.string()) for name in CHANGES}
    assert figures(tmp_path, nothing) == DmsFigures()
    table = pa.table(nothing)
    file = Written("file.parquet", (tmp_path / "file.parquet").stat().st_size, FileKind.CDC)
    names, key = tuple(table.column_names), {"id": "string"}
    types = dict.fromkeys(names, "string")
    found = checked_file(LocalStore(tmp_path), file, Layout(names, names), types, DMS, LocalClock(), key)
    assert found is not None
    assert found.changes is not None
    assert found.changes.column_names == ["_key_0", "_op", "_commit_ts", "_sequence"]
    assert found.changes.num_rows == 0


def test_a_full_load_may_have_neither_operation_nor_time(tmp_path: Path) -> None:
    found = figures(tmp_path, {"id": [1, 2]}, FileKind.LOAD)
    assert found == DmsFigures(2, {"I": 2, "U": 0, "D": 0})


def test_operations_may_have_other_names(tmp_path: Path) -> None:
    named = DMS.model_copy(update={"operations": {"INSERT": "I"}})
    found = figures(tmp_path, CHANGES | {"Op": ["INSERT", "U", "D"]}, dms=named)
    assert found == EXPECTED


SEQUENCE = CHANGES["change_seq"][0]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("Op", "X"),
        ("Op", None),
        ("Op", ""),
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
def test_a_row_that_may_be_unusable_is_left_to_spark(tmp_path: Path, column: str, value: str | None) -> None:
    assert figures(tmp_path, CHANGES | {column: [*CHANGES[column][:2], value]}) is None


def test_other_files_are_left_to_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without = {name: values for name, values in CHANGES.items() if name != "change_seq"}
    times = pa.array([datetime(2026, 3, 1, tzinfo=UTC)] * 3, pa.timestamp("us", tz="UTC"))
    untimed = {name: values for name, values in without.items() if name != "commit_ts"}
    assert figures(tmp_path, untimed) is None, "its sequences are made of the times in names"
    assert figures(tmp_path, CHANGES | {"commit_ts": times}) is None
    assert figures(tmp_path, CHANGES | {"change_seq": pa.array([1, 2, 3])}) is None
    monkeypatch.setattr(parquet_values, "LARGEST_FETCHED", 10)
    assert figures(tmp_path, CHANGES, store=InBucket) is None, "each range is a request"


def test_times_of_a_zone_are_instants(tmp_path: Path) -> None:
    berlin = DMS.model_copy(update={"timestamp_zone": "Europe/Berlin"})
    found = figures(tmp_path, CHANGES, dms=berlin)
    assert found is not None
    assert EXPECTED.min_commit_ts is not None
    assert found.min_commit_ts == EXPECTED.min_commit_ts - timedelta(hours=1)
    without = {name: values for name, values in CHANGES.items() if name != "change_seq"}
    generated = figures(tmp_path, without, dms=berlin)
    assert generated is not None
    assert generated.min_sequence == f"2026030111000050{'0' * 19}"
    for time in ("2026-03-29 02:30:00", "2026-10-25 02:30:00"):
        skipped = CHANGES | {"commit_ts": [*CHANGES["commit_ts"][:2], time]}
        assert figures(tmp_path, skipped) is not None
        assert figures(tmp_path, skipped, dms=berlin) is None


def test_a_file_that_cannot_be_read_is_left_to_spark(tmp_path: Path) -> None:
    (tmp_path / "file.parquet").write_bytes(b"PAR1 and no more")
    names = tuple(CHANGES)
    types = dict.fromkeys(names, "string")
    for path in ("file.parquet", "gone.parquet"):
        file = Written(path, 16, FileKind.CDC)
        assert (
            checked_file(LocalStore(tmp_path), file, Layout(names, names), types, DMS, LocalClock()) is None
        )


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
