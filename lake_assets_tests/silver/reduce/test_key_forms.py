"""Files under every form of key, and under settings of one table's own, become silver.

Here: forms of keys through the whole engine. Not here: what a key says (`bronze/files/test_keys.py`), other settings
(`test_formats.py`).
"""

import gzip
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lake_assets_tests.helpers.files.dms_files import NOON, Clock, DmsFile, cdc_file, load_file, parquet_bytes
from lake_assets_tests.helpers.lakes.bench import Bench

pytestmark = pytest.mark.spark

COLUMNS = {"id": "long not null", "name": "string"}
ITEMS = {"columns": COLUMNS, "primary_key": ["id"]}


def rows(*keys: int, name: str = "loaded") -> list[dict[str, Any]]:
    return [{"id": key, "name": f"{name} {key}"} for key in keys]


def part(key: str, *keys: int, name: str = "loaded") -> DmsFile:
    """A part of a full load under a key of one's choice."""
    return DmsFile(key, load_file("public.items", rows(*keys, name=name)).rows)


def test_a_parallel_load_in_folders_and_segments(spark: SparkSession, tmp_path: Path) -> None:
    """All parts are one load, the same counter in two folders two files; a reload of all parts replaces the table."""
    bench = Bench(tmp_path, {"public.items": ITEMS})
    keys = [
        "public/items/LOAD00000010.csv",
        "public/items/p0/LOAD00000001.csv",
        "public/items/region=eu west/LOAD00000001.csv.gz",
        "public/items/SEGMENT1_LOAD00000001.csv",
        "public/items/SEGMENT2_LOAD00000001.csv",
    ]
    bench.put(*(part(key, number, number + 100) for number, key in enumerate(keys)))
    c = Clock()
    changes = [c.change("U", {"id": 1, "name": "changed"}), c.change("D", {"id": 102})]
    bench.put(cdc_file("public.items", c.now + timedelta(seconds=60), changes))
    batches = bench.apply()["items"]
    assert (sum(batch.files for batch in batches), batches[-1].rows) == (6, 9)
    assert bench.rows() == bench.truth()
    changed = bench.files("public.items").pop()
    bench.bucket.clear()
    later = NOON + timedelta(hours=1)
    for number, key in enumerate(keys):
        reloaded = load_file("public.items", rows(number, name="again"), at=later)
        bench.put(DmsFile(key, reloaded.rows))
    bench.bucket[changed.key] = changed
    bench.apply()
    assert bench.rows() == bench.truth()
    assert len(bench.rows()) == len(keys)


def test_parquet_under_gzip(spark: SparkSession, tmp_path: Path) -> None:
    """Parquet's pages are gzipped, whatever the name ends in; a file gzipped as a whole stops its table and says so."""
    bench = Bench(tmp_path, {"public.items": ITEMS, "public.others": ITEMS}, {"data_format": "parquet"})
    types = {"id": pa.int64()}

    def put(file: DmsFile, folder: str) -> Path:
        content = parquet_bytes(file, list(COLUMNS), ["id"], bench.dms, types)
        path = tmp_path / "bronze" / folder / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    c = Clock()
    files = [
        part("public/items/LOAD00000001.parquet.gz", 1, 2, 3),
        part("public/items/LOAD00000002.parquet", 4),
        cdc_file("public.items", c.now + timedelta(seconds=60), [c.change("D", {"id": 2})], "parquet.gz"),
    ]
    for file in files:
        put(file, "public/items")
        bench.bucket[file.key] = file
    whole = put(files[0], "public/others")
    whole.write_bytes(gzip.compress(whole.read_bytes()))
    results = bench.turn()
    assert results["items"].error is None
    assert bench.rows() == bench.truth()
    assert "public/others/LOAD00000001.parquet.gz cannot be read: it is gzipped as a whole" in str(
        results["others"].error
    )


