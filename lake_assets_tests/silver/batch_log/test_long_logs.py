"""A batch log that grows stays small, and a reading of some hours opens few of its files.

Not here: which batches are recorded (`test_recorded_once.py`).
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

import pytest
from pyiceberg.catalog import Catalog

from lake_assets.bronze.log import file_log_maintenance
from lake_assets.errors import LakeError
from lake_assets.iceberg.file_io.table_rows import rows
from lake_assets.iceberg.ops_table import until_won
from lake_assets.rounds.ops_upkeep import maintain_ops
from lake_assets.silver.batch_log import batches_table
from lake_assets.silver.batch_log.batches_table import APART, KEPT_FOR, TABLE, BatchLog, maintain_batch_log
from lake_assets_tests.helpers.constants.batch_rows import START, batch_row
from lake_assets_tests.helpers.lakes.small_lakes import small_lake

ITEMS, OTHERS = "silver_shop.items", "silver_shop.others"


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return small_lake(tmp_path).runtime.catalog


def test_rows_come_back_as_they_were(catalog: Catalog) -> None:
    log = BatchLog(catalog)
    assert (log.head(), log.after(0), log.since(START, [ITEMS])) == (0, [], [])
    rows = [
        batch_row(1, latency=1.5),
        replace(batch_row(2), published_at=None, kind="full_load", reason="é", stages={}),
        batch_row(2, OTHERS),
    ]
    recorded = log.add(rows)
    assert [replace(row, number=0) for row in recorded] == [rows[0], rows[1], rows[2]]
    assert log.after(0) == recorded
    assert log.after(1) == recorded[1:]
    assert log.since(START + timedelta(minutes=2), [ITEMS]) == [recorded[1]]
    assert {row.table for row in log.since(START, [ITEMS, OTHERS])} == {ITEMS, OTHERS}
    assert BatchLog(catalog).add(rows) == []
    # A late one, of before what is there.
    assert [row.number for row in BatchLog(catalog).add([*rows, batch_row(0)])] == [4]
    assert log.head() == 4


def test_a_file_of_the_log_that_is_gone(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Maintenance expires nothing then, and says what to do."""
    monkeypatch.setattr(batches_table, "until_won", lambda attempts=2: until_won(2))
    BatchLog(catalog).add([batch_row(1)])
    for task in catalog.load_table(TABLE).scan().plan_files():
        Path(task.file.file_path.removeprefix("file:")).unlink()
    for call in (lambda log: log.add([batch_row(2), batch_row(1)]), lambda log: log.after(0)):
        with pytest.raises(
            LakeError, match="Run `lake-assets recover`; if that finds nothing, drop the table"
        ):
            call(BatchLog(catalog))


def test_long_logs_are_read_in_part(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_log_maintenance, "SMALL_FILE_BYTES", 11_800)
    appends, read = 200, list[int]()
    for number in range(appends):
        # As two recorders, neither of which knows what the other has recorded.
        log = BatchLog(catalog)
        assert len(log.add([batch_row(number), batch_row(number, OTHERS)])) == 2
    table = catalog.load_table(TABLE)
    files = list(table.scan().plan_files())
    assert len(table.snapshots()) <= file_log_maintenance.MAX_SNAPSHOTS
    assert len(files) <= file_log_maintenance.MAX_SMALL_FILES + 10
    assert sum(file.file.file_size_in_bytes >= 11_800 for file in files) > 1, (
        "large ones are left as they are"
    )

    def counted(scan, columns=None):
        read.append(len(list(scan.plan_files())))
        return rows(scan, columns)

    monkeypatch.setattr(batches_table, "rows", counted)
    log = BatchLog(catalog)
    newest = log.since(START + timedelta(minutes=appends - 10), [ITEMS])
    assert sorted(row.snapshot_id for row in newest) == list(range(appends - 10, appends))
    assert len(log.after(2 * appends - 4)) == 4
    log.add([batch_row(appends)])
    assert max(read) <= 10 < len(files)
    everything = log.after(0)
    assert [row.number for row in everything] == list(range(1, 2 * appends + 2))
    assert len({row.key for row in everything}) == 2 * appends + 1


def at(log: BatchLog, number: int, age: timedelta) -> None:
    """Records the batch as one of that age."""
    row = replace(batch_row(number), committed_at=datetime.now(UTC) - age)
    with patch.object(batches_table, "KEPT_FOR", 10 * KEPT_FOR):
        assert len(log.add([row])) == 1


def test_old_rows_are_removed_once_a_day(catalog: Catalog) -> None:
    """Those on the far side of KEPT_FOR; by the row, also where one file has rows of both sides."""
    log, second = BatchLog(catalog), timedelta(seconds=1)
    now = datetime.now(UTC)
    for number, age in enumerate(
        [KEPT_FOR + timedelta(hours=2), KEPT_FOR + timedelta(hours=1), timedelta(0)]
    ):
        at(log, number, age)
    table = catalog.load_table(TABLE)
    table.overwrite(table.scan().to_arrow())  # one file
    maintain_batch_log(table, now + APART - timedelta(hours=2) - second)
    assert [row.number for row in log.after(0)] == [1, 2, 3], "the oldest is not older by a day"
    maintain_batch_log(catalog.load_table(TABLE), now + APART - timedelta(hours=2) + second)
    assert [row.number for row in log.after(0)] == [3]
    at(log, 4, timedelta(0))
    assert [row.number for row in log.after(0)] == [3, 4], "numbers go on"
    maintain_batch_log(catalog.load_table(TABLE), now + 2 * KEPT_FOR)
    assert [row.number for row in log.after(0)] == [4], "the last one stays, of whatever age"
    at(log, 5, timedelta(0))
    assert log.head() == 5


def test_a_row_that_was_removed_is_not_recorded_again(catalog: Catalog) -> None:
    """A tag keeps its commit for years, and with it what the row was made from."""
    log, minute = BatchLog(catalog), timedelta(minutes=1)
    old = replace(batch_row(1), committed_at=datetime.now(UTC) - KEPT_FOR - minute)
    young = replace(batch_row(2), committed_at=datetime.now(UTC) - KEPT_FOR + minute)
    assert [row.snapshot_id for row in log.add([old, young])] == [2]
    assert log.add([old]) == []


def test_the_lakes_maintenance_removes_them(tmp_path: Path) -> None:
    lake = small_lake(tmp_path)
    log = BatchLog(lake.runtime.catalog)
    for number in range(2):
        at(log, number, KEPT_FOR + 2 * APART)
    at(log, 2, timedelta(0))
    assert maintain_ops(lake.runtime, TABLE).error is None
    assert [row.number for row in log.after(0)] == [3]
