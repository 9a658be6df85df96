"""Times of years that Python does not have: a source's zone moves the markers 0001-01-01 and 9999-12-31 there.

Not here: markers that stay in Python's years (`view/`).
"""

from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from lake_assets.config.config_file import load_lake
from lake_assets.iceberg.catalog import open_catalog
from lake_assets_tests.commands.test_broken_mart import NAMED
from lake_assets_tests.helpers.lakes.command_lake import call, command_lake, write_items
from lake_assets_tests.helpers.lakes.small_lakes import ITEMS_HEADER, sequence, write_file

BEFORE, AFTER = ("Europe/Berlin", "0001-01-01 00:00:00"), ("America/New_York", "9999-12-31 23:59:59")
"""A source's zone, and the marker that it moves out of Python's years."""


@pytest.mark.spark
@pytest.mark.parametrize(
    ("zone", "marker", "partitions"),
    [
        (*AFTER, ["day(at)"]),
        *(pytest.param(*BEFORE, partitions, marks=pytest.mark.long) for partitions in ([], ["day(at)"])),
        pytest.param(*AFTER, [], marks=pytest.mark.long),
    ],
)
def test_silver_and_its_marts_go_on(
    spark: SparkSession, tmp_path: Path, zone: str, marker: str, partitions: list[str]
) -> None:
    folder = command_lake(tmp_path)
    (folder / "rates.py").write_text(NAMED, encoding="utf-8")
    config = yaml.safe_load((folder / "lake.yaml").read_text(encoding="utf-8"))
    config["gold"] |= {"marts": [str(folder / "rates.py")]}
    (source,) = config["sources"].values()
    source["dms"]["timestamp_zone"] = zone
    source["tables"]["public.items"]["partition_by"] = partitions
    (folder / "lake.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    write_items(folder)
    assert call(folder, "sync") == 0
    for hour, (number, at) in enumerate([(7, marker), (8, "2026-03-02 11:00:00")], 12):
        line = f"I,2026-03-02 {hour}:00:00.000000,{number},new,2.00,{at}.000000,{sequence(number)},"
        write_file(folder, f"public/items/20260302-{hour}0100000.csv", [ITEMS_HEADER, line])
        assert call(folder, "sync") == 0
    catalog = open_catalog(load_lake(folder / "lake.yaml").catalog)
    for table, expected in (("silver_shop.items", {7, 8}), ("gold.rates", {8})):
        found = catalog.load_table(table).scan(selected_fields=("id",)).to_arrow()
        assert expected <= set(found["id"].to_pylist())