def test_names_with_every_letter(spark: SparkSession, tmp_path: Path) -> None:
    """A key of a listing is not encoded, and neither is what Spark opens."""
    name = "my schema.a b+c%20=d é😀#?[x]"
    bench = Bench(tmp_path, {name: {**ITEMS, "name": "items"}})
    c = Clock()
    folder = name.replace(".", "/")
    bench.put(DmsFile(f"{folder}/LOAD00000001.csv", load_file(name, rows(1, 2)).rows))
    bench.put(DmsFile(f"{folder}/p=1 %41/LOAD00000001.csv", load_file(name, rows(3)).rows))
    bench.put(cdc_file(name, c.now + timedelta(seconds=60), [c.change("D", {"id": 1})]))
    bench.apply()
    assert bench.rows() == bench.truth(name)
    assert len(bench.rows()) == 2


def test_a_folder_in_another_case(spark: SparkSession, tmp_path: Path) -> None:
    """Oracle's folders are in capitals; the table is called as configured."""
    bench = Bench(tmp_path, {"public.items": ITEMS}, source={"ignore_case": True})
    bench.put_text("PUBLIC/ITEMS/LOAD00000001.csv", "Op,commit_ts,id,name", "I,2026-03-01 12:00:00,1,a")
    bench.put_text("PUBLIC/ITEMS/20260301-120500000.csv", "Op,commit_ts,id,name", "U,2026-03-01 12:01:00,1,b")
    bench.apply()
    assert bench.stored() == [{"id": 1, "name": "b"}]


@pytest.mark.long
def test_settings_of_one_tables_own(spark: SparkSession, tmp_path: Path) -> None:
    """Beside tables of the source's settings: another writer's words for the operation, an endpoint that only inserts
    and says no operation, and one that does not say which of insert and update."""
    plain = {"add_column_name": False, "include_op_for_full_load": False, "before_image_prefix": None}
    other_words = {"operation_column": "action", "operations": {"INSERT": "I", "UPDATE": "U", "DELETE": "D"}}
    silent = {**plain, "change_sequence_column": None, "cdc_inserts_and_updates": True, "op_in_cdc": False}
    bench = Bench(
        tmp_path,
        {
            "public.items": ITEMS,
            "public.acted": {**ITEMS, "dms": other_words},
            "public.inserted": {
                **ITEMS,
                "dms": {**plain, "cdc_inserts_only": True, "added_columns": ["region"]},
                "mode": "append_log",
            },
            "public.upserted": {**ITEMS, "never": ["deleted"], "dms": silent},
        },
    )
    c = Clock()
    bench.put(load_file("public.items", rows(1)))
    bench.put(cdc_file("public.items", c.now + timedelta(seconds=60), [c.change("D", {"id": 1})]))
    at = "2026-03-01 12:00"
    header = "action,commit_ts,id,name"
    bench.put_text("public/acted/LOAD00000001.csv", header, f"INSERT,{at}:00,1,a", f"I,{at}:00,2,b")
    bench.put_text("public/acted/20260301-120500000.csv", header, f"UPDATE,{at}:01,1,c", f"DELETE,{at}:01,2,")
    bench.put_text("public/inserted/LOAD00000001.csv", f"{at}:00,1,a,20260301,eu")
    sequence = "2026030112000100" + "1" * 19
    bench.put_text("public/inserted/20260301-120500000.csv", f"{at}:01,2,b,{sequence},eu")
    bench.put_text("public/upserted/LOAD00000001.csv", f"{at}:00,1,a", f"{at}:00,2,b")
    bench.put_text("public/upserted/20260301-120500000.csv", f"{at}:01,1,c", f"{at}:02,3,d")
    results = bench.apply()
    silver = {name: sorted((row["id"], row["name"]) for row in bench.stored(name)) for name in results}
    assert silver == {
        "items": [],
        "acted": [(1, "c")],
        "inserted": [(1, "a"), (2, "b")],
        "upserted": [(1, "c"), (2, "b"), (3, "d")],
    }
    seen = {
        name: {op: sum(batch.by_op[op] for batch in batches) for op in "IUD"}
        for name, batches in results.items()
    }
    assert seen["acted"] == {"I": 2, "U": 1, "D": 1}
    assert seen["upserted"] == {"I": 2, "U": 2, "D": 0}
