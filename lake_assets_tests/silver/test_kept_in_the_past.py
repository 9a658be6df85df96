"""Updates that leave values out (`kept_when_null`, `csv_no_sup_value`), in tables that keep the past: each version of a
history, and a soft-deleted row, has the value that the row had.

Here: the story of `test_kept_when_null.py` in these shapes, and reloads. Not here: histories by chance
(`test_random_shapes.py`).
"""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets.bronze.decode import files as decoding
from lake_assets.errors import UndeterminedRow
from lake_assets.silver.apply.rebuild import rebuild
from lake_assets_tests.helpers.files.dms_files import Clock, DmsFile, cdc_file, load_file
from lake_assets_tests.helpers.oracles import oracle_shapes
from lake_assets_tests.silver.test_kept_when_null import CASES, COLUMNS, ITEMS, Story, batches

pytestmark = pytest.mark.spark
SHAPES: dict[str, Any] = {"mode": "soft_delete", "also": ["history"]}
MAY_BE_NULL = {"body": True, "meta": False}
LONG = pytest.mark.long
FAST = {("csv", "backwards")}
TOLD = [pytest.param(*case, marks=[] if case in FAST else LONG) for case in CASES]


def check(story: Story, *stages: list[DmsFile]) -> None:
    """`stages`: the files that had arrived when each further load was applied."""
    bench, told = story.bench, [*stages, story.bench.files(ITEMS)]
    found = oracle_shapes.soft_delete(told, bench.columns(ITEMS), ["id"], MAY_BE_NULL)
    assert bench.rows() == bench.as_silver(ITEMS, found)
    found = oracle_shapes.history(told, bench.columns(ITEMS), ["id"], MAY_BE_NULL)
    assert bench.rows("items_history") == bench.as_silver(ITEMS, found)


def versions(story: Story, key: int, *names: str) -> list[Any]:
    """The values of a key's versions, the oldest first."""
    rows = [row for row in story.bench.stored("items_history") if row["id"] == key]
    rows.sort(key=lambda row: row["_valid_from"])
    return [tuple(row[name] for name in names) for row in rows]


@pytest.mark.parametrize(("form", "split"), TOLD)
@pytest.mark.parametrize("large", [False, pytest.param(True, marks=LONG)])
def test_each_version_has_the_former_value(
    spark: SparkSession, tmp_path: Path, form: str, split: str, large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "MOST_BYTES", -1 if large else decoding.MOST_BYTES)
    story = Story(tmp_path, form, **SHAPES)
    for _ in story.turns(batches(story, split)):
        check(story)
    assert versions(story, 1, "v", "body", "meta") == [
        ("v1", "body 1", "meta 1"),
        ("a", "body 1", "meta 1"),
        ("b", "other", "meta 1"),
        ("c", "other", "meta 1"),
    ]
    assert versions(story, 21, "v", "body", "meta") == [("on", "", "more"), ("last", "", "more")]
    assert versions(story, 5, "v", "body", "meta")[:2] == [("new", None, "m"), ("newer", None, "m")]
    deleted = {row["id"]: row["meta"] for row in story.bench.stored() if row["_is_deleted"]}
    assert deleted == {2: "more", 20: "more"}


@LONG
def test_a_late_value_moves_along_with_its_row(spark: SparkSession, tmp_path: Path) -> None:
    """The late file names only the key that the row had then; the versions under its later keys change, too."""
    story = Story(tmp_path, **SHAPES)
    whole: dict[str, Any] = {"v": "v", "body": "old", "meta": "m"}
    late = story.change("U", 1, body="late", v="late")
    moves = [story.change("U", 2, before=1, v="moved"), story.change("U", 3, before=2, v="on")]
    gone = [story.change("D", 3), story.change("I", 1, **whole), story.change("U", 1, v="again")]
    story.apply(story.load({"id": 1, **whole}), story.file(*moves))
    story.apply(story.file(*gone))
    check(story)
    story.apply(story.file(late))
    check(story)
    assert versions(story, 3, "v", "body", "meta") == [("on", "late", "m")]
    assert {row["id"]: row["body"] for row in story.bench.stored()} == {1: "old", 2: "late", 3: "late"}


def reload(story: Story, *rows: Mapping[str, Any]) -> DmsFile:
    story.clock.now += timedelta(minutes=10)
    return load_file(ITEMS, rows, at=story.clock.now)


