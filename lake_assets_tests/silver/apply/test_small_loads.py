"""A small full load and all changes since: one batch, and two where a change stops the table.

Here: which batches there are, and the figures of the one. Not here: the rows after random changes and kills
(`test_random_histories.py`, `test_kill_points.py`), large loads (`silver/write/test_large_batches.py`).
"""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets.errors import TableStopped
from lake_assets.silver.apply import turn
from lake_assets.silver.apply.engine import apply_table
from lake_assets.silver.changes import reading
from lake_assets.silver.table.targets import Target
from lake_assets_tests.helpers.files.dms_files import Clock, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench

SMALL_LOAD = reading.SMALL_LOAD
NAME = "public.items"
TABLE: dict[str, Any] = {
    "columns": {"id": "long not null", "v": "string"},
    "primary_key": ["id"],
    "quarantine": {"max_rows": 0},
}
Change = tuple[str, Any, str]

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


@pytest.fixture(autouse=True)
def usual(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn, "SMALL_LOAD", SMALL_LOAD)


class Loaded:
    """A table whose full load of the rows 1 to 3 has landed, and files of changes with it."""

    def __init__(self, folder: Path, *files: list[Change], **table: Any) -> None:
        self.bench, self.clock = Bench(folder, {NAME: TABLE | table}), Clock()
        self.bench.put(load_file(NAME, [{"id": number, "v": "old"} for number in (1, 2, 3)]))
        for changes in files:
            self.put(*changes)

    def put(self, *changes: Change) -> None:
        self.clock.now += timedelta(minutes=1)
        rows = [self.clock.change(op, {"id": number, "v": value}) for op, number, value in changes]
        self.bench.put(cdc_file(NAME, self.clock.now, rows))

    def kinds(self) -> list[str]:
        """The batches of a turn."""
        return [batch.kind for batch in self.bench.turn()["items"].batches]


CHANGES: list[list[Change]] = [[("U", 1, "new"), ("D", 2, "old")], [("I", 4, "new"), ("U", 4, "newer")]]


def test_one_batch_has_both(tmp_path: Path) -> None:
    table = Loaded(tmp_path, *CHANGES)
    (batch,) = table.bench.apply()["items"]
    assert (batch.kind, batch.files, batch.rows_read, batch.rows) == ("full_load", 3, 7, 3)
    assert batch.by_op == {"I": 4, "U": 2, "D": 1}
    assert batch.unseen_updates == batch.position.unknown_rows == 0
    assert table.bench.rows() == table.bench.truth()
    table.put(("U", 4, "newest"))
    assert table.kinds() == ["cdc"]
    assert table.bench.rows() == table.bench.truth()


def test_a_reload_too(tmp_path: Path) -> None:
    table = Loaded(tmp_path, *CHANGES)
    table.bench.apply()
    later = table.clock.now + timedelta(hours=1)
    table.bench.put(load_file(NAME, [{"id": 9, "v": "reloaded"}], at=later))
    table.clock.now = later
    table.put(("U", 9, "new"), ("I", 10, "new"))
    assert table.kinds() == ["full_load"]
    assert table.bench.rows() == table.bench.truth()
    assert {row["id"] for row in table.bench.stored()} == {9, 10}


def test_a_row_that_the_load_lacks_is_counted(tmp_path: Path) -> None:
    (batch,) = Loaded(tmp_path, [("U", 7, "new"), ("D", 8, "old"), ("U", 1, "new")]).bench.apply()["items"]
    assert batch.unseen_updates == batch.position.unknown_rows == 1, (
        "a deleted row may be in none of its parts"
    )


def test_a_change_that_stops_the_table_leaves_the_load(tmp_path: Path) -> None:
    table = Loaded(tmp_path, [("U", 1, "new")], [("I", "no number", "bad")])
    result = table.bench.turn()["items"]
    assert [batch.kind for batch in result.batches] == ["full_load"]
    assert isinstance(result.error, TableStopped)
    assert "no number" in str(result.error)
    assert {row["id"]: row["v"] for row in table.bench.stored()} == dict.fromkeys((1, 2, 3), "old")


def test_a_file_that_is_written_again_before_the_first_turn(tmp_path: Path) -> None:
    table = Loaded(tmp_path, *CHANGES)
    table.bench.look()
    (key,) = [key for key, file in table.bench.bucket.items() if file.rows[-1]["v"] == "newer"]
    table.bench.put(replace(table.bench.bucket[key], rows=table.bench.bucket[key].rows[:1]))
    assert table.kinds() == ["full_load"]
    assert table.bench.rows() == table.bench.truth()
    assert table.bench.stored_by_id("v")[4] == "new"


def test_files_that_vanish_and_come_again_before_the_first_turn(tmp_path: Path) -> None:
    """As DMS deletes a table's files at TRUNCATE, and writes what follows."""
    tables = {NAME: TABLE | {"on_vanished": "truncate"}, "public.other": TABLE}
    bench, clock = Bench(tmp_path, tables), Clock()
    bench.put(load_file("public.other", [{"id": 1, "v": "other"}]))
    loaded = load_file(NAME, [{"id": number, "v": "old"} for number in (1, 2, 3)])
    bench.put(loaded, cdc_file(NAME, clock.now, [clock.change("U", {"id": 1, "v": "new"})]))
    bench.look()
    for key in [key for key in bench.bucket if key.startswith("public/items/")]:
        (tmp_path / "bronze" / key).unlink()
        del bench.bucket[key]
    bench.look()
    clock.now += timedelta(hours=1)
    bench.put(cdc_file(NAME, clock.now, [clock.change("I", {"id": 9, "v": "after"})]))
    bench.apply()
    assert bench.stored_by_id("v") == {9: "after"}


def test_another_run_applies_it_at_once(tmp_path: Path) -> None:
    table = Loaded(tmp_path, *CHANGES)
    table.bench.look()
    others: list[Any] = []

    def interfere(target: Target, stage: str) -> None:
        if stage == "publish" and not others:
            others.append(None)
            runtime = table.bench.reopened().runtime
            others.extend(apply_table(runtime, target, lambda target, stage: None).batches)

    (target,) = table.bench.lake.targets
    result = apply_table(table.bench.lake.runtime, target, interfere)
    assert result.error is None
    assert (len(others) - 1, result.batches) == (1, [])
    assert table.bench.rows() == table.bench.truth()


@pytest.mark.parametrize(
    ("rows", "table", "expected"),
    [(7, {}, ["full_load"]), (6, {}, ["full_load", "cdc"]), (7, {"mode": "history"}, ["full_load", "cdc"])],
)
def test_which_loads_are_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, table: dict[str, Any], expected: list[str]
) -> None:
    monkeypatch.setattr(turn, "SMALL_LOAD", rows + 1)
    loaded = Loaded(tmp_path, *CHANGES, **table)
    assert loaded.kinds() == expected


def test_a_file_of_which_nobody_knows_the_rows_is_not_small(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Loaded(tmp_path, *CHANGES)
    table.bench.look()
    whole = turn.Turn._everything

    def unknown(*given: Any) -> Any:
        batch = whole(*given)
        return batch and replace(batch, files=tuple(replace(file, rows=None) for file in batch.files))

    monkeypatch.setattr(turn.Turn, "_everything", unknown)
    assert table.kinds() == ["full_load", "cdc"]
