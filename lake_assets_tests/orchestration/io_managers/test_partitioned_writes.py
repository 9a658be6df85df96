"""Days of an asset that are written again: by every kind of Iceberg's partitions, by appending, and by key.

Real runs and tables, read back through PyIceberg. Not here: other partitions of Dagster (`test_run_partitions.py`).
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from py4j.protocol import Py4JError

from lake_assets.errors import PartitionMismatch
from lake_assets.iceberg.publish import Attempt
from lake_assets.orchestration.io_managers.iceberg_io_manager import KEY, WRITE_MODE, TableIOManager
from lake_assets.orchestration.io_managers.run_partitions import PARTITION_BY, PARTITION_COLUMN
from lake_assets.orchestration.lake_definitions import Lake
from lake_assets_tests.helpers.orchestration.daily_marts import mart, run

pytestmark = pytest.mark.spark
SPECS = {
    # Iceberg's partitions of a new table, and the columns and transforms that the table then has.
    "day and value": (["day(at)", "word"], [("at", "day"), ("word", "identity")]),
    "hour": (["hour(at)"], [("at", "hour")]),
    "month": (["month(at)"], [("at", "month")]),
    "bucket": (["bucket(4, id)"], [("id", "bucket[4]")]),
    "truncated": (["truncate(1, word)"], [("word", "truncate[1]")]),
    "several": (
        ["month(at)", "bucket(2, id)", "truncate(2, word)"],
        [("at", "month"), ("id", "bucket[2]"), ("word", "truncate[2]")],
    ),
    "none": ([], []),
}
Rows = Sequence[tuple[int, int, str]]
"""Id, day of March 2024, word."""
OLD: Rows = [(number, 1 + number % 4, f"old {number}") for number in range(1, 13)]


class Daily:
    """An asset of days whose next result is `rows`."""

    def __init__(self, lake: Lake, name: str, **metadata: Any) -> None:
        self.lake, self.name, self.rows = lake, name, OLD
        self.instance = dg.DagsterInstance.ephemeral()
        self.asset = mart(name, self.result, metadata={PARTITION_COLUMN: "at", **metadata})

    def result(self) -> pa.Table:
        columns = {
            "id": pa.array([number for number, _, _ in self.rows], pa.int64()),
            "at": pa.array(
                [datetime(2024, 3, day, 23, 59, tzinfo=UTC) for _, day, _ in self.rows],
                pa.timestamp("us", "UTC"),
            ),
            "word": pa.array([word for _, _, word in self.rows], pa.string()),
        }
        return pa.table(columns)

    def run(self, days: str, rows: Rows, **arguments: Any) -> dg.ExecuteInProcessResult:
        self.rows = rows
        return run(self.lake, self.instance, self.asset, days, **arguments)

    def stored(self) -> Rows:
        found = self.lake.runtime.catalog.load_table(f"gold.{self.name}").scan().to_arrow().to_pylist()
        return sorted((row["id"], row["at"].day, row["word"]) for row in found)


PARTS = ("month", "bucket", "truncated")
"""Those that `several` has as well, alone."""


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.long) if kind in PARTS else kind for kind in SPECS]
)
def test_a_run_replaces_its_days_however_the_table_is_partitioned(lake: Lake, kind: str) -> None:
    """The first run has all days, so that files and Iceberg's partitions have rows of several."""
    given, expected = SPECS[kind]
    asset = Daily(lake, f"by_{kind.replace(' ', '_')}", **{PARTITION_BY: given})
    asset.run("2024-03-01..2024-03-04", OLD)
    table = lake.runtime.catalog.load_table(f"gold.{asset.name}")
    fields = table.spec().fields
    assert [(table.schema().find_column_name(f.source_id), str(f.transform)) for f in fields] == expected

    new: Rows = [(2, 2, "new 2"), (20, 2, "old 20")]
    asset.run("2024-03-02", new)
    kept = [row for row in OLD if row[1] != 2]
    assert asset.stored() == sorted([*kept, *new])
    asset.run("2024-03-02..2024-03-03", [])
    assert asset.stored() == [row for row in OLD if row[1] in (1, 4)]
    assert set(table.refresh().refs()) == {"main"}


