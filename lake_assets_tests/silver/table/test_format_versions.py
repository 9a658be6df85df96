"""Iceberg's format of each table, and the readers that cannot read it. Not here: batches of each format
(`test_formats.py`, `gold/test_random_marts.py`)."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets.commands.setup.validate import check
from lake_assets.config.columns import parse_column
from lake_assets.gold.mart import Input, Mart
from lake_assets.orchestration.assets.mart_runs import mart_work
from lake_assets.orchestration.lake_definitions import open_lake
from lake_assets_tests.helpers.files.dms_files import load_file
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.marts.direct_runs import run_marts

pytestmark = pytest.mark.spark
ITEM = {"columns": {"id": "long not null"}, "primary_key": ["id"]}
TABLES: dict[str, Any] = {"public.old": ITEM | {"format_version": 2}, "public.new": ITEM}
COPY = Mart(
    name="copy",
    description="All rows.",
    inputs={"new": Input("shop", "new")},
    columns=(parse_column("id", "long not null"),),
    compute=lambda request: request.inputs["new"].select("id"),
    partition_column=None,
)


def unreadable(bench: Bench) -> list[str]:
    return [text for keys, text in check(bench.lake).mistakes if keys == ("readers",)]


def test_each_table_has_its_own_and_validate_names_what_a_reader_cannot_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    readers = ["spark", "athena", "trino"]
    bench = Bench(tmp_path, TABLES, sections={"gold": {"format_version": 2}, "readers": readers})
    bench.lake = open_lake(bench.lake.config, marts=(COPY,))
    said = "athena and trino cannot read silver_shop.new, whose format version is 3: set format_version: 2"
    assert unreadable(bench) == [said]
    bench.put(load_file("public.old", [{"id": 1}]), load_file("public.new", [{"id": 1}]))
    bench.apply()
    (run,) = mart_work(bench.lake.runtime, bench.lake.marts).runs
    run_marts(bench.lake, run)
    load = bench.lake.runtime.catalog.load_table
    found = {name: load(name).format_version for name in ("silver_shop.old", "silver_shop.new", "gold.copy")}
    assert found == {"silver_shop.old": 2, "silver_shop.new": 3, "gold.copy": 2}
    assert unreadable(bench) == [f"{said}, drop the table, and let the next run make it again"]
    # A table keeps the format that it has, whatever lake.yaml says later.
    config = bench.lake.config.model_copy(update={"format_version": 2})
    bench.lake = open_lake(config, marts=(COPY,))
    assert unreadable(bench) == [f"{said}, drop the table, and let the next run make it again"]
    bench.lake.runtime.catalog.drop_table("silver_shop.new")
    bench.apply()
    assert unreadable(bench) == []
    assert load("silver_shop.new").format_version == 2
    assert bench.stored("new") == [{"id": 1}]
