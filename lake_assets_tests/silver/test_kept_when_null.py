"""Large values that an update leaves out (`kept_when_null`): the file has NULL, and the row keeps its value.

Here: one story in every format, split into batches and order of arrival, beside the oracle; and what is not
known. Not here: the rule by which rows are followed (`reduce/test_lineage.py`), histories by chance
(`reduce/test_lineage_by_chance.py`, `test_random_histories.py`, `test_random_shapes.py`, `soak/`), tables that keep
the past (`test_kept_in_the_past.py`).
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lake_assets.bronze.decode import files as decoding
from lake_assets.errors import UndeterminedRow
from lake_assets.silver.apply.rebuild import rebuild
from lake_assets.silver.reconcile.compare_slices import compare
from lake_assets.silver.reconcile.cycle import Cycle
from lake_assets_tests.helpers.files.dms_files import (
    NOON,
    Clock,
    DmsFile,
    cdc_file,
    columns_of,
    json_bytes,
    load_file,
    put,
    transaction_file,
)
from lake_assets_tests.helpers.lakes.bench import Bench, OnBench
from lake_assets_tests.helpers.oracles.masks import MASKING

pytestmark = pytest.mark.spark
ITEMS = "public.items"
COLUMNS = {"id": "long not null", "v": "string", "body": "string", "meta": "string not null"}
KEPT = ["body", "meta"]
TYPES = {"id": pa.int64()}


class Story(OnBench):
    """A table whose updates leave large values out, in files of one format."""

    def __init__(
        self, folder: Path, form: str = "csv", dms: Mapping[str, Any] | None = None, **table: Any
    ) -> None:
        own = {"preserve_transactions": True, "cdc_path": "cdc", "add_column_name": False}
        settings = (own if form == "transactions" else {}) | dict(dms or {})
        self.form, self.clock, self.files = form, Clock(), 0
        config = {"columns": COLUMNS, "primary_key": ["id"], "kept_when_null": KEPT, **table}
        self.bench = Bench(folder, {ITEMS: config}, settings, MASKING)

    @property
    def extension(self) -> str:
        return "csv" if self.form == "transactions" else self.form

    def load(self, *rows: Mapping[str, Any], at: datetime = NOON) -> DmsFile:
        return load_file(ITEMS, rows, at=at, extension=self.extension)

    def change(
        self, op: str, key: int, before: int | None = None, *, more: bool = False, **values: Any
    ) -> Any:
        image = {"id": key, "v": None, "body": None, "meta": None, **values}
        return self.clock.change(op, image, None if before is None else {"id": before}, more)

    def file(self, *rows: Any) -> DmsFile:
        self.files += 1
        at = self.clock.now + timedelta(seconds=self.files)
        if self.form == "transactions":
            return transaction_file(at, [(ITEMS, row) for row in rows])
        return cdc_file(ITEMS, at, rows, self.extension)

    def put(self, *files: DmsFile) -> None:
        for file in files:
            if file.key.endswith(".json"):
                self.bench.bucket[file.key] = file
                names = columns_of(file, list(COLUMNS), ["id"], self.bench.dms)
                # DMS leaves NULLs out.
                rows = [{k: v for k, v in row.items() if v is not None} for row in file.rows]
                content = json_bytes(DmsFile(file.key, tuple(rows)), names, self.bench.dms, ascii_only=False)
                put(self.bench.location or self.folder, file.key, content)
            else:
                self.bench.put(file, types=TYPES)

    def apply(self, *files: DmsFile) -> None:
        self.put(*files)
        self.bench.apply()

    def turns(self, batches: Sequence[Sequence[DmsFile]]) -> Iterator[None]:
        """Applies one batch after the other. A table whose required value is in a file that comes later waits."""
        for number, files in enumerate(batches, start=1):
            self.put(*files)
            errors = [result.error for result in self.bench.turn().values() if result.error is not None]
            if number == len(batches):
                assert errors == []
            assert all(isinstance(error, UndeterminedRow) for error in errors), errors
            if not errors:
                yield

    def rows(self, *names: str) -> dict[int, Any]:
        found = {row["id"]: tuple(row[name] for name in names or KEPT) for row in self.bench.stored()}
        return {key: values[0] if len(names) == 1 else values for key, values in found.items()}

    def told(self) -> tuple[DmsFile, list[DmsFile]]:
        """A full load, and changes in files of one or two."""
        whole = [{"id": n, "v": f"v{n}", "body": f"body {n}", "meta": f"meta {n}"} for n in range(1, 5)]
        whole[3] |= {"body": None}
        made = self.change
        rows = [
            [made("U", 1, v="a"), made("U", 1, v="b", body="other")],
            [made("U", 1, v="c"), made("U", 2, v="seen", body="", meta="more")],
            [made("U", 20, before=2, v="moved"), made("U", 21, before=20, v="on", more=True)],
            [made("I", 5, v="new", meta="m"), made("U", 5, v="newer")],
            [made("U", 5, v="newest", body="now"), made("D", 3)],
            [made("I", 3, v="again", meta="back"), made("U", 4, v="null stays")],
            [made("U", 3, v="last"), made("U", 21, v="last"), made("U", 5, v="last")],
        ]
        return self.load(*whole), [self.file(*each) for each in rows]


FORMS = ["csv", "json", "parquet", "transactions"]
LONG = pytest.mark.long


def batches(story: Story, split: str) -> Sequence[Sequence[DmsFile]]:
    load, files = story.told()
    return {
        "at once": [[load, *files]],
        "one by one": [[load], *([file] for file in files)],
        "backwards": [[load], files[4:], files[2:4], files[:2]],
    }[split]


CASES = [(form, split) for form in FORMS for split in ("at once", "one by one", "backwards")]
FAST = {("json", "at once")}
"""And `backwards` of tables that keep the past, in `test_kept_in_the_past.py`."""
TOLD = [pytest.param(*case, marks=[] if case in FAST else LONG) for case in CASES]


@pytest.mark.parametrize(("form", "split"), TOLD)
@pytest.mark.parametrize("large", [False, pytest.param(True, marks=LONG)])
def test_current_rows_and_their_log(
    spark: SparkSession, tmp_path: Path, form: str, split: str, large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log shows what the files have: NULL."""
    monkeypatch.setattr(decoding, "MOST_BYTES", -1 if large else decoding.MOST_BYTES)
    story = Story(tmp_path, form, also=["change_log"])
    for _ in story.turns(batches(story, split)):
        assert story.bench.rows() == story.bench.truth()
    assert story.bench.rows("items_changes") == story.bench.truth(shape="change_log")
    assert story.rows() == {
        1: ("other", "meta 1"),
        21: ("", "more"),
        3: (None, "back"),
        4: (None, "meta 4"),
        5: ("now", "m"),
    }
    assert story.bench.lake.runtime.quarantine.open("silver_shop.items") == []


