"""`lake-assets dev` on a lake with files that were never applied: partitions begin with the data without a reload by
hand, and the checks of a mart have run.

One real `dev` for the whole module; the tests build on each other, in this order. Not here: the same with a history of
days (`test_continuous_daemon.py`), when definitions are loaded again, case by case (`commands/test_reload.py`).
"""

import os
from collections.abc import Iterator
from datetime import UTC, datetime, time
from pathlib import Path
from typing import Any

import pytest
import yaml

from lake_assets.spark.preflight import free_port
from lake_assets_tests.helpers.lakes.small_lakes import DMS, ITEMS, TINY, write_file
from lake_assets_tests.helpers.orchestration.asset_graph import asset_nodes
from lake_assets_tests.helpers.orchestration.dagster_dev import Dev

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]

DAILY = """/*
description: Items by day.
follow:
  silver_shop.items: {day: at}
columns: {day: date not null, items: long}
*/
SELECT to_date(at) AS day, count(*) AS items FROM silver_shop.items
WHERE at >= :first_day AND at < date_add(:last_day, 1) GROUP BY to_date(at)
"""
TODAY = datetime.now(UTC).date()


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    """With the default `gold.start_date`, and a row of 1900-01-01 among those of today."""
    folder = tmp_path_factory.mktemp("unsynced")
    lake = {
        "catalog": {"name": "lake", "uri": "catalog.db", "warehouse": "warehouse"},
        "sources": {"shop": {"location": "bronze", "dms": DMS, "tables": {"public.items": ITEMS}}},
        "gold": {"marts": ["items_daily.sql"]},
        "spark": {"conf": {"spark.driver.memory": "1g", **TINY}},
    }
    (folder / "lake.yaml").write_text(yaml.safe_dump(lake, sort_keys=False))
    (folder / "items_daily.sql").write_text(DAILY)
    rows = [
        f"I,{TODAY} 00:00:00.00000{i},{i},item {i},1.50,{at},{TODAY:%Y%m%d}00000000{i:019d},NULL"
        for i, at in enumerate(["1900-01-01 00:00:00", f"{TODAY} 00:00:00"])
    ]
    header = "Op,commit_ts,id,name,price,at,change_seq,BI_id"
    load = write_file(folder, "public/items/LOAD00000001.csv", [header, *rows[:1]])
    begun = datetime.combine(TODAY, time(), UTC).timestamp()
    os.utime(load, (begun, begun))  # before the changes
    write_file(folder, f"public/items/{TODAY:%Y%m%d}-000001000.csv", [header, *rows[1:]])
    found = Dev(folder, free_port(), datetime.now(UTC))
    try:
        found.up()
        yield found
    finally:
        for process in found.processes():
            process.kill()


def partitions(dev: Dev, *key: str) -> tuple[str, int, int]:
    """Of an asset: its first partition, how many there are, and how many are materialized."""
    path = ", ".join(f'"{part}"' for part in key)
    wanted = (
        "partitionKeyConnection(limit: 1, ascending: true){results} "
        "partitionStats{numPartitions numMaterialized}"
    )
    node: dict[str, Any] = dev.query(
        f"{{assetNodeOrError(assetKey: {{path: [{path}]}}){{... on AssetNode{{{wanted}}}}}}}"
    )["assetNodeOrError"]
    stats = node["partitionStats"]
    first = node["partitionKeyConnection"]["results"][0]
    return first, stats["numPartitions"], stats["numMaterialized"]


def test_partitions_begin_with_the_data(dev: Dev) -> None:
    """Of marts and of bronze, as soon as there is data; it may be midnight meanwhile."""

    def begun() -> bool:
        mart, bronze = partitions(dev, "gold", "items_daily"), partitions(dev, "bronze", "shop", "items")
        return mart[0] == bronze[0] == str(TODAY) and mart[2] == 1 and bronze[2] == 1 and mart[1] <= 2

    dev.wait("partitions from today on, and materialized", begun)


@pytest.mark.browser
def test_the_checks_of_the_mart_have_run(dev: Dev, tmp_path: Path) -> None:
    """Else Dagster's graph shows them with a green tick, as 0 of 2 that have passed."""

    def shown() -> str | None:
        found = asset_nodes(dev, tmp_path / "profile", tmp_path / "graph.png", of_silver=1, others=2)
        (text,) = [text for name, text in found if name == "items_daily"]
        return text if "2 / 2 Passed" in text else None

    dev.wait("2 of 2 checks of the mart", shown)
