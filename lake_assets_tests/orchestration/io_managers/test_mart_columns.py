"""What the IO manager tells of the rows that it stores, and the columns and values that it refuses."""

import time
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake_assets.config import Column, parse_column
from lake_assets.errors import ColumnMismatch
from lake_assets.gold.write.write_mart import Computed
from lake_assets.orchestration.lake_definitions import Lake
from lake_assets.orchestration.shared.asset_metadata import figures_of
from lake_assets.orchestration.shared.heartbeat import HEARTBEAT
from lake_assets_tests.helpers.orchestration.dagster_shop import open_instance
from lake_assets_tests.helpers.orchestration.daily_marts import (
    ALL,
    COLUMNS,
    OLD,
    Rows,
    branches,
    frame,
    mart,
    run,
    snapshot,
)


def test_metadata_counts_rows(lake: Lake, instance: dg.DagsterInstance) -> None:
    rows: Rows = OLD
    asset = mart("counted", lambda: frame(lake, rows))
    run(lake, instance, asset, ALL)
    rows = [(2, 1, "a"), (2, 2, "b"), (3, 1, "c")]
    result = run(lake, instance, asset, "2024-03-02..2024-03-03")
    for event in result.get_asset_materialization_events():
        metadata = figures_of(event.materialization.metadata)
        assert metadata["dagster/row_count"] == 6
        assert metadata["rows_written"] == 3
        assert metadata["partitions"] == "2024-03-02 to 2024-03-03"
        assert metadata["snapshot_id"] == str(snapshot(lake, "counted"))
        assert metadata["seconds_compute"] > 0
        assert metadata["seconds_write"] > 0
        counted = {"2024-03-02": 2, "2024-03-03": 1}
        assert event.partition is not None
        assert metadata["dagster/partition_row_count"] == counted[event.partition]
        assert metadata["preview"].splitlines()[0] == "| day | id | word |"


def test_a_day_without_rows_counts_zero(lake: Lake, instance: dg.DagsterInstance) -> None:
    asset = mart("emptied", lambda: frame(lake, [(2, 1, "a")]))
    result = run(lake, instance, asset, "2024-03-02..2024-03-03")
    counted = {
        event.partition: event.materialization.metadata["dagster/partition_row_count"].value
        for event in result.get_asset_materialization_events()
    }
    assert counted == {"2024-03-02": 1, "2024-03-03": 0}


def test_a_plain_dataframe_of_any_types(lake: Lake, instance: dg.DagsterInstance) -> None:
    """An asset of a user's own, in a namespace of its own, that knows nothing of this project."""

    @dg.asset(key=["mine", "deep", "table"], io_manager_key="io")
    def table() -> DataFrame:
        return lake.runtime.sessions.root().sql(
            "SELECT 1 AS id, 2L AS big, 1.50BD AS price, timestamp'2024-03-01 10:00:00' AS at, true AS yes, "
            "timestamp_ntz'2024-03-01 10:00:00' AS local, array(1, 2) AS many, named_struct('a', 1) AS nested"
        )

    run(lake, instance, table)
    found = lake.runtime.catalog.load_table("mine_deep.table")
    assert [str(field.field_type) for field in found.schema().fields[:6]] == [
        *("int", "long", "decimal(3, 2)", "timestamptz", "boolean", "timestamp"),
    ]
    (row,) = found.scan().to_arrow().to_pylist()
    assert row["at"] == datetime(2024, 3, 1, 10, tzinfo=UTC)
    assert (row["big"], row["many"], row["nested"]) == (2, [1, 2], {"a": 1})


