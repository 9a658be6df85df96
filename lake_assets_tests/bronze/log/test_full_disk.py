"""A full disk: it is said, what needs no room goes on, and all is made good when there is room."""

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyspark.sql import SparkSession

from lake_assets.bronze.log import file_log
from lake_assets.config.config_file import load_lake
from lake_assets.silver.apply.engine import apply_tables
from lake_assets.storage.stored_object import NotLogged
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.command_lake import call, command_lake, snapshots, write_items

TABLE = {"columns": {"id": "long not null", "name": "string"}, "primary_key": ["id"]}
HEADER = "Op,commit_ts,id,name,change_seq,BI_id"
ROW = "I,2026-03-01 12:00:00,1,a,,"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return command_lake(tmp_path)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """The lake's warehouse, on a file system of 4 MB."""
    warehouse = tmp_path / "warehouse"
    warehouse.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", warehouse], check=False, capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("only root may mount a file system")
    try:
        yield warehouse
    finally:
        subprocess.run(["umount", "-l", warehouse], check=True)


def fill(disk: Path) -> Path:
    filler = disk / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    assert os.statvfs(disk).f_bavail == 0
    return filler


@pytest.mark.slow
def test_a_disk_without_room_for_the_log(
    spark: SparkSession,
    small_disk: Path,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_items(folder)
    assert call(folder, "sync") == 0
    write_items(folder, "others")
    filler = fill(small_disk)
    capsys.readouterr()
    assert call(folder, "sync") == 1
    told = capsys.readouterr().err
    assert "shop failed: The disk that holds lake_ops.bronze_files is full" in told
    assert "Traceback" not in told
    assert call(folder, "status") == 1
    assert f"The disk of {small_disk} is full" in capsys.readouterr().err
    filler.unlink()
    assert call(folder, "sync") == 0
    assert call(folder, "status") == 0
    assert "is full" not in capsys.readouterr().err
    config = load_lake(folder / "lake.yaml")
    assert None not in snapshots(config, "silver_shop.items", "silver_shop.others")


@pytest.mark.spark
def test_what_is_logged_is_applied_all_the_same(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, {"public.items": TABLE, "public.others": TABLE})
    bench.put_text("public/items/LOAD00000001.csv", HEADER, ROW)
    bench.look()
    bench.put_text("public/others/LOAD00000001.csv", HEADER, ROW)

    def full(table: Table, rows: pa.Table) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(file_log, "append_rows", full)
        with pytest.raises(NotLogged, match=r"is full \(.*No space left on device.*make room"):
            bench.look()
        results = {done.target.name: done for done in apply_tables(bench.lake.runtime, bench.lake.targets)}
    assert results["items"].error is None
    assert len(bench.rows("items")) == 1
    bench.apply()
    assert bench.rows("others") == bench.rows("items")
