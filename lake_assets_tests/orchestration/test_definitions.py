"""What Dagster sees of the shipped lake.yaml: every asset with what the UI shows of it, checks and sensors."""

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster._core.definitions.assets.graph.asset_graph import AssetGraph

from lake_assets.config.config_file import load_lake
from lake_assets.orchestration.checks.data_checks import ON_SCHEDULE, check_key
from lake_assets.orchestration.lake_definitions import build_definitions, open_lake
from lake_assets.orchestration.shared.links import CODE, CONSOLE, FILES
from lake_assets_tests.helpers.lakes.small_lakes import small_lake
from lake_assets_tests.helpers.orchestration.dagster_shop import DAILY
from lake_assets_tests.helpers.orchestration.dagster_shop import TABLES as SALES
from lake_assets_tests.helpers.processes.child import ROOT, environment, run_python

TABLES = ["app_events", "bikes", "maintenance_tickets", "members", "station_status", "stations", "trips"]
MARTS = {
    "racks_empty_now": {"station_status", "station_status_changes", "stations"},
    "station_daily": {"station_status_changes", "stations", "trips"},
    "trip_revenue_daily": {"stations", "trips"},
    "racks_to_refill": {"station_status", "station_status_changes", "stations"},
    "station_hourly": {"station_status_changes"},
    "member_activity_weekly": {"members", "trips"},
    "bike_utilisation": {"bikes", "maintenance_tickets", "trips"},
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lake")


@pytest.fixture(scope="module")
def definitions(home: Path) -> dg.Definitions:
    return build_definitions(open_lake(load_lake(ROOT / "lake.yaml", environ={"LAKE_HOME": str(home)})))


@pytest.fixture(scope="module")
def graph(definitions: dg.Definitions) -> AssetGraph:
    return definitions.get_repository_def().asset_graph


def bronze(table: str) -> dg.AssetKey:
    return dg.AssetKey(["bronze", "bikeshare", table])


def silver(table: str) -> dg.AssetKey:
    return dg.AssetKey(["silver", "bikeshare", table])


def gold(mart: str) -> dg.AssetKey:
    return dg.AssetKey(["gold", mart])


SILVER = [*TABLES, "station_status_changes"]
BATCH = dg.AssetKey(["lake_ops", "bikeshare_batch"])
DECLARED = [
    (silver("trips"), "ended_after_start"),
    (silver("trips"), "has_its_station"),
    (gold("trip_revenue_daily"), "every_finished_trip"),
]
"""The checks that the shipped lake.yaml declares."""


# --- assets


def test_every_table_has_its_assets(graph: AssetGraph) -> None:
    expected = {*map(bronze, TABLES), *map(silver, SILVER), *map(gold, MARTS), BATCH}
    assert set(graph.get_all_asset_keys()) == expected


def test_lineage_from_bronze_to_gold(graph: AssetGraph) -> None:
    for table in SILVER:
        assert graph.get(silver(table)).parent_keys == {bronze(table.removesuffix("_changes"))}
    for mart, tables in MARTS.items():
        assert graph.get(gold(mart)).parent_keys == set(map(silver, tables))
    for table in TABLES:
        assert graph.get(bronze(table)).parent_keys == set()
        assert graph.get(bronze(table)).is_external
    assert not graph.get(BATCH).parent_keys


def test_groups_kinds_owners_and_descriptions(graph: AssetGraph) -> None:
    for key in graph.get_all_asset_keys():
        node = graph.get(key)
        layer = key.path[0]
        assert node.group_name == layer
        assert node.description
        assert node.kinds == ({"file", "csv"} if layer == "bronze" else node.kinds)
        if layer in ("silver", "gold"):
            assert node.kinds == {"iceberg", "pyspark"}
        if layer != "lake_ops":
            assert node.owners
            assert node.tags["layer"] == layer
    assert graph.get(silver("trips")).owners == ["team:data-platform"]
    assert graph.get(silver("members")).tags["personal_data"] == "true"
    assert graph.get(silver("station_status_changes")).tags["mode"] == "change_log"
    assert "every change" in str(graph.get(silver("station_status_changes")).description)


def test_every_column_says_what_it_means(graph: AssetGraph) -> None:
    """Of the files, of silver with the columns of its shapes, and of the marts; times with their zone."""
    for key in graph.get_all_asset_keys() - {BATCH}:
        columns = graph.get(key).metadata["dagster/column_schema"].columns
        assert columns
        assert [column.name for column in columns if not column.description] == [], key
        times = [column for column in columns if column.type == "timestamptz"]
        assert [column.name for column in times if "UTC" not in column.description] == [], key


def test_masked_columns_have_a_tag(graph: AssetGraph) -> None:
    columns = graph.get(silver("members")).metadata["dagster/column_schema"].columns
    assert {column.name: column.tags for column in columns if column.tags} == {
        "email": {"mask": "hash"},
        "full_name": {"mask": "redact"},
        "phone": {"mask": "redact"},
        "birth_date": {"mask": "null"},
    }


def test_where_a_table_is_and_what_its_columns_are(graph: AssetGraph, home: Path) -> None:
    metadata = graph.get(silver("trips")).metadata
    assert metadata["dagster/table_name"] == "lake.silver_bikeshare.trips"
    assert metadata["dagster/uri"] == f"file://{home}/warehouse/silver_bikeshare/trips"
    assert metadata["dagster/storage_kind"] == "iceberg"
    schema = metadata["dagster/column_schema"]
    assert [(c.name, c.type, c.constraints.nullable) for c in schema.columns][-2:] == [
        ("distance_km", "double", True),
        ("fare", "decimal(10, 2)", True),
    ]
    assert not schema.columns[0].constraints.nullable
    assert metadata["primary_key"] == "trip_id"
    landed = graph.get(bronze("trips")).metadata
    assert landed["dagster/uri"] == f"{home}/bronze/public/trips"
    assert landed["dagster/column_schema"] == schema
    lineage = metadata["dagster/column_lineage"].deps_by_column
    assert list(lineage) == [column.name for column in schema.columns]
    assert lineage["fare"] == [dg.TableColumnDep(bronze("trips"), "fare")]
    mart = graph.get(gold("station_daily")).metadata
    assert mart["dagster/table_name"] == "lake.gold.station_daily"
    assert [column.name for column in mart["dagster/column_schema"].columns][:2] == ["day", "station_id"]
    changes = graph.get(silver("station_status_changes")).metadata["dagster/column_schema"]
    assert [column.name for column in changes.columns][:3] == ["_op", "_commit_ts", "_sequence"]


def test_what_is_partitioned_by_day(graph: AssetGraph) -> None:
    for key in [bronze("trips"), gold("station_daily"), gold("trip_revenue_daily")]:
        partitions = graph.get(key).partitions_def
        assert isinstance(partitions, dg.DailyPartitionsDefinition)
        assert partitions.get_first_partition_key() == "2000-01-01", "before there is data"
        assert partitions.timezone == "UTC"
    for key in [silver("trips"), gold("racks_empty_now"), BATCH]:
        assert graph.get(key).partitions_def is None


# --- checks and sensors


def test_every_check_is_in_the_documentation(tmp_path: Path) -> None:
    """Those of batches are in one table, those on a schedule in another."""
    lake = small_lake(tmp_path, SALES, [DAILY], source={"database": "sqlite://"}, checks={"reconcile": {}})
    graph = build_definitions(lake).get_repository_def().asset_graph
    others = {check_key(check) for check in lake.checks}
    found = {(key.asset_key.path[0], key.name): key in others for key in graph.asset_check_keys}
    own = (ROOT / "docs/checks.md").read_text(encoding="utf-8")
    of_batches = (ROOT / "docs/operations.md").read_text(encoding="utf-8").partition("## Checks in the UI")[2]
    assert set(re.findall(r"^\| (\w+) \| `(\w+)`", own, re.MULTILINE)) == {
        check for check, is_other in found.items() if is_other
    }
    table = of_batches.partition("\n\n")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"^\| `(\w+)`", table, re.MULTILINE)) == sorted(
        name for (_, name), is_other in found.items() if not is_other
    )
    in_runs = {key for key in others if ON_SCHEDULE not in graph.get_check_spec(key).metadata}
    assert {(key.asset_key.path[0], key.name) for key in in_runs} == {
        ("bronze", "freshness"),
        ("gold", "row_count"),
        ("gold", "freshness"),
    }