@pytest.mark.parametrize("at_once", [True, pytest.param(False, marks=LONG)])
def test_a_reload_between_and_changes_while_it_runs(
    spark: SparkSession, tmp_path: Path, at_once: bool
) -> None:
    """A row that was deleted before the load read it has its former values in the version that it had meanwhile. A row
    that the load has never seen, without a value that it must have, has none. What the load has read counts, not what
    the table had before."""
    story = Story(tmp_path, **SHAPES)
    rows = [{"id": n, "v": "v", "body": f"b{n}", "meta": f"m{n}"} for n in (1, 2, 3)]
    story.apply(story.load(*rows), story.file(story.change("U", 1, v="before")))
    load = reload(
        story, *({**row, "body": "reloaded", "id": key} for row, key in zip(rows, (1, 20, 4), strict=False))
    )
    meanwhile = [
        story.change("U", 20, before=2, v="moved"),
        story.change("U", 3, v="meanwhile"),
        story.change("D", 3),
        story.change("U", 9, v="unseen"),
        story.change("D", 9),
    ]
    for files in [[load, story.file(*meanwhile)]] if at_once else [[load], [story.file(*meanwhile)]]:
        story.apply(*files)
    story.apply(story.file(story.change("U", 20, v="after"), story.change("U", 1, v="after")))
    assert versions(story, 3, "v", "body", "meta") == [("v", "b3", "m3"), ("meanwhile", "b3", "m3")]
    assert versions(story, 20, "v", "body", "meta")[-2:] == [
        ("moved", "reloaded", "m2"),
        ("after", "reloaded", "m2"),
    ]
    assert versions(story, 9, "v") == []
    assert {row["id"]: (row["body"], row["_is_deleted"]) for row in story.bench.stored()} == {
        1: ("reloaded", False),
        2: ("b2", True),
        3: ("b3", True),
        4: ("reloaded", False),
        20: ("reloaded", False),
    }
    for target in story.bench.lake.targets:
        assert rebuild(story.bench.lake.runtime, target, publish=False).equal, target.name


@LONG
def test_a_row_that_nobody_knows(spark: SparkSession, tmp_path: Path) -> None:
    """Of a nullable column the value is NULL. A row that must have a value stops both tables, which lose nothing."""
    story = Story(tmp_path, cdc_only=True, **SHAPES)
    late = story.file(story.change("I", 1, v="new", body="b", meta="m"))
    story.put(story.file(story.change("U", 1, v="unseen")))
    errors = story.bench.turn()
    assert isinstance(errors["items"].error, UndeterminedRow)
    assert isinstance(errors["items_history"].error, UndeterminedRow)
    story.apply(late)
    check(story)
    assert versions(story, 1, "v", "body", "meta") == [("new", "b", "m"), ("unseen", "b", "m")]


@LONG
def test_values_that_the_source_did_not_supply(spark: SparkSession, tmp_path: Path) -> None:
    """The marker of `csv_no_sup_value` takes the same way."""
    marker = "(not supplied)"
    story = Story(tmp_path, dms={"csv_no_sup_value": marker}, kept_when_null=[], **SHAPES)
    clock = Clock()

    def change(op: str, key: int, before: int | None = None, **values: Any) -> Any:
        image = {"id": key, "v": marker, "body": marker, "meta": marker, **values}
        return clock.change(op, image, None if before is None else {"id": before})

    rows = [{"id": n, "v": "v", "body": "b", "meta": "m"} for n in (1, 2)]
    changes = [
        change("U", 1, v="a"),
        change("U", 5, before=1, body=None),
        change("D", 5),
        change("U", 2, meta="n"),
    ]
    files = [cdc_file(ITEMS, clock.now + timedelta(seconds=n), [one]) for n, one in enumerate(changes)]
    story.apply(story.load(*rows), *files[2:])
    story.apply(*files[:2])
    assert versions(story, 1, "v", "body", "meta") == [("v", "b", "m"), ("a", "b", "m")]
    assert versions(story, 5, "v", "body", "meta") == [("a", None, "m")]
    assert versions(story, 2, *COLUMNS)[-1] == (2, "v", "b", "n")
    assert {row["id"]: row["_is_deleted"] for row in story.bench.stored()} == {1: True, 2: False, 5: True}
