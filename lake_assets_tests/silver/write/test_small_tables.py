"""Tables that are rewritten whole because they are small: the same rows, checks and figures as by marking rows.

Here: which tables, and what could go wrong by rewriting. Not here: histories, which run in both ways
(`test_random_histories.py`, `soak/`).
"""

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from lake_assets.errors import RowCountMismatch
from lake_assets.iceberg.publish import Attempt
from lake_assets.silver.apply import apply_batch as apply
from lake_assets.silver.reduce import edit_keys
from lake_assets.silver.table.position import LOG_OFFSET, TOUCHED_DAYS
from lake_assets.silver.table.targets import Target, Tracked
from lake_assets.silver.write import final_commit, write_edit
from lake_assets_tests.helpers.files.dms_files import Clock, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.small_table import ITEMS, NAME, NEVER, SmallTable
from lake_assets_tests.helpers.reconcile.restored import restorer

pytestmark = [pytest.mark.spark, pytest.mark.slow]
LONG = pytest.mark.long


def loaded(folder: Path, **sections: Any) -> SmallTable:
    items = SmallTable(folder, **sections)
    items.load(1, 2, 3)
    return items


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], SmallTable]:
    return restorer(loaded(tmp_path_factory.mktemp("items")))


@pytest.fixture(scope="module")
def made_to_mark(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], SmallTable]:
    return restorer(loaded(tmp_path_factory.mktemp("marked"), **NEVER))


@pytest.fixture
def items(made: Callable[[], SmallTable]) -> SmallTable:
    """Three rows."""
    return made()


@pytest.fixture
def marked(made_to_mark: Callable[[], SmallTable]) -> SmallTable:
    """Three rows of a table that is never rewritten."""
    return made_to_mark()


@pytest.mark.parametrize("sections", [{}, NEVER], ids=["rewritten", "marked"])
def test_both_ways_say_the_same(spark: SparkSession, tmp_path: Path, sections: dict[str, Any]) -> None:
    items = SmallTable(tmp_path, **sections)
    items.load(1, 2, 3, 4)
    batch = items.apply(("I", 5), ("U", 2), ("D", 3), ("U", 9))
    assert batch.strategy == ("delete_and_append" if sections else "rewrite")
    assert (batch.rows_written, batch.rows_removed, batch.rows_before, batch.rows) == (3, 2, 4, 5)
    assert (batch.keys, batch.unseen_updates) == (4, 1)
    # The old images' day, and the new ones'.
    assert items.bench.summary()[f"{TOUCHED_DAYS}at"] == "2026-03-01,2026-03-02"
    batch = items.apply(("D", 1), ("D", 2), ("D", 4), ("D", 5), ("D", 9))
    assert (batch.rows, batch.rows_removed, batch.unseen_updates) == (0, 5, 0)
    assert items.bench.summary()[LOG_OFFSET] == str(batch.position.log_offset)
    batch = items.apply(("I", 7))
    # Nothing to rewrite; the marked rows' files still have bounds.
    assert (batch.strategy, batch.rows) == ("delete_and_append" if sections else "append", 1)
    assert items.apply(("D", 8)).rows == 1


def test_one_file_however_many_batches(spark: SparkSession, tmp_path: Path) -> None:
    items = SmallTable(tmp_path)
    items.load(*range(20))
    for number in range(3):
        assert items.apply(("U", number), ("I", 100 + number)).strategy == "rewrite"
    assert items.bench.summary()["total-data-files"] == "1"
    assert items.bench.summary()["total-position-deletes"] == "0"