def test_every_table_has_its_checks(definitions: dg.Definitions, graph: AssetGraph) -> None:
    expected = {
        dg.AssetCheckKey(silver(t), name)
        for t in SILVER
        for name in ("applied", "row_count", "quarantine", "known_rows", "freshness")
    }
    expected |= {dg.AssetCheckKey(BATCH, name) for name in ("every_table_applied", "known_files")}
    # Once a source table, of which the log of changes reads the same files.
    expected |= {
        dg.AssetCheckKey(silver(t), name) for t in TABLES for name in ("not_null", "quarantine_growth")
    }
    expected |= {dg.AssetCheckKey(silver(t), "unique_key") for t in TABLES if t != "app_events"}
    expected |= {dg.AssetCheckKey(key, "read_health") for key in (*map(silver, SILVER), *map(gold, MARTS))}
    both = [*map(bronze, TABLES), *map(gold, MARTS)]
    expected |= {dg.AssetCheckKey(key, name) for key in both for name in ("row_count", "freshness")}
    expected |= {dg.AssetCheckKey(key, name) for key, name in DECLARED}
    assert set(graph.asset_check_keys) == expected
    blocking = {key.name for key in graph.asset_check_keys if graph.get_check_spec(key).blocking}
    assert blocking == {"applied", "row_count", "every_table_applied"}
    assert all(graph.get_check_spec(key).description for key in graph.asset_check_keys)


