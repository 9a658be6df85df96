"""Large batches of Parquet changes that are written as they are read.

Here: such a batch with real files and tables, none of which is held. Not here: the last change of a key
(`silver/reduce/test_last_changes.py`), other large batches (`test_large_batches.py`), keys of
other types and names (`test_keys_as_read.py`).
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lake_assets.silver.apply import apply_batch
from lake_assets.silver.changes.row_marks import RowMarks
from lake_assets.silver.reduce.edit_keys import EditKeys
from lake_assets.silver.table.position import TOUCHED_DAYS, touched_property
from lake_assets.silver.table.targets import Tracked
from lake_assets.silver.write import write_edit
from lake_assets.silver.write.proof import Unforeseen, refuse_unforeseen
from lake_assets_tests.helpers.files.dms_files import NOON, Clock, cdc_file, load_file
from lake_assets_tests.helpers.files.parquet_shop import TYPES, applied, bench, four_rows, put
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.changed_shop import changed, loaded, values

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("all_large")]


@pytest.fixture(scope="module")
def made(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, all_large: None
) -> Callable[[], Bench]:
    return four_rows(tmp_path_factory.mktemp("shop"))


@pytest.fixture
def shop(made: Callable[[], Bench]) -> Bench:
    return made()


def test_the_last_changes_of_several_files_are_written(shop: Bench, tried: list[str]) -> None:
    clock = Clock()
    first = changed(clock, ("U", 1, "x"), ("D", 2, "b"), ("I", 5, "e"), ("U", 3, "y"))
    second = changed(clock, ("U", 1, "z"), ("I", 2, "again"), ("D", 3, "y"), ("U", 9, "new"))
    batch = applied(shop, first, second)
    assert values(shop) == {1: "z", 2: "again", 4: "d", 5: "e", 9: "new"}
    assert set(tried) == {"as read"}
    assert (batch.strategy, batch.keys, batch.rows_written, batch.rows_removed) == (
        "delete_and_append",
        5,
        4,
        3,
    )
    assert (batch.by_op, batch.unseen_updates) == ({"I": 2, "U": 4, "D": 2}, 1)
    assert applied(shop, changed(clock, ("U", 1, "later"))).rows_removed == 1
    assert values(shop)[1] == "later"


def test_a_file_without_rows_beside_others(shop: Bench, tried: list[str]) -> None:
    clock = Clock()
    put(shop, changed(clock))
    applied(shop, changed(clock, ("U", 1, "x")))
    assert values(shop) == {1: "x", 2: "b", 3: "c", 4: "d"}
    assert set(tried) == {"as read"}


def test_new_keys_are_appended(shop: Bench, tried: list[str]) -> None:
    assert applied(shop, changed(Clock(), ("I", 8, "h"), ("I", 9, "i"))).strategy == "append"
    assert values(shop) == {1: "a", 2: "b", 3: "c", 4: "d", 8: "h", 9: "i"}
    assert set(tried) == {"as read"}


def test_a_row_that_cannot_be_used_is_quarantined_and_its_key_keeps_its_row(
    spark: SparkSession, tmp_path: Path, tried: list[str]
) -> None:
    """Also if a former change of the key can be used."""
    columns = {"id": "long not null", "v": "string not null"}
    found, clock = bench(tmp_path, {"columns": columns, "primary_key": ["id"]}), Clock()
    applied(found, loaded({1: "a", 2: "b", 3: "c"}))
    file = changed(clock, ("U", 1, "x"), ("U", 2, "lost"), ("I", 6, "f"), ("U", 3, "y"), ("U", 3, "lost"))
    for row in file.rows:
        row["v"] = None if row["v"] == "lost" else row["v"]  # type: ignore[index]
    batch = applied(found, file)
    assert values(found) == {1: "x", 2: "b", 3: "y", 6: "f"}
    assert (batch.rows_quarantined, tried) == (2, ["as read", "as read", "decoded"])
    applied(found, changed(clock, ("U", 2, "z")))
    assert values(found)[2] == "z"
    assert tried[3:] == ["as read"]


@pytest.mark.parametrize("lost", ["superseded", pytest.param("deleted", marks=pytest.mark.long)])
def test_a_row_that_cannot_be_used_is_quarantined_though_it_is_not_written(
    spark: SparkSession, tmp_path: Path, tried: list[str], lost: str
) -> None:
    columns = {"id": "long not null", "on": "date", "v": "string"}
    found, clock = bench(tmp_path, {"columns": columns, "primary_key": ["id"]}), Clock()
    types, day = TYPES | {"on": pa.string()}, "2026-01-01"
    applied(found, load_file("public.items", [{"id": n, "on": day, "v": "a"} for n in (1, 2)]), types=types)
    bad = {"id": 2, "on": "no day", "v": "b"}
    rows = [
        clock.change("U", {"id": 1, "on": day, "v": "x"}),
        clock.change("D" if lost == "deleted" else "U", bad),
    ]
    if lost == "superseded":
        rows.append(clock.change("U", {"id": 2, "on": day, "v": "y"}))
    batch = applied(found, cdc_file("public.items", clock.now, rows), types=types)
    assert (batch.rows_quarantined, set(tried)) == (1, {"as read"})
    assert values(found) == {1: "x", 2: "y" if lost == "superseded" else "a"}


def test_a_full_load_with_a_row_that_cannot_be_used_is_decoded(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[str] = []

    def refuse(*given: Any, **more: Any) -> None:
        try:
            refuse_unforeseen(*given, **more)
        except Unforeseen as reason:
            refused.append(str(reason))
            raise

    monkeypatch.setattr(apply_batch, "refuse_unforeseen", refuse)
    columns = {"id": "long not null", "v": "string not null"}
    found = bench(tmp_path, {"columns": columns, "primary_key": ["id"]})
    load = loaded({1: "a", 2: "b", 3: "c"})
    load.rows[1]["v"] = None  # type: ignore[index]
    batch = applied(found, load)
    assert values(found) == {1: "a", 3: "c"}
    assert (batch.rows_quarantined, batch.rows_written) == (1, 2)
    assert refused == ["written rows: 2, foreseen: 3"]


def of_one_transaction(clock: Clock, *changes: tuple[str, int, str]) -> list[dict[str, Any]]:
    rows = [clock.change(op, {"id": key, "v": v}) for op, key, v in changes]
    commit = rows[0]["change_seq"][:16]
    for number, row in enumerate(rows):
        row |= {"commit_ts": rows[0]["commit_ts"], "change_seq": f"{commit}{number + 1:019d}"}
    return rows


def test_changes_that_come_twice(shop: Bench, tried: list[str]) -> None:
    file = changed(Clock(), ("U", 1, "x"), ("D", 2, "b"))
    put(shop, file)
    assert applied(shop, replace(file, key=file.key.replace(".csv", "1.csv"))).keys == 2
    assert values(shop) == {1: "x", 3: "c", 4: "d"}
    assert set(tried) == {"as read"}


def test_a_late_batch(shop: Bench, tried: list[str]) -> None:
    clock = Clock()
    late, file = changed(clock, ("U", 1, "old"), ("U", 2, "x")), changed(clock, ("U", 1, "new"))
    applied(shop, file)
    applied(shop, late)
    assert values(shop) == {1: "new", 2: "x", 3: "c", 4: "d"}
    assert set(tried) == {"as read"}


def test_the_rest_of_a_transaction(shop: Bench, tried: list[str]) -> None:
    """Row 1 moves to key 2, whose own row is deleted after that."""
    rows = of_one_transaction(Clock(), ("D", 1, "a"), ("I", 2, "a"), ("D", 2, "b"))
    for minute, part in enumerate((rows[:2], rows[2:])):
        applied(shop, cdc_file("public.items", NOON + timedelta(minutes=20 + minute), part))
    assert values(shop) == {2: "a", 3: "c", 4: "d"}
    assert set(tried) == {"as read"}


def test_a_key_that_may_have_had_two_rows(shop: Bench, tried: list[str]) -> None:
    rows = of_one_transaction(Clock(), ("D", 1, "a"), ("I", 2, "a"), ("D", 2, "b"))
    applied(shop, cdc_file("public.items", NOON + timedelta(minutes=20), rows))
    assert values(shop) == {2: "a", 3: "c", 4: "d"}
    assert set(tried) == {"as read"}


def test_a_row_that_comes_and_goes_within_one_transaction(shop: Bench, tried: list[str]) -> None:
    """As of an outbox. The bounds of the table's files show that it was not there before."""
    rows = of_one_transaction(Clock(), ("I", 90, "a"), ("U", 1, "x"), ("D", 90, "a"))
    applied(shop, cdc_file("public.items", NOON + timedelta(minutes=20), rows))
    assert values(shop) == {1: "x", 2: "b", 3: "c", 4: "d"}
    assert set(tried) == {"as read"}


