"""The Iceberg IO manager in real Dagster runs, with real tables.

Tables are read back through PyIceberg. Not here: which days a mart is computed for (`gold/test_incremental.py`).
"""

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import DataFrame, SparkSession

from lake_assets.automation.heartbeat import HEARTBEAT
from lake_assets.build import Lake
from lake_assets.config import Column, parse_column
from lake_assets.errors import ApplyConflict, ColumnMismatch, PartitionMismatch
from lake_assets.iceberg import io_manager
from lake_assets.iceberg.io_manager import PARTITION_COLUMN, IcebergIOManager
from lake_assets.iceberg.overwrite import Computed
from lake_assets_tests.lakes import small_lake

DAYS = dg.DailyPartitionsDefinition("2024-03-01", timezone="UTC", end_offset=1)
COLUMNS = (
    parse_column("day", "date not null"),
    parse_column("id", "int not null"),
    parse_column("word", "string"),
)
ALL = "2024-03-01..2024-03-05"
OLD: list[tuple[int, int, str | None]] = [(day, 1, "old") for day in range(1, 6)]

Rows = Sequence[tuple[int, int, str | None]]
"""Day of March 2024, id, word."""


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    timing = {"heartbeat_interval": "0.1s", "heartbeat_timeout": "60s"}
    return small_lake(tmp_path_factory.mktemp("io_manager"), automation=timing)


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral


def frame(lake: Lake, rows: Rows) -> DataFrame:
    schema = "day date, id int, word string"
    values = [(date(2024, 3, day), number, word) for day, number, word in rows]
    return lake.runtime.sessions.root().createDataFrame(values, schema)


def mart(name: str, result: Callable[[], Any], **arguments: Any) -> dg.AssetsDefinition:
    """A partitioned asset of the IO manager that returns `result()`."""

    @dg.asset(
        key=["gold", name],
        io_manager_key="io",
        **{"partitions_def": DAYS, "metadata": {PARTITION_COLUMN: "day"}, **arguments},
    )
    def compute() -> Any:
        return result()

    return compute


def run(
    lake: Lake,
    instance: dg.DagsterInstance,
    assets: Any,
    days: str | None = None,
    *,
    raises: bool = True,
    **arguments: Any,
) -> dg.ExecuteInProcessResult:
    """Materializes; `days` is one day, or a range such as 2024-03-01..2024-03-03 in one run."""
    first, _, last = (days or "").partition("..")
    tags = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
    return dg.materialize(
        assets if isinstance(assets, list) else [assets],
        instance=instance,
        resources={"io": IcebergIOManager(lake.runtime)},
        partition_key=first if days and not last else None,
        tags=tags if last else None,
        raise_on_error=raises,
        **arguments,
    )


def stored(lake: Lake, name: str) -> Rows:
    """The table's rows."""
    rows = lake.runtime.catalog.load_table(f"gold.{name}").scan().to_arrow().to_pylist()
    return sorted((row["day"].day, row["id"], row["word"]) for row in rows)


def snapshot(lake: Lake, name: str) -> int | None:
    current = lake.runtime.catalog.load_table(f"gold.{name}").current_snapshot()
    return current.snapshot_id if current else None


def branches(lake: Lake, name: str) -> set[str]:
    return set(lake.runtime.catalog.load_table(f"gold.{name}").refs()) - {"main"}


def test_a_run_overwrites_exactly_its_partitions(lake: Lake, instance: dg.DagsterInstance) -> None:
    rows: Rows = OLD
    asset = mart("exact", lambda: frame(lake, rows))
    run(lake, instance, asset, ALL)
    assert stored(lake, "exact") == OLD

    rows = [(2, 1, "new"), (2, 2, None)]
    run(lake, instance, asset, "2024-03-02")
    assert stored(lake, "exact") == [(1, 1, "old"), (2, 1, "new"), (2, 2, None), *OLD[2:]]

    rows = [(4, 7, "range")]
    result = run(lake, instance, asset, "2024-03-03..2024-03-04")
    assert stored(lake, "exact") == [(1, 1, "old"), (2, 1, "new"), (2, 2, None), (4, 7, "range"), OLD[4]]
    assert [e.partition for e in result.get_asset_materialization_events()] == ["2024-03-03", "2024-03-04"]
    assert len(lake.runtime.catalog.load_table("gold.exact").history()) == 3, (
        "one commit of main for each run"
    )
    assert branches(lake, "exact") == set()


def test_zero_rows_clear_the_partition(lake: Lake, instance: dg.DagsterInstance) -> None:
    rows: Rows = OLD
    properties: dict[str, str] = {}
    asset = mart("zero", lambda: Computed(frame(lake, rows), COLUMNS, properties))
    run(lake, instance, asset, ALL)
    rows = []
    run(lake, instance, asset, "2024-03-02")
    assert stored(lake, "zero") == [OLD[0], *OLD[2:]]
    # A day that had no rows either still has its commit, which bears what the mart has consumed.
    properties = {"lake.mart.now": "later"}
    run(lake, instance, asset, "2024-03-02")
    current = lake.runtime.catalog.load_table("gold.zero").current_snapshot()
    assert current is not None
    assert current.summary is not None
    assert current.summary.additional_properties["lake.mart.now"] == "later"
    assert stored(lake, "zero") == [OLD[0], *OLD[2:]]


