"""The rows that an event shows, their cost, and the links of an asset's page."""

from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lake_assets.demo.marts.station_daily import MART as STATION_DAILY
from lake_assets.gold.registry import load_mart
from lake_assets.iceberg.file_io.local_io import LocalFirstIO
from lake_assets.iceberg.file_io.newest_rows import _value, newest_rows
from lake_assets.iceberg.table_io import load_table
from lake_assets.orchestration.shared.links import CODE, FILES, bucket_link, code_link
from lake_assets.orchestration.shared.preview import LONGEST, PREVIEW, rows_as_markdown, shown_value
from lake_assets.orchestration.sync import sync
from lake_assets_tests.helpers.lakes.masked_items import COLUMNS, MASK, Masked, row
from lake_assets_tests.helpers.oracles.masks import masked
from lake_assets_tests.helpers.orchestration.dagster_shop import SALES, TABLES, open_shop
from lake_assets_tests.helpers.processes.child import ROOT


def lines(run: dg.ExecuteInProcessResult) -> list[str] | None:
    """The preview of the sales table that the run has reported; None without one."""
    (event,) = [e for e in run.get_asset_materialization_events() if e.asset_key == SALES]
    shown = event.materialization.metadata.get(PREVIEW)
    return None if shown is None else str(shown.value).splitlines()


@pytest.mark.spark
def test_an_event_shows_rows_of_its_newest_commit(spark: SparkSession, tmp_path: Path) -> None:
    shop = open_shop(tmp_path, marts=())
    shop.change("sales", list(range(1, 31)))
    shown = lines(shop.apply())
    assert shown is not None
    assert shown[0] == "| id | name | at |"
    assert len(shown) == 2 + 10, "ten of thirty"
    shop.change("sales", [7], op="U")
    shown = lines(shop.apply())
    assert shown is not None
    assert any(line.startswith("| 7 | ") for line in shown[2:])
    shop.change("sales", [8], op="D")
    assert shop.apply().success


@pytest.mark.spark
def test_previews_can_be_switched_off(spark: SparkSession, tmp_path: Path) -> None:
    shop = open_shop(tmp_path / "all", marts=(), automation={"preview_rows": 0})
    shop.change("sales", [1])
    assert lines(shop.apply()) is None
    private = {"public.sales": TABLES["public.sales"] | {"preview": False}}
    shop = open_shop(tmp_path / "one", marts=(), tables=private)
    shop.change("sales", [1])
    assert lines(shop.apply()) is None


@pytest.mark.spark
def test_a_preview_shows_masks_instead_of_values(spark: SparkSession, tmp_path: Path) -> None:
    """Of every kind, in the table and its change log; the column `v` has no mask."""
    masks = Masked(tmp_path, MASK)
    given = row("three", "plain")
    masks.change("I", given)
    (expected,) = masked([given], MASK)
    with dg.DagsterInstance.ephemeral() as instance:
        assert not sync(masks.bench.lake, instance).failed
        for table in ("items", "items_changes"):
            event = instance.get_latest_materialization_event(dg.AssetKey(["silver", "shop", table]))
            assert event is not None
            assert event.asset_materialization is not None
            metadata = event.asset_materialization.metadata
            head, _, *rows = (
                line.strip("| ").split(" | ") for line in str(metadata[PREVIEW].value).splitlines()
            )
            (cells,) = (
                found for each in rows if (found := dict(zip(head, each, strict=True)))["v"] == "plain"
            )
            assert {name: cells[name] for name in COLUMNS} == {
                name: shown_value(name, value) for name, value in expected.items()
            }
            assert (cells["name"], cells["born"], cells["v"]) == ("***", "NULL", "plain")
            shown = str({name: value.value for name, value in metadata.items()})
            assert [name for name in MASK if str(given[name]) in shown] == []


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that PyIceberg opens."""
    found: list[str] = []
    plain = LocalFirstIO.new_input

    def counted(io: LocalFirstIO, location: str) -> Any:
        found.append(location)
        return plain(io, location)

    monkeypatch.setattr(LocalFirstIO, "new_input", counted)
    return found


@pytest.mark.spark
def test_a_preview_reads_one_data_file_of_however_many(
    spark: SparkSession, tmp_path: Path, opened: list[str]
) -> None:
    shop = open_shop(tmp_path, marts=(), automation={"rewrite_below_mb": 0})
    for key in range(1, 7):
        shop.change("sales", [key])
        shop.apply()
    table = load_table(shop.lake.runtime.catalog, "silver_shop.sales")
    assert table is not None
    assert len(list(table.scan().plan_files())) >= 6
    opened.clear()
    assert [row["id"] for row in newest_rows(table, 10)] == [6]
    assert len([path for path in opened if path.endswith(".parquet")]) <= 1


def test_a_value_is_one_short_line_and_no_markup() -> None:
    assert shown_value("name", None) == "NULL"
    assert shown_value("name", "a|b\nc<img>") == r"a\|b c&lt;img>"
    assert len(shown_value("name", "x" * 500)) == LONGEST
    assert rows_as_markdown([{"a": 1, "b": "x"}]) == "| a | b |\n| --- | --- |\n| 1 | x |"


def test_code_of_a_mart_is_linked() -> None:
    sql_file = ROOT / "lake_assets/demo/marts/bike_utilisation.sql"
    for mart, file in (
        (STATION_DAILY, ROOT / "lake_assets/demo/marts/station_daily.py"),
        (load_mart(str(sql_file)), sql_file),
    ):
        (reference,) = code_link(mart)[CODE].code_references
        assert isinstance(reference, dg.LocalFileCodeReference)
        assert Path(reference.file_path) == file
        line = file.read_text().splitlines()[(reference.line_number or 0) - 1]
        assert line.startswith(("def compute", "/*", "def "))


def test_a_bucket_is_linked_unless_it_is_not_in_aws() -> None:
    shown = bucket_link("s3://lake/dms files/public/sales")[FILES].value
    assert shown == (
        "https://s3.console.aws.amazon.com/s3/buckets/lake?prefix=dms%20files%2Fpublic%2Fsales%2F"
    )
    assert bucket_link("s3://lake/x", "http://localhost:9000") == {}
    assert bucket_link("/tmp/bronze") == {}
    assert bucket_link("file:///tmp/warehouse/a") == {}


SINCE_1970 = {"9999-12-31": 2932896, "10000-01-01": 2932897, "-0001-12-31": -719529, "0001-01-01": -719162}


@pytest.mark.parametrize("years", [("9999-12-31", "10000-01-01"), ("-0001-12-31", "0001-01-01")])
def test_dates_of_years_that_python_does_not_have(tmp_path: Path, years: tuple[str, str]) -> None:
    """Alone, and within a list and a struct. A source's zone moves markers such as 9999-12-31 there."""
    days = pa.array([SINCE_1970[year] for year in years], pa.int32()).cast(pa.date32())
    times = days.cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    nested = pa.StructArray.from_arrays([days], ["day"])
    lists = pa.ListArray.from_arrays([0, 1, 2], days)
    columns = [days, times, nested, lists, pa.array([1, 2])]
    rows = [{str(place): _value(column[row]) for place, column in enumerate(columns)} for row in range(2)]
    text = rows_as_markdown(rows)
    assert rows[0]["4"] == 1
    for day in map(str, map(_value, days)):
        assert text.count(day) >= 2, text