def test_a_key_that_moves(shop: Bench, tried: list[str]) -> None:
    clock = Clock()
    rows = [
        clock.change("U", {"id": 9, "v": "a"}, {"id": 1}),
        clock.change("U", {"id": 2, "v": "x"}, {"id": 2}),
        clock.change("U", {"id": 8, "v": "c"}, {"id": 3}),
        clock.change("U", {"id": 7, "v": "c"}, {"id": 8}),
    ]
    applied(shop, cdc_file("public.items", NOON + timedelta(minutes=1), rows))
    assert values(shop) == {9: "a", 2: "x", 7: "c", 4: "d"}
    assert set(tried) == {"as read"}


@pytest.mark.parametrize(
    ("same", "others", "expected"),
    [
        pytest.param(
            False,
            [("U", 1, "p"), ("U", 1, "q"), ("D", 1, "r")],
            {2: "b", 3: "c", 4: "d"},
            id="other sequences",
            marks=pytest.mark.long,
        ),
        pytest.param(
            True,
            [("U", 1, "x"), ("U", 4, "q"), ("D", 3, "c")],
            {1: "x", 2: "b", 4: "q"},
            id="the same sequences",
        ),
    ],
)
def test_a_file_that_is_written_again_while_it_is_applied(
    shop: Bench,
    tried: list[str],
    monkeypatch: pytest.MonkeyPatch,
    *,
    same: bool,
    others: list[tuple[str, int, str]],
    expected: dict[int, str],
) -> None:
    """With as many rows, and other last changes: by the marks, both rows of key 1 would be written, or a second row of
    key 4."""
    clock = Clock()
    file = changed(clock, ("U", 1, "x"), ("U", 2, "y"), ("D", 3, "c"))
    sequences = [row["change_seq"] for row in file.rows]
    rows = changed(clock, *others).rows
    if same:
        rows = tuple({**row, "change_seq": one} for row, one in zip(rows, sequences, strict=True))
    again = replace(file, rows=rows)
    again_once, plain = [again], write_edit._delete_keys

    def rewritten(*given: Any) -> bool:
        deletes = plain(*given)
        if again_once:
            put(shop, again_once.pop())
        return deletes

    monkeypatch.setattr(write_edit, "_delete_keys", rewritten)
    applied(shop, file)
    assert tried == ["as read", "decoded"]
    shop.apply()
    assert values(shop) == expected, "the rows of the newest content"