def test_a_day_that_is_appended_again(lake: Lake) -> None:
    asset = Daily(lake, "appended_days", **{WRITE_MODE: "append"})
    first, second = [(1, 1, "a"), (2, 1, "b")], [(3, 2, "c")]
    asset.run("2024-03-01", first)
    asset.run("2024-03-02", second)
    assert asset.stored() == [*first, *second]
    asset.run("2024-03-02", second)
    assert asset.stored() == [*first, *second, *second]
    with pytest.raises(PartitionMismatch, match="1 row lies outside the run's partitions 2024-03-02"):
        asset.run("2024-03-02", [*first[:1], *second])
    assert asset.stored() == [*first, *second, *second]


def test_a_day_that_is_upserted_again(lake: Lake) -> None:
    """A key that has moved to another day is in that day alone."""
    asset = Daily(lake, "upserted_days", **{WRITE_MODE: "upsert", KEY: "id"})
    asset.run("2024-03-01..2024-03-03", [(1, 1, "a"), (2, 1, "b"), (3, 3, "c")])
    asset.run("2024-03-02", [(1, 2, "moved"), (4, 2, "new")])
    assert asset.stored() == [(1, 2, "moved"), (2, 1, "b"), (3, 3, "c"), (4, 2, "new")]
    asset.run("2024-03-02", [(4, 2, "again")])
    assert asset.stored() == [(1, 2, "moved"), (2, 1, "b"), (3, 3, "c"), (4, 2, "again")]
    asset.run("2024-03-01", [])
    asset.run("2024-03-01", [(1, 1, "back")])
    assert asset.stored() == [(1, 1, "back"), (2, 1, "b"), (3, 3, "c"), (4, 2, "again")]
    with pytest.raises(PartitionMismatch, match="the first in 2024-03-03"):
        asset.run("2024-03-01", [(3, 3, "outside")])
    assert asset.stored()[2] == (3, 3, "c")


MODES: dict[str, dict[str, Any]] = {
    "append": {WRITE_MODE: "append"},
    "upsert": {WRITE_MODE: "upsert", KEY: "id"},
    "whole files": {},
    **{f"deleted by {kind}": {PARTITION_BY: SPECS[kind][0]} for kind in ("month", "bucket", "none")},
}


EACH_MODE = [
    pytest.param(mode, marks=pytest.mark.long) if mode in ("deleted by month", "deleted by none") else mode
    for mode in MODES
]


def after_second_day(mode: str, old: Rows, new: Rows) -> Rows:
    """The rows after a run of 2024-03-02 with the rows `new`, which have the id 2."""
    kept = {"append": old, "upsert": [row for row in old if row[0] != 2]}
    return sorted([*kept.get(mode, [row for row in old if row[1] != 2]), *new])


