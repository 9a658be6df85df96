"""Batches whose rows Arrow reads and this process holds: the same tables as if Spark had read the files.

Here: such batches with real files and tables, and which files Spark reads nevertheless. Not here: which values of a CSV
file are decoded (`bronze/checked/test_csv_columns.py`), the types of Parquet files
(`bronze/checked/test_image_types.py`), random histories, of which a quarter run so (`soak`).
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from lake_assets.bronze.checked import held_rows, staging
from lake_assets.silver.apply import apply_batch, turn
from lake_assets.silver.changes import held, reading
from lake_assets.silver.write import append_only_tables
from lake_assets.silver.write.batch import BatchResult
from lake_assets.silver.write.current import foreseen, upsert
from lake_assets_tests.helpers.files.dms_files import Clock, DmsFile, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.changed_shop import ITEMS, changed, loaded, values
from lake_assets_tests.helpers.lakes.small_table import NEVER
from lake_assets_tests.helpers.oracles.masks import MASKING

pytestmark = pytest.mark.spark
EVERY_TYPE = {
    "id": ("int not null", pa.int32()),
    "part.no": ("string not null", pa.string()),
    "_tombstone": ("string", pa.string()),
    "n": ("long", pa.int64()),
    "ok": ("boolean", pa.bool_()),
    "price": ("decimal(12, 2)", pa.decimal128(12, 2)),
    "weight": ("float", pa.float32()),
    "score": ("double", pa.float64()),
    "on": ("date", pa.date32()),
    "wall": ("timestamp", pa.timestamp("us")),
    "at": ("timestamptz", pa.timestamp("us", "UTC")),
}
KEY = ["id", "part.no"]
FIGURES = (
    "kind",
    "strategy",
    "rows_read",
    "by_op",
    "keys",
    "rows_written",
    "rows_removed",
    "rows_before",
    "unseen_updates",
    "min_sequence",
)


@pytest.fixture(autouse=True)
def with_the_changes_since(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full load and the changes since are one batch, as outside of tests."""
    monkeypatch.setattr(turn, "SMALL_LOAD", reading.LARGE)


@contextmanager
def read_by(way: str) -> Iterator[None]:
    """`process`: rows are held, and few go to Spark with its plan; `staged`: as many do, as files; `Spark`: as of
    batches that are too large to be held; `steps`: computed before they are written."""
    most = held_rows.MOST_BYTES if way in ("process", "staged") else -1
    in_plan = 0 if way == "staged" else held.IN_PLAN_ROWS
    found = foreseen.foreseen if way != "steps" else lambda *given: None
    with (
        patch.object(held_rows, "MOST_BYTES", most),
        patch.object(held, "IN_PLAN_ROWS", in_plan),
        patch.object(held, "ROWS_OF_A_TASK", 1),
        patch.object(upsert, "foreseen", found),
    ):
        yield


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """For each look at the files of a batch, the number of held files; None where Spark had to read them."""
    found: list[int | None] = []
    whole = held_rows.held_files

    def look(*given: Any, **more: Any) -> Any:
        result = whole(*given, **more)
        found.append(None if result is None else len(result))
        return result

    monkeypatch.setattr(held_rows, "held_files", look)
    return found


def image(number: int, version: int, **more: Any) -> dict[str, Any]:
    at = datetime(2026, 2, 27 + version % 2, 23, 59, 59, 999_999, UTC)
    return {
        "id": number,
        "part.no": f'p "{number}",\n',
        "_tombstone": ["", "NULL?", None][version % 3],
        "n": None if version == 2 else -(2**63) + version,
        "ok": [True, False, None][version % 3],
        "price": Decimal(f"-{version}.50"),
        "weight": 0.5 + version,
        "score": 1e300 / (version + 1),
        "on": date(1, 1, 1) + timedelta(days=version),
        "wall": at.replace(tzinfo=None),
        "at": at,
    } | more


def key_of(number: int) -> dict[str, Any]:
    return {"id": number, "part.no": f'p "{number}",\n'}