def test_the_first_run_may_have_no_rows(lake: Lake, instance: dg.DagsterInstance) -> None:
    result = run(lake, instance, mart("nothing", lambda: Computed(frame(lake, []), COLUMNS)), ALL)
    assert stored(lake, "nothing") == []
    assert snapshot(lake, "nothing") is not None
    (event, *_) = result.get_asset_materialization_events()
    assert event.materialization.metadata["dagster/row_count"].value == 0


@pytest.mark.parametrize(
    ("days", "rows", "first"),
    [
        ("2024-03-02", [(2, 1, "in"), (3, 1, "out")], "2024-03-03"),
        ("2024-03-02..2024-03-03", [(1, 1, "out"), (2, 1, "in")], "2024-03-01"),
    ],
)
def test_rows_outside_the_partitions_are_refused(
    lake: Lake, instance: dg.DagsterInstance, days: str, rows: Rows, first: str
) -> None:
    given: Rows = OLD
    asset = mart("outside", lambda: frame(lake, given))
    run(lake, instance, asset, ALL)
    before = snapshot(lake, "outside")
    given = rows
    with pytest.raises(
        PartitionMismatch, match=f"1 rows lie outside .* partitions {days[:10]} .* the first in {first}"
    ):
        run(lake, instance, asset, days)
    assert snapshot(lake, "outside") == before
    assert branches(lake, "outside") == set()


def test_a_row_without_a_day_is_refused(lake: Lake, instance: dg.DagsterInstance) -> None:
    session = lake.runtime.sessions.root()
    asset = mart("no_day", lambda: session.sql("SELECT CAST(NULL AS date) AS day, 1 AS id, 'x' AS word"))
    with pytest.raises(PartitionMismatch, match="the first in NULL"):
        run(lake, instance, asset, "2024-03-02")
    assert snapshot(lake, "no_day") is None


def test_an_unpartitioned_asset_is_replaced_whole(lake: Lake, instance: dg.DagsterInstance) -> None:
    rows: Rows = OLD
    asset = mart("whole", lambda: frame(lake, rows), partitions_def=None, metadata={})
    for given in (OLD, [(9, 9, "new")], []):
        rows = given
        run(lake, instance, asset)
        assert stored(lake, "whole") == given
    table = lake.runtime.catalog.load_table("gold.whole")
    assert table.spec().is_unpartitioned()


def test_a_write_planned_from_an_older_table_computes_again(lake: Lake, instance: dg.DagsterInstance) -> None:
    run(lake, instance, mart("race", lambda: Computed(frame(lake, OLD), COLUMNS)), ALL)
    planned = []

    def compute() -> Computed:
        seen = snapshot(lake, "race")
        planned.append(seen)
        if len(planned) == 1:
            # Another run publishes between this one's plan and its write.
            other = mart("race", lambda: Computed(frame(lake, [(3, 3, "other")]), COLUMNS))
            run(lake, dg.DagsterInstance.ephemeral(), other, "2024-03-03")
        return Computed(frame(lake, [(2, 2, "mine")]), COLUMNS, planned_from=seen)

    result = run(lake, instance, mart("race", compute), "2024-03-02")
    assert result.success
    assert len(planned) == 2
    assert planned[0] != planned[1]
    assert stored(lake, "race") == [OLD[0], (2, 2, "mine"), (3, 3, "other"), *OLD[3:]]