def test_rebuilding_and_comparing_find_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    story = Story(tmp_path)
    load, files = story.told()
    story.apply(load, *files)
    (target,) = story.bench.lake.targets
    runtime = story.bench.lake.runtime
    assert compare(runtime, target, Cycle(2, NOON, bounds=(10,)), [0, 1]).different == {}
    with runtime.sessions.isolated() as own:
        own.sql(f"UPDATE {runtime.lake.catalog.name}.silver_shop.items SET body = NULL WHERE id = 1")
    # A foreign commit is refused by a batch, not by a rebuild.
    rebuild(runtime, target)
    assert story.bench.rows() == story.bench.truth()


def test_a_row_that_nobody_knows(spark: SparkSession, tmp_path: Path) -> None:
    """Of a nullable column the value is NULL, as the file says. A row that must have a value stops the table."""
    nullable = {**COLUMNS, "meta": "string"}
    story = Story(tmp_path, columns=nullable, cdc_only=True)
    story.apply(story.file(story.change("U", 1, v="unseen"), story.change("U", 2, before=3, v="moved")))
    story.apply(story.file(story.change("U", 1, v="seen", meta="m"), story.change("U", 2, v="x", body="b")))
    story.apply(story.file(story.change("U", 1, v="last"), story.change("U", 2, v="last")))
    expected = [(1, None, "m"), (2, "b", None)]
    assert [(row["id"], row["body"], row["meta"]) for row in sorted_rows(story)] == expected
    strict = Story(tmp_path / "strict", cdc_only=True)
    strict.put(strict.file(strict.change("U", 1, v="unseen")))
    error = strict.bench.turn()["items"].error
    assert isinstance(error, UndeterminedRow)
    assert "an update lacks columns, and the former values of its row are not known (id = 1" in str(error)