@pytest.mark.parametrize(
    "mode",
    [
        mode if mode in ("upsert", "whole files") else pytest.param(mode, marks=pytest.mark.long)
        for mode in MODES
    ],
)
def test_a_write_that_fails_shows_nothing_and_is_repeated(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """It fails after its rows are in files of its branch, and before it is published."""
    asset, new = (
        Daily(lake, f"fails_{mode.replace(' ', '_')}", **MODES[mode]),
        [(2, 2, "new"), (20, 2, "more")],
    )
    asset.run("2024-03-01..2024-03-04", OLD)
    table = lake.runtime.catalog.load_table(f"gold.{asset.name}")
    snapshot = table.metadata.current_snapshot_id

    def fail(*given: Any) -> None:
        assert_old(during=True)
        raise RuntimeError("the power is off")

    def assert_old(*, during: bool = False) -> None:
        seen = TableIOManager(lake.runtime).read(f"gold.{asset.name}", None).select("id", "word").collect()
        assert sorted(map(tuple, seen)) == sorted((number, word) for number, _, word in OLD)
        assert asset.stored() == OLD
        assert table.refresh().metadata.current_snapshot_id == snapshot
        assert len(table.refs()) == 1 + during

    make_writer = Attempt.writer

    def failing_writer(*given: Any, **chosen: Any) -> Any:
        writer: Any = make_writer(*given, **chosen)
        return SimpleNamespace(
            append=lambda: fail(writer.append()),
            overwrite=lambda condition: fail(writer.overwrite(condition)),
        )

    for name, failing in (
        ("writer", failing_writer),
        ("publish", fail),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(Attempt, name, failing)
            with pytest.raises(RuntimeError, match="the power is off"):
                asset.run("2024-03-02", new)
        assert_old()
    asset.run("2024-03-02", new)
    assert asset.stored() == after_second_day(mode, OLD, new)
    assert set(table.refresh().refs()) == {"main"}


@pytest.mark.parametrize(
    "moves", [pytest.param(False, id="alone"), pytest.param(True, id="outrun", marks=pytest.mark.long)]
)
@pytest.mark.parametrize("mode", EACH_MODE)
def test_a_branch_that_is_dropped_during_a_write_doubles_nothing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, mode: str, *, moves: bool
) -> None:
    """Maintenance takes it for a dead attempt's. Iceberg creates it again at main, without what was deleted on it."""
    name = f"bereft_{mode.replace(' ', '_')}_{moves}"
    asset, new = Daily(lake, name, **MODES[mode]), [(2, 2, "new"), (20, 2, "more")]
    asset.run("2024-03-01..2024-03-04", OLD)
    table = lake.runtime.catalog.load_table(f"gold.{name}")
    make_writer = Attempt.writer
    bereft: list[str] = []

    def bereft_writer(current: Attempt, *given: Any, **chosen: Any) -> Any:
        if not bereft:
            bereft.append(current.branch)
            current.drop()
            if moves:
                lake.runtime.sessions.root().sql(f"DELETE FROM {current.table} WHERE day(at) = 4")
            current.start(table.refresh().metadata.current_snapshot_id)
        return make_writer(current, *given, **chosen)

    monkeypatch.setattr(Attempt, "writer", bereft_writer)
    asset.run("2024-03-02", new)
    kept = [row for row in OLD if row[1] != 4] if moves else OLD
    assert asset.stored() == after_second_day(mode, kept, new)
    assert set(table.refresh().refs()) == {"main"}


def test_a_write_that_lost_to_commits_of_other_branches_is_repeated(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Iceberg gives up after some retries."""
    asset = Daily(lake, "outrun_by_branches")
    asset.run("2024-03-01..2024-03-04", OLD)
    make_writer, lost = Attempt.writer, list[str]()

    def loses() -> None:
        lost.append("race")
        raise Py4JError("CommitFailedException: Cannot commit: metadata location has changed")

    def losing_writer(*given: Any, **chosen: Any) -> Any:
        return make_writer(*given, **chosen) if lost else SimpleNamespace(overwrite=lambda condition: loses())

    monkeypatch.setattr(Attempt, "writer", losing_writer)
    new: Rows = [(2, 2, "new")]
    asset.run("2024-03-02", new)
    assert lost == ["race"]
    assert asset.stored() == after_second_day("overwrite", OLD, new)


@pytest.mark.parametrize("by", ["id", "bucket(4, id)"])
def test_rows_are_counted_by_the_partitions_of_dagster_alone(lake: Lake, by: str) -> None:
    """The names of buckets are those of partitions, too."""
    numbers = dg.StaticPartitionsDefinition([str(number) for number in range(8)])
    asset = Daily(lake, f"counted_by_{by[:2]}")
    metadata = {PARTITION_COLUMN: "id", PARTITION_BY: [by]}
    asset.asset = mart(asset.name, asset.result, partitions_def=numbers, metadata=metadata)
    result = asset.run("0..7", [(number, 1, "x") for number in range(8)])
    events = [event.materialization.metadata for event in result.get_asset_materialization_events()]
    counted = {event.get("dagster/partition_row_count") for event in events}
    assert counted == {dg.IntMetadataValue(1) if by == "id" else None}
