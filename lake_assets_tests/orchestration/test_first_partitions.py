"""Where partitions begin in the UI: at the first day of the data, while the state of their assets stays.

By the definitions of lake.yaml, and asked of Dagster's own GraphQL, by a process that loads them as the webserver does.
Not here: which days the sensor requests (`sensors/test_mart_sensor.py`).
"""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lake_assets import lake_definitions
from lake_assets.gold.mart import MartRequest
from lake_assets.orchestration.lake_definitions import build_definitions
from lake_assets.orchestration.shared.first_periods import first_periods
from lake_assets_tests.helpers.lakes.command_lake import call, command_lake, write_items
from lake_assets_tests.helpers.lakes.small_lakes import ITEMS_HEADER, sequence, write_file
from lake_assets_tests.helpers.orchestration.dagster_shop import DAILY, Shop
from lake_assets_tests.helpers.processes.child import environment

pytestmark = pytest.mark.spark

BY_DAY = """\
/*
description: What was sold on a day.
follow:
  silver_shop.items: {partition: at}
partition_column: day
columns:
  day: date not null
  items: long not null
*/
SELECT to_date(at) AS day, count(*) AS items FROM silver_shop.items
WHERE at >= :start AND at < :end GROUP BY to_date(at)
"""
BY_MONTH = (
    BY_DAY.replace("day", "month")
    .replace("to_date(at)", "trunc(at, 'month')")
    .replace("partition_column: month", "partition_column: month\npartitions: month")
)
SHOWN = (
    "{assetNodes{assetKey{path} partitionKeyConnection(limit: 1, ascending: true){results} "
    "partitionStats{numMaterialized numPartitions}}}"
)