def sorted_rows(story: Story) -> list[dict[str, Any]]:
    return sorted(story.bench.stored(), key=lambda row: row["id"])


def test_a_row_that_moved_while_the_load_ran(spark: SparkSession, tmp_path: Path) -> None:
    """The load has read it under its new key."""
    story = Story(tmp_path)
    load = story.load({"id": 7, "v": "v", "body": "large", "meta": "m"})
    moved = story.change("U", 7, before=6, v="v")
    story.apply(load, story.file(moved), story.file(story.change("U", 7, v="later")))
    assert story.rows() == {7: ("large", "m")}


def test_the_setting_holds_for_the_files_of_its_time(spark: SparkSession, tmp_path: Path) -> None:
    """Before it was set, and once the source logs whole rows again, NULL is NULL; a late file is of its own time. The
    column's new name is that of the setting."""
    story = Story(tmp_path, kept_when_null=[], columns={**COLUMNS, "meta": "string"})
    rows = [{"id": n, "v": "v", "body": "b", "meta": "m"} for n in range(1, 4)]
    story.apply(story.load(*rows), story.file(story.change("U", 1, v="before")))
    late = story.change("U", 3, v="late")
    edit = {"columns": {**COLUMNS, "meta": "string"}, "primary_key": ["id"]}
    story.bench.edit({ITEMS: {**edit, "kept_when_null": KEPT}})
    story.apply(story.file(story.change("U", 2, v="with it")))
    assert story.rows() == {1: (None, None), 2: ("b", "m"), 3: ("b", "m")}
    columns = {"id": "long not null", "v": "string", "content": "string", "meta": "string"}
    renamed = {"columns": columns, "primary_key": ["id"], "renamed_from": {"content": "body"}}
    story.bench.edit({ITEMS: {**renamed, "kept_when_null": ["content", "meta"]}})
    (change,) = [story.change("U", 2, v="renamed")]
    change["content"] = change.pop("body")
    story.apply(story.file(change))
    assert story.rows("content", "meta")[2] == ("b", "m")
    late["content"] = late.pop("body")
    story.apply(story.file(late))
    assert story.rows("content", "meta")[3] == ("b", "m")
    story.bench.edit({ITEMS: renamed})
    (change,) = [story.change("U", 2, v="whole")]
    change["content"] = change.pop("body")
    story.apply(story.file(change))
    assert story.rows("content", "meta") == {1: (None, None), 2: (None, None), 3: ("b", "m")}


@pytest.mark.parametrize(
    ("together", "mode"),
    [
        (True, "current"),
        (False, "soft_delete"),
        pytest.param(True, "soft_delete", marks=LONG),
        pytest.param(False, "current", marks=LONG),
    ],
)
def test_a_row_that_moves_while_the_load_runs(
    spark: SparkSession, tmp_path: Path, together: bool, mode: str
) -> None:
    """The load has read it under its new key, whose former row a file before has deleted."""
    story = Story(tmp_path, mode=mode)
    first, second = ({"id": key, "v": "moved", "body": f"body {key}", "meta": "m"} for key in (1, 2))
    load = story.load(first, second, at=story.clock.now)
    gone = [story.change("D", 1), story.change("I", 2, v="x", body="y", meta="z"), story.change("D", 2)]
    deleted = story.file(*gone)
    moved = story.file(story.change("U", 1, 5, v="moved", meta="m"), story.change("U", 2, 4, v="moved"))
    story.put(load, *([deleted, moved] if together else [deleted]))
    story.bench.apply()
    if not together:
        story.put(moved)
        story.bench.apply()
    living = [row for row in story.bench.stored() if not row.pop("_is_deleted", False)]
    assert sorted(({name: row[name] for name in COLUMNS} for row in living), key=lambda row: row["id"]) == [
        {name: row[name] for name in COLUMNS} for row in (first, second)
    ]
