"""A maintained log is small, and holds exactly what another one would."""

from pathlib import Path

import pytest

from lake_assets.bronze.log import file_log_maintenance as maintenance
from lake_assets.bronze.log.file_log import FileLog
from lake_assets.iceberg.upkeep import ops_maintenance

TABLE = "lake_ops.bronze_files"


@pytest.fixture
def often(monkeypatch):
    """Maintenance every three appends."""
    monkeypatch.setattr(maintenance, "MAX_SNAPSHOTS", 6)
    monkeypatch.setattr(ops_maintenance, "KEEP_SNAPSHOTS", 3)
    monkeypatch.setattr(maintenance, "MAX_SMALL_FILES", 5)


@pytest.mark.parametrize("merging", [True, False])
def test_stays_small_and_whole(open_catalog, cdc, often, monkeypatch, merging):
    if not merging:
        monkeypatch.setattr(
            maintenance, "MAX_SMALL_FILES", 1000
        )  # then manifests are merged, and outlive their files' first
    log, follower = FileLog(open_catalog()), FileLog(open_catalog())
    logged = []
    for second in range(26):
        logged += log.append("s", [cdc(second)])
        if second % 7 == 0:
            assert follower.files() == logged
            assert follower.head() == second + 1
    assert log.files() == FileLog(open_catalog()).files() == logged
    assert FileLog(open_catalog()).append("s", [cdc(0)]) == [], "merged records are still known"

    table = open_catalog().load_table(TABLE)
    assert len(table.metadata.snapshots) <= 8
    assert len(list(table.scan().plan_files())) <= (8 if merging else 26)
    folder = Path(table.location().removeprefix("file://"))
    assert len(list(folder.glob("data/*.parquet"))) <= (20 if merging else 26)
    assert len(list(folder.glob("metadata/*.metadata.json"))) <= 11
    assert len(list(folder.glob("metadata/snap-*.avro"))) == len(table.metadata.snapshots)


def test_big_files_are_not_written_again(open_catalog, cdc, often, monkeypatch):
    log = FileLog(open_catalog())
    log.append("s", [cdc(second) for second in range(500)])
    (big,) = open_catalog().load_table(TABLE).scan().plan_files()
    monkeypatch.setattr(maintenance, "SMALL_FILE_BYTES", big.file.file_size_in_bytes)
    for second in range(500, 512):
        log.append("s", [cdc(second)])
    files = {
        task.file.file_path: task.file.record_count
        for task in open_catalog().load_table(TABLE).scan().plan_files()
    }
    assert files.pop(big.file.file_path) == 500
    assert max(files.values()) >= 5, "the small ones were merged"
    assert [record.offset for record in FileLog(open_catalog()).files()] == list(range(1, 513))


def test_keeps_what_a_tag_points_to(open_catalog, cdc, often):
    log = FileLog(open_catalog())
    log.append("s", [cdc(0)])
    table = open_catalog().load_table(TABLE)
    tagged = table.current_snapshot()
    table.manage_snapshots().create_tag(tagged.snapshot_id, "audit").commit()
    for second in range(1, 12):
        log.append("s", [cdc(second)])
    table = open_catalog().load_table(TABLE)
    assert table.scan(snapshot_id=tagged.snapshot_id).to_arrow().num_rows == 1


def test_a_merge_that_loses_the_race_changes_nothing(open_catalog, cdc, often, monkeypatch):
    log = FileLog(open_catalog())
    monkeypatch.setattr(maintenance, "MAX_SNAPSHOTS", 1000)
    for second in range(10):
        log.append("s", [cdc(second)])
    stale = open_catalog().load_table(TABLE)
    log.append("s", [cdc(10)])
    maintenance.maintain_file_log(stale)
    assert [record.offset for record in FileLog(open_catalog()).files()] == list(range(1, 12))
    assert len(list(open_catalog().load_table(TABLE).scan().plan_files())) == 11


def test_a_reader_whose_files_were_merged_away_reads_again(open_catalog, cdc, often, monkeypatch):
    log = FileLog(open_catalog())
    log.append("s", [cdc(0)])
    catalog = open_catalog()
    stale = catalog.load_table(TABLE)
    for second in range(1, 12):
        log.append("s", [cdc(second)])
    with pytest.raises(FileNotFoundError):
        stale.scan().to_arrow()
    load_table, answers = catalog.load_table, [stale]
    monkeypatch.setattr(catalog, "load_table", lambda name: answers.pop() if answers else load_table(name))
    assert len(FileLog(catalog).files()) == 12
    answers.append(stale)
    assert FileLog(catalog).head() == 12


def test_a_failing_maintenance_does_not_fail_the_append(open_catalog, cdc, often, monkeypatch, caplog):
    def fail(_):
        raise OSError("disk full")

    monkeypatch.setattr(maintenance, "expire_snapshots", fail)
    log = FileLog(open_catalog())
    for second in range(8):
        assert len(log.append("s", [cdc(second)])) == 1
    assert "The maintenance of the file log failed" in caplog.text