def shown(folder: Path) -> dict[str, tuple[str, int, int]]:
    """By asset with partitions: the first one, how many there are, how many are materialized."""
    asked = subprocess.run(
        [
            Path(sys.executable).with_name("dagster-graphql"),
            "-w",
            "workspace.yaml",
            "-o",
            "shown",
            "-t",
            SHOWN,
        ],
        cwd=folder,
        env=environment(DAGSTER_HOME=str(folder), LAKE_CONFIG=str(folder / "lake.yaml")),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert asked.returncode == 0, asked.stderr[-3000:]
    nodes: list[dict[str, Any]] = json.loads((folder / "shown").read_text())["data"]["assetNodes"]
    return {
        "/".join(node["assetKey"]["path"]): (
            node["partitionKeyConnection"]["results"][0],
            node["partitionStats"]["numPartitions"],
            node["partitionStats"]["numMaterialized"],
        )
        for node in nodes
        if node["partitionStats"] is not None
    }


def first_partitions(folder: Path) -> dict[str, str]:
    """By asset with partitions, the first one of the definitions as they are loaded now."""
    graph = lake_definitions(folder / "lake.yaml").get_repository_def().asset_graph
    definitions = ((key, graph.get(key).partitions_def) for key in graph.get_all_asset_keys())
    return {key.to_user_string(): str(of.get_first_partition_key()) for key, of in definitions if of}


def set_start(folder: Path, day: str) -> None:
    """Of lake.yaml."""
    lake = yaml.safe_load((folder / "lake.yaml").read_text())
    lake["gold"]["start_date"] = day
    (folder / "lake.yaml").write_text(yaml.safe_dump(lake))


def days_since(first: str) -> int:
    return (datetime.now(UTC).date() - date.fromisoformat(first)).days + 1


def test_the_ui_begins_with_the_data(spark: SparkSession, tmp_path: Path) -> None:
    """Bronze by the files' days, the mart by its input's; the runs had partitions from `gold.start_date` on."""
    (tmp_path / "by_day.sql").write_text(BY_DAY)
    (tmp_path / "by_month.sql").write_text(BY_MONTH)
    marts = ["by_day.sql", "by_month.sql"]
    folder = command_lake(tmp_path, tables=("public.items",), gold={"marts": marts})
    (folder / "workspace.yaml").write_text("load_from:\n  - python_module: lake_assets.definitions\n")
    loads = first_partitions(folder)
    assert loads["bronze/shop/items"] == loads["gold/by_day"] == "2000-01-01"
    assert not (folder / "catalog.db").exists(), "loading definitions creates nothing"

    write_items(folder)
    old = f"I,2026-03-03 12:00:00.000000,3,old,2.00,2025-11-20 11:00:00.000000,{sequence(2, 3)},"
    write_file(folder, "public/items/20260303-120100000.csv", [ITEMS_HEADER, old])
    assert call(folder, "sync") == 0
    today = datetime.now(UTC).date()
    computed = (date(2026, 3, 2) - date(2025, 11, 20)).days
    expected = {
        "bronze/shop/items": ("2026-03-01", days_since("2026-03-01"), 3),  # the full load has landed today
        "gold/by_day": ("2025-11-20", days_since("2025-11-20"), computed),
        "gold/by_month": ("2025-11-01", (today.year - 2025) * 12 + today.month - 10, 5),
    }
    set_start(folder, "2026-03-02")
    assert first_partitions(folder) == dict.fromkeys(expected, "2026-03-02") | {"gold/by_month": "2026-03-01"}
    set_start(folder, "2020-01-01")
    assert shown(folder) == expected, (
        "an earlier start_date adds no empty partitions, and what was materialized is so again"
    )


def test_a_day_before_the_first_partition_waits_for_a_reload(
    new_shop: Callable[..., Shop], spark: SparkSession
) -> None:
    shop = new_shop(gold={"start_date": "2026-01-01"})

    def reload() -> None:
        first = first_periods(shop.lake.runtime, shop.lake.marts)
        shop.definitions = build_definitions(shop.lake, first=first)

    shop.change("sales", [1], at="2026-03-05 08:00:00.000000")
    assert shop.apply().success
    reload()
    assert _first_day(shop) == "2026-03-05"
    for request in shop.tick("marts").run_requests or ():
        assert shop.run(request).success

    shop.change("sales", [2], at="2026-02-01 08:00:00.000000")
    assert shop.apply().success
    (request,) = shop.tick("marts").run_requests or ()
    assert shop.run(request).success, "the mart without days"
    assert "reload the code location" in shop.refusal("marts")
    reload()
    assert _first_day(shop) == "2026-02-01"
    (request,) = shop.tick("marts").run_requests or ()
    assert shop.run(request).success
    found = {str(row["day"]): row["sales"] for row in shop.rows("gold.sales_daily") if row["sales"]}
    assert found == {"2026-02-01": 1, "2026-03-05": 1}


def test_a_day_by_hand_before_all_data_is_a_partition_while_it_is_pending(
    new_shop: Callable[..., Shop], spark: SparkSession
) -> None:
    def zeros(request: MartRequest) -> Any:
        days = F.explode(F.sequence(*map(F.lit, request.days)))
        one = request.inputs["sales"].sparkSession.range(1)
        return one.select(days.alias("day"), F.col("id").alias("sales"))

    shop = new_shop(gold={"start_date": "2026-01-01"}, marts=[replace(DAILY, compute=zeros)])
    shop.change("sales", [1], at="2026-03-05 08:00:00.000000")
    assert shop.apply().success
    daily = dg.AssetKey(["gold", "sales_daily"])
    for day in ("2026-03-05", "2026-01-15"):
        assert shop.materialize([daily], partition=day).success
    gold = shop.lake.config.gold.model_copy(update={"settings": {"other": True}})
    shop.lake.runtime.lake = shop.lake.config.model_copy(update={"gold": gold})
    first = first_periods(shop.lake.runtime, shop.lake.marts)
    assert first.marts == {"sales_daily": date(2026, 1, 15)}


def test_a_failing_catalog_does_not_stop_the_definitions(
    new_shop: Callable[..., Shop], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shop = new_shop()
    shop.change("sales", [1])
    shop.tick("shop_files")
    folder = shop.folder / "warehouse"
    for log in list(folder.rglob("bronze_files")):
        log.rename(log.with_name("gone"))
    fresh = type(shop.lake.runtime)(shop.lake.config)
    first = first_periods(fresh, shop.lake.marts)
    assert first.of_table("shop", "public.sales") == date(2026, 3, 1)
    assert "Partitions begin at gold.start_date (2026-03-01)" in caplog.text


def _first_day(shop: Shop) -> str:
    definition = shop.definitions.get_assets_def(dg.AssetKey(["gold", "sales_daily"])).partitions_def
    assert definition is not None
    return str(definition.get_first_partition_key())
