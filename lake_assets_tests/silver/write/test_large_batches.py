"""Large batches: full loads that are written as they are read, keys with one change, batches of new keys.

Here: each strategy once, with real files and tables, CSV and Parquet; none is held. Not here: random
histories, half of which run so (`soak`).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lake_assets.silver.apply import apply_batch, turn
from lake_assets.silver.apply.rebuild import rebuild
from lake_assets.silver.changes import reading
from lake_assets.silver.changes.staged_rows import StagedRows
from lake_assets.silver.write.final_commit import write_final_commit
from lake_assets_tests.helpers.files.dms_files import NOON, Clock, DmsFile, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.changed_shop import ITEMS, changed, loaded, sql, values
from lake_assets_tests.helpers.lakes.small_table import NEVER

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("all_large")]


PARQUET_TYPES = {"id": pa.int64(), "nr": pa.int64(), "on": pa.bool_()}


class InFormat(Bench):
    """A bench whose files are of one format."""

    def __init__(self, extension: str, *given: Any, **more: Any) -> None:
        self.extension = extension
        super().__init__(*given, **more)

    def put(self, *files: DmsFile, types: Mapping[str, pa.DataType] | None = None) -> None:
        named = [replace(file, key=file.key.replace(".csv", f".{self.extension}")) for file in files]
        super().put(*named, types=PARQUET_TYPES if types is None else types)


@pytest.fixture(params=[pytest.param("csv", marks=pytest.mark.long), "parquet"])
def new_bench(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Callable[..., Bench]:
    return partial(InFormat, request.param, tmp_path)


@pytest.fixture
def shop(new_bench: Callable[..., Bench]) -> Bench:
    return new_bench({"public.items": ITEMS}, sections=NEVER)


def applied(shop: Bench, *files: DmsFile) -> list[str]:
    """The strategies of the batches that apply the files."""
    shop.put(*files)
    return [batch.strategy for batch in shop.apply()["items"]]


@pytest.fixture
def once(tried: list[str]) -> Iterator[None]:
    """No batch is applied a second time, by decoded files."""
    yield
    assert set(tried) == {"as read"}


@pytest.mark.usefixtures("once")
def test_a_full_load_is_written_as_it_is_read(shop: Bench) -> None:
    parts = (loaded({1: "a", 2: "b"}), loaded({-3: "c"}, part=2))
    assert applied(shop, *parts) == ["overwrite"]
    assert values(shop) == {1: "a", 2: "b", -3: "c"}
    assert shop.summary()["lake.batch.rows-read"] == "3"


@pytest.mark.usefixtures("once")
@pytest.mark.parametrize("key", [["name"], ["name", "id"]])
def test_so_is_one_whose_key_is_no_number(spark: SparkSession, tmp_path: Path, key: list[str]) -> None:
    columns = {"id": "long not null", "name": "string not null"}
    shop = Bench(tmp_path, {"public.items": {"columns": columns, "primary_key": key}}, sections=NEVER)
    names = {1: "a", 2: "b", 3: "c"}
    load = load_file("public.items", [{"id": number, "name": name} for number, name in names.items()])
    assert applied(shop, load) == ["overwrite"]
    assert {row["id"]: row["name"] for row in shop.stored()} == names


@pytest.mark.usefixtures("once")
def test_so_is_one_with_the_changes_since(shop: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn, "SMALL_LOAD", 10)
    shop.put(loaded({1: "a", 2: "b", 3: "c"}))
    assert applied(shop, changed(Clock(), ("U", 1, "x"), ("D", 2, "b"), ("I", 4, "d"))) == ["overwrite"]
    assert values(shop) == {1: "x", 3: "c", 4: "d"}


@pytest.fixture
def too_many_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a look at them."""
    monkeypatch.setattr(reading, "MOST_ROWS", 2)
    monkeypatch.setattr(reading, "MOST_LOADED", 2)


@pytest.mark.usefixtures("too_many_keys", "once")
def test_the_keys_of_a_very_large_full_load_are_counted_when_they_are_written(shop: Bench) -> None:
    assert applied(shop, loaded({1: "a", 2: "b"}), loaded({3: "c"}, part=2)) == ["overwrite"]
    assert values(shop) == {1: "a", 2: "b", 3: "c"}


@pytest.mark.usefixtures("too_many_keys")
def test_keys_that_repeat_in_a_very_large_full_load_have_one_row(shop: Bench) -> None:
    assert applied(shop, loaded({1: "a", 2: "b"}), loaded({2: "b", 3: "c"}, part=2)) == ["overwrite"]
    assert values(shop) == {1: "a", 2: "b", 3: "c"}
    assert len(shop.stored()) == 3