def files_of(clock: Clock, extension: str) -> list[list[DmsFile]]:
    """Batches: a full load with the changes since, then changes, among them of rows that are not there, and rows that
    move from key to key."""
    load = load_file("public.items", [image(n, 0) for n in range(5)], extension=extension)
    first = [clock.change("U", image(1, 1)), clock.change("D", image(2, 0)), clock.change("I", image(7, 2))]
    since = cdc_file("public.items", clock.now + timedelta(minutes=1), first, extension)
    clock.now += timedelta(minutes=2)
    gone = [dict.fromkeys(EVERY_TYPE) | key_of(number) for number in (3, 8)]
    second = [
        clock.change("U", image(1, 3)),
        clock.change("D", gone[0]),
        clock.change("I", image(3, 4)),
        clock.change("U", image(9, 1)),
        clock.change("D", gone[1]),
        clock.change("I", image(5, 1)),
        clock.change("D", image(4, 0)),
        clock.change("U", image(1, 5), key_of(1)),
        clock.change("U", image(10, 1), key_of(0)),
        clock.change("U", image(11, 2), key_of(10)),
        clock.change("U", image(7, 3, **{"part.no": "moved"}), {"part.no": 'p "7",\n'}),
        clock.change("U", image(21, 4), key_of(20)),
        clock.change("D", image(21, 4)),
    ]
    return [[load, since], [cdc_file("public.items", clock.now + timedelta(minutes=1), second, extension)]]


@pytest.mark.parametrize("sections", [{}, NEVER], ids=["rewritten", "marked"])
@pytest.mark.parametrize("extension", ["csv", "parquet"])
def test_the_same_table_and_figures(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    looks: list[int | None],
    extension: str,
    sections: dict[str, Any],
) -> None:
    found, staged = {}, []
    whole = staging.Staging.file
    columns = {name: declared for name, (declared, _) in EVERY_TYPE.items()}
    types = {name: kind for name, (_, kind) in EVERY_TYPE.items()}
    types |= {f"BI_{name}": types[name] for name in KEY}
    for way in ("process", "staged", "Spark", "steps"):
        (tmp_path / way).mkdir()
        table = {"columns": columns, "primary_key": KEY}
        dms = {"before_image_prefix": "BI_"}
        bench = Bench(tmp_path / way, {"public.items": table}, dms=dms, sections=sections)
        bench.tracked = {"items": ("on", "at")}
        seen = []
        staged.append(0)

        def counted(self: staging.Staging) -> Any:
            staged[-1] += 1
            return whole(self)

        monkeypatch.setattr(staging.Staging, "file", counted)
        for files in files_of(Clock(), extension):
            bench.put(*files, types=types)
            with read_by(way):
                (batch,) = bench.apply()["items"]
            assert bench.rows() == bench.truth()
            touched = {name: value for name, value in bench.summary().items() if "touched" in name}
            assert touched
            seen.append(({name: getattr(batch, name) for name in FIGURES}, touched, batch.rows))
        found[way] = seen
    assert found["process"] == found["staged"] == found["Spark"] == found["steps"]
    assert looks == [2, 1] * 2
    assert staged[0] == 0
    assert staged[1] > 4, "several files of a batch, for several tasks"
    assert not list(tmp_path.rglob(f"{staging.PREFIX}*"))
    strategy = "delete_and_append" if sections else "rewrite"
    assert [figures["strategy"] for figures, _, _ in found["process"]] == ["overwrite", strategy]
    assert found["process"][1][0]["unseen_updates"] == 1


def test_what_spark_has_to_read(spark: SparkSession, tmp_path: Path, looks: list[int | None]) -> None:
    """Each file alone is read by Spark; the rows are those of the source, and what is unusable is set aside."""
    columns = {"id": "long not null", "v": "string", "n": "int", "need": "string not null"}
    bench, clock = Bench(tmp_path, {"public.items": {"columns": columns, "primary_key": ["id"]}}), Clock()
    row = {"v": "a", "n": 1, "need": "x"}
    bench.put(load_file("public.items", [{"id": 1, **row}]))
    bench.apply()
    cases: dict[str, tuple[dict[str, Any], int]] = {
        "usual": ({"id": 2, **row}, 0),
        "another spelling of a number": ({"id": 3, **row, "n": " 7"}, 0),
        "a carriage return": ({"id": 4, **row, "v": "a\rb"}, 0),
        "no number": ({"id": 5, **row, "n": "seven"}, 1),
        "a required value is missing": ({"id": 6, **row, "need": None}, 1),
    }
    quarantined = 0
    for name, (values_of, bad) in cases.items():
        bench.put(cdc_file("public.items", clock.now + timedelta(minutes=1), [clock.change("I", values_of)]))
        (batch,) = bench.apply()["items"]
        quarantined += bad
        assert batch.rows_quarantined == bad, name
        assert (looks[-1] is None) == (name != "usual"), name
    assert values(bench) == {1: "a", 2: "a", 3: "a", 4: "a\rb"}
    assert len(bench.lake.runtime.quarantine.open("silver_shop.items")) == quarantined == 2


