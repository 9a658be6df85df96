"""A batch log that grows stays small, and a reading of some hours opens few of its files.

Not here: which batches are recorded (`test_recorded_once.py`).
"""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog

from lake_assets.bronze.log import file_log_maintenance
from lake_assets.errors import LakeError
from lake_assets.iceberg.file_io.table_rows import rows
from lake_assets.iceberg.ops_table import until_won
from lake_assets.silver.batch_log import batches_table
from lake_assets.silver.batch_log.batches_table import TABLE, BatchLog
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
