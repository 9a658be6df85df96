"""Batches whose rows Arrow reads and this process holds: the same tables as if Spark had read the files.

Here: such batches with real files and tables, and which files Spark reads nevertheless. Not here: logs
(`test_held_logs.py`), which values of a CSV
file are decoded (`bronze/decode/`), the types of Parquet files
(`bronze/values/test_image_types.py`), random histories, of which a quarter run so (`soak`).
"""

from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from lake_assets.bronze.decode import files as decoding
from lake_assets.bronze.reader import staging
from lake_assets.silver.table.targets import Tracked
from lake_assets_tests.helpers.files.dms_files import NOON, Clock, cdc_file, load_file
from lake_assets_tests.helpers.files.held_batches import EVERY_TYPE, KEY, files_of, read_by
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.changed_shop import HOUR, ITEMS, changed, loaded, values
from lake_assets_tests.helpers.lakes.small_table import NEVER
from lake_assets_tests.helpers.oracles.masks import MASKING

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("with_the_changes_since")]
LATER = NOON + HOUR
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


@pytest.mark.parametrize(
    ("extension", "sections", "sequence"),
    [
        pytest.param("parquet", NEVER, "change_seq", id="parquet-marked"),
        pytest.param("csv", {}, None, id="csv-rewritten-by-commit-times", marks=pytest.mark.long),
        pytest.param("csv", NEVER, "change_seq", id="csv-marked", marks=pytest.mark.long),
        pytest.param("parquet", {}, None, id="parquet-rewritten-by-commit-times", marks=pytest.mark.long),
        pytest.param("csv", {}, "change_seq", id="csv-rewritten", marks=pytest.mark.long),
    ],
)
def test_the_same_table_and_figures(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    looks: list[int | None],
    extension: str,
    sections: dict[str, Any],
    sequence: str | None,
) -> None:
    found, staged = {}, []
    whole = staging.StagedTable.file
    columns = {name: declared for name, (declared, _) in EVERY_TYPE.items()}
    types = {name: kind for name, (_, kind) in EVERY_TYPE.items()}
    types |= {f"BI_{name}": types[name] for name in KEY}
    for way in ("process", "staged", "Spark"):
        (tmp_path / way).mkdir()
        table = {"columns": columns, "primary_key": KEY}
        dms = {"before_image_prefix": "BI_", "change_sequence_column": sequence}
        bench = Bench(tmp_path / way, {"public.items": table}, dms=dms, sections=sections)
        bench.tracked["items"] = Tracked(days=("on", "at"))
        seen = []
        staged.append(0)

        def counted(self: staging.StagedTable) -> Any:
            staged[-1] += 1
            return whole(self)

        monkeypatch.setattr(staging.StagedTable, "file", counted)
        for files in files_of(Clock(), extension):
            bench.put(*files, types=types)
            with read_by(way):
                (batch,) = bench.apply()["items"]
            assert bench.rows() == bench.truth()
            touched = {name: value for name, value in bench.summary().items() if "touched" in name}
            assert touched
            seen.append(({name: getattr(batch, name) for name in FIGURES}, touched, batch.rows))
        found[way] = seen
    assert found["process"] == found["staged"] == found["Spark"]
    assert looks == [2, 1, 2, 1, None, None]
    assert staged[0] == 0
    assert staged[1] > 4, "several files of a batch, for several tasks"
    assert not list(tmp_path.rglob(f"{staging.PREFIX}_*"))
    strategy = "delete_and_append" if sections else "rewrite"
    assert [figures["strategy"] for figures, _, _ in found["process"]] == ["overwrite", strategy]
    assert found["process"][1][0]["unseen_updates"] == 1


@pytest.mark.parametrize(
    ("extension", "dms", "table", "absent"),
    [
        pytest.param("csv", {"csv_no_sup_value": "?"}, {}, "?", id="marked"),
        pytest.param("csv", {}, {"kept_when_null": ["v"]}, None, id="null", marks=pytest.mark.long),
        pytest.param("parquet", {}, {"kept_when_null": ["v"]}, None, id="null-parquet"),
    ],
)
def test_a_batch_with_an_update_that_lacks_columns(
    spark: SparkSession,
    tmp_path: Path,
    looks: list[int | None],
    extension: str,
    dms: dict[str, Any],
    table: dict[str, Any],
    absent: str | None,
) -> None:
    """Its row keeps the others."""
    bench, clock = Bench(tmp_path, {"public.items": ITEMS | table}, dms=dms, sections=NEVER), Clock()

    def applied(*changes: tuple[str, int, str | None]) -> Any:
        rows = [clock.change(op, {"id": key, "v": v}) for op, key, v in changes]
        bench.put(
            cdc_file("public.items", clock.now + timedelta(minutes=1), rows, extension),
            types={"id": pa.int64(), "v": pa.string()},
        )
        (batch,) = bench.apply()["items"]
        return batch

    bench.put(load_file("public.items", [{"id": n, "v": "a"} for n in (1, 2, 3, 4)]))
    bench.apply()
    whole = applied(("U", 1, "b"), ("D", 2, None), ("I", 5, None))
    assert (looks[-1], whole.rows_removed, whole.rows_written) == (1, 2, 2)
    partial = applied(("U", 1, absent), ("U", 3, "c"))
    assert (looks[-1], partial.rows_removed, partial.rows_written) == (1, 2, 2)
    again = applied(("U", 1, "d"), ("U", 4, "e"))
    assert looks[-1] == 1
    assert again.rows_quarantined == partial.rows_quarantined == 0
    assert values(bench) == {1: "d", 3: "c", 4: "e", 5: None}


