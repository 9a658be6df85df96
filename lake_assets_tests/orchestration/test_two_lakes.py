"""Staging and production of one lake.yaml as two code locations of one Dagster, with the real daemon.

Here: both apply, a failing staging delays nothing, and a third lake with the keys of the first is refused. One Dagster
for the whole module; the tests build on each other, in this order. Not here: the same without a daemon, and the keys
and tags, case by case (`test_shared_instance.py`).
"""

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from lake_assets.commands.setup.dagster_files import place
from lake_assets.config.config_file import load_lake
from lake_assets.iceberg.table_io import load_table
from lake_assets.orchestration.lake_definitions import Lake, open_lake
from lake_assets.spark.preflight import free_port
from lake_assets_tests.helpers.lakes.small_lakes import DMS, ITEMS, TINY, write_file
from lake_assets_tests.helpers.orchestration.dagster_dev import Dev

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]

HEADER = "Op,commit_ts,id,name,price,at,change_seq"
DAILY = """/*
description: Items by day.
follow:
  silver_shop.items: {day: at}
columns: {day: date not null, items: long}
*/
SELECT to_date(at) AS day, count(*) AS items FROM silver_shop.items
WHERE at >= :first_day AND at < date_add(:last_day, 1) GROUP BY to_date(at)
"""
LOCATION = """import os

os.environ |= {{"LAKE_HOME": {home!r}, "LAKE_PREFIX": {prefix!r}}}

from lake_assets import lake_definitions

defs = lake_definitions("lake.yaml")
"""
CHANGES = "20260302-080100000.csv"
LOADED = datetime(2026, 3, 2, 8, tzinfo=UTC).timestamp()
PREFIXES = {"production": "", "staging": "staging", "copy_of_production": ""}


