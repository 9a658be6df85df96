"""`lake-assets doctor`: what it finds wrong, with the remedy, and that it changes nothing.

Not here: what the remedies do (`test_repair.py`, `silver/test_quarantine.py`, `silver/test_maintenance.py`).
"""

import json
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from lake_assets.commands.doctor import examinations
from lake_assets.config.config_file import load_lake
from lake_assets.iceberg.catalog import open_catalog
from lake_assets.lake import open_lake
from lake_assets.orchestration.instance import dagster_instance
from lake_assets.orchestration.runs import in_flight
from lake_assets.orchestration.shared.heartbeat import HEARTBEAT
from lake_assets.orchestration.shared.run_tags import own_tag
from lake_assets.silver.table.pause import pause
from lake_assets_tests.helpers.lakes.command_lake import call, command_lake, write_items
from lake_assets_tests.helpers.lakes.small_lakes import ITEMS_HEADER, sequence, write_file

pytestmark = [pytest.mark.spark, pytest.mark.slow]
EXAMINED = [
    "lake.yaml",
    "Spark",
    "catalog",
    "source shop",
    "disk",
    "tables",
    "paused",
    "erasures",
    "quarantine",
    "branches",
]


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path) -> Path:
    found = command_lake(tmp_path, ["public.items"])
    write_items(found)
    assert call(found, "sync") == 0
    return found


def faults(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, tuple[str, str]]:
    """By examination, what is wrong and what to do."""
    capsys.readouterr()
    code = call(folder, "doctor", "--json")
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    assert list(dict.fromkeys(one["what"] for one in found)) == [*EXAMINED, "maintenance", "runs"]
    wrong = {one["what"]: (one["said"], one["remedy"]) for one in found if one["remedy"] is not None}
    assert code == bool(wrong)
    return wrong


def test_a_lake_that_is_well(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(folder.rglob("*.metadata.json"))
    assert faults(folder, capsys) == {}
    assert sorted(folder.rglob("*.metadata.json")) == before, "it commits nothing"
    assert call(folder, "doctor") == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "ok    lake.yaml: 1 silver table, 0 marts"
    assert printed[-1] == "All is well."


def test_what_is_wrong_with_tables_and_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = open_lake(load_lake(folder / "lake.yaml"))
    with lake.runtime.sessions.isolated() as spark:
        spark.sql(f"DELETE FROM {lake.config.catalog.name}.silver_shop.items WHERE id = 1")
    bad = f"U,2026-03-01 12:00:00.000000,2,changed,no price,2026-03-01 11:00:00.000000,{sequence(5)},"
    write_file(folder, "public/items/20260301-130000000.csv", [ITEMS_HEADER, bad])
    write_file(folder, "public/unknown/20260301-130000000.csv", [ITEMS_HEADER])
    assert call(folder, "sync") == 1
    found = faults(folder, capsys)
    assert found.keys() == {"tables", "source shop"}
    said, remedy = found["tables"]
    assert "not by lake_assets" in said
    assert remedy == "`lake-assets repair` does that: restore silver_shop.items."
    assert found["source shop"][0].startswith("1 file of no configured table, such as ")
    assert call(folder, "repair", "--yes") == 0
    assert call(folder, "sync") == 1
    assert "quarantine.max_rows is 0" in faults(folder, capsys)["tables"][0]


def test_a_clock_that_is_behind(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    later = time.time() + 3600
    os.utime(folder / "bronze/public/items/LOAD00000001.csv", (later, later))
    said, remedy = faults(folder, capsys)["source shop"]
    assert said.startswith("public/items/LOAD00000001.csv is ")
    assert "clock" in remedy


@pytest.mark.parametrize(("free", "is_full"), [(1 << 30, True), (3 << 30, False)])
def test_a_disk_that_is_full(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    *,
    free: int,
    is_full: bool,
) -> None:
    usage = SimpleNamespace(free=free, total=100 << 30)
    monkeypatch.setattr(examinations, "shutil", SimpleNamespace(disk_usage=lambda path: usage))
    assert ("disk" in faults(folder, capsys)) is is_full


def test_branches_of_killed_processes_and_a_paused_table(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = open_lake(load_lake(folder / "lake.yaml"))
    branch = f"apply_{int(time.time()) - 90_000}_{'0' * 32}"
    with lake.runtime.sessions.isolated() as spark:
        spark.sql(f"ALTER TABLE {lake.config.catalog.name}.silver_shop.items CREATE BRANCH {branch}")
    pause(lake.runtime, lake.targets[0], "a test")
    assert faults(folder, capsys) == {
        "branches": ("1 branch is left by killed processes.", "`lake-assets maintain` drops them.")
    }
    assert call(folder, "doctor") == 1
    printed = capsys.readouterr().out
    assert "ok    paused: silver_shop.items: it is paused since " in printed
    assert printed.splitlines()[-1] == "1 fault."


def test_a_catalog_that_does_not_answer(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other examinations say what they can."""

    def refused(*given: Any) -> Any:
        raise ConnectionError("connection refused")

    kind = type(open_catalog(load_lake(folder / "lake.yaml").catalog))
    monkeypatch.setattr(kind, "table_exists", refused)
    monkeypatch.setattr(kind, "load_table", refused)
    found = faults(folder, capsys)
    assert "connection refused" in found["catalog"][0]
    assert "disk" not in found
    assert "Spark" not in found


def test_a_run_whose_process_is_gone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    @dg.job
    def work() -> None: ...

    tags = own_tag(load_lake(folder / "lake.yaml")) | {HEARTBEAT: "1.0"}
    with dagster_instance(folder) as instance:
        run = instance.create_run_for_job(work, status=dg.DagsterRunStatus.STARTED, tags=tags)
        assert faults(folder, capsys) == {}, "its state has just changed"
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(in_flight, "SILENT_SECONDS", -1.0)
            said, remedy = faults(folder, capsys)["runs"]
        assert said.startswith(f"run {run.run_id[:8]}: No heartbeat for ")
        assert "daemon" in remedy
        assert (found := instance.get_run_by_id(run.run_id)) is not None
        assert found.status is dg.DagsterRunStatus.STARTED, "it declares nothing"
