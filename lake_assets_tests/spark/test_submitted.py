"""The main job in a process that `spark-submit` has started: its Spark has the master, memory and jars given there."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from lake_assets.config import LakeConfig
from lake_assets.config.config_file import load_lake
from lake_assets.demo.history import generate_history
from lake_assets.spark.jars import SQLITE_JDBC, iceberg_jar
from lake_assets.spark.settings import DECIDED_BY_SUBMIT, spark_conf
from lake_assets_tests.helpers.lakes.small_lakes import lake_config
from lake_assets_tests.helpers.oracles.demo_history import unequal_tables
from lake_assets_tests.helpers.processes.child import ROOT, output_of
from lake_assets_tests.helpers.servers.spark_cluster import (
    event_log,
    executors_used,
    spark_cluster,
    submitted,
)


def test_what_was_submitted_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = {"spark.executor.memory": "3g", "spark.sql.shuffle.partitions": 8}
    lake = lake_config(tmp_path, spark={"conf": conf})
    usual = spark_conf(lake)
    assert [key for key in DECIDED_BY_SUBMIT if not any(name.startswith(key) for name in usual)] == []
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    found = spark_conf(lake)
    assert [key for key in found if key.startswith(DECIDED_BY_SUBMIT)] == []
    assert found["spark.sql.shuffle.partitions"] == "8"
    assert {key for key in usual if key.startswith("spark.sql.")} <= {*found}


END = datetime(2026, 11, 8, tzinfo=UTC)


def prepared(folder: Path, changes: int = 2_000) -> list[str | Path]:
    """A history in the folder, and the program that applies it, with its arguments."""
    (folder / "main.py").write_text("from lake_assets.cli import main\n\nmain()\n")
    location = config_of(folder).sources["bikeshare"].location
    generate_history(
        location, folder / "source.db", seed=11, changes=changes, days=2, past_trips=500, end=END
    )
    return [folder / "main.py", "--config", ROOT / "lake.yaml", "sync"]


def config_of(folder: Path) -> LakeConfig:
    return load_lake(ROOT / "lake.yaml", environ={"LAKE_HOME": str(folder)})


@pytest.mark.long
def test_the_main_job_runs_on_the_executors(tmp_path: Path) -> None:
    """Of a standalone master with two workers; lake.yaml has the default master, `local[*]`."""
    program, config = prepared(tmp_path), config_of(tmp_path)
    conf = event_log(tmp_path / "events")
    with spark_cluster(tmp_path) as cluster:
        done = submitted(
            cluster.master, program, packages=[iceberg_jar(), SQLITE_JDBC], conf=conf, LAKE_HOME=str(tmp_path)
        )
    output_of(done)
    assert unequal_tables(config, tmp_path / "source.db") == []
    assert executors_used(tmp_path / "events") == {"0", "1"}, "none on the driver"


@pytest.mark.long
def test_the_error_names_the_jars_that_are_missing(tmp_path: Path) -> None:
    program = prepared(tmp_path, changes=10)
    done = submitted("local[2]", [*program, "--table", "bikes"], LAKE_HOME=str(tmp_path))
    assert done.returncode == 1
    said = f"start it with `spark-submit --packages {iceberg_jar()},{SQLITE_JDBC}`"
    assert (
        f"silver_bikeshare.bikes failed: The Spark that started this process lacks jars of the lake: {said}"
        in (done.stdout + done.stderr)
    )