@pytest.fixture(
    scope="module",
    params=[pytest.param(True, id="continuous"), pytest.param(False, id="batches")],
)
def dev(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    """A Dagster with production and staging. Staging's first changes have a bad row, which stops its table."""
    folder = tmp_path_factory.mktemp("two")
    write_lake(folder, continuous=request.param)
    write_workspace(folder, "production", "staging")
    place(folder)
    lands(folder, "production", "LOAD00000001.csv", range(3))
    lands(folder, "production", CHANGES, range(3, 4))
    lands(folder, "staging", "LOAD00000001.csv", range(5))
    lands(folder, "staging", CHANGES, range(5, 6), price="dear")
    found = Dev(folder, free_port(), datetime.now(UTC), plain=True)
    try:
        found.up()
        yield found
    finally:
        for process in found.processes():
            process.kill()


def write_lake(folder: Path, *, continuous: bool) -> None:
    """One lake.yaml for all code locations, whose environments differ."""
    automation = {"continuous": {"daily_marts_every": "2s"}} if continuous else {}
    lake = {
        "asset_key_prefix": "${LAKE_PREFIX:-}",
        "catalog": {"name": "lake", "uri": "${LAKE_HOME}/catalog.db", "warehouse": "${LAKE_HOME}/warehouse"},
        "sources": {
            "shop": {"location": "${LAKE_HOME}/bronze", "dms": DMS, "tables": {"public.items": ITEMS}}
        },
        "gold": {"start_date": "2026-03-01", "marts": ["items_daily.sql"]},
        "spark": {"conf": {"spark.driver.memory": "1g", **TINY}},
        "automation": automation,
    }
    (folder / "lake.yaml").write_text(yaml.safe_dump(lake, sort_keys=False))
    (folder / "items_daily.sql").write_text(DAILY)


def write_workspace(folder: Path, *locations: str) -> None:
    """Each code location is a module, so that its runs are forked, as those of the shipped workspace.yaml are."""
    modules = []
    for name in locations:
        code = LOCATION.format(home=str(folder / name), prefix=PREFIXES[name])
        (folder / f"{name}.py").write_text(code)
        modules.append(
            {"python_module": {"module_name": name, "location_name": name, "working_directory": str(folder)}}
        )
    (folder / "workspace.yaml").write_text(yaml.safe_dump({"load_from": modules}))


def lands(folder: Path, location: str, name: str, ids: Sequence[int], price: str = "1.50") -> None:
    """A DMS file of the location's lake."""
    at = "2026-03-02T08:00:00Z"
    rows = [f"I,2026-03-02 08:00:00.{i:06d},{i},item {i},{price},{at},2026030208000000{i:019d}" for i in ids]
    path = write_file(folder / location, f"public/items/{name}", [HEADER, *rows])
    if name.startswith("LOAD"):
        os.utime(path, (LOADED, LOADED))  # before the changes


def lake_of(dev: Dev, location: str) -> Lake:
    environ = {"LAKE_HOME": str(dev.folder / location), "LAKE_PREFIX": PREFIXES[location]}
    return open_lake(load_lake(dev.folder / "lake.yaml", environ=environ))


def rows(lake: Lake, identifier: str) -> list[dict[str, Any]]:
    table = load_table(lake.runtime.catalog, identifier)
    return table.scan().to_arrow().to_pylist() if table is not None else []


def items(lake: Lake) -> list[int]:
    return sorted(row["id"] for row in rows(lake, "silver_shop.items"))


def by_day(lake: Lake) -> list[int]:
    return [row["items"] for row in rows(lake, "gold.items_daily")]


def failed_checks(dev: Dev, *key: str) -> set[str]:
    """The checks of an asset whose newest execution failed, as the UI shows them."""
    path = ", ".join(f'"{part}"' for part in key)
    wanted = "{... on AssetChecks{checks{name executionForLatestMaterialization{status}}}}"
    found = dev.query(
        f"{{assetNodeOrError(assetKey: {{path: [{path}]}}){{... on AssetNode{{assetChecksOrError{wanted}}}}}}}"
    )
    checks = found["assetNodeOrError"]["assetChecksOrError"]["checks"]
    return {
        check["name"]
        for check in checks
        if (last := check["executionForLatestMaterialization"]) and last["status"] == "FAILED"
    }


def test_a_failing_staging_does_not_delay_production(dev: Dev) -> None:
    production, staging = lake_of(dev, "production"), lake_of(dev, "staging")
    dev.wait("rows and mart of production", lambda: by_day(production) == [4])
    dev.wait(
        "failure of staging", lambda: "applied" in failed_checks(dev, "staging", "silver", "shop", "items")
    )
    assert items(staging) in ([], [0, 1, 2, 3, 4])
    assert failed_checks(dev, "silver", "shop", "items") == set()
    lands(dev.folder, "production", "20260302-080200000.csv", range(4, 5))
    dev.wait("the next file of production", lambda: by_day(production) == [5])


def test_staging_applies_once_it_is_mended(dev: Dev) -> None:
    production, staging = lake_of(dev, "production"), lake_of(dev, "staging")
    lands(dev.folder, "staging", CHANGES, range(5, 6))
    dev.wait("rows and mart of staging", lambda: by_day(staging) == [6])
    assert items(staging) == [0, 1, 2, 3, 4, 5]
    assert by_day(production) == [5]

    def told() -> bool:
        newest = {key: node["assetMaterializations"] for key, node in dev.assets().items()}
        return all(newest[key] for key in ("silver/shop/items", "staging/silver/shop/items"))

    dev.wait("events of both", told)


def test_a_second_lake_with_the_keys_of_production_is_refused(dev: Dev) -> None:
    lands(dev.folder, "copy_of_production", "LOAD00000001.csv", range(9))
    write_workspace(dev.folder, *PREFIXES)
    dev.end()
    dev.up()
    wanted = "{... on Sensor{sensorState{ticks(limit: 1){status error{message causes{message}}}}}}"

    def refusal() -> str | None:
        where = 'repositoryName: "__repository__", repositoryLocationName: "copy_of_production"'
        sensor = f'{{{where}, sensorName: "shop_files"}}'
        ticks = dev.query(f"{{sensorOrError(sensorSelector: {sensor}){wanted}}}")["sensorOrError"][
            "sensorState"
        ]["ticks"]
        if not ticks or ticks[0]["status"] != "FAILURE":
            return None
        error = ticks[0]["error"]
        return "\n".join([error["message"], *(cause["message"] for cause in error["causes"])])

    sentence = dev.wait("refusal", refusal)
    assert "'production' of this Dagster instance has a lake with the same asset keys" in sentence
    assert "Set asset_key_prefix in its lake.yaml" in sentence
    production = lake_of(dev, "production")
    lands(dev.folder, "production", "20260302-080300000.csv", range(5, 7))
    dev.wait("the next file of production", lambda: by_day(production) == [7])
    assert items(lake_of(dev, "copy_of_production")) == []