def test_a_delete_needs_its_key_only(spark: SparkSession, tmp_path: Path, looks: list[int | None]) -> None:
    columns = {"id": "long not null", "v": "string not null"}
    bench, clock = Bench(tmp_path, {"public.items": {"columns": columns, "primary_key": ["id"]}}), Clock()
    bench.put(loaded({1: "a", 2: "b"}))
    bench.apply()
    gone = clock.change("D", {"id": 1, "v": None})
    bench.put(cdc_file("public.items", clock.now + timedelta(minutes=1), [gone]))
    bench.apply()
    assert values(bench) == {2: "b"}
    assert looks == [1, 1]


def test_text_that_is_not_utf_8(spark: SparkSession, tmp_path: Path, looks: list[int | None]) -> None:
    bench, clock = Bench(tmp_path, {"public.items": ITEMS}), Clock()
    bench.put(loaded({1: "a"}))
    bench.apply()
    file = changed(clock, ("U", 1, "x"), ("I", 2, "y"))
    file = replace(file, key=file.key.replace(".csv", ".parquet"))
    bench.put(file, types={"id": pa.int64(), "v": pa.string()})
    path = tmp_path / "bronze" / file.key
    rows = pq.read_table(path)
    place = rows.column_names.index("v")
    pq.write_table(rows.set_column(place, "v", pa.array([b"x", b"\xff"]).view(pa.string())), path)
    (batch,) = bench.apply()["items"]
    assert (values(bench), batch.rows_quarantined) == ({1: "x"}, 1)
    assert looks[-1] is None


def test_a_key_that_moves_in_the_transaction_in_which_it_arrived(
    spark: SparkSession, tmp_path: Path, looks: list[int | None]
) -> None:
    bench = Bench(tmp_path, {"public.items": ITEMS}, dms={"before_image_prefix": "BI_"})
    clock = Clock()
    bench.put(loaded({1: "a", 2: "b"}))
    bench.apply()
    moves = [
        clock.change("U", {"id": 2, "v": "a"}, {"id": 1}),
        clock.change("U", {"id": 3, "v": "b"}, {"id": 2}, same_transaction=True),
    ]
    bench.put(cdc_file("public.items", clock.now + timedelta(minutes=1), moves))
    bench.apply()
    assert values(bench) == {2: "a", 3: "b"}, "key 2 had two rows for a moment"
    assert looks == [1, 1, 1], "the batch is read again to follow the rows of that key"