@pytest.mark.parametrize("first", ["missing", "published"])
def test_a_write_that_always_loses_gives_up_and_changes_nothing(
    lake: Lake, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    monkeypatch.setattr(io_manager, "MOST_RACES", 1)
    name = f"lost_{first}"
    initial = mart(name, lambda: Computed(frame(lake, OLD[1:2]), COLUMNS))
    run(lake, instance, initial, "2024-03-02")
    planned = None
    if first == "published":
        # Planned from a snapshot that another run has followed up.
        planned = snapshot(lake, name)
        run(lake, instance, initial, "2024-03-02")
    before = snapshot(lake, name)
    late = mart(name, lambda: Computed(frame(lake, [(2, 2, "late")]), COLUMNS, planned_from=planned))
    result = run(lake, instance, late, "2024-03-02", raises=False)
    assert not result.success
    retried = [event for event in result.all_events if event.is_step_up_for_retry]
    assert len(retried) == 1
    assert ApplyConflict.__name__ in str(retried[0].event_specific_data)
    assert snapshot(lake, name) == before
    assert branches(lake, name) == set()


def test_another_failure_is_not_tried_again(lake: Lake, instance: dg.DagsterInstance) -> None:
    asset = mart("fails", lambda: frame(lake, [(3, 1, "outside")]))
    result = run(lake, instance, asset, "2024-03-02", raises=False)
    assert not result.success
    assert [event for event in result.all_events if event.is_step_up_for_retry] == []


@pytest.fixture(scope="module")
def upstream(lake: Lake) -> dg.AssetsDefinition:
    """Five days of one row each, in its table already."""
    asset = mart("upstream", lambda: frame(lake, OLD))
    run(lake, dg.DagsterInstance.ephemeral(), asset, ALL)
    return asset


def downstream(name: str, seen: list[Rows], **arguments: Any) -> dg.AssetsDefinition:
    @dg.asset(
        key=["gold", name], io_manager_key="io", ins={"up": dg.AssetIn(key=["gold", "upstream"])}, **arguments
    )
    def compute(up: DataFrame) -> DataFrame:
        seen.append(sorted((row["day"].day, row["id"], row["word"]) for row in up.collect()))
        return up

    return compute


def test_input_of_the_run_s_partitions(
    lake: Lake, instance: dg.DagsterInstance, upstream: dg.AssetsDefinition
) -> None:
    seen: list[Rows] = []
    asset = downstream("copy", seen, partitions_def=DAYS, metadata={PARTITION_COLUMN: "day"})
    run(lake, instance, [upstream, asset], "2024-03-02", selection=[asset])
    run(lake, instance, [upstream, asset], "2024-03-03..2024-03-05", selection=[asset])
    # Both in one run, the second reads what the first has just written.
    run(lake, instance, [upstream, asset], ALL)
    assert seen == [OLD[1:2], OLD[2:], OLD]
    assert stored(lake, "copy") == OLD


def test_input_of_another_day_than_the_run_s(
    lake: Lake, instance: dg.DagsterInstance, upstream: dg.AssetsDefinition
) -> None:
    seen: list[Rows] = []

    @dg.asset(
        key=["gold", "day_before"],
        io_manager_key="io",
        partitions_def=DAYS,
        metadata={PARTITION_COLUMN: "day"},
        ins={
            "up": dg.AssetIn(
                key=["gold", "upstream"],
                partition_mapping=dg.TimeWindowPartitionMapping(start_offset=-1, end_offset=-1),
            )
        },
    )
    def day_before(up: DataFrame) -> None:
        seen.append(sorted((row["day"].day, row["id"], row["word"]) for row in up.collect()))

    run(lake, instance, [upstream, day_before], "2024-03-03..2024-03-04", selection=[day_before])
    assert seen == [OLD[1:3]]


def test_input_of_a_whole_table(
    lake: Lake, instance: dg.DagsterInstance, upstream: dg.AssetsDefinition
) -> None:
    seen: list[Rows] = []
    asset = downstream("total", seen)
    run(lake, instance, [upstream, asset], selection=[asset])
    assert seen == [OLD]

    @dg.asset(ins={"total": dg.AssetIn(key=["gold", "total"], input_manager_key="io")}, io_manager_key="io")
    def counted(total: DataFrame) -> None:
        seen.append(sorted((row["day"].day, row["id"], row["word"]) for row in total.collect()))

    run(lake, instance, [upstream, asset, counted], selection=[counted])
    assert seen[1:] == [OLD]


def test_metadata_counts_rows(lake: Lake, instance: dg.DagsterInstance) -> None:
    rows: Rows = OLD
    asset = mart("counted", lambda: frame(lake, rows))
    run(lake, instance, asset, ALL)
    rows = [(2, 1, "a"), (2, 2, "b"), (3, 1, "c")]
    result = run(lake, instance, asset, "2024-03-02..2024-03-03")
    for event in result.get_asset_materialization_events():
        metadata: dict[str, Any] = {
            name: value.value for name, value in event.materialization.metadata.items()
        }
        assert metadata["dagster/row_count"] == 6
        assert metadata["rows_written"] == 3
        assert metadata["days"] == "2024-03-02 to 2024-03-03"
        assert metadata["snapshot_id"] == str(snapshot(lake, "counted"))
        assert metadata["seconds_compute"] > 0
        assert metadata["seconds_write"] > 0


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
        ColumnMismatch, match=r"table gold\.evolved lacks other, .* declares and has word, which"
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


def test_what_it_cannot_store(lake: Lake, instance: dg.DagsterInstance) -> None:
    with pytest.raises(Exception, match="stores Spark DataFrames, not list"):
        run(lake, instance, mart("list", lambda: [1, 2]), "2024-03-02")
    with pytest.raises(Exception, match="name its date column in metadata"):
        run(lake, instance, mart("nameless", lambda: frame(lake, OLD), metadata={}), ALL)


def test_the_heart_beats_while_the_rows_are_computed(lake: Lake, instance: dg.DagsterInstance) -> None:
    """The frame is a plan, and its rows are computed after the asset's own code has ended."""
    ended = []

    def compute() -> DataFrame:
        ended.append(time.time())
        slow = "reflect('java.lang.Thread', 'sleep', 1500L)"
        return lake.runtime.sessions.root().sql(
            f"SELECT day, 1 AS id, CAST({slow} AS string) AS word FROM VALUES (date'2024-03-02') AS t(day)"
        )

    result = run(lake, instance, mart("slow", compute), "2024-03-02")
    beaten = instance.get_run_by_id(result.run_id)
    assert beaten is not None
    assert float(beaten.tags[HEARTBEAT]) > ended[0] + 1
