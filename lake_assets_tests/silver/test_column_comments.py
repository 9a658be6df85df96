"""Comments of columns in Iceberg and in Dagster: of lake.yaml, of a shape, and of a mart."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from lake_assets.config import SHAPE_COMMENTS, TableConfig
from lake_assets.iceberg.table_io import load_table
from lake_assets.orchestration.lake_definitions import build_definitions, open_lake
from lake_assets_tests.helpers.orchestration.dagster_shop import DAILY, SALES, TABLES, Shop, open_shop

pytestmark = pytest.mark.spark
STRANGE = 'it\'s 50 % of\\n "what" {was} `sold`'


def tables(**comments: str) -> dict[str, Any]:
    return {"public.sales": TABLES["public.sales"] | {"comments": comments}}


def in_iceberg(shop: Shop, identifier: str = "silver_shop.sales") -> dict[str, str | None]:
    table = load_table(shop.lake.runtime.catalog, identifier)
    assert table is not None
    return {field.name: field.doc for field in table.schema().fields if field.doc is not None}


def in_dagster(shop: Shop, key: dg.AssetKey = SALES) -> dict[str, str | None]:
    node = shop.definitions.get_repository_def().asset_graph.get(key)
    schema = node.metadata["dagster/column_schema"]
    return {column.name: column.description for column in schema.columns if column.description is not None}


def reconfigured(shop: Shop, **comments: str) -> None:
    """The same shop after lake.yaml was edited."""
    source = shop.lake.config.sources["shop"]
    edited = {name: TableConfig.model_validate(given) for name, given in tables(**comments).items()}
    config = shop.lake.config.model_copy(
        update={"sources": {"shop": source.model_copy(update={"tables": edited})}}
    )
    shop.lake = open_lake(config, marts=())
    shop.definitions = build_definitions(shop.lake)


def test_comments_are_those_of_lake_yaml_and_change_with_it(spark: SparkSession, tmp_path: Path) -> None:
    shop = open_shop(tmp_path, marts=(), tables=tables(id="The key", name=STRANGE))
    shop.change("sales", [1])
    shop.apply()
    assert in_iceberg(shop) == in_dagster(shop) == {"id": "The key", "name": STRANGE}

    reconfigured(shop, id="The key", name="Who", at="When it was sold")
    shop.change("sales", [2])
    assert shop.apply().success
    expected = {"id": "The key", "name": "Who", "at": "When it was sold"}
    assert in_iceberg(shop) == in_dagster(shop) == expected
    assert [row["id"] for row in shop.rows("silver_shop.sales")] == [1, 2]

    # With nothing to change, a batch makes no further commit of the table's metadata.
    before = load_table(shop.lake.runtime.catalog, "silver_shop.sales")
    shop.change("sales", [3])
    shop.apply()
    after = load_table(shop.lake.runtime.catalog, "silver_shop.sales")
    assert before is not None
    assert after is not None
    assert after.metadata.current_schema_id == before.metadata.current_schema_id


def test_a_comment_of_an_unknown_column_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="is not a column; did you mean name"):
        TableConfig.model_validate(TABLES["public.sales"] | {"comments": {"nam": "x"}})


def test_columns_of_a_shape_and_of_a_mart(spark: SparkSession, tmp_path: Path) -> None:
    """A mart's comments change with its declaration."""
    logged = {
        "public.sales": TABLES["public.sales"] | {"also": ["change_log"], "comments": {"id": "The key"}}
    }
    shop = open_shop(tmp_path, marts=(), tables=logged)
    for number, comments in enumerate([{"day": "UTC"}, {"day": "Of the sale, UTC", "sales": STRANGE}], 1):
        shop.lake = open_lake(shop.lake.config, marts=[replace(DAILY, comments=comments)])
        shop.restart()
        shop.change("sales", [number])
        shop.apply()
        assert shop.run(shop.request("marts")).success
        mart = in_iceberg(shop, "gold.sales_daily")
        assert mart == in_dagster(shop, dg.AssetKey(["gold", "sales_daily"])) == comments
    added = {name: SHAPE_COMMENTS[name] for name in ("_op", "_commit_ts", "_sequence")}
    changes = in_iceberg(shop, "silver_shop.sales_changes")
    assert changes == in_dagster(shop, dg.AssetKey(["silver", "shop", "sales_changes"]))
    assert changes == added | {"id": "The key"}


def test_bronze_has_the_comments_too(spark: SparkSession, tmp_path: Path) -> None:
    shop = open_shop(tmp_path, marts=(), tables=tables(id="The key"))
    node = shop.definitions.get_repository_def().asset_graph.get(dg.AssetKey(["bronze", "shop", "sales"]))
    assert node.metadata["dagster/column_schema"].columns[0].description == "The key"