def test_a_batch_of_many_bytes_or_files_is_not_held(
    spark: SparkSession, tmp_path: Path, looks: list[int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, clock = Bench(tmp_path, {"public.items": ITEMS}), Clock()
    bench.put(loaded({1: "a"}))
    bench.apply()
    bench.put(*(changed(clock, ("I", 100 + number, "new")) for number in range(64)))
    bench.apply()
    assert looks == [1, None], "Arrow takes longer to begin so many files than to read them"
    monkeypatch.setattr(held_rows, "MOST_BYTES", 10)
    bench.put(changed(clock, ("U", 1, "x")))
    bench.apply()
    assert looks == [1, None]
    assert (len(values(bench)), values(bench)[1]) == (65, "x")
    assert bench.rows() == bench.truth()


@pytest.mark.parametrize("extension", ["csv", "csv.gz", "parquet"])
def test_rows_that_take_much_memory_are_not_held(
    spark: SparkSession,
    tmp_path: Path,
    looks: list[int | None],
    monkeypatch: pytest.MonkeyPatch,
    extension: str,
) -> None:
    """However few bytes they are in the file."""
    bench, clock = Bench(tmp_path, {"public.items": ITEMS}), Clock()
    bench.put(loaded({1: "a"}))
    bench.apply()
    monkeypatch.setattr(held_rows, "MOST_HELD", 100_000)
    for size, expected in ((10, 1), (1_000_000, None)):
        file = changed(clock, ("U", 1, "x" * size))
        file = replace(file, key=file.key.replace(".csv", f".{extension}"))
        bench.put(file, types={"id": pa.int64(), "v": pa.string()})
        bench.apply()
        assert bench.rows() == bench.truth()
        assert looks[-1] == expected


def test_many_rows_without_a_place_for_them(
    spark: SparkSession, tmp_path: Path, looks: list[int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark reads the files where it could not read staged ones: the tables are in a bucket that only Iceberg reads."""
    bench, clock = Bench(tmp_path, {"public.items": ITEMS}, sections=NEVER), Clock()
    bench.put(loaded({1: "a"}))
    bench.apply()
    monkeypatch.setattr(apply_batch, "_staging", lambda context: nullcontext())
    reasons = []
    for most in (held.IN_PLAN_BYTES, 10):
        monkeypatch.setattr(held, "IN_PLAN_BYTES", most)
        bench.put(changed(clock, ("U", 1, f"x {most}")))
        (batch,) = bench.apply()["items"]
        assert bench.rows() == bench.truth()
        reasons.append("foresee" in batch.reason)
    assert looks == [1, 1, 1]
    assert reasons == [True, False]


@pytest.mark.parametrize("way", ["process", "staged", "Spark"])
@pytest.mark.parametrize("extension", ["csv", "parquet"])
def test_masked_columns(
    spark: SparkSession,
    tmp_path: Path,
    looks: list[int | None],
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    extension: str,
) -> None:
    monkeypatch.setattr(staging.Staging, "clear", lambda self: None)
    columns = {"id": "long not null", "mail": "string not null", "name": "string", "born": "date"}
    masks = {"mail": "hash", "name": "redact", "born": None}
    table = {"columns": columns, "primary_key": ["id"], "mask": masks}
    bench, clock = Bench(tmp_path, {"public.items": table}, sections=MASKING), Clock()
    mails = ["a@example.org", "ä\n", "", "a@example.org"]
    rows = [
        {"id": n, "mail": mail, "name": [None, "N. N."][n % 2], "born": date(2000, 1, 1)}
        for n, mail in enumerate(mails)
    ]
    types = {"id": pa.int64(), "mail": pa.string(), "name": pa.string(), "born": pa.date32()}
    bench.put(load_file("public.items", rows, extension=extension), types=types)
    with read_by(way):
        bench.apply()
        changes = [clock.change("U", rows[0] | {"mail": "new"}), clock.change("D", rows[1])]
        later = cdc_file("public.items", clock.now + timedelta(minutes=1), changes, extension)
        bench.put(later, types=types)
        bench.apply()
    assert bench.rows() == bench.truth()
    assert bench.stored_by_id("name") == {0: None, 2: None, 3: "***"}
    assert looks == ([1, 1] if way != "Spark" else [])
    left = [pq.read_table(path).to_pylist() for path in (tmp_path / "warehouse").rglob(f"*{staging.PREFIX}*")]
    assert bool(left) == (way == "staged")
    assert "a@example.org" not in str(left)


@pytest.mark.parametrize("way", ["process", "staged", "Spark"])
@pytest.mark.parametrize("extension", ["csv", "parquet"])
def test_a_change_log(
    spark: SparkSession, tmp_path: Path, looks: list[int | None], extension: str, way: str
) -> None:
    columns = {name: declared for name, (declared, _) in EVERY_TYPE.items()}
    types = {name: kind for name, (_, kind) in EVERY_TYPE.items()}
    types |= {f"BI_{name}": types[name] for name in KEY}
    table = {"columns": columns, "primary_key": KEY, "mode": "change_log", "mask": {"_tombstone": "hash"}}
    bench = Bench(tmp_path, {"public.items": table}, dms={"before_image_prefix": "BI_"}, sections=MASKING)
    for files in files_of(Clock(), extension):
        bench.put(*files, types=types)
        with read_by(way):
            (batch,) = bench.apply()["items"]
        assert bench.rows() == bench.truth(shape="change_log")
        assert batch.rows_written == batch.rows_read
    assert looks == ([] if way == "Spark" else [1])
    assert not list(tmp_path.rglob(f"{staging.PREFIX}*"))


def test_changes_of_a_log_that_come_again(
    spark: SparkSession, tmp_path: Path, looks: list[int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the same batch, and in a later one."""
    compared: list[int] = []
    each_once = append_only_tables.each_once

    def counted(rows: DataFrame) -> DataFrame:
        compared.append(1)
        return each_once(rows)

    monkeypatch.setattr(append_only_tables, "each_once", counted)
    bench, clock = Bench(tmp_path, {"public.items": {**ITEMS, "mode": "change_log"}}), Clock()
    bench.put(loaded({1: "a"}))
    bench.apply()

    def put(*files: list[dict[str, Any]]) -> BatchResult:
        for rows in files:
            clock.now += timedelta(minutes=1)
            bench.put(cdc_file("public.items", clock.now, rows))
        (batch,) = bench.apply()["items"]
        assert bench.rows() == bench.truth(shape="change_log")
        return batch

    first, second = ([clock.change("I", {"id": n, "v": "x"}) for n in range(at, at + 3)] for at in (10, 20))
    assert put(first).rows_written == 3
    assert (looks[-1], compared) == (1, [])
    assert put(second, second[1:]).rows_written == 3
    assert put(first[1:]).rows_written == 0
    assert len(compared) == 2
    third = [clock.change("D", {"id": 20, "v": "x"}), clock.change("I", {"id": 31, "v": "y"})]
    assert put(third[:1], third[1:]).rows_written == 2
    assert len(compared) == 2, "each change has a sequence of its own, after every applied one"


def test_a_log_of_inserts(spark: SparkSession, tmp_path: Path, looks: list[int | None]) -> None:
    table = {"columns": {"id": "long", "v": "string"}, "mode": "append_log"}
    bench, clock = Bench(tmp_path, {"public.items": table}), Clock()
    rows = [clock.change("I", {"id": n % 2, "v": [None, "", "x"][n % 3]}) for n in range(6)]
    bench.put(cdc_file("public.items", clock.now + timedelta(minutes=1), rows))
    bench.apply()
    clock.now += timedelta(minutes=2)
    bench.put(
        cdc_file("public.items", clock.now + timedelta(minutes=1), [clock.change("I", {"id": 1, "v": "x"})])
    )
    (batch,) = bench.apply()["items"]
    assert bench.rows() == bench.truth(shape="append_log")
    assert (batch.strategy, batch.rows_written, batch.rows, looks[-1]) == ("append", 1, 7, 1)
    clock.now += timedelta(minutes=2)
    bench.put(
        cdc_file("public.items", clock.now + timedelta(minutes=1), [clock.change("U", {"id": 1, "v": "y"})])
    )
    assert "an append_log cannot express that" in str(bench.turn()["items"].error)


@pytest.mark.parametrize("way", ["process", "Spark"])
@pytest.mark.parametrize(
    "key", [["id", "_old_0"], ["_op"], ["_commit_ts"], ["_sequence"], ["_old_0"], ["_key_1"]]
)
def test_keys_of_any_name(
    spark: SparkSession, tmp_path: Path, looks: list[int | None], key: list[str], way: str
) -> None:
    columns = dict.fromkeys(key, "string not null") | {"v": "string"}
    table = {"columns": columns, "primary_key": key}
    bench, clock = Bench(tmp_path, {"public.items": table}, dms={"before_image_prefix": "BI_"}), Clock()

    def named(text: str, v: str | None = None) -> dict[str, Any]:
        return dict.fromkeys(key, text) | ({"v": v} if v else {})

    bench.put(load_file("public.items", [named("a", "1"), named("b", "2")]))
    changes = [
        clock.change("U", named("a", "3")),
        clock.change("I", named("c", "4")),
        clock.change("U", named("a", "5")),
        clock.change("D", named("b", "2")),
        clock.change("U", named("z", "6"), named("c")),
    ]
    bench.put(cdc_file("public.items", clock.now + timedelta(minutes=1), changes))
    with read_by(way):
        bench.apply()
    assert {row[key[0]]: row["v"] for row in bench.stored()} == {"a": "5", "z": "6"}
    assert looks == ([] if way == "Spark" else [2])