def test_touched_days_are_those_of_old_and_new_rows(
    spark: SparkSession, tmp_path: Path, tried: list[str]
) -> None:
    columns = {"id": "long not null", "on": "date"}
    found = bench(tmp_path, {"columns": columns, "primary_key": ["id"]})
    types, clock = {"id": pa.int64(), "on": pa.date32()}, Clock()
    (target,) = found.lake.targets
    found.lake = replace(found.lake, targets=(replace(target, tracked=Tracked(days=("on",))),))
    applied(
        found, load_file("public.items", [{"id": n, "on": date(2026, 1, n)} for n in (1, 2, 3)]), types=types
    )
    rows = [clock.change("U", {"id": 1, "on": date(2026, 2, day)}) for day in (1, 2)]
    rows.append(clock.change("D", {"id": 3, "on": None}))
    applied(found, cdc_file("public.items", clock.now, rows), types=types)
    assert found.summary()[touched_property(TOUCHED_DAYS, "on")] == "2026-01-01,2026-01-03,2026-02-02"
    assert set(tried) == {"as read"}


def test_a_file_that_spark_spells_otherwise_is_decoded(shop: Bench, tried: list[str]) -> None:
    """The rows that were written are counted against those that were foreseen."""
    plain = RowMarks.chosen

    def elsewhere(marks: RowMarks, changes: DataFrame) -> DataFrame:
        is_as_read = tried[-1] == "as read"
        return plain(marks, changes.withColumn("_file", F.lit("file:/gone")) if is_as_read else changes)

    with patch.object(RowMarks, "chosen", elsewhere):
        batch = applied(shop, changed(Clock(), ("U", 1, "x"), ("I", 5, "e")))
    assert values(shop) == {1: "x", 2: "b", 3: "c", 4: "d", 5: "e"}
    assert (batch.rows_removed, tried) == (1, ["as read", "decoded"])


@pytest.mark.parametrize(
    ("declared", "by"),
    [
        ("int", "marks"),
        ("long", "hashes"),
        pytest.param("int", "hashes", marks=pytest.mark.long),
        pytest.param("long", "marks", marks=pytest.mark.long),
    ],
)
def test_only_the_keys_of_the_batch_are_deleted(
    spark: SparkSession,
    tmp_path: Path,
    tried: list[str],
    monkeypatch: pytest.MonkeyPatch,
    by: str,
    declared: str,
) -> None:
    """Keys are marked by bits of a range, or are hashed where that would take more memory."""
    if by == "hashes":
        monkeypatch.setattr(EditKeys, "bits", lambda *given: None)
    bits = 31 if declared == "int" else 63
    found = bench(tmp_path, {"columns": {"id": f"{declared} not null", "v": "string"}, "primary_key": ["id"]})
    clock, types = Clock(), {"id": pa.int32() if bits == 31 else pa.int64(), "v": pa.string()}
    ends = (-(2**bits), -(2**bits) + 1, 2**bits - 2, 2**bits - 1)
    applied(found, loaded(dict.fromkeys([*range(-200, 500), *ends], "old")), types=types)
    for deleted, updated in (
        ((-64, 63, 65), (0, 64)),
        ((), ends[:2]),
        ((), ends[2:]),
        ((ends[0], ends[3], -130, 129), (5, 300)),
    ):
        changes = [*(("D", key, "old") for key in deleted), *(("U", key, "new") for key in updated)]
        assert applied(found, changed(clock, *changes), types=types).rows_removed == len(changes)
        assert found.rows() == found.truth()
    assert set(tried) == {"as read"}
