"""The Iceberg IO manager in real Dagster runs, with real tables.

Tables are read back through PyIceberg. Not here: which days a mart is computed for (`gold/test_incremental.py`).
"""

from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lake_assets.errors import ApplyConflict, PartitionMismatch, SparkLost
from lake_assets.gold.write import write_mart
from lake_assets.gold.write.write_mart import Computed
from lake_assets.orchestration.io_managers import iceberg_io_manager as io_manager
from lake_assets.orchestration.io_managers.run_partitions import PARTITION_COLUMN
from lake_assets.orchestration.lake_definitions import Lake
from lake_assets.spark.checkpoint import Observed
from lake_assets_tests.helpers.lakes.small_lakes import TINY, small_lake
from lake_assets_tests.helpers.orchestration.daily_marts import (
    ALL,
    COLUMNS,
    DAYS,
    OLD,
    Rows,
    branches,
    frame,
    mart,
    run,
    snapshot,
    stored,
)


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
        PartitionMismatch, match=f"1 row lies outside .* partitions {days[:10]} .* the first in {first}"
    ):
        run(lake, instance, asset, days)
    assert snapshot(lake, "outside") == before
    assert branches(lake, "outside") == set()


def test_a_busy_server_hides_no_row_outside_the_partitions(
    lake: Lake, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(observed: Observed) -> None:
        raise SparkLost("what Spark has seen has not arrived")

    monkeypatch.setattr(Observed, "get", property(lost))
    given: Rows = [(1, 1, "in")]
    asset = mart("busy", lambda: frame(lake, given))
    run(lake, instance, asset, "2024-03-01")
    before = snapshot(lake, "busy")
    given = [(4, 1, "out")]
    with pytest.raises(PartitionMismatch, match="the first in 2024-03-04"):
        run(lake, instance, asset, "2024-03-01")
    assert snapshot(lake, "busy") == before


def test_a_row_without_a_day_is_refused(lake: Lake, instance: dg.DagsterInstance) -> None:
    session = lake.runtime.sessions.root()
    asset = mart("no_day", lambda: session.sql("SELECT CAST(NULL AS date) AS day, 1 AS id, 'x' AS word"))
    with pytest.raises(PartitionMismatch, match="the first in NULL"):
        run(lake, instance, asset, "2024-03-02")
    assert not lake.runtime.catalog.table_exists("gold.no_day")


def test_an_unpartitioned_asset_is_replaced_whole(lake: Lake, instance: dg.DagsterInstance) -> None:
    rows: Rows = OLD
    asset = mart("whole", lambda: frame(lake, rows), partitions_def=None, metadata={})
    for given in (OLD, [(9, 9, "new")], []):
        rows = given
        run(lake, instance, asset)
        assert stored(lake, "whole") == given
    table = lake.runtime.catalog.load_table("gold.whole")
    assert table.spec().is_unpartitioned()


def test_the_difference_is_of_the_whole_table(lake: Lake, instance: dg.DagsterInstance) -> None:
    metadata = {PARTITION_COLUMN: "day", io_manager.WRITE_MODE: "difference", io_manager.KEY: ["id"]}
    asset = mart("difference", lambda: frame(lake, OLD), metadata=metadata)
    with pytest.raises(dg.DagsterInvariantViolationError, match="partitions, which difference does not take"):
        run(lake, instance, asset, ALL)


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


@pytest.mark.parametrize("first", ["published", pytest.param("missing", marks=pytest.mark.long)])
def test_a_write_that_always_loses_gives_up_and_changes_nothing(
    lake: Lake, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    monkeypatch.setattr(io_manager, "MOST_REPEATS", 1)
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


LOST = (
    "StatusCode.UNAVAILABLE: failed to connect to all addresses",
    "StatusCode.UNAUTHENTICATED: Invalid token",
)
"""Of calls to a server that was killed, and to the one that has replaced it."""


@pytest.mark.parametrize("error", LOST)
def test_a_step_whose_server_was_killed_is_repeated(
    lake: Lake, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch, error: str
) -> None:
    """Dagster shows one sentence, and no trace of Spark's."""
    monkeypatch.setattr(io_manager, "RESTART_SECONDS", 0)
    failures, write = [RuntimeError(error)], write_mart.write

    def dying(*arguments: Any) -> dict[str, Any]:
        if failures:
            raise failures.pop()
        return write(*arguments)

    monkeypatch.setattr(io_manager, "write", dying)
    asset = mart("killed", lambda: Computed(frame(lake, OLD[1:2]), COLUMNS))
    result = run(lake, instance, asset, "2024-03-02")
    assert stored(lake, "killed") == OLD[1:2]
    (repeated,) = [event for event in result.all_events if event.is_step_up_for_retry]
    told = str(repeated.event_specific_data)
    assert "was lost during the step of gold/killed (StatusCode.UNA" in told
    assert "Traceback" not in told


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


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [(-1, -1, OLD[1:3]), (-2, 0, OLD[:4])],
    ids=["the day before", "days to look back"],
)
def test_input_of_other_days_than_the_run_s(
    lake: Lake,
    instance: dg.DagsterInstance,
    upstream: dg.AssetsDefinition,
    first: int,
    last: int,
    expected: Rows,
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
                partition_mapping=dg.TimeWindowPartitionMapping(start_offset=first, end_offset=last),
            )
        },
    )
    def day_before(up: DataFrame) -> None:
        seen.append(sorted((row["day"].day, row["id"], row["word"]) for row in up.collect()))

    run(lake, instance, [upstream, day_before], "2024-03-03..2024-03-04", selection=[day_before])
    assert seen == [expected]


@pytest.mark.parametrize("kind", [DataFrame, pa.Table])
def test_input_of_days_before_the_first(
    lake: Lake, instance: dg.DagsterInstance, upstream: dg.AssetsDefinition, kind: Any
) -> None:
    seen: list[Any] = []

    def first_day(up: Any) -> None:
        seen.append(up.count() if kind is DataFrame else len(up))

    first_day.__annotations__["up"] = kind
    before = dg.TimeWindowPartitionMapping(
        start_offset=-1, end_offset=-1, allow_nonexistent_upstream_partitions=True
    )
    given = dg.AssetIn(key=["gold", "upstream"], partition_mapping=before, input_manager_key="io")
    reader = dg.asset(ins={"up": given}, partitions_def=DAYS)(first_day)
    run(lake, instance, [upstream, reader], "2024-03-01", selection=[reader])
    assert seen == [0]


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


def test_a_marts_error_has_no_secret(
    spark: SparkSession, tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    """As a driver that repeats the address it cannot reach."""
    lake = small_lake(tmp_path, spark={"conf": {**TINY, "spark.lake.password": "hush-hush"}})
    said = "cannot reach jdbc:postgresql://owner:hush-hush@db/lake"
    failing = mart(
        "failing", lambda: frame(lake, OLD).withColumn("word", F.raise_error(F.lit(said)).cast("string"))
    )
    result = run(lake, instance, failing, ALL, raises=False)
    assert not result.success
    events = [str(event) for event in instance.all_logs(result.run_id)]
    assert any("cannot reach jdbc:postgresql://owner:***@db/lake" in event for event in events)
    assert not any("hush-hush" in event for event in events)