@pytest.mark.parametrize("again", [2, pytest.param(3, marks=pytest.mark.long)])
def test_files_of_a_full_load_have_keys_of_different_widths(
    spark: SparkSession, tmp_path: Path, again: int
) -> None:
    shop = InFormat("parquet", tmp_path, {"public.items": ITEMS}, sections=NEVER)
    shop.put(loaded({1: "a", 2: "b"}), types=PARQUET_TYPES | {"id": pa.int32()})
    shop.put(loaded({again: "b", 4: "c"}, part=2))
    assert [batch.strategy for batch in shop.apply()["items"]] == ["overwrite"]
    assert values(shop) == {1: "a", 2: "b", again: "b", 4: "c"}


def test_keys_that_repeat_in_a_full_load_have_one_row(shop: Bench) -> None:
    applied(shop, loaded({1: "a", 2: "b"}), loaded({2: "b", 3: "c"}, part=2))
    assert values(shop) == {1: "a", 2: "b", 3: "c"}
    assert shop.table().scan().to_arrow().num_rows == 3


@pytest.mark.parametrize("with_changes", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_full_load_that_is_written_again_while_it_is_applied(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, with_changes: bool
) -> None:
    """With as many rows, of which two have the same key: no two rows of silver may."""
    shop, clock = InFormat("parquet", tmp_path, {"public.items": ITEMS}, sections=NEVER), Clock()
    again: list[DmsFile] = [
        load_file("public.items", [{"id": 1, "v": "x"}, {"id": 1, "v": "y"}, {"id": 3, "v": "z"}])
    ]

    def after_another(*given: Any) -> None:
        shop.put(*again)
        write_final_commit(*given)

    monkeypatch.setattr(apply_batch, "write_final_commit", after_another)
    monkeypatch.setattr(turn, "SMALL_LOAD", 10)
    shop.put(loaded({1: "a", 2: "b", 3: "c"}))
    if with_changes:
        shop.put(changed(clock, ("I", 4, "d")))
    shop.turn()
    assert sorted(row["id"] for row in shop.stored()) == ([1, 3, 4] if with_changes else [1, 3])


def test_a_full_load_that_is_written_again_and_deleted_while_it_is_applied(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = InFormat("parquet", tmp_path, {"public.items": ITEMS}, sections=NEVER)
    again = load_file("public.items", [{"id": 1, "v": "x"}, {"id": 1, "v": "y"}, {"id": 3, "v": "z"}])

    def between(*given: Any) -> None:
        shop.put(again)
        write_final_commit(*given)
        (path,) = (tmp_path / "bronze").rglob("LOAD*.parquet")
        path.unlink()

    monkeypatch.setattr(apply_batch, "write_final_commit", between)
    shop.put(loaded({1: "a", 2: "b", 3: "c"}))
    result = shop.turn()["items"]
    assert result.batches == []
    assert shop.stored() == []


def test_changes_of_the_same_batch_replace_loaded_rows(shop: Bench) -> None:
    """A rebuild, which reads the full load and all changes."""
    clock = Clock()
    applied(shop, loaded({1: "a", 2: "b", 3: "c"}), loaded({3: "c"}, part=2))
    applied(shop, changed(clock, ("U", 1, "x"), ("D", 2, "b"), ("I", 4, "d"), ("U", 4, "e")))
    sql(shop, "UPDATE {table} SET v = 'stray'")
    done = rebuild(shop.lake.runtime, shop.lake.targets[0])
    assert (done.files, done.rows_only_before, done.rows_only_after) == (3, 3, 3)
    assert values(shop) == {1: "x", 3: "c", 4: "e"}


def test_a_full_load_with_other_operations(shop: Bench) -> None:
    load = load_file("public.items", [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}], part=1, at=NOON)
    for row in load.rows[1:]:
        row["Op"] = "D"  # type: ignore[index]
    applied(shop, load)
    assert values(shop) == {1: "a"}


def test_new_keys_are_appended_and_known_ones_replaced(shop: Bench) -> None:
    clock = Clock()
    applied(shop, loaded({1: "a", 5: "b"}))
    assert applied(shop, changed(clock, ("I", 6, "c"), ("I", 9, "d"))) == ["append"]
    assert applied(shop, changed(clock, ("I", 7, "e"), ("I", 7, "f"))) == ["delete_and_append"]
    assert applied(shop, changed(clock, ("I", 5, "again"))) == ["delete_and_append"]
    assert values(shop) == {1: "a", 5: "again", 6: "c", 7: "f", 9: "d"}
    assert applied(shop, changed(clock, ("I", 10, "g"), ("D", 10, "g"))) == ["append"]
    assert values(shop) == {1: "a", 5: "again", 6: "c", 7: "f", 9: "d"}


@pytest.mark.parametrize("key", ["long", pytest.param("string", marks=pytest.mark.long)])
def test_keys_with_one_change(new_bench: Callable[..., Bench], key: str) -> None:
    table = {"columns": {"id": f"{key} not null", "v": "string"}, "primary_key": ["id"]}
    shop, clock = new_bench({"public.items": table}, sections=NEVER), Clock()
    types = {"id": pa.int64() if key == "long" else pa.string()}

    def inserted(*ids: int) -> list[str]:
        rows = [
            clock.change("I", {"id": number if key == "long" else str(number), "v": "a"}) for number in ids
        ]
        shop.put(cdc_file("public.items", clock.now, rows), types=types)
        (batch,) = shop.apply()["items"]
        return [batch.strategy]

    inserted(1, 2)
    assert inserted(3, 4) == (["append"] if key == "long" else ["delete_and_append"])
    inserted(4, 5)
    inserted(6, 6)
    assert sorted(int(row["id"]) for row in shop.stored()) == [1, 2, 3, 4, 5, 6]


def test_other_changes_after_inserts(shop: Bench) -> None:
    clock = Clock()
    applied(shop, loaded({1: "a"}))
    applied(shop, changed(clock, ("I", 2, "b"), ("I", 3, "c")))
    rows = [clock.change("U", {"id": 9, "v": "a"}, {"id": 1}), clock.change("D", {"id": 2, "v": None})]
    applied(shop, cdc_file("public.items", NOON + timedelta(minutes=2), rows))
    assert values(shop) == {3: "c", 9: "a"}


def test_keys_that_are_no_whole_numbers_are_deleted_first(new_bench: Callable[..., Bench]) -> None:
    table = {"columns": {"on": "boolean not null", "v": "string"}, "primary_key": ["on"]}
    found, clock = new_bench({"public.items": table}, sections=NEVER), Clock()
    applied(found, load_file("public.items", [{"on": False, "v": "a"}]))
    rows = [clock.change("I", {"on": on, "v": "b"}) for on in (False, True)]
    file = cdc_file("public.items", NOON + timedelta(minutes=1), rows)
    assert applied(found, file) == ["delete_and_append"]
    assert sorted((row["on"], row["v"]) for row in found.stored()) == [(False, "b"), (True, "b")]


def test_bounds_are_those_of_a_key_that_was_renamed(shop: Bench) -> None:
    applied(shop, loaded({1: "a", 2: "b"}))
    columns = {"nr": "long not null", "v": "string"}
    renamed = {"columns": columns, "primary_key": ["nr"], "renamed_from": {"nr": "id"}}
    shop.edit({"public.items": renamed})
    clock = Clock(NOON + timedelta(hours=1))
    for number, strategy in ((3, "append"), (2, "delete_and_append")):
        file = cdc_file("public.items", clock.now, [clock.change("I", {"nr": number, "v": "new"})])
        assert applied(shop, file) == [strategy]
    assert sorted((row["nr"], row["v"]) for row in shop.stored()) == [(1, "a"), (2, "new"), (3, "new")]


def test_updates_of_rows_that_are_not_there_are_counted(shop: Bench) -> None:
    clock = Clock()
    applied(shop, loaded({1: "a"}))
    shop.put(changed(clock, ("U", 1, "b"), ("U", 2, "new"), ("D", 3, "c"), ("U", 4, "x"), ("D", 4, "x")))
    (batch,) = shop.apply()["items"]
    assert batch.unseen_updates == 1, "of 2; 4 is gone in the end"
    assert values(shop) == {1: "b", 2: "new"}


def test_a_key_may_move_among_others_that_stay(shop: Bench) -> None:
    clock = Clock()
    applied(shop, loaded({1: "a", 2: "b"}))
    rows = [clock.change("U", {"id": 9, "v": "a"}, {"id": 1}), clock.change("U", {"id": 2, "v": "c"})]
    assert applied(shop, cdc_file("public.items", NOON + timedelta(minutes=1), rows)) == ["delete_and_append"]
    assert values(shop) == {9: "a", 2: "c"}


def test_the_last_change_of_a_key_is_found_by_its_sequence(shop: Bench) -> None:
    clock = Clock()
    applied(shop, loaded({1: "a", 2: "b", 3: "c", 4: "d", 8: "h"}))
    changes = [("U", 2, "x"), ("U", 1, "z"), ("U", 2, "y"), ("I", 5, "e"), ("D", 5, "e"), ("D", 3, "c")]
    changes += [
        ("D", 4, "d"),
        ("I", 6, "f"),
        ("U", 7, "new"),
        ("U", 9, "p"),
        ("U", 9, "q"),
        ("I", 3, "again"),
        ("I", 10, "j"),
        ("U", 10, "k"),
    ]
    file = changed(clock, *changes, ("U", 8, "i"), ("D", 8, "i"))
    shop.put(replace(file, rows=file.rows[::-1]))  # the order in the file does not count
    (batch,) = shop.apply()["items"]
    assert values(shop) == {1: "z", 2: "y", 3: "again", 6: "f", 7: "new", 9: "q", 10: "k"}
    assert (batch.keys, batch.rows_written, batch.rows_removed, batch.unseen_updates) == (10, 7, 5, 2)


def test_changes_that_are_there_twice(shop: Bench) -> None:
    clock = Clock()
    applied(shop, loaded({1: "a", 2: "b", 3: "c"}))
    file = changed(clock, ("U", 1, "x"), ("D", 2, "b"), ("U", 3, "y"), ("U", 3, "z"), ("I", 4, "d"))
    again = replace(file, key=file.key.replace(".csv", "1.csv"), rows=file.rows)
    shop.put(file, again)
    (batch,) = shop.apply()["items"]
    assert values(shop) == {1: "x", 3: "z", 4: "d"}
    assert (batch.rows_read, batch.keys, batch.rows_written) == (10, 4, 3)


@pytest.mark.parametrize("in_one_batch", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_key_that_is_taken_again_loses_its_older_row(shop: Bench, *, in_one_batch: bool) -> None:
    """A row moves to a key by a delete and an insert; then the delete of the key's older row follows, perhaps in a file
    that arrives later."""
    clock = Clock()
    applied(shop, loaded({1: "a", 2: "b"}))
    rows = [
        clock.change(op, {"id": key, "v": v}) for op, key, v in (("D", 1, "a"), ("I", 2, "a"), ("D", 2, "b"))
    ]
    for number, row in enumerate(rows):
        row["commit_ts"] = rows[0]["commit_ts"]
        row["change_seq"] = rows[0]["change_seq"][:16] + f"{number + 1:019d}"
    parts = [rows] if in_one_batch else [rows[:2], rows[2:]]
    for minute, part in enumerate(parts):
        applied(shop, cdc_file("public.items", NOON + timedelta(minutes=20 + minute), part))
    assert values(shop) == {2: "a"}


def figures_of(batch: Any) -> dict[str, Any]:
    kept = ("rows_read", "by_op", "keys", "rows_written", "rows_removed", "rows_quarantined", "min_sequence")
    position = batch.position
    return {name: getattr(batch, name) for name in kept} | {
        "sequence": position.max_sequence,
        "commit": position.max_commit_ts,
        "first": batch.first_commit_at,
    }


@pytest.mark.parametrize("unusable", [False, pytest.param(True, marks=pytest.mark.long)])
def test_files_checked_before_spark_reads_them_give_the_same_figures(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unusable: bool
) -> None:
    found, looks = [], StagedRows._looks
    for here in (True, False):
        folder = tmp_path / str(here)
        folder.mkdir()
        shop, clock = InFormat("parquet", folder, {"public.items": ITEMS}, sections=NEVER), Clock()
        checks: list[bool] = []

        def check(*given: Any, here: bool = here, checks: list[bool] = checks, **more: Any) -> Any:
            result = looks(*given, **more) if here else {}
            checks.append(bool(result))
            return result

        monkeypatch.setattr(StagedRows, "_looks", check)
        shop.put(loaded({1: "a", 2: "b"}))
        file = changed(clock, ("U", 1, "x"), ("D", 2, "b"), ("I", 3, "c"), ("U", 3, "d"))
        if unusable:
            file.rows[1]["Op"] = "X"  # type: ignore[index]
        shop.apply()
        shop.put(file)
        (batch,) = shop.apply()["items"]
        assert checks == [here, here and not unusable]
        found.append((figures_of(batch), values(shop)))
    assert found[0] == found[1]
    assert found[0][0]["rows_quarantined"] == unusable