def noted_writers(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each write, whether one task was asked for."""
    asked: list[bool] = []
    writer = Attempt.writer

    def noting(*given: Any, one_task: bool = False) -> Any:
        asked.append(one_task)
        return writer(*given, one_task=one_task)

    monkeypatch.setattr(Attempt, "writer", noting)
    return asked


def test_one_task_writes_few_versions(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    items, asked = SmallTable(tmp_path, ITEMS | {"mode": "history"}), noted_writers(monkeypatch)
    items.load(1, 2)
    changes = [items.clock.change("U", items.row(number, "new")) for number in (1, 2)]
    items.bench.put(cdc_file(NAME, items.clock.now, changes))
    (batch,) = items.bench.apply()["items"]
    assert (batch.rows_written, asked.pop()) == (4, True), "the former versions end, and new ones begin"


@pytest.mark.parametrize("sections", [{}, NEVER], ids=["rewritten", "marked"])
def test_one_task_writes_few_rows_of_few_changes(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sections: dict[str, Any]
) -> None:
    """It may read the changes while it writes."""
    items, asked = SmallTable(tmp_path, **sections), noted_writers(monkeypatch)
    items.load(1, 2)
    items.apply(("U", 1), ("U", 2))
    assert asked.pop() is True
    monkeypatch.setattr(final_commit, "SMALL_ROWS", 3)
    items.apply(("U", 1), ("U", 2), ("U", 1), ("U", 2))
    assert asked.pop() is False
    monkeypatch.setattr(final_commit, "FEW_WRITTEN", 1)
    items.apply(("U", 1), ("U", 2))
    assert asked.pop() is (not sections), "a rewrite is bounded by the table's rows"


KEYS: dict[str, list[Any]] = {
    "long": [2**63 - 1, -(2**63), 0, 7],
    "int": [2**31 - 1, -(2**31), 0, 7],
    "string": ["it's", 'a "b" \\', "%_", "Ünï\n"],
    "date": [date(2026, 3, 1), date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31)],
}


@pytest.mark.parametrize(
    ("kind", "most"),
    [
        *(pytest.param(kind, 1_000, id=f"{kind}-in the plan") for kind in ("long", "date")),
        pytest.param("string", 0, id="string-joined"),
        *(pytest.param(kind, 1_000, id=f"{kind}-in the plan", marks=LONG) for kind in ("int", "string")),
        *(pytest.param(kind, 0, id=f"{kind}-joined", marks=LONG) for kind in ("long", "int", "date")),
    ],
)
def test_keys_of_every_kind_are_replaced(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, most: int
) -> None:
    monkeypatch.setattr(edit_keys, "MOST_IN_PLAN", most)
    keys = KEYS[kind]
    columns = {"id": f"{kind} not null", "v": "string"}
    bench, clock = Bench(tmp_path, {NAME: {"columns": columns, "primary_key": ["id"]}}), Clock()
    bench.put(load_file(NAME, [{"id": key, "v": "old"} for key in keys]))
    bench.apply()
    changes = [("U", keys[0]), ("D", keys[1]), ("D", keys[2]), ("I", keys[2])]
    bench.put(cdc_file(NAME, clock.now, [clock.change(op, {"id": key, "v": "new"}) for op, key in changes]))
    (batch,) = bench.apply()["items"]
    assert (batch.strategy, batch.rows_removed, batch.rows) == ("rewrite", 3, 3)
    assert bench.rows() == bench.truth()


def test_few_keys_are_no_filter_of_the_scan(
    items: SmallTable, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A filter costs Iceberg requests to a bucket: it looks in each file for parts to skip, and there are none."""
    as_columns = write_edit.in_table_columns

    def explaining(frame: DataFrame, target: Target) -> DataFrame:
        frame.explain()
        return as_columns(frame, target)

    monkeypatch.setattr(write_edit, "in_table_columns", explaining)
    assert items.apply(("U", 1)).strategy == "rewrite"
    plan = capsys.readouterr().out
    assert plan.count("Filter NOT greatest(") == plan.count("BatchScan") == plan.count("filters=,") == 1


def test_which_tables_are_marked(
    items: SmallTable, marked: SmallTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_day = SmallTable(tmp_path / "days", ITEMS | {"partition_by": ["day(at)"]})
    by_day.load(1, 2)
    assert chosen(by_day) == ("rewrite", "the table has 2 rows"), "no mart follows its days"
    followed(by_day)
    assert chosen(by_day) == ("delete_and_append", "a mart follows its partitions")
    assert chosen(marked) == (
        "delete_and_append",
        "the table has 0.0 MB, and rewrite_below_mb is 0",
    )
    new = marked.apply(("I", 100))
    assert (new.strategy, new.reason) == ("append", "the table can have none of the batch's keys")
    assert chosen(items) == ("rewrite", "the table has 3 rows")
    assert items.bench.summary()["lake.batch.reason"] == "the table has 3 rows"
    assert items.apply(("I", 4)).strategy == "rewrite"
    monkeypatch.setattr(write_edit, "SMALL_ROWS", 2)
    assert chosen(items) == ("delete_and_append", "the table has 4 rows")


def test_partitions_are_rewritten_while_they_are_few(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that changes its partition leaves the former one, and a partition without rows has no file."""
    items = SmallTable(tmp_path, ITEMS | {"partition_by": ["v", "id"]})
    items.load(1, 2, 3)
    batch = items.apply(("U", 1), ("D", 2), ("I", 4))
    assert (batch.strategy, batch.rows, batch.rows_removed, batch.rows_written) == ("rewrite", 3, 2, 2)
    assert items.bench.summary()["total-data-files"] == "3"
    assert items.bench.summary()["total-position-deletes"] == "0"
    partitions = {
        tuple(file["partition"].values()) for file in items.bench.table().inspect.files().to_pylist()
    }
    assert partitions == {("new", 1), ("old", 3), ("new", 4)}
    monkeypatch.setattr(write_edit, "MOST_FILES", 2)
    assert chosen(items) == ("delete_and_append", "the table has partitions and 3 files")


def followed(table: SmallTable) -> None:
    """Has a mart follow the table's partitions."""
    table.bench.tracked["items"] = Tracked(by_partition=True)


def chosen(table: SmallTable) -> tuple[str, str]:
    """How a batch that updates a row is written, and why."""
    batch = table.apply(("U", 1))
    return batch.strategy, batch.reason


def test_a_rewrite_takes_what_was_marked_before(spark: SparkSession, tmp_path: Path) -> None:
    items = SmallTable(tmp_path, **NEVER)
    items.load(1, 2, 3, 4)
    items.apply(("U", 1), ("D", 2))
    assert items.bench.summary()["total-position-deletes"] != "0"
    config = items.bench.lake.config
    automation = config.automation.model_copy(update={"rewrite_below_mb": 4.0})
    items.bench.lake.runtime.lake = config.model_copy(update={"automation": automation})
    batch = items.apply(("U", 3))
    assert (batch.strategy, batch.rows, batch.rows_removed) == ("rewrite", 3, 1)
    assert items.bench.summary()["total-position-deletes"] == "0"


def test_a_rewrite_that_loses_a_row_is_not_published(
    items: SmallTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = items.bench.rows()
    whole = write_edit.in_table_columns

    def loses(rows: DataFrame, target: Target) -> DataFrame:
        return whole(rows, target).filter("id <> 2")

    monkeypatch.setattr(write_edit, "in_table_columns", loses)
    items.bench.put(cdc_file(NAME, items.clock.now, [items.clock.change("U", items.row(1, "new"))]))
    error = items.bench.turn()["items"].error
    assert isinstance(error, RowCountMismatch)
    assert items.bench.rows() == before


@pytest.mark.parametrize(
    "when",
    [
        "before the append",
        "begun anew",
        *(pytest.param(when, marks=LONG) for when in ("before the delete", "after it")),
    ],
)
def test_a_branch_that_is_dropped_amid_an_attempt_doubles_nothing(
    marked: SmallTable, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Somebody takes it for a dead attempt's. Iceberg begins it anew at main, without what was deleted on it."""
    module, name = {
        "before the delete": (write_edit, "_delete_keys"),
        "before the append": (apply, "write_final_commit"),
        "begun anew": (apply, "write_final_commit"),
        "after it": (apply, "refuse_unforeseen"),
    }[when]
    whole = getattr(module, name)
    dropped: list[str] = []

    def bereft(*given: Any, **named: Any) -> Any:
        if not dropped:
            (current,) = (each for each in given if isinstance(each, Attempt))
            current.drop()
            if when == "begun anew":
                # What Iceberg does where the branch is dropped after the append has begun.
                current.start(marked.bench.table().metadata.current_snapshot_id)
            dropped.append(current.branch)
        return whole(*given, **named)

    monkeypatch.setattr(module, name, bereft)
    batch = marked.apply(("U", 1), ("D", 2))
    assert len(dropped) == 1
    assert (batch.rows, batch.rows_removed, batch.unseen_updates) == (2, 2, 0)


def test_a_large_batch_of_a_small_table_marks_rows(
    items: SmallTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its keys would be sent to every task, and all its rows be written by one."""
    monkeypatch.setattr(write_edit, "SMALL_ROWS", 3)
    assert items.apply(("I", 5), ("U", 2), ("D", 3)).strategy == "rewrite"
    batch = items.apply(("I", 6), ("I", 7), ("U", 2), ("D", 1))
    assert batch.strategy == "delete_and_append"
    assert batch.reason == "4 keys are too many to rewrite a small table"