def test_sensors_run_by_default(definitions: dg.Definitions) -> None:
    repository = definitions.get_repository_def()
    sensors = {sensor.name: sensor for sensor in repository.sensor_defs}
    assert set(sensors) == {
        "bikeshare_files",
        "bikeshare_stays_current",
        "marts",
        "freshness",
        "batches",
        "old_runs",
        "tables_stay_small",
    }
    for sensor in sensors.values():
        assert sensor.default_status is dg.DefaultSensorStatus.RUNNING
        assert sensor.description
    # What they may request: silver by its files, with the mart of the present; gold by what silver commits.
    files = repository.get_job(str(sensors["bikeshare_files"].job_name))
    assert files.asset_layer.selected_asset_keys == {*map(silver, SILVER), BATCH, gold("racks_empty_now")}
    selected = sensors["marts"].asset_selection
    assert selected is not None
    assert selected.resolve(repository.asset_graph) == set(map(gold, MARTS))


def test_dagster_takes_marts_by_hour_day_and_week_together(definitions: dg.Definitions) -> None:
    """A job has one kind of partitions, and Dagster builds the sensors' jobs when it loads everything."""
    dg.Definitions.validate_loadable(definitions)


def test_alarms_about_marts_with_different_partitions(tmp_path: Path) -> None:
    lake = yaml.safe_load((ROOT / "lake.yaml").read_text())
    alarm = {"key": ["station_id"], "text": "{station_id}"}
    marts = {
        f"station_{grain}": {**alarm, "spell": column}
        for grain, column in (("daily", "day"), ("hourly", "hour"))
    }
    lake["alarms"] = {"webhook": "https://alarms.example", "marts": marts}
    (tmp_path / "lake.yaml").write_text(yaml.safe_dump(lake))
    found = load_lake(tmp_path / "lake.yaml", environ={"LAKE_HOME": str(tmp_path)})
    dg.Definitions.validate_loadable(build_definitions(open_lake(found)))


# --- other lakes


def test_120_tables_are_three_steps(tmp_path: Path) -> None:
    columns = {"id": "long not null"}
    tables = {f"public.t{number:03d}": {"columns": columns, "primary_key": ["id"]} for number in range(120)}
    graph = build_definitions(small_lake(tmp_path, tables)).get_repository_def().asset_graph
    steps = {
        definition.node_def.name: definition
        for definition in graph.assets_defs
        if definition.keys and definition.is_executable
    }
    assert {name: len(definition.keys) for name, definition in steps.items()} == {
        "silver_shop": 51,
        "silver_shop_2": 51,
        "silver_shop_3": 21,
    }
    assert {
        check.asset_key.path[-1] for check in graph.asset_check_keys if check.name == "every_table_applied"
    } == {
        "shop_batch",
        "shop_batch_2",
        "shop_batch_3",
    }


def test_a_lake_without_marts_has_no_mart_sensor(tmp_path: Path) -> None:
    repository = build_definitions(small_lake(tmp_path)).get_repository_def()
    assert {sensor.name for sensor in repository.sensor_defs} == {
        "shop_files",
        "freshness",
        "batches",
        "old_runs",
        "tables_stay_small",
    }