def test_changes_of_one_time_are_ordered_by_their_places(
    spark: SparkSession, tmp_path: Path, looks: list[int | None]
) -> None:
    """Without sequences, only the places of two changes of a row in one transaction say which is the last."""
    columns = {"id": "long not null", "v": "string"}
    tables = {"public.items": {"columns": columns, "primary_key": ["id"]}}
    bench, clock = Bench(tmp_path, tables, dms={"change_sequence_column": None}), Clock()
    bench.put(loaded({1: "a", 2: "b", 3: "c"}))
    bench.apply()
    changes = [
        clock.change("U", {"id": 1, "v": "first"}),
        clock.change("U", {"id": 2, "v": "other"}, same_transaction=True),
        clock.change("U", {"id": 1, "v": "last"}, same_transaction=True),
        clock.change("D", {"id": 3, "v": None}),
        clock.change("I", {"id": 3, "v": "again"}, same_transaction=True),
    ]
    bench.put(cdc_file("public.items", clock.now + timedelta(minutes=1), changes))
    bench.apply()
    assert values(bench) == {1: "last", 2: "other", 3: "again"}
    assert bench.rows() == bench.truth()
    assert looks == [1, 1]


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
    assert looks == [1, 1]


def test_a_batch_of_many_bytes_is_not_held(
    shop: Bench, looks: list[int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(LATER)
    shop.put(*(changed(clock, ("I", 100 + number, "new")) for number in range(64)))
    shop.apply()
    assert looks == [64], "many small files are"
    monkeypatch.setattr(decoding, "MOST_BYTES", 10)
    shop.put(changed(clock, ("U", 1, "x")))
    shop.apply()
    assert looks == [64, None]
    assert (len(values(shop)), values(shop)[1]) == (67, "x")
    assert shop.rows() == shop.truth()


@pytest.mark.parametrize("extension", ["csv.gz", "parquet", pytest.param("csv", marks=pytest.mark.long)])
def test_rows_that_take_much_memory_are_not_held(
    shop: Bench, looks: list[int | None], monkeypatch: pytest.MonkeyPatch, extension: str
) -> None:
    """However few bytes they are in the file."""
    clock = Clock(LATER)
    monkeypatch.setattr(decoding, "MOST_DECODED", 100_000)
    before = len(looks)
    for size in (10, 1_000_000):
        file = changed(clock, ("U", 1, "x" * size))
        file = replace(file, key=file.key.replace(".csv", f".{extension}"))
        shop.put(file, types={"id": pa.int64(), "v": pa.string()})
        shop.apply()
        assert shop.rows() == shop.truth()
    assert looks[before:] == [1, None]


@pytest.mark.parametrize(
    ("extension", "way"),
    [
        ("csv", "process"),
        ("parquet", "staged"),
        pytest.param("csv", "Spark", marks=pytest.mark.long),
        pytest.param("csv", "staged", marks=pytest.mark.long),
        pytest.param("parquet", "process", marks=pytest.mark.long),
        pytest.param("parquet", "Spark", marks=pytest.mark.long),
    ],
)
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
    folders = (tmp_path / "warehouse").rglob(f"*{staging.PREFIX}*")
    files = [path for folder in folders for path in folder.rglob("*.parquet") if path.stat().st_size]
    left = [pq.read_table(path).to_pylist() for path in files]
    assert bool(left) == (way != "process")
    assert "a@example.org" not in str(left)


@pytest.mark.parametrize("way", ["process", pytest.param("Spark", marks=pytest.mark.long)])
def test_keys_of_any_name(spark: SparkSession, tmp_path: Path, looks: list[int | None], way: str) -> None:
    keys = {
        f"public.{name.strip('_')}": [name] for name in ("_op", "_commit_ts", "_sequence", "_old_0", "_key_1")
    }
    keys["public.items"] = ["id", "_old_0"]
    tables = {
        name: {"columns": dict.fromkeys(key, "string not null") | {"v": "string"}, "primary_key": key}
        for name, key in keys.items()
    }
    bench, clock = Bench(tmp_path, tables, dms={"before_image_prefix": "BI_"}), Clock()
    for name, key in keys.items():

        def named(text: str, v: str | None = None, key: list[str] = key) -> dict[str, Any]:
            return dict.fromkeys(key, text) | ({"v": v} if v else {})

        bench.put(load_file(name, [named("a", "1"), named("b", "2")]))
        changes = [
            clock.change("U", named("a", "3")),
            clock.change("I", named("c", "4")),
            clock.change("U", named("a", "5")),
            clock.change("D", named("b", "2")),
            clock.change("U", named("z", "6"), named("c")),
        ]
        bench.put(cdc_file(name, clock.now + timedelta(minutes=1), changes))
    with read_by(way):
        bench.apply()
    for name, key in keys.items():
        rows = bench.stored(name.removeprefix("public."))
        assert {row[key[0]]: row["v"] for row in rows} == {"a": "5", "z": "6"}, name
    assert looks == [None if way == "Spark" else 2] * len(keys)


@pytest.mark.parametrize("key", ["long", pytest.param("string", marks=pytest.mark.long)])
def test_a_full_load_whose_keys_repeat(
    spark: SparkSession, tmp_path: Path, looks: list[int | None], key: str
) -> None:
    bench = Bench(tmp_path, {"public.items": {**ITEMS, "columns": {"id": f"{key} not null", "v": "string"}}})
    numbers = (1, 2, 3) if key == "long" else ("x", "y", "z")
    parts = [[{"id": number, "v": "a"} for number in some] for some in (numbers, numbers[:1])]
    bench.put(*(load_file("public.items", rows, part) for part, rows in enumerate(parts, 1)))
    (batch,) = bench.apply()["items"]
    assert looks == [2]
    assert (batch.rows_read, batch.rows) == (4, 3)
    assert bench.rows() == bench.truth()