def test_a_new_column_is_added_to_the_table(lake: Lake, instance: dg.DagsterInstance) -> None:
    run(lake, instance, mart("wider", lambda: Computed(frame(lake, OLD), COLUMNS)), ALL)
    columns = (*COLUMNS, parse_column("more", "int not null"))
    wider = mart(
        "wider", lambda: Computed(frame(lake, [(2, 1, "new")]).withColumn("more", F.lit(7)), columns)
    )
    run(lake, instance, wider, "2024-03-02")
    table = lake.runtime.catalog.load_table("gold.wider")
    found = {row["day"].day: (row["word"], row["more"]) for row in table.scan().to_arrow().to_pylist()}
    assert found == {1: ("old", None), 2: ("new", 7), 3: ("old", None), 4: ("old", None), 5: ("old", None)}
    assert not table.schema().find_field("more").required


MISMATCHES: dict[str, tuple[tuple[Column, ...], str]] = {
    "frame lacks a column": (
        (*COLUMNS, parse_column("more", "int")),
        "computed frame lacks more, which its asset",
    ),
    "frame has another column": (COLUMNS[:2], "computed frame has word, which its asset does not declare"),
}


@pytest.mark.parametrize("name", MISMATCHES)
def test_columns_that_are_not_the_declared_ones_are_refused(
    lake: Lake, instance: dg.DagsterInstance, name: str
) -> None:
    columns, message = MISMATCHES[name]
    asset = mart("columns", lambda: Computed(frame(lake, OLD), columns))
    with pytest.raises(ColumnMismatch, match=message):
        run(lake, instance, asset, ALL)
    assert lake.runtime.catalog.table_exists("gold.columns") is False


def test_a_table_of_an_older_definition_is_refused(lake: Lake, instance: dg.DagsterInstance) -> None:
    session = lake.runtime.sessions.root()
    run(lake, instance, mart("evolved", lambda: Computed(frame(lake, OLD), COLUMNS)), ALL)
    before = snapshot(lake, "evolved")
    columns = (*COLUMNS[:2], parse_column("other", "string"))
    wide = mart(
        "evolved",
        lambda: Computed(session.sql("SELECT date'2024-03-01' AS day, 1 AS id, 'x' AS other"), columns),
    )
    with pytest.raises(
        ColumnMismatch, match=r"table gold\.evolved has word, which its asset does not declare"
    ):
        run(lake, instance, wide, ALL)
    assert snapshot(lake, "evolved") == before


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT date'2024-03-02' AS day, CAST(NULL AS int) AS id, 'x' AS word", "NOT_NULL_ASSERT_VIOLATION"),
        ("SELECT date'2024-03-02' AS day, 'seven' AS id, 'x' AS word", "CANNOT_SAFELY_CAST"),
        ("SELECT date'2024-03-02' AS day, 99999999999L AS id, 'x' AS word", "CAST_OVERFLOW"),
    ],
)
def test_values_that_the_declared_columns_cannot_hold_are_refused(
    lake: Lake, instance: dg.DagsterInstance, query: str, why: str
) -> None:
    session = lake.runtime.sessions.root()
    asset = mart("values", lambda: Computed(session.sql(query), COLUMNS))
    with pytest.raises(Exception, match=why):
        run(lake, instance, asset, "2024-03-02")
    assert snapshot(lake, "values") is None
    assert branches(lake, "values") == set()


def test_the_heart_beats_while_the_rows_are_computed(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The frame is a plan, and its rows are computed after the asset's own code has ended."""
    monkeypatch.setattr("lake_assets.orchestration.shared.heartbeat.BEAT_SECONDS", 0.1)
    ended = []

    def compute() -> DataFrame:
        ended.append(time.time())
        slow = "reflect('java.lang.Thread', 'sleep', 1500L)"
        return lake.runtime.sessions.root().sql(
            f"SELECT day, 1 AS id, CAST({slow} AS string) AS word FROM VALUES (date'2024-03-02') AS t(day)"
        )

    # A run of an instance in memory has no heartbeat.
    with open_instance(tmp_path / "dagster") as instance:
        result = run(lake, instance, mart("slow", compute), "2024-03-02")
        beaten = instance.get_run_by_id(result.run_id)
    assert beaten is not None
    assert float(beaten.tags[HEARTBEAT]) > ended[0] + 1