def test_two_sources_have_a_sensor_and_a_batch_each(tmp_path: Path) -> None:
    one = small_lake(tmp_path).config
    depot = one.sources["shop"].model_copy(update={"location": str(tmp_path / "depot")})
    both = one.model_copy(update={"sources": {**one.sources, "depot": depot}})
    graph = build_definitions(open_lake(both)).get_repository_def()
    assert {sensor.name for sensor in graph.sensor_defs} == {
        "shop_files",
        "depot_files",
        "freshness",
        "batches",
        "old_runs",
        "tables_stay_small",
    }
    keys = set(graph.asset_graph.get_all_asset_keys())
    assert {dg.AssetKey(["lake_ops", "shop_batch"]), dg.AssetKey(["lake_ops", "depot_batch"])} <= keys


# --- as Dagster loads it


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as a user has it: the configuration, and the package on the path."""
    for name in ("workspace.yaml", "dagster.yaml", "lake.yaml"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def run(folder: Path, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return run_python(*command, cwd=folder, env=environment(LAKE_HOME=str(folder / "home")), timeout=120)


def test_the_workspace_validates(folder: Path) -> None:
    # Not the program `dagster`: it may be another environment's.
    command = ["-m", "dagster", "definitions", "validate", "-w", "workspace.yaml"]
    validated = run(folder, command)
    assert validated.returncode == 0, validated.stderr
    assert "Validation successful for code location lake_assets" in validated.stdout + validated.stderr


def test_a_workspace_with_a_misspelt_setting_says_which(folder: Path) -> None:
    lake = folder / "lake.yaml"
    lake.write_text(lake.read_text().replace("primary_key: [bike_id]", "primary_keys: [bike_id]"))
    command = ["-m", "dagster", "definitions", "validate", "-w", "workspace.yaml"]
    validated = run(folder, command)
    assert validated.returncode != 0
    assert "primary_keys" in validated.stdout + validated.stderr


LOADING = """
import json, sys, threading, time
began = time.perf_counter()
import lake_assets.definitions
seconds = time.perf_counter() - began
from pyspark import SparkContext
print(json.dumps({
    "seconds": seconds,
    "jvm": SparkContext._gateway is not None,
    "threads": [thread.name for thread in threading.enumerate()],
    "modules": [name for name in ("boto3", "botocore", "duckdb", "moto", "dagster_aws") if name in sys.modules],
}))
"""


def test_loading_opens_nothing(folder: Path) -> None:
    loaded = run(folder, ["-W", "error::DeprecationWarning:lake_assets", "-c", LOADING])
    assert loaded.returncode == 0, loaded.stderr
    report: dict[str, Any] = json.loads(loaded.stdout)
    report.pop("seconds")
    # The resources `s3` and `secretsmanager` are dagster-aws's own, which imports boto3.
    aws = ["boto3", "botocore", "dagster_aws"]
    assert report == {"jvm": False, "threads": ["MainThread"], "modules": aws}
    assert not (folder / "home").exists()
    assert not (folder / ".lake").exists()


def test_the_shipped_lake_gives_no_warning(home: Path) -> None:
    """A fresh process, because Python shows a warning of one place once."""
    env = environment(LAKE_HOME=str(home))
    done = run_python("-m", "lake_assets.cli", "validate", env=env, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert "7 marts: valid" in done.stdout


def test_pages_link_to_code_and_to_files(tmp_path: Path, graph: AssetGraph) -> None:
    for mart, file in (
        ("trip_revenue_daily", "trip_revenue_daily.py"),
        ("bike_utilisation", "bike_utilisation.sql"),
    ):
        (reference,) = graph.get(gold(mart)).metadata[CODE].code_references
        assert Path(reference.file_path).name == file
    assert FILES not in graph.get(silver("trips")).metadata
    lake = yaml.safe_load((ROOT / "lake.yaml").read_text())
    lake["sources"]["bikeshare"]["location"] = "s3://landing/dms"
    lake["catalog"] = {"uri": "catalog.db", "warehouse": "s3://tables/lake"}
    (tmp_path / "lake.yaml").write_text(yaml.safe_dump(lake))
    found = open_lake(load_lake(tmp_path / "lake.yaml", environ={"LAKE_HOME": str(tmp_path)}))
    in_s3 = build_definitions(found).get_repository_def().asset_graph
    assert {
        key.path[0]: in_s3.get(key).metadata[FILES].value.removeprefix(f"{CONSOLE}/")
        for key in (bronze("trips"), silver("trips"), gold("station_daily"))
    } == {
        "bronze": "landing?prefix=dms%2Fpublic%2Ftrips%2F",
        "silver": "tables?prefix=lake%2Fsilver_bikeshare%2Ftrips%2F",
        "gold": "tables?prefix=lake%2Fgold%2Fstation_daily%2F",
    }
