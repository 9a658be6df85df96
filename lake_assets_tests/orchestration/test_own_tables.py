"""The tables of own assets are found by a property, and maintained as marts are.

Here: tables that Dagster's runs write. Not here: the assets themselves (`test_own_assets.py`).
"""

from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lake_assets import lake_definitions
from lake_assets.commands.run.maintain import maintain
from lake_assets.config.config_file import load_lake
from lake_assets.gold.write.own_tables import OwnTable, own_tables
from lake_assets.iceberg.upkeep import parts_and_limits, table_health, table_maintenance
from lake_assets.orchestration.lake_definitions import open_lake
from lake_assets.rounds.due_maintenance import due_upkeep, upkeep
from lake_assets_tests.helpers.lakes.guide_project import rows, run, tables, write_lake

pytestmark = pytest.mark.spark


def test_the_table_of_an_own_asset_is_maintained(
    spark: SparkSession, keep_little: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the sensor's job and by `maintain`, with the event at the asset; not the table of somebody else."""
    write_lake(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(table_health, "SMALL_FILES", 2)
    for module in (parts_and_limits, table_health, table_maintenance):
        monkeypatch.setattr(module, "MIN_SMALL_FILES", 2)

    @dg.asset(key=["own", "visits"], io_manager_key="iceberg_io_manager", metadata={"lake/write": "append"})
    def visits() -> pa.Table:
        return pa.table({"id": [1]})

    defs = dg.Definitions.merge(lake_definitions("lake.yaml"), dg.Definitions(assets=[visits]))
    instance = dg.DagsterInstance.ephemeral()
    run(defs, instance, "own/visits")
    foreign = tables().create_table("own.foreign", pa.schema([("id", pa.int64())]))
    for _ in range(3):
        foreign.append(pa.table({"id": [1]}))
    lake = open_lake(load_lake(tmp_path / "lake.yaml"))
    assert [one.table for one in upkeep(lake)] == ["own.visits"]
    assert due_upkeep(lake) == []
    run(defs, instance, "own/visits")
    (due,) = due_upkeep(lake)
    assert (due.table, due.reason) == ("own.visits", "2 small files")

    job = defs.resolve_job_def("maintenance")
    assert job.execute_in_process(instance=instance).success
    (record,) = instance.fetch_observations(dg.AssetKey(["own", "visits"]), limit=5).records
    assert record.asset_observation is not None
    shown = {name: value.value for name, value in record.asset_observation.metadata.items()}
    assert (shown["files_before"], shown["files_after"]) == (2, 1)
    assert due_upkeep(lake) == []
    assert rows("own.visits") == [{"id": 1}] * 2
    assert len(list(tables().load_table("own.foreign").scan().plan_files())) == 3
    done = {one.table: one.error for one in maintain(lake)}
    assert done["own.visits"] is None
    assert "own.foreign" not in done


def test_a_table_of_a_former_release_becomes_known(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_lake(tmp_path)
    monkeypatch.chdir(tmp_path)

    @dg.asset(key=["own", "visits"], io_manager_key="iceberg_io_manager")
    def visits() -> pa.Table:
        return pa.table({"id": [1]})

    defs = dg.Definitions.merge(lake_definitions("lake.yaml"), dg.Definitions(assets=[visits]))
    catalog = open_lake(load_lake(tmp_path / "lake.yaml")).runtime.catalog
    catalog.create_namespace("own")
    catalog.create_table("own.visits", pa.schema([("id", pa.int64())]))
    run(defs, dg.DagsterInstance.ephemeral(), "own/visits")
    assert own_tables(catalog, ()) == [OwnTable("own.visits", ("own", "visits"))]
